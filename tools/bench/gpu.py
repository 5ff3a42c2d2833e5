#!/usr/bin/env python3
"""Measures the figures of docs/benchmarks.md that need GPUs, each beside its reference.

usage: tools/bench/gpu.py [--hir-run PATH] [--rounds 3] [matmul] [fused] [host] [graph] [collectives] [startup]

The references are torch (matmul, fused, collectives) and the bare driver calls (host, graph).
Ours and the reference run in turn, several rounds each; the medians of the rounds are compared.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import overlap_programs

ROOT = Path(__file__).resolve().parents[2]
# M, K, N of the products whose overlap with communication is measured elsewhere.
SHAPES = [(8192, 8192, 8192), (16384, 8192, 4096), (4096, 4096, 4096), (16384, 12288, 3072), (32768, 32768, 1024)]

MATMUL = """%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i1}, iS3{i2}]) -> (T2_g___bfloat[iS4{i0}, iS5{i2}, rS6{i1}]) :
  T2_g___bfloat[iS4{i0}, iS5{i2}, rS6{i1}]
     = matmul(T0_g___bfloat[iS0{i0}, iS1{i1}],
              T1_g___bfloat[iS2{i1}, iS3{i2}])
} // %HostIrContainer
"""

LINEAR = """%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i2}, iS3{i1}], T2_g___bfloat[iS4{i2}]) -> (T3_g___bfloat[iS5{i0}, iS6{i2}, rS7{i1}]) :
  T3_g___bfloat[iS5{i0}, iS6{i2}, rS7{i1}]
     = linear(T0_g___bfloat[iS0{i0}, iS1{i1}],
              T1_g___bfloat[iS2{i2}, iS3{i1}]      ,
          T2_g___bfloat[iS4{i2}]      )
} // %HostIrContainer
"""

# y = sum over rows of exp(x - bias): pointwise, broadcast and reduction in one HostUnit.
FUSED = """%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i1}]) -> (T5_g_float[iS9{i0}, rS10{i1}]) :
  T2_l_float[bS3{1}, iS4{i1}]
     = broadcast( T1_g_float[iS2{i1}], flags = {true, false} )
  T3_l_float[iS5{i0}, iS6{i1}]
     = T0_g_float[iS0{i0}, iS1{i1}]
     - T2_l_float[bS3{1}, iS4{i1}];
  T4_l_float[iS7{i0}, iS8{i1}]
     = expf(T3_l_float[iS5{i0}, iS6{i1}]);
  T5_g_float[iS9{i0}, rS10{i1}]
     = reduction( T4_l_float[iS7{i0}, iS8{i1}], op = add, initial value = float(0), allreduce = false )
} // %HostIrContainer
"""


def chain(count):
    """A chain of `count` pointwise kernels that cannot be fused: every result is an output."""
    outputs = ", ".join(f"T{n}_g_float[iS{n}{{i0}}]" for n in range(1, count + 1))
    lines = [f"%HostIrContainer {{ (T0_g_float[iS0{{i0}}]) -> ({outputs}) :"]
    for n in range(1, count + 1):
        lines.append(f"  T{n}_g_float[iS{n}{{i0}}]\n     = T{n - 1}_g_float[iS{n - 1}{{i0}}]\n     + double(1);")
    return "\n".join(lines) + "\n} // %HostIrContainer\n"


class Ours:
    def __init__(self, tool, folder, rounds):
        self.tool, self.folder, self.rounds, self.number = tool, Path(folder), rounds, 0

    def bench(self, text, *flags, iterations=30):
        """The figures of one program."""
        return self.bench_all([text], *flags, iterations=iterations)[0]

    def bench_all(self, texts, *flags, iterations=30):
        """The figures of programs that run in turn: starting on several devices takes longer than they do."""
        self.number += 1
        out = self.folder / f"{self.number}.json"
        paths = [self.folder / f"{self.number}.{index}.hir" for index in range(len(texts))]
        for path, text in zip(paths, texts):
            path.write_text(text)
        command = [self.tool, *map(str, paths), "--backend=cuda", "--bench", f"--iters={iterations}", "--json", str(out), "--input", "0=uniform", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        return json.loads(out.read_text())["programs"]


def sizes(*extents):
    return [word for name, value in enumerate(extents) for word in ("--set", f"i{name}={value}")]


def events(function, iterations=30):
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
    return statistics.median(times)


def in_turn(rounds, ours, theirs):
    """Medians of rounds that alternate."""
    a, b = [], []
    for _ in range(rounds):
        a.append(ours())
        b.append(theirs())
    return statistics.median(a), statistics.median(b)


def matmul(tool):
    import torch

    for m, k, n in SHAPES:
        x = torch.rand(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        flop = 2 * m * k * n
        mine, theirs = in_turn(tool.rounds, lambda: tool.bench(MATMUL, *sizes(m, k, n))["median_ms"], lambda: events(lambda: x @ w))
        report("matmul", f"bf16 {m},{k},{n}", mine, theirs, flop)
        if k <= 12288:
            wt, bias = w.t().contiguous(), torch.randn(n, device="cuda", dtype=torch.bfloat16)
            linear = torch.nn.functional.linear
            mine, theirs = in_turn(tool.rounds, lambda: tool.bench(LINEAR, *sizes(m, k, n))["median_ms"], lambda: events(lambda: linear(x, wt, bias)))
            report("linear", f"bf16 {m},{k},{n}", mine, theirs, flop)
        del x, w


def report(part, what, mine, theirs, flop=0):
    rate = f", {flop / mine / 1e9:.0f} against {flop / theirs / 1e9:.0f} TFLOP/s" if flop else ""
    print(f"{part}: {what}: {mine:.4f} ms, torch {theirs:.4f} ms, {theirs / mine:.3f}x torch's speed{rate}", flush=True)


def fused(tool):
    import torch

    rows, columns = 16384, 8192
    x = torch.rand(rows, columns, device="cuda")
    bias = torch.rand(columns, device="cuda")
    copy = torch.empty_like(x)
    function = torch.compile(lambda x, bias: (x - bias).exp().sum(1))
    function(x, bias)
    mine, theirs = in_turn(tool.rounds, lambda: tool.bench(FUSED, *sizes(rows, columns))["median_ms"], lambda: events(lambda: function(x, bias)))
    whole = x.numel() * 4
    moved = events(lambda: copy.copy_(x))
    print(f"fused: {whole / 1e6:.0f} MB: {mine:.4f} ms, torch.compile {theirs:.4f} ms ({theirs / mine:.3f}x its speed),", end=" ")
    print(f"{whole / mine / 1e6:.0f} GB/s read; a copy moves {2 * whole / moved / 1e6:.0f} GB/s: {whole / mine / (2 * whole / moved):.2f} of it", flush=True)


def host(tool):
    found = tool.bench(chain(1000), *sizes(256), iterations=11)
    floor = bare(tool, 1000)
    print(f"host: 1000 kernels are issued in {found['issue_us']:.0f} us, the bare launches in {floor['launch_us']:.0f} us: {found['issue_us'] / floor['launch_us']:.2f}x (bar 1.2)", flush=True)


def graph(tool):
    found = tool.bench(chain(1000), *sizes(256), "--graph", iterations=21)
    floor = bare(tool, 1000)
    print(f"graph: {found['median_ms']:.3f} us a node of 1000 small kernels, bare CUDA {floor['node_us']:.3f} (bar 0.7)", flush=True)


def bare(tool, count):
    """Launch and replay times of `count` such kernels through CUDA alone, compiled by nvcc."""
    program = tool.folder / "bare"
    if not program.exists():
        source = Path(__file__).with_name("bare.cu")
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", str(program), str(source)], check=True)
    done = subprocess.run([str(program), str(count)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


COLLECTIVES = {"Allgather": overlap_programs.allgather, "Allreduce": overlap_programs.allreduce}


def communication(kind, count, elements):
    """One communication of `elements` of `float` a rank, without outputs: it is timed only."""
    if kind == "SendRecv":
        return overlap_programs.exchange(count, elements, "NCCL", 1)
    return COLLECTIVES[kind](count, "float", [elements], "NCCL")


def collectives(tool):
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        print("collectives: skipped, they need 2 GPUs or more")
        return
    cases = []
    for kind in (*COLLECTIVES, "SendRecv"):
        for megabytes in (1, 16, 256, 1024):
            cases.append((kind, megabytes, megabytes * (1 << 20) // 4 // (count if kind == "Allgather" else 1)))
    texts = [communication(kind, count, elements) for kind, _, elements in cases]
    mine, theirs = [], []
    for _ in range(tool.rounds):
        theirs.append(torch_communications(cases, count))
        mine.append([found["median_ms"] for found in tool.bench_all(texts)])
    for (kind, megabytes, _), a, b in zip(cases, zip(*mine), zip(*theirs)):
        report("collectives", f"{kind} of {megabytes} MB on {count} GPUs", statistics.median(a), statistics.median(b))


def torch_communications(cases, count):
    """Torch's times of all cases: starting its processes takes longer than the cases."""
    program = Path(__file__).with_name("torch_nccl.py")
    words = [f"{kind}:{elements}" for kind, _, elements in cases]
    command = ["torchrun", f"--nproc-per-node={count}", str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return [float(line) for line in done.stdout.strip().splitlines()[-len(cases):]]


def startup(tool):
    import torch

    count = torch.cuda.device_count()
    text = overlap_programs.allgather(count, "float", [64], "NCCL", True) if count > 1 else MATMUL
    path = tool.folder / "start.hir"
    path.write_text(text)
    command = [tool.tool, str(path), "--backend=cuda", "--summary", *([] if count > 1 else sizes(64, 64, 64))]
    ways = {"one process": command}
    if count > 1:
        ways["processes"] = [*command, "-n", str(count), "--processes"]
    for way, command in ways.items():
        runs = sorted((timed_lines(command) for _ in range(min(3, tool.rounds))), key=lambda run: run[1][-1][0])
        ended, lines = runs[len(runs) // 2]
        bar = " (bar 6)" if way == "one process" else ""
        print(f"startup: {count} GPUs, {way}: first result of a small program after {lines[-1][0]:.2f} s{bar}, ended after {ended:.2f} s")
        print("".join(f"  {at:.2f} s {line}\n" for at, line in lines), end="", flush=True)


def timed_lines(command):
    """Seconds until a command ends, and what it says, each line with the seconds until then."""
    start = time.perf_counter()
    lines = []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in child.stdout:
        lines.append((time.perf_counter() - start, line.rstrip()))
    if child.wait() != 0:
        raise RuntimeError("".join(line for _, line in lines)[-2000:])
    return time.perf_counter() - start, lines


def main():
    parts = {"matmul": matmul, "fused": fused, "host": host, "graph": graph, "collectives": collectives, "startup": startup}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--hir-run", default=str(target / "release/hir-run"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as folder:
        tool = Ours(str(Path(options.hir_run).resolve()), folder, options.rounds)
        for name in options.parts or parts:
            try:
                parts[name](tool)
            except Exception as error:  # one figure that fails leaves the others
                print(f"{name}: FAILED: {error}", flush=True)


if __name__ == "__main__":
    main()
