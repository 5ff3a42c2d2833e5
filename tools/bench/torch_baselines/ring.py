"""Times vLLM's AG-GEMM by copy engines (pull request 54151) as one `hir.op`, beside the same method written in Python.

usage: tools/benchmark torch-ring [--world N] [--rows N] [--depth N] [--columns N] [--rounds N] [--json FILE] [--device cuda|cpu]

Each rank has `rows` rows of `depth` and `columns` of the weight, in bf16; all rows are gathered. The op is the program
python/tests/programs/push_gather_matmul.hir; what it is held against is `ring` of tools/bench/overlap/torch_peers.py: parts go
around by copies into torch's symmetric memory, with signals, and each is multiplied when it is there. Both as calls and as CUDA
graphs, and beside them NCCL's allgather in front of one matmul. A round times every way once, beginning with another one each
time; a time is that of the slowest rank. `speed-up` is the ring's time over this way's in the same round, with its 95% interval.
On the CPU (gloo, f32) the numbers are checked and the times say nothing. Exit status: 0, 1 a way gives other numbers, 3 there are
too few GPUs.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from bench.overlap import torch_peers
from bench.paths import ROOT, use_package_of_tree
from bench.torch_baselines.environment import set_environment
from bench.torch_baselines.graph import recorded
from bench.torch_baselines.timing import Way, median_interval, time_in_turn

PROGRAM = ROOT / "python" / "tests" / "programs" / "push_gather_matmul.hir"


@dataclass
class Ranks:
    """The ranks, as `torch_peers.ring` asks for them."""

    rank: int
    size: int
    on_gpu: bool
    device: torch.device
    group: Any


@dataclass
class RingCase:
    """The factors, as `torch_peers.ring` asks for them."""

    world: Ranks
    x: torch.Tensor
    w: torch.Tensor
    m: int
    n: int
    dtype: torch.dtype
    links: Any = None


def program_of(world: int, element: str) -> str:
    """The program for so many ranks and these elements, without sizes of its own."""
    text = PROGRAM.read_text(encoding="utf-8").partition("\nplain(")[0]
    lines = [line for line in text.splitlines() if not line.startswith("sizes ")]
    text = "\n".join(lines).replace("f32", element).replace("0..4", f"0..{world}").replace("[x:4,", f"[x:{world},")
    text = text.replace("[4, m, n]", f"[{world}, m, n]").replace("[3, m, k]", f"[{world - 1}, m, k]")
    text = text.replace("for s in 3:", f"for s in {world - 1}:").replace("% 4", f"% {world}")
    return text.replace("s - 1, 4)", f"s - 1, {world})") + "\n"


def ways_of(x: torch.Tensor, w: torch.Tensor) -> dict[str, Way]:
    """The ways to gather all rows and multiply them by the rank's columns."""
    import torch.distributed._functional_collectives as fc

    import hostir
    import hostir.torch as hir

    group, size, rank = dist.group.WORLD, dist.get_world_size(), dist.get_rank()
    text = program_of(size, "bf16" if x.dtype == torch.bfloat16 else "f32")

    @hir.op("hostir_bench::ring", program=hostir.parse(text, "push_gather_matmul.hir"), args={"a": "A", "b": "B"}, out="C")
    def op(a: torch.Tensor, b: torch.Tensor, group: str) -> torch.Tensor:
        """The product of all ranks' rows."""
        return fc.all_gather_tensor(a, 0, group) @ b

    world = Ranks(rank, size, x.is_cuda, x.device, group)
    case = RingCase(world, x, w, size * x.shape[0], w.shape[1], x.dtype)
    name = group.group_name
    return {
        "ring in Python": torch_peers.ring(case),
        "hir.op": lambda: op(x, w, name),
        "NCCL, matmul": lambda: fc.all_gather_tensor(x, 0, name) @ w,
    }


