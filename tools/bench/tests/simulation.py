"""Made-up times whose ratios are known, and a stand-in for torch's processes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from bench.overlap import bars
from bench.overlap.records import RowRecord, Series

# Ours is 1.10 times as fast as torch's best, a graph, and 4 % above the slower of product and communication.
PLAIN = {
    "push": 1.06,
    "serial": 1.6,
    "gemm": 1.02,
    "gemm-parts": 1.0,
    "comm": 0.4,
    "torch-serial": 1.5,
    "async-tp": 1.2,
    "torch-serial-graph": 1.45,
    "async-tp-graph": 1.144,
    "vllm-ring": 0.9,
}
GRAPHS = {
    "push-graph": 1.04,
    "serial-graph": 1.55,
    "gemm-graph": 1.01,
    "gemm-parts-graph": 1.0,
    "comm-graph": 0.4,
    **{way: ms for way, ms in PLAIN.items() if bars.is_torch(way)},
}

# Answers as torch_process.py does, with made-up times. The way `ends` takes the process with it when it is tried.
TORCH_STAND_IN = """
import json, sys
def tell(answer): print(json.dumps(answer), flush=True)
tell({"torch": "stand-in"})
for line in sys.stdin:
    order = json.loads(line)
    if order["do"] == "prepare":
        for way in ("torch-serial", "ends"):
            if way in order["without"]: continue
            tell({"trying": way})
            if way == "ends": sys.exit("as it was told to")
        tell({"ways": ["torch-serial"], "failed": {"flashinfer": "not there"}})
    elif order["do"] == "turn": tell({"times": {"torch-serial": [1.5] * order["runs"]}})
    else: tell({})
"""


class Machine:
    """Times of ways that share a clock, which drifts by some percent from turn to turn, and noise of each run."""

    def __init__(self, seed: int, drift: float = 0.05, noise: float = 0.01) -> None:
        self.random, self.drift, self.noise, self.speed = random.Random(seed), drift, noise, 1.0

    def turn(self, times: Mapping[str, float], runs: int = 5) -> dict[str, list[float]]:
        """Some runs of each way, at one speed."""
        self.speed = max(0.5, self.speed * math.exp(self.random.gauss(0, self.drift)))
        return {way: [ms * self.speed * self.noise_factor() for _ in range(runs)] for way, ms in times.items()}

    def noise_factor(self) -> float:
        """The noise of a run."""
        return math.exp(self.random.gauss(0, self.noise))

    def series(self, times: Mapping[str, float], turns: int = 12, graph: bool = False) -> Series:
        """Turns of all ways."""
        found: dict[str, list[list[float]]] = {}
        for _ in range(turns):
            for way, runs in self.turn(times).items():
                found.setdefault(way, []).append(runs)
        return {"graph": graph, "turns": found}

    def row(self, kind: str, plain: Mapping[str, float], graphs: Mapping[str, float] | None = None) -> RowRecord:
        """A row with a series of plain runs and, if `graphs` has times, one of graphs."""
        series = [self.series(plain)] + ([self.series(graphs, graph=True)] if graphs else [])
        return {"kind": kind, "dtype": "bfloat", "m": 8, "k": 8, "n": 8, "devices": 4, "series": series, "notes": []}
