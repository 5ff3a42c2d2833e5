"""The verdicts of the ranks of a group while they compare: a failure on one rank is an error of all.

Messages are keys of the group's store, not collectives: a rank that fails in the midst of a function's collectives meets the
others in none of its own.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from hostir._errors import HostIrError
from hostir.torch._torch_internals import group_store

__all__ = ["RankVerdicts"]

# Seconds for which a rank that failed waits for the others: they may stand in a collective that it has left.
LONGEST_FAREWELL = 10.0

_comparisons: dict[str, tuple[Any, int]] = {}
"""By name the group, and the number of comparisons that this rank has begun in it; all ranks count alike."""
_lock = threading.Lock()


class RankVerdicts:
    """One comparison of an op by all ranks of a group, step by step. Without a group there is one rank."""

    def __init__(self, op: str, group: Any) -> None:
        self.op, self.group = op, group
        self.rank: int = 0 if group is None else dist.get_rank(group)
        self.world: int = 1 if group is None else dist.get_world_size(group)
        self._store = None if group is None else group_store(group)
        self._number = 0 if group is None else _next_comparison(group)

    def gather_messages(self, step: str, message: Any) -> list[Any]:
        """The messages of all ranks, in their order. It waits as long as the group's store does."""
        if self._store is None:
            return [message]
        keys = self._send_message(step, message)
        return [json.loads(self._store.get(key)) for key in keys]

    @contextmanager
    def share_failures(self, step: str) -> Iterator[None]:
        """Work that all ranks do: it raises on all of them, at its end, if it raises on one.

        A rank raises its own error if it has one, and else that of the first rank that has, as a `HostIrError`.
        """
        try:
            yield
        except Exception as error:
            self._say_farewell(self._send_message(step, _failure_of(error)))
            raise
        for rank, failure in enumerate(self.gather_messages(step, None)):
            if failure is not None:
                self._raise_failure(rank, *failure)

    def _send_message(self, step: str, message: Any) -> list[str]:
        """Sends this rank's message; gives the keys of those of all ranks."""
        if self._store is None:
            return []
        keys = [f"hostir/check/{self._number}/{step}/{rank}" for rank in range(self.world)]
        self._store.set(keys[self.rank], json.dumps(message))
        return keys

    def _say_farewell(self, keys: list[str]) -> None:
        """Waits until the others have come to the step, too: with this process the store may end."""
        if self._store is None:
            return
        try:
            self._store.wait(keys, datetime.timedelta(seconds=LONGEST_FAREWELL))
        except RuntimeError:
            return

    def _raise_failure(self, rank: int, code: str, message: str, notes: list[str]) -> None:
        # Results that differ are told with their rank.
        if code != "H0630":
            message = f"{self.op}: `check` has failed on rank {rank}: {message.removeprefix(f'{self.op}: ')}"
        raise _error_of(code, message, notes)


def _failure_of(error: Exception) -> tuple[str, str, list[str]]:
    """The code, message and notes that other ranks raise."""
    if isinstance(error, HostIrError) and error.diagnostics:
        return error.code, error.message, list(error.notes)
    return "H0530", f"{type(error).__name__}: {' '.join(str(error).split())}", []


def _error_of(code: str, message: str, notes: list[str]) -> HostIrError:
    """An error of any code: another rank may have met those that the extension alone raises."""
    places = dict.fromkeys(("line", "column", "start", "end"))
    found = {"code": code, "severity": "error", "message": message, "file": "", "notes": notes, "labels": [], "fixes": [], **places}
    text = "\n = ".join([f"error[{code}]: {message}", *notes])
    return HostIrError(text, json.dumps(found))


def _next_comparison(group: Any) -> int:
    with _lock:
        known, count = _comparisons.get(group.group_name, (None, 0))
        count = count + 1 if known is group else 1
        _comparisons[group.group_name] = (group, count)
        return count
