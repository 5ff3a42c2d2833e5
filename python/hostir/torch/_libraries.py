"""CUDA's libraries of the environment that torch runs in."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

__all__ = ["mapped_library", "preload_libraries"]

_NAMES = ("libnvrtc.so", "libcublasLt.so", "libnccl.so")


@functools.cache
def preload_libraries() -> tuple[str, ...]:
    """Opens NVRTC, cuBLASLt and NCCL of the packages that torch was installed with; gives the files.

    Programs open libraries by name. What the process has open already is found by its name, so torch and programs share
    one copy; torch itself opens NVRTC late or never.
    """
    opened = []
    for name in _NAMES:
        for path in _candidates(name):
            try:
                ctypes.CDLL(str(path))
            except OSError:
                continue
            opened.append(str(path))
            break
    return tuple(opened)


def _candidates(name: str) -> Iterator[Path]:
    """The files of a library in the packages of NVIDIA's that lie beside torch."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations if spec else None) or ():
        # nvidia/cu13/lib of CUDA 13, nvidia/cuda_nvrtc/lib of CUDA 12.
        yield from sorted(Path(root).glob(f"*/lib/{name}.[0-9]*"), reverse=True)


def mapped_library(name: str) -> str | None:
    """The file of a library that the process has mapped; None if there is none, or more than one."""
    with open("/proc/self/maps") as maps:
        files = {line.split(maxsplit=5)[5].rstrip() for line in maps if f"/{name}" in line}
    return files.pop() if len(files) == 1 else None
