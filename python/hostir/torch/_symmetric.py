"""torch's symmetric memory, which programs use in place where their ranks address each other's memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from hostir import _native
from hostir.torch._group import group_name, group_of, is_group
from hostir.torch._torch_internals import rendezvous

__all__ = ["register_symmetric", "symmetric_part", "unregister_symmetric"]


class SymmetricPart:
    """An allocation of symmetric memory: what keeps it, and where each rank's part is mapped in this process."""

    __slots__ = ("bytes", "group", "kept", "start", "starts")

    def __init__(self, group: str, start: int, size: int, starts: Sequence[int], kept: Any) -> None:
        self.group = group
        self.start = start
        self.bytes = size
        self.starts = tuple(starts)
        self.kept = kept

    def addresses_of(self, tensor: torch.Tensor) -> list[int]:
        """The addresses of all ranks' tensors that lie as this one does."""
        return [start + tensor.data_ptr() - self.start for start in self.starts]

    def holds(self, tensor: torch.Tensor) -> bool:
        """Returns true if a tensor without gaps lies in it."""
        offset = tensor.data_ptr() - self.start
        fits = 0 <= offset <= self.bytes - tensor.numel() * tensor.element_size()
        return fits and tensor.numel() > 0 and tensor.is_contiguous()


_parts: list[SymmetricPart] = []
_lock = threading.Lock()

_ALLOCATE = "allocate it with torch.distributed._symmetric_memory.empty, on ranks of one host"


def register_symmetric(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    """Lets ops use a tensor of torch's symmetric memory, and its views, where they lie; returns the tensor.

    `tensor` is one of `torch.distributed._symmetric_memory.empty`, and `group` a process group, a mesh of one dimension,
    or a group's name. All ranks of the group call this together, before the first call of an op with the tensor: it does
    torch's `rendezvous`. The memory stays allocated until `unregister_symmetric`, and until no op has a session on it.

    Raises `hostir.HostIrError` (`H0536`) if the tensor has gaps, no elements or no symmetric memory, or if the group is
    unknown; `TypeError` for arguments of other types.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"register_symmetric takes a tensor, not {type(tensor).__name__}")
    name = _name_of(group)
    _check_tensor(tensor)
    rank = _rank_in(name)
    _add_part(tensor, name, rank, rendezvous(tensor, name))
    return tensor


def unregister_symmetric(tensor: torch.Tensor) -> None:
    """Takes back `register_symmetric`, for all groups; all ranks call it. Sessions on the tensor stay on it."""
    with _lock:
        _parts[:] = [part for part in _parts if not part.holds(tensor)]
        _publish()


def _name_of(group: Any) -> str:
    if isinstance(group, str):
        return group
    if not is_group(group):
        raise TypeError(f"register_symmetric takes a process group or its name, not {type(group).__name__}")
    return group_name(group)


def _rank_in(name: str) -> int:
    """This process's rank in the group of a name."""
    try:
        rank = dist.get_rank(group_of(name))
    except (RuntimeError, ValueError):
        _refuse(f"there is no process group named {name!r}", "pass a group of torch.distributed, or its group_name")
    if rank < 0:
        _refuse(f"this process is no rank of the group {name!r}", "only the ranks of the group register the tensor")
    return rank


def _check_tensor(tensor: torch.Tensor) -> None:
    """Refuses what cannot be symmetric memory, before the other ranks are asked."""
    if tensor.numel() == 0:
        _refuse("a tensor without elements has no symmetric memory", _ALLOCATE)
    if not tensor.is_contiguous():
        note = "register the whole tensor: its contiguous views are registered with it"
        _refuse("a tensor with gaps cannot be registered", note)
    end = (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    if tensor.untyped_storage().nbytes() < end:
        _refuse("the memory of a tensor has been freed", "register a tensor before its storage is resized")
    if tensor.device.type != "cuda":
        _refuse(f"a tensor on {tensor.device} is not symmetric memory", _ALLOCATE)


def _add_part(tensor: torch.Tensor, name: str, rank: int, handle: Any) -> None:
    """Registers the allocation that torch's `rendezvous` has found, None if there is none."""
    if handle is None:
        _refuse("a tensor is not symmetric memory of torch", _ALLOCATE)
    starts = list(handle.buffer_ptrs)
    if not all(starts):
        without = ", ".join(str(other) for other, start in enumerate(starts) if not start)
        _refuse(f"symmetric memory of rank {without} is not mapped here", _ALLOCATE)
    part = SymmetricPart(name, starts[rank], handle.buffer_size, starts, (tensor.detach(), handle))
    if not part.holds(tensor):
        _refuse("a tensor does not fit in its symmetric memory", _ALLOCATE)
    with _lock:
        _parts[:] = [other for other in _parts if (other.group, other.start) != (name, part.start)] + [part]
        _publish()


def _refuse(message: str, note: str) -> NoReturn:
    _native.raise_error("H0536", message, note)


def symmetric_part(tensor: torch.Tensor, group: Any) -> SymmetricPart | None:
    """The allocation of a tensor that is registered for a group."""
    if group is None or not _parts:
        return None
    name = str(group.group_name)
    with _lock:
        return next((part for part in _parts if part.group == name and part.holds(tensor)), None)


def _publish() -> None:
    groups: dict[int, list[str]] = {}
    for part in _parts:
        groups.setdefault(part.start, []).append(part.group)
    sizes = {part.start: part.bytes for part in _parts}
    _native.set_symmetric_ranges([(start, sizes[start], names) for start, names in groups.items()])
