"""Regions of a graph that one program can do, and what they are found by: the kinds of the graph's nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from hostir.torch._overlap.functions import Function, function_of
from hostir.torch._overlap.layouts import TURNS, Columns, Move, columns_of, move_of
from hostir.torch._overlap.nodes import (
    Collective,
    Contraction,
    Matmul,
    Node,
    contraction_of,
    graph_order,
    matmul_of,
)
from hostir.torch._overlap.reasons import Kept, Reason

__all__ = ["FULL_PRODUCT", "MOVING", "GraphIndex", "GroupEnds", "Region", "Rows", "before_of", "ranks_of"]

# The elements of a product that gives each of an H100's 132 multiprocessors a tile of 128 x 256.
FULL_PRODUCT = 132 * 128 * 256

# Ops that move elements and may take the parts of the ranks apart.
MOVING = TURNS | {"cat", "chunk", "expand", "getitem", "movedim", "select", "slice", "split", "split_with_sizes"}


@dataclass(frozen=True)
class Rows:
    """A value of a region: rows of all parts. `before` is that of `layouts`, `width` the number of columns."""

    before: int
    width: int


@dataclass(frozen=True)
class GroupEnds:
    """The ends of so many groups of equal numbers of rows of a tensor."""

    tensor: Node
    count: int
    rows: int


@dataclass
class Region:
    """Nodes that one program replaces."""

    group: str
    ranks: int
    gather: Collective | None = None
    sum: Collective | None = None
    prepared: tuple[Function, ...] = ()
    """Functions of the gathered rows alone: the program computes them of the rank's own rows, and gathers what they make."""
    gathered: dict[Node, Rows] = field(default_factory=dict)
    """The gathered rows, as the collective gives them or the last of these functions, and moved."""
    values: dict[Node, Rows] = field(default_factory=dict)
    """Everything between, in the order of the graph: matmuls, functions, moves, ranges of columns."""
    contractions: list[Contraction] = field(default_factory=list)
    """Products that contract rows: gathered ones, with a factor from outside, or those that a sum's matmuls read."""
    scales: dict[Node, Collective] = field(default_factory=dict)
    """The scales of gathered rows as matmuls read them, and the collectives that gather them."""
    summed: list[Matmul] = field(default_factory=list)
    """The matmuls whose results are added up over the ranks; they have no results of their own."""
    between: list[Node] = field(default_factory=list)
    """Functions and moves of these results that make what is summed; empty for their plain sum."""
    through: set[Node] = field(default_factory=set)
    """Nodes that only lead from one to another."""
    weight_views: set[Node] = field(default_factory=set)
    """Views of weights, which the program has, too; others may read them."""
    whole: frozenset[Node] = frozenset()
    """Matmuls of gathered rows that are one product of all rows, after the loop over the parts."""
    offsets: dict[Node, GroupEnds] = field(default_factory=dict)
    """Operands of grouped matmuls that are the ends of equal groups."""
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
    def has_functions(self) -> bool:
        """True if functions of products are summed, with biases among them."""
        return bool(self.between) or any(product.bias is not None for product in self.summed)

    @property
    def reduced(self) -> Node | None:
        """The node that has the sum over ranks."""
        return self.sum.result if self.sum is not None else None


class GraphIndex:
    """The kinds of the nodes of a graph. It holds until the graph changes."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.order = graph_order(graph)
        self.nodes = list(self.order)
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
        return itertools.islice(self.nodes, self.order[node] + 1, None)

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


def ranks_of(end: Collective) -> int:
    """The number of ranks of a collective. Raises `Kept` for a group that is unknown or has one rank."""
    if not isinstance(end.group, str) or end.size is None:
        raise Kept(Reason.UNKNOWN_GROUP)
    if end.size < 2:
        raise Kept(Reason.ONE_RANK)
    return end.size


def before_of(region: Region, node: Node) -> int:
    """The places of the parts in a matmul that is summed."""
    return region.values[node].before
