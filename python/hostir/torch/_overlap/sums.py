"""Regions of a sum over ranks: the matmuls that make what is summed, and gradients of their weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from hostir.torch._overlap.functions import Function
from hostir.torch._overlap.layouts import COPIES, VIEWS, Move, operand_kind
from hostir.torch._overlap.nodes import (
    Collective,
    Contraction,
    Matmul,
    Node,
    Weight,
    collective_of,
    element_type,
    is_turned,
    matmul_of,
    op_name,
    region_name,
    shape_of,
)
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import FULL_PRODUCT, MOVING, GraphIndex, Region, Rows, before_of, ranks_of

__all__ = ["find_sum", "with_factors_side_by_side", "with_gradients_of_weights"]


# The reasons for which what is summed may be made of products by functions.
_MADE_OTHERWISE = {Reason.CHANGED_BEFORE_SUM, Reason.ADDED_BEFORE_SUM, Reason.NO_MATMUL_BEFORE, Reason.SCALED_MATMUL}


def find_sum(index: GraphIndex, end: Collective) -> Region:
    """A sum over ranks and the matmuls that make what is summed."""
    ranks = ranks_of(end)
    if str(end.node.args[1]).lower() != "sum":
        raise Kept(Reason.REDUCTION_KIND, str(end.node.args[1]))
    region = Region(end.group, ranks, sum=end)
    shape = shape_of(end.source)
    element_type(end.node)
    # What makes it is the better reason.
    try:
        _collect_summed(index, region, end.source, 1)
    except Kept as kept:
        region = Region(end.group, ranks, sum=end)
        if kept.reason not in _MADE_OTHERWISE or not _collect_functions(index, region, end.source, 1):
            raise
    if not shape or (shape[0] % ranks != 0 and end.kind == "reduce_scatter"):
        raise Kept(Reason.ROWS_NOT_DIVISIBLE, f"{shape} by {ranks} ranks")
    for matmul in region.summed:
        rows, before = math.prod(shape_of(matmul.node)[:-1]), before_of(region, matmul.node)
        if before > 1 and rows < before * ranks:
            raise Kept(Reason.LAYOUT, f"{matmul.node.name} has the parts of the ranks in its columns")
        if before == 0 or rows % (ranks * before) != 0:
            raise Kept(Reason.ROWS_NOT_DIVISIBLE, f"{rows} rows by {ranks} ranks")
    return region


def with_gradients_of_weights(index: GraphIndex, total: Region, fits: Callable[[Region], bool]) -> Region | None:
    """A sum's region with the products that contract the rows which its matmuls read, as the gradients of their weights do, and
    with which the region `fits`; None without any.

    They wait for no other rank, and nothing waits for them: neither what reads the sum, nor another sum over ranks. Rows that this
    graph gathers are left to the gather's region, which hides their arrival.
    """
    assert total.sum is not None
    inside, rows = total.nodes, {matmul.left for matmul in total.summed}
    dependents = index.dependents(total.sum.node)
    latest = min((index.order[user] for user in total.sum.result.users), default=len(index.order))
    found: list[Contraction] = []
    for node in index.order:
        contraction = None if node in dependents or node in inside else index.contraction(node)
        if contraction is None:
            continue
        left, right = (_as_view_of(factor, rows) for factor in contraction.factors)
        sources = {left.source, right.source}
        is_ours = sources & rows and left.is_transposed and not right.is_transposed
        is_free = all(source not in inside and index.order[source] < latest and not _is_gathered(source) for source in sources)
        product = replace(contraction, left=left, right=right)
        if is_ours and is_free and not _is_summed(node) and fits(_with_contractions(total, [*found, product])):
            found.append(product)
            dependents |= index.dependents(node)
    return _with_contractions(total, found) if found else None


def with_factors_side_by_side(index: GraphIndex, region: Region) -> Region | None:
    """A sum's region whose matmuls are one product of left factors side by side and weights one below the other, and so are the
    gradients of their weights; None for a single matmul, without a narrow one, and where factors do not fit together.

    One of few columns, as the gradient of keys and values of few heads has, reads and writes the whole sum for little work, and the
    gradient of its weight does not fill a GPU.
    """
    matmuls = region.summed
    if (
        region.gather is not None
        or len(matmuls) < 2
        or region.has_functions
        or any(matmul.scales is not None for matmul in matmuls)
    ):
        return None
    lefts, width = [matmul.left for matmul in matmuls], shape_of(matmuls[0].node)[-1]
    is_narrow = any(shape_of(left)[-1] * width < FULL_PRODUCT for left in lefts)
    kinds = {_kind_of_factors(region, matmul) for matmul in matmuls}
    if not is_narrow or len(kinds) > 1:
        return None
    # By the other factor: the left factors that a gradient contracts with it.
    contracted: dict[Node, list[Node]] = {}
    for contraction in region.contractions:
        contracted.setdefault(contraction.right.source, []).append(contraction.left.source)
    is_whole = all(len(found) == len(lefts) and set(found) == set(lefts) for found in contracted.values())
    factors = [*lefts, *(matmul.weight.source for matmul in matmuls), *contracted]
    # A tensor that is two of them would be parts of two arguments.
    return replace(region, side_by_side=True) if is_whole and len(set(factors)) == len(factors) else None


def _kind_of_factors(region: Region, matmul: Matmul) -> tuple[object, ...]:
    """Equal for two matmuls whose factors can stand side by side."""
    weight, rows = matmul.weight, shape_of(matmul.left)[:-1]
    return (
        tuple(rows),
        before_of(region, matmul.node),
        len(shape_of(weight.source)),
        weight.is_transposed,
        element_type(matmul.left),
    )


def _with_contractions(total: Region, found: list[Contraction]) -> Region:
    views = {node for contraction in found for factor in contraction.factors for node in factor.through}
    return replace(total, contractions=found, weight_views=total.weight_views | views)


def _as_view_of(factor: Weight, rows: set[Node]) -> Weight:
    """The factor as a view of one of some rows, if it is one, so that the program has one tensor for both."""
    for at, node in enumerate(factor.through):
        if node in rows:
            turns = sum(map(is_turned, factor.through[at:]))
            return Weight(node, factor.is_transposed ^ (turns % 2 == 1), factor.through[:at])
    return factor


def _is_gathered(node: Node) -> bool:
    """True for rows that a collective of the graph gathers, moved or not."""
    while op_name(node) in VIEWS | COPIES | MOVING | {"wait_tensor"} and node.all_input_nodes:
        node = node.all_input_nodes[0]
    end = collective_of(node)
    return end is not None and end.is_gather


def _is_summed(node: Node) -> bool:
    """True if a product leads, moved and added to others, to another collective, as to a sum over the ranks that have copies of
    the weight: that one may be a region of its own.
    """
    queue, seen = [node], {node}
    while queue:
        at = queue.pop()
        if collective_of(at) is not None:
            return True
        if at is node or op_name(at) in VIEWS | COPIES | MOVING | {"add"}:
            queue.extend(user for user in at.users if user not in seen)
            seen.update(at.users)
    return False


def _collect_summed(index: GraphIndex, region: Region, node: Node, before: int) -> None:
    """Follows what is summed back to matmuls; `values` has them until they are known to be all."""
    matmul = matmul_of(node)
    move = index.moves.get(node)
    function = index.functions.get(node)
    is_sum = function is not None and function.name == "add" and len(function.tensors) == 2
    elsewhere = region_name(node.args[0] if op_name(node) == "getitem" else node)
    if elsewhere:
        raise Kept(Reason.MATMUL_ELSEWHERE, elsewhere)
    if matmul is None and move is None and not is_sum:
        reason = Reason.CHANGED_BEFORE_SUM if _has_matmul_before(index, node) else Reason.NO_MATMUL_BEFORE
        raise Kept(Reason.ADDED_BEFORE_SUM if region.summed else reason, op_name(node) or node.op)
    if any(user not in region.nodes for user in node.users):
        raise Kept(Reason.RESULT_ALSO_USED, node.name)
    if matmul is not None:
        _collect_matmul(index, region, matmul, before)
    elif move is not None:
        _collect_move(index, region, move, before)
    elif function is not None:
        region.through.add(node)
        _collect_terms(index, region, function, before)


def _collect_functions(index: GraphIndex, region: Region, node: Node, before: int) -> bool:
    """Follows what is summed back to products through functions, whose other operands are the program's arguments. False where it
    reaches none, or what has no form; `region` counts only if it is true.
    """
    if any(user not in region.nodes for user in node.users) or not _has_form(node):
        return False
    matmul, move, function = index.matmul(node), index.moves.get(node), index.functions.get(node)
    if matmul is not None:
        _collect_product(index, region, matmul, before)
        return True
    if move is not None:
        found = move.before_source(before, region.ranks)
        if found is None or not move.has_parts(region.ranks) or shape_of(move.source)[-1:] != shape_of(node)[-1:]:
            return False
        region.through.update((node, *move.through))
        region.values[node] = Rows(before, shape_of(node)[-1])
        region.between.append(node)
        return _collect_functions(index, region, move.source, found)
    if function is None:
        return False
    region.values[node] = Rows(before, shape_of(node)[-1])
    region.between.append(node)
    return _collect_operands(index, region, node, function.tensors, before)


def _collect_operands(index: GraphIndex, region: Region, node: Node, operands: list[Node], before: int) -> bool:
    """Adds the operands of a function that lead to products; the others are arguments. False if none does, or one has no form."""
    shape, is_reached = shape_of(node), False
    for operand in dict.fromkeys(operands):
        if shape_of(operand) == shape:
            kept = _copy_of(region)
            if _collect_functions(index, region, operand, before):
                is_reached = True
                continue
            _restore(region, kept)
        if operand_kind(shape_of(operand), shape) is None or not _has_form(operand):
            return False
    return is_reached


def _collect_product(index: GraphIndex, region: Region, matmul: Matmul, before: int) -> None:
    region.summed.append(matmul)
    region.values[matmul.node] = Rows(before, shape_of(matmul.node)[-1])
    region.weight_views.update(matmul.weight.through)
    if matmul.bias is not None and shape_of(matmul.bias) == shape_of(matmul.node):
        kept = _copy_of(region)
        if not _collect_functions(index, region, matmul.bias, before):
            _restore(region, kept)


def _copy_of(region: Region) -> Region:
    """The region with collections of its own."""
    return replace(
        region,
        values=dict(region.values),
        summed=list(region.summed),
        between=list(region.between),
        through=set(region.through),
        weight_views=set(region.weight_views),
    )


def _restore(region: Region, kept: Region) -> None:
    region.values, region.summed, region.between = kept.values, kept.summed, kept.between
    region.through, region.weight_views = kept.through, kept.weight_views


def _has_form(node: Node) -> bool:
    """True for a tensor of a type that programs have, with columns."""
    try:
        element_type(node)
    except Kept:
        return False
    return bool(shape_of(node)) or math.prod(shape_of(node)) == 1


def _has_matmul_before(index: GraphIndex, node: Node) -> bool:
    """True if a matmul is reached through what computes element by element, or moves elements."""
    queue, seen = [node], {node}
    while queue:
        at = queue.pop()
        if index.matmul(at) is not None:
            return True
        is_simple = op_name(at) in VIEWS | COPIES | MOVING or torch.Tag.pointwise in getattr(at.target, "tags", ())
        operands = [operand for operand in at.all_input_nodes if is_simple and operand not in seen]
        queue.extend(operands)
        seen.update(operands)
    return False


def _collect_matmul(index: GraphIndex, region: Region, matmul: Matmul, before: int) -> None:
    region.summed.append(replace(matmul, bias=None))
    if len(region.summed) > 1 and any(summed.scales is not None for summed in region.summed):
        raise Kept(Reason.SCALED_MATMUL, f"{matmul.node.name} is added to another matmul before the sum over ranks")
    region.values[matmul.node] = Rows(before, shape_of(matmul.node)[-1])
    region.weight_views.update(matmul.weight.through)
    if matmul.bias is None:
        return
    if shape_of(matmul.bias) != shape_of(matmul.node):
        raise Kept(Reason.ADDED_BEFORE_SUM, matmul.bias.name)
    try:
        _collect_summed(index, region, matmul.bias, before)
    except Kept as kept:
        raise _added(kept, matmul.bias) from None


def _collect_move(index: GraphIndex, region: Region, move: Move, before: int) -> None:
    found = move.before_source(before, region.ranks)
    if found is None or not move.has_parts(region.ranks):
        raise Kept(Reason.LAYOUT, move.node.name)
    region.through.update((move.node, *move.through))
    _collect_summed(index, region, move.source, found)


def _collect_terms(index: GraphIndex, region: Region, function: Function, before: int) -> None:
    shape = shape_of(function.node)
    for term in function.tensors:
        if shape_of(term) != shape:
            raise Kept(Reason.ADDED_BEFORE_SUM, term.name)
        try:
            _collect_summed(index, region, term, before)
        except Kept as kept:
            raise _added(kept, term) from None


def _added(kept: Kept, term: Node) -> Kept:
    """Reports a term that is no matmul as "added before the sum"."""
    others = (Reason.NO_MATMUL_BEFORE, Reason.CHANGED_BEFORE_SUM)
    return Kept(Reason.ADDED_BEFORE_SUM, term.name) if kept.reason in others else kept
