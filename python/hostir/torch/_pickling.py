"""Pickled ops: the place in a module where the process that reads them finds the op."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, Protocol

__all__ = ["find_module_place", "importable_op"]


class _Op(Protocol):
    name: str
    body: Callable[..., Any]


def find_module_place(made: _Op) -> tuple[str, str]:
    """The module of an op and its name there: that of its function, or another one at the module's level."""
    module, path = made.body.__module__, made.body.__qualname__
    if _value_at(sys.modules.get(module), path) is made:
        return module, path
    for name, value in list(vars(sys.modules.get(module, object)).items()):
        if value is made:
            return module, name
    raise pickle.PicklingError(
        f"{made.name} cannot be pickled: `{module}` does not have it. Make the op at the level of a module, where "
        "another process finds it by import."
    )


def importable_op(name: str, module: str, path: str) -> Any:
    """The op of a name, which a module has at a place; pickles call this."""
    try:
        found = _value_at(import_module(module), path)
    except ImportError as error:
        raise pickle.UnpicklingError(_describe_absence(name, module, path, str(error))) from error
    if getattr(found, "name", None) != name:
        raise pickle.UnpicklingError(_describe_absence(name, module, path, "the module has changed"))
    return found


def _describe_absence(name: str, module: str, path: str, reason: str) -> str:
    return f"{name} is not in `{module}.{path}`, where it was when it was pickled: {reason}"


def _value_at(module: Any, path: str) -> Any:
    """The attribute of an attribute; None if there is none."""
    return reduce(lambda value, name: getattr(value, name, None), path.split("."), module)
