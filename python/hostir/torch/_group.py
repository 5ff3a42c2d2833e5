"""Process groups as arguments of ops, and results of collectives as plain tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

from hostir.torch._libraries import mapped_library

__all__ = ["communicator_of", "group_among", "group_name", "group_of", "is_group", "plain_tensor", "rank_count"]


def is_group(value: Any) -> bool:
    """Whether a value is a process group or a mesh; a name is none."""
    if not dist.is_available() or isinstance(value, (torch.Tensor, str, int, float, bool)) or value is None:
        return False
    from torch.distributed.device_mesh import DeviceMesh

    return isinstance(value, (dist.ProcessGroup, DeviceMesh))


def group_name(group: Any) -> str:
    """The name under which torch finds a process group, or that of a mesh of one dimension."""
    if isinstance(group, dist.ProcessGroup):
        return str(group.group_name)
    return str(group.get_group().group_name)


def group_of(name: str) -> Any:
    """The process group of a name."""
    from torch.distributed.distributed_c10d import _resolve_process_group

    return _resolve_process_group(name)


def rank_count(name: str) -> int:
    """The number of ranks of the group of a name; compilers know the answer."""
    from torch.distributed.distributed_c10d import _get_group_size_by_name

    return int(_get_group_size_by_name(name))


def group_among(values: Iterable[Any]) -> Any:
    """The process group that is named among the arguments of a call; None for an op of one rank."""
    if not dist.is_available() or not dist.is_initialized():
        return None
    for value in values:
        if isinstance(value, str):
            try:
                return group_of(value)
            except (RuntimeError, ValueError):
                continue
    return None


def communicator_of(group: Any, device: torch.device) -> tuple[int, str] | None:
    """The NCCL communicator that a process group has for a device, and the file of its library.

    None where torch has made none yet, does not tell, or has NCCL in a library of its own.
    """
    # Before anything else opens one, the NCCL that is mapped is torch's.
    library = mapped_library("libnccl.so")
    if library is None:
        return None
    try:
        handle = group._get_backend(device)._comm_ptr()
    except (AttributeError, RuntimeError):
        return None
    return (int(handle), library) if handle else None


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself; of a collective that may still run, its result."""
    wait = getattr(tensor, "wait", None) or getattr(tensor, "trigger_wait", None)
    if type(tensor).__name__ == "AsyncCollectiveTensor" and wait is not None:
        return wait()
    return tensor
