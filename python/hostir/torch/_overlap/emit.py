"""The program of a region, as text in plain math: what it computes, and nothing of how."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hostir.torch._overlap import forms
from hostir.torch._overlap.forms import Form
from hostir.torch._overlap.functions import Function, literal, write_function
from hostir.torch._overlap.layouts import operand_kind
from hostir.torch._overlap.nodes import Contraction, Matmul, Node, Weight, element_type, is_static, matmul_of, shape_of
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import GraphIndex, Region
from hostir.torch._overlap.sizes import Sizes, current_sizes

__all__ = ["Argument", "Result", "Written", "write_region"]


@dataclass(frozen=True)
class Argument:
    """An input of the program, and the node that has it, or the nodes that have it together."""

    name: str
    nodes: tuple[Node, ...]
    form: Form
    element: str
    axis: int = 0
    """The axis along which tensors of several nodes are joined."""

    @property
    def extents(self) -> list[int]:
        """The extent of each node's tensor along the axis."""
        return [shape_of(node)[self.axis] for node in self.nodes]

    @property
    def shape(self) -> list[int]:
        """The shape of the tensor."""
        shape = shape_of(self.nodes[0])
        if len(self.nodes) > 1:
            shape[self.axis] = sum(self.extents)
        return shape


@dataclass(frozen=True)
class Result:
    """An output of the program, and the nodes that it stands for."""

    name: str
    form: Form
    element: str
    nodes: tuple[tuple[Node, int], ...]
    """Each with the `before` of its layout."""
    rows: tuple[int, ...] = ()
    """The rows of each node's tensor, if these lie one below the other; empty if each is the whole output."""


@dataclass(frozen=True)
class Written:
    """A region as a program."""

    name: str
    """`region_` and a hash of the text."""
    text: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    returns_rows: bool = False
    """True if a result is the gathered rows."""
    has_products_beside: bool = False
    """True if products that need nothing of a sum over ranks follow it."""
    sizes: Sizes | None = None
    """The sizes that its shapes stand for; None if all are known."""
    symbols: tuple[Any, ...] = ()
    """The symbols of its shapes; the op gets their values."""
    values: Mapping[str, int] = field(default_factory=dict)
    """The program's own sizes for those of the example."""
    has_exchanges: bool = False
    """True if parts are exchanged between all ranks, before or after products; see `emit_experts`."""

    @property
    def argument_nodes(self) -> list[Node]:
        """The nodes that have the arguments, each once."""
        return list(dict.fromkeys(node for argument in self.arguments for node in argument.nodes))


def write_region(index: GraphIndex, region: Region) -> Written:
    """Writes the program of a region. Raises `Kept` for what the language does not have."""
    writer = _Writer(index, region)
    writer.write_body()
    results = writer.results()
    arguments = tuple(writer.arguments.values())
    body = "\n".join(f"  {line}" for line in writer.ordered_lines())
    inputs = ", ".join(f"{given.name}: {given.element}[{given.form.axes}]" for given in arguments)
    outputs = ", ".join(f"{made.name}: {made.element}[{made.form.axes}]" for made in results)
    rest = f"({inputs}) -> ({outputs}) on d:\n{body}\n"
    sizes = current_sizes()
    values: dict[str, int] = {}
    if sizes is not None:
        named = sizes.named(rest)
        if named is None:
            raise Kept(Reason.SYMBOLIC_SHAPE, "an extent is no product of sizes")
        rest, values = named
    head = f"hir 2\nmesh d = 0..{region.ranks}\n\n"
    name = f"region_{hashlib.sha256((head + rest).encode()).hexdigest()[:8]}"
    rows = any(node in region.gathered for result in results for node, _ in result.nodes)
    beside = region.gather is None and bool(region.contractions)
    symbols = () if sizes is None else tuple(_symbols_of(sizes, region, arguments))
    return Written(name, f"{head}{name}{rest}", arguments, results, rows, beside, sizes if symbols else None, symbols, values)


def _symbols_of(sizes: Sizes, region: Region, arguments: Sequence[Argument]) -> list[Any]:
    """The symbols of the shapes of all tensors."""
    nodes = {*region.nodes, *region.weight_views, *(node for argument in arguments for node in argument.nodes)}
    return sizes.symbols_in(extent for node in nodes if is_static(node) for extent in shape_of(node))


@dataclass
class _Line:
    """A statement: the tensor that it makes, its type, and what computes it."""

    name: str
    element: str
    form: Form
    expression: str


