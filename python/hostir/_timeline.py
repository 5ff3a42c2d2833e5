"""Timelines of programs by the cost model: what the order of a program permits to overlap. No GPU is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostir import _native
from hostir._program import Program, check
from hostir._settings import read_machine

__all__ = ["timeline"]

# The tool in a process of its own: it prints, and this package does not. The extension is named by its file: a search for
# `hostir` could find another one in the current folder.
TOOL = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("hostir._native", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
sys.exit(native.hir_run(["hir-run", *sys.argv[2:]]))
"""
# Variables that the tool gets. Those of launchers are none of them: it is no rank of a run of theirs.
KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "RAYON_NUM_THREADS", "TMPDIR")


def timeline(
    program: Program,
    path: str | os.PathLike[str] | None = None,
    *,
    devices: int | None = None,
    sizes: Mapping[str, int | float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    streams: int | None = None,
    machine: str | os.PathLike[str] | None = None,
) -> str:
    """The timeline of a program by the cost model, as a chart in text: its last lines are the sums for each rank.

    - `path`: also writes it there, as a picture (`.svg`), a page (`.html`) or a trace for Perfetto (`.json`).
    - `devices`, `sizes`, `shapes`, `streams`, `machine`: as for `check`.

    The program is proved first. Raises `HostIrError` if it is wrong, and for another kind of file (`H0610`).
    """
    proof = check(program, devices=devices, sizes=sizes, shapes=shapes, streams=streams, machine=machine)
    proof.raise_if_wrong()
    options = ["--check-only", "--quiet", "--timeline", *_file_options(path)]
    options += [] if devices is None else [f"--devices={devices}"]
    options += [] if streams is None else [f"--streams={streams}"]
    options += _machine_options(read_machine(machine))
    for name, value in (sizes or {}).items():
        options += ["--set", f"{name}={value}"]
    for name, shape in (shapes or {}).items():
        options += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "program.hir"
        text.write_text(str(program), encoding="utf-8")
        command = [sys.executable, "-I", "-c", TOOL, str(_native.__file__), str(text), *options]
        variables = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"hir-run ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _machine_options(machine: str | None) -> list[str]:
    if machine is None:
        return []
    # The tool works in another folder.
    is_file = "/" in machine or "." in machine
    return [f"--machine={Path(machine).absolute() if is_file else machine}"]


def _file_options(path: str | os.PathLike[str] | None) -> list[str]:
    if path is None:
        return []
    target = Path(path).absolute()
    kinds = {".svg": "--timeline", ".html": "--timeline", ".json": "--trace"}
    if target.suffix not in kinds:
        what = f"`path` is {os.fspath(path)}, but a timeline is a picture (.svg), a page (.html) or a trace (.json)"
        _native.raise_error("H0610", what, "end it with `.svg`, `.html` or `.json`")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}")
    return [f"{kinds[target.suffix]}={target}"]
