"""The costs of a call of an op for the host, part by part: three matrices of 64 x 64.

usage: python python/tests/host_cost.py

Without a GPU the tensors are the CPU's and sessions do nothing: what is left is all but the driver's part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hostir
import hostir.torch as hir
from hostir.torch._torch_internals import dispatch_watchers

PRODUCT = hostir.parse("hir 2\nf(x: f32[m, k], w: f32[k, n]) -> (y: f32[m, n]):\n  y = matmul(x, w)\n")


@hir.op("hostir_host_cost::matmul", program=PRODUCT, args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


class Idle:
    """In the place of a session."""

    def run(self, stream: int, addresses: list[int]) -> None:
        """Does nothing."""


class Prepared:
    """In the place of what is prepared for a layout."""

    session = Idle()


def least_time(call: Callable[[], Any], synchronize: Callable[[], None], calls: int = 200, series: int = 10) -> float:
    """Microseconds of a call, the least of several series."""
    best = float("inf")
    for _ in range(series):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    synchronize()
    return best * 1e6


def look_for_watchers() -> None:
    """The first questions of a direct call, from Python."""
    for ask, _ in dispatch_watchers():
        assert ask is not None
        ask()


def parts(device: str) -> dict[str, Callable[[], Any]]:
    """The calls that are timed."""
    x, w, out = (torch.ones(64, 64, device=device) for _ in range(3))
    default = torch.ops.hostir_host_cost.matmul.default
    sessions, tensors = matmul._sessions, [x, w]
    if device == "cpu":
        sessions.dispatcher.insert(tensors, (), Prepared(), [((64, 64), (64, 1), torch.float32)])
    else:
        matmul(x, w)
    dispatcher, session = sessions.dispatcher, sessions.sessions()[0]
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    addresses = [tensor.data_ptr() for tensor in (x, w, out)]
    found = {
        "torch.mm": lambda: torch.mm(x, w),
        "torch.mm, out=": lambda: torch.mm(x, w, out=out),
        "op": lambda: matmul(x, w),
        "op, out=": lambda: matmul(x, w, out=out),
        "torch.ops..default": lambda: default(x, w),
        "dispatcher": lambda: dispatcher.call((x, w)),
        "dispatcher, out=": lambda: dispatcher.call_into((x, w), out),
        "dispatcher, below torch's": lambda: dispatcher.run(tensors, ()),
        "torch.empty_strided": lambda: torch.empty_strided((64, 64), (64, 1), dtype=torch.float32, device=device),
        "who looks at ops": look_for_watchers,
        "session": lambda: session.run(stream, addresses),
    }
    if device == "cpu":
        # The op's function runs there, on all cores.
        del found["torch.ops..default"], found["torch.mm"], found["torch.mm, out="]
    return found


def print_host_cost() -> None:
    """Prints the parts."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    api = "DLPack's exchange API" if matmul._sessions.dispatcher.has_exchange_api else "attributes"
    where = torch.cuda.get_device_name() if device == "cuda" else "sessions that do nothing"
    print(f"  host time of a call, torch {torch.__version__}, {where}, tensors by {api}", flush=True)
    for name, call in parts(device).items():
        print(f"  {name + ':':28}{least_time(call, synchronize):6.2f} us", flush=True)
    if device == "cuda":
        print(f"  {'graph of 20 calls, a call:':28}{replay_time(synchronize):6.2f} us", flush=True)


def replay_time(synchronize: Callable[[], None]) -> float:
    """Microseconds of the host for a call in a graph."""
    x, w = (torch.ones(64, 64, device="cuda") for _ in range(2))
    matmul(x, w)
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            matmul(x, w)
    return least_time(graph.replay, synchronize) / 20


if __name__ == "__main__":
    print_host_cost()
