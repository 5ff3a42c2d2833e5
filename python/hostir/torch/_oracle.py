"""The comparison of a program with its op's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from hostir import Tensor, _native
from hostir._arrays import copy_tensor
from hostir._program import _settings

if TYPE_CHECKING:
    from hostir.torch._op import Op

__all__ = ["compare_with_body"]


def compare_with_body(made: Op, values: Sequence[Any], rtol: float | None, atol: float | None) -> None:
    """Runs program and body, and raises if their results differ."""
    named = made.named_arguments(values)
    group = made.group_of_call(values)
    rank, world = (dist.get_rank(group), dist.get_world_size(group)) if group is not None else (0, 1)
    if (rtol is None) != (atol is None):
        rtol, atol = rtol or 0.0, atol or 0.0
    _check_tensors(made, {argument: named[argument] for argument in made.args}, group)
    parts = {name: _all_parts(named[argument], group) for argument, name in made.args.items()}
    settings = _settings(world, None, None, None, False, None)
    with torch.no_grad():
        expected = pytree.tree_leaves(made.run_body(*values))
    outputs = _native.run_ranks(made.program._handle, parts, settings)[rank]
    for name, wanted in zip(made.outputs, expected, strict=True):
        position = made.program.position(name, "output")
        assert position is not None
        _compare(made, outputs[position][1], name, wanted, rank, rtol, atol)


def _check_tensors(made: Op, tensors: dict[str, Any], group: Any) -> None:
    """Raises unless all arguments are tensors with numbers, and of the same shapes and types on all ranks."""
    own = {}
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor) or value.is_meta:
            found = f"a {type(value).__name__}" if not getattr(value, "is_meta", False) else "a tensor of the meta device"
            _native.raise_error("H0610", f"{made.name}: `{name}` is {found}, but `check` needs a tensor with numbers", None)
        own[name] = f"{list(value.shape)} of {value.dtype}"
    if group is None:
        return
    ranks: list[dict[str, str]] = [{}] * dist.get_world_size(group)
    dist.all_gather_object(ranks, own, group=group)
    for name, first in ranks[0].items():
        for rank, other in enumerate(ranks):
            if other[name] != first:
                message = f"{made.name}: `{name}` is {first} on rank 0, but {other[name]} on rank {rank}"
                _native.raise_error("H0610", message, "ranks pass tensors of the same shapes and types")


def _all_parts(tensor: torch.Tensor, group: Any) -> list[Tensor]:
    own = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if group is None:
        return [copy_tensor(own)]
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    # Gloo knows no floats of 8 bits.
    is_small = own.element_size() == 1
    sent, received = (own.view(torch.uint8), [part.view(torch.uint8) for part in parts]) if is_small else (own, parts)
    dist.all_gather(received, sent, group=group)
    return [copy_tensor(part) for part in parts]


def _tensor_of(found: Tensor) -> torch.Tensor:
    if not found.dtype.startswith("float8"):
        return torch.from_dlpack(found)
    # Older versions of torch take no floats of 8 bits from others.
    dtype: torch.dtype = getattr(torch, found.dtype)
    return torch.from_dlpack(found.bits()).view(dtype)


def _compare(
    made: Op, found: Tensor | None, name: str, wanted: torch.Tensor, rank: int, rtol: float | None, atol: float | None
) -> None:
    if found is None:
        _native.raise_error("H0630", f"{made.name}: rank {rank} holds no part of {name}, but the body gives one", None)
    got = _tensor_of(found)
    if got.numel() != wanted.numel():
        shapes = f"{list(got.shape)}, but the body's {list(wanted.shape)}"
        _native.raise_error("H0630", f"{made.name}: {name} of rank {rank} has shape {shapes}", None)
    if rtol is None and wanted.dtype in (torch.bfloat16, torch.float16) and wanted.numel():
        # Sums are rounded by parts and terms: errors are those of their largest terms.
        rtol = {torch.bfloat16: 1.6e-2, torch.float16: 1e-3}[wanted.dtype]
        atol = 2 * torch.finfo(wanted.dtype).eps * wanted.abs().nan_to_num(posinf=0.0).max().item()
    try:
        torch.testing.assert_close(got.reshape(wanted.shape), wanted, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        message = f"{made.name}: {name} of rank {rank} differs from the body: {' '.join(str(error).split())}"
        _native.raise_error("H0630", message, "`rtol` and `atol` set how far they may be apart")
