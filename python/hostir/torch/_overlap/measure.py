"""Times of a region as torch has it and as programs, taken once when a graph is compiled.

On GPUs every way is compiled by Inductor, so that functions beside a matmul cost what they cost in the graph; and the device
spins until the host has issued a run, so that times are the device's alone. A time may be that of one of many runs in a row,
which bring a GPU to its power limit: there other ways can be the faster ones than at its highest clock.
"""

from __future__ import annotations

import contextvars
import copy
import json
import logging
import math
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hostir import __version__
from hostir.torch._group import group_of
from hostir.torch._overlap.ballot import Ballot, absent, ballot_of
from hostir.torch._overlap.choices import choice_store
from hostir.torch._overlap.layouts import TURNS, VIEWS
from hostir.torch._overlap.nodes import MATMULS, Node, collective_of, op_name
from hostir.torch._overlap.programs import op_of_region
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.times import Times
from hostir.torch._torch_internals import compile_by_inductor, inductor_settings, spin_device

__all__ = ["BURST", "Ways", "agree_to_replace", "is_compiled_by_all", "is_live_group", "measure_ways"]

Module = Callable[..., Any]
Clock = Callable[[Module, list[torch.Tensor], int], float]

log = logging.getLogger(__name__)

# Seconds that a rank waits for the others at a region whose times it has.
ALONE = 30.0
# Seconds of runs in a row for one time at the power limit, and the most runs.
BURST = 0.03
MOST_RUNS = 64
# Inductor's settings that decide how fast torch's side is.
COMPILED_BY = (
    "coordinate_descent_tuning",
    "epilogue_fusion",
    "max_autotune",
    "max_autotune_gemm",
    "max_autotune_pointwise",
    "shape_padding",
)


@dataclass(frozen=True)
class Ways:
    """Functions of the same tensors, which are timed in turn."""

    torch: Any
    """Torch's own nodes, a `GraphModule`, as are the others."""
    program: Any
    apart: Any | None = None
    """A program for each collective of a region that has two."""

    @property
    def modules(self) -> list[Any]:
        """All of them, torch's first."""
        return [module for module in (self.torch, self.program, self.apart) if module is not None]


def measure_ways(
    name: str,
    group: str,
    ways: Ways,
    inputs: Sequence[Any],
    rounds: int,
    timeout: float,
    text: str | None = None,
    burst: float = 0.0,
) -> Times:
    """Times the ways in turn, on tensors like `inputs`, each in runs in a row of some `burst` seconds. All ranks call it.

    Raises `Kept` where that is impossible, on all ranks: what one of them is refused, or does not come for within
    `timeout` seconds, is known to the others before they wait for it. With a `text`, which tells this region from all others,
    times of earlier processes count if all ranks have the same, and new ones are kept.
    """
    ballot = ballot_of(_live_group(group))
    device = next((value.device for value in inputs if value.device.type == "cuda"), torch.device("cpu"))
    if device.type != "cuda" and _time_on_cpu is _refuse_cpu:
        _refuse_cpu(ways.torch, [], 0)

    def measure() -> Times:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        with torch.no_grad():
            _agree_on_name(ballot, name if ways.apart is None else f"{name} or two", timeout)
            key = None if text is None else _choice_key(ballot, text, inputs, [rounds, burst], device, timeout)
            earlier = None if key is None else _earlier_times(ballot, key, timeout)
            if earlier is not None:
                return earlier
            times = Times.of_ranks(_measure(ballot, ways, inputs, rounds, timeout, burst))
            store = choice_store()
            if key is not None and store is not None:
                store.write(key, times)
            return times

    # A compiler's thread has modes and states of dispatch. Gloo's threads copy them and want the interpreter for that, which
    # a thread that waits for them in a graph may hold.
    # Inductor's settings are variables of the context.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, measure).result()


def is_compiled_by_all(kind: str, name: str, group: str, timeout: float, is_known: bool, sites: Sequence[str] = ()) -> bool:
    """True if all ranks of the group have come to the region of this name, false if only some have, and its times are known.

    Raises `Kept`, on all ranks, if they have come to regions of other sizes, and for a region without times if one does not come
    within `timeout` seconds. Known times were known to all: a rank that compiles alone, as after a guard of its own, waits no
    longer than `ALONE` seconds.
    """
    missing = ballot_of(_live_group(group)).meet(kind, name, min(timeout, ALONE) if is_known else timeout, sites)
    if missing and not is_known:
        raise absent(missing, timeout)
    return not missing


def agree_to_replace(
    kind: str, name: str, group: str, timeout: float, failure: Exception | None, sites: Sequence[str], *, is_known: bool
) -> None:
    """Raises this rank's failure to put a program into its graph; `Kept` if another rank has failed, or does not come.

    A program that is known to be in the graphs of the others stays if they do not come: this rank compiles alone.
    """
    said = name if failure is None else f"rank {dist.get_rank(_live_group(group))} keeps torch's nodes"
    try:
        missing = ballot_of(_live_group(group)).meet(f"replace {kind}", said, min(timeout, ALONE) if is_known else timeout, sites)
    except Kept:
        if failure is None:
            raise
        missing = []
    if failure is not None:
        raise failure
    if missing and not is_known:
        raise absent(missing, timeout)


