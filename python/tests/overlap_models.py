"""Models of tests: blocks in the shape of Llama's, with DTensor's tensor parallelism and sequence parallelism; a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

HIDDEN, HEADS, FFN = 16, 4, 32


class Attention(nn.Module):
    """Self-attention; a rank has some of the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        size = HIDDEN // HEADS
        query, key, value = (made.view(batch, tokens, -1, size).transpose(1, 2) for made in (self.wq(x), self.wk(x), self.wv(x)))
        mixed = torch.softmax(query @ key.transpose(-1, -2) / size**0.5, -1) @ value
        return self.wo(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """The gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(HIDDEN, FFN, bias=False)
        self.w2 = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """A layer. After `parallelize` its input and result are a rank's tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), FeedForward()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def parallelize(model: nn.Module, mesh: object) -> nn.Module:
    """Tensor parallelism with sequence parallelism, as torchtitan has it."""
    gathered = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    plan = {
        "norm1": SequenceParallel(),
        "norm2": SequenceParallel(),
        "attention": PrepareModuleInput(**gathered),
        "mlp": PrepareModuleInput(**gathered),
        **{f"attention.{name}": ColwiseParallel() for name in ("wq", "wk", "wv")},
        **{f"mlp.{name}": ColwiseParallel() for name in ("w1", "w3")},
        "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
        "mlp.w2": RowwiseParallel(output_layouts=Shard(1)),
    }
    return parallelize_module(model, mesh, plan)


def graphs_through(overlap: Any, *, is_decomposed: bool = True) -> Callable[..., Any]:
    """A compiler that gives the pass what Inductor gives it, and runs the graphs as they are."""
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    def change(graph: torch.fx.GraphModule, _inputs: Any) -> torch.fx.GraphModule:
        overlap(graph)
        graph.graph.lint()
        return graph

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        table = select_decomp_table() if is_decomposed else {}
        return aot_module_simplified(
            module,
            inputs,
            fw_compiler=change,
            bw_compiler=change,
            decompositions=table,
            partition_fn=min_cut_rematerialization_partition,
        )

    return backend
