"""Regions of a graph that one program can do: a gather and its matmuls, a matmul and its sum over ranks, or both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch

from hostir.torch._overlap.functions import Function, function_of
from hostir.torch._overlap.layouts import COPIES, TURNS, VIEWS, Columns, Move, columns_of, move_of
from hostir.torch._overlap.nodes import (
    Collective,
    Contraction,
    Matmul,
    Node,
    Weight,
    collective_of,
    contraction_of,
    element_type,
    graph_order,
    is_turned,
    matmul_of,
    region_name,
    op_name,
    shape_of,
)
from hostir.torch._overlap.reasons import Kept, Reason

__all__ = [
    "GraphIndex",
    "Region",
    "Rows",
    "find_gather",
    "find_sum",
    "join_regions",
    "operand_kind",
    "with_factors_side_by_side",
    "with_gradients_of_weights",
    "with_narrow_products_whole",
]

# The elements of a product that gives each of an H100's 132 multiprocessors a tile of 128 x 256.
FULL = 132 * 128 * 256

# Ops that move elements and may take the parts of the ranks apart.
MOVING = TURNS | {"cat", "chunk", "expand", "getitem", "movedim", "select", "slice", "split", "split_with_sizes"}


@dataclass(frozen=True)
class Rows:
    """A value of a region: rows of all parts. `before` is that of `layouts`, `width` the number of columns."""

    before: int
    width: int


@dataclass
class Region:
    """Nodes that one program replaces."""

    group: str
    ranks: int
    gather: Collective | None = None
    sum: Collective | None = None
    gathered: dict[Node, Rows] = field(default_factory=dict)
    """The gathered rows, as the collective gives them and moved."""
    values: dict[Node, Rows] = field(default_factory=dict)
    """Everything between, in the order of the graph: matmuls, functions, moves, ranges of columns."""
    contractions: list[Contraction] = field(default_factory=list)
    """Products that contract rows: gathered ones, the other factor being no value of the region, or such as a sum's matmuls read."""
    scales: dict[Node, Collective] = field(default_factory=dict)
    """The scales of gathered rows as matmuls read them, and the collectives that gather them."""
    summed: list[Matmul] = field(default_factory=list)
    """The matmuls whose results are added up over the ranks; they have no results of their own."""
    through: set[Node] = field(default_factory=set)
    """Nodes that only lead from one to another."""
    weight_views: set[Node] = field(default_factory=set)
    """Views of weights, which the program has, too; others may read them."""
    whole: frozenset[Node] = frozenset()
    """Matmuls of gathered rows that are one product of all rows, after the loop over the parts."""
    side_by_side: bool = False
    """True if the summed matmuls are one product, of their left factors side by side and their weights one below the other."""

    @property
    def nodes(self) -> set[Node]:
        """All nodes that the program replaces."""
        ends = {end.node for end in self.collectives} | {end.result for end in self.collectives}
        products = {product.node for product in self.contractions} | {product.node for product in self.summed}
        return {*self.gathered, *self.values, *self.through, *ends, *products}

    @property
    def collectives(self) -> list[Collective]:
        """The collectives that it replaces."""
        scales = dict.fromkeys(self.scales.values())
        return [end for end in (self.gather, *scales, self.sum) if end is not None]

    @property
    def reduced(self) -> Node | None:
        """The node that has the sum over ranks."""
        return self.sum.result if self.sum is not None else None


