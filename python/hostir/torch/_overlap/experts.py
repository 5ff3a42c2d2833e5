"""Regions of experts: rows are exchanged, each rank multiplies those that arrive by its experts' weights, and they return.

What is returned is followed back to products and to the exchange before them, each node with the order of its rows. Where nothing
is returned by a collective of the graph, the products are followed from what arrives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from hostir.torch._overlap.exchanges import ExpertProduct, check_exchange, exchange_of_result, expert_product_of
from hostir.torch._overlap.functions import Function
from hostir.torch._overlap.layouts import COPIES, VIEWS
from hostir.torch._overlap.nodes import Collective, Node, element_type, op_name, region_name, shape_of
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import MOVING, GraphIndex, GroupEnds, Region
from hostir.torch._overlap.row_orders import RowOrder, Run, order_after, order_before

__all__ = ["ExpertRegion", "expert_operand_kind", "find_experts"]


@dataclass
class ExpertRegion(Region):
    """Nodes of experts that one program replaces."""

    dispatch: Collective | None = None
    """The exchange of what the experts read."""
    combine: Collective | None = None
    """The exchange of what they make."""
    products: dict[Node, ExpertProduct] = field(default_factory=dict)
    orders: dict[Node, RowOrder] = field(default_factory=dict)
    """By node the order of its rows: of the received ones, of products, of functions, and of what they read of these."""
    between_products: dict[Node, Function] = field(default_factory=dict)
    """Functions of products and of received rows."""
    rows: int = 0
    """The rows of all parts."""
    experts: int = 0
    """The number of a rank's experts; 0 until a product is found."""

    @property
    def nodes(self) -> set[Node]:
        """All nodes that the program replaces."""
        ends = {end.node for end in self.collectives} | {end.result for end in self.collectives}
        return {*ends, *self.products, *self.between_products, *self.through}

    @property
    def collectives(self) -> list[Collective]:
        """The exchanges."""
        return [end for end in (self.dispatch, self.combine) if end is not None]

    @property
    def made(self) -> list[Node]:
        """The nodes that have numbers of the region's own: received rows, products and functions."""
        received = [] if self.dispatch is None else [self.dispatch.result]
        return [*received, *self.products, *self.between_products]


def find_experts(index: GraphIndex, end: Collective, others: list[Collective]) -> Iterator[ExpertRegion]:
    """The regions of experts that an exchange can be in, the largest first. Raises `Kept` if there is none."""
    check_exchange(end)
    found: list[ExpertRegion] = []
    reasons: list[Kept] = []
    tried = [(other, True) for other in (end, *others) if other.is_exchange]
    for last, takes_dispatch in [*dict.fromkeys(tried), (end, False)]:
        try:
            region = _before_exchange(index, last, takes_dispatch=takes_dispatch)
        except Kept as kept:
            if last.node is end.node:
                reasons.append(kept)
            continue
        if end.node in [one.node for one in region.collectives]:
            found.append(region)
    yield from found
    try:
        yield _after_exchange(index, end)
    except Kept as kept:
        if not found:
            # A product that cannot be fused says more than the lack of one.
            reasons.append(kept)
            details = dict.fromkeys(one.detail for one in reasons if one.detail)
            nothing = Kept(Reason.NO_EXPERTS, ", ".join(details))
            raise next((one for one in reasons if one.reason is not Reason.NO_EXPERTS), nothing) from None


def _new_region(end: Collective) -> ExpertRegion:
    check_exchange(end)
    assert end.size is not None
    return ExpertRegion(end.group, end.size, rows=math.prod(shape_of(end.source)[:-1]))


def _before_exchange(index: GraphIndex, end: Collective, *, takes_dispatch: bool = True) -> ExpertRegion:
    """The products that make what an exchange sends, and the exchange before them."""
    region = _new_region(end)
    region.combine = end
    order = RowOrder.of_shape(shape_of(end.source))
    if not _follow_back(index, region, end.source, order, takes_dispatch) or not region.products:
        raise _reason_of_no_experts(index, end.source, backwards=True)
    return region


