"""The needs of a native dispatcher from torch, and the calls of an op that may go past torch's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hostir import _native
from hostir.torch._torch_internals import dispatch_watchers, raw_stream_reader

__all__ = ["make_dispatcher"]


def _cannot_tell() -> bool:
    return True


def make_dispatcher(places: Sequence[int]) -> _native.Dispatcher:
    """A dispatcher of an op whose program's inputs are the arguments at these places.

    In a torch that lacks a way to ask who looks at ops, all calls go through torch's dispatcher.
    """
    inactive = [(_cannot_tell, False) if ask is None else (ask, answer) for ask, answer in dispatch_watchers()]
    functions = {
        "tensors": [torch.Tensor, torch.nn.Parameter],
        "empty_strided": torch.empty_strided,
        "is_grad_enabled": torch.is_grad_enabled,
        "current_stream": raw_stream_reader(),
        "increment_version": torch.autograd.graph.increment_version,
        "inactive": inactive,
    }
    return _native.Dispatcher(functions, list(places))
