"""Ranks of the tests of experts."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch.fx.experimental.proxy_tensor import make_fx

import hostir.torch as hir
from expert_models import apart, batched, by_expert, by_rank, exchanged, gated, grouped, grouped_takes_floats, layer_of
from overlap_models import graphs_through
from overlap_ranks import rank_tensor


def given_of(world: int, form: Any, *, experts: int = 2, rows: int = 3, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """The tokens of a rank, by rank and expert, and its weights."""
    shapes = [(world * experts, rows, 8), (experts, 8, 12), *([(experts, 8, 12)] if form is gated else []), (experts, 12, 8)]
    return [rank_tensor(*shape, seed=at).to(dtype) for at, shape in enumerate(shapes)]


def layers(group: Any) -> None:
    """A layer is one program, in each form and with one and several experts a rank, and it has torch's numbers."""
    world = dist.get_world_size()
    for form in (batched, gated, grouped) if grouped_takes_floats() else (batched, gated):
        for experts in (1, 2, 3):
            given = given_of(world, form, experts=experts)
            module, wanted = make_fx(layer_of(form), tracing_mode="fake")(*given), layer_of(form)(*given)
            overlap = hir.Overlap(choose="always")
            overlap(module)
            report = overlap.report()
            assert len(report.programs) == 1 and len(report.fused) == 2, f"{form.__name__}, {experts}: {report}"
            torch.testing.assert_close(module(*given), wanted)
            overlap.check()
            assert "protocol=put" in overlap.explain(report.lines[0].region)


def sixteen_bits(group: Any) -> None:
    given = given_of(dist.get_world_size(), gated, dtype=torch.bfloat16)
    module, wanted = make_fx(layer_of(gated), tracing_mode="fake")(*given), layer_of(gated)(*given)
    overlap = hir.Overlap(choose="always")
    overlap(module)
    assert len(overlap.report().fused) == 2, str(overlap.report())
    torch.testing.assert_close(module(*given), wanted, rtol=0.05, atol=0.05)
    overlap.check(rtol=0.05, atol=0.05)


def gradients(group: Any) -> None:
    """Forward and backward are a program each."""
    world = dist.get_world_size()
    for form in (batched, gated):
        torch._dynamo.reset()
        overlap = hir.Overlap(choose="always")
        compiled = torch.compile(layer_of(form), backend=graphs_through(overlap), fullgraph=True)
        found = []
        for function in (layer_of(form), compiled):
            given = [tensor.clone().requires_grad_() for tensor in given_of(world, form)]
            made = function(*given)
            made.square().sum().backward()
            found.append([made.detach(), *(tensor.grad for tensor in given)])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
        overlap.check()
        assert len(overlap.report().fused) == 4 and not overlap.report().kept, str(overlap.report())


def sizes(group: Any) -> None:
    """From the second number of rows on, one program is for all: of rows by expert, and of rows one after the other."""
    world = dist.get_world_size()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for experts, is_flat in ((2, False), (1, True)):
            torch._dynamo.reset()
            overlap = hir.Overlap(choose="always")
            compiled = torch.compile(layer_of(batched), backend=graphs_through(overlap), fullgraph=True)
            with torch.no_grad():
                for rows in (3, 5, 2, 7):
                    x, *weights = given_of(world, batched, experts=experts, rows=rows)
                    given = [x.flatten(0, 1) if is_flat else x, *weights]
                    torch.testing.assert_close(compiled(*given), layer_of(batched)(*given))
            overlap.check()
            assert len(overlap.report().lines) == 4 and not overlap.report().kept, str(overlap.report())
    # A size that is taken for what it is not would be an error of this package's own.
    assert not [one for one in told if "hir.Overlap" in str(one.message)], told


def experts_apart(group: Any) -> None:
    """Experts in a loop keep torch's numbers; the report says why nothing is fused."""
    given = given_of(dist.get_world_size(), apart)
    module, wanted = make_fx(layer_of(apart), tracing_mode="fake")(*given), layer_of(apart)(*given)
    overlap = hir.Overlap(choose="always")
    overlap(module)
    assert {line.reason for line in overlap.report().lines} == {hir.Reason.EXPERTS_APART}, str(overlap.report())
    torch.testing.assert_close(module(*given), wanted)


def one_exchange(group: Any) -> None:
    """An exchange before products, without one after them, and the other way round."""
    ranks = dist.get_world_size()

    def arriving(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> Any:
        rows = by_expert(exchanged(x, group), ranks, 2)
        return torch.bmm(rows, w), torch.bmm(rows, u.transpose(1, 2)), rows.cos()

    def leaving(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        made = (torch.bmm(x, w) + bias) * scale
        return exchanged(by_rank(made, ranks), group)

    cases = [
        (arriving, (2 * ranks, 3, 8), (2, 8, 6), (2, 5, 8)),
        (leaving, (2, 3 * ranks, 8), (2, 8, 6), (2, 1, 6), (2, 3 * ranks, 1)),
    ]
    for function, *shapes in cases:
        given = [rank_tensor(*shape, seed=at) for at, shape in enumerate(shapes)]
        module, wanted = make_fx(function, tracing_mode="fake")(*given), function(*given)
        overlap = hir.Overlap(choose="always")
        overlap(module)
        assert not overlap.report().kept, str(overlap.report())
        torch.testing.assert_close(module(*given), wanted)
        overlap.check()
