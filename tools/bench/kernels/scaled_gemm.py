"""Measures scaled_matmul with a scale for each row and column beside torch._scaled_mm, on one GPU.

usage: tools/benchmark scaled-gemm [--hir-run PATH] [--rounds 5] [M,K,N ...]

Both run in turn. For each size it prints the times, the rates, torch's time over ours (without and with fast
accumulation, on both sides), and for sizes of up to 2^31 multiplications
the largest differences of both results from a product in double.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.hir_runs import TimedRuns, event_ms, medians_in_turn, print_beside_torch, run_checked
from bench.paths import release_tool

SIZES = ["1024,2048,512", "2048,2048,2048", "4096,4096,4096", "8192,8192,8192", "16384,8192,4096"]
# The weight lies as torch's `w.t()`: the library reads it as it is, and nothing is transposed.
PROGRAM = """hir 2

scaled(A: f8e4m3[m, k], W: f8e4m3[n, k], r: f32[m, 1], c: f32[1, n]) -> (D: bf16[m, n]):
  B = Set.Permute(W, perm=[1, 0])
  D = scaled_matmul(A, B, r, c)
"""
KINDS = {"A": "F8_E4M3", "W": "F8_E4M3", "r": "F32", "c": "F32"}

Operands = dict[str, torch.Tensor]
"""The inputs of `PROGRAM` by name, in its order."""


def write_safetensors(path: Path, tensors: Operands) -> None:
    """Tensors as a safetensors file."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()
        header[name] = {"dtype": KINDS[name], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_bfloats(path: Path, shape: torch.Size) -> torch.Tensor:
    """The only tensor of a safetensors file, in bfloat."""
    raw = path.read_bytes()
    start = 8 + struct.unpack_from("<Q", raw)[0]
    return torch.frombuffer(bytearray(raw[start:]), dtype=torch.bfloat16).view(shape)


def random_operands(m: int, k: int, n: int) -> Operands:
    """Random factors and scales."""
    torch.manual_seed(0)
    a = torch.rand(m, k, device="cuda").to(torch.float8_e4m3fn)
    w = torch.rand(n, k, device="cuda").to(torch.float8_e4m3fn)
    r, c = torch.rand(m, 1, device="cuda"), torch.rand(1, n, device="cuda")
    return {"A": a, "W": w, "r": r + 0.5, "c": c + 0.5}


def torch_product(given: Operands, fast: bool) -> torch.Tensor:
    """The product by torch."""
    a, w, r, c = given.values()
    return torch._scaled_mm(a, w.t(), scale_a=r, scale_b=c, out_dtype=torch.bfloat16, use_fast_accum=fast)


def set_extents(sizes: Sequence[int]) -> list[str]:
    """The options for m, k and n."""
    return [word for name, size in zip("mkn", sizes, strict=True) for word in ("--set", f"{name}={size}")]


def relative_difference(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, relative to the exact element."""
    return float(((result.double() - exact).abs() / exact.abs().clamp(min=1e-6)).max().item())


def print_differences(runs: TimedRuns, given: Operands) -> None:
    """The largest differences of hir-run's result and of torch's from a product in double, relative to that."""
    source, inputs, output = (runs.folder / name for name in ("scaled.hir", "in.safetensors", "out.safetensors"))
    source.write_text(PROGRAM)
    write_safetensors(inputs, given)
    a, w, r, c = given.values()
    (m, k), n = a.shape, w.shape[0]
    command = [runs.tool, str(source), "--backend=cuda", "-q", *set_extents((m, k, n)), "--output", f"D={output}:D"]
    for name in KINDS:
        command += ["--input", f"{name}={inputs}:{name}"]
    run_checked(command)
    exact = (a.double() @ w.double().t()) * r.double() * c.double()
    ours, theirs = read_bfloats(output, exact.shape).cuda(), torch_product(given, False)
    apart = (ours.double() - theirs.double()).abs().max().item()
    relative = (relative_difference(result, exact) for result in (ours, theirs))
    print(f"scaled: {m},{k},{n}: largest relative difference {next(relative):.2e}, torch {next(relative):.2e};", end=" ")
    print(f"from each other {apart:.3e}")


def measure_size(runs: TimedRuns, size: tuple[int, int, int]) -> None:
    """One size, without and with fast accumulation."""
    m, k, n = size
    given = random_operands(m, k, n)
    if m * k * n <= 2**31:
        print_differences(runs, given)
    flags = [*set_extents(size), "--input", "A=uniform", "--input", "W=uniform"]
    for fast in (False, True):
        more = ["--fp8-fast-accumulation"] if fast else []

        def our_ms(more: Sequence[str] = more) -> float:
            return float(runs.bench(PROGRAM, *flags, *more)["median_ms"])

        def torch_ms(fast: bool = fast) -> float:
            return event_ms(lambda: torch_product(given, fast))

        mine, theirs = medians_in_turn(runs.rounds, our_ms, torch_ms)
        what = f"e4m3 to bfloat {m},{k},{n}" + (", fast accumulation" if fast else "")
        print_beside_torch("scaled", what, mine, theirs, 2 * m * k * n)


def main(words: Sequence[str]) -> int:
    """Measures all sizes."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark scaled-gemm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hir-run", default=os.environ.get("HIR_RUN", release_tool("hir-run")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        runs = TimedRuns(given.hir_run, folder, given.rounds)
        for size in given.sizes:
            m, k, n = map(int, size.split(","))
            measure_size(runs, (m, k, n))
    return 0
