"""The rows of tools/overlap-bench in torch: serial, async-TP's fused operators, symmetric memory, and peers.

A case has `parts`, the product and the communication alone, `serial`, and `ways`: functions by name that set a way up
and return the function that is timed. A way returns its results as a list, in the order of `serial`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from bench.overlap import torch_peers as peers
from bench.overlap.torch_types import Results, Run, SetUp, TimedRanks

DTYPES = {"bfloat": torch.bfloat16, "float": torch.float32, "e4m3": torch.float8_e4m3fn}


class Case:
    """The tensors of a row on one rank. `share` is the number of ranks that share this GPU, where there is one process."""

    def __init__(self, world: TimedRanks, order: dict[str, Any]) -> None:
        self.world, self.dtype = world, DTYPES[order["dtype"]]
        self.m, self.k, self.n = order["m"], order["k"], order["n"]
        self.share = order["ranks"] if world.size == 1 else 1
        self.ranks = order["ranks"]
        self.tolerance = 1e-4 if self.dtype == torch.float32 else 0.03
        # In symmetric memory: copies of tensors by id, and the rows of the ring.
        self.copies: dict[int, torch.Tensor] = {}
        self.links: Any = None
        self.make()

    def make(self) -> None:
        """Makes the tensors."""
        raise NotImplementedError

    def products(self) -> torch.Tensor | None:
        """The products alone."""
        raise NotImplementedError

    def communication(self) -> None:
        """The communication alone."""
        raise NotImplementedError

    def serial(self) -> Results:
        """One after the other."""
        raise NotImplementedError

    def seeded(self, number: int) -> None:
        """Seeds random numbers."""
        torch.manual_seed(number)

    def uniform(self, *shape: int) -> torch.Tensor:
        """Uniform numbers."""
        return torch.rand(*shape, device=self.world.device, dtype=self.dtype)

    def normal(self, *shape: int) -> torch.Tensor:
        """Normally distributed numbers."""
        return torch.randn(*shape, device=self.world.device, dtype=self.dtype)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Memory that is not set."""
        return torch.empty(*shape, device=self.world.device, dtype=dtype or self.dtype)

    def symmetric(self, part: torch.Tensor) -> torch.Tensor:
        """A copy in symmetric memory, the same one for each way."""
        if id(part) not in self.copies:
            copy = torch.empty_like(part)
            if self.world.on_gpu:
                copy = symmetric.empty(*part.shape, dtype=part.dtype, device=part.device)
                symmetric.rendezvous(copy, self.world.group)
            self.copies[id(part)] = copy.copy_(part)
        return self.copies[id(part)]

    def parts(self) -> dict[str, Run]:
        """The product and the communication alone, by name."""
        found = {"torch-gemm": self.repeated(self.products)}
        return found if self.world.size == 1 else {**found, "torch-comm": self.communication}

    def repeated(self, function: Callable[[], object]) -> Run:
        """A function as often as ranks share the GPU."""

        def run() -> None:
            for _ in range(self.share):
                function()

        return run

    def ways(self) -> dict[str, SetUp]:
        """The ways by name."""
        return {"torch-serial": lambda: self.serial}

    def gather(self, whole: torch.Tensor, part: torch.Tensor) -> None:
        """An allgather of rows; of 8-bit floats as bytes."""
        if whole.element_size() == 1:
            whole, part = whole.view(torch.uint8), part.view(torch.uint8)
        dist.all_gather_into_tensor(whole, part)

    def fused_gather(self, x: torch.Tensor, *weights: torch.Tensor, keep: bool = False) -> Any:
        """Async-TP's operator, which gathers with copies and multiplies by parts: the gathered rows, and products."""
        return torch.ops.symm_mem.fused_all_gather_matmul(x, list(weights), 0, self.world.group, return_A=keep)

    def fused_scatter(self, x: torch.Tensor, w: torch.Tensor) -> Any:
        """Async-TP's operator, which multiplies by parts and scatters their sum."""
        return torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", 0, self.world.group)


