"""Process groups as arguments of ops, and results of collectives as plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from hostir import _native
from hostir.torch._libraries import mapped_library
from hostir.torch._torch_internals import group_by_name, nccl_communicator, rank_count_of

__all__ = [
    "check_mesh",
    "communicator_of",
    "group_among",
    "group_name",
    "group_of",
    "is_group",
    "known_group_name",
    "plain_tensor",
    "rank_count",
]


def is_group(value: Any) -> bool:
    """True if a value is a process group or a mesh; a name is none."""
    if not dist.is_available() or isinstance(value, (torch.Tensor, str, int, float, bool)) or value is None:
        return False
    from torch.distributed.device_mesh import DeviceMesh

    return isinstance(value, (dist.ProcessGroup, DeviceMesh))


def group_name(group: Any) -> str:
    """The name under which torch finds a process group, or that of a mesh of one dimension."""
    if isinstance(group, dist.ProcessGroup):
        return str(group.group_name)
    check_mesh(group)
    return str(group.get_group().group_name)


def check_mesh(mesh: Any) -> None:
    """Raises for a mesh of several dimensions."""
    if mesh.ndim == 1:
        return
    names = mesh.mesh_dim_names
    note = f'slice a dimension: `mesh["{names[-1]}"]`' if names else "name its dimensions (`mesh_dim_names=`), and slice one"
    listed = f" ({', '.join(names)})" if names else ""
    _native.raise_error("H0610", f"`group` is a `DeviceMesh` of {mesh.ndim} dimensions{listed}, but needs one", note)


def known_group_name(group: Any) -> str:
    """The name of a group that torch knows: of a process group, a mesh or a name, and for None the default group."""
    if is_group(group):
        return group_name(group)
    if group is None:
        if not dist.is_available() or not dist.is_initialized():
            message = "`group` is None, and there is no default group"
            _native.raise_error("H0610", message, "call `torch.distributed.init_process_group` before, or pass a group")
        return group_name(dist.group.WORLD)
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        message = "this rank is no member of `group`"
        _native.raise_error("H0610", message, "call ops on the members only: `if torch.distributed.get_rank(group) >= 0`")
    if not isinstance(group, str) or not _is_known(group):
        message = f"`group` is {group!r}, of which torch knows no process group"
        _native.raise_error("H0610", message, "pass a process group, its `group_name`, or a `DeviceMesh` of one dimension")
    return group


def _is_known(name: str) -> bool:
    try:
        rank_count(name)
    except (RuntimeError, ValueError):
        return False
    return True


def group_of(name: str) -> Any:
    """The process group of a name."""
    return group_by_name(name)


def rank_count(name: str) -> int:
    """The number of ranks of the group of a name; compilers know the answer."""
    return rank_count_of(name)


def group_among(values: Sequence[Any], place: int | None = None) -> Any:
    """The process group that is named among the arguments of a call, the one at `place` if it is known; None for an op of one
    rank.
    """
    if not dist.is_available() or not dist.is_initialized():
        return None
    if place is not None and place < len(values) and isinstance(values[place], str):
        return group_of(known_group_name(values[place]))
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
    handle = nccl_communicator(group, device)
    return (handle, library) if handle else None


def plain_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself; of a collective that may still run, its result."""
    wait = getattr(tensor, "wait", None) or getattr(tensor, "trigger_wait", None)
    if type(tensor).__name__ == "AsyncCollectiveTensor" and wait is not None:
        return wait()
    return tensor
