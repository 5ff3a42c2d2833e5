"""Ranks of the tests of `Overlap` and of linear slots."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import parallelize_module

import hostir
import hostir.torch as hir
from overlap_models import HIDDEN, Block, graphs_through, parallelize

warnings.simplefilter("ignore", FutureWarning)


def rank_tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers of this rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + dist.get_rank()))


def one_step(model: nn.Module, run: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of the input and of all weights."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(weight.grad.to_local().clone() for weight in model.parameters())]


def llama_block(group: Any) -> None:
    """The graphs with the pass give the numbers of eager torch, and every program those of the nodes it replaced.

    One of the graphs goes through Inductor, whose C++ takes long to compile.
    """
    world = dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    model = parallelize(Block(), mesh)
    for batch in (1, 3):
        torch._dynamo.reset()
        x = rank_tensor(batch, 2, HIDDEN, seed=batch)
        overlap = hir.Overlap(choose="always")
        if (world, batch) == (2, 3):
            compiled = torch.compile(model, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
        else:
            compiled = torch.compile(model, fullgraph=True, backend=graphs_through(overlap))
        for wanted, found in zip(one_step(model, model, x), one_step(model, compiled, x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        overlap.check()
        report = overlap.report()
        # Forward: Q, K, V; attention's sum; the MLP's two ends. Backward: the same with transposed weights.
        assert len(report.lines) == 8 and len(report.fused) == 8, str(report)
        blocks = [line.region for line in report.lines if line.region]
        assert len(set(blocks)) == 6, str(report)


def block_of_sixteen_bits(group: Any) -> None:
    """Forward and backward, the MLP is one program each, whose conversions round as torch's do."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = parallelize(Block().bfloat16(), mesh)
    x = rank_tensor(1, 2, HIDDEN, seed=1).bfloat16()
    overlap = hir.Overlap(choose="always")
    compiled = torch.compile(model, fullgraph=True, backend=graphs_through(overlap))
    for wanted, found in zip(one_step(model, model, x), one_step(model, compiled, x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)
    overlap.check(rtol=0.05, atol=0.05)
    forward, backward = ([line.region for line in overlap.report().lines if line.graph == graph] for graph in (0, 1))
    assert forward[2] == forward[3] and backward[0] == backward[1], str(overlap.report())


FUNCTIONS = [
    lambda u, v: F.silu(u) * v,
    lambda u, v: torch.relu(u) - v / 3,
    lambda u, v: F.gelu(u) + 0.1 * v,
    lambda u, v: torch.sigmoid(u) * torch.tanh(v),
    lambda u, v: torch.exp(-u.abs()) * torch.rsqrt(v.square() + 1),
    lambda u, v: torch.maximum(u, v) - torch.minimum(u, v).pow(2),
    lambda u, v: (1 - u) * torch.sqrt(v.abs() + 1) + torch.log1p(v.abs()),
    lambda u, v: torch.ops.aten.silu_backward(u, v) + torch.ops.aten.sigmoid_backward(v, u),
    lambda u, v: torch.ops.aten.tanh_backward(u, v) * torch.cos(v),
    lambda u, v: (u.float() * v.float()).to(u.dtype),
]


def block_with(function: Any, group: Any) -> Any:
    """A block with a function between its matmuls."""

    def block(x: Any, w1: Any, w3: Any, w2: Any, scale: Any, bias: Any, row: Any) -> Any:
        rows = fc.all_gather_tensor(x, 0, group)
        between = function(rows @ w1 + bias, rows @ w3) * scale * row
        return fc.reduce_scatter_tensor(between @ w2, "sum", 0, group)

    return block


def functions(group: Any) -> None:
    """Each function of the language, between the matmuls of a block, in three element types."""
    from torch.fx.experimental.proxy_tensor import make_fx

    for element, tolerance in ((torch.float32, None), (torch.float64, None), (torch.bfloat16, 0.05)):
        for function in FUNCTIONS:
            block = block_with(function, group)
            shapes = [(3, 8), (8, 4), (8, 4), (4, 8), (), (4,), (3 * dist.get_world_size(), 1)]
            given = [rank_tensor(*shape, seed=at).to(element) for at, shape in enumerate(shapes)]
            module = make_fx(block, tracing_mode="fake")(*given)
            if any("fill_" in str(node.target) for node in module.graph.nodes):
                # torch 2.9 has silu's gradient on the CPU as ops in place, which compilers take out of their graphs first.
                assert torch.__version__.startswith("2.9")
                continue
            overlap = hir.Overlap(choose="always")
            wanted = block(*given)
            overlap(module)
            assert len(overlap.report().programs) == 1 and not overlap.report().kept, str(overlap.report())
            torch.testing.assert_close(module(*given), wanted)
            overlap.check(rtol=tolerance, atol=tolerance)


def sums_of_products(group: Any) -> None:
    """`einsum`, which turns its factors and gives them axes of one element around the matmul."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def gathered(form: str, dim: int) -> Any:
        return lambda x, w: torch.einsum(form, fc.all_gather_tensor(x, dim, group), w)

    def summed(x: Any, w: Any) -> Any:
        return fc.reduce_scatter_tensor(torch.einsum("bsh,hd->bsd", x, w), "sum", 1, group)

    world = dist.get_world_size()
    cases = [
        (gathered("sh,hd->sd", 0), (4, 8), (8, 6)),
        (gathered("bsh,hd->bsd", 0), (3, 4, 8), (8, 6)),
        (gathered("bsh,hd->bsd", 1), (3, 4, 8), (8, 6)),
        (gathered("bsh,dh->bsd", 1), (3, 4, 8), (6, 8)),
        (gathered("bsh,hnd->bsnd", 1), (3, 4, 8), (8, 2, 3)),
        (summed, (3, 4 * world, 8), (8, 6)),
    ]
    for function, *shapes in cases:
        given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(shapes)]
        module = make_fx(function, tracing_mode="fake")(*given)
        wanted = function(*given)
        overlap = hir.Overlap(choose="always")
        overlap(module)
        assert len(overlap.report().fused) == 1 and not overlap.report().kept, f"{shapes}: {overlap.report()}"
        torch.testing.assert_close(module(*given), wanted)
        overlap.check()


class Decoding(nn.Module):
    """One token of each rank, gathered along the second axis, and functions after it that keep its strides."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.router = nn.Linear(8, 16), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = fc.all_gather_tensor(x, 1, dist.group.WORLD)
        return self.q(rows), self.router(rows.tanh())


def one_row_of_each_rank(group: Any) -> None:
    torch.manual_seed(0)
    model, x = Decoding(), rank_tensor(4, 1, 8)
    program = torch.export.export(model, (x,)).run_decompositions()
    wanted = program.module()(x)
    overlap = hir.Overlap(choose="always")
    overlap(program)
    assert len(overlap.report().fused) == 1, str(overlap.report())
    for found, right in zip(program.module()(x), wanted, strict=True):
        torch.testing.assert_close(found, right)


def weights_without_elements(group: Any) -> None:
    """Matrices of no columns and of no rows, and sums of no products."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def gathering(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.all_gather_tensor(x, 0, group) @ w

    def summing(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.reduce_scatter_tensor(x @ w, "sum", 0, group)

    for layer in (gathering, summing):
        for shapes in ([(4, 8), (8, 0)], [(4, 0), (0, 8)], [(0, 8), (8, 4)]):
            given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(shapes)]
            module, wanted = make_fx(layer, tracing_mode="fake")(*given), layer(*given)
            overlap = hir.Overlap(choose="always")
            overlap(module)
            assert len(overlap.report().fused) == 1, str(overlap.report())
            torch.testing.assert_close(module(*given), wanted)
            overlap.check()


def a_tensor_that_is_two_arguments(group: Any) -> None:
    """A weight's gradient takes it whole, and a sum over ranks by parts: the comparison gives both the same numbers."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def layer(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, p: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows = fc.all_gather_tensor(x, 0, group)
        total = fc.reduce_scatter_tensor(p @ v + rows @ w @ v, "sum", 0, group)
        return rows.t() @ p, total * 1

    given = [rank_tensor(*shape, seed=at) for at, shape in enumerate([(4, 8), (8, 6), (6, 8), (8, 6)])]
    module = make_fx(layer, tracing_mode="fake")(*given)
    overlap = hir.Overlap(choose="always")
    overlap(module)
    (made,) = overlap.report().ops.values()
    nodes = [argument.nodes for argument in made.written.arguments]
    assert len(set(nodes)) == len(nodes) - 1, str(overlap.report())
    overlap.check()


def flat(rows: torch.Tensor) -> torch.Tensor:
    return rows.reshape(-1, rows.shape[-1])


def layer_of_gradients(group: Any, dim: int, is_alone: bool) -> Any:
    """A layer that contracts gathered rows, and multiplies and returns them unless the gradient is alone."""

    def layer(x: Any, dy: Any, w: Any) -> Any:
        rows = fc.all_gather_tensor(x, dim, group)
        gradient = flat(dy).t() @ flat(rows)
        return gradient if is_alone else (gradient, flat(rows).t() @ flat(dy), flat(rows) @ w, rows)

    return layer


def weight_gradients(group: Any) -> None:
    """Programs give what torch gives for gathered rows that are contracted, along either axis, with and without the other
    users of the gather."""
    from torch.fx.experimental.proxy_tensor import make_fx

    world = dist.get_world_size()
    for dim, is_alone in ((0, False), (0, True), (1, False), (1, True)):
        batch = [3] * dim
        shape, whole = (*batch, 3, 8), (*batch, 3 * world, 5)
        layer = layer_of_gradients(group, dim, is_alone)
        for element, tolerance in ((torch.float32, None), (torch.float64, None), (torch.bfloat16, 0.05)):
            given = [rank_tensor(*size, seed=at).to(element) for at, size in enumerate((shape, whole, (8, 6)))]
            module = make_fx(layer, tracing_mode="fake")(*given)
            wanted = layer(*given)
            overlap = hir.Overlap(choose="always")
            overlap(module)
            (program,) = overlap.report().programs.values()
            # Products are summed if parts of gathered rows are not one below the other, or nothing hides their arrival.
            is_summed = "reduction" in str(program.plain)
            assert not overlap.report().kept and is_summed == (is_alone or dim == 1), str(overlap.report())
            torch.testing.assert_close(module(*given), wanted)
            overlap.check(rtol=tolerance, atol=tolerance)


class Turned(nn.Module):
    """Rows that are multiplied and summed, and their transpose, which is contracted."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: torch.Tensor, w: torch.Tensor, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.T
        return fc.wait_tensor(fc.reduce_scatter_tensor(torch.mm(rows, w), "sum", 0, self.group)), torch.mm(q.T, rows.T)


def gradients_of_summed_rows(group: Any) -> None:
    """Programs give what torch gives for products that contract the rows whose matmul is summed."""
    from torch.fx.experimental.proxy_tensor import make_fx

    name = group.group_name

    def scatter(x: torch.Tensor) -> Any:
        return fc.wait_tensor(fc.reduce_scatter_tensor(x, "sum", 0, name))

    def seen_as_rows(dy: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
        return scatter(dy @ w), dy.t() @ x

    cases: list[tuple[Any, list[tuple[int, ...]], int]] = [
        (lambda dy, w, x: (scatter(dy @ w), dy.t() @ x), [(8, 6), (6, 4), (8, 4)], 1),
        (lambda dy, w, x: (fc.wait_tensor(fc.all_reduce(dy @ w, "sum", name)), x.t() @ dy), [(8, 6), (6, 4), (8, 4)], 1),
        (lambda dy, dz, w, v: (scatter(dy @ w + dz @ v), dy.t() @ dz), [(8, 6), (8, 5), (6, 4), (5, 4)], 1),
        (lambda dy, w: (scatter(dy @ w), dy.t() @ dy), [(8, 6), (6, 4)], 1),
        (lambda dy, w, x: seen_as_rows(dy.view(8, 6), w, x.view(8, 4)), [(2, 4, 6), (6, 4), (2, 4, 4)], 1),
        # Another sum over ranks has this one.
        (lambda dy, w, x: (scatter(dy @ w), scatter(dy.t() @ x)), [(8, 6), (6, 4), (8, 4)], 0),
    ]
    for function, shapes, gradients_within in cases:
        given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(shapes)]
        module = make_fx(function, tracing_mode="fake")(*given)
        overlap = hir.Overlap(choose="always")
        overlap(module)
        texts = "".join(str(program.plain) for program in overlap.report().programs.values())
        assert not overlap.report().kept and texts.count(" D1 = matmul(") == gradients_within, texts
        torch.testing.assert_close(module(*given), function(*given))
        overlap.check()
    given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(((8, 8), (8, 4), (8, 8)))]
    exported = torch.export.export(Turned(name), tuple(given))
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    torch.testing.assert_close(exported.module()(*given), Turned(name)(*given))
    overlap.check()


class WholeProducts(hir.Overlap):
    """Takes the form of regions that has narrow products after the loop."""

    def _part(self, index: Any, region: Any) -> Any:
        from hostir.torch._overlap.gathers import with_narrow_products_whole

        return super()._part(index, with_narrow_products_whole(index, region) or region)


def narrow_products(group: Any) -> None:
    """Programs give what torch gives if narrow products of gathered rows are one product each after the loop."""
    from torch.fx.experimental.proxy_tensor import make_fx

    world, name = dist.get_world_size(), group.group_name

    def layer(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_kept: bool) -> Any:
        rows = fc.all_gather_tensor(x, 0, name)
        made = (rows @ q, rows @ k.t(), rows @ v)
        return (*made, rows) if is_kept else made

    for is_kept in (False, True):
        given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(((4, 8), (8, 12), (3, 8), (8, 3)))]
        module = make_fx(lambda *tensors, is_kept=is_kept: layer(*tensors, is_kept), tracing_mode="fake")(*given)
        overlap = WholeProducts(choose="always")
        overlap(module)
        (program,) = overlap.report().programs.values()
        text = str(program.plain)
        assert not overlap.report().kept and f"P2: f32[x:{world}, {4 * world}, 3]" in text, text
        torch.testing.assert_close(module(*given), layer(*given, is_kept))
        overlap.check()


class JoinedFactors(hir.Overlap):
    """Takes the form of sums whose matmuls are one product."""

    def _part(self, index: Any, region: Any) -> Any:
        from hostir.torch._overlap.sums import with_factors_side_by_side

        return super()._part(index, with_factors_side_by_side(index, region) or region)


def joined_factors(group: Any) -> None:
    """Programs give what torch gives if several matmuls that are summed are one product, as are the gradients of their weights."""
    from torch.fx.experimental.proxy_tensor import make_fx

    name, world = group.group_name, dist.get_world_size()

    def scatter(x: torch.Tensor, dim: int = 0) -> Any:
        return fc.reduce_scatter_tensor(x, "sum", dim, name)

    def both(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> Any:
        return dq @ q + dk @ k

    def gradients(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor, x: torch.Tensor) -> Any:
        return scatter(both(dq, dk, q, k)), dk.t() @ x, dq.t() @ x

    def of_two(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> Any:
        return *gradients(dq, dk, q, k, x), dq.t() @ z, dk.t() @ z

    def turned(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> Any:
        return fc.wait_tensor(fc.all_reduce(both(dq, dk, q.t(), k.t()), "sum", name))

    def of_batches(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> Any:
        return scatter(both(dq, dk, q, k), 1)

    rows, (q, k) = [(4 * world, 6), (4 * world, 3)], ((6, 4), (3, 4))
    cases: list[tuple[Any, list[tuple[int, ...]], bool]] = [
        (lambda *given: scatter(both(*given)), [*rows, q, k], True),
        (turned, [*rows, q[::-1], k[::-1]], True),
        (gradients, [*rows, q, k, (4 * world, 5)], True),
        (of_two, [*rows, q, k, (4 * world, 5), (4 * world, 2)], True),
        (of_batches, [(3, 2 * world, 6), (3, 2 * world, 3), q, k], True),
        # Weights that lie otherwise, a tensor that is two factors, and a gradient of one weight alone stay as they are.
        (lambda dq, dk, q, k: scatter(both(dq, dk, q, k.t())), [*rows, q, k[::-1]], False),
        (lambda dq, q, k: scatter(both(dq, dq, q, k)), [rows[0], q, q], False),
        (lambda dq, dk, q: scatter(both(dq, dk, q, q)), [rows[0], rows[0], q], False),
        (lambda a, b: scatter(both(a, b, a, b)), [(4 * world, 4 * world)] * 2, False),
        (lambda dq, dk, q, k: gradients(dq, dk, q, k, q), [(4 * world, 4 * world)] * 4, False),
        (lambda dq, dk, q, k, x: (scatter(both(dq, dk, q, k)), dk.t() @ x), [*rows, q, k, (4 * world, 5)], False),
    ]
    for function, shapes, is_joined in cases:
        given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(shapes)]
        module = make_fx(function, tracing_mode="fake")(*given)
        overlap = JoinedFactors(choose="always")
        overlap(module)
        (program,) = overlap.report().programs.values()
        text = str(program.plain)
        assert not overlap.report().kept and ("matmul_add" not in text) == is_joined, text
        made = module(*given)
        torch.testing.assert_close(made, function(*given))
        overlap.check()
        if isinstance(made, tuple):
            # Run node by node, each gradient is a tensor of its own.
            assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == len(made)


def rows_without_batch(group: Any) -> None:
    """A product of no rows stays torch's."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def layer(x: torch.Tensor, w: torch.Tensor) -> Any:
        return fc.reduce_scatter_tensor(x @ w, "sum", 1, group.group_name)

    given = [torch.ones(0, 4), torch.ones(4, 4)]
    module = make_fx(layer, tracing_mode="fake")(*given)
    overlap = hir.Overlap(choose="always")
    overlap(module)
    (line,) = overlap.report().lines
    assert not line.is_fused and line.reason is not None, str(overlap.report())
    assert module(*given).shape == (0, 4 // dist.get_world_size())


def scaled(rows: torch.Tensor, weight: torch.Tensor, of_rows: torch.Tensor, of_columns: torch.Tensor) -> torch.Tensor:
    return torch._scaled_mm(rows, weight, of_rows, of_columns, out_dtype=torch.bfloat16)


def has_row_scales() -> bool:
    """True if torch multiplies with a scale for each row on the CPU; its version 2.9 has one for all rows there."""
    small = torch.ones(16, 16).to(torch.float8_e4m3fn)
    try:
        scaled(small, small.t(), torch.ones(16, 1), torch.ones(1, 16))
    except RuntimeError:
        return False
    return True


def scaled_layers(group: Any) -> None:
    """Scaled matmuls before a sum over ranks: the graph with the op, and the program beside the op's nodes. A weight may be a
    view of rows or lie column by column itself."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def layer(x: Any, w: Any, s: Any, t: Any) -> Any:
        return fc.reduce_scatter_tensor(scaled(x, w.t(), s, t), "sum", 0, group)

    def layer_of_columns(x: Any, w: Any, s: Any, t: Any) -> Any:
        return fc.all_reduce(scaled(x, w, s, t), "sum", group)

    x, w = rank_tensor(32, 32).to(torch.float8_e4m3fn), rank_tensor(48, 32, seed=1).to(torch.float8_e4m3fn)
    by_rows = [(rank_tensor(32, 1, seed=2), rank_tensor(1, 48, seed=3))] if has_row_scales() else []
    for function, weight in ((layer, w), (layer_of_columns, w.t())):
        for scales in (*by_rows, (torch.tensor(0.5), torch.tensor(2.0))):
            given = [x, weight, *scales]
            module = make_fx(function, tracing_mode="fake")(*given)
            wanted = function(*given)
            overlap = hir.Overlap(choose="always")
            overlap(module)
            assert len(overlap.report().fused) == 1 and not overlap.report().kept, str(overlap.report())
            torch.testing.assert_close(module(*given), wanted)
            overlap.check(rtol=0.05, atol=0.05)


def slots(group: Any) -> None:
    """Linear slots give what the collectives and `F.linear` give, forward and backward, in eager mode and compiled."""
    hir.linear.use(hir.Overlap(choose="always"))
    for dim, shape in ((0, (4, 6)), (1, (3, 4, 6)), (1, (1, 4, 6))):
        whole = list(shape)
        whole[dim] *= dist.get_world_size()
        weights = [rank_tensor(5, 6, seed=1), rank_tensor(7, 6, seed=2), rank_tensor(5, seed=3), rank_tensor(7, seed=4)]
        compare_slots(
            lambda x, a, b, c, d: (
                F.linear(fc.all_gather_tensor_autograd(x, dim, group), a, c),
                F.linear(fc.all_gather_tensor_autograd(x, dim, group), b, d),
            ),
            lambda x, a, b, c, d: hir.linear.all_gather(x, [a, b], group, [c, d], dim=dim),
            [rank_tensor(*shape), *weights],
        )
        compare_slots(
            lambda x, w: fc.reduce_scatter_tensor_autograd(F.linear(x, w), "sum", dim, group),
            lambda x, w: hir.linear.reduce_scatter(x, w, group, dim=dim),
            [rank_tensor(*whole), rank_tensor(5, 6, seed=1)],
        )
    report = hir.linear.report()
    assert report.lines and not report.kept, str(report)
    assert all(line.where.startswith("overlap_ranks.py:") for line in report.lines), str(report)
    hir.linear.check()
    graphs = len(report.lines)
    hir.linear.all_gather(rank_tensor(4, 6), rank_tensor(5, 6), group)
    hir.linear.all_gather(rank_tensor(4, 6, seed=5), rank_tensor(5, 6, seed=6), group)
    assert len(report.lines) == graphs + 1, "a slot is made once for a shape"


def slots_of_many_shapes(group: Any) -> None:
    """Of the graphs of a group the least recently used goes, and its programs' sessions with it."""
    from hostir.torch import _slot_graphs

    hir.linear.use(hir.Overlap(choose="always"))
    _slot_graphs.KEPT = 2
    call = lambda rows: hir.linear.all_gather(rank_tensor(rows, 6), rank_tensor(5, 6), group)  # noqa: E731
    closed: list[int] = []
    for rows in (2, 4):
        call(rows)
        module = next(reversed(_slot_graphs._slots.graphs[group.group_name].values()))
        (op,) = _slot_graphs._programs_of(module)
        op._sessions.dispatcher.insert((torch.empty(rows),), (), StandIn(rows, closed), [])
    call(2)
    assert closed == []
    call(6)
    assert closed == [4], closed
    call(4)
    assert closed == [4, 2] and len(_slot_graphs._slots.graphs[group.group_name]) == 2


class StandIn:
    """A session, and what was prepared with it."""

    exchange = None

    def __init__(self, rows: int, closed: list[int]) -> None:
        self.session, self.rows, self.closed = self, rows, closed

    def is_recorded(self) -> bool:
        return False

    def wait(self) -> None:
        pass

    def close(self) -> None:
        self.closed.append(self.rows)


def compare_slots(plain: Any, slot: Any, given: list[torch.Tensor]) -> None:
    """Results and gradients of a slot, of the slot in a graph, and of plain torch."""
    wanted = gradients(plain, given)
    torch._dynamo.reset()
    for run in (slot, torch.compile(slot, fullgraph=True, backend="aot_eager")):
        for one, other in zip(gradients(run, given), wanted, strict=True):
            torch.testing.assert_close(one, other)


def gradients(run: Any, given: list[torch.Tensor]) -> list[torch.Tensor]:
    followed = [tensor.clone().requires_grad_() for tensor in given]
    made = run(*followed)
    made = [made] if isinstance(made, torch.Tensor) else list(made)
    sum(result.square().sum() for result in made).backward()
    return [*(result.detach() for result in made), *(tensor.grad for tensor in followed)]


def slots_in_autocast(group: Any) -> None:
    """Slots have the types of `F.linear` inside of autocast, and those of their tensors outside, also with one shape."""
    hir.linear.use(hir.Overlap(choose="always"))
    world, rank = dist.get_world_size(), dist.get_rank()
    bias = torch.arange(5.0)

    def plain_sum(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return fc.all_reduce(F.linear(x, w), "sum", group) + bias.to(F.linear(x, w).dtype)

    cases = [
        (lambda x, w, b: hir.linear.all_gather(x, w, group, b), lambda x, w, b: F.linear(fc.all_gather_tensor(x, 0, group), w, b)),
        (lambda x, w, b: hir.linear.reduce_scatter(x, w, group, b), lambda x, w, b: plain_sum(x, w, b).chunk(world)[rank]),
        (lambda x, w, b: hir.linear.all_reduce(x, w, group, b), plain_sum),
    ]
    for slot, plain in cases:
        for enabled in (True, False, True):
            given = [rank_tensor(8, 6).requires_grad_(), rank_tensor(5, 6, seed=1).requires_grad_(), bias]
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                found = slot(*given)
                with torch.no_grad():
                    wanted = plain(*given)
            assert found.dtype == (torch.bfloat16 if enabled else torch.float32)
            torch.testing.assert_close(found, wanted, rtol=0.02 if enabled else None, atol=0.1 if enabled else None)
            found.float().square().sum().backward()
            assert [tensor.grad.dtype for tensor in given[:2]] == [torch.float32] * 2


def slots_with_biases(group: Any) -> None:
    """The sum's bias is added once, and its gradient is that of all rows; the all-reduce's gradient is not summed."""
    hir.linear.use(hir.Overlap(choose="always"))
    x, w = rank_tensor(8, 6), rank_tensor(5, 6, seed=1)
    bias = torch.arange(5.0)
    total = F.linear(x, w)
    dist.all_reduce(total)
    total += bias
    own = total.chunk(dist.get_world_size())[dist.get_rank()]
    for slot in (hir.linear.reduce_scatter, torch.compile(hir.linear.reduce_scatter, fullgraph=True, backend="aot_eager")):
        scattered, *_, given = gradients(lambda x, w, b, slot=slot: slot(x, w, group, b), [x, w, bias])
        torch.testing.assert_close(scattered, own)
        torch.testing.assert_close(given, 2 * total.sum(0))
    summed, of_x, of_w, given = gradients(lambda x, w, b: hir.linear.all_reduce(x, w, group, b), [x, w, bias])
    for found, wanted in ((summed, total), (given, 2 * total.sum(0)), (of_x, 2 * total @ w), (of_w, 2 * total.T @ x)):
        torch.testing.assert_close(found, wanted)


def slots_without_elements(group: Any) -> None:
    """Layers of no features, of no columns and of no rows, forward and backward."""
    hir.linear.use(hir.Overlap(choose="always"))
    for rows, width, columns in ((4, 0, 6), (4, 8, 0), (0, 8, 6), (4, 0, 0)):
        for shape in ((rows, width), (3, rows, width)):
            dim, given = len(shape) - 2, [rank_tensor(*shape), rank_tensor(columns, width, seed=1)]
            compare_slots(
                lambda x, w: F.linear(fc.all_gather_tensor_autograd(x, dim, group), w),
                lambda x, w: hir.linear.all_gather(x, w, group, dim=dim),
                given,
            )
            compare_slots(
                lambda x, w: fc.reduce_scatter_tensor_autograd(F.linear(x, w), "sum", dim, group),
                lambda x, w: hir.linear.reduce_scatter(x, w, group, dim=dim),
                given,
            )
            made, *of_given = gradients(lambda x, w: hir.linear.all_reduce(x, w, group), given)
            assert made.shape == (*shape[:-1], columns)
            assert [one.shape for one in of_given] == [one.shape for one in given]


class _Biased(nn.Module):
    """Two matmuls whose biases have the same gradient."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.group = group
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        summed = self.first(x.cos()) + self.second(x.sin())
        return fc.reduce_scatter_tensor_autograd(summed, "sum", 1, self.group)


def equal_sums_of_gathered_rows(group: Any) -> None:
    """Inductor compiles them in 16 bits, and they are gradients that can be changed one by one."""
    torch.manual_seed(0)
    model = _Biased(group).bfloat16()
    x = rank_tensor(2, 8, 8).bfloat16()
    torch._dynamo.reset()
    overlap = hir.Overlap(choose="always")
    compiled = torch.compile(model, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
    found = []
    for run in (model, compiled):
        model.zero_grad()
        run(x.clone().requires_grad_()).float().square().sum().backward()
        found.append([model.first.bias.grad, model.second.bias.grad])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=0.05, atol=0.05)
    assert found[1][0].data_ptr() != found[1][1].data_ptr()
    overlap.check(rtol=0.05, atol=0.5)


def groups_of_checks(group: Any) -> None:
    """Regions after one whose results differ are compared, too: other ranks may wait there."""
    overlap = hir.Overlap(choose="always")
    hir.linear.use(overlap)
    for rows in (2, 4):
        hir.linear.all_gather(rank_tensor(rows, 36), rank_tensor(6, 36, seed=1), group)
    checked = []
    for key, made in list(overlap.report().ops.items()):
        overlap.report().ops[key] = _Noted(made, checked)
    overlap.check()
    with pytest.raises(hostir.HostIrError, match="`rtol` is -1"):
        overlap.check(rtol=-1)
    assert len(checked) == 4, checked
    with pytest.raises(hostir.HostIrError, match="`rtol` is -1"):
        hir.Overlap().check(rtol=-1)


class _Noted:
    """A region's op that notes when it is compared."""

    def __init__(self, made: Any, checked: list[str]) -> None:
        self.made, self.checked = made, checked
        self.written, self.op = made.written, made.op

    def check(self, *tolerances: Any) -> None:
        self.checked.append(self.made.op.name)
        self.made.check(*tolerances)


def torchtitan_functions(group: Any) -> None:
    """The functions of `tp_gemm_backend` are the slots."""
    from hostir.torch.tp_gemm_backend import AllGatherLinear, AllGatherLinearMulti, LinearReduceScatter

    hir.linear.use(hir.Overlap(choose="always"))
    name = group.group_name
    x, w, other = rank_tensor(4, 6), rank_tensor(5, 6, seed=1), rank_tensor(7, 6, seed=2)
    rows = fc.all_gather_tensor(x, 0, group)
    torch.testing.assert_close(AllGatherLinear.apply(x, w, None, group, name), rows @ w.T)
    for found, weight in zip(AllGatherLinearMulti.apply(x, w, other, group, name), (w, other), strict=True):
        torch.testing.assert_close(found, rows @ weight.T)
    total = fc.reduce_scatter_tensor(rows @ w.T, "sum", 0, group)
    torch.testing.assert_close(LinearReduceScatter.apply(rows, w, None, group, name), total)


class _Twice(nn.Linear):
    """A linear layer with a forward of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def styles(group: Any) -> None:
    """The styles give the numbers of the layer that is not spread, and gradients of its weights."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    hir.linear.use(hir.Overlap(choose="always"))
    rank, world = dist.get_rank(), dist.get_world_size()

    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))

    whole = make()
    x = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(5))
    wanted = whole(x)
    wanted.square().sum().backward()
    spread = parallelize_module(make(), mesh, {"0": hir.ColwiseParallel(), "2": hir.RowwiseParallel()})
    found = spread(x.chunk(world, 1)[rank])
    torch.testing.assert_close(found, wanted.chunk(world, 1)[rank])
    found.square().sum().backward()
    for one, other in zip(spread.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one.grad.full_tensor(), other.grad)
    # All ranks have all tokens, and all columns between the layers: each takes its part.
    first = spread[0](DTensor.from_local(x, mesh, [Replicate()]))
    torch.testing.assert_close(first, whole[0](x).chunk(world, 2)[rank])
    second = spread[2](DTensor.from_local(whole[0](x), mesh, [Replicate()]))
    torch.testing.assert_close(second, whole[2](whole[0](x)).chunk(world, 1)[rank])
    with pytest.raises(hostir.HostIrError) as refused:
        hir.linear.all_gather(x, torch.ones(3, 6), group, dim=3)
    assert refused.value.code == "H0610" and "`x` has 3 axes" in str(refused.value)
    assert not hir.linear.report().kept, str(hir.linear.report())
    part = torch.ones(2, 4, 6).narrow(1, 0, 4 if rank == 0 else 3)
    shape, stride = torch.Size([2, 4 * world - 1, 6]), (6 * (4 * world - 1), 6, 1)
    uneven = DTensor.from_local(part, mesh, [Shard(1)], run_check=False, shape=shape, stride=stride)
    with pytest.raises(hostir.HostIrError, match=f"axis 1 of the input has {4 * world - 1} elements") as refused:
        spread[0](uneven)
    assert refused.value.code == "H0610" and list(refused.value.notes) == ["pad it by 1"]
    wrong = [
        (nn.Embedding(4, 4), "is for `nn.Linear`, but a module is `Embedding`"),
        (_Twice(4, 4), "replaces `forward`, but `_Twice` has one of its own"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), "has parametrizations.weight.original0"),
    ]
    for module, message in wrong:
        with pytest.raises(hostir.HostIrError, match=message) as refused:
            parallelize_module(nn.Sequential(module), mesh, {"0": hir.ColwiseParallel()})
        assert refused.value.code == "H0610"
