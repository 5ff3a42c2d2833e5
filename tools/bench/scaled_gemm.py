#!/usr/bin/env python3
"""Measures scaled_matmul with a scale for each row and column beside torch._scaled_mm, on one GPU.

usage: tools/bench/scaled_gemm.py [--hir-run PATH] [--rounds 5] [M,K,N ...]

Both run in turn. For each size it prints the times, the rates, torch's time over ours (without and with fast
accumulation, on both sides), and for sizes of up to 2^31 multiplications
the largest differences of both results from a product in double.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gpu

SIZES = ["1024,2048,512", "2048,2048,2048", "4096,4096,4096", "8192,8192,8192", "16384,8192,4096"]
# The weight lies as torch's `w.t()`: the library reads it as it is, and nothing is transposed.
PROGRAM = """hir 2

scaled(A: f8e4m3[m, k], W: f8e4m3[n, k], r: f32[m, 1], c: f32[1, n]) -> (D: bf16[m, n]):
  B = Set.Permute(W, perm=[1, 0])
  D = scaled_matmul(A, B, r, c)
"""
KINDS = {"A": "F8_E4M3", "W": "F8_E4M3", "r": "F32", "c": "F32"}


def write(path, tensors):
    """Tensors as a safetensors file."""
    import torch

    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()
        header[name] = {"dtype": KINDS[name], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path, shape):
    """The only tensor of a safetensors file, in bfloat."""
    import torch

    raw = path.read_bytes()
    start = 8 + struct.unpack_from("<Q", raw)[0]
    return torch.frombuffer(bytearray(raw[start:]), dtype=torch.bfloat16).view(shape)


def operands(m, k, n):
    import torch

    torch.manual_seed(0)
    rand = lambda *shape: torch.rand(*shape, device="cuda")
    a, w = rand(m, k).to(torch.float8_e4m3fn), rand(n, k).to(torch.float8_e4m3fn)
    return {"A": a, "W": w, "r": rand(m, 1) + 0.5, "c": rand(1, n) + 0.5}


def scaled_mm(given, fast):
    import torch

    a, w, r, c = given.values()
    return torch._scaled_mm(a, w.t(), scale_a=r, scale_b=c, out_dtype=torch.bfloat16, use_fast_accum=fast)


def differences(tool, given, folder):
    """The largest differences of hir-run's result and of torch's from a product in double, relative to that."""
    import torch

    source, inputs, output = (Path(folder) / name for name in ("scaled.hir", "in.safetensors", "out.safetensors"))
    source.write_text(PROGRAM)
    write(inputs, given)
    a, w, r, c = given.values()
    extents = [word for name, size in zip("mkn", (*a.shape, w.shape[0])) for word in ("--set", f"{name}={size}")]
    command = [tool, str(source), "--backend=cuda", "-q", *extents, "--output", f"D={output}:D"]
    for name in KINDS:
        command += ["--input", f"{name}={inputs}:{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    exact = (a.double() @ w.double().t()) * r.double() * c.double()
    ours = read(output, exact.shape).cuda()
    theirs = scaled_mm(given, False)
    relative = lambda result: ((result.double() - exact).abs() / exact.abs().clamp(min=1e-6)).max().item()
    return relative(ours), relative(theirs), (ours.double() - theirs.double()).abs().max().item()


def measure(tool, size):
    m, k, n = size
    given = operands(m, k, n)
    if m * k * n <= 2**31:
        ours, theirs, apart = differences(tool.tool, given, tool.folder)
        print(f"scaled: {m},{k},{n}: largest relative difference {ours:.2e}, torch {theirs:.2e}; from each other {apart:.3e}")
    extents = [word for name, value in zip("mkn", size) for word in ("--set", f"{name}={value}")]
    inputs = ["--input", "A=uniform", "--input", "W=uniform"]
    for fast in (False, True):
        flags = ["--fp8-fast-accumulation"] if fast else []
        bench = lambda: tool.bench(PROGRAM, *extents, *inputs, *flags)["median_ms"]
        mine, theirs = gpu.in_turn(tool.rounds, bench, lambda: gpu.events(lambda: scaled_mm(given, fast)))
        what = f"e4m3 to bfloat {m},{k},{n}" + (", fast accumulation" if fast else "")
        gpu.report("scaled", what, mine, theirs, 2 * m * k * n)


class Tool(gpu.Ours):
    """hir-run on programs whose inputs have names."""

    def bench(self, text, *flags, iterations=30):
        self.number += 1
        source, out = self.folder / f"{self.number}.hir", self.folder / f"{self.number}.json"
        source.write_text(text)
        command = [self.tool, str(source), "--backend=cuda", "--bench", f"--iters={iterations}", "--json", str(out), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-2000:])
        return json.loads(out.read_text())["programs"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hir-run", default=os.environ.get("HIR_RUN", str(gpu.ROOT / "target/release/hir-run")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("sizes", nargs="*", default=SIZES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(given.hir_run, folder, given.rounds)
        for size in given.sizes:
            measure(tool, [int(extent) for extent in size.split(",")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
