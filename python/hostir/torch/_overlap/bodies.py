"""The nodes of a region as functions: in the forms of its program, as torch has them, and with the program in their place."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from hostir.torch._overlap.emit import Argument, Result, Written
from hostir.torch._overlap.forms import add_call, from_program, to_program
from hostir.torch._overlap.nodes import Node, changes_values, shape_of
from hostir.torch._overlap.regions import GraphIndex, GroupEnds, Region
from hostir.torch._overlap.sizes import bind_graph, in_graph, number_of, sizes_in

__all__ = ["Part", "RegionBody", "apart_module", "body_of_module", "call_program", "program_module", "region_body", "torch_module"]

aten = torch.ops.aten


@dataclass(frozen=True)
class Part:
    """A region with its program as an op."""

    region: Region
    written: Written
    target: Any


@dataclass(frozen=True)
class RegionBody:
    """The region's own nodes, from arguments to results in the forms of the program."""

    function: Callable[..., Any]
    """With the signature of an op: the program's inputs, and the group's name."""
    module: GraphModule
    """The nodes."""
    result_count: int
    size_count: int = 0
    """The number of its arguments that are sizes."""

    @property
    def code(self) -> str:
        """Its Python code."""
        return str(self.module.code)


def region_body(index: GraphIndex, region: Region, written: Written) -> RegionBody:
    """The body of the op that a region becomes."""
    graph = Graph()
    env: dict[Node, Node] = {}
    given = [graph.placeholder(argument.name.lower()) for argument in written.arguments]
    group = graph.placeholder("group")
    bind_graph(graph, {symbol: graph.placeholder(name) for symbol, name in zip(written.symbols, size_names(len(written.symbols)))})
    for argument, value in zip(written.arguments, given, strict=True):
        env.update(_tensors_of_argument(graph, argument, value))
    _copy_nodes(graph, index, region, env, group)
    made = []
    for result in written.results:
        node, before = result.nodes[0]
        value = _joined(graph, [env[node] for node, _ in result.nodes], 0) if result.rows else env[node]
        made.append(to_program(graph, value, replace(result.form, before=before)))
    graph.output(made[0] if len(made) == 1 else tuple(made))
    module = GraphModule(torch.nn.Module(), graph)
    arguments = [argument.name.lower() for argument in written.arguments]
    return body_of_module(module, written.name, arguments, len(made), len(written.symbols))


def body_of_module(module: GraphModule, name: str, arguments: Sequence[str], result_count: int, size_count: int) -> RegionBody:
    """The body of a region of this name: a module that takes the arguments, the group's name, and sizes."""
    return RegionBody(_with_signature(module, name, arguments, result_count, size_count), module, result_count, size_count)


def _tensors_of_argument(graph: Graph, argument: Argument, value: Node) -> dict[Node, Node]:
    """The tensors for the nodes of an argument."""
    whole = from_program(graph, value, argument.form, argument.shape)
    if len(argument.nodes) == 1:
        return {argument.nodes[0]: whole}
    parts = _parts_of(graph, whole, argument.axis, argument.extents)
    copies = [add_call(graph, aten.clone.default, part, memory_format=torch.contiguous_format) for part in parts]
    return dict(zip(argument.nodes, copies, strict=True))


def _joined(graph: Graph, tensors: list[Node], axis: int) -> Node:
    return add_call(graph, aten.cat.default, tensors, axis)


def _parts_of(graph: Graph, tensor: Node, axis: int, extents: Sequence[int]) -> list[Node]:
    """Ranges of a tensor along an axis, one after the other."""
    ends = list(itertools.accumulate(extents))
    starts = [0, *ends[:-1]]
    return [add_call(graph, aten.slice.Tensor, tensor, axis, start, end) for start, end in zip(starts, ends, strict=True)]


def _copy_nodes(graph: Graph, index: GraphIndex, region: Region, env: dict[Node, Node], group: Any) -> None:
    groups = {end.node for end in region.collectives}
    for node in sorted(region.nodes | region.weight_views, key=index.order.__getitem__):
        if node in env:
            continue
        for operand in node.all_input_nodes:
            if operand in region.offsets and operand not in env:
                env[operand] = _group_ends(graph, region.offsets[operand], env)
        # Names are made anew: the same region of another layer is the same op.
        args, kwargs = (_mapped(graph, given, env) for given in (node.args, node.kwargs))
        copy = graph.create_node(node.op, node.target, args, kwargs)
        if node in groups:
            copy.args = tuple(group if value == region.group else value for value in copy.args)
        env[node] = copy


def _group_ends(graph: Graph, ends: GroupEnds, env: Mapping[Node, Node]) -> Node:
    """The ends of groups, on the device of the rows: those of the graph may have been made on another rank's."""
    kind = {"dtype": torch.int32}
    counts = graph.call_function(aten.new_full.default, (env[ends.tensor], [ends.count], in_graph(graph, ends.rows)), kind)
    return graph.call_function(aten.cumsum.default, (counts, 0), kind)


def _mapped(graph: Graph, given: Any, env: Mapping[Node, Node]) -> Any:
    """Arguments of a copy: nodes of the graph, and what computes their sizes."""

    def mapped(node: Node) -> Any:
        return env[node] if node in env else in_graph(graph, number_of(node))

    return torch.fx.node.map_arg(given, mapped)


def size_names(count: int) -> list[str]:
    """The names of the op's arguments for the values of symbols."""
    return [f"size_{at}" for at in range(count)]


