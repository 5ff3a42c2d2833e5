"""Pointwise ops of torch, and how the language writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hostir.torch._overlap.nodes import Node, element_type, is_static, op_name
from hostir.torch._torch_internals import op_overload_name

__all__ = ["Function", "function_of", "literal", "write_function"]

# Steps of each op; {0} and so on are its operands, {a} and so on results of earlier steps.
FORMULAS: dict[str, tuple[str, ...]] = {
    "abs": ("abs({0})",),
    "add": ("{0} + {1}",),
    "cos": ("cos({0})",),
    "div": ("{0} / {1}",),
    "erf": ("erf({0})",),
    "exp": ("exp({0})",),
    "exp2": ("exp2({0})",),
    "expm1": ("expm1({0})",),
    "gelu": ("{0} * {half}", "{0} * {inv_sqrt_2}", "erf({b})", "{c} + {one}", "{a} * {d}"),
    "log": ("log({0})",),
    "log1p": ("log1p({0})",),
    "log2": ("log2({0})",),
    "maximum": ("max({0}, {1})",),
    "minimum": ("min({0}, {1})",),
    "mul": ("{0} * {1}",),
    "neg": ("-{0}",),
    "pow": ("pow({0}, {1})",),
    "reciprocal": ("reciprocal({0})",),
    "relu": ("relu({0})",),
    "rsqrt": ("rsqrt({0})",),
    "rsub": ("{1} - {0}",),
    "sigmoid": ("sigmoid({0})",),
    "sigmoid_backward": ("{one} - {1}", "{1} * {a}", "{0} * {b}"),
    "silu": ("silu({0})",),
    "silu_backward": (
        "sigmoid({1})",
        "{one} - {a}",
        "{1} * {b}",
        "{c} + {one}",
        "{a} * {d}",
        "{0} * {e}",
    ),
    "sin": ("sin({0})",),
    "sqrt": ("sqrt({0})",),
    "sub": ("{0} - {1}",),
    "tanh": ("tanh({0})",),
    "tanh_backward": ("{1} * {1}", "{one} - {a}", "{0} * {b}"),
}
CONSTANTS = {"one": 1.0, "half": 0.5, "inv_sqrt_2": math.sqrt(0.5)}
CASTS = {"convert_element_type", "_to_copy", "to"}
NARROW = {"f16", "bf16"}


@dataclass(frozen=True)
class Function:
    """A pointwise op: its operands are nodes and numbers."""

    node: Node
    name: str
    operands: tuple[Any, ...]

    @property
    def tensors(self) -> list[Node]:
        """The operands that are nodes."""
        return [operand for operand in self.operands if isinstance(operand, torch.fx.Node)]


def function_of(node: Node) -> Function | None:
    """The function that a node is, if the language has it."""
    name = op_name(node)
    if node.op != "call_function" or not is_static(node) or _has_bytes(node):
        return None
    if name in CASTS and _is_cast(node):
        return Function(node, "cast", (node.args[0],))
    if name.endswith("_") or name not in FORMULAS or any(node.kwargs.get(key) not in (None, 1, "none") for key in node.kwargs):
        return None
    if len(node.args) != _operand_count(name) or not all(_is_operand(operand) for operand in node.args):
        return None
    return Function(node, name, tuple(node.args))


def _has_bytes(node: Node) -> bool:
    """True if numbers of 8 bits are read or made: torch and the language round some of them differently."""
    tensors = [node.meta["val"], *(operand.meta.get("val") for operand in node.all_input_nodes)]
    return any(isinstance(value, torch.Tensor) and value.dtype.itemsize == 1 for value in tensors)


def _operand_count(name: str) -> int:
    return 2 if any("{1}" in step for step in FORMULAS[name]) else 1


def _is_cast(node: Node) -> bool:
    """True if a conversion changes the element type at most."""
    is_plain = node.op == "call_function" and all(key in ("dtype", "non_blocking") for key in node.kwargs)
    overload = op_overload_name(node.target)
    return is_plain and (op_name(node) != "to" or overload == "dtype")


def _is_operand(operand: Any) -> bool:
    if isinstance(operand, torch.fx.Node):
        return is_static(operand)
    return isinstance(operand, (int, float)) and not isinstance(operand, bool) and math.isfinite(operand)


def write_function(function: Function, names: Sequence[str], write: Callable[[str, str, str], str]) -> str:
    """Writes the steps; `write(type, expression, like)` gives the name of the result, of the shape of `like` if not empty.

    `names` are the operands' names, with literals for numbers. Several steps of 16-bit floats are computed in f32, as
    torch's kernels do.
    """
    result = element_type(function.node)
    if function.name == "cast":
        return write(result, f"{result}({names[0]})", "")
    steps = FORMULAS[function.name]
    compute = "f32" if len(steps) > 1 and result in NARROW else result
    values = {name: literal(number, compute) for name, number in CONSTANTS.items()}
    for letter, step in zip("abcdefgh", steps):
        # A conversion for each step that reads it: what the passes join into one kernel has one result.
        operands = [
            write(compute, f"{compute}({name})", name) if _differs(operand, compute) and f"{{{at}}}" in step else name
            for at, (operand, name) in enumerate(zip(function.operands, names, strict=True))
        ]
        values[letter] = write(compute, step.format(*operands, **values), "")
    last = values["abcdefgh"[len(steps) - 1]]
    return last if compute == result else write(result, f"{result}({last})", "")


def _differs(operand: Any, element: str) -> bool:
    return isinstance(operand, torch.fx.Node) and element_type(operand) != element


def literal(number: float, element: str) -> str:
    """A constant. Torch computes with constants of 16-bit tensors in float."""
    return f"{'f64' if element == 'f64' else 'f32'}({float(number)!r})"
