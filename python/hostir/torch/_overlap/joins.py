"""Regions of a gather and a sum as one: functions of gathered rows are what the sum's matmuls read, as in an MLP block."""

from __future__ import annotations

from collections.abc import Iterable

from hostir.torch._overlap.functions import Function
from hostir.torch._overlap.layouts import operand_kind
from hostir.torch._overlap.nodes import Node, element_type, shape_of
from hostir.torch._overlap.reasons import Kept
from hostir.torch._overlap.regions import GraphIndex, Region, Rows, before_of

__all__ = ["join_regions"]


def join_regions(index: GraphIndex, gather: Region, total: Region) -> Region | None:
    """Both as one, if functions of the gather's matmuls are what the sum's matmuls read; nothing is gathered between."""
    if gather.group != total.group or gather.ranks != total.ranks:
        return None
    reached = _reach(index, gather)
    needed: set[Node] = set()
    for matmul in total.summed:
        before = before_of(total, matmul.node)
        if matmul.left in reached and reached[matmul.left].before == before:
            _collect_needed(index, reached, matmul.left, needed)
    if not needed:
        return None
    inner = {node: rows for node, rows in reached.items() if node in needed or node in gather.values}
    inner |= _own_operands(index, inner, index.dependents(gather.gather.result) if gather.gather else set())
    through = {node for found in needed for node in _between(index, found)}
    return Region(
        group=gather.group,
        ranks=gather.ranks,
        gather=gather.gather,
        sum=total.sum,
        prepared=gather.prepared,
        gathered=gather.gathered,
        values={**inner, **total.values},
        contractions=gather.contractions,
        scales=gather.scales,
        summed=total.summed,
        between=total.between,
        through=gather.through | total.through | through,
        weight_views=gather.weight_views | total.weight_views,
    )


def _reach(index: GraphIndex, gather: Region) -> dict[Node, Rows]:
    """All values that a program could compute from the gather's matmuls, in the order of the graph."""
    reached = dict(gather.values)
    if not reached:
        return {}
    start = min(index.order[node] for node in reached)
    for node in list(index.order)[start:]:
        rows = _reached_rows(index, reached, node, gather.ranks)
        if rows is not None and node not in reached:
            reached[node] = rows
    return dict(sorted(reached.items(), key=lambda item: index.order[item[0]]))


def _own_operands(index: GraphIndex, inner: dict[Node, Rows], dependents: set[Node]) -> dict[Node, Rows]:
    """Functions of values that do not depend on the gathered rows, and that only the region's functions read: it computes them
    itself, and nobody stores them.
    """
    found: dict[Node, Rows] = {}
    for node in reversed(list(index.order)):
        function = index.functions.get(node)
        if function is None or node in inner or node in dependents or not node.users:
            continue
        rows = {found.get(user) or inner.get(user) for user in node.users if user in index.functions}
        is_private = len(rows) == 1 and all(user in index.functions for user in node.users)
        lies_alike = is_private and all(shape_of(user) == shape_of(node) for user in node.users)
        (own,) = rows if is_private else (None,)
        if own is not None and lies_alike and _can_write(function):
            found[node] = own
    return found


def _can_write(function: Function) -> bool:
    """True if operands of the function are tensors, of shapes and types that programs have."""
    shape = shape_of(function.node)
    try:
        for node in (function.node, *function.tensors):
            element_type(node)
    except Kept:
        return False
    return bool(function.tensors) and all(operand_kind(shape_of(tensor), shape) for tensor in function.tensors)


def _reached_rows(index: GraphIndex, reached: dict[Node, Rows], node: Node, ranks: int) -> Rows | None:
    move, columns, function = index.moves.get(node), index.columns.get(node), index.functions.get(node)
    if move is not None and move.source in reached:
        source = reached[move.source]
        before = move.before_result(source.before, ranks)
        return Rows(before, source.width) if before is not None and move.has_parts(ranks) else None
    if columns is not None and columns.source in reached:
        source = reached[columns.source]
        is_whole = shape_of(columns.source)[-1] == source.width
        return Rows(source.before, columns.stop - columns.start) if is_whole else None
    if function is not None and any(tensor in reached for tensor in function.tensors):
        return _function_rows(reached, function)
    return None


def _function_rows(reached: dict[Node, Rows], function: Function) -> Rows | None:
    found = {reached[tensor] for tensor in function.tensors if tensor in reached}
    shape = shape_of(function.node)
    rows = found.pop()
    is_whole = shape and shape[-1] == rows.width
    is_same = all(shape_of(tensor) == shape for tensor in function.tensors if tensor in reached)
    others = [tensor for tensor in function.tensors if tensor not in reached]
    fits = all(operand_kind(shape_of(tensor), shape) is not None for tensor in others)
    return rows if not found and is_whole and is_same and fits else None


def _collect_needed(index: GraphIndex, reached: dict[Node, Rows], node: Node, needed: set[Node]) -> None:
    """The values on the way to a node."""
    if node in needed:
        return
    needed.add(node)
    for source in _sources(index, node):
        if source in reached:
            _collect_needed(index, reached, source, needed)


def _sources(index: GraphIndex, node: Node) -> Iterable[Node]:
    if node in index.moves:
        return [index.moves[node].source]
    if node in index.columns:
        return [index.columns[node].source]
    return index.functions[node].tensors if node in index.functions else []


def _between(index: GraphIndex, node: Node) -> tuple[Node, ...]:
    if node in index.moves:
        return index.moves[node].through
    return index.columns[node].through if node in index.columns else ()
