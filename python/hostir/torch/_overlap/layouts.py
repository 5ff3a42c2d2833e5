"""The places of the ranks' parts in a tensor of torch.

A gathered tensor, read row by row, is `[before, D, after]`: D parts, one of each rank, repeated `before` times. A view
keeps `before`. What `all_gather_tensor` and `reduce_scatter_tensor` do for axes other than the first (split and cat, or a
permutation) moves the axis of parts and nothing else. So a layout is the number `before`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from hostir.torch._overlap.nodes import Node, is_static, op_name, shape_of
from hostir.torch._overlap.sizes import number_of
from hostir.torch._torch_internals import op_overload_name

__all__ = ["COPIES", "TURNS", "VIEWS", "Columns", "Move", "columns_of", "move_of", "operand_kind", "permutation_of"]

VIEWS = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten"}
TURNS = {"permute", "t", "transpose"}
COPIES = {"clone", "contiguous", "alias", "detach", "lift_fresh"}
SPLITS = {"split", "split_with_sizes", "chunk"}


@dataclass(frozen=True)
class Move:
    """A node that has another node's elements, in the same order but for the axis of parts."""

    node: Node
    source: Node
    through: tuple[Node, ...]
    """Nodes between the two."""
    axes: tuple[int, int] | None
    """For split and cat: the axis that is split, and the one that is made."""

    def before_result(self, before: int, ranks: int) -> int | None:
        """`before` of the result, for that of the source; None if the parts are not kept together."""
        if self.axes is not None:
            is_parts = math.prod(shape_of(self.source)[: self.axes[0]]) == before
            return math.prod(shape_of(self.node)[: self.axes[1]]) if is_parts else None
        if op_name(self.node) not in ("permute", "transpose", "t", "movedim"):
            return before
        return _permuted(shape_of(self.source), permutation_of(self.node), before, ranks)

    def before_source(self, before: int, ranks: int) -> int | None:
        """`before` of the source, for that of the result."""
        if self.axes is not None:
            is_parts = math.prod(shape_of(self.node)[: self.axes[1]]) == before
            return math.prod(shape_of(self.source)[: self.axes[0]]) if is_parts else None
        if op_name(self.node) not in ("permute", "transpose", "t", "movedim"):
            return before
        order = permutation_of(self.node)
        back = None if order is None else [order.index(axis) for axis in range(len(order))]
        return _permuted(shape_of(self.node), back, before, ranks)

    def has_parts(self, ranks: int) -> bool:
        """True if it moves as many parts as there are ranks, if it is a split and a cat."""
        return self.axes is None or len(_pieces(self.node)) == ranks


@dataclass(frozen=True)
class Columns:
    """A node that has some columns of another one: a range of the last axis."""

    node: Node
    source: Node
    through: tuple[Node, ...]
    start: int
    stop: int


def move_of(node: Node) -> Move | None:
    """The move that a node is."""
    name = op_name(node)
    if node.op != "call_function" or not is_static(node):
        return None
    if name == "cat":
        return _split_and_cat(node)
    if not node.args or not isinstance(node.args[0], torch.fx.Node) or not is_static(node.args[0]):
        return None
    source = node.args[0]
    is_copy = name in COPIES and node.meta["val"].dtype == source.meta["val"].dtype
    # DTensor takes padding off by slices, also where there is none; Inductor drops these, other compilers do not.
    is_same = name in ("expand", "slice") and shape_of(node) == shape_of(source)
    is_view = name in VIEWS and op_overload_name(node.target) != "dtype"
    if is_view or is_copy or is_same or permutation_of(node) is not None:
        return Move(node, source, (), None)
    return None


def columns_of(node: Node) -> Columns | None:
    """The range of columns that a node takes of another one."""
    piece = _piece(node)
    if piece is None or not is_static(piece.source) or piece.axis != len(shape_of(piece.source)) - 1:
        return None
    return Columns(node, piece.source, piece.through, piece.start, piece.stop)


@dataclass(frozen=True)
class _Piece:
    """A range of one axis of a tensor."""

    source: Node
    through: tuple[Node, ...]
    axis: int
    start: int
    stop: int


