"""A decoder layer whose number of tokens changes with every step, as in vLLM, and programs that do its collectives.

Two graphs serve all steps, and a third one that with a row for each rank. On two ranks, on the CPU:

    torchrun --nproc-per-node 2 python/tests/changing_tokens.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch import nn

import hostir.torch as hir

HIDDEN, FFN = 32, 64
# The tokens of the steps. Torch compiles for the first number, and then for all that divide by the ranks.
STEPS = (16, 48, 6, 130, 64, 2)


class Layer(nn.Module):
    """A layer of a rank's shards: what stands for attention, and an MLP, each with an all-reduce at its end."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN // ranks, bias=False)
        self.out = nn.Linear(HIDDEN // ranks, HIDDEN, bias=False)
        self.gate_up = nn.Linear(HIDDEN, 2 * FFN // ranks, bias=False)
        self.down = nn.Linear(FFN // ranks, HIDDEN, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + fc.all_reduce(self.out(torch.sigmoid(q * k) * v), "sum", dist.group.WORLD)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + fc.all_reduce(self.down(F.silu(gate) * up), "sum", dist.group.WORLD)


def run_steps(group: Any) -> None:
    """The steps by compiled graphs, beside eager torch."""
    torch.manual_seed(dist.get_rank())
    layer = Layer(dist.get_world_size())
    overlap = hir.Overlap(choose="always")
    compiled = torch.compile(layer, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
    with torch.no_grad():
        for tokens in STEPS:
            x = torch.randn(tokens, HIDDEN, generator=torch.Generator().manual_seed(tokens))
            torch.testing.assert_close(compiled(x), layer(x))
    overlap.check()
    graphs = {line.graph for line in overlap.report().lines}
    assert len(graphs) <= 3 and not overlap.report().kept, str(overlap.report())
    if __name__ == "__main__" and dist.get_rank() == 0:
        print(overlap.report())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run_steps(dist.group.WORLD)
    dist.destroy_process_group()
