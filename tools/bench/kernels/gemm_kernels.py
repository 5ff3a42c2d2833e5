"""Times our kernels for large 16-bit products beside cuBLASLt's fastest algorithm, on one Hopper GPU.

usage: tools/benchmark gemm-kernels [--kernels PATH] [--rounds 5] [--layouts tn,nn,nt] [--element bf16|f16]

Products are those of Llama layers with 8,192 tokens at tensor parallelism 2, 4 and 8, in three layouts: tn is `x @ w.T`
(w stored [n, k]), nn `x @ w`, nt `x.T @ w` (x stored [k, m]). Each kernel's result is compared with torch's. All run in
turn, so that the clock is the same for all: a round is 8 runs of each in a row, printed is the ratio of medians, which is
above 1 where the kernel is faster. cuBLASLt's reference is the fastest of 12 proposals. The bar: geometric mean >= 0.93, none
below 0.88. Exit status: 0 met, 1 missed or a result is wrong, 2 something is missing.

PATH prints the kernels (`cargo build --release -p hostir-cuda --example gemm_kernels`); torch and NVRTC are needed.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bench.paths import release_tool

MEAN_BAR, LEAST_BAR = 0.93, 0.88
TOKENS = 8192
WORKSPACE = 64 << 20
PROPOSALS = 12
LAYOUTS = {"tn": (0, 0), "nn": (0, 1), "nt": (1, 1)}
MAP_BYTES = 128
# CUBLAS_COMPUTE_32F, CUBLASLT_MATMUL_DESC_TRANSA and _TRANSB, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES.
COMPUTE_32F, TRANSPOSE_A, TRANSPOSE_B, MAX_WORKSPACE = 68, 3, 4, 1


class Element(NamedTuple):
    """A type of elements, with its numbers for cuBLASLt (`cudaDataType`) and for tensor maps (`CUtensorMapDataType`)."""

    dtype: torch.dtype
    library: int
    map: int
    bits: int


ELEMENTS = {"bf16": Element(torch.bfloat16, 14, 9, 8), "f16": Element(torch.float16, 2, 6, 11)}

Launch = Callable[[], None]
"""Starts a product on the current stream."""

Kernel = dict[str, Any]
"""A line of `examples/gemm_kernels.rs`."""


class Product(NamedTuple):
    """A product of so many rows, columns and terms; the left factor may lie by columns, the right one by rows."""

    m: int
    n: int
    k: int
    left_by_column: int
    right_by_row: int


def open_library(*names: str) -> ctypes.CDLL:
    """The first of these libraries that opens, also one that torch brings."""
    beside = Path(torch.__file__).parents[1] / "nvidia"
    for name in names:
        for path in [name, *glob.glob(f"{beside}/**/{name}", recursive=True)]:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    print(f"gemm_kernels: none of {', '.join(names)} opens", file=sys.stderr)
    sys.exit(2)


def check(status: int, call: str) -> None:
    """Ends the program if a call failed."""
    if status != 0:
        print(f"gemm_kernels: {call} failed: {status}", file=sys.stderr)
        sys.exit(2)


def make_handle(function: Any, *arguments: Any) -> ctypes.c_void_p:
    """The handle that a function writes to its first argument."""
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments), function.__name__)
    return handle


def current_stream() -> ctypes.c_void_p:
    """The stream on which torch works."""
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Compiler:
    """NVRTC and the driver: functions of kernel texts, each compiled once."""

    def __init__(self, element: Element = ELEMENTS["bf16"]) -> None:
        self.element = element
        self.nvrtc = open_library("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
        self.driver = open_library("libcuda.so.1")
        self.functions: dict[str, ctypes.c_void_p] = {}

    def function(self, source: str, shared_bytes: int) -> ctypes.c_void_p:
        """The function of a kernel's text."""
        if source not in self.functions:
            image = self.compile(source)
            module = make_handle(self.driver.cuModuleLoadData, image)
            function = make_handle(self.driver.cuModuleGetFunction, module, b"hir")
            check(self.driver.cuFuncSetAttribute(function, 8, shared_bytes), "cuFuncSetAttribute")
            self.functions[source] = function
        return self.functions[source]

    def compile(self, source: str) -> ctypes.Array[ctypes.c_char]:
        """The image of a kernel's text."""
        program = make_handle(self.nvrtc.nvrtcCreateProgram, source.encode(), b"gemm.cu", 0, None, None)
        options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90a", b"--std=c++17")
        check(self.nvrtc.nvrtcCompileProgram(program, 2, options), "nvrtcCompileProgram")
        size = ctypes.c_size_t()
        check(self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        image = ctypes.create_string_buffer(size.value)
        check(self.nvrtc.nvrtcGetCUBIN(program, image), "nvrtcGetCUBIN")
        return image

    def tensor_maps(self, matrix: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> tuple[int, ctypes.Array[ctypes.c_char]]:
        """The address of the tensor maps of these tensors, and the buffer that holds them."""
        buffer = ctypes.create_string_buffer(MAP_BYTES * len(tensors) + 64)
        place = (ctypes.addressof(buffer) + 63) & ~63
        for number, tensor in enumerate(tensors):
            self.encode_map(place + MAP_BYTES * number, matrix, tensor)
        return place, buffer

    def encode_map(self, place: int, matrix: Mapping[str, Any], tensor: torch.Tensor) -> None:
        """Writes a tensor map."""
        extents, steps = (ctypes.c_uint64 * 2)(*matrix["extents"]), (ctypes.c_uint32 * 2)(1, 1)
        row, box = (ctypes.c_uint64 * 1)(matrix["row_bytes"]), (ctypes.c_uint32 * 2)(*matrix["box"])
        # 2 axes; swizzled by 128 bytes, promoted to 128 bytes in the second-level cache.
        matrix_at = (ctypes.c_void_p(place), self.element.map, 2, ctypes.c_void_p(tensor.data_ptr()))
        status = self.driver.cuTensorMapEncodeTiled(*matrix_at, extents, row, box, steps, 0, 3, 2, 0)
        check(status, "cuTensorMapEncodeTiled")

    def launcher(
        self, kernel: Kernel, lefts: Sequence[torch.Tensor], right: torch.Tensor, results: Sequence[torch.Tensor]
    ) -> Launch:
        """A function that starts the kernel, for a left factor and a result of each part."""
        function = self.function(kernel["source"], kernel["shared_bytes"])
        maps = [self.tensor_maps(*pair) for pair in zip(kernel["matrices"], (lefts, [right], results), strict=True)]
        sizes = [ctypes.c_uint64(size) for size in kernel["product"][:3]]
        places = (ctypes.c_void_p * 6)(*[place for place, _ in maps], *[ctypes.addressof(size) for size in sizes])

        # Defaults keep what the kernel's arguments point at.
        def start(_maps: object = maps, _sizes: object = sizes, _results: object = results) -> None:
            blocks, shared_bytes = kernel["blocks"], kernel["shared_bytes"]
            status = self.driver.cuLaunchKernel(function, blocks, 1, 1, 384, 1, 1, shared_bytes, current_stream(), places, None)
            check(status, "cuLaunchKernel")

        return start


class Heuristic(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """cuBLASLt."""

    def __init__(self, element: Element = ELEMENTS["bf16"]) -> None:
        self.element = element
        self.lib = open_library("libcublasLt.so.13", "libcublasLt.so.12")
        self.handle = make_handle(self.lib.cublasLtCreate)
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def layout(self, rows: int, columns: int) -> ctypes.c_void_p:
        """The layout of a column-major matrix."""
        shape = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
        return make_handle(self.lib.cublasLtMatrixLayoutCreate, self.element.library, *shape)

    def launchers(self, product: Product, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> list[Launch]:
        """Functions that start what the library proposes. Its matrices are column-major: right comes first."""
        m, n, k, left_by_column, right_by_row = product
        lib = self.lib
        operation = make_handle(lib.cublasLtMatmulDescCreate, COMPUTE_32F, 0)
        for attribute, transposed in ((TRANSPOSE_A, not right_by_row), (TRANSPOSE_B, left_by_column)):
            value = ctypes.c_int(transposed)
            check(lib.cublasLtMatmulDescSetAttribute(operation, attribute, ctypes.byref(value), 4), "attribute")
        a = self.layout(n, k) if right_by_row else self.layout(k, n)
        b = self.layout(m, k) if left_by_column else self.layout(k, m)
        d = self.layout(n, m)
        preference = make_handle(lib.cublasLtMatmulPreferenceCreate)
        space = ctypes.c_size_t(WORKSPACE)
        check(lib.cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE, ctypes.byref(space), 8), "preference")
        found, count = (Heuristic * PROPOSALS)(), ctypes.c_int()
        asked = (self.handle, operation, a, b, d, d, preference, PROPOSALS)
        check(lib.cublasLtMatmulAlgoGetHeuristic(*asked, found, ctypes.byref(count)), "heuristic")
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def starter(algorithm: Any) -> Launch:
            def start() -> None:
                status = lib.cublasLtMatmul(
                    self.handle, operation, ctypes.byref(one), address_of(right), a, address_of(left), b, ctypes.byref(zero),
                    address_of(result), d, address_of(result), d, ctypes.byref(algorithm), address_of(self.workspace),
                    ctypes.c_size_t(WORKSPACE), current_stream(),
                )  # fmt: skip
                check(status, "cublasLtMatmul")

            return start

        return [starter(proposal.algorithm) for proposal in found[: count.value]]


def address_of(tensor: torch.Tensor) -> ctypes.c_void_p:
    """The address of a tensor's elements."""
    return ctypes.c_void_p(tensor.data_ptr())


def milliseconds(start: Launch, runs: int) -> float:
    """The time of one of some runs in a row."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(runs):
        start()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / runs


def median_times(ways: Mapping[str, Launch], rounds: int, runs: int = 8) -> dict[str, float]:
    """The median milliseconds of each way; they run in turn."""
    for start in ways.values():
        start()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, start in ways.items():
            times[name].append(milliseconds(start, runs))
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def products_of(layout: str) -> Iterator[Product]:
    """Shapes of q, k and v, of the output projection, of gate and up, and of down, for Llama 8B."""
    for ranks in (2, 4, 8):
        for n, k in ((6144 // ranks, 4096), (4096, 4096 // ranks), (28672 // ranks, 4096), (4096, 14336 // ranks)):
            yield Product(TOKENS, n, k, *LAYOUTS[layout])


def kernels_of(tool: str, products: Sequence[Sequence[int]], element: str = "bf16") -> list[Kernel]:
    """The kernels of products, as the example prints them. A sixth number says in how many parts one is stored."""
    text = "".join(" ".join(map(str, product)) + "\n" for product in products)
    done = subprocess.run([tool, element], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def random_matrix(rows: int, columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Normally distributed numbers."""
    return torch.randn(rows, columns, device="cuda").to(dtype)


class Comparison(NamedTuple):
    """The library's time over that of our fastest kernel, and whether all results are right."""

    ratio: float
    is_right: bool


def compare(product: Product, kernels: Sequence[Kernel], compiler: Compiler, library: CublasLt, rounds: int) -> Comparison:
    """Times the kernels of a product beside the library's fastest algorithms."""
    m, n, k, left_by_column, right_by_row = product
    element = compiler.element
    left = random_matrix(*((k, m) if left_by_column else (m, k)), element.dtype)
    right = random_matrix(*((k, n) if right_by_row else (n, k)), element.dtype)
    expected = (left.T if left_by_column else left) @ (right if right_by_row else right.T)
    ways: dict[str, Launch] = {}
    wrong = []
    for kernel in kernels:
        result = torch.full((m, n), float("nan"), device="cuda", dtype=element.dtype)
        ways[kernel["tile"]] = start = compiler.launcher(kernel, [left], right, [result])
        start()
        # Sums of the same products in another order, rounded to so many bits.
        rounding = 2.0 ** (1 - element.bits)
        if not torch.allclose(result.float(), expected.float(), rtol=rounding, atol=rounding * k**0.5):
            wrong.append(kernel["tile"])
    proposals = library.launchers(product, left, right, torch.empty_like(expected))
    first = median_times({str(choice): start for choice, start in enumerate(proposals)}, 2, 4)
    for choice in sorted(first, key=lambda choice: first[choice])[:3]:
        ways[f"cuBLASLt {choice}"] = proposals[int(choice)]
    found = median_times(ways, rounds)
    library_best = min(time for name, time in found.items() if name.startswith("cuBLASLt"))
    own = min((kernel["tile"] for kernel in kernels), key=lambda tile: found[tile])
    ratio = library_best / found[own]
    rate = 2 * m * n * k / found[own] / 1e9
    print(f"  {m} x {n} x {k}: {found[own]:.4f} ms ({own}; {rate:.0f} TFLOP/s),", end=" ")
    print(f"cuBLASLt {library_best:.4f}: {ratio:.3f}", flush=True)
    for tile in wrong:
        print(f"  WRONG: {tile}", flush=True)
    return Comparison(ratio, not wrong)


def main(words: Sequence[str]) -> int:
    """Compares all layouts; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark gemm-kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", default=release_tool("examples/gemm_kernels"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layouts", default="tn,nn,nt")
    parser.add_argument("--element", choices=list(ELEMENTS), default="bf16")
    options = parser.parse_args(words)
    if not os.path.exists(options.kernels):
        print(f"gemm_kernels: {options.kernels} is not built", file=sys.stderr)
        return 2
    torch.zeros(1, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    element = ELEMENTS[options.element]
    compiler, library, is_met = Compiler(element), CublasLt(element), True
    for layout in options.layouts.split(","):
        products = list(products_of(layout))
        kernels = kernels_of(options.kernels, products, options.element)
        print(f"{layout}:")
        ratios = []
        for product in products:
            own = [kernel for kernel in kernels if tuple(kernel["product"]) == product]
            compared = compare(product, own, compiler, library, options.rounds)
            ratios.append(compared.ratio)
            is_met &= compared.is_right
        mean, least = statistics.geometric_mean(ratios), min(ratios)
        is_met &= mean >= MEAN_BAR and least >= LEAST_BAR
        print(f"  geometric mean {mean:.3f} (bar {MEAN_BAR}), least {least:.3f} (bar {LEAST_BAR})", flush=True)
    return 0 if is_met else 1
