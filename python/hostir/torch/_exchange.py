"""The ranks of a process group: messages over torch's store, and what happened to each other."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

import torch.distributed as dist

from hostir import _native
from hostir.torch._torch_internals import group_store

__all__ = ["GroupExchange", "Patience", "Trouble", "are_limits_off", "describe_trouble", "exchange_of", "host_name"]

Trouble = tuple[list[int], float] | tuple[int, str, bool]
"""Ranks that are late and the seconds that they were waited for; or a rank that ended, how, and whether it gave up."""

_POLL = 0.001
# The most seconds between two looks that count as waiting.
_LONGEST_GAP = 2.0
_exchanges: dict[str, GroupExchange] = {}
_lock = threading.Lock()


def _start_anew() -> None:
    """Forgets the exchanges in a forked process: they, and the lock that another thread may hold, are the parent's."""
    global _lock
    _lock = threading.Lock()
    _exchanges.clear()


os.register_at_fork(after_in_child=_start_anew)


def are_limits_off() -> bool:
    """True if `HOSTIR_PEER_TIMEOUT` turns off the limits to waiting for other ranks, as for a debugger."""
    return os.environ.get("HOSTIR_PEER_TIMEOUT", "").strip().lower() in {"0", "off", "inf"}


class Patience:
    """A limit to waiting, in seconds; none if `HOSTIR_PEER_TIMEOUT` is `off` or 0.

    Only the time counts in which this process ran: one that was stopped (by a debugger, a batch system, `SIGSTOP`) looks again
    after a gap, and what others sent meanwhile is still to be read.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._last = time.monotonic()
        self._is_endless = are_limits_off()

    def is_over(self) -> bool:
        """True if the limit has passed. Who waits asks at each look."""
        now = time.monotonic()
        self._left -= min(now - self._last, _LONGEST_GAP)
        self._last = now
        return self._left < 0 and not self._is_endless

    def shorten(self, seconds: float) -> None:
        """Leaves so many seconds at most."""
        self._left = min(self._left, seconds)


def exchange_of(group: Any, timeout: float) -> GroupExchange:
    """The exchange of a group, the same one at each call."""
    with _lock:
        found = _exchanges.get(group.group_name)
        if found is None or found.group is not group:
            found = GroupExchange(group, timeout)
            _exchanges[group.group_name] = found
        return found


def describe_trouble(trouble: Trouble) -> str:
    """The trouble in words."""
    if len(trouble) == 3:
        rank, text, gave_up = trouble
        # A report is lines of code, place, message and notes.
        code, _, message = [*text.split("\n"), "", "", ""][:3]
        return f"rank {rank} failed with {code}: {message}" if gave_up else f"rank {rank}: {text}"
    ranks = ", ".join(map(str, trouble[0]))
    return f"not called within {trouble[1]:.0f} s on rank {ranks}"


class GroupExchange:
    """Gathers messages of all ranks of a group, and learns which of them failed, ended, or is silent.

    Messages are keys of the group's store. Each process has a heartbeat there; it counts up as long as the process runs. A forked
    process has no part in it: there nothing is written to the store or read from it, whose connection is the parent's.
    """

    def __init__(self, group: Any, timeout: float) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.control_plane = _native.ControlPlane(self.rank, self.world, host_name(), self.gather, self.report)
        """The control plane that sessions of the group get."""
        self._process = os.getpid()
        self._timeout = timeout
        self._store = group_store(group)
        self._beats = _own_connection(self._store)
        self._step = 0
        self._count = 0
        self._seen: dict[int, tuple[bytes, float]] = {}
        self._turn = threading.Lock()
        self._scope = ""
        """The part of the store in which the steps are: all ranks begin a trial together, and count its steps from 1."""
        self._is_over: Callable[[], str | None] | None = None
        """While a session is on trial, what says that it is over."""

    def begin_trial(self, scope: str, is_over: Callable[[], str | None]) -> None:
        """Lets the steps that follow be those of a session that may be given up: a failure ends nothing but the trial.

        `is_over` gives the reason if ranks need not be waited for.
        """
        self.begin_steps(scope)
        self._is_over = is_over

    def begin_steps(self, scope: str) -> None:
        """Counts the steps of all ranks anew, from 1."""
        self._scope, self._step = f"{scope}/", 0

    def end_trial(self) -> None:
        """Lets failures be those of runs again."""
        self._is_over = None

    def gather(self, what: str, message: bytes) -> tuple[list[bytes], Trouble | None]:
        """The messages of all ranks, in their order; else no messages and why, as `ControlPlane` wants it."""
        if not self._is_here():
            raise RuntimeError("a forked process has no part in its parent's process group: start it anew (`spawn`)")
        with self._turn:
            self._step += 1
            step, patience = self._step, Patience(self._timeout)
            self._store.set(self._key(step, self.rank), what.encode() + b"\0" + message)
            messages = []
            for rank in range(self.world):
                trouble = self._await(self._key(step, rank), rank, patience)
                if trouble is not None:
                    return [], trouble
                sent, _, content = self._store.get(self._key(step, rank)).partition(b"\0")
                if sent != what.encode():
                    raise RuntimeError(f"rank {rank} is at `{sent.decode()}`, but this rank at `{what}`")
                messages.append(content)
            # All ranks have written this step, so all have read the one before.
            if step > 1:
                self._store.delete_key(self._key(step - 1, self.rank))
            return messages, None

    def _key(self, step: int, rank: int) -> str:
        return f"hostir/{self._scope}{step}/{rank}"

    def report(self, why: str) -> None:
        """Tells the other ranks that this one gives up. A session on trial has a vote for that."""
        if self._is_here() and self._is_over is None:
            self._store.set("hostir/failed", f"{self.rank}\n{why}")

    def leave(self, finished: dict[str, Any] | None = None) -> None:
        """Tells the other ranks that this process ends, and which runs are done here, as `finished_runs` gives it."""
        if self._is_here():
            self._beats.set(f"hostir/left/{self.rank}", json.dumps(finished or {}))

    def beat(self) -> None:
        """Shows that this process runs."""
        if self._is_here():
            self._count += 1
            self._beats.set(f"hostir/beat/{self.rank}", str(self._count))

    def failed_rank(self) -> tuple[int, str] | None:
        """The first rank that gave up, and its report. What is no report is none."""
        if not self._is_here() or not self._beats.check(["hostir/failed"]):
            return None
        number, _, why = self._beats.get("hostir/failed").decode(errors="replace").partition("\n")
        rank = int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else self.rank
        return (rank, why) if rank != self.rank and rank < self.world else None

    def ended_rank(self, silence: float, known: Collection[int] = ()) -> tuple[int, str] | None:
        """A rank whose process has ended, or has shown nothing for so many seconds, beside those that are known."""
        for rank in range(self.world) if self._is_here() else ():
            if rank == self.rank or rank in known:
                continue
            if self._beats.check([f"hostir/left/{rank}"]):
                return rank, "its process has ended"
            if self._silence(rank) > silence:
                return rank, f"its process has shown no sign of life for {silence:.0f} seconds"
        return None

    def finished_runs(self, rank: int) -> dict[str, Any]:
        """The runs of a rank that has left, as it told; nothing of one that has not, or of a text that is not this module's."""
        key = f"hostir/left/{rank}"
        try:
            said = json.loads(self._beats.get(key).decode()) if self._beats.check([key]) else {}
        except (ValueError, RecursionError):
            return {}
        return said if isinstance(said, dict) else {}

    def excuse_silence(self) -> None:
        """Counts the silence of the other ranks from now on: this process itself was stopped."""
        now = time.monotonic()
        self._seen = {rank: (beat, now) for rank, (beat, _) in self._seen.items()}

    def _is_here(self) -> bool:
        """False in a fork of the process that takes part in the group."""
        return os.getpid() == self._process

    def _silence(self, rank: int) -> float:
        """Seconds since a rank's last heartbeat was seen first."""
        key, now = f"hostir/beat/{rank}", time.monotonic()
        found = self._beats.get(key) if self._beats.check([key]) else b""
        last, since = self._seen.setdefault(rank, (found, now))
        if found != last:
            self._seen[rank] = (found, now)
            return 0.0
        return now - since

    def _await(self, key: str, rank: int, patience: Patience) -> Trouble | None:
        looks = 0
        while not self._store.check([key]):
            looks += 1
            if looks % 64 == 0:
                failed = self.failed_rank()
                if failed is not None:
                    return (*failed, True)
                over = None if self._is_over is None else self._is_over()
                if over is not None:
                    return rank, over, False
                if self._beats.check([f"hostir/left/{rank}"]):
                    return rank, "its process has ended", False
            if patience.is_over():
                step = self._step
                late = [other for other in range(self.world) if not self._store.check([self._key(step, other)])]
                return late, self._timeout
            time.sleep(_POLL)
        return None


def _own_connection(store: Any) -> Any:
    """The same store over a connection of its own, where torch has that: a rank that waits holds up its connection."""
    try:
        return store.clone()
    except (AttributeError, RuntimeError, NotImplementedError):
        return store


def host_name() -> str:
    """A name that only processes of this host have."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{socket.gethostname()}/{file.read().strip()}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode():x}"
