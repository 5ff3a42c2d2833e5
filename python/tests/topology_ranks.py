"""Ranks of the tests of places: each has a stand-in for its host and its GPU, and the tensors stay those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc

import hostir
import hostir.torch as hir
from hostir.torch import Reason
from hostir.torch._overlap import topology
from hostir.torch._overlap.topology import Place
from measure_ranks import clock, graph_of

SHAPES = [(4, 8), (8, 6), (8, 4)]
# Times for which each program is taken.
FAST = {"choose": "measure", "rounds": 6, "min_gain": 1.5}

# The gather and the product between two ranks, with messages of NCCL.
EXCHANGE = """  G: f32[2, 4, 8] = alloc
  P1 = alloc
  G[rank] = Set(X1[own])
  wait { send(G[rank], to=(rank + 1) % 2); recv(G[(rank + 1) % 2], from=(rank + 1) % 2) }
  for at in 2:
    P1[own, at] = matmul(G[at], W1[own, 0])
"""


def layer(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> Any:
    """A gather and a sum, which are a region each."""
    return fc.all_gather_tensor(x, 0, dist.group.WORLD) @ w, fc.reduce_scatter_tensor(x @ v, "sum", 0, dist.group.WORLD)


@contextmanager
def places(found: Sequence[Place]) -> Iterator[None]:
    """The places of the ranks."""
    topology._announced.clear()
    with mock.patch.object(topology, "own_place", return_value=found[dist.get_rank()]):
        yield


def lines_of(found: Sequence[Place], **settings: Any) -> list[tuple[Reason | None, str]]:
    """The reason and the detail of each collective of the layer, the same on all ranks. Its numbers are torch's."""
    module, x = graph_of(layer, SHAPES), torch.randn(4, 8) + dist.get_rank()
    overlap = hir.Overlap(**settings)
    with places(found), clock(lambda is_program: 1.0 if is_program else 2.0):
        overlap(module)
    lines = [(line.reason, line.detail) for line in overlap.report().lines]
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, lines)
    assert all(one == lines for one in told), told
    given = [x, *(torch.randn(*shape) for shape in SHAPES[1:])]
    for made, wanted in zip(module(*given), layer(*given), strict=True):
        torch.testing.assert_close(made, wanted)
    return lines


def kept_by(work: Callable[..., list[tuple[Reason | None, str]]], found: Sequence[Place]) -> set[tuple[Reason | None, str]]:
    """The reasons of all collectives, whatever `choose` is."""
    return {line for settings in ({"choose": "always"}, FAST) for line in work(found, **settings)}


def several_hosts(group: Any) -> None:
    """A group of two hosts keeps torch's collectives, with the hosts in the report."""
    found = [Place(f"node{rank // 2}/{rank // 2}") for rank in range(4)]
    assert kept_by(lines_of, found) == {(Reason.SEVERAL_HOSTS, "2 ranks on node0, 2 ranks on node1")}


def hosts_of_one_name(group: Any) -> None:
    """Hosts are told apart by more than their names."""
    found = [Place(f"localhost/{rank}") for rank in range(2)]
    assert kept_by(lines_of, found) == {(Reason.SEVERAL_HOSTS, "1 rank on localhost, 1 rank on localhost")}


def one_host(group: Any) -> None:
    """Ranks of one host are fused, also where they share a GPU."""
    for found in ([Place("node/1", f"gpu{rank}") for rank in range(2)], [Place("node/1", "gpu")] * 2):
        assert kept_by(lines_of, found) == {(None, "")}


def no_peer_access(group: Any) -> None:
    """One GPU that another cannot access is enough."""
    found = [Place("node/1", "gpu0"), Place("node/1", "gpu1", ("gpu7", "gpu0"))]
    assert kept_by(lines_of, found) == {(Reason.NO_PEER_ACCESS, "that of rank 1 cannot access that of rank 0")}


def closed_gpus_of_others(group: Any) -> None:
    """GPUs of no rank of the group do not matter."""
    found = [Place("node/1", f"gpu{rank}", ("gpu7",)) for rank in range(2)]
    assert kept_by(lines_of, found) == {(None, "")}


def messages_of_nccl(group: Any) -> None:
    """A program of the user's whose messages are NCCL's is taken between hosts."""
    found = [Place(f"node{rank}/1") for rank in range(2)]
    overlap = hir.Overlap(choose="never")
    overlap(graph_of())
    ((name, program),) = overlap.report().programs.items()
    assert "via=CUDA" in str(program.lowered)
    head = str(program.plain).partition("  G =")[0]
    for own, reason in ((None, Reason.SEVERAL_HOSTS), (hostir.parse(head + EXCHANGE), None)):
        hir.override(name, own)
        overlap = hir.Overlap(choose="always")
        with places(found):
            overlap(graph_of())
        assert [line.reason for line in overlap.report().lines] == [reason], str(overlap.report())
    hir.override(name, None)


def subgroups(group: Any) -> None:
    """Each host of a group has a group of its own, whose collectives are fused; those of the whole group are not."""
    found = [Place(f"node{rank // 2}/1") for rank in range(4)]
    inner = [dist.new_group([0, 1]), dist.new_group([2, 3])][dist.get_rank() // 2]

    def both(x: torch.Tensor, w: torch.Tensor) -> Any:
        return fc.all_gather_tensor(x, 0, inner) @ w, fc.all_gather_tensor(x, 0, dist.group.WORLD) @ w

    overlap = hir.Overlap(choose="always")
    with places(found):
        overlap(graph_of(both, SHAPES[:2]))
    assert [line.reason for line in overlap.report().lines] == [None, Reason.SEVERAL_HOSTS], str(overlap.report())
