"""Ranks of the tests of graphs that `make_fx` has traced in each of its modes, and of what is checked and measured on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import hostir
import hostir.torch as hir
from hostir.torch import Reason
from hostir.torch._overlap import measure

# With real tensors torch runs the collectives of a trace, and waits for gloo with the interpreter held: test_overlap_errors.py
# traces them in a group that exists for shapes only.
MODES = {
    "fake": {"tracing_mode": "fake"},
    "symbolic": {"tracing_mode": "symbolic"},
    "pre_dispatch": {"tracing_mode": "fake", "pre_dispatch": True},
}


def numbers(*shape: int) -> torch.Tensor:
    """Other ones on each rank."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(dist.get_rank()))


def traces(group: Any) -> None:
    """Whatever the tensors of a trace were, the module gives the function's results, and has programs."""

    def gather(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.all_gather_tensor(x, 0, group) @ w

    def several(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> Any:
        rows = fc.all_gather_tensor(x, 0, group)
        return F.silu(rows @ w) * 2 + 1, fc.reduce_scatter_tensor(F.silu(rows @ w) @ v, "sum", 0, group), rows

    def reduce(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.all_reduce(x @ w, "sum", group)

    def batch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.all_gather_tensor(x, 1, group) @ w

    for function, shapes in (
        (gather, [(4, 8), (8, 6)]),
        (several, [(4, 8), (8, 6), (6, 8)]),
        (reduce, [(4, 8), (8, 6)]),
        (batch, [(3, 4, 8), (8, 6)]),
    ):
        given = [numbers(*shape) for shape in shapes]
        for mode, settings in MODES.items():
            module = make_fx(function, **settings)(*given)
            overlap = hir.Overlap(choose="always")
            overlap(module)
            what = f"{function.__name__}, {mode}: {overlap.report()}"
            reasons = {line.reason for line in overlap.report().lines}
            # Nothing says that symbols divide by the ranks; those of gathered rows do.
            is_open = mode == "symbolic" and function is reduce
            assert reasons == ({Reason.ROWS_NOT_DIVISIBLE} if is_open else {None}), what
            torch.testing.assert_close(module(*given), function(*given), msg=lambda text, what=what: f"{what}\n{text}")
            overlap.check()


def regions_of_no_graph_are_not_compared(group: Any) -> None:
    """The ranks' parts differ, so that none of them is fused, and there is nothing to compare."""
    width = 24 - dist.get_rank()

    def layer(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = fc.all_gather_tensor(x, 0, group)
        return fc.reduce_scatter_tensor(F.silu(rows @ w) @ v, "sum", 0, group)

    module = make_fx(layer, tracing_mode="fake")(numbers(5, 16), numbers(16, width), numbers(width, 16))
    overlap = hir.Overlap(timeout=30.0)
    overlap(module)
    assert {line.reason for line in overlap.report().lines} == {Reason.RANKS_DISAGREE}, str(overlap.report())
    overlap.check()


def nothing_is_measured_on_the_cpu(group: Any) -> None:
    """A time of torch's own nodes beside itself is no gain."""
    module = make_fx(lambda x, w: fc.all_gather_tensor(x, 0, group) @ w, tracing_mode="fake")(numbers(4, 8), numbers(8, 6))
    overlap = hir.Overlap(min_gain=0.01)
    # Other tests of this process may have set a clock.
    found, measure._time_on_cpu = measure._time_on_cpu, measure._refuse_cpu
    try:
        overlap(module)
    finally:
        measure._time_on_cpu = found
    (line,) = overlap.report().lines
    assert line.reason is Reason.CANNOT_MEASURE and "on the CPU" in line.detail and line.times is None, line.verdict
    torch.testing.assert_close(module(numbers(4, 8), numbers(8, 6)), fc.all_gather_tensor(numbers(4, 8), 0, group) @ numbers(8, 6))


def programs_get_what_they_take(group: Any) -> None:
    """On the CPU, where the function runs, as on GPUs."""
    program = hostir.parse(
        "hir 2\nmesh d = 0..2\ng(A: f32[x:2, m, k], B: f32[k, n]) -> (C: f32[2, m, n]) on d:\n  C = matmul(A, B)\n",
    ).run_passes("host-ir-lower")

    @hir.op("hostir_tests::takes", program=program, args={"x": "A", "w": "B"}, out="C")
    def takes(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
        return fc.all_gather_tensor_autograd(x, 0, group) @ w

    x, w = numbers(4, 8), torch.ones(8, 6)
    torch.testing.assert_close(takes(x, w, group).reshape(8, 6), fc.all_gather_tensor(x, 0, group) @ w)
    for wrong, code, what in (
        ((x.bfloat16(), w.bfloat16()), "H0606", "A is float32, but the array is bfloat16"),
        ((x, w.double()), "H0606", "B is float32"),
        ((x[0], w), "H0605", "A has the axes"),
        ((x, w[:7]), "H0605", "k is 8 in A, but 7 in B"),
        ((x[None, None], w), "H0605", "A has the axes"),
    ):
        with pytest.raises(hostir.HostIrError, match=what) as caught:
            takes(*wrong, group)
        assert caught.value.code == code
    # A compiler asks on tensors without memory, also for all sizes at once.
    for dynamic in (False, True):
        with pytest.raises(Exception, match="A is float32, but the array is bfloat16"):
            torch.compile(takes, backend="eager", fullgraph=True, dynamic=dynamic)(x.bfloat16(), w.bfloat16(), group)
