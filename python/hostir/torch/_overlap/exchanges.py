"""Exchanges of rows between all ranks, and products of experts: what a graph has of them, and the reasons that no program does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from hostir.torch._overlap.nodes import Collective, Node, Weight, collective_of, element_type, is_turned, op_name, shape_of
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.sizes import number_of
from hostir.torch._torch_internals import op_overload_name, outside_modes, pytree

__all__ = ["ExpertProduct", "check_exchange", "constant_of", "exchange_of_result", "expert_product_of"]

PRODUCTS = {"bmm", "mm", "matmul", "_grouped_mm", "addmm", "baddbmm"}
# Ops of which a graph without inputs is computed while it is compiled.
CONSTANT_OPS = {"add", "arange", "clone", "convert_element_type", "cumsum", "full", "mul", "slice", "sub", "_to_copy", "view"}
MAX_EXPERTS = 1 << 16


@dataclass(frozen=True)
class ExpertProduct:
    """A product of the rows of each of a rank's experts and the expert's weight."""

    node: Node
    left: Node
    weight: Weight
    """`[experts, k, n]`, or one matrix."""
    bias: Node | None
    experts: int
    ends: tuple[Node, int] | None = None
    """Of a grouped matmul: the operand that has the ends of the groups, and the rows of each."""


def exchange_of_result(node: Node) -> Collective | None:
    """The exchange whose rows a node has received."""
    start = node.args[0] if op_name(node) in ("wait_tensor", "_wrap_tensor_autograd") and node.args else node
    end = collective_of(start) if isinstance(start, torch.fx.Node) else None
    return end if end is not None and end.is_exchange and end.result is node else None


def check_exchange(end: Collective) -> None:
    """Raises `Kept` unless all ranks exchange parts of one size, which is known."""
    if not isinstance(end.group, str) or end.size is None:
        raise Kept(Reason.UNKNOWN_GROUP)
    if end.size < 2:
        raise Kept(Reason.ONE_RANK)
    given = [split for splits in end.node.args[1:3] for split in splits]
    splits = [number_of(split) for split in given]
    if None in splits:
        is_symbol = all(number is not None or _has_hint(split) for number, split in zip(splits, given, strict=True))
        raise Kept(Reason.SYMBOLIC_SHAPE if is_symbol else Reason.SIZES_BY_DATA, f"the parts of {end.node.name}")
    if len(set(splits)) > 1:
        raise Kept(Reason.UNEQUAL_PARTS, f"{end.node.name} has parts of {', '.join(map(str, dict.fromkeys(splits)))} rows")
    shape = shape_of(end.source)
    if len(shape) < 2 or shape[0] % end.size != 0 or shape != shape_of(end.node):
        raise Kept(Reason.ROWS_NOT_DIVISIBLE, f"{shape} by {end.size} ranks")
    element_type(end.node)


def _has_hint(extent: Any) -> bool:
    """True for a size of the graph's inputs, whose value is known while it is traced."""
    value = extent.meta.get("val") if isinstance(extent, torch.fx.Node) else extent
    return isinstance(value, torch.SymInt) and value.node.hint is not None


def expert_product_of(node: Node) -> ExpertProduct | None:
    """The product of experts that a node is; None for another op. Raises `Kept` for one that no program has."""
    name = op_name(node)
    if name not in PRODUCTS:
        return None
    if "dtype" in op_overload_name(node.target) or node.kwargs.get("out_dtype") not in (None, node.meta["val"].dtype):
        raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"{node.name} gives another element type than its factors have")
    bias, operands, ends = None, node.args, None
    if name in ("addmm", "baddbmm"):
        bias, operands = node.args[0], node.args[1:]
        if any(node.kwargs.get(key, 1) != 1 for key in ("alpha", "beta")):
            raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"{node.name} has factors alpha and beta")
    left, weight = operands[0], _weight_of(operands[1])
    shape = shape_of(weight.source)
    experts = shape[0] if len(shape) == 3 else 1
    if name == "_grouped_mm":
        bias, ends = _check_groups(node, left, shape)
    elif len(shape_of(left)) != len(shape) or (len(shape) == 3 and shape_of(left)[0] != experts):
        raise Kept(Reason.BATCHED_MATMUL, node.name)
    element_type(node)
    return ExpertProduct(node, left, weight, bias, experts, ends)


