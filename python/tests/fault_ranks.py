"""Ranks of the fault injection: a fault of `Overlap`'s own, on one rank or on all, in a job that torch alone finishes.

`FAULTS` has them by name. Each job compiles a layer with two regions and runs it twice; the numbers are those of eager torch, the
ranks agree about what is fused, and there is one warning at most for a rank's compilation and one for its runs. Where a program
has to run, a session is a stand-in for one on a GPU: it meets the other ranks as that one does, runs the program on the CPU, and
the tensors stay those of the CPU.
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.fx.experimental.proxy_tensor import make_fx

import hostir.torch as hir
from expert_models import batched, layer_of
from hostir import HostIrError, _native
from hostir._program import Program
from hostir.torch import Reason, _exchange, _monitor, _op, _registration, _session, _session_vote
from hostir.torch._oracle import _run_program
from hostir.torch._overlap import ballot, measure, overlap as overlap_module, programs, rewrite
from hostir.torch._overlap.choices import ChoiceStore
from hostir.torch._verdicts import RankVerdicts

SHAPES = [(4, 8), (8, 6), (6, 8), (8, 2)]


def layer(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, q: torch.Tensor) -> Any:
    """A block with both ends, and an all-reduce."""
    group = dist.group.WORLD
    rows = fc.all_gather_tensor(x, 0, group)
    block = fc.reduce_scatter_tensor(torch.relu(rows @ w) @ v, "sum", 0, group)
    return block, fc.all_reduce(x @ q, "sum", group)


def experts(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor]:
    """Two experts a rank, with an exchange before them and one after."""
    return (layer_of(batched)(x, w, v),)


EXPERT_SHAPES = [(4, 3, 8), (2, 8, 6), (2, 6, 8)]


def numbers(step: int, shapes: list[Any] = SHAPES) -> list[torch.Tensor]:
    """The tensors of this rank in a step."""
    generator = torch.Generator().manual_seed(10 * step + dist.get_rank())
    return [torch.randn(*shape, generator=generator) for shape in shapes]


@dataclass(frozen=True)
class Fault:
    """A function that fails, and what it does then."""

    owner: Any
    name: str
    effect: Callable[..., Any]
    ranks: tuple[int, ...] = (1,)
    settings: tuple[tuple[str, Any], ...] = (("choose", "always"),)
    layer: Callable[..., Any] = layer
    shapes: tuple[Any, ...] = tuple(SHAPES)
    fused: int | None = None
    """The number of collectives that all ranks fuse nevertheless; None if that depends on where the fault is met first."""


def raises(error: BaseException) -> Callable[..., Any]:
    """A function that raises."""

    def fail(*_: Any, **__: Any) -> Any:
        raise type(error)(*error.args)

    return fail


def coded(code: str, message: str) -> Callable[..., Any]:
    """A function that raises a coded error."""
    return lambda *_, **__: _native.raise_error(code, message, None)


def after_other_calls(count: int, original: Callable[..., Any], effect: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails from a call on."""
    calls = []

    def fail(*values: Any, **settings: Any) -> Any:
        calls.append(values)
        return original(*values, **settings) if len(calls) <= count else effect(*values, **settings)

    return fail


MISTAKE = raises(ZeroDivisionError("a mistake of ours"))
PANIC = raises(RuntimeError("an internal error of hostir"))
FULL = raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
NO_THREAD = raises(RuntimeError("can't start new thread"))
NO_MEMORY = raises(torch.OutOfMemoryError("CUDA out of memory"))
MEASURED = (("choose", "measure"), ("rounds", 6), ("timeout", 60.0))


class StandIn:
    """A session that meets the other ranks twice, and runs its program on the CPU."""

    steps: tuple[str, ...] = ("plan", "connect")

    def __init__(self, program: Any, inputs: Any, outputs: Any, plane: Any, settings: Any, session: Any) -> None:
        self.program, self.inputs, self.outputs = Program(program), inputs, outputs
        self.exchange = _exchange.exchange_of(dist.group.WORLD, 60.0)
        self.count, self.is_abandoned = 0, False
        assert plane is self.exchange.control_plane
        for step in self.steps:
            self.meet(step)

    def meet(self, step: str) -> None:
        """A step of all ranks, as the native session does it: its own failure is told, and others' are raised."""
        messages, trouble = self.exchange.gather(step, step.encode())
        if trouble is not None:
            _native.raise_error("H0528", f"the ranks do not meet: {_exchange.describe_trouble(trouble)}", None)
        assert len(messages) == 2

    def run(self, stream: int, addresses: list[int]) -> None:
        """Runs the program on the numbers at the addresses."""
        self.count += 1
        assert not self.is_abandoned
        given = {name: tensor_at(at, *layout) for name, at, layout in zip(self.program.inputs, addresses, self.inputs)}
        made = _run_program(self.program, given, RankVerdicts("stand-in", dist.group.WORLD))
        for (position, layout), at in zip(self.outputs, addresses[len(self.inputs) :], strict=True):
            target = tensor_at(at, *layout)
            target.copy_(torch.from_dlpack(made[position][1]).reshape(target.shape))

    def runs(self) -> int:
        return self.count

    def is_complete(self) -> bool:
        return True

    def is_recorded(self) -> bool:
        return False

    def symmetric(self) -> list[Any]:
        return []

    def abandon(self) -> None:
        self.is_abandoned = True


