"""The kinds of nodes of a graph: collectives, matmuls, and the shapes and types of their tensors."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.fx import Node

from hostir.torch._group import rank_count
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.sizes import number_of
from hostir.torch._torch_internals import HigherOrderOperator, OpOverload, op_base_name, op_overload_name, op_schema

__all__ = [
    "Collective",
    "Contraction",
    "Matmul",
    "Node",
    "Weight",
    "any_in",
    "changes_values",
    "collective_of",
    "contraction_of",
    "element_type",
    "graph_order",
    "is_in_place",
    "is_static",
    "is_turned",
    "matmul_of",
    "op_name",
    "region_name",
    "shape_of",
]

ELEMENT_TYPES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
FACTOR_TYPES = {torch.float8_e4m3fn: "f8e4m3"}

REGION = re.compile(r"region_[0-9a-f]{8}")
"""The form of the names of regions."""

OWN_SPACES = {"aten", "_c10d_functional", "_c10d_functional_autograd", "hostir"}
# Ops of the same name in `prims` take other arguments; this one converts as `_to_copy` does.
OTHER_OPS = {("prims", "convert_element_type")}

COLLECTIVE_SPACES = {"_c10d_functional", "_c10d_functional_autograd"}
GATHERS = {"all_gather_into_tensor"}
SUMS = {"reduce_scatter_tensor", "all_reduce", "all_reduce_"}
NOT_COLLECTIVES = {"wait_tensor", "wait_tensors", "_wrap_tensor_autograd"}

# The rank of a matmul's operands: batches stand in front of rows.
MATMULS = {"mm", "addmm", "bmm", "matmul", "linear"}
OTHER_MATMULS = {"_int_mm", "dot", "einsum", "inner", "mkl::_mkl_linear", "mkldnn::_linear_pointwise", "mv", "tensordot"}


@dataclass(frozen=True)
class Collective:
    """A functional collective."""

    node: Node
    kind: str
    """`all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, or the op's name."""
    group: Any
    """The name of the group; a node or an object where the graph does not say it."""
    size: int | None
    """The number of ranks, if known."""

    @property
    def source(self) -> Node:
        """The tensor that is sent."""
        return self.node.args[0]

    @property
    def result(self) -> Node:
        """The node that waits for it; the collective itself if nothing does."""
        waits = [user for user in self.node.users if op_name(user) in ("wait_tensor", "_wrap_tensor_autograd")]
        return waits[0] if len(waits) == 1 and len(self.node.users) == 1 else self.node

    @property
    def is_gather(self) -> bool:
        """True if it gathers rows."""
        return self.kind == "all_gather"

    @property
    def is_sum(self) -> bool:
        """True if it reduces over ranks."""
        return self.kind in ("reduce_scatter", "all_reduce")

    @property
    def is_exchange(self) -> bool:
        """True if each rank has a part for each other one."""
        return self.kind == "all_to_all"


@dataclass(frozen=True)
class Weight:
    """A factor of a matmul, as a matrix that some node has."""

    source: Node
    is_transposed: bool
    """True if the source is `[n, k]`."""
    through: tuple[Node, ...]
    """Views between the source and the matmul."""


@dataclass(frozen=True)
class Matmul:
    """A product `[rows.., k] @ [k, n]`, with a bias or without."""

    node: Node
    left: Node
    weight: Weight
    bias: Node | None
    scales: tuple[Node, Node] | None = None
    """Of 8-bit floats: one for each row of the left factor, or a single one; one for each column, or a single one."""


@dataclass(frozen=True)
class Contraction:
    """A product `[rows, m].T @ [rows, n]`, which contracts rows: the gradient of a weight."""

    node: Node
    left: Weight
    """The factor with its rows as rows; it stands transposed in the product."""
    right: Weight

    @property
    def factors(self) -> tuple[Weight, Weight]:
        """Both factors."""
        return self.left, self.right


def op_name(node: Node) -> str:
    """The name of an op of torch's or of a region, without namespace and overload: `mm`; empty for what is no op.

    That of others, as of a user's `mylib::relu`, has its namespace: they do what their authors want.
    """
    target = node.target
    if node.op != "call_function":
        return ""
    if isinstance(target, OpOverload):
        name = op_base_name(target)
        is_torchs = target.namespace in OWN_SPACES or (target.namespace, name) in OTHER_OPS
        return name if is_torchs else f"{target.namespace}::{name}"
    name = getattr(target, "__name__", "")
    return name if target is operator.getitem or isinstance(target, HigherOrderOperator) else f"{name}()"


def _namespace(node: Node) -> str:
    return str(node.target.namespace) if isinstance(node.target, OpOverload) else ""


def any_in(node: Node, test: Callable[[Node], bool]) -> bool:
    """True if a node, or one of the graphs that it runs, passes a test; also if these cannot be looked at."""
    if test(node):
        return True
    if node.op != "call_module" and not isinstance(node.target, HigherOrderOperator):
        return False
    names = [node.target] if node.op == "call_module" else [one.target for one in node.all_input_nodes if one.op == "get_attr"]
    found = [_attribute(node.graph.owning_module, str(name)) for name in names]
    graphs = [one.graph for one in found if isinstance(one, torch.fx.GraphModule)]
    return None in found or any(any_in(inner, test) for graph in graphs for inner in graph.nodes)


def _attribute(module: Any, name: str) -> Any:
    """The attribute of a module by a name with dots; None if there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def is_in_place(node: Node) -> bool:
    """True for an op that changes one of its arguments."""
    schema = op_schema(node.target)
    if op_name(node) == "triton_kernel_wrapper_mutation":
        return True
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def changes_values(graph: torch.fx.Graph) -> bool:
    """True if a graph changes more than its inputs in place."""
    changing = (node for node in graph.nodes if any_in(node, is_in_place))
    return any(op_name(node) != "copy_" or node.args[0].op != "placeholder" for node in changing)


def region_name(node: Node) -> str:
    """The name of the region that a node is, `region_3f2a91c0`; empty for what is none."""
    found = REGION.match(op_name(node)) if _namespace(node) == "hostir" else None
    return "" if found is None else found.group()


def is_static(node: Node) -> bool:
    """True if a node is a tensor whose shape is known, or stands for all sizes."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and all(number_of(extent) is not None for extent in value.shape)


def shape_of(node: Node) -> list[int]:
    """The shape, with numbers in the place of symbols; `Kept` if it is unknown."""
    value = node.meta.get("val")
    shape = [number_of(extent) for extent in value.shape] if isinstance(value, torch.Tensor) else [None]
    found = [extent for extent in shape if extent is not None]
    if len(found) < len(shape):
        raise Kept(Reason.SYMBOLIC_SHAPE, node.name)
    return found


def element_type(node: Node) -> str:
    """The element type as the language writes it."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise Kept(Reason.SYMBOLIC_SHAPE, node.name)
    found = ELEMENT_TYPES.get(value.dtype) or FACTOR_TYPES.get(value.dtype)
    if found is None:
        raise Kept(Reason.ELEMENT_TYPE, f"{node.name} is {value.dtype}")
    return found


def graph_order(graph: torch.fx.Graph) -> dict[Node, int]:
    """The place of each node."""
    return {node: at for at, node in enumerate(graph.nodes)}


def collective_of(node: Node) -> Collective | None:
    """The collective that a node starts."""
    name = op_name(node)
    if node.op != "call_function" or _namespace(node) not in COLLECTIVE_SPACES or name in NOT_COLLECTIVES:
        return None
    if name in GATHERS:
        return Collective(node, "all_gather", _group_text(node.args[2]), _whole(node.args[1]))
    if name == "reduce_scatter_tensor":
        return Collective(node, "reduce_scatter", _group_text(node.args[3]), _whole(node.args[2]))
    if name in SUMS:
        group = _group_text(node.args[2])
        return Collective(node, "all_reduce", group, _size_of_group(group))
    if name == "all_to_all_single":
        parts = node.args[1] if len(node.args) > 1 else ()
        group = _group_text(node.args[3])
        return Collective(node, "all_to_all", group, len(parts) or _size_of_group(group))
    return Collective(node, name, _group_text(node.args[-1]) if node.args else None, None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _group_text(group: Any) -> Any:
    if dist.is_available() and isinstance(group, dist.ProcessGroup):
        return str(group.group_name)
    return group


def _size_of_group(group: Any) -> int | None:
    if not isinstance(group, str) or not dist.is_initialized():
        return None
    try:
        return rank_count(group)
    except (RuntimeError, ValueError, KeyError):
        return None


def matmul_of(node: Node) -> Matmul | None:
    """The matmul that a node is, if its right factor is one matrix.

    Raises `Kept` for matmuls that no program has.
    """
    name = op_name(node)
    if name == "_scaled_mm":
        return _scaled_matmul_of(node)
    if name == "_scaled_mm_v2":
        raise Kept(Reason.SCALED_MATMUL, f"{node.name} is an op of another version")
    if name in ("baddbmm", "_grouped_mm"):
        raise Kept(Reason.BATCHED_MATMUL, node.name)
    if name in OTHER_MATMULS:
        raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"{node.name} is a product by `{name}`")
    if name not in MATMULS:
        return None
    if "dtype" in op_overload_name(node.target):
        raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"{node.name} gives another element type than its factors have")
    bias, left, right = None, node.args[0], node.args[1]
    if name == "addmm":
        bias, left, right = node.args[0], node.args[1], node.args[2]
        if any(node.kwargs.get(key, 1) != 1 for key in ("alpha", "beta")):
            raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"{node.name} has factors alpha and beta")
    elif name == "linear":
        bias = node.args[2] if len(node.args) > 2 else node.kwargs.get("bias")
    weight = _weight_of(right, needs_turn=name == "linear")
    if len(shape_of(left)) < 2:
        raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"a product with the vector {left.name}")
    if math.prod(shape_of(node)[:-1]) != math.prod(shape_of(left)[:-1]):
        # A matrix times repetitions of another one.
        raise Kept(Reason.BATCHED_MATMUL, node.name)
    return Matmul(node, left, weight, bias)


def _scaled_matmul_of(node: Node) -> Matmul:
    """The scaled matmul of e4m3 factors that a node is. Its sums are accumulated in float, whatever `use_fast_accum` allows."""
    names = ("self", "mat2", "scale_a", "scale_b", "bias", "scale_result")
    given = {**dict(zip(names, node.args)), **node.kwargs}
    left, right, bias, scales = given["self"], given["mat2"], given.get("bias"), (given["scale_a"], given["scale_b"])
    rows, columns = shape_of(node)
    for tensor in (left, right, *scales, *([] if bias is None else [bias])):
        shape_of(tensor)
    for factor in (left, right):
        if factor.meta["val"].dtype not in FACTOR_TYPES:
            raise Kept(Reason.SCALED_MATMUL, f"{factor.name} is {factor.meta['val'].dtype}, not float8_e4m3fn")
    if given.get("scale_result") is not None:
        raise Kept(Reason.SCALED_MATMUL, f"{node.name} scales its result")
    if bias is not None and bias.meta["val"].dtype != node.meta["val"].dtype:
        raise Kept(Reason.SCALED_MATMUL, f"{bias.name} is not of the result's type")
    for scale, extents in zip(scales, ([rows, 1], [1, columns])):
        is_float = scale.meta["val"].dtype == torch.float32
        if not is_float or (shape_of(scale) != extents and math.prod(shape_of(scale)) != 1):
            raise Kept(Reason.SCALED_MATMUL, f"{scale.name} is neither one float nor one for each of {extents}")
    return Matmul(node, left, _weight_of(right, needs_turn=False), bias, scales)


def contraction_of(node: Node) -> Contraction | None:
    """The contraction of rows that a node is, if it is a product of two matrices of which the left one is transposed."""
    if op_name(node) != "mm" or "dtype" in op_overload_name(node.target):
        return None
    left, right = (_weight_of(factor, needs_turn=False) for factor in node.args[:2])
    return Contraction(node, left, right) if left.is_transposed and not right.is_transposed else None


def _weight_of(right: Node, *, needs_turn: bool) -> Weight:
    """Follows views to a matrix. Axes of extent 1, and repeated ones, are no part of it."""
    through: list[Node] = []
    is_transposed, at = needs_turn, right
    while len(_matrix_shape(at)) == 2:
        name, is_turn = op_name(at), is_turned(at)
        is_view = name in ("view", "reshape", "unsqueeze", "expand", "slice", "squeeze") and _same_matrix(at)
        if not is_turn and not is_view:
            break
        through.append(at)
        is_transposed ^= is_turn
        at = at.args[0]
    shape = shape_of(at)
    if len(shape) != 2 and math.prod(shape[:-2]) != 1:
        raise Kept(Reason.BATCHED_MATMUL, right.name)
    if len(shape) < 2:
        raise Kept(Reason.OP_NOT_IN_LANGUAGE, f"a product with the vector {at.name}")
    return Weight(at, is_transposed, tuple(through))


def _matrix_shape(node: Node) -> list[int]:
    """The last two extents, if others are repetitions or 1."""
    shape = shape_of(node)
    value = node.meta["val"]
    outer = [extent for extent, stride in zip(shape[:-2], value.stride()) if extent != 1 and number_of(stride) != 0]
    return shape[-2:] if not outer else shape


def is_turned(node: Node) -> bool:
    """True if a node swaps the last two axes of a tensor and no other."""
    if op_name(node) not in ("t", "permute", "transpose", "numpy_T"):
        return False
    source, made = shape_of(node.args[0]), shape_of(node)
    if len(source) < 2 or made != [*source[:-2], source[-1], source[-2]]:
        return False
    count = len(source)
    if op_name(node) == "permute":
        order = [axis % count for axis in node.args[1]]
        return order == [*range(count - 2), count - 1, count - 2]
    if op_name(node) == "transpose":
        return {node.args[1] % count, node.args[2] % count} == {count - 1, count - 2}
    return count == 2


def _same_matrix(node: Node) -> bool:
    source, made = _matrix_shape(node.args[0]), _matrix_shape(node)
    return len(source) == 2 and source == made
