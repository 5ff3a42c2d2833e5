"""`Overlap` on graphs: regions, reasons and reports with a fake process group; numbers over gloo."""

import copy
import json
import pickle
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as fc  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
import overlap_ranks as ranks  # noqa: E402
from hostir.torch import Reason  # noqa: E402
from rank_pool import start_ranks  # noqa: E402

c10d = torch.ops._c10d_functional

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def group(fake_group):
    return fake_group.group_name


def gather(x, group, ranks=2):
    return c10d.wait_tensor(c10d.all_gather_into_tensor(x, ranks, group))


def scatter(x, group, op="sum", ranks=2):
    return c10d.wait_tensor(c10d.reduce_scatter_tensor(x, op, ranks, group))


def reduce(x, group):
    return c10d.wait_tensor(c10d.all_reduce(x, "sum", group))


def traced(function, *shapes, mode="fake", dtype=torch.float32):
    """The graph of a function on tensors of these shapes."""
    tensors = [torch.empty(shape, dtype=dtype) for shape in shapes]
    return make_fx(function, tracing_mode=mode)(*tensors)


def overlapped(function, *shapes, **settings):
    """The graph after the pass, and the report."""
    overlap = hir.Overlap(choose="always")
    module = traced(function, *shapes, **settings)
    overlap(module)
    module.graph.lint()
    return module, overlap.report()


def op_names(module):
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def test_a_gather_and_its_matmuls_are_one_op(group):
    module, report = overlapped(lambda x, a, b: (gather(x, group) @ a, gather_twice(x, a, b)), (4, 8), (8, 6), (8, 5))
    assert not report.kept and len({line.region for line in report.lines}) == len(report.lines)
    assert not any("c10d" in name or "mm" in name for name in op_names(module))


def gather_twice(x, a, b):
    rows = gather(x, dist.group.WORLD.group_name)
    return torch.relu(rows @ a), rows @ b


def test_the_text_of_a_block(group):
    def block(x, w1, w3, w2):
        rows = gather(x, group)
        between = torch.nn.functional.silu(rows @ w1.t()) * (rows @ w3.t())
        return scatter(between @ w2.t(), group)

    module, report = overlapped(block, (4, 8), (6, 8), (6, 8), (8, 6))
    (name,) = report.programs
    assert {line.region for line in report.lines} == {name}
    assert (
        str(report.programs[name].plain)
        == f"""hir 2
mesh d = 0..2

{name}(
  X1: f32[x:2, 4, 8],
  W1: f32[x:2, b.1, 6, 8],
  W2: f32[x:2, b.1, 6, 8],
  W3: f32[x:2, b.1, 8, 6]
) -> (
  Y1: f32[r.2, x:2, 4, 8]
) on d:
  G = broadcast(X1, flags=[true, false, false, false])
  T1 = Set.Permute(W1, perm=[0, 1, 3, 2])
  T2 = Set.Permute(W2, perm=[0, 1, 3, 2])
  T3 = Set.Permute(W3, perm=[0, 1, 3, 2])
  P1: f32[x:2, 2, 4, 6, r.8] = matmul(G, T1)
  P2: f32[x:2, 2, 4, 6, r.8] = matmul(G, T2)
  V1 = silu(P1)
  V2 = V1 * P2
  P3 = matmul(V2, T3)
  Y1 = reduction(P3, op=add, init=f32(0), allreduce=false)
"""
    )
    calls = op_names(module)
    assert sum(call.startswith("hostir.region_") for call in calls) == 1
    assert not any(word in call for call in calls for word in ("c10d", "mm", "silu", "mul"))
    again = re.sub("[0-9a-f]{8}", "", name)
    assert again == "region_" and overlapped(block, (4, 8), (6, 8), (6, 8), (8, 6))[1].programs.keys() == {name}


def test_what_else_is_read_are_results(group):
    def block(x, w1, w2):
        rows = gather(x, group)
        up = rows @ w1
        return scatter(torch.relu(up) @ w2, group), up, rows

    module, report = overlapped(block, (4, 8), (8, 6), (6, 8))
    (program,) = report.programs.values()
    assert program.plain.outputs == ["P1", "X2", "Y1"]
    assert "allgather(" not in str(program.lowered)
    shapes = [tuple(value.meta["val"].shape) for value in module.graph.output_node().args[0]]
    assert shapes == [(4, 8), (8, 6), (8, 8)]


@pytest.mark.parametrize("batch", [1, 3])
def test_gathers_and_sums_along_other_axes(group, batch):
    def block(x, w1, w2):
        rows = torch.cat(gather(x, group).chunk(2, 0), 1)
        between = torch.relu(rows @ w1)
        return scatter(torch.cat((between @ w2).chunk(2, 1), 0), group)

    _, report = overlapped(block, (batch, 4, 8), (8, 6), (6, 8))
    assert len({line.region for line in report.lines}) == 1 and not report.kept, str(report)


def test_columns_of_one_weight(group):
    def block(x, w, w2):
        gate, up = (gather(x, group) @ w).chunk(2, -1)
        return scatter((torch.sigmoid(gate) * up) @ w2, group)

    _, report = overlapped(block, (4, 8), (8, 12), (6, 8))
    assert len(report.programs) == 1 and not report.kept
    (program,) = report.programs.values()
    assert "slice(P1, [[0, 2, 1], [0, 2, 1], [0, 4, 1], [6, 12, 1]])" in str(program.plain)


def test_several_matmuls_of_one_sum(group):
    _, report = overlapped(lambda a, b, v, w: scatter(a @ v + b @ w, group), (8, 6), (8, 5), (6, 4), (5, 4))
    assert not report.kept
    (program,) = report.programs.values()
    assert "matmul_add(A2, W2, P1)" in str(program.plain) and "reduce_scatter(" not in str(program.lowered)


@pytest.mark.parametrize("kind", [scatter, reduce])
def test_sums_of_three_matmuls(group, kind):
    shapes = [(8, 6), (8, 5), (8, 3), (6, 4), (5, 4), (3, 4)]
    _, report = overlapped(lambda a, b, c, u, v, w: kind(a @ u + b @ v + c @ w, group), *shapes)
    (program,) = report.programs.values()
    lowered = str(program.lowered)
    assert not report.kept and "reduce_scatter(" not in lowered and "allreduce(" not in lowered, lowered
    given = {shape: torch.randn(2, *shape) for shape in shapes}
    lefts, rights = list(given.values())[:3], list(given.values())[3:]
    wanted = sum(left.double() @ right.double() for left, right in zip(lefts, rights, strict=True)).sum(0)
    read = [given[tuple(argument.nodes[0].meta["val"].shape)] for argument in report.ops_of(program.name)[0].written.arguments]
    found = ran(report, [x.reshape(2, 2, 4, -1) if x.shape[1] == 8 else x.unsqueeze(1) for x in read])
    torch.testing.assert_close(found.flatten(0, 1).double(), wanted, rtol=1e-5, atol=1e-5)


def test_an_all_reduce(group):
    module, report = overlapped(lambda x, w: reduce(x @ w, group), (4, 3, 6), (6, 5))
    assert not report.kept
    assert tuple(module.graph.output_node().args[0].meta["val"].shape) == (4, 3, 5)


def test_a_matmul_of_repeated_weights(group):
    """DTensor's linear layers of three axes come as `bmm` with an expanded weight."""
    _, report = overlapped(lambda x, w: torch.bmm(gather(x, group), w.expand(6, 8, 5)), (3, 4, 8), (8, 5))
    assert not report.kept


def test_slices_that_take_all(group):
    """DTensor's way to take padding off, also where there is none. Inductor drops them, other compilers do not."""

    def padded(x, w, v, group):
        rows = gather(x, group)
        product = rows[0:8].view(2, 4, 16)[:, 0:4].reshape(8, 16) @ torch.narrow(w, 0, 0, 16)
        return product[0:8], scatter((rows @ v).narrow(0, 0, 8), group)

    def plain(x, w, v, group):
        rows = gather(x, group)
        return rows @ w, scatter(rows @ v, group)

    shapes = (4, 16), (16, 6), (16, 5)
    (_, report), (_, wanted) = (overlapped(lambda *given, f=f: f(*given, group), *shapes) for f in (padded, plain))
    assert not report.kept and len(report.lines) == 2, str(report)
    assert [line.region for line in report.lines] == [line.region for line in wanted.lines]


