"""The messages of all ranks of a group while they compile, with a limit to waiting.

Messages are keys of the group's store, not collectives: a rank that never comes, since its graph differs or since it failed,
holds up nobody for longer than the limit, and disturbs no collective of torch's.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch.distributed as dist

from hostir.torch._exchange import Patience
from hostir.torch._group import group_of
from hostir.torch._overlap.nodes import Collective
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._session_vote import AFTER_ANNOUNCEMENT, announce_kept, has_announced_kept, holds_program
from hostir.torch._torch_internals import group_store

__all__ = ["Ballot", "RanksAbsent", "absent", "announce_failure", "ballot_of", "site_of"]

_POLL = 0.005
_ballots: dict[str, Ballot] = {}
_lock = threading.Lock()


def ballot_of(group: Any) -> Ballot:
    """The ballot of a group, the same one at each call: all ranks count its turns."""
    with _lock:
        found = _ballots.get(group.group_name)
        if found is None or found.group is not group:
            found = Ballot(group, group_store(group))
            _ballots[group.group_name] = found
        return found


class Ballot:
    """Gathers a message of each rank, turn by turn. All ranks come to the same result."""

    def __init__(self, group: Any, store: Any) -> None:
        self.group = group
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        self._store = store
        self._turn = 0
        self._scope = ""
        self._sites: Sequence[str] = ()
        self._region = ""
        """The last meeting of this rank: turns are counted from it, so that a rank that failed is in step in the next one."""
        self._meetings: dict[str, int] = {}
        """The number of times that this rank has come to a region of each kind."""

    def gather(self, message: str, timeout: float) -> list[str]:
        """The messages of all ranks, in their order.

        Raises `Kept` on all ranks if one of them has not come within `timeout` seconds: the first rank that knows decides,
        and a rank that comes later learns it.
        """
        self._turn += 1
        keys, missing = self._take_turn(f"hostir/ballot/{self._scope}{self._turn}", message, timeout, self._sites)
        if missing:
            raise absent(missing, timeout)
        return [self._said(key) for key in keys]

    def meet(self, kind: str, name: str, timeout: float, sites: Sequence[str] = ()) -> list[int]:
        """Meets the other ranks at a region of a name, and gives the ranks that have not come within `timeout` seconds.

        Regions of one kind differ in sizes alone. Raises `Kept` on all ranks if theirs do. A meeting that was over before this rank
        came was one of ranks that compiled alone: it goes to the next one, unless the others have disagreed there. A rank that has
        announced that it keeps torch's nodes at collectives of these kinds is not waited for.
        """
        while True:
            count = self._meetings[kind] = self._meetings.get(kind, 0) + 1
            self._scope, self._turn, self._sites = f"{kind}/{count}/", 0, sites
            self._region = name
            keys, missing = self._take_turn(f"hostir/meeting/{kind}/{count}", name, timeout, sites)
            names = {self._said(key) for rank, key in enumerate(keys) if rank not in missing}
            if len(names) > 1:
                raise Kept(Reason.RANKS_DISAGREE, ", ".join(sorted(names)))
            if self._rank not in missing:
                return missing

    def _take_turn(self, turn: str, message: str, timeout: float, sites: Sequence[str] = ()) -> tuple[list[str], list[int]]:
        """The keys of all ranks' messages, and the ranks that are missing."""
        keys = [f"{turn}/{rank}" for rank in range(self._world)]
        self._store.set(keys[self._rank], message or " ")
        decision = self._decision(turn, keys, Patience(timeout), sites)
        return keys, [] if decision == "all" else [int(rank) for rank in decision.split(", ")]

    def _said(self, key: str) -> str:
        return str(self._store.get(key).decode().strip())

    def _decision(self, turn: str, keys: list[str], patience: Patience, sites: Sequence[str]) -> str:
        """`all`, or the ranks that are missing, as the first rank that knew has put it down."""
        key = f"{turn}/decision"
        while not self._store.check([key]):
            missing = [rank for rank, other in enumerate(keys) if not self._store.check([other])]
            if not missing:
                return self._decide(key, "all")
            if any(has_announced_kept(self._store, sites, rank) for rank in missing):
                patience.shorten(AFTER_ANNOUNCEMENT)
            elif any(holds_program(self._store, self._region, rank) for rank in missing):
                # Its graph is one that Inductor has kept.
                patience.shorten(AFTER_ANNOUNCEMENT)
            if patience.is_over():
                return self._decide(key, ", ".join(map(str, missing)))
            time.sleep(_POLL)
        return str(self._store.get(key).decode())

    def _decide(self, key: str, decision: str) -> str:
        self._store.compare_set(key, "", decision)
        return str(self._store.get(key).decode())


class RanksAbsent(Kept):
    """The refusal where ranks are missing."""


def absent(ranks: list[int], timeout: float) -> RanksAbsent:
    """The refusal where these ranks are missing."""
    return RanksAbsent(Reason.RANKS_DISAGREE, f"rank {', '.join(map(str, ranks))} has not come within {timeout:.0f} s")


def site_of(end: Collective) -> str:
    """A digest that collectives of the same kind, shape, type and number of ranks share."""
    value = end.node.meta.get("val")
    text = f"{end.kind} {getattr(value, 'dtype', None)} {list(getattr(value, 'shape', []))} {end.size}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def announce_failure(ends: Iterable[Collective]) -> None:
    """Tells the other ranks of each group that this one keeps torch's nodes at these collectives, because of an error."""
    for end in ends:
        try:
            group = group_of(end.group)
            announce_kept(group, dist.get_rank(group), [site_of(end)])
        except Exception:  # noqa: BLE001 - a group that does not exist; who is not told waits until its limit
            continue