class GraphIndex:
    """The kinds of the nodes of a graph. It holds until the graph changes."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.order = graph_order(graph)
        self.moves: dict[Node, Move] = {}
        self.columns: dict[Node, Columns] = {}
        self.functions: dict[Node, Function] = {}
        for node in graph.nodes:
            self._read(node)

    def _read(self, node: Node) -> None:
        move, columns, function = move_of(node), columns_of(node), function_of(node)
        if move is not None:
            self.moves[node] = move
        elif columns is not None:
            self.columns[node] = columns
        elif function is not None:
            self.functions[node] = function

    def behind(self, node: Node) -> Iterator[Node]:
        """The nodes after one."""
        nodes = list(self.order)
        return iter(nodes[self.order[node] + 1 :])

    def matmul(self, node: Node) -> Matmul | None:
        """The matmul that a node is; None also for one that no program has."""
        try:
            return matmul_of(node)
        except Kept:
            return None

    def contraction(self, node: Node) -> Contraction | None:
        """The contraction of rows that a node is; None also where shapes are unknown."""
        try:
            return contraction_of(node)
        except Kept:
            return None

    def dependents(self, node: Node) -> set[Node]:
        """A node and all that are computed from it."""
        found = {node}
        for other in self.behind(node):
            if any(operand in found for operand in other.all_input_nodes):
                found.add(other)
        return found


def _ranks_of(end: Collective) -> int:
    if not isinstance(end.group, str) or end.size is None:
        raise Kept(Reason.UNKNOWN_GROUP)
    if end.size < 2:
        raise Kept(Reason.ONE_RANK)
    return end.size


def find_gather(index: GraphIndex, end: Collective) -> Region:
    """An allgather and the matmuls of the rows."""
    ranks = _ranks_of(end)
    shape = shape_of(end.result)
    region = Region(end.group, ranks, gather=end)
    region.gathered[end.result] = Rows(1, shape[-1])
    for node in index.behind(end.result):
        _gather_move(index, region, node)
    for node in index.behind(end.result):
        matmul = index.matmul(node)
        if matmul is not None and matmul.left in region.gathered and _can_multiply(region, matmul):
            _add_scales(index, region, matmul)
            _add_matmul(region, matmul, region.gathered[matmul.left].before)
    _add_contractions(index, region, end.result)
    if not region.values and not region.contractions:
        raise _reason_of_no_matmul(index, region)
    element_type(end.result)
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
        is_narrow = width < max(widths.values()) and math.prod(shape_of(node)) // region.ranks < FULL
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
            matmul = matmul_of(user)
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
    return Kept(Reason.NO_MATMUL_BEHIND, ", ".join(dict.fromkeys(others)))


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


def find_sum(index: GraphIndex, end: Collective) -> Region:
    """A sum over ranks and the matmuls that make what is summed."""
    ranks = _ranks_of(end)
    if str(end.node.args[1]).lower() != "sum":
        raise Kept(Reason.REDUCTION_KIND, str(end.node.args[1]))
    region = Region(end.group, ranks, sum=end)
    shape = shape_of(end.source)
    element_type(end.node)
    # What makes it is the better reason.
    _collect_summed(index, region, end.source, 1)
    if not shape or (shape[0] % ranks != 0 and end.kind == "reduce_scatter"):
        raise Kept(Reason.ROWS_NOT_DIVISIBLE, f"{shape} by {ranks} ranks")
    for matmul in region.summed:
        rows, before = math.prod(shape_of(matmul.node)[:-1]), _before_of(region, matmul.node)
        if 1 < before and rows < before * ranks:
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
    if region.gather is not None or len(matmuls) < 2 or any(matmul.scales is not None for matmul in matmuls):
        return None
    lefts, width = [matmul.left for matmul in matmuls], shape_of(matmuls[0].node)[-1]
    is_narrow = any(shape_of(left)[-1] * width < FULL for left in lefts)
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
    return (tuple(rows), _before_of(region, matmul.node), len(shape_of(weight.source)), weight.is_transposed, element_type(matmul.left))


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


def _before_of(region: Region, node: Node) -> int:
    """The places of the parts in a matmul that is summed."""
    return region.values[node].before


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
    """A term of a sum that is no matmul is something else than a collective without a matmul."""
    others = (Reason.NO_MATMUL_BEFORE, Reason.CHANGED_BEFORE_SUM)
    return Kept(Reason.ADDED_BEFORE_SUM, term.name) if kept.reason in others else kept


def join_regions(index: GraphIndex, gather: Region, total: Region) -> Region | None:
    """Both as one, if functions of the gather's matmuls are what the sum's matmuls read; nothing is gathered between."""
    if gather.group != total.group or gather.ranks != total.ranks:
        return None
    reached = _reach(index, gather)
    needed: set[Node] = set()
    for matmul in total.summed:
        before = _before_of(total, matmul.node)
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
        gathered=gather.gathered,
        values={**inner, **total.values},
        contractions=gather.contractions,
        scales=gather.scales,
        summed=total.summed,
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
