"""Places in the tree that benchmarks and the GPU suite share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
"""The root of imports."""

ROOT = TOOLS.parent
"""The root of the repository."""


def target_folder() -> Path:
    """The folder in which cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def release_tool(name: str) -> str:
    """The path of a program of a release build."""
    return str(target_folder() / "release" / name)


def python_environment() -> dict[str, str]:
    """This process's environment, in which `python -m bench.X` finds this package."""
    paths = [str(TOOLS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def use_package_of_tree() -> None:
    """Makes `import hostir` find the package of this tree."""
    sys.path.insert(0, str(ROOT / "python"))
