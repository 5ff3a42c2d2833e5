"""The needs of a native dispatcher from torch, and the calls of an op that may go past torch's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from hostir import _native

__all__ = ["make_dispatcher"]

# Each says whether somebody wants to see the ops that are called: the function, and what it returns if nobody does.
_QUIET: list[tuple[Callable[[], Any] | None, Any]] = [
    # Modes in Python: of fake tensors, proxies, functionalization, a user's own.
    (getattr(torch._C, "_len_torch_dispatch_stack", None), 0),
    # Modes above autograd, such as `torch.set_default_device`.
    (getattr(torch._C, "_len_torch_function_stack", None), 0),
    # `torch.func`'s transforms.
    (getattr(torch._C._functorch, "peek_interpreter_stack", None), None),
    # Forward-mode derivatives outside of transforms. A partial object is called without a frame of Python.
    (functools.partial(getattr, forward_ad, "_current_level", None), -1),
    # `torch.jit.trace`.
    (getattr(torch._C, "_get_tracing_state", None), None),
    # `torch.profiler`, which sees ops in torch's dispatcher.
    (getattr(torch.autograd, "_profiler_enabled", None), False),
]


def _cannot_tell() -> bool:
    return True


def make_dispatcher(places: Sequence[int]) -> _native.Dispatcher:
    """A dispatcher of an op whose program's inputs are the arguments at these places.

    In a torch that lacks a way to ask who looks at ops, all calls go through torch's dispatcher.
    """
    inactive = [(_cannot_tell, False) if ask is None else (ask, answer) for ask, answer in _QUIET]
    functions = {
        "tensors": [torch.Tensor, torch.nn.Parameter],
        "empty_strided": torch.empty_strided,
        "is_grad_enabled": torch.is_grad_enabled,
        "current_stream": getattr(torch._C, "_cuda_getCurrentRawStream", None),
        "increment_version": torch.autograd.graph.increment_version,
        "inactive": inactive,
    }
    return _native.Dispatcher(functions, list(places))
