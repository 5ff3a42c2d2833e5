"""torch's symmetric memory, which programs use in place where their ranks address each other's memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from hostir import _native
from hostir.torch._group import group_of

__all__ = ["register_symmetric", "symmetric_part", "unregister_symmetric"]


class SymmetricPart:
    """An allocation of symmetric memory: what keeps it, and where each rank's part is mapped in this process."""

    __slots__ = ("bytes", "group", "kept", "starts", "start")

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
        """Whether a tensor without gaps lies in it."""
        offset = tensor.data_ptr() - self.start
        fits = 0 <= offset <= self.bytes - tensor.numel() * tensor.element_size()
        return fits and tensor.numel() > 0 and tensor.is_contiguous()


_parts: list[SymmetricPart] = []
_lock = threading.Lock()


def register_symmetric(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    """Lets ops use a tensor of torch's symmetric memory, and its views, where they lie; gives the tensor.

    `tensor` is one of `torch.distributed._symmetric_memory.empty`, of which all ranks of the group call
    `rendezvous`; this does so if they have not. `group` is a process group, or its name. The memory stays until
    `unregister_symmetric` and until no op has a session on it.

    Raises `hostir.HostIrError` (`H0536`) if the tensor is no symmetric memory, or a peer's part is not mapped.
    """
    import torch.distributed._symmetric_memory as symm_mem

    name = group if isinstance(group, str) else str(group.group_name)
    rank = dist.get_rank(group_of(name))
    handle = symm_mem.rendezvous(tensor, name)
    starts = [] if handle is None else list(handle.buffer_ptrs)
    part = SymmetricPart(
        name, starts[rank] if starts else 0, 0 if handle is None else handle.buffer_size, starts, (tensor.detach(), handle)
    )
    if not all(starts) or not part.holds(tensor):
        _native.raise_error(
            "H0536",
            "a tensor cannot be registered as symmetric memory: it is none, has gaps, or a rank's part is not mapped",
            "allocate it with torch.distributed._symmetric_memory.empty, on ranks of one host",
        )
    with _lock:
        _parts[:] = [other for other in _parts if (other.group, other.start) != (name, part.start)] + [part]
        _publish()
    return tensor


def unregister_symmetric(tensor: torch.Tensor) -> None:
    """Takes back `register_symmetric`, for all groups: calls from here on see a tensor like any other."""
    with _lock:
        _parts[:] = [part for part in _parts if not part.holds(tensor)]
        _publish()


def symmetric_part(tensor: torch.Tensor, group: Any) -> SymmetricPart | None:
    """The allocation of a tensor that is registered for a group."""
    if group is None or not _parts:
        return None
    name = str(group.group_name)
    with _lock:
        return next((part for part in _parts if part.group == name and part.holds(tensor)), None)


def _publish() -> None:
    _native.set_symmetric_ranges([(part.start, part.bytes) for part in _parts])
