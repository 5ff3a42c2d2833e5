"""Random graphs of collectives, products and functions: compiled with `Overlap`, on ranks, they give torch's own numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import hostir.torch as hir
from overlap_models import graphs_through

Step = Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]

# Functions before a sum, after the product: of its rows, and of tensors of each form.
BETWEEN: dict[str, Step] = {
    "scale": lambda y, more: y * 0.5,
    "scalar": lambda y, more: y * more["scalar"],
    "neg": lambda y, more: -y,
    "bias": lambda y, more: y + more["column"],
    "bias by ranks": lambda y, more: y + more["column"] / 2,
    "residual": lambda y, more: y + more["rows"],
    "residual first": lambda y, more: more["rows"] - y,
    "mask": lambda y, more: y * (more["rows"] > 0).to(y.dtype) * 1.25,
    "row scale": lambda y, more: y * more["row"],
    "silu": lambda y, more: F.silu(y),
    "wide": lambda y, more: y.float(),
    "gated": lambda y, more: y * torch.sigmoid(more["rows"]),
}
# Functions of gathered rows alone.
GATHERED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "half": lambda x: x * 0.5,
    "square": lambda x: x * x,
    "relu": lambda x: torch.relu(x),
    "narrow": lambda x: x.bfloat16(),
}


class Sample:
    """One random graph: a function of rows, and of weights and others that it has itself."""

    def __init__(self, seed: int) -> None:
        chosen = random.Random(seed)
        self.seed = seed
        self.group = dist.group.WORLD
        self.world = dist.get_world_size()
        self.kind = chosen.choice(["gather", "scatter", "reduce", "block", "block"])
        self.dim = chosen.choice([0, 0, 1])
        self.is_narrow = chosen.random() < 0.3
        self.between = chosen.sample(list(BETWEEN), chosen.randint(0, min(3, len(BETWEEN))))
        self.gathered = chosen.sample(list(GATHERED), chosen.randint(0, 2))
        self.products = chosen.choice([1, 1, 2])
        self.width, self.inner, self.columns = (chosen.choice([3, 4, 5, 8]) for _ in range(3))
        self.more = {name: self._tensor(*shape, at=at) for at, (name, shape) in enumerate(self._shapes().items())}

    def __str__(self) -> str:
        return f"graph {self.seed}: {self.kind}, dim {self.dim}, {self.products} products, {self.gathered}, {self.between}"

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        first = (self.width, self.inner)
        second = (self.inner if self.kind == "block" else self.width, self.columns)
        return {"w": first, "u": first, "v": second, "v2": second, "column": (self.columns,), "scalar": ()}

    def _tensor(self, *shape: int, at: int) -> torch.Tensor:
        made = torch.randn(shape, generator=torch.Generator().manual_seed(100 * self.seed + 10 * at + dist.get_rank()))
        return made.bfloat16() if self.is_narrow else made

    def rows(self, size: int) -> list[torch.Tensor]:
        """The arguments of a call with so many rows of a rank."""
        count = size if self.kind in ("gather", "block") else size * self.world
        outer = [count] if self.dim == 0 else [2, count]
        whole = [size * self.world] if self.dim == 0 else [2, size * self.world]
        shapes = [(*outer, self.width), (*whole, self.columns), (*whole, 1)]
        return [*(self._tensor(*shape, at=20 + at) for at, shape in enumerate(shapes)), *self.more.values()]

    def __call__(self, x: torch.Tensor, added: torch.Tensor, row: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        more = {**dict(zip(self.more, others, strict=True)), "rows": added, "row": row}
        if self.kind in ("gather", "block"):
            x = fc.all_gather_tensor(x, self.dim, self.group)
            for name in self.gathered:
                x = GATHERED[name](x)
        if self.kind == "gather":
            return torch.cat([x @ more[name].to(x.dtype) for name in ("w", "u")[: self.products]], -1)
        if self.kind == "block":
            x = F.silu(x @ more["w"].to(x.dtype)) * (x @ more["u"].to(x.dtype))
        y = x @ more["v"].to(x.dtype)
        if self.products == 2:
            y = y + x @ more["v2"].to(x.dtype)
        for name in self.between:
            y = BETWEEN[name](y, {key: value.to(y.dtype) for key, value in more.items()})
        if self.kind == "reduce":
            return fc.all_reduce(y, "sum", self.group)
        return fc.reduce_scatter_tensor(y, "sum", self.dim, self.group)


def compare(sample: Sample, run: Any, size: int) -> None:
    """The graph's numbers and torch's."""
    given = sample.rows(size)
    wanted, found = sample(*given), run(*given)
    is_wide = not sample.is_narrow and "narrow" not in sample.gathered
    tolerance = {} if is_wide else {"rtol": 0.1, "atol": 0.3}
    torch.testing.assert_close(found, wanted, msg=lambda text: f"{sample}, {size} rows: {text}", **tolerance)


def static_graphs(group: Any, seeds: range) -> None:
    """Graphs for one size each: all collectives are fused, and programs give the numbers of the nodes that they replace."""
    for seed in seeds:
        sample = Sample(seed)
        with torch.no_grad():
            module = make_fx(sample, tracing_mode="fake")(*sample.rows(3))
            overlap = hir.Overlap(choose="always")
            overlap(module)
            assert not overlap.report().kept, f"{sample}\n{overlap.report()}"
            compare(sample, module, 3)
        overlap.check(*(None, None) if not has_sixteen_bits(sample) else (0.1, 0.3))


def has_sixteen_bits(sample: Sample) -> bool:
    """True if 16-bit floats are rounded on the way."""
    return sample.is_narrow or "narrow" in sample.gathered


def dynamic_graphs(group: Any, seeds: range) -> None:
    """Graphs for all sizes: compiled once for the first size and once for the others, with all collectives fused."""
    for seed in seeds:
        torch._dynamo.reset()
        sample, overlap = Sample(seed), hir.Overlap(choose="always")
        compiled = torch.compile(sample.__call__, backend=graphs_through(overlap), fullgraph=True)
        with torch.no_grad():
            for size in (2, 3, 5, 4):
                compare(sample, compiled, size)
        report = overlap.report()
        graphs = {line.graph for line in report.lines}
        assert len(graphs) == 2 and not report.kept, f"{sample}\n{report}"
        overlap.check(*(None, None) if not has_sixteen_bits(sample) else (0.1, 0.3))
