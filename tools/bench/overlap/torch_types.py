"""What torch's ways and their peers share: results, functions that are timed, and what they ask the ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

Results = list[torch.Tensor]

Run = Callable[[], Any]
"""What is timed; gives the results of a way, or nothing for a product or a communication alone."""

SetUp = Callable[[], Run]
"""Sets a way up."""


class Ranks(Protocol):
    """The ranks of a group, seen from one of them."""

    rank: int
    size: int
    on_gpu: bool
    device: torch.device
    group: Any


class TimedRanks(Ranks, Protocol):
    """Ranks that time functions together: `torch_process.World`."""

    def sample(self, function: Callable[[], object]) -> float:
        """Milliseconds of the slowest rank."""


class RingCase(Protocol):
    """Rows `x` of this rank, and `w`; `m` and `n` are the sizes of the whole product. `links` belongs to the ring."""

    x: torch.Tensor
    w: torch.Tensor
    m: int
    n: int
    dtype: torch.dtype
    links: Any

    @property
    def world(self) -> Ranks:
        """The ranks."""


class PeerCase(RingCase, Protocol):
    """A case of `torch_ways` with one product."""

    @property
    def world(self) -> TimedRanks:
        """The ranks."""

    def symmetric(self, part: torch.Tensor) -> torch.Tensor:
        """A copy in symmetric memory."""
