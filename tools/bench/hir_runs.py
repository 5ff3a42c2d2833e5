"""Timed runs of hir-run on a GPU, and of functions of torch beside them."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
"""What `hir-run --bench --json` writes of a program."""


class TimedRuns:
    """hir-run with --bench, and a folder for programs."""

    def __init__(self, tool: str, folder: str | Path, rounds: int) -> None:
        self.tool, self.folder, self.rounds, self.number = tool, Path(folder), rounds, 0

    def bench(self, text: str, *flags: str, iterations: int = 30) -> Figures:
        """The figures of one program."""
        return self.bench_all([text], *flags, iterations=iterations)[0]

    def bench_all(self, texts: Sequence[str], *flags: str, iterations: int = 30) -> list[Figures]:
        """The figures of programs that run in turn: starting on several devices takes longer than they do."""
        self.number += 1
        out = self.folder / f"{self.number}.json"
        paths = [self.folder / f"{self.number}.{index}.hir" for index in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        timed = ["--backend=cuda", "--bench", f"--iters={iterations}", "--json", str(out)]
        run_checked([self.tool, *map(str, paths), *timed, *flags])
        figures: list[Figures] = json.loads(out.read_text())["programs"]
        return figures


def run_checked(command: Sequence[str]) -> str:
    """Standard output of a command. Raises `RuntimeError` with the end of standard error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def event_ms(function: Callable[[], object], iterations: int = 30) -> float:
    """Median milliseconds of a torch function by device events, one call at a time."""
    import torch

    for _ in range(5):
        function()
    times = []
    for _ in range(iterations):
        torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return float(statistics.median(times))


def medians_in_turn(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Medians of rounds that alternate."""
    a, b = [], []
    for _ in range(rounds):
        a.append(ours())
        b.append(theirs())
    return statistics.median(a), statistics.median(b)


def print_beside_torch(part: str, what: str, mine: float, theirs: float, flop: int = 0) -> None:
    """A line with both times; with `flop` operations also the rates."""
    rate = f", {flop / mine / 1e9:.0f} against {flop / theirs / 1e9:.0f} TFLOP/s" if flop else ""
    print(f"{part}: {what}: {mine:.4f} ms, torch {theirs:.4f} ms, {theirs / mine:.3f}x torch's speed{rate}", flush=True)
