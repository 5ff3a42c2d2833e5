"""Times one launch that stores each block of a product's rows in a buffer of its own, on one Hopper GPU.

usage: tools/benchmark joined-stores [--kernels PATH] [--rounds 7]

On several GPUs the buffers are in the memory of the ranks that own the rows of a sum; here all are on one GPU, so what is
measured is the cost of the launch, not that of links. Beside it, in turn, all as CUDA graphs, so that the host's calls cost
nothing: one product of cuBLASLt for each block (its fastest of 3 proposals), one product of all rows by cuBLASLt, and by our
kernel. A row is M, K, N of the whole sum and the ranks; a rank multiplies all M rows by its K / ranks. Results are compared
with torch's. Exit status: 0, 1 if a result is wrong, 2 if something is missing.

PATH prints the kernels (`cargo build --release -p hostir-cuda --example gemm_kernels`); torch and NVRTC are needed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from bench.kernels.gemm_kernels import (
    LAYOUTS,
    Compiler,
    CublasLt,
    Kernel,
    Launch,
    Product,
    kernels_of,
    median_times,
    random_matrix,
)
from bench.paths import release_tool

TOKENS = 8192


class Row(NamedTuple):
    """A product whose sum over so many ranks is scattered by rows."""

    m: int
    k: int
    n: int
    ranks: int
    layout: str

    def product(self, parts: int) -> Product:
        """A rank's product of one of so many blocks of rows."""
        return Product(self.m // parts, self.n, self.k // self.ranks, *LAYOUTS[self.layout])


def rows() -> Iterator[Row]:
    """The rows of tools/overlap-bench, and those of Llama 8B's layers: o and down, forward and for the gradient of q, k, v
    and of gate and up."""
    for m, k, n in ((8192, 8192, 8192), (4096, 16384, 4096), (16384, 28672, 8192)):
        for ranks in (2, 4, 8):
            yield Row(m, k, n, ranks, "nn")
    for ranks in (2, 4, 8):
        for k, layout in ((4096, "tn"), (14336, "tn"), (6144, "nn"), (28672, "nn")):
            yield Row(TOKENS, k, 4096, ranks, layout)


def in_turn(starts: Sequence[Launch]) -> Launch:
    """One start after the other."""

    def start() -> None:
        for one in starts:
            one()

    return start


class Kernels:
    """The kernels of products, by product and parts."""

    def __init__(self, tool: str, wanted: Sequence[Row]) -> None:
        asked = [(*row.product(parts), parts) for row in wanted for parts in (1, row.ranks)]
        self.found: dict[tuple[int, ...], list[Kernel]] = {}
        for kernel in kernels_of(tool, asked):
            self.found.setdefault(tuple(kernel["product"]), []).append(kernel)

    def of(self, row: Row, parts: int) -> list[Kernel]:
        """The kernels for a row's product in so many parts."""
        return self.found.get((*row.product(parts), parts), [])


def as_graph(start: Launch) -> Launch:
    """The same as a recorded graph."""
    start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        start()

    # The default keeps the memory of the recorded addresses.
    def replay(_start: Launch = start) -> None:
        graph.replay()

    return replay


def best_of(library: CublasLt, row: Row, operands: Sequence[torch.Tensor], parts: int) -> dict[str, Launch]:
    """The library's three fastest ways to multiply so many blocks of rows, one after the other."""
    left, right, result = operands
    lefts, results = left.chunk(parts), result.chunk(parts)
    each = [library.launchers(row.product(parts), lefts[part], right, results[part]) for part in range(parts)]
    count = min(len(starts) for starts in each)
    ways = {str(choice): as_graph(in_turn([starts[choice] for starts in each])) for choice in range(count)}
    first = median_times(ways, 2, 4)
    return {f"library {parts} {choice}": ways[choice] for choice in sorted(first, key=lambda one: first[one])[:3]}


def compare(row: Row, kernels: Kernels, compiler: Compiler, library: CublasLt, rounds: int) -> bool:
    """Times a row, prints a line, and returns true if the results are right."""
    whole = row.product(1)
    left = random_matrix(whole.m, whole.k)
    right = random_matrix(whole.k, whole.n) if whole.right_by_row else random_matrix(whole.n, whole.k)
    expected = left @ (right if whole.right_by_row else right.T)
    is_right, ways = True, {}
    for parts in (1, row.ranks):
        for kernel in kernels.of(row, parts):
            result = torch.full((whole.m, whole.n), float("nan"), device="cuda", dtype=torch.bfloat16)
            results = [block.clone() for block in result.chunk(parts)]
            name = f"own {parts} {kernel['tile']}"
            ways[name] = start = as_graph(compiler.launcher(kernel, left.chunk(parts), right, results))
            start()
            # Sums of the same products in another order, rounded to 8 bits.
            if not torch.allclose(torch.cat(results).float(), expected.float(), rtol=2**-7, atol=2**-7 * whole.k**0.5):
                print(f"  WRONG: {name}", flush=True)
                is_right = False
    for parts in (1, row.ranks):
        ways |= best_of(library, row, (left, right, torch.empty_like(expected)), parts)
    found = median_times(ways, rounds)
    least = {}
    for kind in (f"own {row.ranks} ", f"library {row.ranks} ", "library 1 ", "own 1 "):
        name = min((name for name in found if name.startswith(kind)), key=lambda one: found[one])
        least[kind] = (found[name], name.removeprefix(kind))
    [(joined, tile), (parts_time, _), (whole_time, _), (own_whole, _)] = least.values()
    print(
        f"| {row.m},{row.k},{row.n} {row.layout} | {row.ranks} | {joined:.4f} ({tile}) | {parts_time:.4f} | {whole_time:.4f}"
        f" | {own_whole:.4f} | {parts_time / joined:.3f} | {whole_time / joined:.3f} |",
        flush=True,
    )
    return is_right


def main(words: Sequence[str]) -> int:
    """Compares all rows; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark joined-stores", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", default=release_tool("examples/gemm_kernels"))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(words)
    if not os.path.exists(options.kernels):
        print(f"joined_stores: {options.kernels} is not built", file=sys.stderr)
        return 2
    torch.zeros(1, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(
        "| M,K,N | ranks | one launch (ms) | cuBLASLt, a product for each block | cuBLASLt, whole | ours, whole "
        "| blocks / launch | whole / launch |"
    )
    print("|---|---|---|---|---|---|---|---|")
    wanted = list(rows())
    kernels, compiler, library = Kernels(options.kernels, wanted), Compiler(), CublasLt()
    right = [compare(row, kernels, compiler, library, options.rounds) for row in wanted]
    return 0 if all(right) else 1
