"""Uses the installed package, for `check-wheel`: installed_wheel.py ROOT [FOLDER], this repository and the commands' folder."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy

import hostir


def run_examples(root: Path) -> None:
    """Runs the examples of docs/python.md that need no torch, which are one script: a ring with numpy's numbers, passes, errors."""
    page = (root / "docs/python.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "torch" not in block]
    assert len(blocks) == 3, f"docs/python.md has {len(blocks)} examples without torch"
    os.chdir(root)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def main() -> None:
    """Raises unless everything works."""
    root = Path(sys.argv[1])
    run_examples(root)
    ring = root / "docs/tutorial/6_ring.hir"
    lowered = hostir.load(root / "docs/examples/ag_matmul.hir").run_passes("overlap-lower,dce")
    assert hostir.parse(lowered.to_printed()).to_hir2() == lowered.to_hir2()
    verdict = hostir.load(ring.with_name("race.hir")).check()
    assert (verdict.outcome, verdict.errors[0].code) == ("refused", "H0701")
    try:
        hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = rellu(x)\n")
    except hostir.HostIrError as error:
        said = str(error)
    else:
        said = ""
    assert "`relu`" in said, said
    files = [str(file) for file in importlib.metadata.files("hostir") or []] if len(sys.argv) > 2 else ["LICENSE-THIRD-PARTY"]
    assert any(file.endswith("LICENSE-THIRD-PARTY") for file in files), "no LICENSE-THIRD-PARTY was installed"
    if len(sys.argv) > 2:
        commands = [["hir-opt", str(ring)], ["hir-run", str(ring), "--backend=cpu", "--reference=:plain"]]
        for name, *arguments in commands:
            done = subprocess.run([str(Path(sys.argv[2]) / name), *arguments], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    print(f"hostir {hostir.__version__} works with Python {sys.version.split()[0]}, numpy {numpy.__version__}")


if __name__ == "__main__":
    main()
