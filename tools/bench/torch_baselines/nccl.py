"""Median milliseconds of torch's communications on the slowest rank, a line each.

usage: torchrun ... -m bench.torch_baselines.nccl KIND:ELEMENTS...
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist


def communication(kind: str, elements: int, rank: int, world: int) -> Callable[[], object]:
    """A function that runs once; `elements` of `float` a rank."""
    part = torch.rand(elements, device="cuda")
    whole = torch.empty(world * elements if kind == "Allgather" else elements, device="cuda")
    if kind == "Allgather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    if kind == "Allreduce":
        return lambda: dist.all_reduce(part)
    to, source = (rank + 1) % world, (rank - 1) % world

    def exchange() -> None:
        posts = [dist.P2POp(dist.irecv, whole, source), dist.P2POp(dist.isend, part, to)]
        for work in dist.batch_isend_irecv(posts):
            work.wait()

    return exchange


def median_ms(run: Callable[[], object]) -> float:
    """The median of 30 runs on the slowest rank."""
    times = []
    for index in range(35):
        dist.barrier()
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        slowest = torch.tensor([start.elapsed_time(end)], device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        if index >= 5:
            times.append(slowest.item())
    return statistics.median(times)


def main(words: Sequence[str]) -> None:
    """Times each communication; rank 0 prints."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for one in words:
        kind, elements = one.split(":")
        found = median_ms(communication(kind, int(elements), rank, dist.get_world_size()))
        if rank == 0:
            print(found, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