def run_rank(rank: int, options: argparse.Namespace, store: str, results: str) -> None:
    """All ways on one rank; rank 0 writes what was found."""
    on_gpu = options.device == "cuda"
    # Nothing waits without end: where it hangs is said, and the process ends.
    faulthandler.dump_traceback_later(options.seconds + 30, exit=True)
    if on_gpu:
        torch.cuda.set_device(rank)
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    backend = "nccl" if on_gpu else "gloo"
    known = {"device_id": device} if on_gpu else {}
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=options.world, **known)
    found = measure(options, device)
    if rank == 0:
        Path(results).write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


def measure(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """The times of all ways, and those that give other numbers. Graphs end here: NCCL's group waits for them when it ends."""
    generator = torch.Generator(device).manual_seed(dist.get_rank())
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shapes = ((options.rows, options.depth), (options.depth, options.columns))
    x, w = (torch.randn(shape, device=device, generator=generator).to(dtype) for shape in shapes)
    ways = ways_of(x, w)
    wanted = ways["NCCL, matmul"]()
    wrong = [name for name, way in ways.items() if not is_close(way(), wanted)]
    if device.type == "cuda":
        torch.cuda.synchronize()
        graphs = {f"{name}, graph": recorded(way) for name, way in ways.items()}
        wrong += [name for name, way in graphs.items() if not is_close(way(), wanted)]
        ways |= graphs
    return {"wrong": wrong, "times": time_in_turn(ways, device, options.rounds, options.seconds)}


def is_close(found: Any, wanted: torch.Tensor) -> bool:
    """True if a result is right; what GEMMs of other shapes round differently is small beside the largest element."""
    value = found[0] if isinstance(found, list) else found
    return bool((value - wanted).abs().max() <= 0.01 * wanted.abs().max())


def table_of(times: dict[str, list[float]]) -> str:
    """The medians, and how many times faster than the ring of the same kind."""
    lines = [f"{'way':<24}{'ms':>9}  speed-up [95%]"]
    for name, sample in times.items():
        ring = times["ring in Python, graph" if name.endswith(", graph") else "ring in Python"]
        ratios = [one / other for one, other in zip(ring, sample, strict=True)]
        ratio = "{:.3f} [{:.3f}, {:.3f}]".format(*median_interval(ratios))
        lines.append(f"{name:<24}{statistics.median(sample):>9.3f}  {ratio}")
    return "\n".join(lines)


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """The command line, with defaults that depend on the machine."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark torch-ring", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, count in (("world", 0), ("rows", 0), ("depth", 0), ("columns", 0), ("rounds", 200)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--json", default="")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args(words)
    on_gpu = options.device == "cuda"
    options.world = options.world or (torch.cuda.device_count() if on_gpu else 2)
    part = 8192 // max(options.world, 1)
    options.rows = options.rows or (part if on_gpu else 8)
    options.depth = options.depth or (8192 if on_gpu else 6)
    options.columns = options.columns or (part if on_gpu else 5)
    return options


def main(words: Sequence[str]) -> int:
    """Times all ways; gives the exit status."""
    set_environment()
    use_package_of_tree()
    options = read_options(words)
    if options.world < 2 or (options.device == "cuda" and torch.cuda.device_count() < options.world):
        print(f"torch_ring: {torch.cuda.device_count()} GPUs; at least 2 are needed", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        results = f"{folder}/results.json"
        torch.multiprocessing.spawn(run_rank, args=(options, f"{folder}/store", results), nprocs=options.world)
        text = Path(results).read_text(encoding="utf-8")
    if options.json:
        Path(options.json).write_text(text, encoding="utf-8")
    found = json.loads(text)
    shape = f"{options.rows} x {options.depth} on each rank, by {options.depth} x {options.columns}"
    print(f"{options.world} ranks, {shape}, {len(next(iter(found['times'].values())))} rounds\n{table_of(found['times'])}")
    for name in found["wrong"]:
        print(f"{name}: gives other numbers", file=sys.stderr)
    return 1 if found["wrong"] else 0
