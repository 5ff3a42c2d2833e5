"""Other implementations beside torch's own: a copy-engine ring as in vLLM #54151, FlashInfer and mKernel.

HIR_FLASHINFER is a folder that holds the package `flashinfer`, HIR_MKERNEL the built module of mKernel's GEMM +
reduce-scatter (or a folder with one). What cannot be loaded is a way that fails with the reason.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from bench.overlap.torch_types import PeerCase, Ranks, Results, RingCase, Run, SetUp

# SMs for communication that mKernel is tried with; the fastest number is kept.
COMMUNICATION_SMS = (2, 4, 8, 16, 32, 64)


class Links(Protocol):
    """How parts get from a rank to the next one."""

    def push(self, place: int, part: torch.Tensor, step: int) -> None:
        """Copies a part to its place at the next rank, and tells it."""

    def arrived(self, place: int, step: int) -> torch.Tensor:
        """The part that the rank before has pushed in this step."""

    def leave(self) -> None:
        """Waits until no rank overwrites what another one still reads."""


class SymmetricLinks:
    """Rows of the other ranks in symmetric memory: copies to the next rank with a signal after each."""

    def __init__(self, world: Ranks, like: torch.Tensor) -> None:
        self.world = world
        self.rows = symmetric.empty(world.size, *like.shape, dtype=like.dtype, device=like.device)
        self.handle = symmetric.rendezvous(self.rows, world.group)
        self.following = (world.rank + 1) % world.size
        self.target = self.handle.get_buffer(self.following, self.rows.shape, self.rows.dtype)

    def push(self, place: int, part: torch.Tensor, step: int) -> None:
        """Copies a part to its place at the next rank, and tells it."""
        self.target[place].copy_(part)
        self.handle.put_signal(self.following, step)

    def arrived(self, place: int, step: int) -> torch.Tensor:
        """The part that the rank before has pushed in this step."""
        self.handle.wait_signal((self.world.rank - 1) % self.world.size, step)
        return self.rows[place]

    def leave(self) -> None:
        """No rank goes on, and overwrites rows of the next one, before that has used them."""
        self.handle.barrier(self.world.size)


class GlooLinks:
    """The same by messages, on the CPU: it checks the order of the ring."""

    def __init__(self, world: Ranks, like: torch.Tensor) -> None:
        self.world, self.rows = world, torch.empty(world.size, *like.shape, dtype=like.dtype)
        self.sent: list[Any] = []

    def push(self, place: int, part: torch.Tensor, step: int) -> None:
        self.sent.append(dist.isend(part.contiguous(), (self.world.rank + 1) % self.world.size, tag=step))

    def arrived(self, place: int, step: int) -> torch.Tensor:
        dist.recv(self.rows[place], (self.world.rank - 1) % self.world.size, tag=step)
        return self.rows[place]

    def leave(self) -> None:
        while self.sent:
            self.sent.pop().wait()


def ring(case: RingCase) -> Run:
    """Parts go around a ring by copy engines; each is multiplied when it is there, while the copies go on."""
    world, rows = case.world, case.x.shape[0]
    case.links = case.links or (SymmetricLinks if world.on_gpu else GlooLinks)(world, case.x)
    links: Links = case.links
    product = torch.empty(case.m, case.n, dtype=case.dtype, device=world.device)
    copies = torch.cuda.Stream() if world.on_gpu else None

    def multiply(part: torch.Tensor, place: int) -> None:
        torch.mm(part, case.w, out=product[place * rows : (place + 1) * rows])

    def forward(part: torch.Tensor, place: int, step: int) -> torch.Tensor:
        """On the stream of copies: the part goes on, the next one comes."""
        links.push(place, part, step)
        return links.arrived((place - 1) % world.size, step)

    def run() -> Results:
        part, place = case.x, world.rank
        if copies:
            copies.wait_stream(torch.cuda.current_stream())
        for step in range(world.size):
            coming = None
            if step < world.size - 1:
                with torch.cuda.stream(copies):
                    coming = forward(part, place, step)
                    there = copies.record_event() if copies else None
            multiply(part, place)
            if coming is not None:
                part, place = coming, (place - 1) % world.size
                if there:
                    torch.cuda.current_stream().wait_event(there)
        links.leave()
        return [product]

    return run


# ---- FlashInfer ----


def gathers(case: PeerCase) -> dict[str, SetUp]:
    """Other implementations of allgather and matmul."""
    return {"flashinfer": lambda: flashinfer(case)} if case.world.on_gpu else {}


def flashinfer(case: PeerCase) -> Run:
    """FlashInfer's allgather and matmul."""
    folder = os.environ.get("HIR_FLASHINFER")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    found = importlib.import_module("flashinfer.comm.all_gather_matmul")
    multiply: Any = found.all_gather_matmul
    if not callable(multiply):
        multiply = multiply.all_gather_matmul
    x = case.symmetric(case.x)
    return lambda: [multiply(x, case.w, dist.group.WORLD).view(case.m, case.n)]


