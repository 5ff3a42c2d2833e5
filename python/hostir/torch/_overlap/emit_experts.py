"""The program of a region of experts in plain math: each rank has a part for every other one, `Set`s exchange them, and products of
the experts' weights are between. The pass `alltoall-matmul` makes of it the loop in which parts travel while others are multiplied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from hostir.torch._overlap.emit import Argument, Result, Written
from hostir.torch._overlap.exchanges import ExpertProduct
from hostir.torch._overlap.experts import ExpertRegion, expert_operand_kind
from hostir.torch._overlap.forms import Form, TensorOrder
from hostir.torch._overlap.functions import Function, literal, write_function
from hostir.torch._overlap.nodes import Collective, Node, element_type, is_static, shape_of
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import GraphIndex
from hostir.torch._overlap.row_orders import RowOrder
from hostir.torch._overlap.sizes import current_sizes

__all__ = ["write_experts"]


@dataclass(frozen=True)
class _Line:
    """A statement: the tensor that it makes, and what computes it."""

    name: str
    expression: str


@dataclass(frozen=True)
class _Kind:
    """The type of a tensor: the extents of experts, rows and columns, of which broadcast ones are `b.1`."""

    element: str
    outer: str
    extents: str
    contracted: str = ""

    @property
    def axes(self) -> str:
        """The axes of the whole tensor."""
        return f"{self.outer}, {self.extents}{self.contracted}"


def write_experts(index: GraphIndex, region: ExpertRegion) -> Written:
    """Writes the program of a region. Raises `Kept` for what the language does not have."""
    writer = _Writer(index, region)
    writer.write_lines()
    results = writer.results()
    if not results:
        raise Kept(Reason.RESULT_UNUSED)
    arguments = tuple(writer.arguments.values())
    inputs = ", ".join(f"{given.name}: {given.element}[{given.form.axes}]" for given in arguments)
    outputs = ", ".join(f"{made.name}: {made.element}[{made.form.axes}]" for made in results)
    head = f"({inputs}) -> ({outputs}) on d:\n"
    text = head + "\n".join(f"  {line}" for line in writer.lines_of_program()) + "\n"
    sizes = current_sizes()
    values: Mapping[str, int] = {}
    if sizes is not None:
        named = sizes.named(text)
        if named is None:
            raise Kept(Reason.SYMBOLIC_SHAPE, "an extent is no product of sizes")
        text, values = named
    top = f"hir 2\nmesh d = 0..{region.ranks}\n\n"
    name = f"region_{hashlib.sha256((top + text).encode()).hexdigest()[:8]}"
    nodes = {*region.nodes, *region.weight_views, *(node for argument in arguments for node in argument.nodes)}
    extents = (extent for node in nodes if is_static(node) for extent in shape_of(node))
    symbols = () if sizes is None else tuple(sizes.symbols_in(extents))
    return Written(
        name,
        f"{top}{name}{text}",
        arguments,
        results,
        sizes=sizes if symbols else None,
        symbols=symbols,
        values=values,
        has_exchanges=True,
    )


class _Writer:
    """Collects the statements between the exchanges, in the order of the graph."""

    def __init__(self, index: GraphIndex, region: ExpertRegion) -> None:
        self.index = index
        self.region = region
        self.arguments: dict[tuple[Node, str], Argument] = {}
        self.names: dict[Node, str] = {}
        self.kinds: dict[str, _Kind] = {}
        self.turned: dict[str, str] = {}
        """By name of a turned weight the expression that turns it."""
        self.lines: list[_Line] = []
        self.outputs: list[str] = []
        self.counts: dict[str, int] = {}
        self.rows = region.rows // (region.ranks * region.experts)

    def _new_name(self, letter: str) -> str:
        self.counts[letter] = self.counts.get(letter, 0) + 1
        return f"{letter}{self.counts[letter]}"

    def _rows_kind(self, element: str, width: int, contracted: int | None = None) -> _Kind:
        p = self.region.ranks
        last = "" if contracted is None else f", r.{contracted}"
        return _Kind(element, f"{p}, x:{p}", f"{self.region.experts}, {self.rows}, {width}", last)

    def _argument(self, node: Node, letter: str, kind: _Kind, shape: tuple[int, ...], order: TensorOrder | None = None) -> str:
        if node in self.region.nodes:
            raise Kept(Reason.LAYOUT, f"{node.name} is read in two forms")
        key = (node, f"{kind.axes} {order}")
        if key not in self.arguments:
            name = self._new_name(letter)
            self.arguments[key] = Argument(name, (node,), Form(kind.axes, shape, order=order), kind.element)
            self.kinds[name] = kind
        return self.arguments[key].name

    def _part_shape(self, width: int) -> tuple[int, ...]:
        return (self.region.ranks, self.region.experts, self.rows, width)

    # Statements

    def write_lines(self) -> None:
        """Writes what parts go through."""
        region = self.region
        if region.dispatch is not None:
            self._write_dispatch(region.dispatch)
        for node in sorted({*region.products, *region.between_products}, key=self.index.order.__getitem__):
            if node in region.products:
                self._write_product(region.products[node])
            else:
                self._write_function(region.between_products[node])
        if region.combine is not None:
            source, p = region.combine.source, region.ranks
            kind = self._rows_kind(element_type(source), shape_of(source)[-1])
            name = self._new_name("Y")
            self.kinds[name] = _Kind(kind.element, f"x:{p}, {p}", kind.extents)
            self.names[region.combine.result] = name

    def _write_dispatch(self, end: Collective) -> None:
        source, p = end.source, self.region.ranks
        width, element = shape_of(source)[-1], element_type(source)
        kind = self._rows_kind(element, width)
        sent = _Kind(element, f"x:{p}, {p}", kind.extents)
        self._argument(source, "X", sent, self._part_shape(width))
        name = self._new_name("G")
        self.kinds[name], self.names[end.result] = kind, name

    def _write_product(self, product: ExpertProduct) -> None:
        node, region = product.node, self.region
        left = self._value(product.left)
        if left is None:
            depth = shape_of(product.left)[-1]
            order = _tensor_order(region.orders[node], depth)
            kind = self._rows_kind(element_type(product.left), depth)
            left = self._argument(product.left, "A", kind, self._part_shape(depth), order)
        right = self._weight(product)
        kind = self._rows_kind(element_type(node), shape_of(node)[-1], shape_of(product.left)[-1])
        made = self._write("P", kind, f"matmul({left}, {right})")
        if product.bias is not None:
            bias = self._operand(product.bias, node)
            made = self._write("V", self._rows_kind(element_type(node), shape_of(node)[-1]), f"{made} + {bias}")
        self.names[node] = made

    def _weight(self, product: ExpertProduct) -> str:
        weight, q, p = product.weight, self.region.experts, self.region.ranks
        rows, columns = shape_of(weight.source)[-2:]
        kind = _Kind(element_type(weight.source), f"b.1, x:{p}", f"{q}, {rows}, {columns}")
        name = self._argument(weight.source, "W", kind, (1, q, rows, columns))
        if not weight.is_transposed:
            return name
        for found, expression in self.turned.items():
            if expression.startswith(f"Set.Permute({name},"):
                return found
        made = self._new_name("T")
        self.kinds[made] = _Kind(kind.element, kind.outer, f"{q}, {columns}, {rows}")
        self.turned[made] = f"Set.Permute({name}, perm=[0, 1, 2, 4, 3])"
        return made

    def _write_function(self, function: Function) -> None:
        node = function.node
        kind = self._rows_kind(element_type(node), shape_of(node)[-1])
        operands = [
            self._operand(given, node) if isinstance(given, torch.fx.Node) else literal(given, element_type(node))
            for given in function.operands
        ]

        def write(element: str, expression: str, like: str) -> str:
            found = self.kinds[like] if like else kind
            return self._write("V", _Kind(element, found.outer, found.extents), expression)

        self.names[node] = write_function(function, operands, write)

    def _write(self, letter: str, kind: _Kind, expression: str) -> str:
        name = self._new_name(letter)
        self.kinds[name] = kind
        self.lines.append(_Line(name, expression))
        return name

    def _value(self, node: Node) -> str | None:
        """The name of a value of the region, through moves."""
        while node not in self.names and node in self.region.through and node in self.index.moves:
            node = self.index.moves[node].source
        return self.names.get(node)

    def _operand(self, operand: Node, result: Node) -> str:
        found = self._value(operand)
        if found is not None:
            return found
        region, shape = self.region, shape_of(operand)
        order = region.orders[result]
        kind = expert_operand_kind(shape, shape_of(result), order, region)
        width, p, q, c = shape_of(result)[-1], region.ranks, region.experts, self.rows
        element = element_type(operand)
        if kind in ("rows", "row"):
            width = width if kind == "rows" else 1
            extents = f"{q}, {c}, {width if kind == 'rows' else 'b.1'}"
            return self._argument(
                operand, "A", _Kind(element, f"{p}, x:{p}", extents), self._part_shape(width), _tensor_order(order, width)
            )
        if kind is None:
            raise Kept(Reason.LAYOUT, operand.name)
        experts = q if kind.endswith("s") else 1
        columns = width if kind.startswith("column") else 1
        extents = f"{experts if kind.endswith('s') else 'b.1'}, b.1, {columns if kind.startswith('column') else 'b.1'}"
        return self._argument(operand, "B", _Kind(element, f"b.1, x:{p}", extents), (1, experts, 1, columns))

    # Results

    def results(self) -> tuple[Result, ...]:
        """The outputs: what the last exchange brings, and values that something else reads."""
        region = self.region
        made: list[Result] = []
        for node in region.made:
            if _is_read_outside(node, region):
                width, name = shape_of(node)[-1], self.names[node]
                if any(name == result.name for result in made):
                    raise Kept(Reason.LAYOUT, f"{node.name} is a result twice")
                form = Form(self.kinds[name].axes, self._part_shape(width), order=_tensor_order(region.orders[node], width))
                made.append(Result(name, form, self.kinds[name].element, ((node, 1),)))
        if region.combine is not None:
            node = region.combine.result
            width, name = shape_of(node)[-1], self.names[node]
            form = Form(self.kinds[name].axes, self._part_shape(width))
            made.append(Result(name, form, self.kinds[name].element, ((node, 1),)))
        self.outputs = [result.name for result in made]
        return tuple(made)

    # Text

    def lines_of_program(self) -> list[str]:
        """The statements on whole tensors."""
        region, lines = self.region, []
        for name, expression in self.turned.items():
            lines.append(self._stated(name, expression))
        if region.dispatch is not None:
            lines.append(self._stated(self.names[region.dispatch.result], f"Set({self._sent_name()})"))
        lines.extend(self._stated(line.name, line.expression) for line in self.lines)
        if region.combine is not None:
            returned = self._value(region.combine.source)
            lines.append(self._stated(self.names[region.combine.result], f"Set({returned})"))
        return lines

    def _sent_name(self) -> str:
        assert self.region.dispatch is not None
        source = self.region.dispatch.source
        return next(argument.name for (node, _), argument in self.arguments.items() if node is source and argument.name[0] == "X")

    def _stated(self, name: str, expression: str) -> str:
        kind = self.kinds[name]
        return f"{name} = {expression}" if name in self.outputs else f"{name}: {kind.element}[{kind.axes}] = {expression}"


def _tensor_order(order: RowOrder, width: int) -> TensorOrder | None:
    """The axes of torch's tensor by runs of rows, and their order in the program; None where it is the same."""
    if order.is_natural:
        return None
    runs = order.runs
    places = sorted(range(len(runs)), key=lambda at: -runs[at].step)
    return TensorOrder((*(run.count for run in runs), width), (*places, len(runs)))


def _is_read_outside(node: Node, region: ExpertRegion) -> bool:
    """True if something outside of the region needs a value, or a move of it."""
    return any(user not in region.nodes or (user in region.through and _is_read_outside(user, region)) for user in node.users)