def _with_signature(module: GraphModule, name: str, names: Sequence[str], result_count: int, size_count: int) -> Callable[..., Any]:
    """A function whose annotations say what the op's arguments are."""

    def body(*values: Any) -> Any:
        return module(*values)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(one, kind, annotation=torch.Tensor) for one in names]
    parameters.append(inspect.Parameter("group", kind, annotation=str))
    parameters.extend(inspect.Parameter(size, kind, annotation=int) for size in size_names(size_count))
    result = torch.Tensor if result_count == 1 else tuple[(torch.Tensor,) * result_count]  # type: ignore[misc]
    body.__signature__ = inspect.Signature(parameters, return_annotation=result)  # type: ignore[attr-defined]
    body.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": result}
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Region {name} of a graph."
    return body


def call_program(graph: Graph, written: Written, target: Any, env: Mapping[Node, Node], group: str) -> dict[Node, Node]:
    """Appends the op's call and the views around it; gives what stands for each result of the region."""
    given = _program_arguments(graph, written, env)
    call = add_call(graph, target, *given, group, *sizes_in(graph, written.symbols))
    parts = [call]
    if len(written.results) > 1:
        parts = [add_call(graph, operator.getitem, call, at) for at in range(len(written.results))]
    made = {}
    for result, part in zip(written.results, parts, strict=True):
        made.update(_tensors_of_result(graph, result, part))
    return made


def _program_arguments(graph: Graph, written: Written, env: Mapping[Node, Node]) -> list[Node]:
    """The arguments of the op's call. What is joined from several nodes is joined once, also if it is several arguments."""
    joined: dict[tuple[Node, ...], Node] = {}
    given = []
    for argument in written.arguments:
        key, tensors = argument.nodes, [env[node] for node in argument.nodes]
        if key not in joined:
            joined[key] = tensors[0] if len(key) == 1 else _joined(graph, tensors, argument.axis)
        given.append(to_program(graph, joined[key], argument.form))
    return given


def _tensors_of_result(graph: Graph, result: Result, part: Node) -> dict[Node, Node]:
    """The tensors for the nodes of a result. Nodes of one form and shape share the views and the copy, if nothing may change it."""
    if result.rows:
        parts = _parts_of(graph, part, 0, result.rows)
        return {node: found for (node, _), found in zip(result.nodes, parts, strict=True)}
    made: dict[Node, Node] = {}
    shared: dict[tuple[int, tuple[int, ...]], Node] = {}
    for node, before in result.nodes:
        kind = (before, tuple(shape_of(node)))
        is_shared = before == 1 or not _may_be_changed(node)
        if is_shared and kind in shared:
            made[node] = shared[kind]
            continue
        made[node] = from_program(graph, part, replace(result.form, before=before), shape_of(node))
        if is_shared:
            shared[kind] = made[node]
    return made


def _may_be_changed(node: Node) -> bool:
    """True for a result of the graph, and if the graph changes more than its inputs in place."""
    return any(user.op == "output" for user in node.users) or changes_values(node.graph)


def torch_module(index: GraphIndex, region: Region, written: Written) -> GraphModule:
    """The region's own nodes, from tensors of torch to tensors of torch: what the program is measured beside."""
    graph = Graph()
    env = _placeholders(graph, written)
    _copy_nodes(graph, index, region, env, region.group)
    graph.output(tuple(env[node] for result in written.results for node, _ in result.nodes))
    return GraphModule(torch.nn.Module(), graph)


def program_module(region: Region, written: Written, target: Any) -> GraphModule:
    """The same with the op in the place of the nodes."""
    graph = Graph()
    env = _placeholders(graph, written)
    made = call_program(graph, written, target, env, region.group)
    graph.output(tuple(made[node] for result in written.results for node, _ in result.nodes))
    return GraphModule(torch.nn.Module(), graph)


def apart_module(index: GraphIndex, region: Region, written: Written, parts: Sequence[Part]) -> GraphModule:
    """The same with an op for each of the parts of a joined region, in their order, and the nodes between them.

    Raises `KeyError` if a part needs what is computed later.
    """
    graph = Graph()
    env = _placeholders(graph, written)
    left = set(region.nodes | region.weight_views)
    for part in parts:
        inside = part.region.nodes
        needed = set(part.written.argument_nodes) - env.keys()
        _copy_between(graph, index, left - inside, needed, env)
        env.update(call_program(graph, part.written, part.target, env, part.region.group))
        left -= inside
    wanted = [node for result in written.results for node, _ in result.nodes]
    _copy_between(graph, index, left, set(wanted) - env.keys(), env)
    graph.output(tuple(env[node] for node in wanted))
    return GraphModule(torch.nn.Module(), graph)


def _copy_between(graph: Graph, index: GraphIndex, nodes: set[Node], needed: set[Node], env: dict[Node, Node]) -> None:
    """Copies what some nodes need, themselves included, of nodes that are not there yet."""
    queue, found = list(needed), set()
    while queue:
        node = queue.pop()
        if node in nodes and node not in env and node not in found:
            found.add(node)
            queue.extend(node.all_input_nodes)
    for node in sorted(found, key=index.order.__getitem__):
        args, kwargs = (_mapped(graph, given, env) for given in (node.args, node.kwargs))
        env[node] = graph.create_node(node.op, node.target, args, kwargs)


def _placeholders(graph: Graph, written: Written) -> dict[Node, Node]:
    if written.sizes is not None:
        # The measured programs have the sizes of the example.
        bind_graph(graph, {symbol: written.sizes.hint(symbol) for symbol in written.symbols})
    return {node: graph.placeholder(f"given_{at}") for at, node in enumerate(written.argument_nodes)}
