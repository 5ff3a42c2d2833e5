"""hir-run for the tests: a build of this tree, or the one of the Python package."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.overlap.hir_tools import HirTools
from bench.overlap.options import Options
from bench.overlap.processes import Clock
from bench.paths import target_folder


@pytest.fixture(scope="session")
def hir_run() -> str:
    """The path of hir-run, with hir-opt beside it."""
    built = target_folder() / "debug" / "hir-run"
    found = str(built) if built.exists() else shutil.which("hir-run")
    if found is None:
        pytest.skip("there is no hir-run: neither in target/debug nor installed")
    return found


@pytest.fixture
def tools(hir_run: str, tmp_path: Path) -> HirTools:
    """hir-opt and hir-run with a folder for programs."""
    return HirTools(Options(hir_run=hir_run, backend="cpu"), tmp_path, Clock(120))
