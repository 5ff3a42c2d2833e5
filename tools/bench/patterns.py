"""Times the programs of docs/patterns with one stream and with as many as they propose (else four), in turn.

usage: tools/benchmark patterns [--hir-run PATH] [--rounds N] [--model] [FLAG...]

FLAGs go to hir-run, such as --map-backend=NCCL=CUDA where ranks share a GPU. --model takes the times of the cost
model instead. Prints the medians and the ratio.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
from collections.abc import Callable, Sequence

from bench.paths import ROOT, release_tool

SIZES = {
    "fork_join": "b=16,m=512,k=4096,n=512",
    "ring": "m=1024,k=4096,n=2048",
    "reduce_scatter": "c=4,m=512,k=4096,n=2048",
    "ring_accumulate": "m=2048,k=4096,n=2048",
    "all_to_all": "n=4194304",
    "pipeline": "b=8,m=1024,k=4096,h=4096,n=2048",
    "double_buffer": "b=8,m=1024,k=4096,n=2048",
    "copy_stream": "b=8,m=1024,k=4096,n=2048",
    "tree": "n=16777216",
}
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def model_ms(command: Sequence[str]) -> float:
    """The time of the run by the cost model, in milliseconds."""
    chart = subprocess.run([*command, "--check-only", "--timeline"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"ranks?, ([0-9.]+) (\w+), worked out by the model of", chart)
    if found is None:
        raise ValueError(f"{' '.join(command)} prints no time")
    return float(found[1]) * UNITS[found[2]]


def bench_ms(command: Sequence[str]) -> float:
    """The median of 20 runs, in milliseconds."""
    whole = [*command, "--bench", "--iters", "20", "--json", "-", "-q"]
    text = subprocess.run(whole, check=True, capture_output=True, text=True).stdout
    return float(json.loads(text)["programs"][0]["median_ms"])


def main(words: Sequence[str]) -> int:
    """Prints a line for each pattern."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark patterns", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hir-run", default=release_tool("hir-run"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", action="store_true")
    options, flags = parser.parse_known_args(words)
    measure: Callable[[Sequence[str]], float] = model_ms if options.model else bench_ms
    rounds = 1 if options.model else options.rounds
    print(f"{'pattern':<16} {'1 stream':>10} {'streams':>10}  ratio")
    for name, sizes in SIZES.items():
        command = [options.hir_run, str(ROOT / f"docs/patterns/{name}.hir"), "--set", sizes, *flags]
        one, several = [], []
        for _ in range(rounds):
            one.append(measure([*command, "--streams", "1"]))
            several.append(measure(command))
        alone, overlapped = statistics.median(one), statistics.median(several)
        print(f"{name:<16} {alone:>7.3f} ms {overlapped:>7.3f} ms  {overlapped / alone:.3f}", flush=True)
    return 0