def _weight_of(right: Node) -> Weight:
    """Follows permutations of a weight's last two axes, and copies."""
    through: list[Node] = []
    is_transposed, at = False, right
    while len(shape_of(at)) in (2, 3) and (is_turned(at) or op_name(at) in ("clone", "contiguous")):
        if at.args[0].meta["val"].dtype != at.meta["val"].dtype:
            break
        through.append(at)
        is_transposed ^= is_turned(at)
        at = at.args[0]
    if len(shape_of(at)) not in (2, 3):
        raise Kept(Reason.BATCHED_MATMUL, right.name)
    return Weight(at, is_transposed, tuple(through))


def _check_groups(node: Node, left: Node, weight: list[int]) -> tuple[Node | None, tuple[Node, int] | None]:
    """Raises `Kept` unless each expert has as many rows as the others, whatever the data are. Gives the bias, and the ends."""
    given = {**dict(zip(("self", "mat2", "offs", "bias"), node.args)), **node.kwargs}
    offsets, rows = given.get("offs"), shape_of(left)
    if offsets is None:
        if len(rows) != 3 or len(weight) != 3:
            raise Kept(Reason.BATCHED_MATMUL, node.name)
        return given.get("bias"), None
    if len(rows) != 2 or len(weight) != 3:
        raise Kept(Reason.BATCHED_MATMUL, f"{node.name} contracts or spreads the groups")
    found = constant_of(offsets)
    if found is None:
        raise Kept(Reason.SIZES_BY_DATA, f"the rows of each expert in {node.name}")
    count = weight[0]
    if rows[0] % count != 0 or found.flatten().tolist() != [(at + 1) * (rows[0] // count) for at in range(count)]:
        raise Kept(Reason.UNEQUAL_PARTS, f"the experts of {node.name} have groups of other sizes")
    return given.get("bias"), (offsets, rows[0] // count)


def constant_of(node: Any) -> torch.Tensor | None:
    """The numbers of a small tensor that a graph computes of nothing but numbers; None for any other."""
    if not isinstance(node, torch.fx.Node):
        return None
    if node.op == "get_attr":
        found: Any = getattr(node.graph.owning_module, str(node.target), None)
        is_plain = isinstance(found, torch.Tensor) and not hasattr(found, "fake_mode") and found.device.type == "cpu"
        return found if is_plain and found.numel() <= MAX_EXPERTS else None
    value = node.meta.get("val")
    is_small = isinstance(value, torch.Tensor) and math.prod(shape_of(node)) <= MAX_EXPERTS
    if not is_small or node.op != "call_function" or op_name(node) not in CONSTANT_OPS | {"prims::iota", "lift_fresh_copy"}:
        return None
    values: dict[Node, torch.Tensor] = {}
    for operand in node.all_input_nodes:
        if number_of(operand) is not None:
            continue
        known = constant_of(operand)
        if known is None:
            return None
        values[operand] = known
    args, kwargs = (_constant_arguments(given, values) for given in (node.args, node.kwargs))
    # The compiler's own mode would make a tensor without numbers.
    with outside_modes():
        made = node.target(*args, **kwargs)
    return made if isinstance(made, torch.Tensor) else None


def _constant_arguments(given: Any, values: dict[Node, torch.Tensor]) -> Any:
    """Arguments of an op that computes numbers on the CPU; numbers that stand for sizes may be large."""

    def plain(value: Any) -> Any:
        value = values.get(value, number_of(value)) if isinstance(value, torch.fx.Node) else value
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return torch.int64 if value is torch.int32 else value

    return pytree.tree_map(plain, given)
