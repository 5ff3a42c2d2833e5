"""A small model of Llama's shape that learns, with tensor and sequence parallelism: its losses by each way to run it.

On GPUs programs run as they do for users. On the CPU an op of torch runs its function, so here the ops are made to run their
programs, on the CPU backend: what is trained is what the programs compute.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.device_mesh import init_device_mesh

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import hostir.torch as hir
from bench.torch_baselines import llama
from hostir import _native
from hostir._program import _settings
from hostir.torch._oracle import _all_parts

VOCABULARY, TOKENS, BATCH = 32, 16, 2
SHAPE = dataclasses.replace(llama.TINY, layers=1, hidden=16, ffn=32, vocabulary=VOCABULARY)
RATE = 0.02
# Programs that ran on the CPU's backend.
runs = 0


def batch_of(step: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences in which each token follows from the one before: something to learn. All ranks have the same."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
    for _ in range(TOKENS):
        following = (5 * tokens[:, -1:] + 3) % VOCABULARY
        tokens = torch.cat((tokens, following), 1)
    return tokens[:, :-1].to(device), tokens[:, 1:].to(device)


def losses(way: str, steps: int, device: str, dtype: torch.dtype = torch.float32) -> tuple[list[float], hir.Overlap]:
    """The loss of each step: `eager`, `compile`, or `programs`, which is `compile` with the pass."""
    torch._dynamo.reset()
    overlap = hir.Overlap(choose="always")
    torch.manual_seed(0)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = llama.parallelize(llama.Decoder(SHAPE).to(device, dtype), SHAPE, mesh)
    options = {"post_grad_custom_post_pass": overlap} if way == "programs" else {}
    run = model if way == "eager" else torch.compile(model, fullgraph=True, options=options)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    found = []
    for step in range(steps):
        tokens, following = batch_of(step, device)
        loss = F.cross_entropy(run(tokens).float().flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
        if device == "cpu":
            run_programs_of(overlap)
    return found, overlap


def largest_difference(one: list[float], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def compare_losses(steps: int, device: str, dtype: torch.dtype = torch.float32) -> str:
    """Trains three times, and demands that programs are no further from eager torch than `torch.compile` is."""
    eager, compiled = losses("eager", steps, device, dtype)[0], losses("compile", steps, device, dtype)[0]
    programs, overlap = losses("programs", steps, device, dtype)
    fused, lines = len(overlap.report().fused), len(overlap.report().lines)
    of_compile, of_programs = largest_difference(compiled, eager), largest_difference(programs, eager)
    told = (
        f"{steps} steps, loss {eager[0]:.3f} to {eager[-1]:.3f}; largest difference from eager: "
        f"torch.compile {of_compile:.2e}, programs {of_programs:.2e}; {fused} of {lines} collectives fused"
    )
    # The first step is the compiler's; each step after it has a program for each region.
    assert device != "cpu" or runs >= (steps - 1) * len(overlap.report().programs), runs
    assert fused >= 8 and eager[-1] < eager[0] / 2, f"{told}\n{overlap.report()}"
    assert of_programs <= 3 * of_compile + (1e-4 if dtype == torch.float32 else 2e-2) * eager[0], told
    return told


def run_programs_of(overlap: hir.Overlap) -> None:
    """From now on the pass's ops run their programs on tensors of the CPU."""
    for made in overlap.report().ops.values():
        if not isinstance(made.op.body, functools.partial):
            made.op.body = functools.partial(_run_program, made.op, made.op.body)


def _run_program(op: hir.Op, body: Any, *values: Any) -> Any:
    """The results of the program on the parts of all ranks."""
    global runs
    if isinstance(values[0], FakeTensor):
        return body(*values)
    runs += 1
    group = dist.group.WORLD
    named = op.named_arguments(values)
    parts = {name: _all_parts(named[argument], group) for argument, name in op.args.items()}
    settings = _settings(dist.get_world_size(), None, None, None, False, None)
    found = _native.run_ranks(op.program._handle, parts, settings)[dist.get_rank()]
    outputs = {name: part for name, part, _ in found}
    found = [torch.from_dlpack(outputs[name]) for name in op.outputs]
    made = [result.reshape(shape).clone() for result, (shape, _) in zip(found, op._result_layouts(values), strict=True)]
    return made[0] if len(made) == 1 else tuple(made)
