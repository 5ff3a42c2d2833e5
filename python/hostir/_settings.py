"""Arguments of proofs and runs, checked before the extension sees them: what is wrong is told with the argument's name."""

from __future__ import annotations

import operator
import os
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hostir import _native

__all__ = ["read_machine", "read_mapping", "read_number", "read_shapes", "read_sizes", "read_timeout"]

MOST_RANKS = 2**32 - 1
MOST_SEED = 2**64 - 1
MOST_SIZE = 2**63 - 1


def read_number(argument: str, value: Any, most: int) -> int:
    """A whole number from 0 to `most`. True and False are none."""
    number = _count(value)
    if number is None or not 0 <= number <= most:
        _refuse(f"`{argument}` is {_shown(value)}, but needs a whole number from 0 to {most}", f"write `{argument}=4`")
    return number


def read_mapping(argument: str, value: Any, example: str) -> dict[str, Any]:
    """A mapping by name; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        message = f"`{argument}` is of type {type(value).__name__}, but needs a mapping by name"
        _refuse(message, f"write `{argument}={example}`")
    return {str(name): found for name, found in value.items()}


def read_sizes(value: Any) -> dict[str, int | float]:
    """Extents and scalar inputs by name."""
    sizes = read_mapping("sizes", value, '{"n": 8}')
    return {name: _scalar(name, found) for name, found in sizes.items()}


def read_shapes(value: Any) -> dict[str, list[int]]:
    """Shapes by name."""
    shapes = read_mapping("shapes", value, '{"x": (4, 8)}')
    return {name: _shape(name, found) for name, found in shapes.items()}


def read_machine(value: Any) -> str | None:
    """The name of a built-in machine, or the path of a file."""
    try:
        return None if value is None else os.fsdecode(value)
    except TypeError:
        message = f"`machine` is {_shown(value)}, but needs the name of a machine or the path of a file"
        _refuse(message, 'write `machine="h100x4"`')


def read_timeout(value: Any) -> float | None:
    """Seconds; None, as infinity, is no limit."""
    seconds = None if value is None or isinstance(value, bool) else _float(value)
    if value is not None and (seconds is None or not seconds >= 0):
        message = f"`timeout` is {_shown(value)}, but needs a number of seconds that is not negative"
        _refuse(message, "without a limit: `timeout=None`")
    return seconds


def _scalar(name: str, value: Any) -> int | float:
    number = _index(value)
    found = _float(value) if number is None else number
    if found is None:
        _refuse(f'`sizes["{name}"]` is {_shown(value)}, but needs a number', f'write `sizes={{"{name}": 8}}`')
    if number is not None and not -MOST_SIZE - 1 <= number <= MOST_SIZE:
        message = f'`sizes["{name}"]` is {number}, but needs an integer of 64 bits'
        _refuse(message, f"integers are from {-MOST_SIZE - 1} to {MOST_SIZE}")
    return found


def _shape(name: str, value: Any) -> list[int]:
    argument = f'shapes["{name}"]'
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        number = _count(value)
        one = 8 if number is None else number
        message = f"`{argument}` is {_shown(value)}, but needs a sequence of extents"
        _refuse(message, f'a shape of one axis is `shapes={{"{name}": ({one},)}}`')
    extents = [_count(extent) for extent in value]
    for at, extent in enumerate(extents):
        if extent is None or not 0 <= extent <= MOST_SIZE:
            message = f"`{argument}` is {_shown(value)}, of which axis {at} is no extent"
            _refuse(message, f"extents are whole numbers from 0 to {MOST_SIZE}")
    return [extent for extent in extents if extent is not None]


def _count(value: Any) -> int | None:
    """A number of things, which True is not."""
    return None if isinstance(value, bool) else _index(value)


def _index(value: Any) -> int | None:
    try:
        return operator.index(value)
    except TypeError:
        return None


def _float(value: Any) -> float | None:
    # `float` reads texts, too.
    if isinstance(value, (str, bytes, bytearray)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _shown(value: Any) -> str:
    return reprlib.repr(value).replace("\n", " ")


def _refuse(message: str, note: str) -> NoReturn:
    _native.raise_error("H0610", message, note)