def is_live_group(name: str) -> bool:
    """True if there is a group of this name whose ranks can meet."""
    try:
        return _live_group(name) is not None
    except Kept:
        return False


def _agree_on_name(ballot: Ballot, name: str, timeout: float) -> None:
    names = set(ballot.gather(name, timeout))
    if len(names) > 1:
        raise Kept(Reason.RANKS_DISAGREE, ", ".join(sorted(names)))


def _choice_key(ballot: Ballot, text: str, inputs: Sequence[Any], rounds: list[float], device: torch.device, timeout: float) -> str:
    """All that can change times, the same on all ranks: the region, its tensors, where ranks are, and versions."""
    own = json.dumps([_settings(ballot.group, device), socket.gethostname(), _device_name(device)])
    ranks = [json.loads(answer) for answer in ballot.gather(own, timeout)]
    hosts = [host for _, host, _ in ranks]
    # The hosts' names do not matter, only which ranks share one.
    layout = [(settings, hosts.index(host), name) for settings, host, name in ranks]
    tensors = [(str(value.dtype), list(value.shape), list(value.stride()), value.device.type) for value in inputs]
    return json.dumps([text, tensors, rounds, layout], sort_keys=True)


def _settings(group: Any, device: torch.device) -> list[Any]:
    """Versions, the backend, and the environment's settings of NCCL and CUDA."""
    is_gpu = device.type == "cuda"
    nccl = str(torch.cuda.nccl.version()) if is_gpu and dist.is_nccl_available() else ""
    environment = {name: value for name, value in os.environ.items() if name.startswith(("NCCL_", "CUDA_DEVICE_MAX"))}
    inductor = inductor_settings(COMPILED_BY)
    return [inductor, __version__, torch.__version__, str(torch.version.cuda), nccl, dist.get_backend(group), environment]


def _device_name(device: torch.device) -> str:
    if device.type != "cuda":
        return f"{platform.machine()} {platform.processor()} {os.cpu_count()} {torch.get_num_threads()}"
    return f"{torch.cuda.get_device_name(device)} {torch.cuda.device_count()}"


def _earlier_times(ballot: Ballot, key: str, timeout: float) -> Times | None:
    """The times that all ranks have kept; None unless all have the same."""
    store = choice_store()
    own = None if store is None else store.read(key)
    answers = set(ballot.gather(json.dumps(own, sort_keys=True), timeout))
    if own is None or len(answers) > 1:
        return None
    try:
        return Times(**{**own, "is_earlier": True})
    except TypeError:
        return None


def _measure(ballot: Ballot, ways: Ways, inputs: Sequence[Any], rounds: int, timeout: float, burst: float) -> list[Any]:
    """The samples of all ranks."""
    tensors: list[torch.Tensor] = []
    modules: list[Module] = list(ways.modules)
    clocks: list[Clock] = [_time_on_cpu]

    def prepare() -> list[bool]:
        tensors.extend(map(_random_like, inputs))
        if any(tensor.is_cuda for tensor in tensors):
            clocks[:] = [_GpuClock(ballot.group)]
            modules[:] = [_compiled(module, tensors) for module in ways.modules]
        return [made is not module for made, module in zip(modules, ways.modules, strict=True)]

    answers = _on_all_ranks(ballot, timeout, prepare)
    if any(answer != answers[0] for answer in answers):
        # Collectives of a compiled module may have another order than those of its nodes.
        modules = list(ways.modules)
    (clock,) = clocks
    runs = []
    for module in modules:
        # The first run of a way brings what it needs to the device.
        times = [_on_all_ranks(ballot, timeout, lambda module=module: clock(module, tensors, 1)) for _ in range(2)]  # type: ignore[misc]
        runs.append(_runs_in_row(max(times[-1]), burst))
    _check_programs_run(ways)
    return _on_all_ranks(ballot, timeout, lambda: _sample(modules, tensors, rounds, clock, runs))


def _check_programs_run(ways: Ways) -> None:
    """Raises `Kept` if torch's nodes run in the place of a program, since a rank has no session: so they do on all ranks."""
    for module in ways.modules[1:]:
        for op in map(op_of_region, (node.target for node in getattr(module, "graph", torch.fx.Graph()).nodes)):
            if op is not None and op.fallback is not None:
                raise Kept(Reason.RUN_FAILED, op.fallback)


def _runs_in_row(milliseconds: float, burst: float) -> int:
    """The number of runs that take so many seconds; at least 1."""
    return max(1, min(MOST_RUNS, math.ceil(burst * 1e3 / milliseconds))) if milliseconds > 0 else 1


