"""Regions of experts: exchanges between all ranks, and batched or grouped products between them."""

import json

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

import expert_ranks as ranks  # noqa: E402
import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
from expert_models import apart, batched, by_expert, by_rank, exchanged, grouped_takes_floats, layer_of  # noqa: E402
from hostir.torch import Reason  # noqa: E402
from rank_pool import start_ranks  # noqa: E402

needs_grouped_floats = pytest.mark.skipif(not grouped_takes_floats(), reason="torch 2.9 has grouped matmuls of bfloat16 alone")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def group(fake_group):
    return fake_group


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("work", [ranks.layers, ranks.gradients, ranks.sizes])
def test_experts_have_torchs_numbers(work, world):
    start_ranks(work, world)


@pytest.mark.parametrize("work", [ranks.sixteen_bits, ranks.experts_apart, ranks.one_exchange])
def test_two_ranks(work):
    start_ranks(work, 2)


def overlapped(function, *shapes, mode="fake"):
    given = [torch.randn(shape) if isinstance(shape, tuple) else shape for shape in shapes]
    with torch.no_grad():
        module = make_fx(function, tracing_mode=mode)(*given)
        overlap = hir.Overlap(choose="always")
        overlap(module)
    return overlap


def test_the_program_in_parts(group):
    """A part arrives while the one before is multiplied, and returns when it is."""
    overlap = overlapped(layer_of(batched), (4, 3, 8), (2, 8, 6), (2, 6, 8))
    (program,) = overlap.report().programs.values()
    assert (
        str(program.lowered).partition("for hop")[2]
        == """ in 2 on streams:
    if hop == 0:
      P1[(rank + hop) % 2] = matmul(X1[own, rank], W1[0, own])
      V1[(rank + hop) % 2] = silu(P1[(rank + hop) % 2])
      P2[(rank + hop) % 2] = matmul(V1[(rank + hop) % 2], W2[0, own])
      Y1[own, rank] = Set(P2[(rank + hop) % 2])
    else:
      h0 = recv(G1.1[(rank + hop) % 2], from=(rank + hop) % 2, via=CUDA, protocol=put)
      stream streams:
        sync hop % streams
        h1 = send(X1[own, (rank + 2 - hop) % 2], to=(rank + 2 - hop) % 2, via=CUDA, protocol=put)
      wait h0
      P1[(rank + hop) % 2] = matmul(G1.1[(rank + hop) % 2], W1[0, own])
      V1[(rank + hop) % 2] = silu(P1[(rank + hop) % 2])
      P2[(rank + hop) % 2] = matmul(V1[(rank + hop) % 2], W2[0, own])
      h2 = send(P2[(rank + hop) % 2], to=(rank + hop) % 2, via=CUDA)
      h3 = recv(Y1[own, (rank + 2 - hop) % 2], from=(rank + 2 - hop) % 2, via=CUDA)
      wait h2
      wait h3
      wait h1
"""
    ), str(program.lowered)
    told = overlap.explain(program.name)
    assert "all_to_all_single" in told and "after alltoall-matmul:" in told
    assert json.dumps("all_to_all") in overlap.report().to_json() and "all_to_all" in overlap.report().to_html()


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_the_program_is_its_plain_math(group, count):
    """On so many ranks, bit for bit, with numbers that float holds: a loop over experts is the reference."""
    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    overlap = overlapped(layer_of(batched), (2 * count, 3, 8), (2, 8, 6), (2, 6, 8))
    (program,) = overlap.report().programs.values()
    generator = torch.Generator().manual_seed(0)
    shapes = {"X1": (count, count, 2, 3, 8), "W1": (1, count, 2, 8, 6), "W2": (1, count, 2, 6, 8)}
    given = {name: torch.randint(-3, 4, shape, generator=generator).double() for name, shape in shapes.items()}
    text = str(program.lowered).replace("silu", "relu")
    found = hostir.parse(text).run({name: value.float() for name, value in given.items()}, devices=count)["Y1"]
    hidden = torch.einsum("sdech,dehf->sdecf", given["X1"], given["W1"][0]).relu()
    wanted = torch.einsum("sdecf,defh->sdech", hidden, given["W2"][0])
    torch.testing.assert_close(torch.from_numpy(found).double(), wanted, rtol=0, atol=0)


