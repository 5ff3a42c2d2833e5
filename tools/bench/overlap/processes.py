"""What the processes of tools/overlap-bench share: the time that is left, failures, and lines that they write.

Both sides load their programs once and then time them whenever they are asked to, so their runs alternate.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import IO

from bench.torch_baselines.environment import WITHOUT_MULTICAST

# Loading programs, with the choice of algorithms; one turn; a way of torch that is set up and checked. In seconds.
LOADING, TURN, SETUP = 400, 120, 150


class Failed(Exception):
    """A part that did not work, in one sentence."""


def first_lines(text: str, count: int = 6) -> str:
    """The first lines of a message, as one."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[:count] if line.strip())[:600]


def environment() -> dict[str, str]:
    """The environment of all processes."""
    return {**os.environ, **WITHOUT_MULTICAST}


class Clock:
    """The time that is left of --seconds."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def at_most(self, seconds: float) -> float:
        """Time for one step. Raises `Failed` where there is none."""
        if self.left() < 5:
            raise Failed("the time was up (--seconds)")
        return min(seconds, self.left())


class Lines:
    """Lines that processes write to a pipe."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.pipe = pipe.fileno() if pipe is not None else -1
        self.text = b""

    def next(self, seconds: float, ended: Callable[[], str | None]) -> str:
        """The next line. Raises `Failed` if none comes in time, or `ended` says that the writer is gone."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            told = ended()
            if select.select([self.pipe], [], [], 0 if told else 0.2)[0]:
                read = os.read(self.pipe, 1 << 16)
                self.text += read
                if read:
                    continue
                # The writer closed the pipe: it is about to end.
                time.sleep(0.2)
                told = told or ended() or "its output ended"
            if told:
                raise Failed(told)
            if time.monotonic() > end:
                raise Failed(f"no answer within {seconds:.0f} s")
        line, self.text = self.text.split(b"\n", 1)
        return line.decode(errors="replace")


def write_line(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Writes a line to a process. Raises `OSError` if it reads no more."""
    if process.stdin is None:
        raise BrokenPipeError
    process.stdin.write(line + b"\n")
    process.stdin.flush()
