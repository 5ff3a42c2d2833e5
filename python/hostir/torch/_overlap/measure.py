"""Times of a region as torch has it and as a program, taken once when a graph is compiled."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hostir._errors import HostIrError
from hostir.torch._group import group_of
from hostir.torch._overlap.reasons import Kept, Reason

__all__ = ["Times", "measure_both"]


@dataclass(frozen=True)
class Times:
    """Medians of the slowest rank, in milliseconds."""

    serial: float
    measured: float

    @property
    def gain(self) -> float:
        """How many times faster the program is."""
        return self.serial / self.measured if self.measured else float("inf")


def measure_both(
    name: str, group: str, modules: tuple[Callable[..., Any], Callable[..., Any]], inputs: Sequence[Any], rounds: int
) -> Times:
    """Times torch's nodes and the program in turn, on tensors like `inputs`. All ranks of the group call it.

    Raises `Kept` where that is impossible.
    """
    process_group = _live_group(group)
    _agree(name, process_group)
    with ExitStack() as stack:
        _leave_modes(stack)
        stack.enter_context(torch.no_grad())
        tensors = [_random_like(value) for value in inputs]
        samples, failure = _sample(modules, tensors, rounds)
        medians = [statistics.median(sample) for sample in samples] if failure is None else None
        found: list[Any] = [None] * process_group.size()
        dist.all_gather_object(found, (medians, failure), group=process_group)
    failures = [text for _, text in found if text is not None]
    if failures:
        raise Kept(Reason.RUN_FAILED, failures[0])
    return Times(*(max(values) for values in zip(*(times for times, _ in found))))


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


def _agree(name: str, group: Any) -> None:
    """All ranks are about to time the same region."""
    with ExitStack() as stack:
        _leave_modes(stack)
        found: list[Any] = [None] * group.size()
        dist.all_gather_object(found, name, group=group)
    if len(set(found)) > 1:
        raise Kept(Reason.RANKS_DISAGREE, ", ".join(sorted(set(found))))


def _leave_modes(stack: ExitStack) -> None:
    """Real tensors, also while a compiler traces fake ones."""
    from torch.utils._python_dispatch import _disable_current_modes

    stack.enter_context(_disable_current_modes())


def _random_like(value: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.normal_() if made.is_floating_point() else made.zero_()


def _sample(
    modules: Sequence[Callable[..., Any]], tensors: list[torch.Tensor], rounds: int
) -> tuple[list[list[float]], str | None]:
    """Times of each module, round by round. The text of an error that the program raised in its first run."""
    on_gpu = any(tensor.is_cuda for tensor in tensors)
    clock = _time_on_gpu if on_gpu else _time_on_cpu
    try:
        for _ in range(2):
            for module in modules:
                clock(module, tensors)
    except HostIrError as error:
        return [], f"{error.code}: {error.message}"
    return [list(times) for times in zip(*([clock(module, tensors) for module in modules] for _ in range(rounds)))], None


def _time_on_cpu(module: Callable[..., Any], tensors: list[torch.Tensor]) -> float:
    start = time.perf_counter()
    module(*tensors)
    return (time.perf_counter() - start) * 1e3


def _time_on_gpu(module: Callable[..., Any], tensors: list[torch.Tensor]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    module(*tensors)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))
