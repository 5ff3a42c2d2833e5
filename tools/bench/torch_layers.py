#!/usr/bin/env python3
"""Times steps of Llama-shaped layers, forward and backward, as eager torch, torch.compile, async TP and programs run them.

usage: tools/bench/torch_layers.py [--models 8b,70b] [--ways W,..] [--graphs] [--links-awake] [--world N] [--tokens N]
                                   [--rounds N] [--steps N] [--choose measure|always] [--min-gain X] [--json FILE]
                                   [--seconds N] [--profile FILE] [--tiny] [--device cuda|cpu]

Tensor parallelism over all ranks with sequence parallelism (tools/bench/llama.py), bf16, one sequence of 8,192 tokens. Each way
is timed as calls and as a CUDA graph of the whole step. A round times every way once, in an order of its own, since what ran
before is still felt in clocks. A time is that of the slowest rank, by events behind a barrier on the stream. It is that of the
second of two steps in a row, as in training: the host issues it while the device still works on the first. With --steps 1 the
time that the host needs until the device has its first kernel is in that of a step. Printed are

  ms            the median
  speed-up      torch.compile's time over this way's in the same round: the median and its 95% interval (of order
                statistics, so nothing is assumed of the times); graphs are compared with torch.compile's graph
  exposed ms    the median of the difference to the same step, compiled, with buffers in the place of what collectives give
  hidden        of what torch.compile exposes: 1 - exposed / what its step of the same kind exposes
  links awake   the same, with --links-awake, of the step without collectives beside a few bytes to the next GPU every 10 ms

and what became of each collective. NVLinks that nothing uses for a while (50 ms on an H100) sleep, which leaves 27 W more of a
card's 700 W to the rest; a step that communicates keeps them awake, one without collectives does not. --ways takes a part of
the ways, --graphs only graphs. --profile then runs each way once more under torch's profiler, prints what the last of three steps
in a row goes to, and writes its kernels to a file (tools/bench/step_kernels.py). --tiny --device cpu tries all of it on gloo, with small layers and no graphs: a check of this
program, not a measurement. Exit status: 0, 1 a way failed or gave other numbers than eager torch, 3 there are too few GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import math
import os
import random
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools" / "bench")]
# Multicast stays off: it may not be available, and one of its failures takes the whole machine down.
os.environ.update({"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"})
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

import llama  # noqa: E402
import step_kernels  # noqa: E402
from torch_graph import recorded  # noqa: E402

MODELS = {"8b": llama.LLAMA_8B, "70b": llama.LLAMA_70B, "tiny": llama.TINY}
WAYS = ("eager", "compile", "async-tp", "programs", "no-comm")
AWAKE = "links-awake"
c10d = torch.ops._c10d_functional

Way = Callable[[], Any]


# Collectives: what the graphs have, alone, and buffers in their place

_library = torch.library.Library("hostir_bench", "DEF")
_library.define("buffer(Tensor x, int[] shape) -> Tensor")
_buffers: dict[Any, torch.Tensor] = {}


def _buffer(x: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Memory of this shape, the same one at each call, with numbers of a usual size."""
    key = (tuple(shape), x.dtype, x.device)
    if key not in _buffers:
        _buffers[key] = torch.randn(shape, dtype=x.dtype, device=x.device)
    return _buffers[key]


def refill_buffers() -> None:
    """Usual numbers again. Compiled graphs write results over what they no longer need: over many steps these grow until they
    are no numbers any more, and GEMMs of such run faster.
    """
    for buffer in _buffers.values():
        buffer.normal_()


_library.impl("buffer", _buffer, "CompositeExplicitAutograd")
torch.library.register_fake("hostir_bench::buffer", lambda x, shape: x.new_empty(shape), lib=_library)


