"""Collectives of graphs: taken out, with buffers in the place of what they give, and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

c10d = torch.ops._c10d_functional

_library = torch.library.Library("hostir_bench", "DEF")
_library.define("buffer(Tensor x, int[] shape) -> Tensor")
_buffers: dict[Any, torch.Tensor] = {}


def _buffer(x: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Memory of this shape, the same one at each call, with numbers of a usual size."""
    key = (tuple(shape), x.dtype, x.device)
    if key not in _buffers:
        _buffers[key] = torch.randn(shape, dtype=x.dtype, device=x.device)
    return _buffers[key]


def refill_buffers() -> None:
    """Usual numbers again. Compiled graphs write results over what they no longer need: over many steps these grow until they
    are no numbers any more, and GEMMs of such run faster.
    """
    for buffer in _buffers.values():
        buffer.normal_()


_library.impl("buffer", _buffer, "CompositeExplicitAutograd")
torch.library.register_fake("hostir_bench::buffer", lambda x, shape: x.new_empty(shape), lib=_library)


def collectives_replaced(found: list[tuple[Any, ...]]) -> Any:
    """A pass that takes the collectives out of graphs, and puts down what they were."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Replaced(CustomGraphPass):
        def uuid(self) -> None:
            return None

        def __call__(self, graph: torch.fx.Graph) -> None:
            for node in list(graph.nodes):
                if node.op != "call_function" or getattr(node.target, "namespace", "") != "_c10d_functional":
                    continue
                if node.target is not c10d.wait_tensor.default:
                    found.append((node.target, node.args[0].meta["val"], node.args[1:]))
                    with graph.inserting_before(node):
                        shape = list(node.meta["val"].shape)
                        made = graph.call_function(torch.ops.hostir_bench.buffer.default, (node.args[0], shape))
                    made.meta["val"] = node.meta["val"]
                    node.replace_all_uses_with(made)
                else:
                    node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)

    return Replaced()


def collectives_alone(found: list[tuple[Any, ...]]) -> Callable[[], None]:
    """The collectives one after the other."""
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    given = [(op, torch.randn(fake.shape, dtype=fake.dtype, device=device), rest) for op, fake, rest in found]

    def run() -> None:
        for op, x, rest in given:
            c10d.wait_tensor(op(x, *rest))

    return run
