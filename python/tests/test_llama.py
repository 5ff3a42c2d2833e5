"""`Overlap` on graphs of Llama-shaped models, forward and backward: every collective is fused, or its reason is known.

The groups exist for shapes only; graphs are those that AOTAutograd gives Inductor, with its decompositions.
"""

import dataclasses
import re
import sys
from collections import Counter

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch")
sys.path.append(str(ROOT / "tools"))

import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import parallel as tp  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

import hostir.torch as hir  # noqa: E402
from bench.torch_baselines import llama  # noqa: E402
from hostir.torch import Reason  # noqa: E402
from overlap_models import graphs_through  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

SHAPE = dataclasses.replace(llama.TINY, layers=2, hidden=64, heads=8, kv_heads=8)
TOKENS = 32


@pytest.fixture
def mesh_of():
    """Makes a mesh of so many ranks, once in a test."""

    def make(world):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
        return init_device_mesh("cpu", (world,))

    yield make
    dist.destroy_process_group()


def overlapped(model, given, is_decomposed):
    """The report of a model's graphs, forward and backward."""
    overlap = hir.Overlap(choose="always")
    torch._dynamo.reset()
    backend = graphs_through(overlap, is_decomposed=is_decomposed)
    made = torch.compile(model, backend=backend, fullgraph=True)(given)
    made.float().square().mean().backward()
    return overlap.report()


def kept_reasons(report):
    return Counter((line.collective, line.reason) for line in report.kept)


VARIANTS = {
    "plain": SHAPE,
    "groups of heads": dataclasses.replace(SHAPE, kv_heads=4),
    "biases": dataclasses.replace(SHAPE, has_bias=True),
    "fused weights": dataclasses.replace(SHAPE, is_fused=True),
    "fused weights with biases": dataclasses.replace(SHAPE, is_fused=True, has_bias=True),
}


