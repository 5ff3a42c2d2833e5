"""Functions of torch as CUDA graphs, for benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def recorded(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function as a CUDA graph; what it returns is the memory that each replay writes.

    It is recorded on the current stream. The default stream cannot be recorded: another one takes its place.
    """
    stream = torch.cuda.current_stream()
    if stream == torch.cuda.default_stream():
        stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        results = function()

    def replay() -> Any:
        graph.replay()
        return results

    return replay
