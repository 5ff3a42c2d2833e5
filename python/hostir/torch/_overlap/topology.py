"""The places of a group's ranks, hosts and GPUs, and the programs that cannot run between them.

Each rank says where it is before its group meets at a region, so that after a meeting all ranks know all places, and come to the
same result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist

from hostir.torch._exchange import host_name
from hostir.torch._group import group_of
from hostir.torch._overlap.measure import is_live_group
from hostir.torch._overlap.programs import RegionProgram
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._torch_internals import group_store

__all__ = ["Place", "announce_place", "check_topology"]

# Messages that are copies within a host, in both notations.
COPIES = re.compile(r"\b(?:via|backend)=CUDA\b")
# The most hosts that a reason names.
MOST_NAMED = 4

_announced: dict[str, Any] = {}
"""By name of a group: the group that knows the place of this rank."""


@dataclass(frozen=True)
class Place:
    """A rank's place."""

    host: str
    """The host's name and what tells it from others of this name, with a slash between them."""
    gpu: str = ""
    """The identity of its GPU; empty on the CPU."""
    unreachable: tuple[str, ...] = ()
    """The GPUs of its host whose memory its own cannot access, as far as this process sees them."""


def own_place(device: torch.device) -> Place:
    """The place of this rank, with the tensors of a region on a device."""
    if device.type != "cuda":
        return Place(host_name())
    own = torch.cuda.current_device() if device.index is None else device.index
    others = [other for other in range(torch.cuda.device_count()) if other != own]
    closed = [other for other in others if not torch.cuda.can_device_access_peer(own, other)]
    return Place(host_name(), _identity(own), tuple(map(_identity, closed)))


def _identity(device: int) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)


def announce_place(name: str, device: torch.device) -> None:
    """Tells the ranks of a group where this one is; nothing for a group whose ranks cannot meet."""
    if not is_live_group(name):
        return
    group = group_of(name)
    if _announced.get(name) is not group:
        group_store(group).set(_key(dist.get_rank(group)), json.dumps(asdict(own_place(device))))
        _announced[name] = group


def check_topology(name: str, program: RegionProgram) -> None:
    """Raises `Kept`, on all ranks of a group that have met, if the program copies between GPUs that cannot do so.

    Programs whose messages are NCCL's run anywhere.
    """
    places = _known_places(name)
    if len(places) < 2 or COPIES.search(str(program.lowered)) is None:
        return
    hosts = list(dict.fromkeys(place.host for place in places))
    if len(hosts) > 1:
        raise Kept(Reason.SEVERAL_HOSTS, _ranks_by_host(places, hosts))
    for rank, place in enumerate(places):
        other = next((at for at, found in enumerate(places) if found.gpu in place.unreachable), None)
        if other is not None:
            raise Kept(Reason.NO_PEER_ACCESS, f"that of rank {rank} cannot access that of rank {other}")


def _known_places(name: str) -> list[Place]:
    """The places of all ranks; none if a rank has told nothing, as one that does not compile."""
    group = group_of(name)
    store, keys = group_store(group), [_key(rank) for rank in range(dist.get_world_size(group))]
    if not store.check(keys):
        return []
    texts = [store.get(key) for key in keys]
    # The store of a group that only stands for one keeps nothing.
    if not all(texts):
        return []
    found = [json.loads(text) for text in texts]
    return [Place(one["host"], one["gpu"], tuple(one["unreachable"])) for one in found]


def _ranks_by_host(places: Sequence[Place], hosts: Sequence[str]) -> str:
    texts = []
    for host in hosts[:MOST_NAMED]:
        count = sum(place.host == host for place in places)
        texts.append(f"{count} rank{'' if count == 1 else 's'} on {host.partition('/')[0]}")
    others = len(hosts) - len(texts)
    return ", ".join([*texts, f"and {others} more hosts"] if others else texts)


def _key(rank: int) -> str:
    return f"hostir/place/{rank}"