def test_reasons_behind_views_and_of_repetitions(group):
    """A matmul of batches that reads the rows through views, and one that repeats its matrix, which is no matrix times one."""
    _, report = overlapped(lambda x, w: torch.bmm(gather(x, group).expand(3, 8, 16), w), (4, 16), (3, 16, 5))
    assert [line.reason for line in report.lines] == [Reason.BATCHED_MATMUL], str(report)
    _, report = overlapped(
        lambda x, w: (torch.bmm(gather(x, group).expand(3, 8, 16), w), gather(x, group) * 2), (4, 16), (3, 16, 5)
    )
    assert Reason.BATCHED_MATMUL in [line.reason for line in report.lines], str(report)

    class Repeated(torch.nn.Module):
        def forward(self, x, w):
            return torch.matmul(fc.all_gather_tensor(x, 0, group), w.expand(3, 16, 8))

    overlap = hir.Overlap(choose="always")
    overlap(torch.export.export(Repeated(), (torch.randn(4, 16), torch.randn(16, 8)), strict=False))
    assert [line.reason for line in overlap.report().lines] == [Reason.BATCHED_MATMUL], str(overlap.report())


class Counting(torch.nn.Module):
    """Changes a buffer before the collective."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, w):
        self.calls.add_(1)
        return fc.all_gather_tensor(x, 0, self.group) @ w


def test_ops_in_place_before_a_region(group):
    exported = torch.export.export(Counting(group), (torch.randn(4, 8), torch.randn(8, 5)), strict=False)
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert not overlap.report().kept, str(overlap.report())
    names = op_names(exported.graph_module)
    assert names.index("aten.add_.Tensor") < next(at for at, name in enumerate(names) if "hostir" in name)


def gradients(x, dy, w, group):
    """Of a layer whose rows are gathered: of its input, and of a weight from either side."""
    rows = gather(x, group)
    return rows @ w, rows.t() @ dy, dy.t() @ rows


def test_gradients_of_weights_multiply_all_rows_behind_the_loop(group):
    module, report = overlapped(lambda x, dy, w: gradients(x, dy, w, group), (4, 8), (8, 5), (8, 6))
    assert not report.kept, str(report)
    ((name, program),) = report.programs.items()
    assert (
        str(program.plain)
        == f"""hir 2
mesh d = 0..2

{name}(
  X1: f32[x:2, 4, 8],
  W1: f32[x:2, b.1, 8, 6],
  A1: f32[x:2, 8, 5]
) -> (
  P1: f32[x:2, 2, 4, 6, r.8],
  D1: f32[x:2, 8, 5],
  D2: f32[x:2, 5, 8]
) on d:
  G = broadcast(X1, flags=[true, false, false, false])
  T2 = Set.Permute(A1, perm=[0, 2, 1])
  P1 = matmul(G, W1)
  X2: f32[2, 4, 8] = Set(X1)
  R1: f32[b.1, 8, 8] = alloc(share=X2)
  T1 = Set.Permute(R1, perm=[0, 2, 1])
  D1 = matmul(T1, A1)
  D2 = matmul(T2, R1)
"""
    )
    lowered = str(program.lowered)
    assert lowered.count("for hop in") == 1 and lowered.count("protocol=put") == 2, lowered
    assert not any("mm" in call or "c10d" in call for call in op_names(module))


def test_gradients_of_weights_stand_behind_the_sum_of_their_rows(group):
    """Of two layers with the same input: the gradient of that, summed over ranks, and of the weights from either side."""

    def layers(dy, dz, w, v, rows):
        total = scatter(dy @ w + dz @ v, group)
        return total, dy.t() @ rows, rows.t() @ dz

    module, report = overlapped(layers, (8, 6), (8, 5), (6, 4), (5, 4), (8, 4))
    assert not report.kept, str(report)
    ((name, program),) = report.programs.items()
    assert (
        str(program.plain)
        == f"""hir 2
mesh d = 0..2

{name}(
  A1: f32[x:2, 2, 4, 6],
  W1: f32[x:2, b.1, 6, 4],
  A2: f32[x:2, 2, 4, 5],
  W2: f32[x:2, b.1, 5, 4],
  A3: f32[x:2, 8, 6],
  A4: f32[x:2, 8, 4],
  A5: f32[x:2, 8, 5]
) -> (
  D1: f32[x:2, 6, 4],
  D2: f32[x:2, 4, 5],
  Y1: f32[r.2, x:2, 4, 4]
) on d:
  T1 = Set.Permute(A3, perm=[0, 2, 1])
  T2 = Set.Permute(A4, perm=[0, 2, 1])
  P1 = matmul(A1, W1)
  P2 = matmul_add(A2, W2, P1)
  Y1 = reduction(P2, op=add, init=f32(0), allreduce=false)
  D1 = matmul(T1, A4)
  D2 = matmul(T2, A5)
"""
    )
    assert program.passes == "overlap-lower{independent_products=inside}"
    lowered = str(program.lowered)
    assert lowered.index("for hop in") < lowered.index("D1 = matmul(") < lowered.index("wait h1"), lowered
    assert not any("mm" in call or "c10d" in call for call in op_names(module))


def test_gradients_of_weights_that_no_sum_has(group):
    """Those of gathered rows are the gather's, which hides that these arrive; what depends on the sum cannot be beside it."""

    def of_gathered(dy, w, x):
        return scatter(dy @ w, group), dy.t() @ gather(x, group)

    _, report = overlapped(of_gathered, (8, 6), (6, 4), (4, 4))
    assert not report.kept and len(report.programs) == 2
    assert [("D1" in str(program.plain), "Y1" in str(program.plain)) for program in report.programs.values()] == [
        (False, True),
        (True, False),
    ]

    def of_another_sum(dy, w, x):
        return scatter(dy @ w, group), reduce(torch.cat([dy.t() @ x] * 2), dist.new_group([0, 1]).group_name)

    _, report = overlapped(of_another_sum, (8, 6), (6, 4), (8, 4))
    assert not report.fused[0].detail and all("D1" not in str(program.plain) for program in report.programs.values())

    def of_result(dy, w):
        return dy.t() @ torch.cat([scatter(dy @ w, group)] * 2)

    module, report = overlapped(of_result, (8, 6), (6, 4))
    assert not report.kept and [call for call in op_names(module) if "mm" in call] == ["aten.mm.default"]


def test_a_sum_alone_where_its_gradients_cannot_be_beside_it(group):
    """An op in place stands between them."""

    def layer(dy, w, rows, count):
        total = scatter(dy @ w, group)
        count.add_(1)
        return total, dy.t() @ rows

    module, report = overlapped(layer, (8, 6), (6, 4), (8, 4), (1,))
    (program,) = (program for name, program in report.programs.items() if name == report.lines[0].region)
    assert not report.kept and "D1" not in str(program.plain)
    assert [call for call in op_names(module) if "mm" in call] == ["aten.mm.default"]


def test_a_sum_with_those_of_its_gradients_that_can_be_beside_it(group):
    """An op in place stands in front of one of two."""

    def layer(dy, w, rows, others, count):
        total = scatter(dy @ w, group)
        first = dy.t() @ rows
        count.add_(1)
        return total, first, dy.t() @ others

    module, report = overlapped(layer, (8, 6), (6, 4), (8, 4), (8, 5), (1,))
    (program,) = report.programs.values()
    assert not report.kept and "D1: f32[x:2, 6, 4]" in str(program.plain) and "D2" not in str(program.plain)
    assert [call for call in op_names(module) if "mm" in call] == ["aten.mm.default"]


