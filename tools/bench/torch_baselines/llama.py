"""A decoder in the shape of Llama's, with tensor parallelism and sequence parallelism of DTensor as torchtitan has it.

Tests and benchmarks share it. A rank has `tokens / ranks` tokens between blocks, and some heads and columns within one.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Shape:
    """Sizes of a model. Without `vocabulary` it is layers only: from hidden states to hidden states."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int = 0
    has_bias: bool = False
    """Biases of Q, K and V, as Qwen's models have them."""
    is_fused: bool = False
    """One weight for Q, K and V, and one for gate and up."""


TINY = Shape(layers=1, hidden=32, heads=4, kv_heads=2, ffn=64)
LLAMA_8B = Shape(layers=4, hidden=4096, heads=32, kv_heads=8, ffn=14336)
LLAMA_70B = Shape(layers=2, hidden=8192, heads=64, kv_heads=8, ffn=28672)


def _rotation(tokens: int, size: int, device: torch.device) -> torch.Tensor:
    """Angles of the rotary embedding, `[tokens, size / 2]`."""
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, device=device, dtype=torch.float32) / size)
    return torch.outer(torch.arange(tokens, device=device, dtype=torch.float32), frequencies)


def _rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotates pairs of `[batch, tokens, heads, size]`."""
    one, other = x.float().chunk(2, -1)
    cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
    return torch.cat((one * cos - other * sin, one * sin + other * cos), -1).type_as(x)


class Attention(nn.Module):
    """Causal self-attention with groups of query heads; a rank has some of the heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size = shape.hidden // shape.heads
        self.ratio = shape.heads // shape.kv_heads
        self.is_fused = shape.is_fused
        kv_width = shape.kv_heads * self.size
        if shape.is_fused:
            self.wqkv = nn.Linear(shape.hidden, shape.hidden + 2 * kv_width, bias=shape.has_bias)
        else:
            self.wq = nn.Linear(shape.hidden, shape.hidden, bias=shape.has_bias)
            self.wk = nn.Linear(shape.hidden, kv_width, bias=shape.has_bias)
            self.wv = nn.Linear(shape.hidden, kv_width, bias=shape.has_bias)
        self.wo = nn.Linear(shape.hidden, shape.hidden, bias=False)

    def _projections(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not self.is_fused:
            return self.wq(x), self.wk(x), self.wv(x)
        made = self.wqkv(x)
        unit = made.shape[-1] // (self.ratio + 2)
        return made.split((self.ratio * unit, unit, unit), -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = x.shape
        query, key, value = (made.view(batch, tokens, -1, self.size) for made in self._projections(x))
        angles = _rotation(tokens, self.size, x.device)
        query, key = _rotate(query, angles), _rotate(key, angles)
        query, key, value = (heads.transpose(1, 2) for heads in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.wo(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """The gated MLP."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.is_fused = shape.is_fused
        if shape.is_fused:
            self.w13 = nn.Linear(shape.hidden, 2 * shape.ffn, bias=False)
        else:
            self.w1 = nn.Linear(shape.hidden, shape.ffn, bias=False)
            self.w3 = nn.Linear(shape.hidden, shape.ffn, bias=False)
        self.w2 = nn.Linear(shape.ffn, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.w13(x).chunk(2, -1) if self.is_fused else (self.w1(x), self.w3(x))
        return self.w2(F.silu(gate) * up)


class Block(nn.Module):
    """A layer. After `parallelize` its input and result are a rank's tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(shape), FeedForward(shape)
        self.norm1, self.norm2 = nn.RMSNorm(shape.hidden, eps=1e-5), nn.RMSNorm(shape.hidden, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Layers(nn.Module):
    """Layers only: what is timed."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Decoder(nn.Module):
    """The whole model: from numbers of tokens to the logits of the next ones."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = Layers(shape)
        self.norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.embedding(tokens))))


def _block_plan(shape: Shape, has_sequence: bool) -> dict[str, Any]:
    column = ["wqkv"] if shape.is_fused else ["wq", "wk", "wv"]
    gates = ["w13"] if shape.is_fused else ["w1", "w3"]
    plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in column}
    plan |= {f"mlp.{name}": ColwiseParallel() for name in gates}
    out = Shard(1) if has_sequence else Replicate()
    plan |= {name: RowwiseParallel(output_layouts=out) for name in ("attention.wo", "mlp.w2")}
    if has_sequence:
        gathered = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
        plan |= {name: PrepareModuleInput(**gathered) for name in ("attention", "mlp")}
        plan |= {name: SequenceParallel() for name in ("norm1", "norm2")}
    return plan


def parallelize(model: nn.Module, shape: Shape, mesh: Any, *, has_sequence: bool = True) -> nn.Module:
    """Spreads a `Block`, `Layers` or `Decoder` over a mesh of one dimension."""
    for module in model.modules():
        if isinstance(module, Block):
            parallelize_module(module, mesh, _block_plan(shape, has_sequence))
    if isinstance(model, Decoder):
        outside = Shard(1) if has_sequence else Replicate()
        plan: dict[str, Any] = {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=outside),
            "head": ColwiseParallel(input_layouts=outside, output_layouts=Replicate()),
        }
        if has_sequence:
            plan["norm"] = SequenceParallel()
        parallelize_module(model, mesh, plan)
    return model
