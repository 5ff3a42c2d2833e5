"""torch's side of tools/overlap-bench: one such process a GPU, started by it and kept for the whole run.

Each line of standard input is an order in JSON, and the process of rank 0 answers each with a line:

    {"do": "prepare", "kind": .., "dtype": .., "m": .., "k": .., "n": .., "warmup": .., "ranks": .., "without": [..]}
        {"trying": way} for each way, then {"ways": [..], "failed": {way: what is wrong}}
    {"do": "turn", "runs": 5}           {"times": {way: [ms, ..]}}: of the slowest rank, by events
    {"do": "drop"}                      {}: what the row held is free

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are set as torchrun sets them. With a WORLD_SIZE of 1 only the
product is timed, as often as `ranks` says, which share the GPU. HIR_TORCH_DEVICE=cpu runs all ways without a GPU, over
gloo, with the fallbacks of torch's fused operators: it checks the ways and measures nothing.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from bench.overlap import torch_ways
from bench.overlap.torch_types import Results, Run, SetUp
from bench.overlap.torch_ways import Case
from bench.torch_baselines.environment import WITHOUT_MULTICAST
from bench.torch_baselines.graph import recorded

Answer = dict[str, Any]
Tell = Callable[[Answer], None]


class World:
    """The ranks, and what they decide together."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.on_gpu = os.environ.get("HIR_TORCH_DEVICE") != "cpu"
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if self.on_gpu else torch.device("cpu")
        self.group: Any = None
        if self.on_gpu:
            torch.cuda.set_device(self.device)
        if self.size > 1:
            if self.on_gpu:
                dist.init_process_group("nccl", device_id=self.device)
            else:
                dist.init_process_group("gloo")
            dist.barrier()
            self.group = dist.group.WORLD.group_name

    def about(self) -> Answer:
        """Versions, and the GPU."""
        found = {"torch": torch.__version__}
        if self.on_gpu:
            found.update({"gpu": torch.cuda.get_device_name(self.device), "nccl": ".".join(map(str, torch.cuda.nccl.version()))})
        return found

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def reduced(self, value: float, op: Any) -> float:
        """A number over all ranks."""
        if self.size == 1:
            return value
        whole = torch.tensor([float(value)], device=self.device)
        dist.all_reduce(whole, op=op)
        return float(whole.item())

    def agreed(self, worked: bool) -> bool:
        """True if all ranks say so."""
        return bool(self.reduced(worked, dist.ReduceOp.MIN))

    def slowest(self, ms: float) -> float:
        """The largest time of all ranks."""
        return self.reduced(ms, dist.ReduceOp.MAX)

    def sample(self, function: Callable[[], object]) -> float:
        """Milliseconds of the slowest rank."""
        if self.size > 1:
            dist.barrier()
        self.synchronize()
        if not self.on_gpu:
            begin = time.perf_counter()
            function()
            return self.slowest((time.perf_counter() - begin) * 1e3)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        return self.slowest(start.elapsed_time(end))


def differences(results: Results, expected: Results, tolerance: float) -> str | None:
    """The fault of results; None without one."""
    for place, (result, right) in enumerate(zip(results, expected, strict=False)):
        wanted = right.float()
        error = ((result.float() - wanted).abs().max() / wanted.abs().max()).item()
        if not error < tolerance:
            return f"result {place} differs from serial by {error:.1e} of its largest element"
    return None


def checked(world: World, case: Case, make: SetUp, expected: Results | None) -> Run | str:
    """A way that all ranks could set up and whose results are right; a sentence otherwise."""
    run: Run | None = None
    told = "another rank failed"
    try:
        run = make()
        results = run()
        world.synchronize()
        if expected is not None:
            wrong = differences(results, expected, case.tolerance)
            if wrong is not None:
                run, told = None, wrong
    except Exception as error:  # noqa: BLE001 - a way that fails leaves the others
        run, told = None, (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    is_working = world.agreed(run is not None)
    return run if is_working and run is not None else told


class Prepared:
    """A row: the ways that work, by name."""

    def __init__(self, world: World, order: Answer, tell: Tell) -> None:
        self.case = torch_ways.make_case(world, order)
        self.failed: dict[str, str] = {}
        self.working: dict[str, Run] = {}
        for name, (make, expected) in self.plans(world).items():
            # What does not run by itself is not recorded either.
            if name in order["without"] or name.removesuffix("-graph") in (*order["without"], *self.failed):
                continue
            tell({"trying": name})
            self.add(world, name, make, expected, order["warmup"])

    def plans(self, world: World) -> dict[str, tuple[SetUp, Results | None]]:
        """How each way is set up, and what it has to give."""
        plans: dict[str, tuple[SetUp, Results | None]]
        plans = {name: (functools.partial(itself, part), None) for name, part in self.case.parts().items()}
        ways = self.case.ways() if world.size > 1 else {}
        expected = [result.clone() for result in self.case.serial()] if ways else None
        plans.update({name: (make, expected) for name, make in ways.items()})
        if world.on_gpu:
            plans.update({f"{name}-graph": (functools.partial(recorded_way, make), expected) for name, make in ways.items()})
        return plans

    def add(self, world: World, name: str, make: SetUp, expected: Results | None, warmup: int) -> None:
        """Sets up a way."""
        way = checked(world, self.case, make, expected)
        if isinstance(way, str):
            self.failed[name] = way
            return
        for _ in range(warmup):
            world.sample(way)
        self.working[name] = way

    def turn(self, world: World, runs: int) -> dict[str, list[float]]:
        """The times of a turn; the first run of a way does not count."""
        return {name: [world.sample(way) for _ in range(runs + 1)][1:] for name, way in self.working.items()}


def itself(run: Run) -> Run:
    """A way that needs no setting up."""
    return run


def recorded_way(make: SetUp) -> Run:
    """A way as a CUDA graph."""
    return recorded(make())


def serve(world: World, tell: Tell) -> None:
    """Carries out orders until there are no more."""
    prepared: Prepared | None = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "prepare":
            prepared = None
            if world.on_gpu:
                torch.cuda.empty_cache()
            try:
                prepared = Prepared(world, order, tell)
                tell({"ways": list(prepared.working), "failed": prepared.failed})
            except torch.OutOfMemoryError as error:
                tell({"ways": [], "failed": {"torch": str(error).splitlines()[0][:300]}})
        elif order["do"] == "turn":
            tell({"times": prepared.turn(world, order["runs"]) if prepared else {}})
        else:
            prepared = None
            world.synchronize()
            if world.on_gpu:
                torch.cuda.empty_cache()
            tell({})


def main() -> None:
    """Carries out the orders of standard input on this rank."""
    os.environ.update(WITHOUT_MULTICAST)
    # Whoever prints to standard output, only answers reach the other side.
    answers, sys.stdout = sys.stdout, sys.stderr
    world = World()

    def tell(answer: Answer) -> None:
        if world.rank == 0:
            print(json.dumps(answer), file=answers, flush=True)

    tell(world.about())
    try:
        serve(world, tell)
    except Exception:  # noqa: BLE001 - the others wait for this rank: it ends, and they are ended
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if world.size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