def test_gathered_rows_that_are_a_result_are_copied_behind_the_products(group):
    def layer(x, w):
        rows = gather(x, group)
        return rows @ w, rows

    _, report = overlapped(layer, (4, 8), (8, 6))
    (program,) = report.programs.values()
    assert program.passes == "overlap-lower{gather_into=buffer,own_part=return}" and not report.kept
    lowered = str(program.lowered)
    # They arrive in a buffer, are multiplied there, and the rank's own ones come back.
    assert "X1.1: f32[2, 4, 8] = alloc" in lowered and "X2[(rank + hop) % 2] = Set(X1.1[(rank + hop) % 2])" in lowered, lowered
    assert "recv(X2[rank], from=(rank + 2 - hop) % 2, via=CUDA)" in lowered and "Set(X1[own])" not in lowered, lowered
    assert not program.lowered.check(devices=2).warnings


def test_a_gradient_alone_is_a_loop(group):
    _, report = overlapped(lambda x, dy: dy.t() @ gather(x, group), (4, 8), (8, 5))
    (program,) = report.programs.values()
    assert not report.kept and str(program.lowered).count("matmul_add(") == 1


def test_a_gradient_that_depends_on_the_gather_stays_torchs(group):
    def layer(x, w):
        rows = gather(x, group)
        return rows.t() @ torch.softmax(rows @ w, -1)

    module, report = overlapped(layer, (4, 8), (8, 5))
    assert not report.kept and len(report.programs) == 1
    assert [call for call in op_names(module) if "mm" in call] == ["aten.mm.default"]


FLOAT8 = torch.float8_e4m3fn


needs_row_scales = pytest.mark.skipif(not ranks.has_row_scales(), reason="torch 2.9 has them on GPUs only")


def scaled(a, b, rows, columns, **settings):
    return torch._scaled_mm(a, b, rows, columns, out_dtype=torch.bfloat16, **settings)


def overlapped_scaled(function, rows, columns=(1, 48), extent=16):
    """The graph of a scaled matmul after the pass, and the report: of left factor, its scales, weight and its scales."""
    given = [torch.empty(extent, 32).to(FLOAT8), torch.empty(rows), torch.empty(48, 32).to(FLOAT8), torch.empty(columns)]
    module = make_fx(function, tracing_mode="fake")(*given)
    overlap = hir.Overlap(choose="always")
    overlap(module)
    module.graph.lint()
    return module, overlap.report()


def scaled_inputs(rows, columns):
    """Both ranks' left factors, weights and scales, of the shapes that a rank has."""
    make = torch.Generator().manual_seed(1)
    numbers = [torch.randn(2, *shape, generator=make).to(FLOAT8) for shape in ((16, 32), (48, 32))]
    return [*numbers, *(torch.rand(2, *shape, generator=make) + 0.5 for shape in (rows, columns))]


def ran(report, given):
    """The only program's only output on the CPU."""
    ((name, program),) = report.programs.items()
    assert not any(word in str(program.lowered) for word in ("allgather(", "reduce_scatter(", "allreduce("))
    inputs = {argument.name: tensor for argument, tensor in zip(report.ops_of(name)[0].written.arguments, given, strict=True)}
    (output,) = program.lowered.run(inputs).values()
    return torch.from_dlpack(output)


@needs_row_scales
def test_scaled_matmuls_of_gathered_rows(group):
    """Scales of rows are gathered with the rows. Torch's numbers are those of its CPU kernel."""
    layer = lambda x, s, w, t: scaled(gather(x, group), w.t(), gather(s, group), t)  # noqa: E731
    module, report = overlapped_scaled(layer, (16, 1))
    (_,) = report.programs.values()
    assert [line.is_fused for line in report.lines] == [True, True], str(report)
    assert not any("c10d" in call or "mm" in call for call in op_names(module))
    x, w, rows, scales = scaled_inputs((16, 1), (1, 48))
    found = ran(report, [x, w.unsqueeze(1), rows, scales.reshape(2, 1, 1, -1)])
    for rank in range(2):
        wanted = scaled(x.flatten(0, 1), w[rank].t(), rows.flatten(0, 1), scales[rank])
        torch.testing.assert_close(found[rank].flatten(0, 1), wanted)


def test_a_scale_for_all_gathered_rows(group):
    _, report = overlapped_scaled(lambda x, s, w, t: scaled(gather(x, group), w.t(), s, t), (), ())
    (_,) = report.programs.values()
    x, w, row, column = scaled_inputs((), ())
    found = ran(report, [x, w.unsqueeze(1), row.reshape(2, 1, 1, 1), column.reshape(2, 1, 1, 1)])
    for rank in range(2):
        wanted = scaled(x.flatten(0, 1), w[rank].t(), row[rank], column[rank])
        torch.testing.assert_close(found[rank].flatten(0, 1), wanted)


SCALES = [pytest.param((16, 1), (1, 48), id="rows", marks=needs_row_scales), pytest.param((), (), id="one")]


@pytest.mark.parametrize(("rows", "columns"), SCALES)
@pytest.mark.parametrize("kind", [scatter, reduce])
def test_sums_of_scaled_matmuls(group, kind, rows, columns):
    _, report = overlapped_scaled(lambda x, s, w, t: kind(scaled(x, w.t(), s, t), group), rows, columns)
    (_,) = report.programs.values()
    assert not report.kept
    x, w, row, column = scaled_inputs(rows, columns)
    scales = [row.reshape(2, 2, 8, 1) if rows else row.reshape(2, 1, 1, 1), column.reshape(2, 1, 1, -1)]
    found = ran(report, [x.reshape(2, 2, 8, 32), w.unsqueeze(1), *scales])
    wanted = sum(scaled(x[rank], w[rank].t(), row[rank], column[rank]).float() for rank in range(2))
    # Partial sums go around in the type of the result: one rounding of bfloat16 a hop.
    torch.testing.assert_close(found.flatten(0, 1).float(), wanted, rtol=2**-6, atol=2**-5)


SCALED_KEPT = {
    "scales read elsewhere": (
        lambda g: lambda x, s, w, t: scaled_and_scales(gather(x, g), gather(s, g), w, t),
        "is read elsewhere, too",
    ),
    "another type": (
        lambda g: lambda x, s, w, t: scaled(gather(x.to(torch.float8_e5m2), g), w.t(), gather(s, g), t),
        "is torch.float8_e5m2, not float8_e4m3fn",
    ),
}


def test_a_scaled_matmul_of_unknown_shapes(group):
    given = [torch.empty(16, 32).to(FLOAT8), torch.empty(()), torch.empty(48, 32).to(FLOAT8), torch.empty(())]
    module = make_fx(lambda x, s, w, t: scaled(gather(x, group), w.t(), s, t), tracing_mode="fake")(*given)
    del next(node for node in module.graph.nodes if node.name == "s_1").meta["val"]
    report = report_of(hir.Overlap(choose="always"), module)
    assert [line.reason for line in report.lines] == [Reason.SYMBOLIC_SHAPE], str(report)


def scaled_and_scales(rows, scales, w, t):
    return scaled(rows, w.t(), scales, t), scales.cos()


@pytest.mark.parametrize("name", SCALED_KEPT)
def test_scaled_matmuls_that_stay(group, name):
    make, words = SCALED_KEPT[name]
    _, report = overlapped_scaled(make(group), (16, 1))
    assert not report.fused
    told = [line for line in report.kept if line.reason is Reason.SCALED_MATMUL and words in line.detail]
    assert told, str(report)


def test_the_autograd_forms(group):
    def product(x, w):
        return torch.ops._c10d_functional_autograd.all_gather_into_tensor(x, 2, group) @ w

    if not hasattr(torch.ops._c10d_functional_autograd, "all_gather_into_tensor"):
        pytest.skip("this torch has no such ops")
    graph = torch.fx.symbolic_trace(lambda x, w: product(x, w))
    for node, shape in zip(graph.graph.nodes, [(4, 8), (8, 5), (8, 8), (8, 5)]):
        node.meta["val"] = torch.empty(shape, device="meta")
    product_node = next(node for node in graph.graph.nodes if "matmul" in str(node.target))
    product_node.target = torch.ops.aten.mm.default
    overlap = hir.Overlap(choose="always")
    overlap(graph)
    assert not overlap.report().kept, str(overlap.report())


