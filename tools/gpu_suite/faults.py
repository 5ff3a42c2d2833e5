"""What bad input and bad days get."""

from __future__ import annotations

import tempfile

from bench.paths import ROOT
from gpu_suite.suite import Suite

EXAMPLES = ROOT / "docs/examples/printed"
# Two vectors, and a product of them that no device holds.
OUTER = """%HostIrContainer { (T0_g_float[iS0{i0}, iS1{1}], T1_g_float[iS2{1}, iS3{i1}]) -> (T2_g_float[iS4{i0}, iS5{i1}, rS6{1}]) :
  T2_g_float[iS4{i0}, iS5{i1}, rS6{1}]
     = matmul(T0_g_float[iS0{i0}, iS1{1}],
              T1_g_float[iS2{1}, iS3{i1}])
} // %HostIrContainer
"""


def run(suite: Suite) -> None:
    """Each fault ends with its status and its code."""
    cuda = [str(suite.tool), "--backend=cuda"]
    sizes = ["--set", "i1=3", "--set", "i2=5", "--set", "i3=4"]
    deadlock, race = (str(EXAMPLES / name) for name in ("deadlock.hir", "race.hir"))
    suite.expect("a deadlock is reported before anything starts", [*cuda, deadlock, *sizes], 5, "H0510")
    suite.expect("a race is reported before anything starts", [*cuda, race, *sizes], 1, "H0701")
    gather = [*cuda, str(EXAMPLES / "allgather.hir"), "--set", "i1=3"]
    suite.expect("no NCCL", gather, 3, "H0520", env={"HIR_NCCL_LIB": "/nowhere/libnccl.so"})
    suite.expect("two ranks on one GPU", gather, 3, "H0520", "GPUs", env={"CUDA_VISIBLE_DEVICES": "0"})
    with tempfile.NamedTemporaryFile("w", suffix=".hir") as program:
        program.write(OUTER)
        program.flush()
        outer = [*cuda, program.name, "--set", "i0=1000000", "--set", "i1=1000000"]
        suite.expect("out of device memory", outer, 3, "H0521", "T2")
    suite.expect("no GPU", gather, 3, "H052", env={"CUDA_VISIBLE_DEVICES": ""})
