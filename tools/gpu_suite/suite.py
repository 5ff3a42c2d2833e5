"""What passed and what failed, and commands that have to end in a certain way."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gpus import gpu_count


class Suite:
    """The GPUs, the tools and the outcomes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.count = gpu_count()
        self.tool = Path(options.hir_run).resolve()
        self.opt = self.tool.with_name("hir-opt")
        self.failed: list[str] = []
        self.skipped: list[str] = []
        self.passed, self.measured = 0, False

    def skip(self, part: str, why: str) -> None:
        """Leaves a part out."""
        self.skipped.append(f"{part}: {why}")
        print(f"skipped {part}: {why}")

    def summary(self) -> int:
        """Prints the numbers; gives the exit status."""
        if not (self.passed or self.failed or self.measured):
            return nothing_ran("; ".join(self.skipped) or "no test has that name")
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0

    def expect(self, name: str, command: Sequence[str], code: int, *texts: str, env: Mapping[str, str] | None = None) -> None:
        """Runs a command that has to end with this status, and to say these texts on standard error."""
        start = time.time()
        whole = {**os.environ, **(env or {})}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=whole)
        except subprocess.TimeoutExpired:
            self.failed.append(name)
            print(f"FAILED {name}: no end within 120 s")
            return
        missing = [text for text in texts if text not in done.stderr]
        if done.returncode != code or missing:
            self.failed.append(name)
            print(f"FAILED {name}: exit {done.returncode} (expected {code}), lacks {missing}\n{done.stderr[-2000:]}")
        else:
            self.passed += 1
            print(f"ok {name} ({time.time() - start:.1f} s)", flush=True)


def nothing_ran(why: str) -> int:
    """Says why nothing ran; gives the exit status."""
    print(f"gpu-suite: nothing ran: {why}", file=sys.stderr)
    return 3