def softmax_between(x, w1, w2, group):
    return scatter(torch.softmax(gather(x, group) @ w1, -1) @ w2, group)


def test_what_lies_between_may_stay_torchs(group):
    module, report = overlapped(lambda x, a, b: softmax_between(x, a, b, group), (4, 8), (8, 6), (6, 8))
    assert not report.kept and len(report.programs) == 2
    assert any("softmax" in name for name in op_names(module))


@torch.library.custom_op("hostir_tests::own_kernel", mutates_args=())
def own_kernel(x: torch.Tensor) -> torch.Tensor:
    """An op of a user's, of which the pass knows nothing."""
    return x * 2


@own_kernel.register_fake
def _(x):
    return torch.empty_like(x)


def test_an_op_of_a_users_ends_a_region(group):
    module, report = overlapped(lambda x, a, b: scatter(own_kernel(gather(x, group) @ a) @ b, group), (4, 8), (8, 6), (6, 8))
    assert not report.kept and len(report.programs) == 2
    assert any("own_kernel" in name for name in op_names(module))


@torch.library.custom_op("hostir_tests::relu", mutates_args=())
def own_relu(x: torch.Tensor) -> torch.Tensor:
    """Not torch's."""
    return torch.where(x > 0, x, 0.1 * x)


@torch.library.custom_op("hostir_tests::transpose", mutates_args=())
def own_transpose(x: torch.Tensor, how: str) -> torch.Tensor:
    """It takes other arguments than torch's."""
    return x.t().contiguous()


own_relu.register_fake(torch.empty_like)
own_transpose.register_fake(lambda x, how: x.new_empty(x.shape[1], x.shape[0]))


def test_ops_of_users_with_names_of_torchs(group):
    module, report = overlapped(lambda x, a, b: scatter(own_relu(gather(x, group) @ a) @ b, group), (4, 8), (8, 6), (6, 8))
    assert not report.kept and len(report.programs) == 2
    assert not any("relu" in str(program.plain) for program in report.programs.values())
    assert "hostir_tests.relu.default" in op_names(module)
    _, report = overlapped(lambda x, w: own_transpose(gather(x, group), "rows") @ w, (4, 8), (8, 5))
    assert [(line.reason, line.detail) for line in report.lines] == [(Reason.NO_MATMUL_AFTER, "hostir_tests::transpose")]


def test_a_gather_that_views_take_elsewhere(group):
    """Views on the way to no matmul are no reason of their own."""
    _, report = overlapped(lambda x: torch.cat(gather(x, group).split(4, 0), 1).cos(), (4, 8))
    assert [(line.reason, line.detail) for line in report.kept] == [(Reason.NO_MATMUL_AFTER, "cos")]


def test_reasons_that_name_the_cause(group):
    """Sums whose parts lie in columns, and rows that are the right factor."""
    _, report = overlapped(lambda x, w: fc.reduce_scatter_tensor(x @ w, "sum", 1, group), (8, 6), (6, 24))
    assert [line.reason for line in report.lines] == [Reason.LAYOUT], str(report)
    _, report = overlapped(lambda w, x: w @ gather(x, group).t(), (5, 8), (4, 8))
    assert [line.reason for line in report.lines] == [Reason.GATHERED_RIGHT], str(report)
    _, report = overlapped(lambda x, w: gather(x, group).cumsum(0) @ w, (4, 8), (8, 5))
    assert [(line.reason, line.detail) for line in report.lines] == [(Reason.NO_MATMUL_AFTER, "cumsum")]
    for sent in (lambda p: torch.atan(p), lambda p: p[:4], lambda p: torch.cat([p, p])):
        _, report = overlapped(summed(sent, group), (8, 6), (6, 4))
        assert [line.reason for line in report.lines] == [Reason.CHANGED_BEFORE_SUM], str(report)


def test_rows_that_a_matmul_adds(group):
    """They are no factor of it, also after a view."""
    for moved in (lambda rows: rows, lambda rows: rows.view(2, 4, 8).view(8, 8), lambda rows: rows.t()):
        _, report = overlapped(lambda x, h, v: torch.addmm(moved(gather(x, group)), h, v), (4, 8), (8, 6), (6, 8))
        found = [(line.reason, line.detail) for line in report.lines]
        assert found == [(Reason.NO_MATMUL_AFTER, "addmm adds them to its product")], str(report)
    _, report = overlapped(lambda x, h, b: torch.addmm(b, h, gather(x, group)), (4, 5), (6, 8), (5,))
    assert [line.reason for line in report.lines] == [Reason.GATHERED_RIGHT], str(report)


def read_twice(x, w, group):
    """Rows in a layout that a result of a program has not, in two nodes, and sums of both."""
    rows = gather(x, group)
    first, second = (torch.cat(rows.chunk(2, 0), 1).view(16, 8) for _ in range(2))
    return first @ w, first.sum(0), second.sum(0), first.cos() + second


def test_nodes_of_one_result_share_a_copy(group):
    """Equal sums, which are results of the graph, have memory of their own nevertheless."""
    module, report = overlapped(lambda x, w: read_twice(x, w, group), (2, 4, 8), (8, 5))
    assert len(report.fused) == 1, str(report)
    summed = [str(node.target) for node in module.graph.nodes].count("aten.sum.dim_IntList")
    _, one, other, mixed = module.graph.output_node().args[0]
    assert summed == 1 and other.target is torch.ops.aten.clone.default and other.args == (one,), str(module.graph)
    (cosine, added) = mixed.args
    assert cosine.args == (added,), "one copy of the rows"


def test_nodes_that_may_be_changed_share_no_copy(group):
    """Rows that the graph gives, or whose graph has ops in place."""

    def given_twice(x, w):
        rows = gather(x, group)
        first, second = (torch.cat(rows.chunk(2, 0), 1) for _ in range(2))
        return first.view(16, 8) @ w, first, second

    module, _ = overlapped(given_twice, (2, 4, 8), (8, 5))
    _, first, second = module.graph.output_node().args[0]
    assert first is not second
    module, _ = overlapped(lambda x, w: (*read_twice(x, w, group), w.cos().add_(1)), (2, 4, 8), (8, 5))
    assert [str(node.target) for node in module.graph.nodes].count("aten.sum.dim_IntList") == 2


def test_a_matmul_that_gives_another_type(group):
    wider = lambda x, w: torch.mm(gather(x, group), w, out_dtype=torch.float32)  # noqa: E731
    try:
        _, report = overlapped(wider, (4, 8), (8, 5), dtype=torch.bfloat16)
    except TypeError:
        pytest.skip("this torch traces no such matmul")
    (line,) = report.lines
    assert line.reason is Reason.OP_NOT_IN_LANGUAGE and "gives another element type" in line.detail, str(report)


def summed(function, group):
    return lambda x, w: reduce(function(x @ w), group)


def test_an_override_of_another_schedule(group):
    """Whose output has its axes in another order in memory, which a rank's part does not show."""
    _, report = overlapped(lambda x, w: scatter(x @ w, group), (8, 6), (6, 12))
    ((name, made),) = report.programs.items()
    other = made.plain.run_passes("overlap-lower{matmul_reduce_scatter=p2p}")
    assert "order(" in str(other)
    hir.override(name, other)
    assert made.is_override


def test_exported_programs(group, tmp_path):
    class Layer(torch.nn.Module):
        def forward(self, x, w):
            return fc.all_gather_tensor(x, 0, group) @ w

    exported = torch.export.export(Layer(), (torch.randn(4, 8), torch.randn(8, 5)))
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert len(overlap.report().fused) == 1, str(overlap.report())
    assert exported.module()(torch.randn(4, 8), torch.randn(8, 5)).shape == (8, 5)
    exported.validate()
    torch.export.save(exported, tmp_path / "layer.pt2")


class Exported(torch.nn.Module):
    """A gather and a matmul, and what follows them."""

    def __init__(self, group, function):
        super().__init__()
        self.group, self.function = group, function

    def forward(self, x, w):
        return self.function(fc.all_gather_tensor(x, 0, self.group), w)


