"""A rank of the test of graphs that Inductor keeps, in a process of its own.

usage: python kept_graph_ranks.py RANK WORLD STORE [LAYERS]
Without a number of layers it is a module without functions. Prints what Inductor's caches did, and the seconds of `Overlap`'s, as
JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh

import hostir.torch as hir
from hostir.torch._overlap import overlap as overlap_module, restore
from overlap_models import HIDDEN, Block, parallelize
from overlap_ranks import one_step, rank_tensor

SPENT: dict[str, float] = {}


def timed(name: str, owner: Any, attribute: str) -> None:
    """Counts the seconds of CPU in a function: machines of tests are busy."""
    function = getattr(owner, attribute)

    def run(*values: Any, **settings: Any) -> Any:
        start = time.process_time()
        try:
            return function(*values, **settings)
        finally:
            SPENT[name] = SPENT.get(name, 0.0) + time.process_time() - start

    setattr(owner, attribute, run)


class Products(nn.Module):
    """Matmuls with collectives at both ends, and an all-reduce: nothing that Inductor compiles to C++."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        group = dist.group.WORLD
        rows = fc.all_gather_tensor(x, 0, group)
        y = fc.reduce_scatter_tensor((rows @ self.w) @ self.v, "sum", 0, group)
        return fc.all_reduce(y @ self.w, "sum", group)

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(HIDDEN, 6)), nn.Parameter(torch.randn(6, HIDDEN))


def products() -> tuple[nn.Module, Any]:
    """The module, and what runs it: a step without gradients."""
    model = Products().requires_grad_(False)
    return model, lambda run: [run(rank_tensor(4, HIDDEN, seed=1))]


def layers_of_llama(count: int, world: int) -> tuple[nn.Module, Any]:
    """Layers one after the other, and what runs them: a step with gradients."""
    mesh = init_device_mesh("cpu", (world,))
    model = nn.Sequential(*(parallelize(Block(), mesh) for _ in range(count)))
    return model, lambda run: one_step(model, run, rank_tensor(3, 2, HIDDEN, seed=1))


def main(rank: int, world: int, store: str, layers: int = 0) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    timed("pass", overlap_module.Overlap, "__call__")
    timed("uuid", overlap_module.Overlap, "uuid")
    timed("regions", restore, "_make_op_of_entry")
    torch.manual_seed(0)
    model, step = layers_of_llama(layers, world) if layers else products()
    overlap = hir.Overlap(choose="always")
    compiled = torch.compile(model, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
    for wanted, found in zip(step(model), step(compiled), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    report = overlap.report()
    told = {
        "fused": len(report.fused),
        "restored": len(report.restored),
        "hits": counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"],
        "kept": [line.verdict for line in report.kept],
        "bypassed": counters["inductor"]["fxgraph_cache_bypass"],
        "seconds": SPENT,
        "uuid": overlap.uuid(),
    }
    dist.barrier()
    print(json.dumps(told), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
