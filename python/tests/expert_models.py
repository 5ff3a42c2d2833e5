"""Layers of experts, as torch's models have them: tokens are exchanged, multiplied by a rank's experts, and exchanged again."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F


def by_expert(x: torch.Tensor, ranks: int, experts: int) -> torch.Tensor:
    """Received rows, `[ranks * experts * c, d]` or with axes of their own, as `[experts, ranks * c, d]`."""
    width = x.shape[-1]
    return x.reshape(ranks, experts, -1, width).transpose(0, 1).reshape(experts, -1, width)


def by_rank(y: torch.Tensor, ranks: int) -> torch.Tensor:
    """The way back: `[ranks * experts, c, d]`."""
    experts, rows, width = y.shape
    return y.reshape(experts, ranks, -1, width).transpose(0, 1).reshape(ranks * experts, rows // ranks, width)


def exchanged(x: torch.Tensor, group: Any, splits: Any = None) -> torch.Tensor:
    """Parts of equal size, one of each rank; with the sizes of the parts if they are given."""
    return (
        fc.all_to_all_single_autograd(x, splits, splits, group)
        if x.requires_grad
        else fc.all_to_all_single(x, splits, splits, group)
    )


def batched(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Experts by batched matmuls."""
    return torch.bmm(F.silu(torch.bmm(x, w)), v)


def gated(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Experts with a gate."""
    return torch.bmm(F.silu(torch.bmm(x, w)) * torch.bmm(x, u), v)


def grouped(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Experts by grouped matmuls of rows that lie one expert after the other."""
    experts, rows, _ = x.shape
    ends = torch.arange(1, experts + 1, dtype=torch.int32) * rows
    made = F.silu(torch._grouped_mm(x.flatten(0, 1), w, offs=ends))
    return torch._grouped_mm(made, v, offs=ends).view(experts, rows, -1)


def grouped_takes_floats() -> bool:
    """True if graphs may have grouped matmuls of float: those of torch 2.9 are of bfloat16 alone."""
    x, w, ends = (torch.empty(shape, device="meta") for shape in ((4, 8), (2, 8, 4), (2,)))
    try:
        torch._grouped_mm(x, w, offs=ends.int())
    except RuntimeError:
        return False
    return True


def apart(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Experts one after the other."""
    return torch.stack([F.silu(x[at] @ w[at]) @ v[at] for at in range(x.shape[0])])


def layer_of(experts: Any) -> Any:
    """A layer: dispatch, experts, combine."""

    def layer(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        group = dist.group.WORLD
        ranks, count = dist.get_world_size(), weights[0].shape[0]
        received = exchanged(x, group)
        made = by_rank(experts(by_expert(received, ranks, count), *weights), ranks)
        return exchanged(made.view(x.shape[:-1] + made.shape[-1:]), group)

    return layer
