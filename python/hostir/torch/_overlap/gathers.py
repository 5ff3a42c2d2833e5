"""Regions of an allgather: the matmuls of gathered rows, their scales, and products that contract the rows."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from hostir.torch._overlap.functions import Function
from hostir.torch._overlap.layouts import COPIES, TURNS, VIEWS
from hostir.torch._overlap.nodes import (
    Collective,
    Matmul,
    Node,
    collective_of,
    element_type,
    matmul_of,
    op_name,
    region_name,
    shape_of,
)
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import FULL_PRODUCT, MOVING, GraphIndex, Region, Rows, ranks_of

__all__ = ["find_gather", "with_narrow_products_whole"]


def find_gather(index: GraphIndex, end: Collective) -> Region:
    """An allgather and the matmuls of the rows, or of functions of them alone."""
    region = Region(end.group, ranks_of(end), gather=end)
    region.gathered[end.result] = Rows(1, shape_of(end.result)[-1])
    try:
        return _with_readers(index, region)
    except Kept as kept:
        prepared = region
        while True:
            # A conversion and a scale of the rows are two.
            found = _with_prepared(index, prepared)
            if found is None:
                raise kept from None
            prepared = found
            try:
                return _with_readers(index, replace(prepared, gathered=dict(prepared.gathered), through=set(prepared.through)))
            except Kept:
                continue


def _with_prepared(index: GraphIndex, region: Region) -> Region | None:
    """The region with what computes one function of all gathered rows in their place; None where other nodes read them."""
    moved = replace(region, gathered=dict(region.gathered), through=set(region.through))
    for node in index.behind(min(moved.gathered, key=index.order.__getitem__)):
        _gather_move(index, moved, node)
    readers = {user for node in moved.gathered for user in node.users} - moved.gathered.keys() - moved.through
    functions = [index.functions[node] for node in sorted(readers, key=index.order.__getitem__) if node in index.functions]
    kinds = {_kind_of_prepared(moved, function) for function in functions}
    if len(functions) < len(readers) or len(kinds) != 1 or None in kinds:
        return None
    gathered = {}
    for function in functions:
        sources = {moved.gathered[tensor] for tensor in function.tensors if tensor in moved.gathered}
        gathered[function.node] = next(iter(sources))
    inside = moved.through | moved.gathered.keys()
    return replace(region, prepared=(*region.prepared, functions[0]), gathered=gathered, through=inside | gathered.keys())


def _kind_of_prepared(region: Region, function: Function) -> tuple[object, ...] | None:
    """Equal for functions that make the same of gathered rows; None for one that reads other tensors."""
    node, operands = function.node, []
    value = node.meta["val"]
    for operand in function.operands:
        is_tensor = isinstance(operand, torch.fx.Node)
        # Tensors of each rank's own, as a gain, are those of the rank that reads the rows, not of the one that has them.
        if is_tensor and (operand not in region.gathered or shape_of(operand) != shape_of(node)):
            return None
        operands.append("rows" if is_tensor else operand)
    return (function.name, value.dtype, *operands) if _element_kind(node) else None


def _element_kind(node: Node) -> str | None:
    """The element type; None for one that programs do not have."""
    try:
        return element_type(node)
    except Kept:
        return None


def _with_readers(index: GraphIndex, region: Region) -> Region:
    """The region with the moves of its gathered rows and the products that read them. Raises `Kept` without any."""
    start = min(region.gathered, key=index.order.__getitem__)
    for node in index.behind(start):
        _gather_move(index, region, node)
    for node in index.behind(start):
        matmul = index.matmul(node)
        if matmul is not None and matmul.left in region.gathered and _can_multiply(region, matmul):
            _add_scales(index, region, matmul)
            _add_matmul(region, matmul, region.gathered[matmul.left].before)
    assert region.gather is not None
    _add_contractions(index, region, region.gather.result)
    if not region.values and not region.contractions:
        raise _reason_of_no_matmul(index, region)
    element_type(region.gather.result)
    return region


def with_narrow_products_whole(index: GraphIndex, region: Region) -> Region | None:
    """A gather's region in which its narrow matmuls multiply all rows at once, after the wider ones, which hide the arrival; None
    without such.

    A narrow product of one part, as for keys and values of few heads, does not fill a GPU: two of half the rows take almost twice
    the time of one.
    """
    widths = {node: rows.width for node, rows in region.values.items()}
    found = set()
    for node, width in widths.items():
        matmul = index.matmul(node)
        is_narrow = width < max(widths.values()) and math.prod(shape_of(node)) // region.ranks < FULL_PRODUCT
        is_plain = matmul is not None and matmul.bias is None and matmul.scales is None
        if is_narrow and is_plain and region.values[node].before == 1:
            found.add(node)
    return replace(region, whole=frozenset(found)) if found else None


def _gather_move(index: GraphIndex, region: Region, node: Node) -> None:
    move = index.moves.get(node)
    if move is None or move.source not in region.gathered or not move.has_parts(region.ranks):
        return
    source = region.gathered[move.source]
    before = move.before_result(source.before, region.ranks)
    if before is not None and _has_rows(shape_of(node), Rows(before, source.width), region.ranks):
        region.gathered[node] = Rows(before, source.width)
        region.through.update(move.through)


def _has_rows(shape: list[int], rows: Rows, ranks: int) -> bool:
    """True if the last axis is the columns, and the axis of parts lies before it."""
    return bool(shape) and shape[-1] == rows.width and rows.before > 0 and math.prod(shape[:-1]) % (rows.before * ranks) == 0


def _can_multiply(region: Region, matmul: Matmul) -> bool:
    """True if the rows are not the right factor, too, and divide into parts."""
    rows = math.prod(shape_of(matmul.left)[:-1])
    is_right = {matmul.weight.source, *matmul.weight.through} & {*region.gathered, *region.values}
    return not is_right and rows % (region.ranks * region.gathered[matmul.left].before) == 0


def _add_matmul(region: Region, matmul: Matmul, before: int) -> None:
    element_type(matmul.node)
    region.values[matmul.node] = Rows(before, shape_of(matmul.node)[-1])
    region.weight_views.update(matmul.weight.through)


def _add_scales(index: GraphIndex, region: Region, matmul: Matmul) -> None:
    """Adds the collective that gathers the scales of a matmul's rows, if it has such. Raises `Kept` for other scales."""
    scales = None if matmul.scales is None else matmul.scales[0]
    if scales is None or math.prod(shape_of(scales)) == 1:
        return
    node, through = scales, [scales]
    while node in index.moves:
        node = index.moves[node].source
        through.append(node)
    start = node.args[0] if op_name(node) == "wait_tensor" else node
    end = collective_of(start) if isinstance(start, torch.fx.Node) else None
    if end is None or not end.is_gather or (end.group, end.size) != (region.group, region.ranks):
        raise Kept(Reason.SCALED_MATMUL, f"{scales.name}, the scales of the rows, is not gathered with them")
    is_plain = all(index.moves[move].before_result(1, region.ranks) == 1 for move in through[:-1])
    if not is_plain or region.gathered[matmul.left].before != 1:
        raise Kept(Reason.SCALED_MATMUL, f"{scales.name}, the scales of the rows, does not lie as they do")
    readers = {user for place in through for user in place.users} - set(through)
    if any(_rows_of_scaled(index, reader) not in region.gathered for reader in readers):
        raise Kept(Reason.SCALED_MATMUL, f"{scales.name}, the scales of the rows, is read elsewhere, too")
    region.scales[scales] = end
    region.through.update(through)


