"""The ranks of a process group: messages over torch's store, and what happened to each other."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from typing import Any

import torch.distributed as dist

from hostir import _native

__all__ = ["GroupExchange", "Trouble", "describe_trouble", "exchange_of", "group_store"]

Trouble = tuple[list[int], float] | tuple[int, str, bool]
"""Ranks that are late and the seconds that they were waited for; or a rank that ended, how, and whether it gave up."""

_POLL = 0.001
_exchanges: dict[str, GroupExchange] = {}
_lock = threading.Lock()


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

    Messages are keys of the group's store. Each process has a heartbeat there; it counts up as long as the process runs.
    """

    def __init__(self, group: Any, timeout: float) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.control_plane = _native.ControlPlane(self.rank, self.world, _host_name(), self.gather, self.report)
        """What sessions of the group get."""
        self._timeout = timeout
        self._store = group_store(group)
        self._beats = _own_connection(self._store)
        self._step = 0
        self._count = 0
        self._seen: dict[int, tuple[bytes, float]] = {}
        self._turn = threading.Lock()

    def gather(self, what: str, message: bytes) -> tuple[list[bytes], Trouble | None]:
        """The messages of all ranks, in their order; else no messages and why, as `ControlPlane` wants it."""
        with self._turn:
            self._step += 1
            step, deadline = self._step, time.monotonic() + self._timeout
            self._store.set(f"hostir/{step}/{self.rank}", what.encode() + b"\0" + message)
            messages = []
            for rank in range(self.world):
                trouble = self._await(f"hostir/{step}/{rank}", rank, deadline)
                if trouble is not None:
                    return [], trouble
                sent, _, content = self._store.get(f"hostir/{step}/{rank}").partition(b"\0")
                if sent != what.encode():
                    raise RuntimeError(f"rank {rank} is at `{sent.decode()}`, but this rank at `{what}`")
                messages.append(content)
            # All ranks have written this step, so all have read the one before.
            if step > 1:
                self._store.delete_key(f"hostir/{step - 1}/{self.rank}")
            return messages, None

    def report(self, why: str) -> None:
        """Tells the other ranks that this one gives up."""
        self._store.set("hostir/failed", f"{self.rank}\n{why}")

    def leave(self) -> None:
        """Tells the other ranks that this process ends."""
        self._beats.set(f"hostir/left/{self.rank}", "1")

    def beat(self) -> None:
        """Shows that this process runs."""
        self._count += 1
        self._beats.set(f"hostir/beat/{self.rank}", str(self._count))

    def failed_rank(self) -> tuple[int, str] | None:
        """The first rank that gave up, and its report."""
        if not self._beats.check(["hostir/failed"]):
            return None
        rank, _, why = self._beats.get("hostir/failed").decode().partition("\n")
        return None if int(rank) == self.rank else (int(rank), why)

    def ended_rank(self, silence: float) -> tuple[int, str] | None:
        """A rank whose process has ended, or has shown nothing for so many seconds."""
        for rank in range(self.world):
            if rank == self.rank:
                continue
            if self._beats.check([f"hostir/left/{rank}"]):
                return rank, "its process has ended"
            if self._silence(rank) > silence:
                return rank, f"its process has shown no sign of life for {silence:.0f} seconds"
        return None

    def _silence(self, rank: int) -> float:
        """Seconds since a rank's last heartbeat was seen first."""
        key, now = f"hostir/beat/{rank}", time.monotonic()
        found = self._beats.get(key) if self._beats.check([key]) else b""
        last, since = self._seen.setdefault(rank, (found, now))
        if found != last:
            self._seen[rank] = (found, now)
            return 0.0
        return now - since

    def _await(self, key: str, rank: int, deadline: float) -> Trouble | None:
        looks = 0
        while not self._store.check([key]):
            looks += 1
            if looks % 64 == 0:
                failed = self.failed_rank()
                if failed is not None:
                    return (*failed, True)
                if self._beats.check([f"hostir/left/{rank}"]):
                    return rank, "its process has ended", False
            if time.monotonic() > deadline:
                step = self._step
                late = [other for other in range(self.world) if not self._store.check([f"hostir/{step}/{other}"])]
                return late, self._timeout
            time.sleep(_POLL)
        return None


def group_store(group: Any) -> Any:
    """The group's part of the store."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._world.pg_map[group][1]


def _own_connection(store: Any) -> Any:
    """The same store over a connection of its own, where torch has that: a rank that waits holds up its connection."""
    try:
        return store.clone()
    except (AttributeError, RuntimeError, NotImplementedError):
        return store


def _host_name() -> str:
    """A name that only processes of this host have."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{socket.gethostname()}/{file.read().strip()}"
    except OSError:
        return f"{socket.gethostname()}/{uuid.getnode():x}"