def without_gradient(rows, w):
    with torch.no_grad():
        return rows @ w


def changed_without_gradient(rows, w):
    first = rows @ w
    with torch.no_grad():
        w.mul_(2)
    return first, rows @ w


def test_ops_in_place_in_graphs_of_exported_programs(group):
    weight = torch.randn(8, 5)
    exported = torch.export.export(Exported(group, changed_without_gradient), (torch.randn(4, 8), weight))
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert [line.reason for line in overlap.report().lines] == [Reason.CHANGED_IN_PLACE], str(overlap.report())


def copied_before(rows, w):
    w = w + 0
    copied = w.t().reshape(-1)
    w.mul_(2)
    return rows @ w, copied.view(5, 8)


def test_views_that_copy_before_an_op_in_place(group):
    x, w = torch.randn(4, 8), torch.randn(8, 5)
    exported = torch.export.export(Exported(group, copied_before), (x, w))
    hir.Overlap(choose="always")(exported)
    assert torch.equal(exported.module()(x, w)[1], w.t())


def sums_without_gradient(rows, w):
    product = rows @ w
    with torch.no_grad():
        inner = fc.all_reduce(product.cos(), "sum", dist.group.WORLD)
    return inner, fc.all_reduce(w.cos(), "sum", dist.group.WORLD), rows @ (w * w[0, 0])


def test_collectives_in_graphs_of_exported_programs_keep_their_order(group):
    exported = torch.export.export(Exported(group, sums_without_gradient), (torch.randn(4, 8), torch.randn(8, 5)))
    hir.Overlap(choose="always")(exported)
    names = [str(node.target) for node in exported.graph.nodes]
    inner = next(at for at, name in enumerate(names) if "wrap_with_set_grad" in name)
    assert all(at > inner for at, name in enumerate(names) if "all_reduce" in name), names


def test_kernels_of_triton_that_change_arguments():
    from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_functional, triton_kernel_wrapper_mutation

    from hostir.torch._overlap.nodes import any_in, is_in_place

    graph = torch.fx.Graph()
    ops = (triton_kernel_wrapper_functional, triton_kernel_wrapper_mutation)
    assert [any_in(graph.call_function(op), is_in_place) for op in ops] == [False, True]


def unread(rows, w):
    torch.mm(rows, w)
    return w


@pytest.mark.parametrize("function", [lambda rows, w: torch.relu_(rows @ w), lambda rows, w: (rows @ w).add_(1)])
@pytest.mark.parametrize("follows", [True, False])
def test_exported_programs_with_ops_in_place_behind_a_region(group, function, follows):
    x, w = torch.randn(4, 8), torch.randn(8, 5, requires_grad=True)
    exported = torch.export.export(Exported(group, function), (x, w))
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert len(overlap.report().fused) == 1, str(overlap.report())
    with torch.set_grad_enabled(follows):
        assert exported.module()(x, w).shape == (8, 5)


def test_graphs_in_exported_programs(group):
    exported = torch.export.export(Exported(group, without_gradient), (torch.randn(4, 8), torch.randn(8, 5)))
    assert any(isinstance(node.target, str) and "submod" in node.target for node in exported.graph.nodes)
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert len(overlap.report().lines) == 1, str(overlap.report())
    assert exported.module()(torch.randn(4, 8), torch.randn(8, 5)).shape == (8, 5)


def test_random_numbers_keep_their_order(group):
    """The second draw stands before the region's last node, the first one depends on the region."""

    def layer(x, a, b):
        rows = gather(x, group)
        first = torch.rand_like(rows @ a)
        scale = torch.rand_like(b)
        return first, scale, rows @ (b * scale)

    before = [name for name in op_names(traced(layer, (4, 8), (8, 6), (8, 5))) if "rand" in name]
    module, report = overlapped(layer, (4, 8), (8, 6), (8, 5))
    shapes = [list(node.meta["val"].shape) for node in module.graph.nodes if "rand" in str(node.target)]
    assert len(before) == 2 and shapes == [[8, 6], [8, 5]], str(report)


def test_a_matmul_that_nothing_reads(group):
    exported = torch.export.export(Exported(group, unread), (torch.randn(4, 8), torch.randn(8, 5)))
    overlap = hir.Overlap(choose="always")
    overlap(exported)
    assert [line.reason for line in overlap.report().lines] == [Reason.RESULT_UNUSED]


def test_a_pass_checks_its_own_ops(group):
    """Another pass has the same region with other nodes."""
    one, other = (hir.Overlap(choose="always") for _ in range(2))
    one(traced(lambda x, w: gather(x, group) @ w, (4, 18), (18, 7)))
    other(traced(lambda x, w: gather(x, group).view(2, 4, 18).view(8, 18) @ w, (4, 18), (18, 7)))
    assert list(one.report().programs) == list(other.report().programs)
    ops = [list(overlap.report().ops) for overlap in (one, other)]
    assert [len(each) for each in ops] == [1, 1] and ops[0] != ops[1]


def test_overrides_are_programs():
    for program in (0, 1.5, b"mine.hir"):
        with pytest.raises(hostir.HostIrError, match="`program` is of type") as caught:
            hir.override("region_3f2a91c0", program)
        assert caught.value.code == "H0610"


def dependent(x, w, group):
    """The second matmul's weight comes from the first one."""
    rows = gather(x, group)
    first = rows @ w
    return rows @ torch.softmax(first, 0)


def contracted_with_itself(rows):
    """A gathered tensor is contracted with a function of it."""
    return rows.t() @ rows.cos()


def unused(x, group):
    gather(x, group)
    return x.cos()


def both(product, group):
    return scatter(product, group), product


def in_place(x, w, group):
    """The weight has other numbers in the second matmul."""
    w = w.clone()
    rows = gather(x, group)
    first = rows @ w
    w.mul_(2)
    return first, rows @ w


# For each reason: a function that has it, and the shapes of its tensors.
KEPT = {
    Reason.NO_MATMUL_AFTER: (lambda g: lambda x: gather(x, g).cos(), [(4, 8)]),
    Reason.NO_MATMUL_BEFORE: (lambda g: lambda x: scatter(x.cos(), g), [(4, 8)]),
    Reason.RESULT_UNUSED: (lambda g: lambda x: unused(x, g), [(4, 8)]),
    Reason.GATHERED_ROWS_CONTRACTED: (lambda g: lambda x: contracted_with_itself(gather(x, g)), [(4, 8)]),
    Reason.ADDED_BEFORE_SUM: (lambda g: lambda x, w, b: scatter(x @ w + b, g), [(4, 2, 8), (8, 5), (4, 1, 5)]),
    Reason.GATHERED_RIGHT: (lambda g: lambda x, w: x @ gather(w, g), [(4, 8), (4, 5)]),
    Reason.CHANGED_BEFORE_SUM: (lambda g: lambda x, w: scatter(torch.atan(x @ w), g), [(4, 8), (8, 5)]),
    Reason.CHANGED_IN_PLACE: (lambda g: lambda x, w: in_place(x, w, g), [(4, 8), (8, 5)]),
    Reason.RESULT_ALSO_USED: (lambda g: lambda x, w: both(x @ w, g), [(4, 8), (8, 5)]),
    Reason.ROWS_NOT_DIVISIBLE: (lambda g: lambda x, w: reduce(x @ w, g), [(3, 8), (8, 5)]),
    Reason.LAYOUT: (lambda g: lambda x, w: gather(x, g).transpose(0, 1).reshape(-1, 8) @ w, [(4, 3, 8), (8, 5)]),
    Reason.BATCHED_MATMUL: (lambda g: lambda x, w: torch.bmm(gather(x, g), w), [(2, 3, 8), (4, 8, 5)]),
    Reason.OP_NOT_IN_LANGUAGE: (lambda g: lambda x, w, b: torch.addmm(b, gather(x, g), w, alpha=2), [(4, 8), (8, 5), (5,)]),
    Reason.REDUCTION_KIND: (lambda g: lambda x, w: scatter(x @ w, g, "max"), [(4, 8), (8, 5)]),
    Reason.COLLECTIVE_KIND: (
        lambda g: lambda x: c10d.wait_tensor(c10d.broadcast(x, 0, g)),
        [(4, 8)],
    ),
    Reason.ONE_RANK: (lambda g: lambda x, w: gather(x, g, ranks=1) @ w, [(4, 8), (8, 5)]),
    Reason.NOT_CONVEX: (lambda g: lambda x, w: dependent(x, w, g), [(4, 8), (8, 8)]),
}


