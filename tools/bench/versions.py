"""Compares the CPU time of two versions of hir-opt and hir-run: text, passes, building plans.

usage: tools/benchmark versions OLD NEW [--runs N]

OLD and NEW are folders with release builds of hir-opt and hir-run. Each command runs N times (15) with each version, in
turn; printed is the least CPU time (user and system) of either and their ratio. The bar for changes that are meant to
cost nothing is 1.05. Exit status: 0 all within it, 1 one is not, 2 the command line is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.generators import annotated, pipelined
from bench.paths import ROOT

BAR = 1.05


class Measurement(NamedTuple):
    """A command of one of the tools."""

    title: str
    tool: str
    arguments: Sequence[str | Path]


def cpu_seconds(command: Sequence[str | Path]) -> float:
    """The CPU time of a command, which has to succeed."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status != 0:
            errors.seek(0)
            sys.exit(f"versions: {' '.join(map(str, command))} failed:\n{errors.read().decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def write_annotated(path: Path, kind: str) -> Path:
    """A file with 50,000 annotated ops."""
    with path.open("w") as file:
        annotated.write_program(file, kind, 50_000)
    return path


def measurements(folder: Path) -> list[Measurement]:
    """All measurements; their programs are written to a folder."""
    text = folder / "text.hir"
    with text.open("w") as file:
        pipelined.write_program(file, megabytes=20)
    lower = write_annotated(folder / "lower.hir", "lower")
    streams = write_annotated(folder / "streams.hir", "streams")
    pipeline = ROOT / "docs/examples/printed/ag_matmul_p2p.hir"
    sizes = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32"]
    null = ["-o", os.devnull]
    cleanup = ["--pass=canonicalize", "--pass=cse", "--pass=dce"]
    loop = write_loop(folder, 10_000)
    return [
        Measurement("text: read, verify, print 20 MB", "hir-opt", [text, *null]),
        Measurement("pass: host-ir-lower, 50,000 ops", "hir-opt", [lower, "--pass=host-ir-lower", *null]),
        Measurement("pass: stream-parallel-type, 50,000 ops", "hir-opt", [streams, "--pass=stream-parallel-type", *null]),
        Measurement("passes: canonicalize, cse, dce, 50,000 ops", "hir-opt", [lower, *cleanup, *null]),
        Measurement("plan: built and checked, 10,000 loop steps", "hir-run", [loop, "--check-only", "--backend=cpu"]),
        Measurement("start: a small program", "hir-run", [pipeline, "--check-only", *sizes]),
    ]


def write_loop(folder: Path, steps: int) -> Path:
    """A program whose plan is much longer than its text."""
    path = folder / "loop.hir"
    tensor = "[ideviceIdx.x0{2}, iS1{8}] (DeviceMesh{0 1})"
    path.write_text(
        f"%HostIrContainer {{ (T0_g_float{tensor}) -> (T1_g_float[ideviceIdx.x2{{2}}, iS3{{8}}] (DeviceMesh{{0 1}})) :\n"
        "  T1 = ALLOCATE(buffer=T1, mem_type=global, size=16, zero_init=false, resets_to_zero=false)\n"
        f"  FOR i from 0 to {steps}:\n"
        "    StartCoalescing\n"
        "    P2PCommunication 0 (type=send, buffer=T0, peer=( 1 - rank ), backend=NCCL)\n"
        "    P2PCommunication 1 (type=recv, buffer=T1, peer=( 1 - rank ), backend=NCCL)\n"
        "    EndCoalescing 2\n"
        "    Wait Communication 2\n"
        "} // %HostIrContainer\n"
    )
    return path


def least_times(measurement: Measurement, versions: Sequence[Path], runs: int) -> list[float]:
    """The least CPU time of each version, which run in turn."""
    least = dict.fromkeys(versions, float("inf"))
    for turn in range(runs):
        for version in versions if turn % 2 == 0 else reversed(versions):
            least[version] = min(least[version], cpu_seconds([version / measurement.tool, *measurement.arguments]))
    return [least[version] for version in versions]


def main(words: Sequence[str]) -> int:
    """Prints a line for each measurement; gives the exit status."""
    words, runs = list(words), 15
    if "--runs" in words:
        at = words.index("--runs")
        runs = int(words[at + 1])
        del words[at : at + 2]
    if {"-h", "--help"} & set(words):
        print(__doc__)
        return 0
    if len(words) != 2 or not all((Path(word) / "hir-opt").exists() for word in words):
        print(__doc__, file=sys.stderr)
        return 2
    is_missed = False
    with tempfile.TemporaryDirectory() as name:
        for measurement in measurements(Path(name)):
            old, new = least_times(measurement, [Path(word) for word in words], runs)
            is_missed |= new > BAR * old
            print(f"{measurement.title:45} {old * 1e3:9.1f} ms {new * 1e3:9.1f} ms  {new / old:5.3f}", flush=True)
    return int(is_missed)
