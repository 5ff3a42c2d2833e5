"""The commands `hir-opt` and `hir-run`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable

from hostir import _native


def hir_opt() -> int:
    """Runs hir-opt on this process's arguments, and gives its exit status."""
    return _run_tool(_native.hir_opt)


def hir_run() -> int:
    """Runs hir-run on this process's arguments, and gives its exit status."""
    return _run_tool(_native.hir_run)


def _run_tool(tool: Callable[[list[str]], int]) -> int:
    # The tools handle signals themselves: Python's handlers would wait until they have ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = shutil.which(sys.argv[0]) or sys.argv[0]
    return tool([os.path.abspath(command), *sys.argv[1:]])