def _piece(node: Node) -> _Piece | None:
    if op_name(node) == "getitem" and isinstance(node.args[0], torch.fx.Node) and op_name(node.args[0]) in SPLITS:
        return _piece_of_split(node, node.args[0], node.args[1])
    if op_name(node) == "slice" and is_static(node) and is_static(node.args[0]):
        return _piece_of_slice(node)
    return None


def _piece_of_split(node: Node, split: Node, index: int) -> _Piece | None:
    source = split.args[0]
    if not is_static(source):
        return None
    axis = split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)
    axis %= len(shape_of(source))
    found = [number_of(value.shape[axis]) for value in split.meta.get("val", ())]
    extents = [extent for extent in found if extent is not None]
    if index >= len(extents) or len(extents) < len(found):
        return None
    start = sum(extents[:index])
    return _Piece(source, (split,), axis, start, start + extents[index])


def _piece_of_slice(node: Node) -> _Piece | None:
    source: Any = node.args[0]
    given: list[Any] = list(node.args[1:])
    defaults: list[Any] = [0, None, None, 1]
    axis, start, stop, step = [*given, *defaults[len(given) :]]
    shape = shape_of(source)
    axis %= len(shape)
    bounds = [None if value is None else number_of(value) for value in (start, stop)]
    if step != 1 or any(value is not None and bound is None for value, bound in zip((start, stop), bounds)):
        return None
    first, last, _ = slice(*bounds).indices(shape[axis])
    return _Piece(source, (), axis, first, last)


def _pieces(cat: Node) -> list[_Piece]:
    found = [_piece(part) for part in cat.args[0] if isinstance(part, torch.fx.Node)]
    pieces = [piece for piece in found if piece is not None]
    return pieces if len(pieces) == len(cat.args[0]) else []


def _split_and_cat(cat: Node) -> Move | None:
    """Pieces of one tensor, all of them and in order, put together along another axis."""
    pieces = _pieces(cat)
    if len(pieces) < 2:
        return None
    first = pieces[0]
    size = first.stop - first.start
    extent = shape_of(first.source)[first.axis]
    starts = [piece.start for piece in pieces]
    if size == 0:
        return None
    is_whole = starts == list(range(0, extent, size)) and all(piece.stop - piece.start == size for piece in pieces)
    if not is_whole or any(piece.source is not first.source or piece.axis != first.axis for piece in pieces):
        return None
    axis = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    through = {node: None for part, piece in zip(cat.args[0], pieces) for node in (*piece.through, part)}
    return Move(cat, first.source, tuple(through), (first.axis, axis % len(shape_of(cat))))


def operand_kind(shape: list[int], result: list[int]) -> str | None:
    """The kind of an operand beside rows of the result's shape: `rows`, `row`, `column`, `scalar`."""
    if math.prod(shape) == 1:
        return "scalar"
    if len(shape) > len(result):
        return None
    full = [1] * (len(result) - len(shape)) + shape
    if full == result:
        return "rows"
    if full[:-1] == result[:-1] and full[-1] == 1:
        return "row"
    return "column" if math.prod(full[:-1]) == 1 and full[-1] == result[-1] else None


def permutation_of(node: Node) -> list[int] | None:
    """The axes of the source in the order of the result; None for what is no permutation."""
    name = op_name(node)
    if name not in ("permute", "transpose", "t") or not is_static(node.args[0]):
        return None
    count = len(shape_of(node.args[0]))
    if name == "permute":
        return [axis % count for axis in node.args[1]]
    order = list(range(count))
    one, other = (0, 1) if name == "t" else (node.args[1] % count, node.args[2] % count)
    if count > 1:
        order[one], order[other] = order[other], order[one]
    return order


def _permuted(shape: list[int], order: list[int] | None, before: int, ranks: int) -> int | None:
    """`before` of the permuted shape, if the permutation only moves the axis of parts; None otherwise."""
    if order is None:
        return None
    places = [at for at in range(len(shape)) if shape[at] == ranks and math.prod(shape[:at]) == before]
    kept = [axis for axis in order if shape[axis] != 1]
    if kept == sorted(kept):
        return before
    for place in places:
        others = [axis for axis in kept if axis != place]
        if others == sorted(others):
            return math.prod(shape[axis] for axis in order[: order.index(place)])
    return None
