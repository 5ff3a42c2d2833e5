"""Times of ways on all ranks, round by round."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from bench.torch_baselines.buffers import refill_buffers

Way = Callable[[], Any]
"""A function that is timed."""


def agreed(worked: bool, device: torch.device) -> bool:
    """True if all ranks say so."""
    flag = torch.tensor([int(worked)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def time_once(run: Way, device: torch.device, steps: int) -> float:
    """Milliseconds of the last of some steps in a row on this rank, after a barrier."""
    for _ in range(steps - 1):
        refill_buffers()
        run()
    if device.type == "cpu":
        dist.barrier()
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    refill_buffers()
    dist.all_reduce(torch.zeros(1, device=device))
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def time_in_turn(ways: dict[str, Way], device: torch.device, rounds: int, seconds: float, steps: int = 1) -> dict[str, list[float]]:
    """Times of the slowest rank, round by round; fewer rounds than asked for if all ranks have no time left."""
    names = list(ways)
    samples: dict[str, list[float]] = {name: [] for name in names}
    deadline, order = time.monotonic() + seconds, random.Random(0)
    for turn in range(-2, rounds):
        for name in order.sample(names, len(names)):
            taken = time_once(ways[name], device, steps)
            if turn >= 0:
                samples[name].append(taken)
        if turn % 10 == 9 and not agreed(time.monotonic() < deadline, device):
            break
    slowest = torch.tensor([samples[name] for name in names], device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return dict(zip(names, slowest.tolist(), strict=True))


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics between which the true one is with a probability of 95%."""
    ordered, count = sorted(values), len(values)
    chance, below = 0.0, 0
    while below < count // 2 and chance + math.comb(count, below) / 2**count <= 0.025:
        chance += math.comb(count, below) / 2**count
        below += 1
    low = max(below - 1, 0)
    return statistics.median(ordered), ordered[low], ordered[count - 1 - low]
