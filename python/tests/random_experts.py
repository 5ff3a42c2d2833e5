"""Random layers of experts, for `overlap_random`."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F

from expert_models import by_expert, by_rank, exchanged, grouped_takes_floats

Step = Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]

# Functions of products: of their rows, and of tensors of each form.
FUNCTIONS: dict[str, Step] = {
    "silu": lambda y, more: F.silu(y),
    "relu": lambda y, more: torch.relu(y),
    "scale": lambda y, more: y * 0.5,
    "scalar": lambda y, more: y * more["scalar"],
    "bias": lambda y, more: y + more["column"][: y.shape[-1]],
    "bias of experts": lambda y, more: y + more["columns"][:, :, : y.shape[-1]],
    "scale of experts": lambda y, more: y * more["scalars"],
    "residual": lambda y, more: y + more["rows"][..., : y.shape[-1]],
    "row scale": lambda y, more: y * more["rows"][..., :1],
    "wide": lambda y, more: y.float(),
}
WIDEST = 16


class ExpertSample:
    """One random graph of experts: a function of tokens, and of weights and others that it has itself."""

    def __init__(self, seed: int) -> None:
        chosen = random.Random(seed)
        self.seed = seed
        self.group = dist.group.WORLD
        self.world = dist.get_world_size()
        self.kind = chosen.choice(["layer", "layer", "layer", "dispatch", "combine"])
        self.form = chosen.choice(["bmm", "bmm", "grouped", "mm", "apart"])
        if self.form == "grouped" and not grouped_takes_floats():
            self.form = "bmm"
        self.experts = 1 if self.form == "mm" else chosen.choice([1, 2, 3])
        self.is_narrow = chosen.random() < 0.3
        self.is_autocast = self.form != "grouped" and not self.is_narrow and chosen.random() < 0.25
        self.is_gated = chosen.random() < 0.4
        self.has_splits = chosen.random() < 0.3
        self.turns_weights = chosen.random() < 0.3
        self.functions = [chosen.sample(list(FUNCTIONS), chosen.randint(0, 2)) for _ in range(2)]
        # A grouped product reads rows of whole 16 bytes.
        widths = [8, WIDEST] if self.form == "grouped" else [3, 4, 5, 8]
        self.width, self.inner, self.columns = (chosen.choice(widths) for _ in range(3))

    def __str__(self) -> str:
        kinds = ("is_narrow", "is_autocast", "is_gated", "has_splits", "turns_weights")
        told = [name for name in kinds if getattr(self, name)]
        return f"graph {self.seed}: {self.kind} of {self.experts} experts by {self.form}, {self.functions}, {told}"

    @property
    def has_sixteen_bits(self) -> bool:
        """True if 16-bit floats are rounded on the way."""
        return self.is_narrow or self.is_autocast

    def _tensor(self, *shape: int, at: int) -> torch.Tensor:
        made = torch.randn(shape, generator=torch.Generator().manual_seed(100 * self.seed + 10 * at + dist.get_rank()))
        return made.bfloat16() if self.is_narrow else made

    def rows(self, size: int) -> list[torch.Tensor]:
        """The arguments of a call with so many rows of each expert from a rank."""
        parts, q = self.world * self.experts, self.experts
        tokens = (parts, size, self.width) if self.kind != "combine" else (q, self.world * size, self.width)
        first, second = (q, self.width, self.inner), (q, self.inner, self.columns)
        if self.turns_weights:
            first, second = (q, self.inner, self.width), (q, self.columns, self.inner)
        others = [(WIDEST,), (q, 1, WIDEST), (q, 1, 1), (), (q, self.world * size, WIDEST)]
        return [self._tensor(*shape, at=at) for at, shape in enumerate([tokens, first, first, second, *others])]

    def __call__(self, *given: torch.Tensor) -> torch.Tensor:
        """The graph's result; in autocast, if it has that."""
        context = torch.autocast("cpu", torch.bfloat16) if self.is_autocast else contextlib.nullcontext()
        with context:
            return self._result(*given)

    def _result(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        w, u, v, *rest = others
        more = dict(zip(("column", "columns", "scalars", "scalar", "rows"), rest, strict=True))
        if self.kind != "combine":
            x = by_expert(self._exchanged(x), self.world, self.experts)
        y = self._product(x, w)
        if self.is_gated:
            y = F.silu(y) * self._product(x, u)
        y = self._with_functions(y, 0, more)
        if self.kind == "dispatch":
            return y
        y = self._with_functions(self._product(y, v), 1, more)
        return self._exchanged(by_rank(y, self.world))

    def _with_functions(self, y: torch.Tensor, at: int, more: dict[str, torch.Tensor]) -> torch.Tensor:
        for name in self.functions[at]:
            y = FUNCTIONS[name](y, {key: value.to(y.dtype) for key, value in more.items()})
        return y

    def _exchanged(self, x: torch.Tensor) -> torch.Tensor:
        part = x.shape[0] // self.world
        splits = [part] * self.world if self.has_splits else None
        return exchanged(x, self.group, splits)

    def _product(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        w = w.to(x.dtype)
        if self.turns_weights:
            w = w.transpose(1, 2)
        if self.form == "mm":
            return (x[0] @ w[0]).unsqueeze(0)
        if self.form == "apart":
            return torch.stack([x[at] @ w[at] for at in range(self.experts)])
        if self.form == "grouped":
            ends = torch.arange(1, self.experts + 1, dtype=torch.int32) * x.shape[1]
            return torch._grouped_mm(x.reshape(-1, x.shape[-1]), w, offs=ends).view(self.experts, -1, w.shape[-1])
        return torch.bmm(x, w)
