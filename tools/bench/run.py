#!/usr/bin/env python3
"""Measures what docs/benchmarks.md lists, on this machine, and prints each figure beside its bar.

usage: tools/bench/run.py [text] [passes] [startup] [matmul] [mlir]      (all of them without arguments)

Builds with `cargo build --release` first. `matmul` needs NumPy: tools/setup --bench installs it. `mlir` needs
mlir-opt: tools/setup --mlir installs it.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
NULL = subprocess.DEVNULL


def build():
    command = ["cargo", "build", "--release", "--workspace", "--bins"]
    subprocess.run(command, cwd=ROOT, check=True)


def seconds(command, runs=5):
    """Least and median time of a command as a whole process, after one run that is not counted."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=NULL, stderr=NULL)
        times.append(time.perf_counter() - start)
    times = sorted(times[1:])
    return times[0], times[len(times) // 2]


def generate(folder, *size):
    path = Path(folder) / "generated.hir"
    with open(path, "w") as file:
        command = [sys.executable, ROOT / "tools/bench/generate.py", *size]
        subprocess.run(command, check=True, stdout=file, stderr=NULL)
    return path


def repeat_section(folder, name, ops):
    """A text in hir 2 of about so many ops: a template of tools/bench/texts, with its section repeated."""
    template = (ROOT / f"tools/bench/texts/{name}.txt").read_text()
    head, count, section, _, end = re.split(r"^---(?: (\d+) ops)?\n", template, flags=re.M)
    path = Path(folder) / f"{name}.hir"
    path.write_text(head + "".join(section.replace("#", str(at)) for at in range(-(-ops // int(count)))) + end)
    return path


def text():
    """Parse + verify + print: the whole process of hir-opt, file in and file out."""
    hir_opt = TARGET / "hir-opt"
    with tempfile.TemporaryDirectory() as folder:
        path = generate(folder, "--megabytes", "50")
        size = path.stat().st_size / 1e6
        least, median = seconds([hir_opt, path, "-o", "/dev/null"])
        print(f"text: {size:.0f} MB in {median:.2f} s (least {least:.2f} s):", end=" ")
        print(f"{size / median:.0f} MB/s, best {size / least:.0f} MB/s (bar: 60)")
        for ops in (1000, 10000, 100000):
            path = generate(folder, "--ops", str(ops))
            least, _ = seconds([hir_opt, path, "-o", "/dev/null"])
            print(f"text: {ops} ops in {least * 1e3:.1f} ms: {least / ops * 1e6:.2f} us an op")
        paths = {}
        for name in ("mixed", "flat"):
            path = paths[f"{name}, hir 2"] = repeat_section(folder, name, 1_000_000)
            printed = paths[f"{name}, printed form"] = Path(folder) / f"{name}_printed.hir"
            subprocess.run([hir_opt, path, "--form=printed", "-o", printed], check=True)
        times = in_turn({name: [hir_opt, path, "-o", "/dev/null"] for name, path in paths.items()}, 5)
        for name, found in times.items():
            size, middle = paths[name].stat().st_size / 1e6, sorted(found)[len(found) // 2]
            bar = "; bar: 1.5" if name.endswith("hir 2") else ""
            print(f"text: 1,000,000 ops, {name} ({size:.0f} MB): {middle:.2f} s (least {min(found):.2f}{bar})")


def passes():
    """The bars of lowering: ops of the input a second of the pass alone, and whole runs of hir-opt."""
    hir_opt = TARGET / "hir-opt"
    with tempfile.TemporaryDirectory() as folder:
        for kind, name, sizes in (("streams", "stream-parallel-type", (10_000, 100_000)), ("lower", "host-ir-lower", (10_000, 100_000, 1_000_000))):
            for ops in sizes:
                path = Path(folder) / "annotated.hir"
                with open(path, "w") as file:
                    subprocess.run([sys.executable, ROOT / "tools/bench/annotated.py", kind, str(ops)], check=True, stdout=file)
                wholes, alone = [], []
                for _ in range(3 if ops > 100_000 else 5):
                    start = time.perf_counter()
                    command = [hir_opt, path, f"--pass={name}", "--timing", "-o", os.devnull]
                    found = subprocess.run(command, check=True, capture_output=True, text=True)
                    wholes.append(time.perf_counter() - start)
                    rows = [line.split() for line in found.stderr.splitlines()]
                    alone.append(sum(float(row[0]) for row in rows if len(row) > 2 and row[2] == name) / 1e3)
                whole, own = sorted(wholes)[len(wholes) // 2], sorted(alone)[len(alone) // 2]
                bar = ", bar: 300000" if kind == "streams" else ", bar at 100,000 ops: 2 s in all"
                print(f"passes: {name}, {ops} annotated ops: {whole:.2f} s in all,", end=" ")
                print(f"the pass alone {own:.3f} s: {ops / own:.0f} ops/s{bar}", flush=True)


def startup():
    path = ROOT / "docs/examples/printed/allgather.hir"
    for name in ("hir-opt", "hir-run"):
        check = ["--check-only", "--set", "i1=4"] if name == "hir-run" else ["-o", "/dev/null"]
        least, median = seconds([TARGET / name, path, *check], runs=50)
        print(f"startup: {name} on a small program {median * 1e3:.2f} ms (least {least * 1e3:.2f}; bar: 5)")


def matmul():
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
            a @ b
            best = min(best, time.perf_counter() - start)
        theirs.append(best * 1e3)
    ratios = sorted(x / y for x, y in zip(ours, theirs))
    print(f"matmul {size}^3 float: {min(ours):.1f} ms, NumPy {numpy.__version__} {min(theirs):.1f} ms,", end=" ")
    print(f"ratio {ratios[len(ratios) // 2]:.2f} (from {ratios[0]:.2f} to {ratios[-1]:.2f}; bar: 1.5)")


def newest_mlir_opt():
    """The newest mlir-opt: Debian keeps versions apart, below /usr/lib/llvm-N."""
    number = lambda path: int(re.search(r"llvm-(\d+)", path).group(1))
    found = sorted(glob.glob("/usr/lib/llvm-*/bin/mlir-opt"), key=number)
    return shutil.which("mlir-opt") or (found[-1] if found else None)


def in_turn(commands, runs):
    """Times of commands as whole processes, run in turn so that all see the same machine; first ones uncounted."""
    times = {name: [] for name in commands}
    for _ in range(runs + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=NULL, stderr=NULL)
            times[name].append(time.perf_counter() - start)
    return {name: found[1:] for name, found in times.items()}


def flat_programs(folder, ops):
    files = {}
    for language in ("mlir", "hir", "hir-short"):
        files[language] = Path(folder) / language
        with open(files[language], "w") as file:
            command = [sys.executable, ROOT / "tools/bench/flat.py", language, str(ops)]
            subprocess.run(command, check=True, stdout=file)
    return files


def mlir(runs=9):
    """canonicalize and cse of a flat program, whole processes, mlir-opt and hir-opt in turn."""
    mlir_opt = newest_mlir_opt()
    if mlir_opt is None:
        sys.exit("mlir: there is no mlir-opt; tools/setup --mlir installs it")
    version = subprocess.run([mlir_opt, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"version (\S+)", version).group(1)
    print(f"mlir: mlir-opt {version}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first run")
    for ops in (10000, 100000):
        with tempfile.TemporaryDirectory() as folder:
            files = flat_programs(folder, ops)
            ours = [TARGET / "hir-opt", "--pass=canonicalize", "--pass=cse", "-o", "/dev/null"]
            commands = {language: [*ours, path] for language, path in files.items()}
            commands["mlir"] = [mlir_opt, "--canonicalize", "--cse", "-o", "/dev/null", files["mlir"]]
            times = in_turn(commands, runs)
            for language, found in times.items():
                middle, size = sorted(found)[runs // 2], files[language].stat().st_size / 1e6
                print(f"mlir: {ops} ops, {language} ({size:.1f} MB): {middle:.3f} s (least {min(found):.3f}),", end=" ")
                ratios = sorted(theirs / mine for theirs, mine in zip(times["mlir"], found))
                compared = f", {ratios[runs // 2]:.2f} times mlir-opt ({ratios[0]:.2f} to {ratios[-1]:.2f})"
                print(f"{ops / middle / 1e3:.0f} kops/s{'' if language == 'mlir' else compared}")


def main():
    parts = {"text": text, "passes": passes, "startup": startup, "matmul": matmul, "mlir": mlir}
    wanted = sys.argv[1:] or list(parts)
    if {"-h", "--help"} & set(wanted):
        print(__doc__)
        return
    if unknown := [name for name in wanted if name not in parts]:
        print(f"run.py: there is no part `{unknown[0]}`; there are {', '.join(parts)}", file=sys.stderr)
        sys.exit(2)
    build()
    for name in wanted:
        parts[name]()


if __name__ == "__main__":
    main()