def _follow_back(index: GraphIndex, region: ExpertRegion, node: Node, order: RowOrder, takes_dispatch: bool) -> bool:
    """Adds what makes a node of the region. False if it is an argument of the program, as what no product makes."""
    if node in region.orders:
        if region.orders[node] != order:
            raise Kept(Reason.LAYOUT, f"{node.name} is read in two orders")
        return True
    end = exchange_of_result(node)
    if end is not None:
        return takes_dispatch and _add_dispatch(region, end, node, order)
    move, product, function = index.moves.get(node), expert_product_of(node), index.functions.get(node)
    if product is not None:
        _add_product(region, product, order)
        # What the left factor is made of is in the region if an exchange is, too.
        kept = _copy_of(region)
        if not _follow_back(index, region, product.left, order, takes_dispatch) or region.dispatch is None:
            _restore(region, kept)
        return True
    if move is not None:
        before = order_before(move, order)
        if before is None or not _follow_back(index, region, move.source, before, takes_dispatch):
            return False
        region.through.update((node, *move.through))
        region.orders[node] = order
        return True
    return function is not None and _add_function(index, region, function, order, takes_dispatch)


def _add_dispatch(region: ExpertRegion, end: Collective, node: Node, order: RowOrder) -> bool:
    """Adds the exchange that received a node, if its rows are those that the products read, in parts of the same ranks."""
    check_exchange(end)
    is_ours = (end.group, end.size) == (region.group, region.ranks) and region.dispatch in (None, end)
    if not is_ours or math.prod(shape_of(node)[:-1]) != region.rows:
        return False
    if not order.is_natural:
        raise Kept(Reason.LAYOUT, node.name)
    region.dispatch = end
    region.orders[node] = order
    return True


def _add_product(region: ExpertRegion, product: ExpertProduct, order: RowOrder) -> None:
    """Adds a product whose rows have an order. Raises `Kept` unless its batches are the experts within each part."""
    _check_experts(region, product, order)
    region.experts = product.experts
    region.products[product.node] = product
    region.orders[product.node] = order
    region.weight_views.update(product.weight.through)
    if product.ends is not None:
        operand, rows = product.ends
        region.offsets[operand] = GroupEnds(product.left, product.experts, rows)


