#!/usr/bin/env python3
"""Compares the CPU time of two versions of hir-opt and hir-run: text, passes, building plans.

usage: tools/bench/versions.py OLD NEW [--runs N]

OLD and NEW are folders with release builds of hir-opt and hir-run. Each command runs N times (15) with each version, in
turn; printed is the least CPU time (user and system) of either and their ratio. The bar for changes that are meant to
cost nothing is 1.05. Exit status: 0 all within it, 1 one is not, 2 the command line is wrong.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parents[1]
BAR = 1.05


def cpu_seconds(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"versions: {' '.join(map(str, command))} failed:\n{process.stderr.read().decode()[-2000:]}")
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime


def generate(script, path, *arguments):
    with open(path, "w") as file:
        subprocess.run([sys.executable, BENCH / script, *arguments], check=True, stdout=file, stderr=subprocess.DEVNULL)
    return path


def commands(folder):
    """The measurements, each with a name, a program and its arguments."""
    text = generate("generate.py", folder / "text.hir", "--megabytes", "20")
    lower = generate("annotated.py", folder / "lower.hir", "lower", "50000")
    streams = generate("annotated.py", folder / "streams.hir", "streams", "50000")
    pipeline = ROOT / "docs/examples/printed/ag_matmul_p2p.hir"
    sizes = ["--set", "i1=64", "--set", "i2=128", "--set", "i3=32"]
    return [
        ("text: read, verify, print 20 MB", "hir-opt", [text, "-o", os.devnull]),
        ("pass: host-ir-lower, 50,000 ops", "hir-opt", [lower, "--pass=host-ir-lower", "-o", os.devnull]),
        ("pass: stream-parallel-type, 50,000 ops", "hir-opt", [streams, "--pass=stream-parallel-type", "-o", os.devnull]),
        ("passes: canonicalize, cse, dce, 50,000 ops", "hir-opt", [lower, "--pass=canonicalize", "--pass=cse", "--pass=dce", "-o", os.devnull]),
        ("plan: built and checked, 10,000 loop steps", "hir-run", [write_loop(folder, 10_000), "--check-only", "--backend=cpu"]),
        ("start: a small program", "hir-run", [pipeline, "--check-only", *sizes]),
    ]


def write_loop(folder, steps):
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


def main():
    words = sys.argv[1:]
    runs = 15
    if "--runs" in words:
        at = words.index("--runs")
        runs = int(words[at + 1])
        del words[at : at + 2]
    if len(words) != 2 or not all((Path(word) / "hir-opt").exists() for word in words):
        print(__doc__, file=sys.stderr)
        return 2
    missed = False
    with tempfile.TemporaryDirectory() as name:
        for what, tool, arguments in commands(Path(name)):
            least = {word: float("inf") for word in words}
            for turn in range(runs):
                for word in words if turn % 2 == 0 else reversed(words):
                    least[word] = min(least[word], cpu_seconds([Path(word) / tool, *arguments]))
            old, new = (least[word] for word in words)
            missed |= new > BAR * old
            print(f"{what:45} {old * 1e3:9.1f} ms {new * 1e3:9.1f} ms  {new / old:5.3f}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