def _rows_of_scaled(index: GraphIndex, node: Node) -> Node | None:
    """The rows that a scaled matmul multiplies."""
    matmul = index.matmul(node)
    return None if matmul is None or matmul.scales is None else matmul.left


def _add_contractions(index: GraphIndex, region: Region, result: Node) -> None:
    """Adds the products that contract the gathered rows with rows that do not depend on them."""
    dependents = index.dependents(result)
    for node in index.behind(result):
        contraction = index.contraction(node) if node in dependents else None
        if contraction is None:
            continue
        ours = [factor for factor in contraction.factors if factor.source in region.gathered]
        others = [factor for factor in contraction.factors if factor.source not in dependents]
        if len(ours) == len(others) == 1 and shape_of(ours[0].source)[-1] != 0:
            element_type(node)
            region.contractions.append(contraction)
            region.through.update(other for other in ours[0].through if other not in region.gathered)
            region.weight_views.update(others[0].through)


def _reason_of_no_matmul(index: GraphIndex, region: Region) -> Kept:
    """The other readers of the gathered rows."""
    users = [user for node in region.gathered for user in node.users if user not in region.gathered]
    users = [user for user in users if user not in region.through]
    dependents = index.dependents(next(iter(region.gathered)))
    readers = _behind_views(users)
    addends = [reader for reader in readers if _is_addend(index, dependents, reader)]
    users, readers = ([node for node in nodes if node not in addends] for nodes in (users, readers))
    for user in users:
        try:
            matmul_of(user)
        except Kept as kept:
            return kept
        if _rows_of_scaled(index, user) not in {None, *region.gathered}:
            return Kept(Reason.SCALED_MATMUL, f"{user.name}, which reads them as scales, is in no region")
        if _is_right(index, dependents, user):
            return Kept(Reason.GATHERED_RIGHT, user.name)
        if _is_contracted(index, user):
            return Kept(Reason.GATHERED_ROWS_CONTRACTED, user.name)
    for reader in readers:
        try:
            matmul_of(reader)
        except Kept as kept:
            return kept
        if _is_right(index, dependents, reader):
            return Kept(Reason.GATHERED_RIGHT, reader.name)
    if any(index.matmul(reader) is not None for reader in readers):
        return Kept(Reason.LAYOUT, users[0].name)
    regions = [region for region in map(region_name, readers) if region]
    if regions:
        return Kept(Reason.MATMUL_ELSEWHERE, ", ".join(dict.fromkeys(regions)))
    others = [f"{addend.name} adds them to its product" for addend in addends]
    others += [op_name(reader) or reader.op for reader in readers]
    return Kept(Reason.NO_MATMUL_AFTER, ", ".join(dict.fromkeys(others)))