def _compiled(module: Any, tensors: list[torch.Tensor]) -> Module:
    """The module as Inductor has it in the graph that is being compiled; as it is where Inductor refuses, or changes nothing."""
    if not any(map(_is_changed_by_inductor, module.graph.nodes)):
        return module  # type: ignore[no-any-return]
    options = {"post_grad_custom_post_pass": None, "triton.cudagraphs": False}
    try:
        return compile_by_inductor(copy.deepcopy(module), tensors, options)  # type: ignore[no-any-return]
    except Exception:
        log.debug("a region's nodes are timed one by one: Inductor does not compile them", exc_info=True)
        return module  # type: ignore[no-any-return]


def _on_all_ranks(ballot: Ballot, timeout: float, step: Callable[[], Any]) -> list[Any]:
    """The results of a step on all ranks; `Kept` if it failed on one."""
    try:
        answer = {"result": step()}
    except Exception as error:  # noqa: BLE001 - whatever it is, the others have to know
        answer = {"failure": f"rank {dist.get_rank(ballot.group)}: {_first_line(error)}"}
    answers = [json.loads(text) for text in ballot.gather(json.dumps(answer), timeout)]
    failures = [found["failure"] for found in answers if "failure" in found]
    if failures:
        raise Kept(Reason.RUN_FAILED, failures[0])
    return [found["result"] for found in answers]


def _first_line(error: Exception) -> str:
    code, message = getattr(error, "code", type(error).__name__), getattr(error, "message", str(error))
    return f"{code}: {(message.strip().splitlines() or [''])[0]}"


def _live_group(name: str) -> Any:
    if not dist.is_available() or not dist.is_initialized():
        raise Kept(Reason.CANNOT_MEASURE, "no process group is initialized")
    try:
        group = group_of(name)
    except (RuntimeError, ValueError, KeyError) as error:
        raise Kept(Reason.CANNOT_MEASURE, f"there is no group `{name}`") from error
    if dist.get_backend(group) == "fake":
        raise Kept(Reason.CANNOT_MEASURE, "the process group is a fake one")
    return group


def _random_like(value: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    if not made.is_floating_point():
        return made.zero_()
    # Floats of 8 bits have no generator of their own.
    return made.copy_(torch.randn(value.shape, device=value.device)) if made.element_size() == 1 else made.normal_()


def _sample(
    modules: Sequence[Module],
    tensors: list[torch.Tensor],
    rounds: int,
    clock: Clock,
    runs: Sequence[int],
) -> list[list[float]]:
    """Times of each module, of so many runs in a row, round by round, after one of each that does not count. The first one changes
    by round.
    """
    samples: list[list[float]] = [[] for _ in modules]
    for turn in range(-1, rounds):
        ways = list(zip(modules, samples, runs, strict=True))
        for module, sample, count in ways if turn % 2 == 0 else reversed(ways):
            taken = clock(module, tensors, count)
            if turn >= 0:
                sample.append(taken)
    return samples


def _refuse_cpu(module: Module, tensors: list[torch.Tensor], runs: int) -> float:
    """Raises `Kept`: times of the CPU say nothing of programs, which run on GPUs."""
    raise Kept(Reason.CANNOT_MEASURE, "on the CPU an op of a program runs torch's own nodes")


_time_on_cpu: Clock = _refuse_cpu
"""The clock of tensors of the CPU. There is none but those of tests."""


def _is_changed_by_inductor(node: Node) -> bool:
    """True if a node is a function or a copy; Inductor calls matmuls, collectives and programs as they are."""
    if node.op != "call_function" or collective_of(node) is not None:
        return False
    is_program = getattr(node.target, "namespace", "") == "hostir"
    return not is_program and op_name(node) not in {*VIEWS, *TURNS, *MATMULS, "_scaled_mm", "getitem", "wait_tensor"}


# The highest clock of a GPU, in cycles a second; it spins at least for as long as it is asked to.
CYCLES = 2.1e9
# The longest that it spins, in seconds: what takes the host longer has its time counted.
LONGEST_SPIN = 0.05


class _GpuClock:
    """Times runs on the device. They begin on all ranks together, and when the host has issued them."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.issue: dict[int, float] = {}
        """Seconds that the host took to issue a module, by its identity."""
        self.taken: dict[int, float] = {}
        """Seconds that a run of it took on the device."""
        self.ready = torch.zeros(1, device="cuda")

    def __call__(self, module: Module, tensors: list[torch.Tensor], runs: int) -> float:
        """Milliseconds of a run, the average of those after the first third of so many in a row."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        issue, taken = self.issue.get(id(module), 0.0), self.taken.get(id(module), 0.0)
        # Of runs that the host issues faster than the device does them, it only has to be ahead of the first.
        spin = min(2 * issue + runs * max(issue - taken, 0.0) + 1e-4, LONGEST_SPIN)
        spin_device(int(spin * CYCLES))
        dist.all_reduce(self.ready, group=self.group)
        began = time.perf_counter()
        for _ in range(runs // 3):
            module(*tensors)
        start.record()
        for _ in range(runs - runs // 3):
            module(*tensors)
        end.record()
        self.issue[id(module)] = (time.perf_counter() - began) / runs
        end.synchronize()
        milliseconds = float(start.elapsed_time(end)) / (runs - runs // 3)
        self.taken[id(module)] = milliseconds * 1e-3
        return milliseconds