@pytest.mark.parametrize("reason", KEPT, ids=lambda reason: reason.name)
def test_reasons_of_graphs(group, reason):
    function, shapes = KEPT[reason]
    before = traced(function(group), *shapes)
    module, report = overlapped(function(group), *shapes)
    assert [line.reason for line in report.lines] == [reason], str(report)
    assert f"kept: {reason.value}" in " ".join(str(report).split())
    assert op_names(module) == op_names(before)


def product(group):
    return lambda x, w: gather(x, group) @ w


# Reasons that depend on more than the graph: how they come about.
def with_integers(group):
    return overlapped(product(group), (4, 8), (8, 5), dtype=torch.int64)[1]


def with_scaled_matmul(group):
    """The scales of the gathered rows are not gathered with them."""
    return overlapped_scaled(lambda x, s, w, t: scaled(gather(x, group), w.t(), s, t), (32, 1))[1]


def with_symbols(group):
    """Rows of which data decide how many there are."""
    return overlapped(lambda x, w: gather(x[x[:, 0] > 0], group) @ w, (4, 8), (8, 5), mode="symbolic")[1]


def with_an_unknown_group(group):
    module = traced(lambda x, w: reduce(x @ w, group), (4, 8), (8, 5))
    node = next(node for node in module.graph.nodes if "all_reduce" in str(node.target))
    node.args = (*node.args[:2], "nowhere")
    return report_of(hir.Overlap(choose="always"), module)


def with_another_group(group):
    """The sum over another group has the matmul; its own line is fused."""
    other = dist.new_group([0, 1]).group_name
    report = overlapped(lambda x, w: reduce(gather(x, group) @ w, other), (4, 8), (8, 5))[1]
    (kept,) = report.kept
    assert report.fused[0].collective == "all_reduce" and kept.detail == report.fused[0].region, str(report)
    report.lines.remove(report.fused[0])
    return report


def with_settings(**settings):
    return lambda group: report_of(hir.Overlap(**settings), traced(product(group), (4, 8), (8, 5)))


def report_of(overlap, module):
    overlap(module)
    return overlap.report()


SETTINGS = {
    Reason.ELEMENT_TYPE: with_integers,
    Reason.SCALED_MATMUL: with_scaled_matmul,
    Reason.SYMBOLIC_SHAPE: with_symbols,
    Reason.UNKNOWN_GROUP: with_an_unknown_group,
    Reason.MATMUL_ELSEWHERE: with_another_group,
    Reason.COLLECTIVE_REMAINS: with_settings(choose="always", passes="host-ir-lower"),
    Reason.NOT_PROVED: with_settings(choose="always", passes="resize-mesh{devices=3}"),
    Reason.CHOICE_NEVER: with_settings(choose="never"),
    Reason.CANNOT_MEASURE: with_settings(choose="measure"),
}
# By test_measure.py, test_overlap_errors.py, test_experts.py and test_topology.py.
ELSEWHERE = {Reason.NO_GAIN, Reason.RANKS_DISAGREE, Reason.RUN_FAILED, Reason.INTERNAL_ERROR}
ELSEWHERE |= {Reason.NO_EXPERTS, Reason.EXPERTS_APART, Reason.SIZES_BY_DATA, Reason.UNEQUAL_PARTS}
ELSEWHERE |= {Reason.SEVERAL_HOSTS, Reason.NO_PEER_ACCESS}


@pytest.mark.parametrize("reason", SETTINGS, ids=lambda reason: reason.name)
def test_reasons_of_settings(group, reason):
    report = SETTINGS[reason](group)
    assert [line.reason for line in report.lines] == [reason], str(report)


def test_every_reason_has_a_test():
    assert {*KEPT, *SETTINGS, *ELSEWHERE} == set(Reason)
    assert not KEPT.keys() & SETTINGS.keys()


def test_without_a_process_group():
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    rows = graph.call_function(c10d.wait_tensor.default, (graph.call_function(c10d.all_gather_into_tensor.default, (x, 2, "0")),))
    graph.output(graph.call_function(torch.ops.aten.mm.default, (rows, w)))
    for node, shape in zip(graph.nodes, [(4, 8), (8, 5), (8, 8), (8, 8), (8, 5)]):
        node.meta["val"] = torch.empty(shape, device="meta")
    for choose, reason in (("always", None), ("measure", Reason.CANNOT_MEASURE)):
        other = torch.fx.Graph()
        other.output(other.graph_copy(graph, {}))
        overlap = hir.Overlap(choose=choose)
        overlap(other)
        assert [line.reason for line in overlap.report().lines] == [reason]


REPORT = """\
graph 0: 14 nodes of float32[4, 8], float32[8, 6], float32[6, 8]
collective          where               verdict                                        serial ms  measured ms
all_gather (0)      test_overlap.py:N   fused: region_N
reduce_scatter (0)  test_overlap.py:N   fused: region_N
all_reduce (0)      test_overlap.py:N   kept: no matmul makes what is summed: cos
3 collectives: 2 fused, 1 kept
test_overlap.py is FOLDER/test_overlap.py"""


def model_of_report(x, w1, w2):
    group = dist.group.WORLD
    rows = fc.all_gather_tensor(x, 0, group)
    y = fc.reduce_scatter_tensor(torch.relu(rows @ w1) @ w2, "sum", 0, group)
    return fc.all_reduce(y.cos(), "sum", group)


def test_the_report_is_a_table(group):
    overlap = hir.Overlap(choose="always")
    graphs = []

    def backend(module, inputs):
        from torch._functorch.aot_autograd import aot_module_simplified

        def change(graph, _inputs):
            overlap(graph)
            graphs.append(graph)
            return graph

        return aot_module_simplified(module, inputs, fw_compiler=change)

    torch._dynamo.reset()
    torch.compile(model_of_report, backend=backend, fullgraph=True)(torch.randn(4, 8), torch.randn(8, 6), torch.randn(6, 8))
    found = re.sub(r"region_[0-9a-f]{8}", "region_N", re.sub(r"(\.py:)\d+", r"\1N", str(overlap.report())))
    found = found.replace(str(Path(__file__).parent), "FOLDER")
    assert re.sub(" +", " ", found) == re.sub(" +", " ", REPORT), found
    assert len(graphs) == 1
    told = json.loads(overlap.report().to_json())
    assert told["graphs"] == [{"number": 0, "nodes": 14, "inputs": ["float32[4, 8]", "float32[8, 6]", "float32[6, 8]"]}]
    assert [line["reason"] for line in told["collectives"]] == [None, None, "NO_MATMUL_BEFORE"]
    assert all(re.fullmatch(re.escape(__file__) + r":\d+", line["path"]) for line in told["collectives"])
    page = overlap.report().to_html()
    assert page.count("<tr>") == 4 and page.count('class="fused"') == 2 and __file__ in page
    assert overlap.report()._repr_html_() == page


def test_long_verdicts_go_on_in_the_next_line(group):
    _, report = overlapped(lambda x: gather(x, group).cos(), (4, 8))
    report.lines[0].detail = "word " * 40 + "<b>"
    assert max(map(len, str(report).splitlines())) < 132 and str(report).count("word") == 40
    assert "&lt;b&gt;" in report.to_html() and "<b>" not in report.to_html()