def collectives_replaced(found: list[tuple[Any, ...]]) -> Any:
    """A pass that takes the collectives out of graphs, and puts down what they were."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Replaced(CustomGraphPass):
        def uuid(self) -> None:
            return None

        def __call__(self, graph: torch.fx.Graph) -> None:
            for node in list(graph.nodes):
                if node.op != "call_function" or getattr(node.target, "namespace", "") != "_c10d_functional":
                    continue
                if node.target is not c10d.wait_tensor.default:
                    found.append((node.target, node.args[0].meta["val"], node.args[1:]))
                    with graph.inserting_before(node):
                        shape = list(node.meta["val"].shape)
                        made = graph.call_function(torch.ops.hostir_bench.buffer.default, (node.args[0], shape))
                    made.meta["val"] = node.meta["val"]
                    node.replace_all_uses_with(made)
                else:
                    node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    return Replaced()


def collectives_alone(found: list[tuple[Any, ...]]) -> Way:
    """The collectives one after the other."""
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    given = [(op, torch.randn(fake.shape, dtype=fake.dtype, device=device), rest) for op, fake, rest in found]

    def run() -> None:
        for op, x, rest in given:
            c10d.wait_tensor(op(x, *rest))

    return run


# Ways to run a step


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
        self.overlap: Any = None

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
        if way == "programs":
            import hostir.torch as hir

            self.overlap = hir.Overlap(choose=self.options.choose, min_gain=self.options.min_gain)
            return {"post_grad_custom_post_pass": self.overlap}
        if way == "no-comm":
            return {"post_grad_custom_post_pass": collectives_replaced(self.collectives)}
        return {}


class LinkTraffic:
    """A few bytes to the next rank's GPU every 10 ms, by a kernel on a stream of its own, in the ways that ask for them."""

    def __init__(self, device: torch.device) -> None:
        import torch.distributed._symmetric_memory as symmetric

        own = symmetric.empty(1024, device=device)
        shared = symmetric.rendezvous(own, dist.group.WORLD)
        following = (dist.get_rank() + 1) % dist.get_world_size()
        self._target = shared.get_buffer(following, own.shape, own.dtype)
        # Buffers of other ranks are mapped as long as these are held.
        self._held = (own, shared)
        self._source, self._stream = torch.ones(1024, device=device), torch.cuda.Stream(device)
        self._wanted, self._is_over = threading.Event(), False
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        torch.cuda.set_device(self._source.device)
        while self._wanted.wait() and not self._is_over:
            with torch.cuda.stream(self._stream):
                torch.add(self._source, 1, out=self._target)
            time.sleep(0.01)

    def close(self) -> None:
        """Ends the traffic, which else would go on beside the next model."""
        self._is_over = True
        self._wanted.set()
        self._thread.join()
        self._stream.synchronize()

    def beside(self, run: Way, *, wanted: bool) -> Way:
        """The way with or without this traffic beside it."""

        def step() -> Any:
            (self._wanted.set if wanted else self._wanted.clear)()
            return run()

        return step


def with_links_awake(ways: dict[str, Way], traffic: LinkTraffic) -> dict[str, Way]:
    """The ways, and the step without collectives once more with links that do not sleep."""
    bare = [name for name in ways if name.startswith("no-comm")]
    awake = {name.replace("no-comm", AWAKE): traffic.beside(ways[name], wanted=True) for name in bare}
    return {name: traffic.beside(way, wanted=False) for name, way in ways.items()} | awake


