"""The op of a region in the place of its nodes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hostir.torch._overlap.bodies import call_program
from hostir.torch._overlap.emit import Written
from hostir.torch._overlap.forms import add_call
from hostir.torch._overlap.nodes import Node, any_in, changes_values, collective_of, graph_order, is_in_place, op_name
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import GraphIndex, Region
from hostir.torch._overlap.sizes import bind_graph, symbol_node

__all__ = ["check_convex", "check_in_place", "merge_waits", "replace_region", "try_replacement"]


def merge_waits(graph: torch.fx.Graph) -> None:
    """Lets all that reads a collective read the first wait for it, where it comes after that one.

    Gathers of the same rows that a compiler has merged have a wait each, and what a checkpoint saves is the collective itself.
    """
    order = {node: at for at, node in enumerate(graph.nodes)}
    for node in filter(collective_of, list(graph.nodes)):
        users = sorted(node.users, key=order.__getitem__)
        first = next((user for user in users if op_name(user) == "wait_tensor"), None)
        for user in users if first is not None else ():
            if user is first or order[user] < order[first]:
                continue
            if op_name(user) == "wait_tensor":
                user.replace_all_uses_with(first)
                graph.erase_node(user)
            else:
                user.replace_input_with(node, first)


def check_convex(index: GraphIndex, region: Region) -> None:
    """Raises `Kept` if something outside of the region depends on it and something in it on that.

    Collectives outside of it keep their order: ranks of other groups, for which this region may stay as it is, have the same. Ops
    that draw random numbers keep theirs, too.
    """
    inside = region.nodes
    after: set[Node] = set()
    earlier = _ordered_before(node for node in index.graph.nodes if node not in inside)
    for node in index.graph.nodes:
        if node in inside:
            late = [operand for operand in node.all_input_nodes if operand in after]
            if late:
                raise Kept(Reason.NOT_CONVEX, late[0].name)
        elif any(operand in inside or operand in after for operand in (*node.all_input_nodes, *earlier.get(node, ()))):
            after.add(node)


def check_in_place(index: GraphIndex, region: Region) -> None:
    """Raises `Kept` if an op in place stands where nodes change their order: between the region's nodes, with the views of its
    weights. Compiled graphs have such ops at their end alone, exported programs anywhere.
    """
    inside = region.nodes
    first = min(index.order[node] for node in inside | region.weight_views)
    last = max(index.order[node] for node in inside)
    for node, at in index.order.items():
        if first < at <= last and node not in inside and any_in(node, is_in_place):
            raise Kept(Reason.CHANGED_IN_PLACE, node.name)


def _ordered_before(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For each collective the one before it, if there is one, and for each op that draws random numbers."""
    found = list(nodes)
    before: dict[Node, tuple[Node, ...]] = {}
    for is_ordered in (_is_collective, _is_random):
        ordered = [node for node in found if any_in(node, is_ordered)]
        for one, other in itertools.pairwise(ordered):
            before[other] = (one,)
    return before


def _is_collective(node: Node) -> bool:
    return collective_of(node) is not None


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def try_replacement(graph: torch.fx.Graph, region: Region, written: Written, target: Any, *, is_compiled: bool) -> None:
    """Does in a copy of the graph what `replace_region` does. What raises, raises here, while the graph is whole."""
    copy = torch.fx.Graph()
    env: dict[Node, Node] = {}
    copy.owning_module = graph.owning_module
    result = copy.graph_copy(graph, env)
    copy.output(result)
    region, written = (_in_copy(part, env) for part in (region, written))
    replace_region(copy, graph_order(copy), region, written, target, is_compiled=is_compiled)


def _in_copy(value: Any, env: dict[Node, Node]) -> Any:
    """The same with the nodes of a copy of the graph."""
    if isinstance(value, torch.fx.Node):
        return env.get(value, value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _in_copy(getattr(value, field.name), env) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **fields)
    if isinstance(value, dict):
        return {_in_copy(key, env): _in_copy(found, env) for key, found in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_in_copy(one, env) for one in value)
    return value


