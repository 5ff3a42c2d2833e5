"""`Overlap` on graphs of symbolic sizes: one program for all, and the conditions under which it counts."""

import functools
import sys

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch")
sys.path.append(str(ROOT / "tools"))

import torch.distributed._functional_collectives as fc  # noqa: E402

import hostir.torch as hir  # noqa: E402
import overlap_random  # noqa: E402
from changing_tokens import run_steps  # noqa: E402
from hostir.torch import Reason  # noqa: E402
from hostir.torch._overlap import overlap as overlap_module  # noqa: E402
from hostir.torch._overlap.times import Times  # noqa: E402
from overlap_models import graphs_through  # noqa: E402
from rank_pool import start_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def group(fake_group):
    return fake_group


def report_of(function, calls, overlap=None):
    """The report after calls with tensors of these shapes."""
    overlap = overlap or hir.Overlap(choose="always")
    compiled = torch.compile(function, backend=graphs_through(overlap), fullgraph=True)
    with torch.no_grad():
        for shapes in calls:
            compiled(*(torch.randn(shape) for shape in shapes))
    return overlap.report()


def lines_of(report, graph):
    return [line for line in report.lines if line.graph == graph]


def test_the_text_has_a_name_for_the_rows_of_a_part(group):
    def block(x, w, v):
        return fc.reduce_scatter_tensor(torch.relu(fc.all_gather_tensor(x, 0, group) @ w) @ v, "sum", 0, group)

    report = report_of(block, [((rows, 8), (8, 6), (6, 4)) for rows in (3, 5, 7, 20)])
    assert len(report.lines) == 4 and not report.kept, str(report)
    name = lines_of(report, 1)[0].region
    text = str(report.programs[name].plain)
    assert (
        text.partition("G = ")[0]
        == f"""hir 2
mesh d = 0..2

{name}(X1: f32[x:2, m, 8], W1: f32[x:2, b.1, 8, 6], W2: f32[x:2, b.1, 6, 4]) -> (Y1: f32[r.2, x:2, m, 4]) on d:
  """
    ), text


def test_batches_and_tokens_change(group):
    """Parts lie along the second axis: their rows are a product of two sizes."""

    def block(x, w, v):
        return fc.reduce_scatter_tensor(torch.relu(fc.all_gather_tensor(x, 1, group) @ w) @ v, "sum", 1, group)

    report = report_of(block, [((batch, rows, 8), (8, 6), (6, 4)) for batch, rows in ((2, 3), (3, 5), (4, 7), (9, 20))])
    assert len(report.lines) == 4 and not report.kept, str(report)


def test_rows_that_do_not_divide_are_compiled_again(group):
    """A guard keeps the graph of even rows; odd ones are torch's, and the report names the size."""

    def layer(x, w):
        return fc.all_reduce(x @ w, "sum", group)

    report = report_of(layer, [((rows, 8), (8, 6)) for rows in (4, 6, 10, 5, 7, 12)])
    assert [line.is_fused for line in report.lines] == [True, True, False], str(report)
    (kept,) = report.kept
    assert kept.reason is Reason.ROWS_NOT_DIVISIBLE and "4294967" not in kept.detail and "rows by 2 ranks" in kept.detail


def test_sizes_that_no_guard_may_exclude(group):
    """An exported program has no guards: only what divides for all sizes is fused."""

    class Layer(torch.nn.Module):
        def __init__(self, is_sum):
            super().__init__()
            self.is_sum = is_sum

        def forward(self, x, w):
            return fc.all_reduce(x @ w, "sum", group) if self.is_sum else fc.all_gather_tensor(x, 0, group) @ w

    for is_sum in (False, True):
        rows = torch.export.Dim("rows", min=2, max=4096)
        given, shapes = (torch.randn(4, 8), torch.randn(8, 6)), {"x": {0: rows}, "w": {}}
        exported = torch.export.export(Layer(is_sum), given, dynamic_shapes=shapes, strict=False)
        overlap = hir.Overlap(choose="always")
        overlap(exported)
        assert [line.is_fused for line in overlap.report().lines] == [not is_sum], str(overlap.report())


class Timed(hir.Overlap):
    """Programs pay from 64 rows on."""

    def __init__(self):
        super().__init__()
        self.measured = []

    def _measure(self, index, candidate, part, program):
        rows = part.written.values.get("m", part.written.arguments[0].form.shape[0])
        self.measured.append(rows)
        gain = 2.0 if rows >= 64 else 0.5
        return Times(serial=gain, measured=1.0, gain=gain, wins=20 if gain > 1 else 0, rounds=20)


def test_a_choice_counts_for_larger_or_for_smaller_sizes(group, monkeypatch):
    monkeypatch.setattr(overlap_module, "is_compiled_by_all", lambda *_: True)
    overlap = Timed()

    def layer(x, w):
        return fc.all_gather_tensor(x, 0, group) @ w

    rows = (8, 9, 12, 15, 100, 90, 5000, 70, 64, 2, 3)
    report = report_of(layer, [((count, 8), (8, 6)) for count in rows], overlap)
    # By itself 8; below 16; from 64 on.
    assert overlap.measured == [8, 9, 100], overlap.measured
    assert [line.is_fused for line in report.lines] == [False, False, True], str(report)


def test_tokens_that_change_with_every_step():
    start_ranks(run_steps, 2)


# `overlap_random.py` is a command, too, for thousands of graphs.
GRAPHS = [(overlap_random.static_graphs, 12), (overlap_random.dynamic_graphs, 3), (overlap_random.graphs_with_gradients, 3)]
GRAPHS.append((overlap_random.graphs_of_experts, 8))


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(("graphs", "count"), GRAPHS)
def test_random_graphs_have_torchs_numbers(graphs, count, world):
    start_ranks(functools.partial(graphs, seeds=range(count)), world)
