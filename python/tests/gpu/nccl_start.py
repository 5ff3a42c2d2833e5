"""The start of an op over NCCL, on two GPUs: seconds of the first call, and of the phases of its preparation.

usage: [HOSTIR_NCCL_SPLIT=1] torchrun --nproc-per-node 2 python/tests/gpu/nccl_start.py
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hostir.torch as hir


@hir.op("hostir_start::gather_matmul", program="../programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def gather_matmul(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The product of all ranks' rows."""
    return fc.all_gather_tensor(x, 0, group) @ w


def main() -> None:
    """Prints the seconds of rank 0."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    # torch's communicator is there, and used.
    sum_of_ones = torch.ones(1, device="cuda")
    dist.all_reduce(sum_of_ones)
    x, w = torch.ones(256, 128, device="cuda"), torch.ones(128, 64, device="cuda")
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    y = gather_matmul(x, w, dist.group.WORLD)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    assert torch.equal(y, torch.full((512, 64), 128.0, device="cuda"))
    dist.all_reduce(sum_of_ones)
    assert sum_of_ones.item() == 4
    if rank == 0:
        how = "split off torch's" if os.environ.get("HOSTIR_NCCL_SPLIT") == "1" else "connected anew"
        phases = gather_matmul._sessions.sessions()[0].phases()
        parts = ", ".join(f"{name} {spent:.2f}" for name, spent in phases if spent >= 0.005)
        print(f"first call, communicators {how}: {seconds:.2f} s ({parts})", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
