"""Runs a benchmark by its name.

usage: tools/benchmark NAME [ARGUMENT...]

BENCHMARKS

`tools/benchmark NAME --help` explains one. Matmuls that overlap with communication have their own command,
tools/overlap-bench.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Benchmark(NamedTuple):
    """A module of this package with a function `main` that takes the arguments, and what it does."""

    module: str
    summary: str


BENCHMARKS = {
    "cpu": Benchmark("bench.cpu", "text, passes, starting, and the CPU's GEMM; mlir-opt and NumPy beside them"),
    "gpu": Benchmark("bench.gpu", "figures of docs/benchmarks.md that need GPUs, beside torch and bare CUDA"),
    "versions": Benchmark("bench.versions", "the CPU time of two versions of hir-opt and hir-run"),
    "model": Benchmark("bench.model", "the cost model beside measured times of nine rows: errors, choices and regret"),
    "patterns": Benchmark("bench.patterns", "the programs of docs/patterns with one stream and with several"),
    "scaling": Benchmark("bench.scaling", "ways to write collectives and pipelines on 8 to 1,024 ranks, by the cost model"),
    "joined-stores": Benchmark(
        "bench.kernels.joined_stores", "one launch that stores the rows of a product in several buffers, on a Hopper GPU"
    ),
    "gemm-kernels": Benchmark("bench.kernels.gemm_kernels", "our kernels for large products beside cuBLASLt, on a Hopper GPU"),
    "scaled-gemm": Benchmark("bench.kernels.scaled_gemm", "scaled_matmul beside torch._scaled_mm, on a GPU"),
    "graph-gaps": Benchmark("bench.kernels.graph_gaps", "what stands between two GEMMs of a CUDA graph"),
    "torch-layers": Benchmark("bench.torch_baselines.layers", "steps of Llama-shaped layers in torch, with and without programs"),
    "torch-ring": Benchmark(
        "bench.torch_baselines.ring", "a ring of copies and GEMMs as one op of torch, beside the same in Python"
    ),
    "generate": Benchmark("bench.generators.cli", "writes a large program"),
}


def main(words: Sequence[str]) -> int:
    """Runs a benchmark; gives the exit status."""
    if not words or words[0] in ("-h", "--help"):
        listed = "\n".join(f"  {name:<14}{benchmark.summary}" for name, benchmark in BENCHMARKS.items())
        print((__doc__ or "").replace("BENCHMARKS", listed).strip())
        return 0 if words else 2
    name, *arguments = words
    if name not in BENCHMARKS:
        print(f"there is no benchmark `{name}`; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    try:
        benchmark = importlib.import_module(BENCHMARKS[name].module)
    except ModuleNotFoundError as error:
        print(f"tools/benchmark {name}: needs {error.name}, which is not installed", file=sys.stderr)
        return 2
    status: int = benchmark.main(arguments)
    return status
