#!/usr/bin/env python3
"""Times our kernels for large bfloat16 products beside cuBLASLt's fastest algorithm, on one Hopper GPU.

usage: tools/bench/gemm_kernels.py [--kernels PATH] [--rounds 5] [--layouts tn,nn,nt]

Products are those of Llama layers with 8,192 tokens at tensor parallelism 2, 4 and 8, in three layouts: tn is `x @ w.T`
(w stored [n, k]), nn `x @ w`, nt `x.T @ w` (x stored [k, m]). Each kernel's result is compared with torch's. All run in
turn, so that the clock is the same for all: a round is 8 runs of each in a row, printed is the ratio of medians, which is
above 1 where the kernel is faster. cuBLASLt's reference is the fastest of 12 proposals. The bar: geometric mean >= 0.93, none
below 0.88. Exit status: 0 met, 1 missed or a result is wrong, 2 something is missing.

PATH prints the kernels (`cargo build --release -p hostir-cuda --example gemm_kernels`); torch and NVRTC are needed.
"""

import argparse
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
MEAN_BAR, LEAST_BAR = 0.93, 0.88
TOKENS = 8192
WORKSPACE = 64 << 20
PROPOSALS = 12
LAYOUTS = {"tn": (0, 0), "nn": (0, 1), "nt": (1, 1)}
# CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLASLT_MATMUL_DESC_TRANSA and _TRANSB, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES.
BF16, COMPUTE_32F, TRANSPOSE_A, TRANSPOSE_B, MAX_WORKSPACE = 14, 68, 3, 4, 1


def library(*names):
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


def check(status, call):
    if status != 0:
        print(f"gemm_kernels: {call} failed: {status}", file=sys.stderr)
        sys.exit(2)


