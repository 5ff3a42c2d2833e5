"""Functions of torch as CUDA graphs, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def recorded(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function as a CUDA graph; what it returns is the memory that each replay writes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = function()

    def replay() -> Any:
        graph.replay()
        return results

    return replay
