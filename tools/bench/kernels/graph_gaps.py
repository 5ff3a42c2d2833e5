"""Times what stands between two GEMMs of a CUDA graph: operations of the stream on words, kernels that do the same, forks.

usage: tools/benchmark graph-gaps [--gemms N] [--replays N]

A graph has so many GEMMs of 4,096 x 4,096 by 4,096 x 2,048 in bf16 (20) on one GPU, with the same thing behind each. Graphs are
replayed in turn (25 times, behind five that do not count); printed are the medians, divided by the number of GEMMs, and what each
adds to the graph of GEMMs alone. Words are in the GPU's own memory, and those that are waited for are set, so that all times are of
the operations themselves. Exit status: 0, 3 there is no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
from collections.abc import Callable, Sequence

import torch

from bench.torch_baselines.graph import recorded

# CUstreamBatchMemOpType and CU_STREAM_WAIT_VALUE_EQ.
WAIT, WRITE, EQUAL = 1, 2, 1
KERNELS = r"""
extern "C" __global__ void write_and_wait(unsigned int* to, unsigned int* from) {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(to), "r"(1u) : "memory");
  unsigned int value;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  } while (value == 0);
}
extern "C" __global__ void nothing(unsigned int* to, unsigned int* from) {}
"""

Between = Callable[[], object]


class Gaps:
    """Work that may stand between GEMMs, on the current stream."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.words = torch.ones(64, device="cuda", dtype=torch.int32)
        self.x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(4096, 2048, device="cuda", dtype=torch.bfloat16)
        self.y = torch.empty(4096, 2048, device="cuda", dtype=torch.bfloat16)
        self.rows = torch.empty(2, 16 << 20, device="cuda", dtype=torch.bfloat16)
        self.side = torch.cuda.Stream()
        self.write_and_wait = torch.cuda._compile_kernel(KERNELS, "write_and_wait")
        self.nothing = torch.cuda._compile_kernel(KERNELS, "nothing")

    def gemm(self) -> None:
        torch.mm(self.x, self.w, out=self.y)

    def words_of_stream(self, *kinds: int) -> None:
        """Operations on words, in one call."""
        fields: list[int] = []
        for at, kind in enumerate(kinds):
            fields += [kind, self.words.data_ptr() + 4 * at, 1, EQUAL if kind == WAIT else 0, 0, 0]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        operations = (ctypes.c_uint64 * len(fields))(*fields)
        status = self.driver.cuStreamBatchMemOp_v2(stream, ctypes.c_uint(len(kinds)), operations, ctypes.c_uint(0))
        if status != 0:
            raise RuntimeError(f"cuStreamBatchMemOp: {status}")

    def words_in_two_calls(self) -> None:
        """Three operations on words, in two calls."""
        self.words_of_stream(WRITE)
        self.words_of_stream(WAIT, WRITE)

    def kernel(self, kernel: Callable[..., object]) -> None:
        kernel(grid=(1, 1, 1), block=(1, 1, 1), args=(self.words, self.words[8:]))

    def copy_beside(self, before: Between, after: Between) -> None:
        """A copy on another stream with something before and after it, beside a GEMM, and a join."""
        current = torch.cuda.current_stream()
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            before()
            self.rows[0].copy_(self.rows[1], non_blocking=True)
            after()
        self.gemm()
        current.wait_stream(self.side)

    def all(self) -> dict[str, Between]:
        """By name; the first is nothing."""
        return {
            "nothing": lambda: None,
            "write a word": lambda: self.words_of_stream(WRITE),
            "wait for a word": lambda: self.words_of_stream(WAIT),
            "write, wait, write": lambda: self.words_of_stream(WRITE, WAIT, WRITE),
            "the same as two calls": self.words_in_two_calls,
            "a kernel that does nothing": lambda: self.kernel(self.nothing),
            "a kernel that writes and waits": lambda: self.kernel(self.write_and_wait),
            "a copy beside a GEMM": lambda: self.copy_beside(lambda: None, lambda: None),
            "the copy with words around it": lambda: self.copy_beside(
                lambda: self.words_of_stream(WAIT), lambda: self.words_of_stream(WRITE, WRITE)
            ),
            "the copy with kernels around it": lambda: self.copy_beside(
                lambda: self.kernel(self.write_and_wait), lambda: self.kernel(self.write_and_wait)
            ),
        }


def time_in_turn(graphs: dict[str, Between], replays: int) -> dict[str, list[float]]:
    """Microseconds of each graph, by replay."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(-5, replays):
        for name, replay in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            replay()
            end.record()
            end.synchronize()
            if turn >= 0:
                times[name].append(start.elapsed_time(end) * 1e3)
    return times


def main(words: Sequence[str]) -> int:
    """Prints a line for each thing that may stand between GEMMs."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark graph-gaps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gemms", type=int, default=20)
    parser.add_argument("--replays", type=int, default=25)
    options = parser.parse_args(words)
    if not torch.cuda.is_available():
        print("graph_gaps: there is no GPU", file=sys.stderr)
        return 3
    gaps = Gaps()

    def graph_of(between: Between) -> Between:
        def gemms() -> None:
            for _ in range(options.gemms):
                gaps.gemm()
                between()

        return recorded(gemms)

    times = time_in_turn({name: graph_of(between) for name, between in gaps.all().items()}, options.replays)
    medians = {name: statistics.median(sample) / options.gemms for name, sample in times.items()}
    print(f"{torch.cuda.get_device_name()}, a GEMM and what is behind it, us")
    for name, median in medians.items():
        print(f"{name:<34}{median:>9.2f}{median - medians['nothing']:>+9.2f}")
    return 0
