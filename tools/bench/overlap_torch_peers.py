#!/usr/bin/env python3
"""Other implementations beside torch's own: a copy-engine ring as in vLLM #54151, FlashInfer and mKernel.

HIR_FLASHINFER is a folder that holds the package `flashinfer`, HIR_MKERNEL the built module of mKernel's GEMM +
reduce-scatter (or a folder with one). What cannot be loaded is a way that fails with the reason.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

# SMs for communication that mKernel is tried with; the fastest number is kept.
COMMUNICATION_SMS = (2, 4, 8, 16, 32, 64)


class SymmetricLinks:
    """Rows of the other ranks in symmetric memory: copies to the next rank with a signal after each."""

    def __init__(self, world, like):
        self.world = world
        self.rows = symmetric.empty(world.size, *like.shape, dtype=like.dtype, device=like.device)
        self.handle = symmetric.rendezvous(self.rows, world.group)
        self.following = (world.rank + 1) % world.size
        self.target = self.handle.get_buffer(self.following, self.rows.shape, self.rows.dtype)

    def push(self, place, part, step):
        """Copies a part to its place at the next rank, and tells it."""
        self.target[place].copy_(part)
        self.handle.put_signal(self.following, step)

    def arrived(self, place, step):
        """The part that the rank before has pushed in this step."""
        self.handle.wait_signal((self.world.rank - 1) % self.world.size, step)
        return self.rows[place]

    def leave(self):
        """No rank goes on, and overwrites rows of the next one, before that has used them."""
        self.handle.barrier(self.world.size)


class GlooLinks:
    """The same by messages, on the CPU: it checks the order of the ring."""

    def __init__(self, world, like):
        self.world, self.rows, self.sent = world, torch.empty(world.size, *like.shape, dtype=like.dtype), []

    def push(self, _, part, step):
        self.sent.append(dist.isend(part.contiguous(), (self.world.rank + 1) % self.world.size, tag=step))

    def arrived(self, place, step):
        dist.recv(self.rows[place], (self.world.rank - 1) % self.world.size, tag=step)
        return self.rows[place]

    def leave(self):
        while self.sent:
            self.sent.pop().wait()


def ring(case):
    """Parts go around a ring by copy engines; each is multiplied when it is there, while the copies go on."""
    world, rows = case.world, case.x.shape[0]
    case.links = case.links or (SymmetricLinks if world.on_gpu else GlooLinks)(world, case.x)
    links = case.links
    product = torch.empty(case.m, case.n, dtype=case.dtype, device=world.device)
    copies = torch.cuda.Stream() if world.on_gpu else None

    def multiply(part, place):
        torch.mm(part, case.w, out=product[place * rows : (place + 1) * rows])

    def forward(part, place, step):
        """On the stream of copies: the part goes on, the next one comes."""
        links.push(place, part, step)
        return links.arrived((place - 1) % world.size, step)

    def run():
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


def gathers(case):
    return {"flashinfer": lambda: flashinfer(case)} if case.world.on_gpu else {}


def flashinfer(case):
    folder = os.environ.get("HIR_FLASHINFER")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    found = importlib.import_module("flashinfer.comm.all_gather_matmul")
    multiply = getattr(found, "all_gather_matmul")
    if not callable(multiply):
        multiply = multiply.all_gather_matmul
    x = case.symmetric(case.x)
    return lambda: [multiply(x, case.w, dist.group.WORLD).view(case.m, case.n)]


# ---- mKernel ----


def scatters(case):
    return {"mkernel": lambda: mkernel(case)} if case.world.on_gpu else {}


def load(path):
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


def mkernel(case):
    """mKernel's GEMM + reduce-scatter, with what it needs for each run inside of the time: zeros and barriers."""
    path = os.environ.get("HIR_MKERNEL")
    if not path:
        raise ImportError("--mkernel names no built module")
    if case.dtype != torch.bfloat16 or case.m % (case.world.size * 128) or case.x.shape[1] % 64 or case.n % 256:
        raise ValueError("it takes bfloat16, rows in multiples of 128 a rank, depths of 64 and columns of 256")
    module, world = load(path), case.world
    whole = module.TKParallelTensor((case.m, case.n), dtype=case.dtype, local_rank=world.rank, local_world_size=world.size, multicast=False)
    space = torch.empty(case.m, case.n, device=world.device, dtype=case.dtype)
    ready = torch.empty((case.m // 128) * (case.n // 256), device=world.device, dtype=torch.int32)
    flag = symmetric.empty(16, dtype=torch.int32, device=world.device)
    gate = symmetric.rendezvous(flag, world.group)
    rows = case.m // world.size
    own = whole.data_.view(-1, case.n)[world.rank * rows : (world.rank + 1) * rows]

    def run_with(sms):
        for tensor in (whole.data_, space, ready):
            tensor.zero_()
        gate.barrier(0)
        module.matmul_reduce_scatter(case.x, case.w, space, whole, ready, sms)
        gate.barrier(0)
        return [own]

    times = {sms: min(world.sample(lambda sms=sms: run_with(sms)) for _ in range(4)) for sms in COMMUNICATION_SMS}
    fastest = min(times, key=times.get)
    return lambda: run_with(fastest)


# ---- without GPUs ----


REGISTERED = []


def register_fallbacks():
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


def summed(tensor, _, __):
    dist.all_reduce(tensor)
    return tensor


def gathered_scaled(x, weights, scale, scales, dim, group, biases, result_scales, dtypes, fast):
    """torch's fallback gathers 8-bit floats as such, which gloo does not know; this one gathers bytes."""
    if dim != 0:
        raise ValueError("rows are gathered here")
    size = dist.get_world_size()
    whole, all = x.new_empty(size * x.shape[0], x.shape[1]), scale.new_empty(size * scale.shape[0], 1)
    dist.all_gather_into_tensor(whole.view(torch.uint8), x.view(torch.uint8))
    dist.all_gather_into_tensor(all, scale)
    # The types come as numbers: all products are bfloat16 here.
    return whole, [torch._scaled_mm(whole, w, all, r, out_dtype=torch.bfloat16) for w, r in zip(weights, scales)]
