"""Traffic that keeps the links between GPUs awake."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
import torch.distributed as dist

from bench.torch_baselines.timing import Way

AWAKE = "links-awake"


class LinkTraffic:
    """A few bytes to the next rank's GPU every 10 ms, by a kernel on a stream of its own, in the ways that ask for them."""

    def __init__(self, device: torch.device) -> None:
        import torch.distributed._symmetric_memory as symmetric

        own = symmetric.empty(1024, device=device)
        shared = symmetric.rendezvous(own, dist.group.WORLD)
        following = (dist.get_rank() + 1) % dist.get_world_size()
        self._target = shared.get_buffer(following, own.shape, own.dtype)
        # Buffers of other ranks are mapped as long as these are held.
        self._held = (own, shared)
        self._source, self._stream = torch.ones(1024, device=device), torch.cuda.Stream(device)
        self._wanted, self._is_over = threading.Event(), False
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        torch.cuda.set_device(self._source.device)
        while self._wanted.wait() and not self._is_over:
            with torch.cuda.stream(self._stream):
                torch.add(self._source, 1, out=self._target)
            time.sleep(0.01)

    def close(self) -> None:
        """Ends the traffic, which else would go on beside the next model."""
        self._is_over = True
        self._wanted.set()
        self._thread.join()
        self._stream.synchronize()

    def beside(self, run: Way, *, wanted: bool) -> Way:
        """The way with or without this traffic beside it."""

        def step() -> Any:
            (self._wanted.set if wanted else self._wanted.clear)()
            return run()

        return step


def with_links_awake(ways: dict[str, Way], traffic: LinkTraffic) -> dict[str, Way]:
    """The ways, and the step without collectives once more with links that do not sleep."""
    bare = [name for name in ways if name.startswith("no-comm")]
    awake = {name.replace("no-comm", AWAKE): traffic.beside(ways[name], wanted=True) for name in bare}
    return {name: traffic.beside(way, wanted=False) for name, way in ways.items()} | awake
