"""Times of regions that earlier processes have measured: `choices` in the folder that also keeps compiled kernels.

`HOSTIR_CACHE` names that folder, else it is `$XDG_CACHE_HOME/hostir` or `~/.cache/hostir`; `HOSTIR_CACHE=0` keeps nothing. An
entry's name is the SHA-256 of its key; its content repeats the key and has a digest. What is damaged, or not this user's alone,
is no entry: the region is measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["ChoiceStore", "choice_store", "is_own_file", "make_private_folders"]

FORMAT = "hostir choice 1"
# The largest file that is read, in bytes, and the number of entries; the oldest make room.
MAX_BYTES = 1 << 16
MAX_ENTRIES = 4096


def choice_store() -> ChoiceStore | None:
    """The user's store; None where the environment turns it off or names no absolute folder."""
    own = os.environ.get("HOSTIR_CACHE")
    if own:
        return ChoiceStore(Path(own) / "choices") if os.path.isabs(own) else None
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if os.path.isabs(cache):
        return ChoiceStore(Path(cache) / "hostir" / "choices")
    return ChoiceStore(Path(home) / ".cache" / "hostir" / "choices") if os.path.isabs(home) else None


@dataclass(frozen=True)
class ChoiceStore:
    """A folder of measured times, one region a file."""

    folder: Path

    def read(self, key: str) -> dict[str, Any] | None:
        """The times under a key; None where there are none that can be trusted."""
        try:
            if not is_own_file(os.lstat(self.folder), stat.S_ISDIR):
                return None
            # Without NONBLOCK opening a pipe waits for its writer.
            handle = os.open(self.folder / _file_name(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                if not is_own_file(os.fstat(handle), stat.S_ISREG):
                    return None
                return _decode(key, file.read(MAX_BYTES))
        except OSError:
            return None

    def write(self, key: str, times: Any) -> None:
        """Keeps times. A folder that cannot be written costs a measurement in each process, and is no error."""
        try:
            make_private_folders(self.folder)
            if not is_own_file(os.lstat(self.folder), stat.S_ISDIR):
                return
            self._make_room()
            handle, name = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(key, asdict(times)))
            os.replace(name, self.folder / _file_name(key))
        except OSError:
            return

    def _make_room(self) -> None:
        """Removes the oldest entries if there are too many; another process may be faster."""
        entries = [entry for entry in os.scandir(self.folder) if entry.is_file(follow_symlinks=False)]
        excess = len(entries) - MAX_ENTRIES + 1
        if excess > 0:
            for entry in sorted(entries, key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)[:excess]:
                Path(entry.path).unlink(missing_ok=True)


def make_private_folders(folder: Path) -> None:
    """Makes a folder, and those that it is in and that are missing, for this user alone, whatever the umask is."""
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # Another rank was faster.
            continue


def _file_name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def is_own_file(found: os.stat_result, is_kind: Any) -> bool:
    """True if it is of a kind, and nobody but this user can write it."""
    return bool(is_kind(found.st_mode)) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _digest(key: str, times: Any) -> str:
    return hashlib.sha256(json.dumps([FORMAT, key, times], sort_keys=True).encode()).hexdigest()


def _encode(key: str, times: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, "key": key, "times": times, "digest": _digest(key, times)}).encode()


def _decode(key: str, content: bytes) -> dict[str, Any] | None:
    """The times of a complete entry for this key."""
    try:
        found = json.loads(content)
        times = found["times"]
        is_whole = found["format"] == FORMAT and found["key"] == key and found["digest"] == _digest(key, times)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return times if is_whole and isinstance(times, dict) else None
