"""Times steps of Llama-shaped layers, forward and backward, as eager torch, torch.compile, async TP and programs run them.

usage: tools/benchmark torch-layers [--models 8b,70b] [--ways W,..] [--graphs] [--links-awake] [--world N] [--tokens N]
                                   [--rounds N] [--steps N] [--choose measure|always] [--min-gain X] [--json FILE]
                                   [--seconds N] [--profile FILE] [--tiny] [--device cuda|cpu]

Tensor parallelism over all ranks with sequence parallelism (`llama`), bf16, one sequence of 8,192 tokens. Each way is timed as
calls and as a CUDA graph of the whole step. A round times every way once, in an order of its own, since what ran before is still
felt in clocks. A time is that of the slowest rank, by events after a barrier on the stream. It is that of the second of two steps
in a row, as in training: the host issues it while the device still works on the first. With --steps 1 the time that the host needs
until the device has its first kernel is in that of a step. Printed are

  ms            the median
  speed-up      torch.compile's time over this way's in the same round: the median and its 95% interval (of order
                statistics, so nothing is assumed of the times); graphs are compared with torch.compile's graph
  exposed ms    the median of the difference to the same step, compiled, with buffers in the place of what collectives give
  hidden        of what torch.compile exposes: 1 - exposed / what its step of the same kind exposes
  links awake   the same, with --links-awake, of the step without collectives beside a few bytes to the next GPU every 10 ms

and what became of each collective; standard error says how long each way took until its first step ended. The matmuls of the
way `programs` are tuned at the power limit, those of `programs-quick` and `programs-kernels` with tuning="quick" and "kernels".
NVLinks that nothing uses for a while (50 ms on an H100) sleep, which leaves 27 W more of a card's 700 W to the rest; a step that
communicates keeps them awake, one without collectives does not. --ways takes a part of the ways, --graphs only graphs. --profile
then runs each way once more under torch's profiler, prints what the last of three steps in a row goes to, and writes its kernels
to a file (`step_kernels`). --tiny --device cpu tries all of it on gloo, with small layers and no graphs: a check of this program,
not a measurement. Exit status: 0, 1 a way failed or gave other numbers than eager torch, 3 there are too few GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh

from bench.paths import use_package_of_tree
from bench.torch_baselines import llama, step_kernels
from bench.torch_baselines.buffers import collectives_alone, collectives_replaced, refill_buffers
from bench.torch_baselines.environment import set_environment
from bench.torch_baselines.graph import recorded
from bench.torch_baselines.layer_figures import figures_of, table_of
from bench.torch_baselines.link_traffic import LinkTraffic, with_links_awake
from bench.torch_baselines.timing import Way, agreed, synchronize, time_in_turn

MODELS = {"8b": llama.LLAMA_8B, "70b": llama.LLAMA_70B, "tiny": llama.TINY}
TUNINGS: dict[str, Any] = {"programs": "sustained", "programs-quick": "quick", "programs-kernels": "kernels"}
WAYS = ("eager", "compile", "async-tp", *TUNINGS, "no-comm")
# The ways of `WAYS` that are run unless --ways names others.
DEFAULT_WAYS = ("eager", "compile", "async-tp", "programs", "no-comm")


class Case:
    """A model with its input, and the ways to run a step of it."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        self.device = torch.device(options.device, torch.cuda.current_device()) if options.device == "cuda" else torch.device("cpu")
        self.dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
        shape, world = MODELS[name], dist.get_world_size()
        torch.manual_seed(0)
        mesh = init_device_mesh(options.device, (world,))
        with torch.device(self.device):
            model = llama.Layers(shape).to(self.dtype)
        self.model = llama.parallelize(model, shape, mesh)
        self.x = self._numbers(options.tokens // world, shape.hidden, seed=dist.get_rank()).requires_grad_()
        self.gradient = self._numbers(options.tokens // world, shape.hidden, seed=100 + dist.get_rank())
        self.collectives: list[tuple[Any, ...]] = []
        self.overlaps: dict[str, Any] = {}

    def _numbers(self, *shape: int, seed: int) -> torch.Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(1, *shape, device=self.device, dtype=self.dtype, generator=generator)

    def step_of(self, way: str) -> Way:
        """A step: forward and backward. Gives the result and the gradient of the input."""
        run = self.model if way == "eager" else torch.compile(self.model, fullgraph=True, options=self._settings(way))

        def step() -> tuple[torch.Tensor, torch.Tensor]:
            self.x.grad = None
            for parameter in self.model.parameters():
                parameter.grad = None
            y = run(self.x)
            y.backward(self.gradient)
            return y.detach(), self.x.grad

        return step

    def _settings(self, way: str) -> dict[str, Any]:
        if way == "async-tp":
            import torch.distributed._symmetric_memory as symmetric

            symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
            return {"_micro_pipeline_tp": True}
        if tuning := TUNINGS.get(way):
            import hostir.torch as hir

            self.overlaps[way] = hir.Overlap(choose=self.options.choose, min_gain=self.options.min_gain, tuning=tuning)
            return {"post_grad_custom_post_pass": self.overlaps[way]}
        if way == "no-comm":
            return {"post_grad_custom_post_pass": collectives_replaced(self.collectives)}
        return {}


def tried(case: Case, name: str, make: Callable[[], Way], wanted: Any) -> Way | str:
    """A way that works on all ranks and gives the numbers that are wanted, or a sentence."""
    run: Way | None = None
    told, start = "another rank failed", time.monotonic()
    try:
        run = make()
        found = run()
        synchronize(case.device)
        if wanted is not None:
            error = max(((one - other).abs().max() / other.abs().max()).item() for one, other in zip(found, wanted, strict=True))
            told = f"differs from eager by {error:.1e} of its largest element"
            run = run if error < (0.05 if case.dtype == torch.bfloat16 else 1e-4) else None
    except Exception as error:  # noqa: BLE001 - a way that fails leaves the others
        if case.options.verbose:
            traceback.print_exc()
        run, told = None, (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    if dist.get_rank() == 0:
        print(f"{case.name} {name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    is_working = agreed(run is not None, case.device)
    return run if is_working and run is not None else told


def all_ways(case: Case) -> tuple[dict[str, Way], dict[str, str]]:
    """The ways that work, by name, and what is wrong with the others."""
    on_gpu = case.device.type == "cuda"
    found: dict[str, Way | str] = {}
    wanted = tuple(tensor.clone() for tensor in case.step_of("eager")())
    for way in case.options.ways:
        if way == "async-tp" and not on_gpu:
            continue
        expected = None if way == "no-comm" else wanted
        found[way] = tried(case, way, functools.partial(case.step_of, way), expected)
        step = found[way]
        if on_gpu and not isinstance(step, str):
            found[f"{way} graph"] = tried(case, f"{way} graph", functools.partial(recorded, step), expected)
    found["collectives"] = tried(case, "collectives", lambda: collectives_alone(case.collectives), None)
    kinds = " graph" if case.options.graphs else ""
    ways = {name: way for name, way in found.items() if not isinstance(way, str) and name.endswith(kinds)}
    return ways, {name: way for name, way in found.items() if isinstance(way, str)}


def profiled(ways: dict[str, Way], device: torch.device) -> dict[str, list[list[step_kernels.Kernel]]]:
    """The kernels of a step of each way, of all ranks."""
    found: dict[str, list[list[step_kernels.Kernel]]] = {}

    def before() -> None:
        refill_buffers()
        dist.all_reduce(torch.zeros(1, device=device))

    for name, run in ways.items():
        kernels = step_kernels.kernels_of_step(run, before)
        found[name] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(found[name], kernels)
    return found


def run_model(name: str, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Times a model; rank 0 prints."""
    began = time.monotonic()
    case = Case(name, options)
    ways, failed = all_ways(case)
    left = max(seconds - (time.monotonic() - began), 1)
    with contextlib.ExitStack() as stack:
        if options.links_awake and any(name.startswith("no-comm") for name in ways):
            ways = with_links_awake(ways, stack.enter_context(contextlib.closing(LinkTraffic(case.device))))
        times = time_in_turn(ways, case.device, options.rounds, left, options.steps)
    kernels = profiled(ways, case.device) if options.profile and case.device.type == "cuda" else {}
    figures = figures_of(times)
    reports = {way: overlap.report() for way, overlap in case.overlaps.items()}
    if dist.get_rank() == 0:
        rounds = len(next(iter(times.values())))
        print(f"\n{name}: {MODELS[name]}")
        print(f"{dist.get_world_size()} ranks, {options.tokens} tokens, {rounds} rounds of {options.steps} steps")
        print(table_of(figures))
        for way, why in failed.items():
            print(f"{way}: failed: {why}")
        if kernels:
            summaries = {way: [step_kernels.summary_of(of_rank) for of_rank in ranks] for way, ranks in kernels.items()}
            print(step_kernels.table_of_summaries(summaries))
        for way, report in reports.items():
            print(f"\n{way}\n{report}", flush=True)
    explained = [line.verdict for report in reports.values() for line in report.lines]
    told = {way: [[vars(kernel) for kernel in of_rank] for of_rank in ranks] for way, ranks in kernels.items()}
    return {"model": name, "figures": figures, "failed": failed, "collectives": explained, "times": times, "kernels": told}


# ---- processes ----


def run_rank(rank: int, options: argparse.Namespace, store: str, results: str) -> None:
    """All models on one rank."""
    on_gpu = options.device == "cuda"
    # Nothing waits without end: where it hangs is said, and the process ends.
    faulthandler.dump_traceback_later(options.seconds + 60, exit=True)
    if on_gpu:
        torch.cuda.set_device(rank)
        # Autograd accumulates on the streams of a model's first step, and the default stream cannot be recorded.
        torch.cuda.set_stream(torch.cuda.Stream())
    else:
        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch._dynamo.config.cache_size_limit = 64
    device = torch.device("cuda", rank) if on_gpu else None
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=options.world, device_id=device)
    found = [run_model(name, options, options.seconds / len(options.models)) for name in options.models]
    if rank == 0:
        Path(results).write_text(json.dumps(about(options) | {"models": found}), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()
    faulthandler.cancel_dump_traceback_later()


def about(options: argparse.Namespace) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none"
    return {"torch": torch.__version__, "gpu": gpu, "world": options.world, "tokens": options.tokens}


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """The command line, with defaults that depend on the machine."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark torch-layers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="8b,70b")
    parser.add_argument("--ways", default=",".join(DEFAULT_WAYS))
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--links-awake", action="store_true")
    parser.add_argument("--world", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--choose", choices=("measure", "always"), default="measure")
    parser.add_argument("--min-gain", type=float, default=1.02)
    parser.add_argument("--json", default="")
    parser.add_argument("--profile", default="")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args(words)
    options.models = ["tiny"] if options.tiny else options.models.split(",")
    options.ways = options.ways.split(",")
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"unknown ways: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    options.tokens = options.tokens or (64 if options.tiny else 8192)
    options.rounds = options.rounds or (20 if options.tiny else 100)
    options.world = options.world or (torch.cuda.device_count() if options.device == "cuda" else 2)
    return options


def main(words: Sequence[str]) -> int:
    """Times all models; gives the exit status."""
    set_environment()
    use_package_of_tree()
    options = read_options(words)
    if options.device == "cuda" and (options.world < 2 or torch.cuda.device_count() < options.world):
        print(f"torch_layers: {torch.cuda.device_count()} GPUs; at least 2 are needed", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        results = f"{folder}/results.json"
        torch.multiprocessing.spawn(run_rank, args=(options, f"{folder}/store", results), nprocs=options.world)
        text = Path(results).read_text(encoding="utf-8")
    found = json.loads(text)
    kernels = {model["model"]: model.pop("kernels") for model in found["models"]}
    if options.json:
        Path(options.json).write_text(json.dumps(found), encoding="utf-8")
    if options.profile:
        Path(options.profile).write_text(json.dumps(kernels), encoding="utf-8")
    return 1 if any(model["failed"] for model in found["models"]) else 0
