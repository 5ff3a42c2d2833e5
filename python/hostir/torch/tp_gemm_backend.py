"""The autograd functions of torchtitan's `tp_gemm_backend`, by programs.

They have the arguments of the functions of these names in `torchtitan.distributed`: `x` is `[rows, in]`, rows in the order
of the ranks. Any number of them may run at the same time on several streams: each program has its own memory.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from hostir.torch import linear

__all__ = ["AllGatherLinear", "AllGatherLinearMulti", "LinearReduceScatter"]


class AllGatherLinear:
    """Gathers the rows of all ranks and applies a column-parallel linear layer."""

    @staticmethod
    def apply(x: Tensor, weight: Tensor, bias: Tensor | None, group: Any, group_name: str | None = None) -> Tensor:
        """`[rows / ranks, in]` and `[out / ranks, in]` to `[rows, out / ranks]`."""
        return linear.all_gather(x, weight, group_name or group, bias)


class AllGatherLinearMulti:
    """Gathers the rows of all ranks once for two column-parallel linear layers."""

    @staticmethod
    def apply(x: Tensor, first: Tensor, second: Tensor, group: Any, group_name: str | None = None) -> tuple[Tensor, Tensor]:
        """The results of both weights."""
        one, other = linear.all_gather(x, [first, second], group_name or group)
        return one, other


class LinearReduceScatter:
    """Applies a row-parallel linear layer; each rank has the sum over the ranks for its rows."""

    @staticmethod
    def apply(x: Tensor, weight: Tensor, bias: Tensor | None, group: Any, group_name: str | None = None) -> Tensor:
        """`[rows, in / ranks]` and `[out, in / ranks]` to `[rows / ranks, out]`."""
        return linear.reduce_scatter(x, weight, group_name or group, bias)
