"""Cases of one rank: a program without communication on torch's streams."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import hostir
import hostir.torch as hir

sys.path.insert(0, str(Path(__file__).parent.parent))
from host_cost import print_host_cost

PROGRAMS = Path(__file__).parent.parent / "programs"
BFLOAT16 = hostir.parse("hir 2\nf(x: bf16[m, k], w: bf16[k, n]) -> (y: bf16[m, n]):\n  y = matmul(x, w)\n")


@hir.op("hostir_gpu::matmul", program=PROGRAMS / "matmul.hir", args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


@hir.op("hostir_gpu::matmul_bf16", program=BFLOAT16, args={"x": "x", "w": "w"}, out="y")
def matmul_bf16(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


@hir.op("hostir_gpu::two_results", program=PROGRAMS / "two_results.hir", args={"x": "x"}, out=("a", "b"))
def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results of one argument."""
    return torch.relu(x), torch.exp(x)


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Small whole numbers: products of them are exact in every order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype).cuda()


def forward() -> None:
    for op, dtype in [(matmul, torch.float32), (matmul_bf16, torch.bfloat16)]:
        x, w = numbers(96, 64, dtype=dtype), numbers(64, 80, dtype=dtype, seed=1)
        assert torch.equal(op(x, w), x @ w)
    a, b = two_results(numbers(100))
    assert torch.equal(a, torch.relu(numbers(100)))
    torch.testing.assert_close(b, torch.exp(numbers(100)))


def strides_and_offsets() -> None:
    x, w = numbers(64, 96), numbers(64, 80, seed=1)
    assert torch.equal(matmul(x.t(), w), x.t() @ w)
    wide = numbers(96, 200)
    assert torch.equal(matmul(wide[:, 3:67], w), wide[:, 3:67] @ w)
    row = numbers(64).expand(96, 64)
    assert torch.equal(matmul(row, w), row @ w)
    out = torch.full((96, 160), 7.0, device="cuda")
    assert matmul(x.t(), w, out=out[:, 20:100]).data_ptr() == out[:, 20:100].data_ptr()
    assert torch.equal(out[:, 20:100], x.t() @ w) and bool((out[:, :20] == 7).all()) and bool((out[:, 100:] == 7).all())
    dense = torch.empty(96, 80, device="cuda")
    matmul(x.t(), w, out=dense)
    assert torch.equal(dense, x.t() @ w)


def gradients() -> None:
    x, w = numbers(96, 64).requires_grad_(), numbers(64, 80, seed=1).requires_grad_()
    matmul(x, w).square().sum().backward()
    found = (x.grad, w.grad)
    x.grad = w.grad = None
    (x @ w).square().sum().backward()
    assert torch.equal(found[0], x.grad) and torch.equal(found[1], w.grad)


def compiled() -> None:
    for backend in ["aot_eager", "inductor"]:
        torch._dynamo.reset()
        run = torch.compile(lambda x, w: matmul(x * 2, w).relu().sum(0), fullgraph=True, backend=backend)
        for rows in [32, 96]:
            x, w = numbers(rows, 64).requires_grad_(), numbers(64, 80, seed=1)
            wanted = ((x * 2) @ w).relu().sum(0)
            assert torch.equal(run(x, w), wanted)
            (gradient,) = torch.autograd.grad(run(x, w).sum(), x)
            assert torch.equal(gradient, torch.autograd.grad(wanted.sum(), x)[0])
        torch._dynamo.reset()
        into = torch.compile(lambda x, w, out: matmul(x * 2, w, out=out) + 1, fullgraph=True, backend=backend)
        x, w, out = numbers(32, 64), numbers(64, 80, seed=1), torch.zeros(32, 80, device="cuda")
        assert torch.equal(into(x, w, out), (x * 2) @ w + 1) and torch.equal(out, (x * 2) @ w)


def compiled_as_graphs() -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda x, w: matmul(matmul(x, w) + 1, w), fullgraph=True, mode="reduce-overhead")
    w = numbers(64, 64, seed=1)
    for seed in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        x = numbers(96, 64, seed=seed)
        assert torch.equal(run(x, w).clone(), (x @ w + 1) @ w)


def captured() -> None:
    x, w = numbers(96, 64), numbers(64, 64, seed=1)
    x += 0
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        matmul(matmul(x, w), w)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = matmul(matmul(x, w), w)
    sessions = matmul._sessions.sessions()
    assert any(session.is_recorded() for session in sessions)
    for seed in range(200):
        data = numbers(96, 64, seed=seed)
        x.copy_(data)
        graph.replay()
        between = matmul(data, w)
        assert torch.equal(between, data @ w)
        assert torch.equal(y, (data @ w) @ w)
    del graph
    gc.collect()
    torch.cuda.synchronize()
    assert not any(session.is_recorded() for session in sessions)


def first_call_in_a_capture() -> None:
    x, w = numbers(7, 64), numbers(64, 64, seed=1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            matmul(x, w)
    except hostir.HostIrError as error:
        assert error.code == "H0528" and "before the capture" in str(error), error
    else:
        raise AssertionError("a session was built in a capture")
    assert torch.equal(matmul(x, w), x @ w)


def memory_that_is_reused() -> None:
    """Tensors are freed, and their memory poisoned, right after the call."""
    side = torch.cuda.Stream()
    for round in range(300):
        with torch.cuda.stream(side if round % 2 else torch.cuda.current_stream()):
            rows = 64 + 32 * (round % 3)
            x, w = numbers(rows, 64, seed=round), numbers(64, 80, seed=1)
            wanted = x @ w
            y = matmul(x, w)
            del x
            for _ in range(4):
                torch.empty(rows, 64, device="cuda").fill_(float("nan"))
            assert torch.equal(y, wanted), f"round {round}"


def a_thousand_sessions() -> None:
    w = numbers(16, 8, seed=1)
    free = []
    for rows in range(1, 1001):
        x = numbers(rows, 16)
        assert torch.equal(matmul(x, w), x @ w)
        if rows % 200 == 0:
            torch.cuda.synchronize()
            gc.collect()
            torch.cuda.empty_cache()
            free.append(torch.cuda.mem_get_info()[0])
    assert len(matmul._sessions.sessions()) <= matmul._sessions.limit
    assert free[0] - free[-1] <= 64 << 20, f"free memory after each 200 sessions: {free}"


def host_cost() -> None:
    """Prints what a call costs the host, part by part."""
    print_host_cost()


def first_call() -> None:
    """Prints what the first call of a process takes, without kernels of earlier processes and with them."""
    with tempfile.TemporaryDirectory() as cache:
        for kept in ["none kept", "kernels kept"]:
            command = [sys.executable, str(Path(__file__).with_name("first_call.py"))]
            done = subprocess.run(
                command, env={**os.environ, "HOSTIR_CACHE": cache}, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            print(f"  first call, {kept}: {done.stdout.strip()}", flush=True)


def several_devices_are_refused() -> None:
    try:
        matmul._sessions.run([numbers(4, 4), numbers(4, 4).cpu()], (), list)
    except hostir.HostIrError as error:
        assert error.code == "H0528" and "cpu, cuda:0" in str(error), error
    else:
        raise AssertionError("tensors on two devices were taken")


CASES = [
    forward,
    strides_and_offsets,
    gradients,
    compiled,
    captured,
    first_call_in_a_capture,
    memory_that_is_reused,
    several_devices_are_refused,
    host_cost,
    first_call,
    a_thousand_sessions,
    compiled_as_graphs,
]