def test_a_region_is_explained_beside_torchs_nodes(group):
    overlap = hir.Overlap(choose="always")
    overlap(traced(lambda x, w: torch.relu(gather(x, group) @ w), (4, 12), (12, 6)))
    (name,) = overlap.report().programs
    text = overlap.explain(name)
    assert text.startswith(f"{name} on 2 ranks\n") and "\nafter overlap-lower:\n" in text
    beside = next(line for line in text.splitlines() if "aten.mm(" in line)
    assert "  |  " in beside and "G = broadcast(" in text.partition("after")[0] and "for hop in 2" in text.partition("after")[2]
    with pytest.raises(hostir.HostIrError, match="no region of a graph") as caught:
        overlap.explain("region_00000000")
    assert caught.value.code == "H0610" and name in caught.value.notes[0]
    with pytest.raises(hostir.HostIrError, match="no region of a graph"):
        hir.Overlap().explain(name)


def test_the_profiler_has_spans(group):
    from torch.profiler import profile

    module = traced(product(group), (4, 8), (8, 5))
    with profile() as found:
        hir.Overlap(choose="always")(module)
    assert "hostir::overlap" in {event.name for event in found.events()}


def test_programs_are_saved_and_put_back(group, tmp_path):
    function, shapes = (lambda x, w: (gather(x, group) @ w).tanh()), [(4, 16), (16, 7)]
    overlap = hir.Overlap(choose="always")
    overlap(traced(function, *shapes))
    paths = overlap.save(tmp_path)
    (name,) = overlap.report().programs
    assert [path.name for path in paths] == [f"{name}.hir", f"{name}.lowered.hir"]
    plain, lowered = (hostir.load(path) for path in paths)
    assert "// all_gather at " in paths[0].read_text()
    assert str(plain.run_passes("overlap-lower,strip-comments")) == str(lowered.run_passes("strip-comments"))
    # The user's program: torch's order, one collective and one matmul.
    serial = tmp_path / "serial.hir"
    serial.write_text(str(plain.run_passes("host-ir-lower")))
    hir.override(name, serial)
    (made,) = overlap.report().ops_of(name)
    assert "allgather(" in str(made.op.program)
    module, report = overlapped(function, *shapes)
    assert report.fused and report.programs[name].is_override
    assert any(call.startswith(f"hostir.{name}") for call in op_names(module))
    # Taken back: what runs is the region's own again, in the graphs that there are, too.
    hir.override(name, None)
    assert not report.programs[name].is_override
    assert "allgather(" not in str(report.programs[name].lowered) and "allgather(" not in str(made.op.program)
    hir.override(name, None)
    assert overlapped(function, *shapes)[1].fused


def test_an_override_of_no_region_is_reported(group, monkeypatch):
    monkeypatch.setattr("hostir.torch._overlap.programs._OVERRIDES", {})
    function, shapes = (lambda x, w: (gather(x, group) @ w).cosh()), [(4, 18), (18, 7)]
    _, report = overlapped(function, *shapes)
    (name,) = report.programs
    assert "override" not in str(report)
    hir.override(name, report.programs[name].lowered)
    hir.override("region_00000000", report.programs[name].lowered)
    assert str(report).endswith("\noverride of region_00000000: no graph has this region so far")
    hir.override("region_00000000", None)
    assert "override" not in str(report)


def test_an_override_is_proved(group, tmp_path):
    function, shapes = (lambda x, w: (gather(x, group) @ w).sinh()), [(4, 18), (18, 7)]
    _, report = overlapped(function, *shapes)
    (name,) = report.programs
    lowered = str(report.programs[name].lowered)
    broken = lowered.replace("      wait h0\n", "")
    assert broken != lowered
    with pytest.raises(hostir.HostIrError) as caught:
        hir.override(name, hostir.parse(broken))
    assert caught.value.code in ("H0701", "H0702", "H0506"), str(caught.value)
    with pytest.raises(hostir.HostIrError, match="other inputs or outputs") as caught:
        hir.override(name, hostir.parse("hir 2\nmesh d = 0..2\n\nf(x: f32[x:2, 4]) -> (y: f32[x:2, 4]) on d:\n  y = relu(x)\n"))
    assert caught.value.code == "H0631"
    assert str(report.programs[name].lowered) == lowered


def test_passes_that_lower_nothing(group):
    """Plain math that comes out of them is told, before a rank meets it."""
    report = with_settings(choose="always", passes="dce")(group)
    (line,) = report.lines
    assert line.reason is Reason.NOT_PROVED and line.detail.startswith("H0614: "), str(report)


def test_an_override_that_no_rank_runs(group):
    _, report = overlapped(lambda x, w: (gather(x, group) @ w).asinh(), (4, 20), (20, 7))
    ((name, made),) = report.programs.items()
    with pytest.raises(hostir.HostIrError, match="plain math on whole tensors") as caught:
        hir.override(name, made.plain)
    assert caught.value.code == "H0614" and not made.is_override


def test_the_pass_is_inductors():
    from torch._inductor.custom_graph_pass import CustomGraphPass

    assert isinstance(hir.Overlap(), CustomGraphPass)
    assert hir.Overlap().uuid() is None, "nothing is kept in tests"


def test_names_that_the_package_has_not():
    with pytest.raises(AttributeError, match="no attribute 'Ovrelap'"):
        hir.Ovrelap  # noqa: B018


@pytest.mark.parametrize("world", [2, 4])
def test_a_block_on_ranks(world):
    start_ranks(ranks.llama_block, world)


@pytest.mark.parametrize("world", [2, 4])
def test_gradients_of_weights_on_ranks(world):
    start_ranks(ranks.weight_gradients, world)


@pytest.mark.parametrize(
    "work",
    [
        ranks.block_of_sixteen_bits,
        ranks.a_tensor_that_is_two_arguments,
        ranks.weights_without_elements,
        ranks.one_row_of_each_rank,
        ranks.functions,
        ranks.sums_of_products,
        ranks.gradients_of_summed_rows,
        ranks.narrow_products,
        ranks.joined_factors,
        ranks.rows_without_batch,
        ranks.slots,
        ranks.slots_in_autocast,
        ranks.slots_with_biases,
        ranks.slots_without_elements,
        ranks.equal_sums_of_gathered_rows,
        ranks.groups_of_checks,
        ranks.torchtitan_functions,
        ranks.scaled_layers,
        ranks.slots_of_many_shapes,
        ranks.styles,
    ],
)
def test_two_ranks(work):
    start_ranks(work, 2)


def test_several_waits_for_a_collective_are_one(group):
    """A compiler merges gathers of the same rows, but not what waits for them, and a checkpoint saves the collective itself."""

    def layer(x, a, b, c):
        gathered = c10d.all_gather_into_tensor(x, 2, group)
        one, two = c10d.wait_tensor(gathered), c10d.wait_tensor(gathered)
        total = c10d.reduce_scatter_tensor((torch.relu(one @ a) * (two @ b)) @ c, "sum", 2, group)
        return c10d.wait_tensor(total), total

    module, report = overlapped(layer, (4, 8), (8, 6), (8, 6), (6, 5))
    assert not report.kept and len({line.region for line in report.lines}) == 1, str(report)
    assert not any("c10d" in name for name in op_names(module))
    (program,) = report.programs.values()
    assert "wait_tensor" in report.ops_of(program.name)[0].op.body.__closure__[0].cell_contents.code
    output = module.graph.output_node().args[0]
    assert output[0] is output[1]


def test_a_block_that_is_not_taken_is_one_region(group):
    """`choose="never"` says what would be fused into what."""

    def block(x, a, b):
        return scatter(torch.relu(gather(x, group) @ a) @ b, group)

    named = []
    for choose in ("never", "always"):
        overlap = hir.Overlap(choose=choose)
        overlap(traced(block, (4, 8), (8, 6), (6, 8)))
        named.append([line.region or line.detail for line in overlap.report().lines])
    assert named[0] == named[1] and len(set(named[0])) == 1, named


def test_layers_share_an_op(group):
    """The same nodes under other names, as in each layer of a model, are the same op."""

    def layers(x, a, b):
        for _ in range(3):
            x = scatter(torch.relu(gather(x, group) @ a) @ b, group)
        return x

    # Sizes that no other test has: programs are kept for the process.
    _, report = overlapped(layers, (14, 22), (22, 26), (26, 22))
    assert len(report.fused) == 6 and len(report.programs) == 1
    (program,) = report.programs.values()
    assert len(report.ops_of(program.name)) == 1, [made.op.name for made in report.ops.values()]


