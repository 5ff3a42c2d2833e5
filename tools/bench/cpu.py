"""Measures what docs/benchmarks.md lists of the CPU, on this machine, and prints each figure beside its bar.

usage: tools/benchmark cpu [text] [passes] [startup] [matmul] [mlir]      (all of them without arguments)

Builds with `cargo build --release` first. `matmul` needs NumPy: tools/setup --bench installs it. `mlir` needs
mlir-opt: tools/setup --mlir installs it.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.generators import annotated, flat, pipelined, templates
from bench.paths import ROOT, release_tool

NULL = subprocess.DEVNULL

Command = Sequence[str | Path]


class Seconds(NamedTuple):
    """The least and the median time of a command."""

    least: float
    median: float


def build_tools() -> None:
    """Builds what is measured."""
    subprocess.run(["cargo", "build", "--release", "--workspace", "--bins"], cwd=ROOT, check=True)


def run_seconds(command: Command) -> float:
    """Seconds of a command as a whole process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=NULL, stderr=NULL)
    return time.perf_counter() - start


def seconds(command: Command, runs: int = 5) -> Seconds:
    """Times of a command as a whole process, after one run that is not counted."""
    times = sorted([run_seconds(command) for _ in range(runs + 1)][1:])
    return Seconds(times[0], times[len(times) // 2])


def seconds_in_turn(commands: Mapping[str, Command], runs: int) -> dict[str, list[float]]:
    """Times of commands as whole processes, run in turn so that all see the same machine; first ones uncounted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, command in commands.items():
            times[name].append(run_seconds(command))
    return {name: found[1:] for name, found in times.items()}


def middle_of(values: Sequence[float]) -> float:
    """The median, as one of the values."""
    return sorted(values)[len(values) // 2]


def write_pipelined(folder: Path, *, ops: int = 0, megabytes: float = 0.0) -> Path:
    """A file of pipelined loops."""
    path = folder / "generated.hir"
    with path.open("w") as file:
        pipelined.write_program(file, ops=ops, megabytes=megabytes)
    return path


# ---- parts ----


def measure_text() -> None:
    """Parse + verify + print: the whole process of hir-opt, file in and file out."""
    hir_opt = release_tool("hir-opt")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_pipelined(folder, megabytes=50)
        size = path.stat().st_size / 1e6
        least, median = seconds([hir_opt, path, "-o", "/dev/null"])
        print(f"text: {size:.0f} MB in {median:.2f} s (least {least:.2f} s):", end=" ")
        print(f"{size / median:.0f} MB/s, best {size / least:.0f} MB/s (bar: 60)")
        for ops in (1000, 10000, 100000):
            path = write_pipelined(folder, ops=ops)
            least, _ = seconds([hir_opt, path, "-o", "/dev/null"])
            print(f"text: {ops} ops in {least * 1e3:.1f} ms: {least / ops * 1e6:.2f} us an op")
        measure_notations(hir_opt, folder)


def measure_notations(hir_opt: str, folder: Path) -> None:
    """A million ops in `hir 2` and in the printed form, in turn."""
    paths: dict[str, Path] = {}
    for name in templates.NAMES:
        path = paths[f"{name}, hir 2"] = folder / f"{name}.hir"
        with path.open("w") as file:
            templates.write_program(file, name, 1_000_000)
        printed = paths[f"{name}, printed form"] = folder / f"{name}_printed.hir"
        subprocess.run([hir_opt, path, "--form=printed", "-o", printed], check=True)
    times = seconds_in_turn({name: [hir_opt, path, "-o", "/dev/null"] for name, path in paths.items()}, 5)
    for name, found in times.items():
        size, middle = paths[name].stat().st_size / 1e6, middle_of(found)
        bar = "; bar: 1.5" if name.endswith("hir 2") else ""
        print(f"text: 1,000,000 ops, {name} ({size:.0f} MB): {middle:.2f} s (least {min(found):.2f}{bar})")


def measure_passes() -> None:
    """The bars of lowering: ops of the input a second of the pass alone, and whole runs of hir-opt."""
    measured = (("streams", "stream-parallel-type", (10_000, 100_000)), ("lower", "host-ir-lower", (10_000, 100_000, 1_000_000)))
    with tempfile.TemporaryDirectory() as folder:
        for kind, name, sizes in measured:
            for ops in sizes:
                path = Path(folder) / "annotated.hir"
                with path.open("w") as file:
                    annotated.write_program(file, kind, ops)
                measure_pass(path, name, ops, ", bar: 300000" if kind == "streams" else ", bar at 100,000 ops: 2 s in all")


def measure_pass(path: Path, name: str, ops: int, bar: str) -> None:
    """One pass over one program."""
    wholes, alone = [], []
    for _ in range(3 if ops > 100_000 else 5):
        start = time.perf_counter()
        command: Command = [release_tool("hir-opt"), path, f"--pass={name}", "--timing", "-o", os.devnull]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        wholes.append(time.perf_counter() - start)
        rows = [line.split() for line in found.stderr.splitlines()]
        alone.append(sum(float(row[0]) for row in rows if len(row) > 2 and row[2] == name) / 1e3)
    whole, own = middle_of(wholes), middle_of(alone)
    print(f"passes: {name}, {ops} annotated ops: {whole:.2f} s in all,", end=" ")
    print(f"the pass alone {own:.3f} s: {ops / own:.0f} ops/s{bar}", flush=True)


def measure_startup() -> None:
    """Both tools on a small program."""
    path = ROOT / "docs/examples/printed/allgather.hir"
    for name in ("hir-opt", "hir-run"):
        check = ["--check-only", "--set", "i1=4"] if name == "hir-run" else ["-o", "/dev/null"]
        least, median = seconds([release_tool(name), path, *check], runs=50)
        print(f"startup: {name} on a small program {median * 1e3:.2f} ms (least {least * 1e3:.2f}; bar: 5)")


def measure_matmul() -> None:
    """The CPU backend's GEMM beside NumPy's."""
    import numpy

    size, ours, theirs = 2048, [], []
    generator = numpy.random.default_rng(0)
    a = generator.standard_normal((size, size), dtype=numpy.float32)
    b = generator.standard_normal((size, size), dtype=numpy.float32)
    for _ in range(5):  # in turn, so that both see the same machine
        command = ["cargo", "bench", "--quiet", "--bench", "matmul", "--", str(size)]
        found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        ours.append(float(found.stdout))
        best = float("inf")
        for _ in range(10):
            start = time.perf_counter()
            numpy.matmul(a, b)
            best = min(best, time.perf_counter() - start)
        theirs.append(best * 1e3)
    ratios = sorted(x / y for x, y in zip(ours, theirs, strict=True))
    print(f"matmul {size}^3 float: {min(ours):.1f} ms, NumPy {numpy.__version__} {min(theirs):.1f} ms,", end=" ")
    print(f"ratio {ratios[len(ratios) // 2]:.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f}; bar: 1.5)")


# ---- mlir-opt ----


def llvm_number(path: str) -> int:
    """The version of LLVM in a path below /usr/lib."""
    found = re.search(r"llvm-(\d+)", path)
    return int(found[1]) if found else 0


def newest_mlir_opt() -> str | None:
    """The newest mlir-opt: Debian keeps versions apart, below /usr/lib/llvm-N."""
    found = sorted(glob.glob("/usr/lib/llvm-*/bin/mlir-opt"), key=llvm_number)
    return shutil.which("mlir-opt") or (found[-1] if found else None)


def write_flat_programs(folder: Path, ops: int) -> dict[str, Path]:
    """The same program in each language."""
    files = {language: folder / language for language in ("mlir", "hir", "hir-short")}
    for language, path in files.items():
        with path.open("w") as file:
            flat.write_program(file, language, ops)
    return files


def measure_mlir() -> None:
    """canonicalize and cse of a flat program, whole processes, mlir-opt and hir-opt in turn."""
    mlir_opt = newest_mlir_opt()
    if mlir_opt is None:
        sys.exit("mlir: there is no mlir-opt; tools/setup --mlir installs it")
    said = subprocess.run([mlir_opt, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"version (\S+)", said)
    print(f"mlir: mlir-opt {version and version[1]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first run")
    for ops in (10000, 100000):
        with tempfile.TemporaryDirectory() as folder:
            files = write_flat_programs(Path(folder), ops)
            ours = [release_tool("hir-opt"), "--pass=canonicalize", "--pass=cse", "-o", "/dev/null"]
            commands: dict[str, Command] = {language: [*ours, path] for language, path in files.items()}
            commands["mlir"] = [mlir_opt, "--canonicalize", "--cse", "-o", "/dev/null", files["mlir"]]
            print_mlir_times(ops, files, seconds_in_turn(commands, 9))


def print_mlir_times(ops: int, files: Mapping[str, Path], times: Mapping[str, Sequence[float]]) -> None:
    """A line for each language."""
    for language, found in times.items():
        middle, size = middle_of(found), files[language].stat().st_size / 1e6
        print(f"mlir: {ops} ops, {language} ({size:.1f} MB): {middle:.3f} s (least {min(found):.3f}),", end=" ")
        ratios = sorted(theirs / mine for theirs, mine in zip(times["mlir"], found, strict=True))
        compared = f", {middle_of(ratios):.2f} times mlir-opt ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"{ops / middle / 1e3:.0f} kops/s{'' if language == 'mlir' else compared}")


PARTS = {
    "text": measure_text,
    "passes": measure_passes,
    "startup": measure_startup,
    "matmul": measure_matmul,
    "mlir": measure_mlir,
}


def main(words: Sequence[str]) -> int:
    """Builds, and runs the parts that are asked for."""
    wanted = words or list(PARTS)
    if {"-h", "--help"} & set(wanted):
        print(__doc__)
        return 0
    if unknown := [name for name in wanted if name not in PARTS]:
        print(f"tools/benchmark cpu: there is no part `{unknown[0]}`; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    build_tools()
    for name in wanted:
        PARTS[name]()
    return 0
