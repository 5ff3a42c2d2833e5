"""Groups over several hosts, and GPUs without access to each other's memory: programs that copy are not taken there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import topology_ranks as ranks  # noqa: E402
from hostir.torch._overlap import topology  # noqa: E402
from hostir.torch._overlap.topology import Place  # noqa: E402
from rank_pool import start_ranks  # noqa: E402

TWO = [ranks.hosts_of_one_name, ranks.one_host, ranks.no_peer_access, ranks.closed_gpus_of_others, ranks.messages_of_nccl]


@pytest.mark.parametrize("work", TWO)
def test_two_ranks(work):
    start_ranks(work, 2)


@pytest.mark.parametrize("work", [ranks.several_hosts, ranks.subgroups])
def test_four_ranks(work):
    start_ranks(work, 4)


def test_own_place(monkeypatch):
    """Of three GPUs the second cannot access the third."""
    monkeypatch.setattr(topology, "host_name", lambda: "node/1")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=f"gpu{device}"))
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda own, other: {own, other} != {1, 2})
    assert topology.own_place(torch.device("cuda")) == Place("node/1", "gpu0")
    assert topology.own_place(torch.device("cuda", 1)) == Place("node/1", "gpu1", ("gpu2",))
    assert topology.own_place(torch.device("cpu")) == Place("node/1")


def test_many_hosts_are_counted():
    places = [Place(f"node{rank // 8}/1") for rank in range(64)]
    text = topology._ranks_by_host(places, [f"node{host}/1" for host in range(8)])
    assert text == "8 ranks on node0, 8 ranks on node1, 8 ranks on node2, 8 ranks on node3, and 4 more hosts"