def replace_region(
    graph: torch.fx.Graph, order: Mapping[Node, int], region: Region, written: Written, target: Any, *, is_compiled: bool
) -> None:
    """Puts the op in the place of the region's first node, or after the last of its arguments, and erases the region's nodes that
    nothing needs any more. `order` has the place of each node of the graph.

    Tensors that are ranges of one result get memory of their own unless Inductor compiles the graph: run node by node, they would
    share a version, so that a change of one in place would count as a change of all.
    """
    first = min(region.nodes, key=order.__getitem__)
    last = max(written.argument_nodes, key=order.__getitem__)
    following = first if order[first] > order[last] else last.next
    env = {node: node for node in written.argument_nodes}
    made_sizes = _bind_inputs(graph, written)
    with graph.inserting_before(following):
        made = call_program(graph, written, target, env, region.group)
        if not is_compiled:
            parts = [node for result in written.results if result.rows for node, _ in result.nodes]
            made |= {node: add_call(graph, torch.ops.aten.clone.default, made[node]) for node in parts}
    for node in made_sizes:
        if not node.users:
            graph.erase_node(node)
    inside = region.nodes
    stack = next((end.node.meta["stack_trace"] for end in region.collectives if "stack_trace" in end.node.meta), None)
    for node, replacement in made.items():
        if stack is not None:
            replacement.meta.setdefault("stack_trace", stack)
        node.replace_all_uses_with(replacement, delete_user_cb=lambda user: user not in inside or user in region.through)
    for node in sorted(inside | region.weight_views, key=order.__getitem__, reverse=True):
        if not node.users:
            graph.erase_node(node)
    _restore_order(graph)
    if not changes_values(graph):
        for node in dict.fromkeys(made.values()):
            _copy_equal_sums(graph, node)
    graph.lint()


def _bind_inputs(graph: torch.fx.Graph, written: Written) -> list[Node]:
    """Finds the inputs of a graph that the symbols of a region are, or extents of. Gives the nodes that read these."""
    before = set(graph.nodes)
    bind_graph(graph, {symbol: symbol_node(graph, symbol) for symbol in written.symbols})
    return [node for node in graph.nodes if node not in before]


def _copy_equal_sums(graph: torch.fx.Graph, node: Node) -> None:
    """Puts a copy in the place of a sum of a tensor that an earlier node has, as of the gradients of several biases.

    Inductor compiles two equal sums of 16 bits to C++ that declares a name twice. They are copies, since results of a graph, as
    gradients are, have memory of their own.
    """
    order = graph_order(graph)
    first: dict[str, Node] = {}
    for user in sorted(node.users, key=order.__getitem__):
        if op_name(user) != "sum":
            continue
        found = first.setdefault(f"{user.target} {user.args} {user.kwargs}", user)
        if found is not user:
            with graph.inserting_before(user):
                user.replace_all_uses_with(add_call(graph, torch.ops.aten.clone.default, found))
            graph.erase_node(user)


def _restore_order(graph: torch.fx.Graph) -> None:
    """Moves nodes that now stand before an operand to a place after it; all others keep their order, and what is ordered does."""
    placed: set[Node] = set()
    waiting: dict[Node, list[Node]] = {}
    earlier = _ordered_before(graph.nodes)
    for node in list(graph.nodes):
        _place(node, placed, waiting, earlier)


def _place(first: Node, placed: set[Node], waiting: dict[Node, list[Node]], earlier: dict[Node, tuple[Node, ...]]) -> None:
    """Places a node if its operands are, and what it is ordered after, and after it the nodes that waited for it."""
    queue, last = [first], first
    while queue:
        node = queue.pop(0)
        needed = (*node.all_input_nodes, *earlier.get(node, ()))
        missing = next((operand for operand in needed if operand not in placed), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(node)
            continue
        if node is not first:
            last.append(node)
        placed.add(node)
        last = node
        queue.extend(waiting.pop(node, []))
