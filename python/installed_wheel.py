"""Uses the installed package, for `check-wheel`: installed_wheel.py RING [FOLDER], a program and the folder of the commands."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import numpy

import hostir


def main() -> None:
    """Raises unless everything works."""
    ring = Path(sys.argv[1])
    program = hostir.load(ring)
    assert program.check(devices=4).ok
    a = numpy.random.rand(4, 64, 128).astype("float32")
    b = numpy.random.rand(128, 32).astype("float32")
    numpy.testing.assert_allclose(program.run({"A": a, "B": b})["C"], a @ b, rtol=1e-4)
    lowered = hostir.load(ring.parents[1] / "examples/ag_matmul.hir").run_passes("overlap-lower,dce")
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
    assert any(file.endswith("LICENSE-THIRD-PARTY") for file in files), files
    if len(sys.argv) > 2:
        commands = [["hir-opt", str(ring)], ["hir-run", str(ring), "--backend=cpu", "--reference=:plain"]]
        for name, *arguments in commands:
            done = subprocess.run([str(Path(sys.argv[2]) / name), *arguments], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    print(f"hostir {hostir.__version__} works with Python {sys.version.split()[0]}, numpy {numpy.__version__}")


if __name__ == "__main__":
    main()