def _behind_views(users: list[Node]) -> list[Node]:
    """The readers of values, through views and copies of them, in the order of the graph."""
    queue, seen, readers = list(users), set(users), []
    while queue:
        node = queue.pop(0)
        if op_name(node) not in VIEWS | COPIES | MOVING:
            readers.append(node)
            continue
        queue.extend(user for user in node.users if user not in seen)
        seen.update(node.users)
    return readers


def _is_right(index: GraphIndex, dependents: set[Node], node: Node) -> bool:
    """True if a node is a matmul whose left factor is none of what depends on the gathered rows."""
    matmul = index.matmul(node)
    return matmul is not None and matmul.left not in dependents


def _is_addend(index: GraphIndex, dependents: set[Node], node: Node) -> bool:
    """True if a node is a matmul that only adds what depends on the gathered rows."""
    matmul = index.matmul(node)
    return matmul is not None and matmul.bias in dependents and not dependents & {matmul.left, matmul.weight.source}


def _is_contracted(index: GraphIndex, node: Node) -> bool:
    """True if a reader of gathered rows is a product that contracts them, or turns them for one, as its left factor."""
    if op_name(node) in TURNS:
        products = [index.matmul(user) for user in node.users]
        return any(product is not None and product.left is node for product in products)
    return index.matmul(node) is not None