class Gather(Case):
    """allgather(x) @ w."""

    def make(self) -> None:
        self.seeded(self.world.rank)
        self.x = self.uniform(self.m // self.ranks, self.k)
        self.seeded(0)
        self.w = self.normal(self.k, self.n)
        self.whole, self.product = self.empty(self.m, self.k).normal_(), self.empty(self.m, self.n)

    def products(self) -> None:
        torch.mm(self.whole, self.w, out=self.product)

    def communication(self) -> None:
        self.gather(self.whole, self.x)

    def serial(self) -> Results:
        self.communication()
        self.products()
        return [self.product]

    def fused(self, x: torch.Tensor) -> Run:
        """Async-TP."""
        return lambda: [self.fused_gather(x, self.w)[1][0]]

    def ways(self) -> dict[str, SetUp]:
        found = {
            **super().ways(),
            "async-tp": lambda: self.fused(self.x),
            "async-tp-symm": lambda: self.fused(self.symmetric(self.x)),
            "vllm-ring": lambda: peers.ring(self),
        }
        return {**found, **peers.gathers(self)}


class Scatter(Case):
    """The sum over ranks of x @ w, scattered by rows."""

    def make(self) -> None:
        self.seeded(self.world.rank)
        self.x, self.w = self.uniform(self.m, self.k // self.ranks), self.normal(self.k // self.ranks, self.n)
        self.product, self.part = self.empty(self.m, self.n).normal_(), self.empty(self.m // self.ranks, self.n)

    def products(self) -> None:
        torch.mm(self.x, self.w, out=self.product)

    def communication(self) -> None:
        dist.reduce_scatter_tensor(self.part, self.product)

    def serial(self) -> Results:
        self.products()
        self.communication()
        return [self.part]

    def ways(self) -> dict[str, SetUp]:
        def fused(x: torch.Tensor) -> Run:
            return lambda: [self.fused_scatter(x, self.w)]

        found = {
            **super().ways(),
            "async-tp": lambda: fused(self.x),
            "async-tp-symm": lambda: fused(self.symmetric(self.x)),
        }
        return {**found, **peers.scatters(self)}


class Reduce(Scatter):
    """The sum over ranks of x @ w, at all ranks."""

    def communication(self) -> None:
        dist.all_reduce(self.product)

    def serial(self) -> Results:
        self.products()
        self.communication()
        return [self.product]

    def ways(self) -> dict[str, SetUp]:
        def pair() -> Run:
            whole = self.empty(self.m, self.n)

            def run() -> Results:
                self.gather(whole, self.fused_scatter(self.x, self.w))
                return [whole]

            return run

        def two_shot() -> Run:
            product = self.symmetric(self.product)

            def run() -> Results:
                torch.mm(self.x, self.w, out=product)
                return [torch.ops.symm_mem.two_shot_all_reduce_(product, "sum", self.world.group)]

            return run

        return {"torch-serial": lambda: self.serial, "async-tp": pair, "torch-symm-allreduce": two_shot}


class Block(Case):
    """relu(allgather(x) @ w1) @ w2, scattered by rows."""

    def make(self) -> None:
        self.seeded(self.world.rank)
        rows, ffn = self.m // self.ranks, self.n // self.ranks
        # Weights are scaled so that what is summed stays near 1.
        self.x, self.dy = self.uniform(rows, self.k), self.normal(rows, self.k)
        self.w1 = self.normal(self.k, ffn).mul_(self.k**-0.5)
        self.w2 = self.normal(ffn, self.k).mul_(self.n**-0.5)
        self.whole, self.hidden = self.empty(self.m, self.k).normal_(), self.empty(self.m, ffn).normal_()
        self.product, self.y = self.empty(self.m, self.k).normal_(), self.empty(rows, self.k)

    def products(self) -> None:
        torch.mm(self.whole, self.w1, out=self.hidden)
        torch.mm(self.hidden, self.w2, out=self.product)

    def communication(self) -> None:
        self.gather(self.whole, self.x)
        dist.reduce_scatter_tensor(self.y, self.product)

    def serial(self) -> Results:
        self.gather(self.whole, self.x)
        torch.mm(self.whole, self.w1, out=self.hidden)
        torch.mm(torch.relu(self.hidden), self.w2, out=self.product)
        dist.reduce_scatter_tensor(self.y, self.product)
        return [self.y]

    def fused(self, x: torch.Tensor, _: torch.Tensor) -> Run:
        """Async-TP."""

        def run() -> Results:
            hidden = self.fused_gather(x, self.w1)[1][0]
            return [self.fused_scatter(torch.relu(hidden), self.w2)]

        return run

    def ways(self) -> dict[str, SetUp]:
        def in_symmetric_memory() -> Run:
            return self.fused(*(self.symmetric(part) for part in (self.x, self.dy)))

        return {**super().ways(), "async-tp": lambda: self.fused(self.x, self.dy), "async-tp-symm": in_symmetric_memory}


class Training(Block):
    """The block and the gradients of x, w1 and w2 for a gradient of y."""

    def make(self) -> None:
        super().make()
        ffn = self.n // self.ranks
        self.grown, self.gradient = self.empty(self.m, self.k).normal_(), self.empty(self.m, ffn).normal_()
        self.dw1, self.dw2, self.dx = self.empty(self.k, ffn), self.empty(ffn, self.k), torch.empty_like(self.x)

    def products(self) -> None:
        super().products()
        torch.mm(self.grown, self.w2.t(), out=self.gradient)
        torch.mm(self.gradient, self.w1.t(), out=self.product)
        torch.mm(self.whole.t(), self.gradient, out=self.dw1)
        torch.mm(self.hidden.t(), self.grown, out=self.dw2)

    def communication(self) -> None:
        super().communication()
        super().communication()

    def serial(self) -> Results:
        self.gather(self.whole, self.x)
        torch.mm(self.whole, self.w1, out=self.hidden)
        active = torch.relu(self.hidden)
        torch.mm(active, self.w2, out=self.product)
        dist.reduce_scatter_tensor(self.y, self.product)
        self.gather(self.grown, self.dy)
        torch.mm(self.grown, self.w2.t(), out=self.gradient)
        gradient = torch.ops.aten.threshold_backward(self.gradient, active, 0)
        torch.mm(gradient, self.w1.t(), out=self.product)
        dist.reduce_scatter_tensor(self.dx, self.product)
        torch.mm(self.whole.t(), gradient, out=self.dw1)
        torch.mm(active.t(), self.grown, out=self.dw2)
        return [self.y, self.dx, self.dw1, self.dw2]

    def fused(self, x: torch.Tensor, dy: torch.Tensor) -> Run:
        """Async-TP."""

        def run() -> Results:
            whole, (hidden,) = self.fused_gather(x, self.w1, keep=True)
            active = torch.relu(hidden)
            y = self.fused_scatter(active, self.w2)
            grown, (gradient,) = self.fused_gather(dy, self.w2.t(), keep=True)
            gradient = torch.ops.aten.threshold_backward(gradient, active, 0)
            dx = self.fused_scatter(gradient, self.w1.t())
            return [y, dx, torch.mm(whole.t(), gradient), torch.mm(active.t(), grown)]

        return run


class Scaled(Case):
    """8-bit factors with a scale for each row and each column, products in bfloat16."""

    w: torch.Tensor
    r: torch.Tensor

    def factors(self, rows: int, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and their scales."""
        x = torch.rand(rows, depth, device=self.world.device).to(self.dtype)
        s = torch.rand(rows, 1, device=self.world.device) + 0.5
        return x, s

    def weights(self, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The right factor lies column by column, as scaled products want it."""
        w = torch.randn(self.n, depth, device=self.world.device).to(self.dtype).t()
        r = torch.rand(1, self.n, device=self.world.device) + 0.5
        return w, r

    def scaled(self, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """The product of these rows."""
        return torch._scaled_mm(x, self.w, s, self.r, out_dtype=torch.bfloat16, use_fast_accum=True)


class ScaledGather(Scaled):
    def make(self) -> None:
        self.seeded(self.world.rank)
        self.x, self.s = self.factors(self.m // self.ranks, self.k)
        self.seeded(0)
        self.w, self.r = self.weights(self.k)
        self.whole, self.scales = self.factors(self.m, self.k)

    def products(self) -> torch.Tensor:
        return self.scaled(self.whole, self.scales)

    def communication(self) -> None:
        self.gather(self.whole, self.x)
        self.gather(self.scales, self.s)

    def serial(self) -> Results:
        self.communication()
        return [self.products()]

    def ways(self) -> dict[str, SetUp]:
        def fused(x: torch.Tensor) -> Run:
            def run() -> Results:
                found = torch.ops.symm_mem.fused_all_gather_scaled_matmul(
                    x, [self.w], self.s, [self.r], 0, self.world.group, [None], [None], [torch.bfloat16], [True]
                )
                return [found[1][0]]

            return run

        def in_symmetric_memory() -> Run:
            return fused(self.symmetric(self.x))

        return {**super().ways(), "async-tp": lambda: fused(self.x), "async-tp-symm": in_symmetric_memory}


class ScaledScatter(Scaled):
    def make(self) -> None:
        self.seeded(self.world.rank)
        depth = self.k // self.ranks
        self.x, self.s = self.factors(self.m, depth)
        self.w, self.r = self.weights(depth)
        self.product = self.empty(self.m, self.n, dtype=torch.bfloat16).normal_()
        self.part = self.empty(self.m // self.ranks, self.n, dtype=torch.bfloat16)

    def products(self) -> torch.Tensor:
        return self.scaled(self.x, self.s)

    def communication(self) -> None:
        dist.reduce_scatter_tensor(self.part, self.product)

    def serial(self) -> Results:
        dist.reduce_scatter_tensor(self.part, self.products())
        return [self.part]

    def ways(self) -> dict[str, SetUp]:
        def fused() -> Results:
            found = torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter(
                self.x, self.w, self.s, self.r, "sum", 0, 0, self.world.group, [self.m, self.n], None, None, torch.bfloat16, True
            )
            return [found]

        return {**super().ways(), "async-tp": lambda: fused}


CASES: dict[str, type[Case]] = {
    "ag": Gather,
    "rs": Scatter,
    "ar": Reduce,
    "mlp": Block,
    "training": Training,
    "scaled-ag": ScaledGather,
    "scaled-rs": ScaledScatter,
}


def make_case(world: TimedRanks, order: dict[str, Any]) -> Case:
    """The case of an order."""
    if not world.on_gpu and world.size > 1:
        peers.register_fallbacks()
    return CASES[order["kind"]](world, order)