def tensor_at(address: int, dtype: str, shape: list[int], strides: list[int]) -> torch.Tensor:
    """The tensor at an address."""
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    data = (ctypes.c_float * count).from_address(address)
    assert dtype == "float32"
    return torch.frombuffer(data, dtype=torch.float32).as_strided(shape, strides)


class Failing(StandIn):
    """A session that fails between its steps."""

    def meet(self, step: str) -> None:
        if step == "connect":
            _native.raise_error("H0528", "the driver is of another version than this one's", None)
        super().meet(step)


class Planless(StandIn):
    """A session that fails before the others are met."""

    steps = ()

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        raise RuntimeError("an internal error of hostir")


class LateFailure(StandIn):
    """A session that fails when all ranks are connected."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        raise torch.OutOfMemoryError("CUDA out of memory")


def native_with(session: Any) -> Any:
    """The extension with another class of sessions."""
    known = {name: getattr(_native, name) for name in dir(_native) if not name.startswith("__")}
    return types.SimpleNamespace(**{**known, "Session": session})


def names_in_graph(module: torch.fx.GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


FAULTS = {
    # Before, in the midst of and after the change of a graph.
    "waits": Fault(overlap_module, "merge_waits", MISTAKE, fused=0),
    "views": Fault(overlap_module, "merge_views", MISTAKE, fused=0),
    "source lines": Fault(overlap_module, "source_line", MISTAKE, fused=0),
    "index": Fault(overlap_module, "GraphIndex", MISTAKE, fused=0),
    "gathers": Fault(overlap_module, "find_gather", MISTAKE),
    "sums": Fault(overlap_module, "find_sum", MISTAKE),
    "joins": Fault(overlap_module, "join_regions", MISTAKE),
    "text": Fault(overlap_module, "write_region", MISTAKE, fused=0),
    "text on all ranks": Fault(overlap_module, "write_region", MISTAKE, ranks=(0, 1), fused=0),
    "second text": Fault(overlap_module, "write_region", after_other_calls(1, overlap_module.write_region, MISTAKE)),
    "parser": Fault(programs, "parse", coded("H0611", "a text that the parser refuses"), fused=0),
    "parser's panic": Fault(programs, "parse", PANIC, fused=0),
    "verifier": Fault(Program, "verify", coded("H0611", "shapes that do not fit"), fused=0),
    "lowering": Fault(Program, "run_passes", coded("H0614", "a pass that cannot"), fused=0),
    "lowering's panic": Fault(Program, "run_passes", PANIC, fused=0),
    "proof refuses": Fault(programs, "_check_runs", coded("H0614", "a race"), fused=0),
    "proof's panic": Fault(Program, "check", PANIC, fused=0),
    "no thread for the proof": Fault(Program, "check", NO_THREAD, fused=0),
    "body": Fault(overlap_module, "region_body", MISTAKE, fused=0),
    "op": Fault(programs, "Op", MISTAKE, fused=0),
    "registration": Fault(_op, "register_op", coded("H0611", "an op that torch does not take"), fused=0),
    "trial of the change": Fault(overlap_module, "try_replacement", MISTAKE, fused=0),
    "call": Fault(rewrite, "call_program", MISTAKE, fused=0),
    "order": Fault(rewrite, "_restore_order", MISTAKE, fused=0),
    "second order": Fault(rewrite, "_restore_order", after_other_calls(2, rewrite._restore_order, MISTAKE), fused=2),
    "out of memory in the pass": Fault(overlap_module, "region_body", raises(MemoryError()), fused=0),
    "places": Fault(overlap_module, "announce_place", MISTAKE, fused=0),
    "places that are told wrong": Fault(overlap_module, "check_topology", MISTAKE, ranks=(0, 1), fused=0),
    # While it is measured.
    "no thread to measure": Fault(measure, "ThreadPoolExecutor", NO_THREAD, settings=MEASURED, fused=0),
    "torch's side": Fault(overlap_module, "torch_module", MISTAKE, settings=MEASURED, fused=0),
    "no memory for numbers": Fault(measure, "_random_like", NO_MEMORY, settings=MEASURED, fused=0),
    "names of devices": Fault(measure, "_device_name", MISTAKE, settings=MEASURED, fused=0),
    "driver that cannot run what is measured": Fault(_session, "_native", native_with(Failing), settings=MEASURED, fused=0),
    "settings of a key": Fault(measure, "_settings", MISTAKE, settings=MEASURED, fused=0),
    "disk full": Fault(tempfile, "mkstemp", FULL, settings=MEASURED, fused=3),
    "folder of another": Fault(os, "mkdir", raises(PermissionError(errno.EACCES, "denied")), settings=MEASURED, fused=3),
    "choices that cannot be written": Fault(ChoiceStore, "write", MISTAKE, settings=MEASURED, fused=0),
    "choices that cannot be read": Fault(ChoiceStore, "read", MISTAKE, settings=MEASURED, fused=0),
    # Before the first run of a session.
    "layouts of results": Fault(_op, "FakeTensorMode", MISTAKE, fused=3),
    "libraries": Fault(_session, "preload_libraries", FULL, fused=3),
    "exchange": Fault(_session, "exchange_of", PANIC, fused=3),
    "devices": Fault(torch.cuda, "get_device_properties", PANIC, fused=3),
    "capture": Fault(torch.cuda, "is_current_stream_capturing", lambda: True, ranks=(0, 1), fused=3),
    "foreign driver": Fault(_session, "_native", native_with(Failing), fused=3),
    "foreign driver on all ranks": Fault(_session, "_native", native_with(Failing), ranks=(0, 1), fused=3),
    "session's panic": Fault(_session, "_native", native_with(Planless), fused=3),
    "session's panic on the first rank": Fault(_session, "_native", native_with(Planless), ranks=(0,), fused=3),
    "no memory for a session": Fault(_session, "_native", native_with(LateFailure), fused=3),
    "monitor": Fault(threading.Thread, "start", NO_THREAD, fused=3),
    "monitor's heartbeat": Fault(_exchange.GroupExchange, "beat", PANIC, fused=3),
    "symmetric memory": Fault(_session, "_SymmetricTensors", MISTAKE, fused=3),
    "prepared call": Fault(_session, "_Prepared", MISTAKE, fused=3),
}


# The same job with experts, which have modules of their own.
OF_EXPERTS = {"layer": experts, "shapes": tuple(EXPERT_SHAPES)}
COMMON = [
    *("parser", "verifier", "proof refuses", "proof's panic", "body", "op", "registration", "trial of the change", "call", "order"),
    *("disk full", "no memory for numbers", "driver that cannot run what is measured", "exchange", "foreign driver"),
    *("session's panic", "session's panic on the first rank", "no memory for a session", "monitor", "prepared call"),
]
FAULTS |= {
    "experts": Fault(overlap_module, "find_experts", MISTAKE, fused=0, **OF_EXPERTS),
    "text of experts": Fault(overlap_module, "write_experts", MISTAKE, fused=0, **OF_EXPERTS),
    **{f"experts: {name}": replace(FAULTS[name], fused=2 if FAULTS[name].fused else 0, **OF_EXPERTS) for name in COMMON},
}


def current_stream(device: int) -> int:
    """The only stream."""
    return 0


@contextmanager
def sessions_on_the_cpu() -> Iterator[list[StandIn]]:
    """Programs run on tensors of the CPU, by stand-ins for sessions; gives those that were made."""
    made: list[StandIn] = []

    class Noted(StandIn):
        def __init__(self, *values: Any) -> None:
            super().__init__(*values)
            made.append(self)

    device = types.SimpleNamespace(uuid=dist.get_rank())
    original = _registration._run

    def run(op: Any, *values: Any) -> Any:
        given = [value for value in values if isinstance(value, torch.Tensor)]
        is_real = all(type(one) is torch.Tensor for one in given) and torch._C._len_torch_dispatch_stack() == 0
        return _registration._run_on_gpu(op, *values) if is_real else original(op, *values)

    with ExitStack() as stack:
        for owner, name, value in (
            (_registration, "_run", run),
            (_session, "_native", native_with(Noted)),
            (torch.cuda, "is_current_stream_capturing", lambda: False),
            (torch.cuda, "get_device_properties", lambda _: device),
            (_session, "preload_libraries", tuple),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", current_stream, create=True))
        yield made


@contextmanager
def own_process() -> Iterator[None]:
    """What belongs to a process is as in a new one: ops, programs, exchanges, the monitor and warnings."""
    for known in (programs._PROGRAMS, programs._OPS, _exchange._exchanges, _session_vote._counts, ballot._ballots):
        known.clear()
    _op._warned_of_fallback = False
    folder = tempfile.TemporaryDirectory()
    with folder as name, mock.patch.object(_monitor, "_monitor", _monitor._Monitor()):
        os.environ["HOSTIR_CACHE"] = name
        yield
    os.environ["HOSTIR_CACHE"] = "0"


def time_of(module: Any, tensors: Any, runs: int) -> float:
    """Programs are faster."""
    module(*tensors)
    return 1.0 if any("hostir" in name for name in names_in_graph(module)) else 2.0


def job(fault: Fault | None, with_pass: bool = True) -> tuple[hir.Overlap, list[StandIn], list[str]]:
    """The job of a rank: it compiles, and runs two steps. Gives the pass, the sessions and the texts of warnings."""
    is_here = fault is not None and dist.get_rank() in fault.ranks
    settings = dict(fault.settings if fault else (("choose", "always"),))
    with ExitStack() as stack:
        stack.enter_context(own_process())
        sessions = stack.enter_context(sessions_on_the_cpu())
        stack.enter_context(mock.patch.object(measure, "_time_on_cpu", time_of))
        for owner in (_session_vote, ballot):
            stack.enter_context(mock.patch.object(owner, "AFTER_ANNOUNCEMENT", 0.2))
        found = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        function, shapes = (fault.layer, list(fault.shapes)) if fault else (layer, SHAPES)
        module = make_fx(function, tracing_mode="fake")(*numbers(0, shapes))
        overlap = hir.Overlap(**settings)
        if is_here:
            stack.enter_context(mock.patch.object(fault.owner, fault.name, fault.effect))
        if with_pass:
            overlap(module)
        for step in range(2):
            given = numbers(step, shapes)
            for made, wanted in zip(module(*given), function(*given), strict=True):
                torch.testing.assert_close(made, wanted)
        texts = [str(one.message) for one in found if "hir.Overlap" in str(one.message)]
        return overlap, sessions, texts


def told_by_all(what: Any) -> list[Any]:
    """The answers of all ranks."""
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, what)
    return told


def no_fault(group: Any) -> None:
    """Without a fault programs run, and nobody is warned."""
    overlap, sessions, texts = job(None)
    assert [session.count for session in sessions] == [2, 2] and not texts
    assert len(overlap.report().fused) == 3, str(overlap.report())


def one_rank_without_the_pass(group: Any) -> None:
    """A rank whose graph has torch's nodes alone, as after a fault that nobody could tell, does not come to a vote."""
    with ExitStack() as stack:
        for owner, name, value in ((_session_vote, "LONGEST_VOTE", 1.0), (_session, "_TIMEOUT", 1.0)):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(mock.patch.object(overlap_module, "is_live_group", return_value=False))
        _, sessions, texts = job(None, with_pass=dist.get_rank() == 0)
    assert not any(session.count for session in sessions)
    assert len(texts) == 1 - dist.get_rank(), texts