# ---- mKernel ----


def scatters(case: PeerCase) -> dict[str, SetUp]:
    """Other implementations of matmul and reduce-scatter."""
    return {"mkernel": lambda: mkernel(case)} if case.world.on_gpu else {}


def load(path: str) -> Any:
    """A module from a file, or from the only .so of a folder."""
    file = Path(path)
    if file.is_dir():
        files = sorted(file.glob("*.so"))
        if len(files) != 1:
            raise ImportError(f"{path} holds {len(files)} .so files, not one")
        file = files[0]
    spec = importlib.util.spec_from_file_location(file.name.split(".")[0], file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mkernel(case: PeerCase) -> Run:
    """mKernel's GEMM + reduce-scatter, with what it needs for each run inside of the time: zeros and barriers."""
    path = os.environ.get("HIR_MKERNEL")
    if not path:
        raise ImportError("--mkernel names no built module")
    if case.dtype != torch.bfloat16 or case.m % (case.world.size * 128) or case.x.shape[1] % 64 or case.n % 256:
        raise ValueError("it takes bfloat16, rows in multiples of 128 a rank, depths of 64 and columns of 256")
    module, world = load(path), case.world
    place = {"local_rank": world.rank, "local_world_size": world.size, "multicast": False}
    whole = module.TKParallelTensor((case.m, case.n), dtype=case.dtype, **place)
    space = torch.empty(case.m, case.n, device=world.device, dtype=case.dtype)
    ready = torch.empty((case.m // 128) * (case.n // 256), device=world.device, dtype=torch.int32)
    flag = symmetric.empty(16, dtype=torch.int32, device=world.device)
    gate = symmetric.rendezvous(flag, world.group)
    rows = case.m // world.size
    own = whole.data_.view(-1, case.n)[world.rank * rows : (world.rank + 1) * rows]

    def run_with(sms: int) -> Results:
        for tensor in (whole.data_, space, ready):
            tensor.zero_()
        gate.barrier(0)
        module.matmul_reduce_scatter(case.x, case.w, space, whole, ready, sms)
        gate.barrier(0)
        return [own]

    times = {sms: min(world.sample(functools.partial(run_with, sms)) for _ in range(4)) for sms in COMMUNICATION_SMS}
    fastest = min(times, key=lambda sms: times[sms])
    return lambda: run_with(fastest)


# ---- without GPUs ----


REGISTERED: list[torch.library.Library] = []


def register_fallbacks() -> None:
    """torch's own fallbacks of its fused operators, and what they lack, for tensors on the CPU."""
    if REGISTERED:
        return
    library = torch.library.Library("symm_mem", "IMPL", "CPU")
    for name in ("all_gather_matmul", "matmul_reduce_scatter", "scaled_matmul_reduce_scatter"):
        fallback = getattr(symmetric, f"_fused_{name}_fallback", None)
        if fallback:
            library.impl(f"fused_{name}", fallback)
    library.impl("fused_all_gather_scaled_matmul", gathered_scaled)
    library.impl("two_shot_all_reduce_", summed)
    REGISTERED.append(library)


def summed(tensor: torch.Tensor, _op: str, _group: str) -> torch.Tensor:
    """An all-reduce in place."""
    dist.all_reduce(tensor)
    return tensor


def gathered_scaled(
    x: torch.Tensor,
    weights: Results,
    scale: torch.Tensor,
    scales: Results,
    dim: int,
    _group: str,
    _biases: list[Any],
    _result_scales: list[Any],
    _dtypes: list[Any],
    _fast: list[bool],
) -> tuple[torch.Tensor, Results]:
    """torch's fallback gathers 8-bit floats as such, which gloo does not know; this one gathers bytes."""
    if dim != 0:
        raise ValueError("rows are gathered here")
    size = dist.get_world_size()
    whole, whole_scale = x.new_empty(size * x.shape[0], x.shape[1]), scale.new_empty(size * scale.shape[0], 1)
    dist.all_gather_into_tensor(whole.view(torch.uint8), x.view(torch.uint8))
    dist.all_gather_into_tensor(whole_scale, scale)
    # The types come as numbers: all products are bfloat16 here.
    return whole, [
        torch._scaled_mm(whole, w, whole_scale, r, out_dtype=torch.bfloat16) for w, r in zip(weights, scales, strict=True)
    ]
