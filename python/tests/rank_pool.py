"""Processes that are the ranks of groups, kept for all tests: importing torch takes longer than most cases.

Nothing here waits without end: collectives have a limit, a case has a limit, and after a failure the processes are replaced.
"""

from __future__ import annotations

import datetime
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

# Seconds: for one collective, for a case on all ranks, and for the other ranks once one has failed.
COLLECTIVE, CASE, BEHIND_FAILURE = 90.0, 240.0, 15.0

Work = Callable[[Any], None]


class _Worker:
    """A process that is one rank at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.answers, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.answers.close()


_workers: list[_Worker] = []


def start_ranks(work: Work, world: int) -> None:
    """Runs a function as the ranks of a group, each in a process; raises if it raises in one, or does not end."""
    port = _free_port()
    while len(_workers) < world:
        _workers.append(_Worker())
    ranks = _workers[:world]
    for rank, worker in enumerate(ranks):
        worker.answers.send((work, rank, world, port))
    # All have imported what the case needs before one waits for the others, which has a limit.
    said = _collect(ranks)
    if not said:
        for worker in ranks:
            worker.answers.send(None)
        said = _collect(ranks)
    if said:
        for worker in _workers:
            worker.kill()
        _workers.clear()
        raise AssertionError("\n".join(f"rank {rank}: {text}" for rank, text in sorted(said.items())))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _collect(ranks: list[_Worker]) -> dict[int, str]:
    """The messages of the ranks that did not succeed."""
    said: dict[int, str] = {}
    waiting = {worker.answers: rank for rank, worker in enumerate(ranks)}
    deadline = time.monotonic() + CASE
    while waiting:
        ready = multiprocessing.connection.wait(list(waiting), max(deadline - time.monotonic(), 0))
        if not ready:
            return said | dict.fromkeys(waiting.values(), "did not end")
        for answers in ready:
            rank = waiting.pop(answers)
            text = _answer(answers)
            if text is not None:
                said[rank] = text
                deadline = min(deadline, time.monotonic() + BEHIND_FAILURE)
    return said


def _answer(answers: Any) -> str | None:
    try:
        return answers.recv()
    except EOFError:
        return "its process has ended"


def _serve(answers: Any) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    while True:
        try:
            work, rank, world, port = answers.recv()
            answers.send(None)
            answers.recv()
        except EOFError:
            return
        try:
            _run_rank(work, rank, world, port)
        except BaseException:  # noqa: BLE001 - whatever it is, the test says it
            answers.send(traceback.format_exc())
        else:
            answers.send(None)


def _run_rank(work: Work, rank: int, world: int, port: int) -> None:
    limit = datetime.timedelta(seconds=COLLECTIVE)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world, timeout=limit)
    # Where it hangs is said before the case's limit.
    faulthandler.dump_traceback_later(CASE - 20)
    try:
        torch._dynamo.reset()
        work(dist.group.WORLD)
        dist.barrier()
    finally:
        faulthandler.cancel_dump_traceback_later()
        dist.destroy_process_group()