def agreed(worked: bool, device: torch.device) -> bool:
    """True if all ranks say so."""
    flag = torch.tensor([int(worked)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MIN)
    return bool(flag.item())


def tried(case: Case, name: str, make: Callable[[], Way], wanted: Any) -> Way | str:
    """A way that works on all ranks and gives the numbers that are wanted, or a sentence."""
    told, run, start = "another rank failed", None, time.monotonic()
    try:
        run = make()
        found = run()
        synchronize(case.device)
        if wanted is not None:
            error = max(((one - other).abs().max() / other.abs().max()).item() for one, other in zip(found, wanted))
            told = f"differs from eager by {error:.1e} of its largest element"
            run = run if error < (0.05 if case.dtype == torch.bfloat16 else 1e-4) else None
    except Exception as error:  # a way that fails leaves the others
        if case.options.verbose:
            traceback.print_exc()
        run, told = None, (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    if dist.get_rank() == 0:
        print(f"{case.name} {name}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return run if agreed(run is not None, case.device) else told


def all_ways(case: Case) -> tuple[dict[str, Way], dict[str, str]]:
    """The ways that work, by name, and what is wrong with the others."""
    on_gpu = case.device.type == "cuda"
    found: dict[str, Way | str] = {}
    wanted = tuple(tensor.clone() for tensor in case.step_of("eager")())
    for way in case.options.ways:
        if way == "async-tp" and not on_gpu:
            continue
        expected = None if way == "no-comm" else wanted
        found[way] = tried(case, way, lambda way=way: case.step_of(way), expected)
        step = found[way]
        if on_gpu and not isinstance(step, str):
            found[f"{way} graph"] = tried(case, f"{way} graph", lambda step=step: recorded(step), expected)
    found["collectives"] = tried(case, "collectives", lambda: collectives_alone(case.collectives), None)
    kinds = " graph" if case.options.graphs else ""
    ways = {name: way for name, way in found.items() if not isinstance(way, str) and name.endswith(kinds)}
    return ways, {name: way for name, way in found.items() if isinstance(way, str)}


# Times


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


def time_in_turn(
    ways: dict[str, Way], device: torch.device, rounds: int, seconds: float, steps: int = 1
) -> dict[str, list[float]]:
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


def figures_of(times: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """The figures that are printed of each way."""
    figures: dict[str, dict[str, Any]] = {}
    for name, sample in times.items():
        suffix = " graph" if name.endswith(" graph") else ""
        base = times.get(f"compile{suffix}")
        entry: dict[str, Any] = {"ms": statistics.median(sample), "rounds": len(sample)}
        if name != "collectives" and base:
            entry["speed-up"] = median_interval([one / other for one, other in zip(base, sample, strict=True)])
        figures[name] = entry
        if name == "collectives" or name.startswith("no-comm"):
            continue
        entry |= hidden_part(times, name, f"no-comm{suffix}", f"compile{suffix}", "exposed", "hidden")
        if not name.startswith(AWAKE):
            entry |= hidden_part(times, name, f"{AWAKE}{suffix}", f"compile{suffix}", "exposed awake", "hidden awake")
    return figures


def hidden_part(times: dict[str, list[float]], name: str, bare: str, base: str, *keys: str) -> dict[str, float]:
    """The time of a way over the one without communication, and the part of the base's that is not in it."""
    if bare not in times:
        return {}
    over = {way: median_difference(times[way], times[bare]) for way in (name, base) if way in times}
    found = {keys[0]: over[name]}
    if over.get(base, 0.0) > 0:
        found[keys[1]] = 1 - over[name] / over[base]
    return found


def median_difference(one: list[float], other: list[float]) -> float:
    return statistics.median(a - b for a, b in zip(one, other, strict=True))


def table_of(figures: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'way':<18}{'ms':>9}  {'speed-up [95%]':<24}{'exposed ms':>11}{'hidden':>8}{'links awake':>13}"]
    for name, entry in figures.items():
        ratio = "{:.3f} [{:.3f}, {:.3f}]".format(*entry["speed-up"]) if "speed-up" in entry else ""
        exposed = f"{entry['exposed']:.3f}" if "exposed" in entry else ""
        hidden, awake = (f"{entry[key]:.0%}" if key in entry else "" for key in ("hidden", "hidden awake"))
        lines.append(f"{name:<18}{entry['ms']:>9.3f}  {ratio:<24}{exposed:>11}{hidden:>8}{awake:>13}".rstrip())
    return "\n".join(lines)


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
    report = case.overlap.report() if case.overlap is not None else None
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
        print(report or "", flush=True)
    explained = [] if report is None else [line.verdict for line in report.lines]
    told = {way: [[vars(kernel) for kernel in of_rank] for of_rank in ranks] for way, ranks in kernels.items()}
    return {"model": name, "figures": figures, "failed": failed, "collectives": explained, "times": times, "kernels": told}


# Processes


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


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "), add_help=True)
    parser.add_argument("--models", default="8b,70b")
    parser.add_argument("--ways", default=",".join(WAYS))
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
    options = parser.parse_args()
    options.models = ["tiny"] if options.tiny else options.models.split(",")
    options.ways = options.ways.split(",")
    if unknown := set(options.ways) - set(WAYS):
        parser.error(f"unknown ways: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    options.tokens = options.tokens or (64 if options.tiny else 8192)
    options.rounds = options.rounds or (20 if options.tiny else 100)
    options.world = options.world or (torch.cuda.device_count() if options.device == "cuda" else 2)
    return options


def main() -> int:
    options = read_options()
    if options.device == "cuda" and (options.world < 2 or torch.cuda.device_count() < options.world):
        print(f"torch_layers: {torch.cuda.device_count()} GPUs; at least 2 are needed", file=sys.stderr)
        return 3
    import tempfile

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


if __name__ == "__main__":
    sys.exit(main())
