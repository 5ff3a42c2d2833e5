"""The use of the time of a step on a GPU: its kernels by kind, and the gaps between them, by torch's profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

# Kinds by a part of a kernel's name in small letters; the first that fits counts.
KINDS = (
    ("NCCL", ("nccl",)),
    ("attention", ("sdpa", "flash", "fmha", "cudnn")),
    ("GEMMs", ("nvjet", "gemm", "cutlass", "splitk")),
    ("copies between GPUs", ("memcpy ptop", "memcpy peer")),
    ("copies", ("memcpy", "memset")),
    ("functions", ("triton", "elementwise", "reduce_kernel")),
    ("programs' kernels", ("hir",)),
)
BETWEEN_GPUS = "copies between GPUs"
# The kernel in front of the step that counts.
MARK = "spin_kernel"
GPU_EVENTS = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True)
class Kernel:
    """A kernel or a copy: start and duration in microseconds."""

    start: float
    duration: float
    name: str
    stream: int

    @property
    def kind(self) -> str:
        """One of `KINDS`, or `other`."""
        name = self.name.lower()
        return next((kind for kind, parts in KINDS if any(part in name for part in parts)), "other")

    @property
    def end(self) -> float:
        """In microseconds."""
        return self.start + self.duration


def kernels_of_step(run: Callable[[], Any], before: Callable[[], None], steps: int = 3) -> list[Kernel]:
    """The kernels of the last of some steps in a row, each after `before`. All ranks call it."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            before()
            torch.cuda._sleep(1)
            run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return last_step(json.loads(path.read_text(encoding="utf-8"))["traceEvents"])


def last_step(events: Sequence[dict[str, Any]]) -> list[Kernel]:
    """The kernels after the last mark of a trace, by their start."""
    found = [
        Kernel(event["ts"], event["dur"], event["name"], event.get("args", {}).get("stream", 0))
        for event in events
        if event.get("ph") == "X" and event.get("cat") in GPU_EVENTS
    ]
    found.sort(key=lambda kernel: kernel.start)
    marks = [at for at, kernel in enumerate(found) if MARK in kernel.name]
    return found[marks[-1] + 1 :] if marks else found


def gaps_of(kernels: Sequence[Kernel]) -> list[float]:
    """The microseconds in which no kernel runs, from the first to the last; copies between GPUs do not count as running."""
    gaps: list[float] = []
    running = [kernel for kernel in kernels if kernel.kind != BETWEEN_GPUS]
    end = running[0].end if running else 0.0
    for kernel in running[1:]:
        if kernel.start > end:
            gaps.append(kernel.start - end)
        end = max(end, kernel.end)
    return gaps


def summary_of(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Milliseconds of the step, of its gaps, of those above 8 us, and of each kind of kernels, which may run side by side."""
    if not kernels:
        return {}
    gaps = gaps_of(kernels)
    found = {
        "step": max(kernel.end for kernel in kernels) - kernels[0].start,
        "gaps": sum(gaps),
        "gaps above 8 us": sum(gap for gap in gaps if gap > 8),
    }
    for kind in [*(kind for kind, _ in KINDS), "other"]:
        found[kind] = sum(kernel.duration for kernel in kernels if kernel.kind == kind)
    return {name: microseconds / 1e3 for name, microseconds in found.items()}


def table_of_summaries(ways: Mapping[str, Sequence[dict[str, float]]]) -> str:
    """A line for each rank of each way, with its summary in milliseconds."""
    columns = ["step", "gaps", "gaps above 8 us", *(kind for kind, _ in KINDS), "other"]
    head = "by the profiler, ms"
    width = max(map(len, [head, *ways]))
    lines = ["  ".join([head.ljust(width), "rank", *(column.rjust(5) for column in columns)])]
    for way, ranks in ways.items():
        for rank, summary in enumerate(ranks):
            cells = [f"{summary.get(column, 0.0):.2f}".rjust(max(len(column), 5)) for column in columns]
            name = way if rank == 0 else ""
            lines.append("  ".join([name.ljust(width), f"{rank:>4}", *cells]))
    return "\n".join(lines)