def run_fault(name: str) -> Callable[[Any], None]:
    """The work of ranks for a fault."""
    return _Faulty(name)


class _Faulty:
    """A job with a fault; it pickles."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, group: Any) -> None:
        fault = FAULTS[self.name]
        overlap, sessions, texts = job(fault)
        lines = [line.is_fused for line in overlap.report().lines]
        if fault.fused is not None:
            assert sum(lines) == fault.fused, str(overlap.report())
        # A graph that nobody could look at has no lines.
        told = [one for one in told_by_all(lines) if one]
        assert all(one == told[0] for one in told) and (len(told) == 2 or not any(told[0])), told
        assert len(texts) <= 2, texts
        counts = told_by_all([session.count for session in sessions])
        runs = [sum(one) for one in counts]
        assert len(set(runs)) == 1, counts
        reasons = {line.reason for line in overlap.report().kept}
        assert dict(fault.settings)["choose"] != "always" or reasons <= {
            Reason.INTERNAL_ERROR,
            Reason.NOT_PROVED,
            Reason.RANKS_DISAGREE,
        }, reasons


def a_failed_run_names_its_place(group: Any) -> None:
    """After a run has begun, an error ends the job: with the op, the rank and the run."""

    class FailsLater(StandIn):
        def run(self, stream: int, addresses: list[int]) -> None:
            if self.count == 1:
                _native.raise_error("H0528", "the device does not answer", None)
            super().run(stream, addresses)

    with own_process(), sessions_on_the_cpu(), mock.patch.object(_session, "_native", native_with(FailsLater)):
        module = make_fx(layer, tracing_mode="fake")(*numbers(0))
        overlap = hir.Overlap(choose="always")
        overlap(module)
        module(*numbers(0))
        try:
            module(*numbers(1))
        except HostIrError as error:
            assert error.code == "H0528" and "in hostir::region_" in str(error), error
            assert f"on rank {dist.get_rank()}, run 1" in str(error), error
        else:
            raise AssertionError("a failed run goes on")
