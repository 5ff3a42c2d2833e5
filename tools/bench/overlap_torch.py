#!/usr/bin/env python3
"""Times torch's side of tools/overlap-bench: one such process a GPU, started by it and kept for the whole run.

Reads one JSON line a case from standard input: {"kind": "ag" or "rs", "dtype": .., "m": .., "k": .., "n": ..,
"iterations": .., "warmup": ..}. The process of rank 0 answers with one JSON line: for each way milliseconds, in
`times`, or what went wrong, in `failed`. Times are medians over iterations of the slowest rank's time by events.

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are set as torchrun sets them.
"""

import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

DTYPES = {"bfloat": torch.bfloat16, "float": torch.float32}
# Multicast stays off: it may not be available, and one of its failures takes the whole machine down.
MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
# As many runs of one way follow each other before it is another one's turn.
IN_A_ROW = 5


class Case:
    """The tensors of a case and the ways to compute it."""

    def __init__(self, order):
        self.kind, self.dtype = order["kind"], DTYPES[order["dtype"]]
        world, rank = dist.get_world_size(), dist.get_rank()
        m, k, n = order["m"], order["k"], order["n"]
        rows, depth = (m // world, k) if self.kind == "ag" else (m, k // world)
        torch.manual_seed(rank)
        self.x = torch.rand(rows, depth, device="cuda", dtype=self.dtype)
        torch.manual_seed(0 if self.kind == "ag" else rank)
        self.w = torch.randn(depth, n, device="cuda", dtype=self.dtype)
        self.whole = torch.empty(m, depth, device="cuda", dtype=self.dtype) if self.kind == "ag" else self.x
        self.product = torch.empty(m, n, device="cuda", dtype=self.dtype)
        self.part = torch.empty(m // world, n, device="cuda", dtype=self.dtype)
        self.group = dist.group.WORLD.group_name

    def in_symmetric_memory(self):
        x = symmetric.empty(*self.x.shape, dtype=self.dtype, device=self.x.device)
        symmetric.rendezvous(x, self.group)
        return x.copy_(self.x)

    def gemm(self):
        torch.mm(self.whole, self.w, out=self.product)
        return self.product

    def communication(self):
        if self.kind == "ag":
            dist.all_gather_into_tensor(self.whole, self.x)
        else:
            dist.reduce_scatter_tensor(self.part, self.product)

    def serial(self):
        if self.kind == "ag":
            self.communication()
            return self.gemm()
        self.gemm()
        self.communication()
        return self.part

    def fused(self, x):
        """Async-TP's operator of torch.ops.symm_mem, which gathers with copies and multiplies by parts."""
        if self.kind == "ag":
            return torch.ops.symm_mem.fused_all_gather_matmul(x, [self.w], 0, self.group, return_A=False)[1][0]
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(x, self.w, "sum", 0, self.group)


def recorded(function):
    """The function as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        function()
    return graph.replay


def agreed(worked):
    """Whether all ranks say so."""
    flag = torch.tensor([int(worked)], device="cuda")
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def checked(case, make, expected):
    """A way that all ranks could set up and whose result is right; a sentence otherwise."""
    told, run = "another rank failed", None
    try:
        run = make()
        result = run()
        torch.cuda.synchronize()
        if expected is not None and result is not None:
            error = ((result - expected).abs().max() / expected.abs().max()).item()
            told = f"differs from serial by {error:.1e} of its largest element"
            run = run if error < (1e-4 if case.dtype == torch.float32 else 0.03) else None
    except Exception as error:  # a way that fails leaves the others
        run, told = None, (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    return run if agreed(run is not None) else told


def ways(case):
    """The ways that work, by name, and what is wrong with the others."""
    expected = case.serial().clone()
    shared = []

    def symmetric_input():
        if not shared:
            shared.append(case.in_symmetric_memory())
        return shared[0]

    plans = {
        "torch-gemm": lambda: case.gemm,
        "torch-comm": lambda: case.communication,
        "torch-serial": lambda: case.serial,
        "async-tp": lambda: lambda: case.fused(case.x),
        "async-tp-symm": lambda: (lambda x: lambda: case.fused(x))(symmetric_input()),
        "torch-serial-graph": lambda: recorded(case.serial),
        "async-tp-graph": lambda: recorded(lambda: case.fused(case.x)),
        "async-tp-symm-graph": lambda: (lambda x: recorded(lambda: case.fused(x)))(symmetric_input()),
    }
    alone = ("torch-gemm", "torch-comm")
    found = {name: checked(case, make, None if name in alone else expected) for name, make in plans.items()}
    failed = {name: way for name, way in found.items() if isinstance(way, str)}
    return {name: way for name, way in found.items() if not isinstance(way, str)}, failed


def sample(function):
    """Milliseconds of the slowest rank."""
    dist.barrier()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    function()
    end.record()
    end.synchronize()
    slowest = torch.tensor([start.elapsed_time(end)], device="cuda")
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def measure(order):
    case = Case(order)
    working, failed = ways(case)
    for function in working.values():
        for _ in range(order["warmup"]):
            sample(function)
    times = {name: [] for name in working}
    left = order["iterations"]
    while left > 0:
        for name, function in working.items():
            times[name] += [sample(function) for _ in range(min(left, IN_A_ROW))]
        left -= IN_A_ROW
    return {"times": {name: statistics.median(all) for name, all in times.items()}, "failed": failed}


def main():
    os.environ.update(MULTICAST)
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    dist.barrier()
    # Whoever prints to standard output, only answers reach the other side.
    answers, sys.stdout = sys.stdout, sys.stderr
    about = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(rank), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    if dist.get_rank() == 0:
        print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = measure(json.loads(line))
        except torch.OutOfMemoryError as error:
            answer = {"times": {}, "failed": {"torch": str(error).splitlines()[0][:300]}}
        if dist.get_rank() == 0:
            print(json.dumps(answer), file=answers, flush=True)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