def no_experts(x):
    return exchanged(x, dist.group.WORLD).cos()


def by_data(x, w, counts):
    """Each rank sends as many rows as its data say."""
    splits = [count.item() for count in counts]
    return torch.mm(exchanged(x, dist.group.WORLD, splits), w)


def unequal(x, w):
    return torch.mm(exchanged(x, dist.group.WORLD, [1, 3]), w)


def groups_by_data(x, w, ends):
    return torch._grouped_mm(exchanged(x, dist.group.WORLD), w, offs=ends)


def unequal_groups(x, w):
    return torch._grouped_mm(exchanged(x, dist.group.WORLD), w, offs=torch.tensor([1, 4], dtype=torch.int32))


def not_divisible(x, w):
    """Three experts and four rows of a part."""
    return torch.bmm(exchanged(x, dist.group.WORLD).view(2, 4, 3, 8).permute(2, 0, 1, 3).reshape(3, 8, 8), w)


def experts_inside(x, w):
    """The rows of an expert do not lie together."""
    return torch.bmm(exchanged(x, dist.group.WORLD).view(2, 3, 2, 8).permute(2, 0, 1, 3).reshape(2, 6, 8), w)


ENDS = torch.tensor([1, 4], dtype=torch.int32)
KEPT = {
    "no experts": (no_experts, Reason.NO_EXPERTS, "placeholder, output", [(4, 8)]),
    "experts apart": (layer_of(apart), Reason.EXPERTS_APART, "mm", [(4, 3, 8), (2, 8, 6), (2, 6, 8)]),
    "by data": (by_data, Reason.SIZES_BY_DATA, "the parts of all_to_all_single", [(4, 8), (8, 6), torch.tensor([2, 2])]),
    "unequal": (unequal, Reason.UNEQUAL_PARTS, "parts of 1, 3 rows", [(4, 8), (8, 6)]),
    "groups by data": (groups_by_data, Reason.SIZES_BY_DATA, "the rows of each expert", [(4, 8), (2, 8, 8), ENDS]),
    "unequal groups": (unequal_groups, Reason.UNEQUAL_PARTS, "groups of other sizes", [(4, 8), (2, 8, 8)]),
    "experts inside": (experts_inside, Reason.LAYOUT, "", [(12, 8), (2, 8, 6)]),
    "not divisible": (not_divisible, Reason.LAYOUT, "", [(8, 3, 8), (3, 8, 6)]),
}


@pytest.mark.parametrize("name", KEPT)
def test_reasons(group, name):
    function, reason, detail, shapes = KEPT[name]
    if function in (groups_by_data, unequal_groups) and not grouped_takes_floats():
        pytest.skip("torch 2.9 has grouped matmuls of bfloat16 alone")
    report = overlapped(function, *shapes, mode="symbolic" if function is by_data else "fake").report()
    assert {line.reason for line in report.lines} == {reason}, str(report)
    assert detail in report.lines[0].detail, str(report)


@needs_grouped_floats
def test_groups_that_a_graph_computes_of_numbers(group):
    """Ends of groups may be any computation of no input."""

    def layer(x, w):
        rows = x.shape[0] // 2
        ends = torch.cumsum(torch.full((2,), rows, dtype=torch.int32), 0, dtype=torch.int32)
        received = by_expert(exchanged(x, dist.group.WORLD), 2, 2).flatten(0, 1)
        made = torch._grouped_mm(received, w, offs=ends)
        return exchanged(by_rank(made.view(2, rows, -1), 2), dist.group.WORLD)

    report = overlapped(layer, (4, 8), (2, 8, 8)).report()
    assert not report.kept and len(report.lines) == 2, str(report)
