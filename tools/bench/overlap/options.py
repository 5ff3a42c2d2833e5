"""The command line of tools/overlap-bench as a value."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from bench.paths import release_tool


@dataclass
class Options:
    """What a run does; the fields are the command's options, and have its defaults."""

    hir_run: str = field(default_factory=lambda: release_tool("hir-run"))
    python: str = sys.executable
    torch: bool = True
    torch_on_cpu: bool = False
    flashinfer: str | None = None
    mkernel: str | None = None
    devices: int | None = None
    share: int | None = None
    rows: str | None = None
    rounds: int = 1
    alternations: int = 12
    iters: int = 5
    warmup: int = 5
    graphs: bool = True
    streams: int | None = None
    gemm_kernels: bool = False
    more: bool = False
    copies: bool = False
    seconds: float = 1500
    json: str | None = None
    plot: str | None = None
    dry_run: bool = False
    show: list[str] | None = None
    backend: str = "cuda"
    """`cpu` measures nothing useful: it is there for tests."""
