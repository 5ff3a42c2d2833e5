"""The computation of linear slots, forward and backward, as graphs in which `Overlap` has put programs.

The graph of a slot is made on its first call for these shapes, element types and group. Whatever it does, all ranks do. Of
the graphs of a group, the least recently used one goes, with the sessions of its programs.
`linear`, and by it `_styles` and `tp_gemm_backend`, use `_overlap` through this module.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from hostir import _native
from hostir.torch._gradient import without_autocast
from hostir.torch._op import Op
from hostir.torch._overlap import Overlap, Report
from hostir.torch._overlap.programs import op_of_region
from hostir.torch._torch_internals import FakeTensorMode, functional_collectives

__all__ = ["SlotCall", "check", "gather_rows", "report", "run_slot", "scatter_sum", "use"]

c10d = functional_collectives()

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class SlotCall:
    """All that a graph depends on besides its tensors."""

    group: str
    ranks: int
    axis: int = 0
    """The axis of rows, which is spread over the ranks."""
    count: int = 1
    """The number of weights."""
    has_bias: bool = False


# The graphs of a group that are kept: those of some shapes of all layers of a model.
KEPT = 256


class _Slots:
    """The graphs, and the pass that they go through."""

    def __init__(self, overlap: Overlap) -> None:
        self.overlap = overlap
        self.graphs: dict[str, OrderedDict[Any, torch.fx.GraphModule]] = {}
        """By group, the least recently used one first: the ranks of a group make and drop them in the same order."""

    def drop_least_used(self, group: str) -> None:
        """Makes room for another graph of a group."""
        own = self.graphs[group]
        while len(own) >= KEPT:
            _, module = own.popitem(last=False)
            others = set().union(*(_programs_of(other) for graphs in self.graphs.values() for other in graphs.values()))
            for op in _programs_of(module) - others:
                op.drop_sessions()


def _programs_of(module: torch.fx.GraphModule) -> set[Op]:
    """The ops of a graph that are programs."""
    found = (op_of_region(node.target) for node in module.graph.nodes if node.op == "call_function")
    return {op for op in found if op is not None}


_slots = _Slots(Overlap())


def use(overlap: Overlap) -> None:
    """Sets the pass that slots go through from now on; graphs that were made before are dropped."""
    global _slots
    if not isinstance(overlap, Overlap):
        message = f"`overlap` is of type {type(overlap).__name__}, but needs to be a pass"
        _native.raise_error("H0610", message, "pass `hir.Overlap()`, or one with other settings")
    _slots = _Slots(overlap)


def report() -> Report:
    """The outcome for the slots' collectives."""
    return _slots.overlap.report()


def check(rtol: float | None = None, atol: float | None = None) -> None:
    """Compares the slots' programs with torch's ops; see `Overlap.check`."""
    _slots.overlap.check(rtol, atol)


def run_slot(function: Callable[..., Any], call: SlotCall, tensors: Tensors) -> Any:
    """The results of `function(call, *tensors)`, by its graph."""
    slots = _slots
    key = (function, call, *((tuple(value.shape), value.stride(), value.dtype, value.device) for value in tensors))
    graphs = slots.graphs.setdefault(call.group, OrderedDict())
    with without_autocast(tensors[0].device.type):
        if key not in graphs:
            slots.drop_least_used(call.group)
            graphs[key] = _make_graph(slots.overlap, function, call, tensors)
        graphs.move_to_end(key)
        return graphs[key](*tensors)


def _make_graph(overlap: Overlap, function: Callable[..., Any], call: SlotCall, tensors: Tensors) -> torch.fx.GraphModule:
    own = [value.detach() for value in tensors]
    with FakeTensorMode() as mode, torch.no_grad():
        fakes = [mode.from_tensor(value) for value in own]
        module = make_fx(lambda *values: function(call, *values), tracing_mode="real")(*fakes)
    _say_where(module)
    overlap(module)
    return module


def _say_where(module: torch.fx.GraphModule) -> None:
    """The line that calls the slot, for the report."""
    stack = "".join(traceback.format_stack())
    for node in module.graph.nodes:
        node.meta["stack_trace"] = stack


def gather_rows(call: SlotCall, part: torch.Tensor) -> torch.Tensor:
    """The parts of all ranks along the axis of rows."""
    whole = c10d.wait_tensor(c10d.all_gather_into_tensor(part.contiguous(), call.ranks, call.group))
    return whole if call.axis == 0 else torch.cat(torch.chunk(whole, call.ranks, 0), call.axis)


def scatter_sum(call: SlotCall, whole: torch.Tensor) -> torch.Tensor:
    """The rank's part of the sum over all ranks."""
    if call.axis != 0:
        whole = torch.cat(torch.chunk(whole, call.ranks, call.axis), 0)
    return c10d.wait_tensor(c10d.reduce_scatter_tensor(whole.contiguous(), "sum", call.ranks, call.group))
