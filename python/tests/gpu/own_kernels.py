"""Cases of one rank: a user's kernel in Triton before and after a program, and what torch's profiler shows of a program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from one_rank import matmul, numbers


@triton.jit
def _scale(source, target, count, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, at < count) * factor, at < count)


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The user's kernel: on torch's current stream, as Triton launches."""
    made = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 256),)](x, made, x.numel(), factor, BLOCK=256)
    return made


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A kernel of the user's, a program, a kernel of the user's."""
    return scaled(matmul(scaled(x, 2.0), w), 0.5)


def own_kernels() -> None:
    """Nothing but the current stream orders them: as calls, on another stream, and as a graph that is replayed."""
    x, w = numbers(512, 64), numbers(64, 80, seed=1)
    assert torch.equal(layer(x, w), x @ w)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = [layer(x + step, w) for step in range(50)]
    torch.cuda.current_stream().wait_stream(side)
    for step, result in enumerate(found):
        assert torch.equal(result, (x + step) @ w), step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x, w)
    for seed in range(50):
        x.copy_(numbers(512, 64, seed=seed))
        graph.replay()
        assert torch.equal(y, x @ w), seed


def profiler() -> None:
    """Torch's profiler shows each call as a span of the host with the op's name, and its kernels on the GPU."""
    x, w = numbers(512, 64), numbers(64, 80, seed=1)
    matmul(x, w)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(3):
            matmul(x, w)
        torch.cuda.synchronize()
    events = profile.events()
    calls = [event for event in events if event.name == "hostir_gpu::matmul"]
    on_device = [event.name for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    assert len(calls) == 3, [event.name for event in events]
    assert len(on_device) >= 3, on_device


CASES = [own_kernels, profiler]
