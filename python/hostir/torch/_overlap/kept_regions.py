"""Regions that earlier processes have compiled, by content: `regions` in the folder that also keeps compiled kernels.

Inductor keeps compiled graphs by a key that has the pass's `uuid`. Such a graph calls ops of regions by name; a process that loads
it makes them of what is kept here. A folder has what passes with the same settings made in the same versions and groups, and an
identity of its own, which is part of the `uuid`: where a region could not be kept, or an entry is damaged, the identity goes, so
that no graph that needs it is found again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import hostir
from hostir import _native
from hostir.torch._overlap.choices import choice_store, is_own_file, make_private_folders
from hostir.torch._torch_internals import process_groups

__all__ = ["RegionStore", "open_store"]

FORMAT = "hostir region 1"
IDENTITY, NAMES = "identity", "names"
# The largest entry that is read, in bytes, and the number of folders; the oldest make room.
MAX_BYTES = 1 << 24
MAX_FOLDERS = 64

_opened: dict[str, RegionStore | None] = {}


class RegionStore:
    """The regions of passes with the same settings, each a file; those of earlier processes are read when it is opened."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        self.identity = identity
        self._entries: dict[str, dict[str, Any]] = {}
        self.is_whole = self._read_all()
        """False if something in it is damaged or missing, so that it must not be used."""

    def read(self, name: str) -> dict[str, Any] | None:
        """The region that an op is; None if it is not kept."""
        if name not in self._entries:
            # Another rank may have kept it since.
            found = _read_entry(self.folder / f"{name}.json", name)
            if found is None:
                return None
            self._entries[name] = found
        return self._entries[name]

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """The regions by their ops' names, as far as this process knows them."""
        return sorted(self._entries.items())

    def write(self, name: str, entry: dict[str, Any]) -> None:
        """Keeps a region. Where that is impossible, no later process finds a graph that needs it."""
        if name in self._entries:
            return
        try:
            content = json.dumps({"format": FORMAT, "name": name, "entry": entry, "digest": _digest(name, entry)})
            _write_whole(self.folder / f"{name}.json", content)
            # One write to the end of a file, also of several ranks.
            with open(self.folder / NAMES, "a", encoding="ascii", opener=_open_private) as names:
                names.write(f"{name}\n")
            self._entries[name] = entry
        except (OSError, TypeError, ValueError):
            self.spoil()

    def spoil(self) -> None:
        """Takes the identity away: what was compiled with it is compiled again by later processes."""
        with contextlib.suppress(OSError):
            os.unlink(self.folder / IDENTITY)

    def _read_all(self) -> bool:
        for path in self.folder.glob("*.json"):
            found = _read_entry(path, path.stem)
            if found is None:
                return False
            self._entries[path.stem] = found
        names = self.folder / NAMES
        return not names.exists() or set(names.read_text(encoding="ascii").split()) <= self._entries.keys()


def open_store(settings: list[Any]) -> RegionStore | None:
    """The store of a pass with these settings, in the process's groups; None where nothing can be kept."""
    choices = choice_store()
    if choices is None:
        return None
    key = hashlib.sha256(json.dumps([FORMAT, settings, _versions(), _groups()], sort_keys=True).encode()).hexdigest()[:32]
    folder = choices.folder.parent / "regions" / key
    if str(folder) not in _opened:
        try:
            _opened[str(folder)] = _opened_anew(folder)
        except OSError:
            _opened[str(folder)] = None
    return _opened[str(folder)]


def _opened_anew(folder: Path) -> RegionStore | None:
    make_private_folders(folder)
    if not is_own_file(os.lstat(folder), stat.S_ISDIR):
        return None
    _make_room(folder)
    for _ in range(2):
        store = RegionStore(folder, _identity_of(folder))
        if store.is_whole:
            return store
        store.spoil()
        for entry in (*folder.glob("*.json"), folder / NAMES):
            entry.unlink(missing_ok=True)
    return None


def _identity_of(folder: Path) -> str:
    """The text in the folder's identity, which is made if there is none; all ranks of a host get the same."""
    path = folder / IDENTITY
    if not path.exists():
        made = folder / f".{os.urandom(8).hex()}"
        try:
            made.write_text(os.urandom(16).hex(), encoding="ascii")
            with contextlib.suppress(FileExistsError):
                os.link(made, path)
        finally:
            made.unlink(missing_ok=True)
    return path.read_text(encoding="ascii")


def _make_room(folder: Path) -> None:
    """Removes the oldest folders if there are too many."""
    others = [other for other in folder.parent.iterdir() if other != folder and other.is_dir()]
    excess = len(others) + 1 - MAX_FOLDERS
    for other in sorted(others, key=lambda one: one.stat().st_mtime)[: max(excess, 0)]:
        # First what lets it be found.
        (other / IDENTITY).unlink(missing_ok=True)
        shutil.rmtree(other, ignore_errors=True)


def _read_entry(path: Path, name: str) -> dict[str, Any] | None:
    """A whole entry of this user's; None for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not is_own_file(os.fstat(handle), stat.S_ISREG):
                return None
            found = json.loads(file.read(MAX_BYTES))
        entry: dict[str, Any] = found["entry"]
        is_whole = found["format"] == FORMAT and found["name"] == name and found["digest"] == _digest(name, entry)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return entry if is_whole else None


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _write_whole(path: Path, content: str) -> None:
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def _digest(name: str, entry: Any) -> str:
    return hashlib.sha256(json.dumps([FORMAT, name, entry], sort_keys=True).encode()).hexdigest()


@functools.cache
def _versions() -> list[Any]:
    """All that decides what a graph becomes, beside the graph: this package's files, torch, CUDA and the GPUs."""
    sources = hashlib.sha256()
    for path in sorted(Path(hostir.__file__).parent.rglob("*.py")):
        sources.update(path.read_bytes())
    extension = os.stat(str(_native.__file__))
    built = [_native.VERSION, _native.RULES_VERSION, extension.st_size, extension.st_mtime_ns]
    return [hostir.__version__, sources.hexdigest(), built, torch.__version__, str(torch.version.cuda), _devices()]


def _devices() -> list[str]:
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())]


def _groups() -> list[Any]:
    """The process groups by name: their ranks and backends."""
    if not dist.is_available() or not dist.is_initialized():
        return []
    found = process_groups()
    return sorted([str(group.group_name), dist.get_process_group_ranks(group), dist.get_backend(group)] for group in found)
