"""Symbolic extents as numbers that stand for all sizes, so that the pass reads every shape as numbers.

Each symbol of a graph has a prime, too large for the extent of any tensor; its value is the prime, or a multiple of it if the
symbol is taken for one. Extents that agree for such values agree for all sizes, but for a chance of 2^-30, and one that is a
product of primes and a number is that product of symbols for all of them. Programs name these products; graphs compute them.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import operator
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._torch_internals import FakeTensor, collects_guards, expression_of, hint_of, least_value

__all__ = [
    "Sizes",
    "bind_graph",
    "current_sizes",
    "example_of",
    "in_graph",
    "number_of",
    "read_inputs",
    "sizes_in",
    "sizes_of_graph",
    "symbol_node",
]

# The largest primes below 2^32; a graph has no more symbols.
PRIMES = (4294967291, 4294967279, 4294967231, 4294967197, 4294967189, 4294967161, 4294967143, 4294967111)
LEAST = 1 << 31
"""Every number that a prime divides is larger."""

LARGE = re.compile(r"(?<!\w)(?<!\d\.)\d{10,}(?!\w|\.\d)")

_current: contextvars.ContextVar[Sizes | None] = contextvars.ContextVar("hostir_sizes", default=None)
_graphs: weakref.WeakKeyDictionary[Graph, Mapping[Any, Any]] = weakref.WeakKeyDictionary()


def current_sizes() -> Sizes | None:
    """The sizes of the graph that is changed; None for one without symbols."""
    return _current.get()


def number_of(extent: Any) -> int | None:
    """An extent as a number; None for one that has none, as where data decides."""
    if isinstance(extent, Node):
        extent = extent.meta.get("val")
    if isinstance(extent, torch.SymInt):
        sizes = _current.get()
        return None if sizes is None else sizes.number_of(extent)
    return extent if isinstance(extent, int) else None


class Sizes:
    """The symbols of a graph's sizes, and the numbers in their place."""

    def __init__(self, symbols: Mapping[Any, torch.SymInt], multiples: Mapping[Any, int]) -> None:
        self.symbols = dict(symbols)
        """Each symbol, and an extent that it is."""
        self.multiples = {symbol: multiples.get(symbol, 1) for symbol in symbols}
        """By symbol: the number that its value is taken to be a multiple of."""
        self.primes = dict(zip(symbols, PRIMES, strict=False))
        self._values = {symbol: sympy.Integer(prime * self.multiples[symbol]) for symbol, prime in self.primes.items()}
        self._known: dict[Any, int | None] = {}

    @staticmethod
    def symbols_of(graph: Graph) -> dict[Any, torch.SymInt]:
        """The symbols that are inputs of a graph, or extents of these. They are at least 1, and not decided by data."""
        found: dict[Any, torch.SymInt] = {}
        for node in graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            for extent in value.shape if isinstance(value, torch.Tensor) else (value,):
                symbol = expression_of(extent) if isinstance(extent, torch.SymInt) else None
                if symbol is not None and symbol.is_Symbol and hint_of(extent) is not None and least_value(extent, symbol) >= 1:
                    found.setdefault(symbol, extent)
        return dict(list(found.items())[: len(PRIMES)])

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Shapes are read with these numbers."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def number_of(self, extent: torch.SymInt) -> int | None:
        """The number in the place of an extent."""
        expr = expression_of(extent)
        if expr not in self._known:
            value = sympy.sympify(expr.xreplace(self._values))
            # Half of a prime, rounded down, stands for no product.
            is_product = value.is_Integer and (value >= LEAST or not expr.free_symbols)
            self._known[expr] = int(value) if is_product else None
        return self._known[expr]

    def hint(self, symbol: Any) -> int:
        """The value of a symbol for which the graph is traced."""
        hint = hint_of(self.symbols[symbol])
        assert hint is not None, "a symbol without one is none of these"
        return hint

    def hint_of(self, number: int) -> int:
        """The number for the sizes for which the graph is traced."""
        return self._product(number, self.hint, operator.mul, operator.floordiv)

    def symbols_in(self, numbers: Iterable[int]) -> list[Any]:
        """The symbols of numbers, in their order."""
        found = [number for number in numbers if number >= LEAST]
        return [symbol for symbol, prime in self.primes.items() if any(number % prime == 0 for number in found)]

    def factors_of(self, number: int) -> tuple[int, list[Any]] | None:
        """A factor and the symbols, each divided by its multiple, whose product a number is; None if it is none."""
        symbols = []
        for symbol, prime in self.primes.items():
            while number % prime == 0 and number:
                number //= prime
                symbols.append(symbol)
        return (number, symbols) if number < LEAST else None

    def value_in(self, graph: Graph, number: int, values: Mapping[Any, Any]) -> Any:
        """A node of a graph that computes a number, or its value, from those of the symbols."""

        def call(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
            def apply(one: Any, other: Any) -> Any:
                if not isinstance(one, Node) and not isinstance(other, Node):
                    return function(one, other)
                node = graph.call_function(function, (one, other))
                given = [value.meta.get("val") if isinstance(value, Node) else value for value in (one, other)]
                if None not in given:
                    node.meta["val"] = function(*given)
                return node

            return apply

        return self._product(number, values.__getitem__, call(operator.mul), call(operator.floordiv))

    def _product(self, number: int, value_of: Callable[[Any], Any], multiply: Any, divide: Any) -> Any:
        if number < LEAST:
            return number
        found = self.factors_of(number)
        if found is None:
            raise ValueError(f"{number} is no product of sizes")
        (factor, symbols), made = found, None
        for symbol in symbols:
            term, multiple = value_of(symbol), self.multiples[symbol]
            if factor % multiple == 0:
                factor //= multiple
            else:
                term = divide(term, multiple)
            made = term if made is None else multiply(made, term)
        return made if factor == 1 else multiply(made, factor)

    def named(self, text: str) -> tuple[str, dict[str, int]] | None:
        """A program's text with names for products of symbols, `m` and `2 * m`, and the values of the names for the sizes of the
        example. None if one has no name.
        """
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number in map(int, LARGE.findall(text)):
            found = self.factors_of(number)
            if found is None:
                return None
            groups.setdefault(tuple(found[1]), []).append(found[0])
        names = {key: "m" if at == 0 else f"m{at}" for at, key in enumerate(groups)}
        units = {key: math.gcd(*factors) for key, factors in groups.items()}

        def name(match: re.Match[str]) -> str:
            found = self.factors_of(int(match.group()))
            assert found is not None
            factor, key = found[0], tuple(found[1])
            count = factor // units[key]
            return names[key] if count == 1 else f"{count} * {names[key]}"

        values = {names[key]: self._hint_of_product(units[key], key) for key in groups}
        return LARGE.sub(name, text), values

    def _hint_of_product(self, factor: int, symbols: Iterable[Any]) -> int:
        return self.hint_of(factor * math.prod(self.primes[symbol] for symbol in symbols))

    def told(self, text: str) -> str:
        """A text with the graph's symbols in the place of their numbers."""

        def tell(match: re.Match[str]) -> str:
            found = self.factors_of(int(match.group()))
            if found is None:
                return match.group()
            factor, symbols = found
            terms = []
            for symbol in symbols:
                multiple = self.multiples[symbol]
                is_whole = factor % multiple == 0
                factor = factor // multiple if is_whole else factor
                terms.append(str(symbol) if is_whole else f"({symbol} / {multiple})")
            return " * ".join(terms if factor == 1 else [str(factor), *terms])

        return LARGE.sub(tell, text)

    # Guards

    def guard_multiples(self, symbols: Iterable[Any]) -> bool:
        """Makes what a region takes symbols to be multiples of a condition of its graph. False where that is impossible."""
        for symbol in symbols:
            extent, multiple = self.symbols[symbol], self.multiples[symbol]
            is_known = multiple == 1 or _is_known_multiple(extent, multiple)
            if not is_known and not (collects_guards(extent) and bool(extent % multiple == 0)):
                return False
        return True

    def guard_range(self, symbols: Iterable[Any], *, is_larger: bool) -> None:
        """Makes the range of sizes for which a choice counts a condition of the graph: all that are larger, or smaller, than the
        power of two beside those of the example.
        """
        for symbol in symbols:
            extent = self.symbols[symbol]
            if collects_guards(extent):
                least = 1 << (self.hint(symbol).bit_length() - 1)
                bool(extent >= least if is_larger else extent < 2 * least)

    def range_text(self, symbols: Iterable[Any]) -> str:
        """A text that is the same for sizes of the example between the same powers of two."""
        return "".join(f"@{1 << (self.hint(symbol).bit_length() - 1)}" for symbol in symbols)


def sizes_of_graph(graph: Graph, ranks: Sequence[int | None]) -> Iterator[Sizes]:
    """The sizes of a graph: with what is known of them, and then with one symbol or all taken for multiples of the ranks, where
    those of the example are.
    """
    symbols = Sizes.symbols_of(graph)
    multiple = math.lcm(*(count for count in ranks if isinstance(count, int) and count > 1))
    known = {symbol: multiple for symbol, extent in symbols.items() if _is_known_multiple(extent, multiple)}
    first = Sizes(symbols, known)
    yield first
    free = [
        symbol
        for symbol, extent in symbols.items()
        if multiple > 1 and symbol not in known and first.hint(symbol) % multiple == 0 and collects_guards(extent)
    ]
    for symbol in free:
        yield Sizes(symbols, known | {symbol: multiple})
    if len(free) > 1:
        yield Sizes(symbols, known | dict.fromkeys(free, multiple))
    if Sizes.symbols_of(graph).keys() != symbols.keys():
        # Conditions have fixed a size: that of one row for each rank, say.
        yield from sizes_of_graph(graph, ranks)


def read_inputs(graph: Graph, sizes: Sizes) -> None:
    """Computes extents of tensors that the graph computes from those of its inputs, so that nothing else reads such a tensor."""
    found: dict[Any, Node] = {}
    values: dict[Any, Node] = {}
    for node in list(graph.nodes):
        value = node.meta.get("val")
        is_extent = node.target is torch.ops.aten.sym_size.int and isinstance(value, torch.SymInt)
        number = sizes.number_of(value) if is_extent and node.args[0].op != "placeholder" else None
        if number is None or sizes.factors_of(number) is None or number < LEAST:
            continue
        if expression_of(value) not in found:
            for symbol in sizes.symbols_in([number]):
                if symbol not in values:
                    values[symbol] = symbol_node(graph, symbol)
            with graph.inserting_before(_first_after(graph, values.values())):
                found[expression_of(value)] = sizes.value_in(graph, number, values)
        node.replace_all_uses_with(found[expression_of(value)])
        graph.erase_node(node)


def _first_after(graph: Graph, nodes: Iterable[Node]) -> Node:
    """The first node after the inputs and some others."""
    waiting = {*graph.find_nodes(op="placeholder"), *nodes}
    for node in graph.nodes:
        if not waiting:
            return node
        waiting.discard(node)
    return next(iter(graph.find_nodes(op="output")))


def symbol_node(graph: Graph, symbol: Any) -> Node:
    """The input of a graph that a symbol is, or a new node for the extent that it is of one."""
    inputs = list(graph.find_nodes(op="placeholder"))
    for node in inputs:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and expression_of(value) == symbol:
            return node
    tensor, axis = next(_places_of(inputs, symbol), (None, 0))
    if tensor is None:
        raise Kept(Reason.SYMBOLIC_SHAPE, f"{symbol} has become a fixed size")
    with graph.inserting_after(inputs[-1]):
        made = graph.call_function(torch.ops.aten.sym_size.int, (tensor, axis))
    made.meta["val"] = tensor.meta["val"].shape[axis]
    return made


def _places_of(inputs: Iterable[Node], symbol: Any) -> Iterator[tuple[Node, int]]:
    """The axes of tensors whose extent is a symbol."""
    for node in inputs:
        value = node.meta.get("val")
        for axis, extent in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(extent, torch.SymInt) and expression_of(extent) == symbol:
                yield node, axis


def example_of(value: torch.Tensor) -> torch.Tensor:
    """A tensor with the sizes for which the graph is traced."""
    shape, strides = ([_hint_of(extent) for extent in extents] for extents in (value.shape, value.stride()))
    if not isinstance(value, FakeTensor) or all(isinstance(extent, int) for extent in (*value.shape, *value.stride())):
        return value
    with value.fake_mode:
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)


def _hint_of(extent: Any) -> Any:
    return hint_of(extent) if isinstance(extent, torch.SymInt) else extent


def _is_known_multiple(extent: torch.SymInt, multiple: int) -> bool:
    return multiple > 1 and bool(statically_known_true(extent % multiple == 0))


def bind_graph(graph: Graph, values: Mapping[Any, Any]) -> None:
    """Says which nodes or numbers of a graph the symbols are."""
    _graphs[graph] = values


def sizes_in(graph: Graph, symbols: Iterable[Any]) -> list[Any]:
    """The nodes or numbers of a graph that symbols are."""
    return [_graphs[graph][symbol] for symbol in symbols]


def in_graph(graph: Graph, number: Any) -> Any:
    """A number of a call's arguments, or the node of the graph that computes it."""
    sizes = _current.get()
    if sizes is None or not isinstance(number, int) or isinstance(number, bool) or number < LEAST:
        return number
    return number if sizes.factors_of(number) is None else sizes.value_in(graph, number, _graphs[graph])