class _Writer:
    """Writes statements in the order of the graph, but matmuls of gathered rows first, so that they share a loop."""

    def __init__(self, index: GraphIndex, region: Region) -> None:
        self.index = index
        self.region = region
        self.arguments: dict[tuple[tuple[Node, ...], str], Argument] = {}
        self.names: dict[Node, str] = {}
        self.forms: dict[str, Form] = {}
        self.elements: dict[str, str] = {}
        self.views: list[_Line] = []
        self.first: list[_Line] = []
        self.lines: list[_Line] = []
        self.counts: dict[str, int] = {}
        self.outputs: list[str] = []
        self.summed = {*region.between, *(matmul.node for matmul in region.summed)}
        self.rows = ("", "")
        """The name and the type of the rank's own rows as they are gathered."""
        self.multiplies_parts = False
        """True if parts of gathered rows are multiplied as they arrive."""

    # Names and lines

    def _new_name(self, letter: str) -> str:
        self.counts[letter] = self.counts.get(letter, 0) + 1
        return f"{letter}{self.counts[letter]}"

    def _write(self, lines: list[_Line], letter: str, element: str, form: Form, expression: str) -> str:
        name = self._new_name(letter)
        lines.append(_Line(name, element, form, expression))
        self.forms[name], self.elements[name] = form, element
        return name

    def ordered_lines(self) -> list[str]:
        """The statements. The types of outputs are in the program's head."""
        lines = [*self.views, *self.first, *self.lines]
        return [
            f"{line.name} = {line.expression}"
            if line.name in self.outputs
            else f"{line.name}: {line.element}[{line.form.axes}] = {line.expression}"
            for line in lines
        ]

    def _argument(self, node: Node, letter: str, form: Form) -> str:
        return self._joined_argument([node], 0, letter, form)

    def _joined_argument(self, nodes: Sequence[Node], axis: int, letter: str, form: Form) -> str:
        """The name of tensors that are one argument, joined along an axis."""
        key = (tuple(nodes), form.axes)
        for node in nodes:
            if node in self.region.nodes:
                raise Kept(Reason.LAYOUT, f"{node.name} is read in two forms")
        if key not in self.arguments:
            name, element = self._new_name(letter), element_type(nodes[0])
            self.arguments[key] = Argument(name, key[0], form, element, axis)
        return self.arguments[key].name

    # Statements

    def write_body(self) -> None:
        """Writes all statements."""
        region = self.region
        if region.gather is not None:
            self._write_gather(region.gather.source, region.gather.result)
        for node in sorted(region.values, key=self.index.order.__getitem__):
            if node not in self.summed and node not in region.whole:
                self._write_value(node)
        if region.gather is None:
            # After what other ranks wait for.
            self._write_sum()
        for node in sorted(region.whole, key=self.index.order.__getitem__):
            self._write_whole_matmul(node)
        if region.side_by_side:
            self._write_gradients_together()
        else:
            for contraction in region.contractions:
                self._write_contraction(contraction)
        if region.gather is not None and region.sum is not None:
            self._write_sum()

    def _write_gather(self, source: Node, result: Node) -> None:
        width = shape_of(result)[-1]
        rows = _row_count(shape_of(source), width)
        form = forms.part_form(self.region.ranks, rows, width)
        name, element = self._argument(source, "X", form), element_type(result)
        for function in self.region.prepared:
            name, element = self._write_prepared(function, name, form), element_type(function.node)
        self.rows = (name, element)
        axes = f"b.1, x:{self.region.ranks}, {rows}, {width}"
        made = Form(axes, ())
        self.views.append(_Line("G", element, made, f"broadcast({name}, flags=[true, false, false, false])"))
        self.forms["G"], self.elements["G"] = made, element

    def _write_prepared(self, function: Function, rows: str, form: Form) -> str:
        """A function of the rank's own rows, before they are gathered."""
        element = element_type(function.node)
        operands = [rows if isinstance(given, torch.fx.Node) else literal(given, element) for given in function.operands]
        self.forms[rows] = form

        def write(element: str, expression: str, like: str) -> str:
            return self._write(self.views, "C", element, self.forms[like] if like else form, expression)

        return write_function(function, operands, write)

    def _write_value(self, node: Node) -> None:
        index = self.index
        matmul = None if node in index.moves else matmul_of(node)
        if matmul is not None:
            self._write_matmul(matmul)
        elif node in index.moves:
            self.names[node] = self.names[index.moves[node].source]
        elif node in index.columns:
            self._write_columns(node)
        else:
            self._write_function(index.functions[node])

    def _rows_form(self, node: Node, width: int) -> Form:
        before = self.region.values[node].before
        rows = _row_count(shape_of(node), width) // self.region.ranks
        return forms.rows_form(self.region.ranks, before, rows, width)

    def _write_matmul(self, matmul: Matmul) -> None:
        """A matmul of gathered rows; the only ones that have results."""
        node = matmul.node
        form = self._rows_form(node, shape_of(node)[-1])
        contracted = shape_of(matmul.left)[-1]
        right = self._weight(matmul.weight)
        product = Form(f"{form.axes}, r.{contracted}", form.shape, form.before)
        expression = self._product(matmul, "G", right, form)
        self.multiplies_parts = True
        made = self._write(self.first, "P", element_type(node), product, expression)
        if matmul.bias is not None:
            bias = self._operand(matmul.bias, node, form)
            made = self._write(self.lines, "V", element_type(node), form, f"{made} + {bias}")
        self.names[node] = made

    def _write_whole_matmul(self, node: Node) -> None:
        """A matmul of all gathered rows."""
        matmul, ranks = matmul_of(node), self.region.ranks
        assert matmul is not None
        *outer, width = shape_of(node)
        left = self._whole_gathered(matmul.left)
        rows, columns = shape_of(matmul.weight.source)[-2:]
        right = self._argument(matmul.weight.source, "W", forms.stacked_form(ranks, rows, columns))
        self.forms[right], self.elements[right] = forms.stacked_form(ranks, rows, columns), element_type(matmul.weight.source)
        right = self._turned(right) if matmul.weight.is_transposed else right
        form = forms.stacked_form(ranks, math.prod(outer), width)
        self.names[node] = self._write(self.first, "P", element_type(node), form, f"matmul({left}, {right})")

    def _product(self, matmul: Matmul, left: str, right: str, form: Form) -> str:
        """The expression of a matmul whose result has this form."""
        if matmul.scales is None:
            return f"matmul({left}, {right})"
        rows, columns = matmul.scales
        ranks, count, width = form.shape
        of_rows = forms.rows_form(ranks, form.before, count, 1)
        row_scales = self._gathered_scales(rows) if rows in self.region.scales else self._scales(rows, of_rows)
        return f"scaled_matmul({left}, {right}, {row_scales}, {self._scales(columns, forms.matrix_form(ranks, 1, width))})"

    def _scales(self, node: Node, form: Form) -> str:
        """The name of scales of rows or columns, or of a single one."""
        is_single = math.prod(shape_of(node)) == 1
        return self._argument(node, "S", forms.scalar_form(self.region.ranks) if is_single else form)

    def _gathered_scales(self, node: Node) -> str:
        """The name of the scales of gathered rows."""
        source, ranks = self.region.scales[node].source, self.region.ranks
        rows = math.prod(shape_of(source))
        name = self._argument(source, "S", forms.part_form(ranks, rows, 1))
        expression = f"broadcast({name}, flags=[true, false, false, false])"
        for line in self.views:
            if line.expression == expression:
                return line.name
        return self._write(self.views, "H", element_type(source), Form(f"b.1, x:{ranks}, {rows}, 1", ()), expression)

    def _write_contraction(self, contraction: Contraction) -> None:
        """The gradient of a weight. Other matmuls of the gathered rows hide their arrival, so that it is one product of all rows;
        without them, products of the parts are added up as these arrive.
        """
        region = self.region
        if region.gather is None:
            self.names[contraction.node] = self._write_whole_gradient(contraction, self.lines)
            return
        before = region.gathered[next(factor.source for factor in contraction.factors if factor.source in region.gathered)].before
        if before == 1 and self.multiplies_parts:
            self.names[contraction.node] = self._write_whole_gradient(contraction, self.first)
        else:
            self.names[contraction.node] = self._write_summed_gradient(contraction, before)

    def _write_whole_gradient(self, contraction: Contraction, lines: list[_Line]) -> str:
        node, ranks = contraction.node, self.region.ranks
        height, width = shape_of(node)
        left, right = (self._whole_factor(factor) for factor in contraction.factors)
        form = forms.whole_gradient_form(ranks, height, width)
        return self._write(lines, "D", element_type(node), form, f"matmul({self._turned(left)}, {right})")

    def _write_gradients_together(self) -> None:
        """The gradients of weights that stand one below the other: with each factor that is contracted, a product for all."""
        ranks, lefts = self.region.ranks, [matmul.left for matmul in self.region.summed]
        rows = math.prod(shape_of(lefts[0])[:-1])
        height = sum(shape_of(left)[-1] for left in lefts)
        form = forms.stacked_form(ranks, rows, height)
        for right in dict.fromkeys(contraction.right.source for contraction in self.region.contractions):
            left = self._joined_argument(lefts, -1, "A", form)
            self.forms[left], self.elements[left] = form, element_type(lefts[0])
            of_right = [contraction for contraction in self.region.contractions if contraction.right.source is right]
            width, element = shape_of(of_right[0].node)[-1], element_type(of_right[0].node)
            gradient = forms.whole_gradient_form(ranks, height, width)
            expression = f"matmul({self._turned(left)}, {self._whole_factor(of_right[0].right)})"
            made = self._write(self.lines, "D", element, gradient, expression)
            self.names.update((contraction.node, made) for contraction in of_right)

    def _whole_factor(self, factor: Weight) -> str:
        """The name of rows of all parts, one below the other."""
        if factor.source in self.region.gathered:
            return self._whole_gathered(factor.source)
        *outer, width = shape_of(factor.source)
        form = forms.stacked_form(self.region.ranks, math.prod(outer), width)
        name = self._argument(factor.source, "A", form)
        self.forms[name], self.elements[name] = form, element_type(factor.source)
        return name

    def _whole_gathered(self, node: Node) -> str:
        """The name of the gathered rows, one below the other."""
        *outer, width = shape_of(node)
        rows, element = math.prod(outer), element_type(node)
        expression = f"alloc(share={self._gathered_copy(width)})"
        for line in self.first:
            if line.expression == expression:
                return line.name
        return self._write(self.first, "R", element, Form(f"b.1, {rows}, {width}", ()), expression)

    def _write_summed_gradient(self, contraction: Contraction, before: int) -> str:
        node, region = contraction.node, self.region
        (height, width), element = shape_of(node), element_type(node)
        gathered = next(factor.source for factor in contraction.factors if factor.source in region.gathered)
        left, right = (self._rows_factor(factor, before) for factor in contraction.factors)
        form = forms.gradient_form(region.ranks, height, width)
        rows = math.prod(shape_of(gathered)[:-1]) // region.ranks
        product = Form(f"x:{region.ranks}, {region.ranks}, {height}, {width}, r.{rows}", ())
        made = self._write(self.first, "P", element, product, f"matmul({self._turned(left)}, {right})")
        expression = f"reduction({made}, op=add, init={element}(0), allreduce=false)"
        return self._write(self.first, "D", element, form, expression)

    def _rows_factor(self, factor: Weight, before: int) -> str:
        """The name of rows that are contracted: the gathered ones, or an argument."""
        if factor.source in self.region.gathered:
            return "G"
        *outer, width = shape_of(factor.source)
        form = forms.rows_form(self.region.ranks, before, math.prod(outer) // self.region.ranks, width)
        name = self._argument(factor.source, "A", form)
        self.forms[name], self.elements[name] = form, element_type(factor.source)
        return name

    def _turned(self, name: str) -> str:
        """The name of a tensor with its last two axes exchanged, written once."""
        *outer, rows, columns = self.forms[name].axes.split(", ")
        order = [*range(len(outer)), len(outer) + 1, len(outer)]
        expression = f"Set.Permute({name}, perm={order})"
        # Of gathered rows that lie one below the other it stands after the gather.
        lines = self.first if any(line.name == name for line in self.first) else self.views
        for line in lines:
            if line.expression == expression:
                return line.name
        form = Form(", ".join([*outer, columns, rows]), ())
        return self._write(lines, "T", self.elements[name], form, expression)

    def _weight(self, weight: Weight) -> str:
        ranks = self.region.ranks
        rows, columns = shape_of(weight.source)[-2:]
        form = forms.matrix_form(ranks, rows, columns)
        name = self._argument(weight.source, "W", form)
        self.forms[name], self.elements[name] = form, element_type(weight.source)
        return self._turned(name) if weight.is_transposed else name

    def _write_columns(self, node: Node) -> None:
        columns = self.index.columns[node]
        form = self._rows_form(node, columns.stop - columns.start)
        ranks, rows, _ = form.shape
        outer = "".join(f"[0, {extent}, 1], " for extent in (ranks, ranks, rows))
        source = self.names[columns.source]
        ranges = f"[{outer}[{columns.start}, {columns.stop}, 1]]"
        self.names[node] = self._write(self.lines, "V", element_type(node), form, f"slice({source}, {ranges})")

    def _write_function(self, function: Function) -> None:
        node = function.node
        form = self._rows_form(node, shape_of(node)[-1])
        operands = []
        for operand in function.operands:
            is_tensor = isinstance(operand, torch.fx.Node)
            operands.append(self._operand(operand, node, form) if is_tensor else literal(operand, element_type(node)))

        def write(element: str, expression: str, like: str) -> str:
            return self._write(self.lines, "V", element, _without_sum(self.forms[like]) if like else form, expression)

        self.names[node] = write_function(function, operands, write)

    def _operand(self, operand: Node, result: Node, form: Form) -> str:
        if operand in self.names:
            if self.region.values[operand].before != form.before:
                raise Kept(Reason.LAYOUT, f"the parts of {operand.name} lie otherwise")
            return self.names[operand]
        kind = operand_kind(shape_of(operand), shape_of(result))
        ranks, rows, width = form.shape
        if kind is None:
            raise Kept(Reason.LAYOUT, operand.name)
        found = {
            "rows": forms.rows_form(ranks, form.before, rows, width),
            "row": forms.row_form(ranks, form.before, rows),
            "column": forms.column_form(ranks, width),
            "scalar": forms.scalar_form(ranks),
        }[kind]
        name = self._argument(operand, "A" if kind == "rows" else "B", found)
        self.forms[name] = found
        return name

    def _write_sum(self) -> None:
        """The matmul whose result is added up over ranks; of several, each adds to the one before."""
        if self.region.has_functions:
            self._write_sum_of_functions()
            return
        first = self.region.summed[0]
        width, element = shape_of(first.node)[-1], element_type(first.node)
        form = self._rows_form(first.node, width)
        if self.region.side_by_side:
            summed = self._write_joined_matmul(form)
        else:
            factors = [(self._left_factor(matmul), self._weight(matmul.weight)) for matmul in self.region.summed]
            summed = ""
            for matmul, (left, right) in zip(self.region.summed, factors, strict=True):
                expression = f"matmul_add({left}, {right}, {summed})" if summed else self._product(matmul, left, right, form)
                product = Form(f"{form.axes}, r.{shape_of(matmul.left)[-1]}", form.shape)
                summed = self._write(self.lines, "P", element, product, expression)
        self._write_reduction(summed, element, form)

    def _write_reduction(self, summed: str, element: str, form: Form) -> None:
        made = self._sum_form(form, form.shape[-1])
        self._write(self.lines, "Y", element, made, f"reduction({summed}, op=add, init={element}(0), allreduce=false)")

    def _write_sum_of_functions(self) -> None:
        """Products and functions of them, and the sum over ranks of the last one."""
        products = {matmul.node: matmul for matmul in self.region.summed}
        for node in sorted({*products, *self.region.between}, key=self.index.order.__getitem__):
            if node in products:
                self._write_product(products[node])
            else:
                self._write_value(node)
        assert self.region.sum is not None
        source = self.region.sum.source
        self._write_reduction(self.names[source], element_type(source), self._rows_form(source, shape_of(source)[-1]))

    def _write_product(self, matmul: Matmul) -> None:
        """A product before functions of it."""
        node = matmul.node
        form, element = self._rows_form(node, shape_of(node)[-1]), element_type(node)
        left, right = self._left_factor(matmul), self._weight(matmul.weight)
        product = Form(f"{form.axes}, r.{shape_of(matmul.left)[-1]}", form.shape, form.before)
        made = self._write(self.lines, "P", element, product, self._product(matmul, left, right, form))
        if matmul.bias is not None:
            made = self._write(self.lines, "V", element, form, f"{made} + {self._operand(matmul.bias, node, form)}")
        self.names[node] = made

    def _write_joined_matmul(self, form: Form) -> str:
        """The summed matmuls as one product, whose result has this form."""
        matmuls, (ranks, rows, width) = self.region.summed, form.shape
        lefts, weights = [matmul.left for matmul in matmuls], [matmul.weight.source for matmul in matmuls]
        depth, is_transposed = sum(shape_of(left)[-1] for left in lefts), matmuls[0].weight.is_transposed
        left = self._joined_argument(lefts, -1, "A", forms.rows_form(ranks, form.before, rows, depth))
        matrix = forms.matrix_form(ranks, *([width, depth] if is_transposed else [depth, width]))
        right = self._joined_argument(weights, -1 if is_transposed else -2, "W", matrix)
        self.forms[right], self.elements[right] = matrix, element_type(weights[0])
        right = self._turned(right) if is_transposed else right
        product = Form(f"{form.axes}, r.{depth}", form.shape)
        return self._write(self.lines, "P", element_type(matmuls[0].node), product, f"matmul({left}, {right})")

    def _left_factor(self, matmul: Matmul) -> str:
        if matmul.left in self.names:
            return self.names[matmul.left]
        before = self.region.values[matmul.node].before
        depth = shape_of(matmul.left)[-1]
        ranks = self.region.ranks
        rows = math.prod(shape_of(matmul.left)[:-1]) // ranks
        return self._argument(matmul.left, "A", forms.rows_form(ranks, before, rows, depth))

    def _sum_form(self, form: Form, width: int) -> Form:
        ranks, rows, _ = form.shape
        is_scattered = self.region.sum is not None and self.region.sum.kind == "reduce_scatter"
        return forms.sum_form(ranks, rows, width) if is_scattered else forms.whole_sum_form(ranks, rows, width)

    # Outputs

    def results(self) -> tuple[Result, ...]:
        """The outputs: values of the region that something else reads."""
        region, made = self.region, []
        used = [node for node in region.values if node not in self.summed and _is_read_outside(node, region)]
        for name in dict.fromkeys(self.names[node] for node in used):
            nodes = tuple((node, region.values[node].before) for node in used if self.names[node] == name)
            made.append(Result(name, self.forms[name], self.elements[name], nodes))
        gradients = [contraction.node for contraction in region.contractions]
        for name in dict.fromkeys(self.names[node] for node in gradients):
            made.append(self._gradient_result(name, [node for node in gradients if self.names[node] == name]))
        gathered = [node for node in region.gathered if _is_read_outside(node, region)]
        if gathered:
            made.append(self._gathered_result(gathered))
        if region.reduced is not None:
            name = f"Y{self.counts['Y']}"
            made.append(Result(name, self.forms[name], self.elements[name], ((region.reduced, 1),)))
        self.outputs = [result.name for result in made]
        return tuple(made)

    def _gradient_result(self, name: str, found: list[Node]) -> Result:
        """The gradient of a weight, or of several one below the other."""
        if not self.region.side_by_side:
            return Result(name, self.forms[name], self.elements[name], ((found[0], 1),))
        order = [matmul.left for matmul in self.region.summed]
        lefts = {contraction.node: contraction.left.source for contraction in self.region.contractions}
        found = sorted(found, key=lambda node: order.index(lefts[node]))
        rows = tuple(shape_of(node)[0] for node in found)
        return Result(name, self.forms[name], self.elements[name], tuple((node, 1) for node in found), rows)

    def _gathered_result(self, nodes: list[Node]) -> Result:
        """The gathered rows themselves, which something else than the region's matmuls reads."""
        made = self._gathered_copy(self.region.gathered[nodes[0]].width)
        results = tuple((node, self.region.gathered[node].before) for node in nodes)
        return Result(made, self.forms[made], self.elements[made], results)

    def _gathered_copy(self, width: int) -> str:
        """The name of the gathered rows as a tensor that every rank has, written once."""
        assert self.region.gather is not None
        source, (rows, element) = self.region.gather.source, self.rows
        expression = f"Set({rows})"
        for line in self.first:
            if line.expression == expression:
                return line.name
        form = forms.whole_form(self.region.ranks, 1, _row_count(shape_of(source), width), width)
        return self._write(self.first, "X", element, form, expression)


def _row_count(shape: list[int], width: int) -> int:
    """The rows of so many columns; those of none are counted by the other axes."""
    return math.prod(shape) // width if width else math.prod(shape[:-1])


def _without_sum(form: Form) -> Form:
    """The form of what is computed from a product: the axis that was contracted is the product's."""
    return replace(form, axes=form.axes.partition(", r.")[0])


def _is_read_outside(node: Node, region: Region) -> bool:
    """True if something outside of the region needs a value; nodes that lead nowhere else need theirs."""
    inside = region.nodes
    return any(user not in inside or (user in region.through and _leads_outside(user, region)) for user in node.users)


def _leads_outside(node: Node, region: Region) -> bool:
    return any(user not in region.nodes or (user in region.through and _leads_outside(user, region)) for user in node.users)
