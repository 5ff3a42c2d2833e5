"""Views that say nothing: what `einsum` puts around a matmul, as one view of what it views."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hostir.torch._overlap.layouts import permutation_of
from hostir.torch._overlap.nodes import Node, any_in, collective_of, is_in_place, is_static, op_name, shape_of
from hostir.torch._torch_internals import op_overload_name

__all__ = ["merge_views"]

UNIT_AXES = {"unsqueeze", "squeeze"}
SHAPES = {"view", "_unsafe_view", "reshape"}


def merge_views(graph: torch.fx.Graph) -> None:
    """Joins permutations that follow each other, and views that follow views which only change the shape. Graphs without
    collectives stay as they are, and those with ops in place.
    """
    if not any(collective_of(node) is not None for node in graph.nodes):
        return
    # A view that copies has the numbers of its place in the graph.
    if any(any_in(node, is_in_place) for node in graph.nodes):
        return
    for node in list(graph.nodes):
        if not is_static(node):
            continue
        if _gives_shape(node):
            _join_views(node)
        else:
            _join_permutations(graph, node)


def _gives_shape(node: Node) -> bool:
    """True for a view of another shape; one of another element type is none."""
    return op_name(node) in SHAPES and op_overload_name(node.target) != "dtype"


def _join_views(node: Node) -> None:
    """Lets a view that gives a shape skip what only changes the shape: the order of elements counts, not that they lie so."""
    source = node.args[0]
    assert isinstance(source, torch.fx.Node)
    while _keeps_elements(source):
        (source, *_) = source.all_input_nodes
    _skip(node, source)


def _keeps_elements(node: Node) -> bool:
    """True for a view whose elements have the order of what it views, row by row."""
    if op_name(node) in UNIT_AXES or _gives_shape(node):
        return is_static(node) and is_static(node.all_input_nodes[0])
    order = permutation_of(node)
    if order is None:
        return False
    shape = shape_of(node.all_input_nodes[0])
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept)


def _join_permutations(graph: torch.fx.Graph, node: Node) -> None:
    """Makes a permutation of a permutation one of them, or none."""
    outer = permutation_of(node)
    inner = None if outer is None else permutation_of(node.all_input_nodes[0])
    if outer is None or inner is None:
        return
    (source,) = node.all_input_nodes[0].all_input_nodes
    order = [inner[axis] for axis in outer]
    if order == sorted(order):
        _replace(node, source)
        return
    with graph.inserting_before(node):
        joined = graph.call_function(torch.ops.aten.permute.default, (source, order))
    joined.meta = dict(node.meta)
    _replace(node, joined)


def _skip(node: Node, source: Node) -> None:
    before = node.all_input_nodes[0]
    if source is not before:
        node.replace_input_with(before, source)
        node.target = torch.ops.aten.reshape.default
        _erase_unused([before])


def _replace(node: Node, other: Node) -> None:
    node.replace_all_uses_with(other)
    _erase_unused([node])


def _erase_unused(nodes: Sequence[Node]) -> None:
    """Erases views that nothing reads any more, and what only they read."""
    queue = list(nodes)
    while queue:
        node = queue.pop()
        is_view = op_name(node) in UNIT_AXES or _gives_shape(node) or permutation_of(node) is not None
        if is_view and not node.users:
            queue.extend(node.all_input_nodes)
            node.graph.erase_node(node)