def test_functions_between_a_product_and_the_sum(group):
    """A bias, a scale, a conversion and a tensor that is added: each hop computes them of its part."""

    def layer(x, w, b, r):
        y = (x.to(torch.bfloat16) @ w.to(torch.bfloat16)).float()
        return scatter((y + b / 2) * 0.5 + r, group)

    _, report = overlapped(layer, (8, 6), (6, 4), (4,), (8, 4))
    assert not report.kept, str(report)
    (program,) = report.programs.values()
    lines = str(program.plain).splitlines()
    wanted = ["V1 = f32(P1)", "V2 = V1 + B1", "V3 = V2 * f32(0.5)", "V4 = V3 + A2"]
    assert [line.strip() for line in lines if line.startswith("  V")] == wanted, program.plain
    lowered = str(program.lowered)
    assert "reduce_scatter(" not in lowered and "for hop in" in lowered, lowered


def test_two_products_of_which_functions_are_added(group):
    """As autocast converts the gradients of queries, keys and values, one by one; `linear` with a bias; and an all-reduce."""

    def gradients(a, b, v, w):
        return reduce((a @ v).double() + (b @ w).double(), group)

    _, report = overlapped(gradients, (8, 6), (8, 5), (6, 4), (5, 4))
    assert not report.kept, str(report)
    for added in ((4,), (8, 4)):
        _, report = overlapped(lambda b, x, w: scatter(torch.addmm(b, x, w), group), added, (8, 6), (6, 4))
        assert not report.kept, str(report)


def test_functions_of_gathered_rows_alone_are_computed_before_the_gather(group):
    """Autocast converts gathered rows, once for each linear layer; each rank converts its own ones, and half the bytes are sent."""

    def layers(x, w, v):
        rows = gather(x, group)
        scaled = [rows.to(torch.bfloat16) * 0.5 for _ in range(2)]
        return scaled[0] @ w.to(torch.bfloat16), scaled[1].view(2, 4, 8) @ v.to(torch.bfloat16)

    module, report = overlapped(layers, (4, 8), (8, 6), (8, 5))
    assert not report.kept, str(report)
    (program,) = report.programs.values()
    lines = str(program.plain).splitlines()
    assert "  C1 = bf16(X1)" in lines and "  C2 = C1 * f32(0.5)" in lines, program.plain
    assert "  G = broadcast(C2, flags=[true, false, false, false])" in lines, program.plain
    assert not any("c10d" in name for name in op_names(module))


def test_functions_of_gathered_rows_beside_other_readers(group):
    """Rows that something else reads, too, or that two functions read, arrive as they are."""
    _, report = overlapped(lambda x, w: (gather(x, group).relu() @ w, gather(x, group) + 1), (4, 8), (8, 6))
    assert [line.is_fused for line in report.lines] == [True, False], str(report)

    def both(x, w):
        rows = gather(x, group)
        return rows.relu() @ w, rows + 1

    _, report = overlapped(both, (4, 8), (8, 6))
    assert [line.is_fused for line in report.lines] == [False], str(report)
    # A gain may be another one on each rank.
    for shape in ((8, 1), (8,), ()):
        of_rows = overlapped(lambda x, w, s: (gather(x, group) * s) @ w, (4, 8), (8, 6), shape)[1]
        assert [line.is_fused for line in of_rows.lines] == [False], str(of_rows)


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"choose": "sometimes"}, "H0610", "`choose` is 'sometimes'"),
        ({"min_gain": "always"}, "H0610", "`min_gain` is 'always'"),
        ({"min_gain": -1}, "H0610", "`min_gain` is -1"),
        ({"rounds": 0}, "H0610", "`rounds` is 0"),
        ({"rounds": 2.5}, "H0610", "`rounds` is 2.5"),
        ({"timeout": -1}, "H0610", "`timeout` is -1"),
        ({"tuning": "slow"}, "H0610", "`tuning` is 'slow'"),
        ({"reuse_times": 3}, "H0610", "`reuse_times` is 3"),
        ({"passes": 5}, "H0610", "`passes` is 5"),
        ({"passes": "nonsense"}, "H0301", "nonsense"),
        ({"passes": "overlap-lower{nonsense=1}"}, "H0303", "nonsense"),
    ],
)
def test_wrong_settings(settings, code, message):
    with pytest.raises(hostir.HostIrError, match=message) as caught:
        hir.Overlap(**settings)
    assert caught.value.code == code


def test_copies_of_a_pass(group):
    overlap = hir.Overlap(choose="always", min_gain=1.5, tuning="quick")
    overlap(traced(product(group), (4, 8), (8, 5)))
    assert copy.deepcopy(overlap) is overlap and copy.copy(overlap) is overlap
    other = pickle.loads(pickle.dumps(overlap))
    assert (other.choose, other.min_gain, other.tuning) == ("always", 1.5, "quick") and not other.report().lines


def test_programs_of_another_tuning_are_other_ops(group):
    names = []
    for tuning in ("sustained", "quick", "kernels"):
        overlap = hir.Overlap(choose="always", tuning=tuning)
        overlap(traced(product(group), (4, 8), (8, 5)))
        (made,) = overlap.report().ops.values()
        names.append(made.op.name)
        assert made.op.tuning == tuning
    assert len(set(names)) == 3


def test_it_is_no_backend():
    torch._dynamo.reset()
    with pytest.raises(Exception, match="H0610.*is no backend of `torch.compile`, but a pass"):
        torch.compile(torch.relu, backend=hir.Overlap())(torch.ones(2))


def test_rows_in_two_orders_stay_apart(group):
    """Products of gathered rows and of the same rows in another order are multiplied: no program has both."""

    def mixed(x, w, v, u):
        rows = gather(x, group).view(2, 2, 8)
        turned = torch.bmm(rows.permute(1, 0, 2).clone(), u.unsqueeze(0).expand(2, 8, 6))
        product = torch.bmm(rows, w.unsqueeze(0).expand(2, 8, 6))
        return scatter(((turned * product) * product).view(4, 6) @ v, group)

    module, report = overlapped(mixed, (2, 8), (8, 6), (6, 5), (8, 6))
    assert sum("mul" in name for name in op_names(module)) == 2, str(report)
    assert not any(" * " in str(program.plain) for program in report.programs.values())


def test_other_collectives_keep_their_order(group):
    """Where another group's ranks keep this region, their collectives come in the order of the graph."""

    def two_groups(x, w, v, g):
        rows = gather(x, group)
        first = reduce((rows @ w).sum(0), group)
        second = reduce(g, group)
        return first, rows @ (v * second)

    shapes = [(4, 8), (8, 6), (8, 6), (6,)]
    before = [str(node.args[0]) for node in traced(two_groups, *shapes).graph.nodes if "all_reduce" in str(node.target)]
    module, report = overlapped(two_groups, *shapes)
    after = [str(node.args[0]) for node in module.graph.nodes if "all_reduce" in str(node.target)]
    assert len(before) == 2 and after == before, module.graph
    assert report.lines[0].reason is Reason.NOT_CONVEX, str(report)

    def late(x, w, g):
        """The gather's result is read after collectives that do not need it."""
        rows = gather(x, group)
        return reduce(g * 2, group), reduce((rows @ w).sum(0), group), reduce(g, group)

    module, report = overlapped(late, (4, 8), (8, 6), (6,))
    found = [node.args[0] for node in module.graph.nodes if "all_reduce" in str(node.target)]
    assert report.lines[0].is_fused and [str(node.name)[:3] for node in found] == ["mul", "sum", "g_1"], module.graph


def test_what_is_no_graph_is_refused():
    for wrong in (3, torch.nn.Linear(2, 2), None):
        with pytest.raises(hostir.HostIrError, match=f"not a `{type(wrong).__name__}`") as caught:
            hir.Overlap()(wrong)
        assert caught.value.code == "H0610" and "post_grad_custom_post_pass" in str(caught.value)
