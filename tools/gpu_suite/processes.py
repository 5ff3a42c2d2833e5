"""Processes of a launch: their environment, what they say, and whether they still run."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

# Variables of launchers that this program itself may run under.
FOREIGN = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_",
    "TORCHELASTIC",
    "OMPI_",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "SLURM_",
    "HIR_RANK",
    "HIR_WORLD",
    "HIR_COORDINATOR",
    "HIR_PARENT",
)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without variables of launchers."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    clean["NCCL_NVLS_ENABLE"] = "0"
    clean.update(more or {})
    return clean


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class ProcessOutput:
    """What a process says while it runs."""

    def __init__(self, stream: IO[str] | None) -> None:
        self.text, self.stream = "", stream
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.stream or ():
            self.text += line

    def has(self, word: str, seconds: float) -> bool:
        """Waits until a word is said; gives whether it was, before the end and in time."""
        end = time.monotonic() + seconds
        while word not in self.text and self.reader.is_alive() and time.monotonic() < end:
            time.sleep(0.05)
        return word in self.text

    def all(self) -> str:
        """All of it, after the end."""
        self.reader.join(10)
        return self.text


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """True for a process that exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
