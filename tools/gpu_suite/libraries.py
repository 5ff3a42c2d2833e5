"""Parts that other programs carry out: examples of the library, the Python package's tests, benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.paths import ROOT, TOOLS
from gpu_suite.suite import Suite

EXAMPLES = ("session", "processes")


def example(suite: Suite, name: str) -> Path:
    """An example of the crate hostir-cuda."""
    return suite.tool.parent / "examples" / name


def run_sessions(suite: Suite) -> None:
    """The library beside another CUDA user of its process, and in one process a rank."""
    failing = [("processes", ["2", "drops"]), ("processes", ["3", "gives-up"])]
    runs: list[tuple[str, list[str]]] = [("session", []), ("processes", ["2"]), ("processes", ["4"]), *failing]
    for name, arguments in runs:
        suite.expect(" ".join([f"examples/{name}", *arguments]), [str(example(suite, name)), *arguments], 0)


def run_torch(suite: Suite) -> None:
    """Programs as ops of torch; each case of python/tests/gpu is a line."""
    command = [sys.executable, str(ROOT / "python/tests/gpu/run.py")]
    if suite.options.only:
        command.append(suite.options.only)
    done = subprocess.run(command, capture_output=True, text=True, timeout=suite.options.seconds, check=False)
    print(done.stdout, end="", flush=True)
    lines = done.stdout.splitlines()
    suite.passed += sum(line.startswith("ok ") for line in lines)
    failed = [line.removeprefix("FAILED ") for line in lines if line.startswith("FAILED ")]
    if done.returncode != 0 and not failed:
        failed = [f"torch: exit {done.returncode}"]
        print(f"FAILED {failed[0]}\n{done.stderr[-2000:]}", flush=True)
    suite.failed += failed


def run_overlap(suite: Suite) -> None:
    """Ratios to torch, with verdicts on the bars; it says itself what failed."""
    suite.measured = True
    command = [sys.executable, str(TOOLS / "overlap-bench"), "--hir-run", suite.options.hir_run]
    command += ["--seconds", str(suite.options.seconds)]
    command += ["--copies"] if suite.count > 1 else ["--share", "4", "--rows", "rs1,small-rs,ar1,mlp"]
    if subprocess.run(command, check=False).returncode != 0:
        suite.failed.append("overlap")


def run_benchmarks(suite: Suite) -> None:
    """The figures of docs/benchmarks.md."""
    suite.measured = True
    command = [sys.executable, str(TOOLS / "benchmark"), "gpu", "--hir-run", suite.options.hir_run]
    subprocess.run(command, check=False)