@pytest.mark.parametrize("is_decomposed", [False, True], ids=["aten", "inductor"])
@pytest.mark.parametrize("name", VARIANTS)
def test_layers_with_sequence_parallelism(mesh_of, name, is_decomposed):
    """Two collectives before and two after each pair of linear layers, forward and backward: all of them are fused."""
    shape = VARIANTS[name]
    mesh = mesh_of(2)
    model = llama.parallelize(llama.Layers(shape), shape, mesh)
    report = overlapped(model, torch.randn(1, TOKENS // 2, shape.hidden), is_decomposed)
    assert len(report.lines) == 8 * shape.layers and not report.kept, str(report)
    # Row-wise linear layers gather the gradient of their result: it makes those of input and weight, of the
    # weight's as one product of all rows.
    gathers = [line for line in report.lines if line.graph == 1 and line.collective == "all_gather"]
    assert len(gathers) == 2 * shape.layers
    for line in gathers:
        program = report.programs[line.region]
        assert re.search(r"  D1 = matmul\(T1, A\d\)\n", str(program.lowered)), str(program.lowered)


@pytest.mark.parametrize("is_decomposed", [False, True], ids=["aten", "inductor"])
def test_sixteen_bits(mesh_of, is_decomposed):
    """Functions of 16-bit numbers are computed in 32, by conversions that the graph or the program has. The MLP is one
    program forward, and one backward."""
    shape = dataclasses.replace(SHAPE, layers=1)
    model = llama.parallelize(llama.Layers(shape).bfloat16(), shape, mesh_of(2))
    report = overlapped(model, torch.randn(1, TOKENS // 2, shape.hidden, dtype=torch.bfloat16), is_decomposed)
    assert len(report.lines) == 8 and not report.kept, str(report)
    forward, backward = ([line.region for line in report.lines if line.graph == graph] for graph in (0, 1))
    assert len(forward) == 4 and forward[2] == forward[3], str(report)
    assert len(backward) == 4 and backward[0] == backward[1], str(report)
    # What the gradient of silu needs is computed there from the factors that the forward pass keeps: nothing comes in as f32.
    head = str(report.programs[backward[0]].plain).partition("->")[0]
    # The partitioner of torch 2.9 keeps what it could compute again.
    kept = (3,) if not torch.__version__.startswith("2.9.") else (4, 5)
    assert "f32" not in head and head.count("A") in kept, head


@pytest.mark.parametrize("has_sequence", [True, False])
def test_layers_in_autocast(mesh_of, has_sequence):
    """Rows are converted between the gather and the products, and their gradients between the products and the sum."""
    shape = dataclasses.replace(SHAPE, layers=1)
    model = llama.parallelize(llama.Layers(shape), shape, mesh_of(2), has_sequence=has_sequence)
    with torch.autocast("cpu", torch.bfloat16):
        report = overlapped(model, torch.randn(1, TOKENS // (2 if has_sequence else 1), shape.hidden), True)
    assert len(report.lines) >= (8 if has_sequence else 4) and not report.kept, str(report)


@pytest.mark.parametrize("world", [4, 8])
@pytest.mark.parametrize("batch", [1, 2])
def test_more_ranks_and_batches(mesh_of, world, batch):
    shape = dataclasses.replace(SHAPE, layers=1, kv_heads=8)
    model = llama.parallelize(llama.Layers(shape), shape, mesh_of(world))
    report = overlapped(model, torch.randn(batch, TOKENS // world, shape.hidden), True)
    assert len(report.lines) == 8 and not report.kept, str(report)


def test_layers_without_sequence_parallelism(mesh_of):
    """Sums over ranks after each pair of linear layers forward, and in front of it backward: there DTensor adds up the
    gradients of each linear layer's input by itself."""
    model = llama.parallelize(llama.Layers(SHAPE), SHAPE, mesh_of(2), has_sequence=False)
    report = overlapped(model, torch.randn(1, TOKENS, SHAPE.hidden), True)
    assert len(report.lines) >= 4 * SHAPE.layers and not report.kept, str(report)


class FeedForward(torch.nn.Module):
    """An MLP with biases."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


def spread_mlp(mesh):
    """An MLP below the module that is compiled, so that the hooks of the styles are in the graph."""
    plan = {"0.up": hir.ColwiseParallel(), "0.down": hir.RowwiseParallel()}
    return tp.parallelize_module(torch.nn.Sequential(FeedForward()), mesh, plan)


def test_biases_of_row_wise_layers(mesh_of):
    """DTensor divides such a bias by the ranks, and adds it before the sum; the program, too, to each part. The package's style
    adds it after the sum.
    """
    mesh, shape = mesh_of(2), dataclasses.replace(SHAPE, layers=1)
    layers = llama.Layers(shape)
    layers.blocks[0].attention.wo = torch.nn.Linear(shape.hidden, shape.hidden)
    layers.blocks[0].mlp.w2 = torch.nn.Linear(shape.ffn, shape.hidden)
    report = overlapped(llama.parallelize(layers, shape, mesh), torch.randn(1, TOKENS // 2, shape.hidden), True)
    assert len(report.lines) == 8 and not report.kept, str(report)
    report = overlapped(spread_mlp(mesh), torch.randn(1, TOKENS // 2, 64, requires_grad=True), True)
    assert len(report.fused) == 4
    # The sum of the bias's gradient, which has the size of the bias.
    assert kept_reasons(report) == {("all_reduce", Reason.NO_MATMUL_BEFORE): 1}, str(report)


@pytest.mark.parametrize("dynamic", [None, False])
def test_sizes_that_change(mesh_of, dynamic):
    """From the second size on, torch compiles for symbolic ones, unless it is told not to. Programs have both."""
    overlap = hir.Overlap(choose="always")
    model = spread_mlp(mesh_of(2))
    compiled = torch.compile(model, backend=graphs_through(overlap), fullgraph=True, dynamic=dynamic)
    torch._dynamo.reset()
    with torch.no_grad():
        for tokens in (16, 24):
            compiled(torch.randn(1, tokens, 64))
    report = overlap.report()
    assert len(report.lines) == 4 and not report.kept, str(report)
    texts = [str(program.plain) for program in report.programs.values()]
    assert sum("f32[x:2, m, 64]" in text for text in texts) == (dynamic is None), texts


def test_a_whole_decoder(mesh_of):
    """The embedding's ends and the logits have no matmul that they could go on beside."""
    shape = dataclasses.replace(SHAPE, vocabulary=128)
    model = llama.parallelize(llama.Decoder(shape), shape, mesh_of(2))
    report = overlapped(model, torch.randint(128, (1, TOKENS)), True)
    assert len(report.fused) == 8 * shape.layers + 2, str(report)
    assert kept_reasons(report) == {
        ("reduce_scatter", Reason.NO_MATMUL_BEFORE): 1,
        ("all_gather", Reason.NO_MATMUL_AFTER): 2,
    }, str(report)
