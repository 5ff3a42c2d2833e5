"""Forms of a rank's tensors in host programs, and the views between them and torch's tensors.

In a program every tensor has an axis `x:D` over the ranks; a rank's part of it lacks that axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hostir.torch._overlap.nodes import Node
from hostir.torch._overlap.sizes import in_graph, number_of
from hostir.torch._torch_internals import FakeTensor, pytree

__all__ = [
    "Form",
    "add_call",
    "column_form",
    "from_program",
    "gradient_form",
    "matrix_form",
    "part_form",
    "row_form",
    "rows_form",
    "scalar_form",
    "stacked_form",
    "sum_form",
    "to_program",
    "whole_form",
    "whole_gradient_form",
    "whole_sum_form",
]

aten = torch.ops.aten


@dataclass(frozen=True)
class TensorOrder:
    """A tensor of torch in a program's order: as axes of these extents, of which the program has them in this order."""

    extents: tuple[int, ...]
    permutation: tuple[int, ...]

    @property
    def back(self) -> tuple[int, ...]:
        """The order in which torch has the program's axes."""
        return tuple(self.permutation.index(axis) for axis in range(len(self.permutation)))


@dataclass(frozen=True)
class Form:
    """The form of a tensor of torch in a program."""

    axes: str
    """The axes in the program: `x:4, 4, 16, 8`."""
    shape: tuple[int, ...]
    """The shape of a rank's part."""
    before: int = 1
    """The number of times that torch's tensor has the axis of parts; see `layouts`."""
    order: TensorOrder | None = None
    """The axes of torch's tensor in another order; None if it is the program's."""


def part_form(ranks: int, rows: int, width: int) -> Form:
    """The rank's own rows."""
    return Form(f"x:{ranks}, {rows}, {width}", (rows, width))


def rows_form(ranks: int, before: int, rows: int, width: int) -> Form:
    """Rows of all parts, of which each rank has its own columns; `rows` is the number of a part's."""
    return Form(f"x:{ranks}, {ranks}, {rows}, {width}", (ranks, rows, width), before)


def row_form(ranks: int, before: int, rows: int) -> Form:
    """One number for each row."""
    return Form(f"x:{ranks}, {ranks}, {rows}, b.1", (ranks, rows, 1), before)


def column_form(ranks: int, width: int) -> Form:
    """One number for each column."""
    return Form(f"x:{ranks}, b.1, b.1, {width}", (1, 1, width))


def scalar_form(ranks: int) -> Form:
    """One number."""
    return Form(f"x:{ranks}, b.1, b.1, b.1", (1, 1, 1))


def matrix_form(ranks: int, rows: int, columns: int) -> Form:
    """A rank's weight."""
    return Form(f"x:{ranks}, b.1, {rows}, {columns}", (1, rows, columns))


def gradient_form(ranks: int, rows: int, columns: int) -> Form:
    """The gradient of a rank's weight: a product of each part, summed over the parts."""
    return Form(f"x:{ranks}, r.{ranks}, {rows}, {columns}", (rows, columns))


def whole_gradient_form(ranks: int, rows: int, columns: int) -> Form:
    """The gradient of a rank's weight: one product of the rows of all parts."""
    return Form(f"x:{ranks}, {rows}, {columns}", (rows, columns))


def stacked_form(ranks: int, rows: int, width: int) -> Form:
    """Rows of all parts one below the other, of which each rank has its own columns; `rows` is the number of all."""
    return Form(f"x:{ranks}, {rows}, {width}", (rows, width))


def whole_form(ranks: int, before: int, rows: int, width: int) -> Form:
    """Gathered rows, the same on all ranks."""
    return Form(f"{ranks}, {rows}, {width}", (ranks, rows, width), before)


def sum_form(ranks: int, rows: int, width: int) -> Form:
    """The rank's part of a sum over ranks."""
    return Form(f"r.{ranks}, x:{ranks}, {rows}, {width}", (rows, width))


def whole_sum_form(ranks: int, rows: int, width: int) -> Form:
    """A sum over ranks, the same on all."""
    return Form(f"r.{ranks}, {ranks}, {rows}, {width}", (ranks, rows, width))


def add_call(graph: torch.fx.Graph, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Appends a call at the graph's insert point, with nodes for numbers that stand for symbols. It has a fake result if all its
    operands have.
    """
    args = pytree.tree_map(lambda value: in_graph(graph, value), args)
    node = graph.call_function(target, args, kwargs)
    nodes = [value for value in pytree.tree_leaves(args) if isinstance(value, torch.fx.Node)]
    if all("val" in operand.meta for operand in nodes):
        values = pytree.tree_map(lambda value: value.meta["val"] if isinstance(value, torch.fx.Node) else value, args)
        node.meta["val"] = target(*_of_one_mode(values), **kwargs)
    return node


def _of_one_mode(values: Any) -> Any:
    """The values with all fake tensors in one mode. What `make_fx` traces with real tensors has a mode for each node."""
    modes = [value.fake_mode for value in pytree.tree_leaves(values) if isinstance(value, FakeTensor)]
    if all(mode is modes[0] for mode in modes):
        return values

    def moved(value: Any) -> Any:
        if not isinstance(value, FakeTensor) or value.fake_mode is modes[0]:
            return value
        with modes[0]:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

    return pytree.tree_map(moved, values)


def to_program(graph: torch.fx.Graph, tensor: Node, form: Form) -> Node:
    """A tensor of torch in the form of a program's argument."""
    if form.before != 1:
        ranks, rows, width = form.shape
        split = [form.before, ranks, rows // form.before, width]
        tensor = add_call(graph, aten.reshape.default, tensor, split)
        tensor = add_call(graph, aten.permute.default, tensor, [1, 0, 2, 3])
    if form.order is not None:
        tensor = add_call(graph, aten.reshape.default, tensor, list(form.order.extents))
        tensor = add_call(graph, aten.permute.default, tensor, list(form.order.permutation))
    return _reshape(graph, tensor, form.shape)


def from_program(graph: torch.fx.Graph, tensor: Node, form: Form, shape: Sequence[int]) -> Node:
    """A program's result as the tensor of torch that it stands for."""
    if form.before != 1:
        ranks, rows, width = form.shape
        tensor = add_call(graph, aten.reshape.default, tensor, [ranks, form.before, rows // form.before, width])
        tensor = add_call(graph, aten.permute.default, tensor, [1, 0, 2, 3])
    if form.order is not None:
        extents = [form.order.extents[axis] for axis in form.order.permutation]
        tensor = add_call(graph, aten.reshape.default, tensor, extents)
        tensor = add_call(graph, aten.permute.default, tensor, list(form.order.back))
    made = _reshape(graph, tensor, shape)
    # Where a part has one row that is a view, and what follows may take another view of it.
    is_apart = "val" in made.meta and not made.meta["val"].is_contiguous()
    return add_call(graph, aten.clone.default, made, memory_format=torch.contiguous_format) if is_apart else made


def _reshape(graph: torch.fx.Graph, tensor: Node, shape: Sequence[int]) -> Node:
    value = tensor.meta.get("val")
    if value is not None and [number_of(extent) for extent in value.shape] == list(shape):
        return tensor
    return add_call(graph, aten.reshape.default, tensor, list(shape))
