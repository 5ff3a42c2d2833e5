"""The vote of all ranks on a session before its first run: all of them use it, or all run torch's nodes.

Votes are keys of the group's store. A rank that never comes, as where its graph has torch's nodes, does not hold up the others
for longer than the limit: they run the same collectives as it does. The first rank that knows the outcome decides, and a rank
that comes later learns it.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from hostir._errors import HostIrError
from hostir.torch._exchange import GroupExchange, Patience
from hostir.torch._torch_internals import group_store

__all__ = ["SessionRefused", "SessionVote", "announce_kept", "error_line", "has_announced_kept", "holds_program"]

READY = "ready"
# Seconds for which a rank that has a session waits for the others, and for one that has said that it keeps torch's nodes.
LONGEST_VOTE, AFTER_ANNOUNCEMENT = 300.0, 5.0
_POLL = 0.005

_counts: dict[tuple[str, str], tuple[Any, int]] = {}
"""By group and call the group, and the number of votes of this rank; all ranks count alike."""
_lock = threading.Lock()


class SessionRefused(Exception):
    """No rank of the group uses the session: the op's own function runs in its place, on all of them."""


class SessionVote:
    """One vote about the session for a call of an op."""

    def __init__(self, group: Any, name: str, call: Any, sites: Sequence[str] = ()) -> None:
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        self._store = group_store(group)
        self._exchange: GroupExchange | None = None
        self._name = name
        self._sites = tuple(sites)
        digest = hashlib.sha256(json.dumps([name, call]).encode()).hexdigest()[:16]
        self.number = _next_vote(group, digest)
        """1 for the first session for such calls; others of this rank have run programs before."""
        self._scope = f"vote/{digest}/{self.number}"
        self._silence = Patience(LONGEST_VOTE)

    def begin(self, exchange: GroupExchange) -> None:
        """Makes failures of this rank in the exchange those of the vote. Raises `SessionRefused` if it is over."""
        self._exchange = exchange
        self._store.set(_held_key(self._name, self._rank), "1")
        decision = self._decision()
        if decision not in (None, READY):
            exchange.begin_steps(f"{self._scope}/after")
            raise SessionRefused(decision)
        exchange.begin_trial(self._scope, self._is_over)

    def close(self, failure: Exception | None) -> str | None:
        """Tells the others whether this rank has its session. None if all have; else the reason why none uses it."""
        if self._exchange is not None:
            self._exchange.end_trial()
        said = READY if failure is None else f"rank {self._rank}: {error_line(failure)}"
        self._store.set(self._key(self._rank), said)
        patience = Patience(LONGEST_VOTE)
        decision = self._decision()
        while decision is None:
            decision = self._outcome(patience)
            if decision is not None:
                self._store.compare_set(f"hostir/{self._scope}/decision", "", decision)
                decision = self._decision()
            else:
                time.sleep(_POLL)
        if decision == READY:
            return None
        if self._exchange is not None:
            # Ranks have come to different steps.
            self._exchange.begin_steps(f"{self._scope}/after")
        return decision

    def _outcome(self, patience: Patience) -> str | None:
        """The outcome as this rank knows it; None if it does not."""
        votes = [self._vote_of(rank) for rank in range(self._world)]
        refused = next((vote for vote in votes if vote not in (None, READY)), None)
        if refused is not None:
            return refused
        missing = [rank for rank, vote in enumerate(votes) if vote is None]
        if not missing:
            return READY
        if any(has_announced_kept(self._store, self._sites, rank) for rank in missing):
            patience.shorten(AFTER_ANNOUNCEMENT)
        return f"rank {', '.join(map(str, missing))} has not prepared it" if patience.is_over() else None

    def _is_over(self) -> str | None:
        """The reason why no rank will use the session, if that is known while this one prepares it."""
        decision = self._decision()
        if decision not in (None, READY):
            return decision
        votes = (self._vote_of(rank) for rank in range(self._world))
        refused = next((vote for vote in votes if vote not in (None, READY)), None)
        if refused is not None:
            return refused
        for rank in range(self._world):
            if self._vote_of(rank) is None and has_announced_kept(self._store, self._sites, rank):
                # It may have kept another collective of this kind.
                self._silence.shorten(AFTER_ANNOUNCEMENT)
                if self._silence.is_over():
                    return f"rank {rank} keeps torch's nodes"
        return None

    def _vote_of(self, rank: int) -> str | None:
        return self._read(self._key(rank))

    def _decision(self) -> str | None:
        return self._read(f"hostir/{self._scope}/decision")

    def _key(self, rank: int) -> str:
        return f"hostir/{self._scope}/vote/{rank}"

    def _read(self, key: str) -> str | None:
        return self._store.get(key).decode() if self._store.check([key]) else None


def announce_kept(group: Any, rank: int, sites: Sequence[str]) -> None:
    """Tells the other ranks that this one keeps torch's nodes at collectives of these kinds, since it cannot do else."""
    for site in sites:
        group_store(group).set(f"hostir/kept/{site}/{rank}", "1")


def has_announced_kept(store: Any, sites: Sequence[str], rank: int) -> bool:
    """True if a rank has said that it keeps torch's nodes at such a collective."""
    return any(store.check([f"hostir/kept/{site}/{rank}"]) for site in sites)


def holds_program(store: Any, name: str, rank: int) -> bool:
    """True if a rank has called an op: it is in a graph of that rank, which does not compile it any more."""
    return bool(store.check([_held_key(name, rank)]))


def _held_key(name: str, rank: int) -> str:
    return f"hostir/held/{name}/{rank}"


def error_line(error: BaseException) -> str:
    """An error in one line: its code or type, and its first sentence."""
    is_own = isinstance(error, HostIrError) and bool(error.diagnostics)
    code, message = (error.code, error.message) if is_own else (type(error).__name__, str(error))  # type: ignore[attr-defined]
    return f"{code}: {(message.strip().splitlines() or [''])[0]}"


def _next_vote(group: Any, digest: str) -> int:
    with _lock:
        key = (str(group.group_name), digest)
        known, count = _counts.get(key, (None, 0))
        count = count + 1 if known is group else 1
        _counts[key] = (group, count)
        return count
