#!/usr/bin/env python3
"""Median milliseconds of torch's collective on the slowest rank: `torchrun ... torch_nccl.py KIND ELEMENTS`."""

import os
import statistics
import sys

import torch
import torch.distributed as dist


def main():
    kind, elements = sys.argv[1], int(sys.argv[2])
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    world = dist.get_world_size()
    part = torch.rand(elements, device="cuda")
    whole = torch.empty(world * elements, device="cuda") if kind == "Allgather" else None

    def run():
        if kind == "Allgather":
            dist.all_gather_into_tensor(whole, part)
        else:
            dist.all_reduce(part)

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
    if rank == 0:
        print(statistics.median(times))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
