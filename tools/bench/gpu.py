"""Measures the figures of docs/benchmarks.md that need GPUs, each beside its reference.

usage: tools/benchmark gpu [--hir-run PATH] [--rounds 3] [matmul] [attention] [fused] [host] [graph] [collectives]
                           [startup]

The references are torch (matmul, attention, fused, collectives) and the bare driver calls (host, graph).
Ours and the reference run in turn, several rounds each; the medians of the rounds are compared.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.hir_runs import TimedRuns, event_ms, medians_in_turn, print_beside_torch
from bench.overlap import programs
from bench.paths import python_environment, release_tool

if TYPE_CHECKING:
    import torch

# M, K, N of the products whose overlap with communication is measured elsewhere.
SHAPES = [(8192, 8192, 8192), (16384, 8192, 4096), (4096, 4096, 4096), (16384, 12288, 3072), (32768, 32768, 1024)]
BARE_CUDA = Path(__file__).with_name("kernels") / "bare.cu"
UNIFORM = ("--input", "0=uniform")

MATMUL = """%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i1}, iS3{i2}]) -> (T2_g___bfloat[iS4{i0}, iS5{i2}, rS6{i1}]) :
  T2_g___bfloat[iS4{i0}, iS5{i2}, rS6{i1}]
     = matmul(T0_g___bfloat[iS0{i0}, iS1{i1}],
              T1_g___bfloat[iS2{i1}, iS3{i2}])
} // %HostIrContainer
"""  # noqa: E501

LINEAR = """%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i2}, iS3{i1}], T2_g___bfloat[iS4{i2}]) -> (T3_g___bfloat[iS5{i0}, iS6{i2}, rS7{i1}]) :
  T3_g___bfloat[iS5{i0}, iS6{i2}, rS7{i1}]
     = linear(T0_g___bfloat[iS0{i0}, iS1{i1}],
              T1_g___bfloat[iS2{i2}, iS3{i1}]      ,
          T2_g___bfloat[iS4{i2}]      )
} // %HostIrContainer
"""  # noqa: E501

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


def chain_program(count: int) -> str:
    """A chain of `count` pointwise kernels that cannot be fused: every result is an output."""
    outputs = ", ".join(f"T{n}_g_float[iS{n}{{i0}}]" for n in range(1, count + 1))
    lines = [f"%HostIrContainer {{ (T0_g_float[iS0{{i0}}]) -> ({outputs}) :"]
    for n in range(1, count + 1):
        lines.append(f"  T{n}_g_float[iS{n}{{i0}}]\n     = T{n - 1}_g_float[iS{n - 1}{{i0}}]\n     + double(1);")
    return "\n".join(lines) + "\n} // %HostIrContainer\n"


def set_extents(*extents: int) -> list[str]:
    """The options for extents `i0`, `i1`, ..."""
    return [word for name, value in enumerate(extents) for word in ("--set", f"i{name}={value}")]


def our_ms(runs: TimedRuns, text: str, *extents: int) -> float:
    """Median milliseconds of a program with extents `i0`, `i1`, ..."""
    return float(runs.bench(text, *UNIFORM, *set_extents(*extents))["median_ms"])


def measure_matmul(runs: TimedRuns) -> None:
    """`matmul` and `linear` beside torch."""
    for m, k, n in SHAPES:
        measure_shape(runs, m, k, n)


def measure_shape(runs: TimedRuns, m: int, k: int, n: int) -> None:
    """A product of one shape; with a bias where it fits beside it."""
    import torch

    x = torch.rand(m, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    flop = 2 * m * k * n
    mine, theirs = medians_in_turn(runs.rounds, lambda: our_ms(runs, MATMUL, m, k, n), lambda: event_ms(lambda: x @ w))
    print_beside_torch("matmul", f"bf16 {m},{k},{n}", mine, theirs, flop)
    if k <= 12288:
        wt, bias = w.t().contiguous(), torch.randn(n, device="cuda", dtype=torch.bfloat16)
        linear = torch.nn.functional.linear
        mine, theirs = medians_in_turn(
            runs.rounds, lambda: our_ms(runs, LINEAR, m, k, n), lambda: event_ms(lambda: linear(x, wt, bias))
        )
        print_beside_torch("linear", f"bf16 {m},{k},{n}", mine, theirs, flop)


ATTENTION = """hir 2
sizes t=8192, h=32, e=128
attention(Q: bf16[1, h, t, e], K: bf16[1, h, t, e], V: bf16[1, h, t, e]) -> (A: bf16[1, h, t, e]):
  A, L, S: i64[2], O: i64[] = sdpa(Q, K, V, is_causal=CAUSAL)