def made(function, *arguments):
    """The handle that a function writes to its first argument."""
    handle = ctypes.c_void_p()
    check(function(ctypes.byref(handle), *arguments), function.__name__)
    return handle


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Compiler:
    """NVRTC and the driver: functions of kernel texts, each compiled once."""

    def __init__(self):
        self.nvrtc = library("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
        self.driver = library("libcuda.so.1")
        self.functions = {}

    def function(self, source, shared_bytes):
        if source not in self.functions:
            image = self.compile(source)
            module = made(self.driver.cuModuleLoadData, image)
            function = made(self.driver.cuModuleGetFunction, module, b"hir")
            check(self.driver.cuFuncSetAttribute(function, 8, shared_bytes), "cuFuncSetAttribute")
            self.functions[source] = function
        return self.functions[source]

    def compile(self, source):
        program = made(self.nvrtc.nvrtcCreateProgram, source.encode(), b"gemm.cu", 0, None, None)
        options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90a", b"--std=c++17")
        check(self.nvrtc.nvrtcCompileProgram(program, 2, options), "nvrtcCompileProgram")
        size = ctypes.c_size_t()
        check(self.nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        image = ctypes.create_string_buffer(size.value)
        check(self.nvrtc.nvrtcGetCUBIN(program, image), "nvrtcGetCUBIN")
        return image

    def tensor_map(self, matrix, tensor):
        buffer = ctypes.create_string_buffer(128 + 64)
        place = ctypes.c_void_p((ctypes.addressof(buffer) + 63) & ~63)
        extents, steps = (ctypes.c_uint64 * 2)(*matrix["extents"]), (ctypes.c_uint32 * 2)(1, 1)
        row, box = (ctypes.c_uint64 * 1)(matrix["row_bytes"]), (ctypes.c_uint32 * 2)(*matrix["box"])
        # bfloat16, 2 axes; swizzled by 128 bytes, promoted to 128 bytes in the second-level cache.
        status = self.driver.cuTensorMapEncodeTiled(place, 9, 2, ctypes.c_void_p(tensor.data_ptr()), extents, row, box, steps, 0, 3, 2, 0)
        check(status, "cuTensorMapEncodeTiled")
        return place.value, buffer

    def launcher(self, kernel, left, right, result):
        """A function that starts the kernel."""
        function = self.function(kernel["source"], kernel["shared_bytes"])
        maps = [self.tensor_map(*pair) for pair in zip(kernel["matrices"], (left, right, result))]
        sizes = [ctypes.c_uint64(size) for size in kernel["product"][:3]]
        places = (ctypes.c_void_p * 6)(*[place for place, _ in maps], *[ctypes.addressof(size) for size in sizes])

        def start(kept=(maps, sizes, result)):
            status = self.driver.cuLaunchKernel(function, kernel["blocks"], 1, 1, 384, 1, 1, kernel["shared_bytes"], stream(), places, None)
            check(status, "cuLaunchKernel")

        return start


class Result(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


class Library:
    """cuBLASLt."""

    def __init__(self):
        self.lib = library("libcublasLt.so.13", "libcublasLt.so.12")
        self.handle = made(self.lib.cublasLtCreate)
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def layout(self, rows, columns):
        return made(self.lib.cublasLtMatrixLayoutCreate, BF16, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))

    def launchers(self, product, left, right, result):
        """Functions that start what the library proposes. Its matrices are column-major: right comes first."""
        m, n, k, left_by_column, right_by_row = product
        lib = self.lib
        operation = made(lib.cublasLtMatmulDescCreate, COMPUTE_32F, 0)
        for attribute, transposed in ((TRANSPOSE_A, not right_by_row), (TRANSPOSE_B, left_by_column)):
            check(lib.cublasLtMatmulDescSetAttribute(operation, attribute, ctypes.byref(ctypes.c_int(transposed)), 4), "attribute")
        a = self.layout(n, k) if right_by_row else self.layout(k, n)
        b = self.layout(m, k) if left_by_column else self.layout(k, m)
        d = self.layout(n, m)
        preference = made(lib.cublasLtMatmulPreferenceCreate)
        check(lib.cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE, ctypes.byref(ctypes.c_size_t(WORKSPACE)), 8), "preference")
        found, count = (Result * PROPOSALS)(), ctypes.c_int()
        check(lib.cublasLtMatmulAlgoGetHeuristic(self.handle, operation, a, b, d, d, preference, PROPOSALS, found, ctypes.byref(count)), "heuristic")
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        address = lambda tensor: ctypes.c_void_p(tensor.data_ptr())

        def starter(algorithm):
            def start():
                status = lib.cublasLtMatmul(
                    self.handle, operation, ctypes.byref(one), address(right), a, address(left), b, ctypes.byref(zero), address(result), d,
                    address(result), d, ctypes.byref(algorithm), address(self.workspace), ctypes.c_size_t(WORKSPACE), stream(),
                )  # fmt: skip
                check(status, "cublasLtMatmul")

            return start

        return [starter(one_found.algorithm) for one_found in found[: count.value]]


def milliseconds(start, runs):
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(runs):
        start()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / runs


def medians(ways, rounds, runs=8):
    for start in ways.values():
        start()
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, start in ways.items():
            times[name].append(milliseconds(start, runs))
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def products(layout):
    """Shapes of q, k and v, of the output projection, of gate and up, and of down, for Llama 8B."""
    for ranks in (2, 4, 8):
        for n, k in ((6144 // ranks, 4096), (4096, 4096 // ranks), (28672 // ranks, 4096), (4096, 14336 // ranks)):
            yield [TOKENS, n, k, *LAYOUTS[layout]]


def kernels_of(tool, listed):
    text = "".join(" ".join(map(str, product)) + "\n" for product in listed)
    done = subprocess.run([tool], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(product, kernels, compiler, blas, rounds):
    """The least ratio of a product, and whether all results are right."""
    m, n, k, left_by_column, right_by_row = product
    random = lambda rows, columns: torch.randn(rows, columns, device="cuda").bfloat16()
    left, right = random(k, m) if left_by_column else random(m, k), random(k, n) if right_by_row else random(n, k)
    expected = (left.T if left_by_column else left) @ (right if right_by_row else right.T)
    ways, wrong = {}, []
    for kernel in kernels:
        result = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        ways[kernel["tile"]] = start = compiler.launcher(kernel, left, right, result)
        start()
        # Sums of the same products in another order, rounded to 8 bits.
        if not torch.allclose(result.float(), expected.float(), rtol=2**-7, atol=2**-7 * k**0.5):
            wrong.append(kernel["tile"])
    proposals = blas.launchers(product, left, right, torch.empty_like(expected))
    first = medians(dict(enumerate(proposals)), 2, 4)
    for choice in sorted(first, key=first.get)[:3]:
        ways[f"cuBLASLt {choice}"] = proposals[choice]
    found = medians(ways, rounds)
    library_best = min(time for name, time in found.items() if name.startswith("cuBLASLt"))
    own = min((kernel["tile"] for kernel in kernels), key=found.get)
    ratio = library_best / found[own]
    rate = 2 * m * n * k / found[own] / 1e9
    print(f"  {m} x {n} x {k}: {found[own]:.4f} ms ({own}; {rate:.0f} TFLOP/s), cuBLASLt {library_best:.4f}: {ratio:.3f}", flush=True)
    for tile in wrong:
        print(f"  WRONG: {tile}", flush=True)
    return ratio, not wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--kernels", default=str(ROOT / "target/release/examples/gemm_kernels"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layouts", default="tn,nn,nt")
    options = parser.parse_args()
    if not os.path.exists(options.kernels):
        print(f"gemm_kernels: {options.kernels} is not built", file=sys.stderr)
        return 2
    torch.zeros(1, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    compiler, blas, met = Compiler(), Library(), True
    for layout in options.layouts.split(","):
        listed = list(products(layout))
        kernels = kernels_of(options.kernels, listed)
        print(f"{layout}:")
        ratios = []
        for product in listed:
            own = [kernel for kernel in kernels if kernel["product"] == product]
            ratio, right = compare(product, own, compiler, blas, options.rounds)
            ratios.append(ratio)
            met &= right
        mean, least = statistics.geometric_mean(ratios), min(ratios)
        met &= mean >= MEAN_BAR and least >= LEAST_BAR
        print(f"  geometric mean {mean:.3f} (bar {MEAN_BAR}), least {least:.3f} (bar {LEAST_BAR})", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