def _check_experts(region: ExpertRegion, product: ExpertProduct, order: RowOrder) -> None:
    if region.experts not in (0, product.experts):
        raise Kept(Reason.BATCHED_MATMUL, f"{product.node.name} has {product.experts} experts, others {region.experts}")
    parts = region.ranks * product.experts
    if region.rows % parts != 0 or region.rows == 0:
        raise Kept(Reason.ROWS_NOT_DIVISIBLE, f"{region.rows} rows by {region.ranks} ranks and {product.experts} experts")
    batched = order if len(order.axes) == 2 else order.viewed([product.experts, region.rows // product.experts])
    wanted = () if product.experts == 1 else (Run(product.experts, region.rows // parts),)
    has_batches = len(order.axes) == 2 or product.experts > 1
    if batched is None or (has_batches and batched.axis_runs(0) != wanted):
        raise Kept(Reason.LAYOUT, f"the rows of each expert in {product.node.name}")


def _add_function(index: GraphIndex, region: ExpertRegion, function: Function, order: RowOrder, takes_dispatch: bool) -> bool:
    """Adds a function of products or of received rows; False if none of its operands is made of these."""
    node, kept, is_reached = function.node, _copy_of(region), False
    shape = shape_of(node)
    for operand in dict.fromkeys(function.tensors):
        if shape_of(operand) == shape and _follow_back(index, region, operand, order, takes_dispatch):
            is_reached = True
    arguments = [operand for operand in function.tensors if operand not in region.orders]
    has_forms = all(expert_operand_kind(shape_of(operand), shape, order, region) and _has_type(operand) for operand in arguments)
    if not is_reached or not has_forms or not _has_type(node):
        _restore(region, kept)
        return False
    region.between_products[node] = function
    region.orders[node] = order
    return True


def _has_type(node: Node) -> bool:
    try:
        element_type(node)
    except Kept:
        return False
    return True


def expert_operand_kind(shape: list[int], result: list[int], order: RowOrder, region: ExpertRegion) -> str | None:
    """The kind of an operand beside rows: `rows`, `row`, `column`, `scalar`; those of each expert are `columns` and `scalars`."""
    if math.prod(shape) == 1:
        return "scalar"
    if len(shape) > len(result):
        return None
    full = [1] * (len(result) - len(shape)) + shape
    if full[:-1] == result[:-1]:
        return "rows" if full[-1] == result[-1] else "row" if full[-1] == 1 else None
    kind = {result[-1]: "column", 1: "scalar"}.get(full[-1])
    if kind is None or math.prod(full[:-1]) == 1:
        return kind
    is_expert = len(full) > 1 and math.prod(full[1:-1]) == 1 and full[0] == result[0] == region.experts
    of_experts = (Run(region.experts, region.rows // (region.ranks * region.experts)),) if region.experts else ()
    return f"{kind}s" if is_expert and order.axis_runs(0) == of_experts else None


def _copy_of(region: ExpertRegion) -> ExpertRegion:
    """The region with collections of its own."""
    return ExpertRegion(
        region.group,
        region.ranks,
        dispatch=region.dispatch,
        combine=region.combine,
        products=dict(region.products),
        orders=dict(region.orders),
        between_products=dict(region.between_products),
        through=set(region.through),
        weight_views=set(region.weight_views),
        offsets=dict(region.offsets),
        rows=region.rows,
        experts=region.experts,
    )


def _restore(region: ExpertRegion, kept: ExpertRegion) -> None:
    for name, value in vars(kept).items():
        setattr(region, name, value)


def _after_exchange(index: GraphIndex, end: Collective) -> ExpertRegion:
    """The products of what an exchange brings."""
    region = _new_region(end)
    region.dispatch = end
    region.orders[end.result] = RowOrder.of_shape(shape_of(end.result))
    moved: dict[Node, Node] = {}
    for node in index.behind(end.result):
        move = index.moves.get(node)
        if move is not None and move.source in region.orders:
            order = order_after(move, region.orders[move.source])
            if order is not None:
                region.orders[node], moved[node] = order, move.source
                region.through.update((node, *move.through))
            continue
        _add_if_product(region, node)
    if not region.products:
        raise _reason_of_no_experts(index, end.result, backwards=False)
    return region


def _add_if_product(region: ExpertRegion, node: Node) -> None:
    try:
        product = expert_product_of(node)
    except Kept:
        return
    if product is None or product.left not in region.orders or product.left in region.products or product.bias is not None:
        return
    is_right = {product.weight.source, *product.weight.through} & region.orders.keys()
    order = region.orders[product.left]
    try:
        _check_experts(region, product, order)
    except Kept:
        return
    if not is_right:
        _add_product(region, product, order)


def _reason_of_no_experts(index: GraphIndex, start: Node, *, backwards: bool) -> Kept:
    """The nodes that stand beside an exchange in the place of products."""
    queue, seen, others = [start], {start}, []
    while queue:
        node = queue.pop(0)
        # A received tensor itself is no reader.
        for other in [node] if backwards else list(node.users):
            found = _reason_at(index, other)
            if found is not None:
                return found
            is_simple = op_name(other) in VIEWS | COPIES | MOVING | {"stack", "unbind"} or torch.Tag.pointwise in getattr(
                other.target, "tags", ()
            )
            if not is_simple and op_name(other) != "wait_tensor":
                others.append(op_name(other) or other.op)
                continue
            found_next = [*(other.all_input_nodes if backwards else [other])]
            queue.extend(one for one in found_next if one not in seen)
            seen.update(found_next)
    return Kept(Reason.NO_EXPERTS, ", ".join(dict.fromkeys(others)))


def _reason_at(index: GraphIndex, node: Node) -> Kept | None:
    """The reason for which a product, or a region, does not belong to an exchange; None for other nodes."""
    elsewhere = region_name(node.args[0] if op_name(node) == "getitem" else node)
    if elsewhere:
        return Kept(Reason.MATMUL_ELSEWHERE, elsewhere)
    try:
        product = expert_product_of(node)
    except Kept as kept:
        return kept
    if product is None:
        return None
    is_apart = product.experts == 1 and len(shape_of(node)) == 2
    return Kept(Reason.EXPERTS_APART, node.name) if is_apart else Kept(Reason.LAYOUT, node.name)