"""


def measure_attention(runs: TimedRuns) -> None:
    """`sdpa` of 8,192 tokens and 32 heads of 128 elements beside torch's FlashAttention."""
    import torch

    heads, tokens, elements = 32, 8192, 128
    factors = [torch.randn(1, heads, tokens, elements, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    inputs = [word for name in "QKV" for word in ("--input", f"{name}=randn")]
    for is_causal, words in ((False, ""), (True, ", causal")):
        text = ATTENTION.replace("CAUSAL", str(is_causal).lower())
        ours = functools.partial(lambda text: float(runs.bench(text, *inputs)["median_ms"]), text)
        mine, theirs = medians_in_turn(runs.rounds, ours, functools.partial(flash_ms, factors, is_causal))
        flop = 4 * heads * tokens * tokens * elements // (2 if is_causal else 1)
        what = f"bf16, {tokens} tokens, {heads} heads of {elements}{words} (bar 0.5x)"
        print_beside_torch("attention", what, mine, theirs, flop)


def flash_ms(factors: Sequence[torch.Tensor], is_causal: bool) -> float:
    """Median milliseconds of torch's FlashAttention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    queries, keys, values = factors
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return event_ms(lambda: scaled_dot_product_attention(queries, keys, values, is_causal=is_causal))


def measure_fused(runs: TimedRuns) -> None:
    """A pointwise function and a reduction in one kernel, beside torch.compile."""
    import torch

    rows, columns = 16384, 8192
    x = torch.rand(rows, columns, device="cuda")
    bias = torch.rand(columns, device="cuda")
    copy = torch.empty_like(x)
    function = torch.compile(lambda x, bias: (x - bias).exp().sum(1))
    function(x, bias)
    mine, theirs = medians_in_turn(
        runs.rounds, lambda: our_ms(runs, FUSED, rows, columns), lambda: event_ms(lambda: function(x, bias))
    )
    whole = x.numel() * 4
    moved = event_ms(lambda: copy.copy_(x))
    read, copied = whole / mine / 1e6, 2 * whole / moved / 1e6
    print(f"fused: {whole / 1e6:.0f} MB: {mine:.4f} ms, torch.compile {theirs:.4f} ms ({theirs / mine:.3f}x its speed),", end=" ")
    print(f"{read:.0f} GB/s read; a copy moves {copied:.0f} GB/s: {whole / mine / (2 * whole / moved):.2f} of it", flush=True)


def measure_host(runs: TimedRuns) -> None:
    """The host's time to issue kernels."""
    found = runs.bench(chain_program(1000), *UNIFORM, *set_extents(256), iterations=11)
    floor = run_bare_cuda(runs, 1000)
    ratio = found["issue_us"] / floor["launch_us"]
    print(f"host: 1000 kernels are issued in {found['issue_us']:.0f} us,", end=" ")
    print(f"the bare launches in {floor['launch_us']:.0f} us: {ratio:.2f}x (bar 1.2)", flush=True)


def measure_graph(runs: TimedRuns) -> None:
    """The device's time for a node of a graph."""
    found = runs.bench(chain_program(1000), *UNIFORM, *set_extents(256), "--graph", iterations=21)
    floor = run_bare_cuda(runs, 1000)
    print(f"graph: {found['median_ms']:.3f} us a node of 1000 small kernels,", end=" ")
    print(f"bare CUDA {floor['node_us']:.3f} (bar 0.7)", flush=True)


def run_bare_cuda(runs: TimedRuns, count: int) -> dict[str, float]:
    """Launch and replay times of `count` such kernels through CUDA alone, compiled by nvcc."""
    program = runs.folder / "bare"
    if not program.exists():
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", str(program), str(BARE_CUDA)], check=True)
    done = subprocess.run([str(program), str(count)], capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


# ---- collectives ----

COLLECTIVES = {"Allgather": programs.allgather, "Allreduce": programs.allreduce}


class Transfer(NamedTuple):
    """A communication of so many elements of `float` a rank."""

    kind: str
    megabytes: int
    elements: int


def communication_program(count: int, transfer: Transfer) -> str:
    """One communication without outputs: it is timed only."""
    if transfer.kind == "SendRecv":
        return programs.exchange(count, transfer.elements, "NCCL", 1)
    return COLLECTIVES[transfer.kind](count, "float", [transfer.elements], "NCCL")


def measure_collectives(runs: TimedRuns) -> None:
    """Communications over NCCL beside torch's."""
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        print("collectives: skipped, they need 2 GPUs or more")
        return
    transfers = []
    for kind in (*COLLECTIVES, "SendRecv"):
        for megabytes in (1, 16, 256, 1024):
            elements = megabytes * (1 << 20) // 4 // (count if kind == "Allgather" else 1)
            transfers.append(Transfer(kind, megabytes, elements))
    texts = [communication_program(count, transfer) for transfer in transfers]
    mine, theirs = [], []
    for _ in range(runs.rounds):
        theirs.append(torch_communications(transfers, count))
        mine.append([found["median_ms"] for found in runs.bench_all(texts, *UNIFORM)])
    for transfer, a, b in zip(transfers, zip(*mine, strict=True), zip(*theirs, strict=True), strict=True):
        what = f"{transfer.kind} of {transfer.megabytes} MB on {count} GPUs"
        print_beside_torch("collectives", what, statistics.median(a), statistics.median(b))


def torch_communications(transfers: Sequence[Transfer], count: int) -> list[float]:
    """Torch's times of all transfers: starting its processes takes longer than the transfers."""
    words = [f"{transfer.kind}:{transfer.elements}" for transfer in transfers]
    command = ["torchrun", f"--nproc-per-node={count}", "-m", "bench.torch_baselines.nccl", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=python_environment())
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return [float(line) for line in done.stdout.strip().splitlines()[-len(transfers) :]]


# ---- starting ----


class TimedLine(NamedTuple):
    """A line that a command prints, and the seconds until then."""

    at: float
    text: str


class TimedOutput(NamedTuple):
    """Seconds until a command ended, and what it said."""

    ended: float
    lines: list[TimedLine]


def measure_startup(runs: TimedRuns) -> None:
    """The time until a small program has its first result."""
    import torch

    count = torch.cuda.device_count()
    text = programs.allgather(count, "float", [64], "NCCL", True) if count > 1 else MATMUL
    path = runs.folder / "start.hir"
    path.write_text(text)
    command = [runs.tool, str(path), "--backend=cuda", "--summary", *([] if count > 1 else set_extents(64, 64, 64))]
    ways = {"one process": command}
    if count > 1:
        ways["processes"] = [*command, "-n", str(count), "--processes"]
    for way, command in ways.items():
        found = sorted((timed_output(command) for _ in range(min(3, runs.rounds))), key=lambda run: run.lines[-1].at)
        ended, lines = found[len(found) // 2]
        bar = " (bar 6)" if way == "one process" else ""
        first = f"first result of a small program after {lines[-1].at:.2f} s{bar}"
        print(f"startup: {count} GPUs, {way}: {first}, ended after {ended:.2f} s")
        print("".join(f"  {line.at:.2f} s {line.text}\n" for line in lines), end="", flush=True)


def timed_output(command: Sequence[str]) -> TimedOutput:
    """Runs a command. Raises `RuntimeError` if it fails."""
    start = time.perf_counter()
    lines = []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in child.stdout or ():
        lines.append(TimedLine(time.perf_counter() - start, line.rstrip()))
    if child.wait() != 0:
        raise RuntimeError("".join(line.text for line in lines)[-2000:])
    return TimedOutput(time.perf_counter() - start, lines)


PARTS = {
    "matmul": measure_matmul,
    "attention": measure_attention,
    "fused": measure_fused,
    "host": measure_host,
    "graph": measure_graph,
    "collectives": measure_collectives,
    "startup": measure_startup,
}


def main(words: Sequence[str]) -> int:
    """Runs the parts that are asked for."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hir-run", default=release_tool("hir-run"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args(words)
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    with tempfile.TemporaryDirectory() as folder:
        runs = TimedRuns(str(Path(options.hir_run).resolve()), folder, options.rounds)
        for name in options.parts or PARTS:
            try:
                PARTS[name](runs)
            except Exception as error:  # noqa: BLE001 - one figure that fails leaves the others
                print(f"{name}: FAILED: {error}", flush=True)
    return 0
