"""Random graphs of collectives, products and functions: compiled with `Overlap`, on ranks, they give torch's own numbers.

`python python/tests/overlap_random.py --graphs 1000 --seed 0` runs so many, on 2 and on 3 ranks, for one size, for changing
sizes and with gradients, and counts those whose numbers are others than torch's. It exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import hostir.torch as hir
from overlap_models import graphs_through
from random_experts import ExpertSample
from rank_pool import start_ranks

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
        self.is_autocast = not self.is_narrow and chosen.random() < 0.25
        self.has_bias = chosen.random() < 0.3
        self.between = chosen.sample(list(BETWEEN), chosen.randint(0, min(3, len(BETWEEN))))
        self.gathered = chosen.sample(list(GATHERED), chosen.randint(0, 2))
        self.products = chosen.choice([1, 1, 2])
        self.width, self.inner, self.columns = (chosen.choice([3, 4, 5, 8]) for _ in range(3))
        self.more = {name: self._tensor(*shape, at=at) for at, (name, shape) in enumerate(self._shapes().items())}

    def __str__(self) -> str:
        kinds = [name for name in ("is_narrow", "is_autocast", "has_bias") if getattr(self, name)]
        functions = f"{self.gathered}, {self.between}"
        return f"graph {self.seed}: {self.kind}, dim {self.dim}, {self.products} products, {functions}, {kinds}"

    @property
    def has_sixteen_bits(self) -> bool:
        """True if 16-bit floats are rounded on the way."""
        return self.is_narrow or self.is_autocast or "narrow" in self.gathered

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        first = (self.width, self.inner)
        second = (self.inner if self.kind == "block" else self.width, self.columns)
        return {"w": first, "u": first, "v": second, "v2": second, "column": (self.columns,), "scalar": (), "inner": (self.inner,)}

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

    def __call__(self, *given: torch.Tensor) -> torch.Tensor:
        """The graph's result; in autocast, if it has that."""
        context = torch.autocast("cpu", torch.bfloat16) if self.is_autocast else contextlib.nullcontext()
        with context:
            return self._result(*given)

    def _product(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if not self.has_bias:
            return x @ weight.to(x.dtype)
        return F.linear(x, weight.to(x.dtype).t(), bias.to(x.dtype))

    def _result(self, x: torch.Tensor, added: torch.Tensor, row: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        more = {**dict(zip(self.more, others, strict=True)), "rows": added, "row": row}
        if self.kind in ("gather", "block"):
            x = fc.all_gather_tensor(x, self.dim, self.group)
            for name in self.gathered:
                x = GATHERED[name](x)
        if self.kind == "gather":
            return torch.cat([self._product(x, more[name], more["inner"]) for name in ("w", "u")[: self.products]], -1)
        if self.kind == "block":
            x = F.silu(self._product(x, more["w"], more["inner"])) * (x @ more["u"].to(x.dtype))
        y = self._product(x, more["v"], more["column"])
        if self.products == 2:
            y = y + x @ more["v2"].to(x.dtype)
        for name in self.between:
            y = BETWEEN[name](y, {key: value.to(y.dtype) for key, value in more.items()})
        if self.kind == "reduce":
            return fc.all_reduce(y, "sum", self.group)
        return fc.reduce_scatter_tensor(y, "sum", self.dim, self.group)


class WrongNumbers(AssertionError):
    """A graph gave other numbers than torch on some rank."""


def compare(sample: Any, given: list[torch.Tensor], results: list[Any], wanted: list[Any]) -> None:
    """Raises on all ranks where the numbers of one differ from torch's: the others would wait for it in the next collective."""
    told = ""
    try:
        torch.testing.assert_close(results, wanted, **tolerance_of(sample))
    except AssertionError as error:
        told = str(error)
    differing = fc.all_reduce(torch.tensor(float(bool(told))), "sum", sample.group)
    if float(differing) > 0:
        raise WrongNumbers(f"{sample}, rows {list(given[0].shape)}: {told or 'another rank has wrong numbers'}")


def tolerance_of(sample: Any) -> dict[str, float]:
    """The difference that two ways to round may have; empty for torch's own."""
    return {"rtol": 0.1, "atol": 0.3} if sample.has_sixteen_bits else {}


def with_gradients(function: Any, tensors: list[torch.Tensor]) -> list[Any]:
    """The result of a function, and the gradients of its arguments."""
    given = [tensor.clone().requires_grad_() for tensor in tensors]
    made = function(*given)
    made.float().square().mean().backward()
    return [made.detach(), *(tensor.grad for tensor in given)]


def check_static(sample: Any) -> hir.Overlap:
    """A graph for one size, and its programs beside the nodes that they replace."""
    given = sample.rows(3)
    with torch.no_grad():
        module = make_fx(sample, tracing_mode="fake")(*given)
        overlap = hir.Overlap(choose="always")
        overlap(module)
        compare(sample, given, [module(*given)], [sample(*given)])
    overlap.check(*tolerance_of(sample).values())
    return overlap


def check_dynamic(sample: Any) -> hir.Overlap:
    """A graph compiled once for the first size and once for the others."""
    overlap, compiled = compiled_through(sample)
    with torch.no_grad():
        for given in map(sample.rows, (2, 3, 5, 4)):
            compare(sample, given, [compiled(*given)], [sample(*given)])
    overlap.check(*tolerance_of(sample).values())
    return overlap


def check_trained(sample: Any) -> hir.Overlap:
    """A graph and that of its gradients."""
    overlap, compiled = compiled_through(sample)
    given = sample.rows(3)
    compare(sample, given, with_gradients(compiled, given), with_gradients(sample, given))
    overlap.check(*tolerance_of(sample).values())
    return overlap


def compiled_through(sample: Any) -> tuple[hir.Overlap, Any]:
    """The pass, and a graph that is compiled with it."""
    torch._dynamo.reset()
    overlap = hir.Overlap(choose="always")
    return overlap, torch.compile(sample.__call__, backend=graphs_through(overlap), fullgraph=True)


CHECKS = {"one size": check_static, "sizes": check_dynamic, "gradients": check_trained}


def static_graphs(group: Any, seeds: range) -> None:
    """Graphs for one size each: all collectives are fused, and programs give the numbers of the nodes that they replace."""
    for seed in seeds:
        sample = Sample(seed)
        report = check_static(sample).report()
        assert not report.kept, f"{sample}\n{report}"


def dynamic_graphs(group: Any, seeds: range) -> None:
    """Graphs for all sizes: compiled once for the first size and once for the others, with all collectives fused."""
    for seed in seeds:
        sample = Sample(seed)
        report = check_dynamic(sample).report()
        graphs = {line.graph for line in report.lines}
        assert len(graphs) == 2 and not report.kept, f"{sample}\n{report}"


def graphs_with_gradients(group: Any, seeds: range) -> None:
    """Graphs and those of their gradients."""
    for seed in seeds:
        check_trained(Sample(seed))


def graphs_of_experts(group: Any, seeds: range) -> None:
    """Layers of experts, in each of the ways."""
    for seed in seeds:
        CHECKS[how_of(seed)](ExpertSample(seed))


# The command: many graphs, of which none ends the others.


def sample_of(seed: int) -> Any:
    """The graph of a number; three of ten have experts."""
    return ExpertSample(seed) if seed % 10 >= 7 else Sample(seed)


def how_of(seed: int) -> str:
    """The way in which a graph of a number is compiled."""
    return random.Random(seed).choice(["one size", "one size", "sizes", "gradients"])


def outcome_of(seed: int) -> dict[str, Any]:
    """The outcome of a graph on this rank."""
    how, sample = how_of(seed), sample_of(seed)
    found: dict[str, Any] = {"seed": seed, "how": how, "kind": sample.kind, "is": str(sample)}
    try:
        report = CHECKS[how](sample).report()
    except Exception as error:  # noqa: BLE001 - whatever it is, the table tells it
        return found | {"wrong": f"{type(error).__name__}: {error}"}
    reasons = [f"{line.collective}: {line.reason.name}" for line in report.kept if line.reason is not None]
    return found | {"fused": len(report.fused), "kept": reasons}


def record_graphs(group: Any, seeds: Sequence[int], folder: str) -> None:
    """Writes the outcomes of some graphs, one a line."""
    warnings.simplefilter("ignore", FutureWarning)
    with open(os.path.join(folder, f"{dist.get_world_size()}_{seeds[0]}_{dist.get_rank()}"), "w") as file:
        for seed in seeds:
            print(json.dumps(outcome_of(seed)), file=file, flush=True)


def run_graphs(numbers: Sequence[int], at_once: int = 20) -> list[dict[str, Any]]:
    """The outcomes of graphs: those of even numbers on 2 ranks, of odd ones on 3. Of a graph, the worst rank's counts."""
    outcomes: dict[int, dict[str, Any]] = {}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(numbers), at_once):
            for world in (2, 3):
                seeds = [seed for seed in numbers[start : start + at_once] if seed % 2 == world - 2]
                if not seeds:
                    continue
                try:
                    start_ranks(functools.partial(record_graphs, seeds=seeds, folder=folder), world)
                except AssertionError as error:
                    told = str(error)[-2000:]
                    outcomes.update((seed, {"seed": seed, "how": how_of(seed), "wrong": told}) for seed in seeds)
            for found in _read_outcomes(Path(folder)):
                if found["seed"] not in outcomes or "is" not in outcomes[found["seed"]] or "wrong" in found:
                    outcomes[found["seed"]] = found
            wrong = sum("wrong" in found for found in outcomes.values())
            print(f"{len(outcomes)} graphs, {wrong} wrong, {time.monotonic() - begin:.0f} s", flush=True)
    return [outcomes[seed] for seed in sorted(outcomes)]


def _read_outcomes(folder: Path) -> Iterator[dict[str, Any]]:
    """The files that the ranks have written; they are removed."""
    for file in sorted(folder.iterdir()):
        yield from map(json.loads, file.read_text().splitlines())
        file.unlink()


def table_of(outcomes: list[dict[str, Any]]) -> str:
    """The counts of graphs and of collectives by the way in which they were compiled, and each wrong graph."""
    lines = ["| compiled for | ranks | graphs | fused | kept | wrong |", "|---|---|---|---|---|---|"]
    for how in CHECKS:
        for world in (2, 3):
            some = [found for found in outcomes if found["how"] == how and found["seed"] % 2 == world - 2]
            counts = [sum(found.get("fused", 0) for found in some), sum(len(found.get("kept", ())) for found in some)]
            wrong = sum("wrong" in found for found in some)
            lines.append(f"| {how} | {world} | {len(some)} | {counts[0]} | {counts[1]} | {wrong} |")
    reasons = collections.Counter(reason for found in outcomes for reason in found.get("kept", ()))
    lines.extend(f"kept {count}: {reason}" for reason, count in reasons.most_common())
    lines.extend(f"WRONG {found['seed']}: {found.get('is', '')}\n{found['wrong']}" for found in outcomes if "wrong" in found)
    return "\n".join(lines)


def main() -> int:
    """Runs the command; 1 if a graph was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=100, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first (%(default)s)")
    options = parser.parse_args()
    os.environ.setdefault("HOSTIR_CACHE", "0")
    numbers = range(options.seed, options.seed + options.graphs)
    outcomes = run_graphs(numbers)
    print(table_of(outcomes))
    return 1 if any("wrong" in found for found in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
