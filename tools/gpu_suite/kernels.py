"""Kernels of the user: source, PTX and cubins, what is refused, and what `--check-launches` finds.

Files with right numbers are in test/run/launch, which `conformance --only launch` runs. Here are those that have to fail, with
the same kernels as tools/run/tests/needs/user_kernels.rs, which runs them on stand-ins for GPUs.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.paths import ROOT
from gpu_suite.suite import Suite

KERNELS = r"""
extern "C" __global__ void twice(const float* X, float* Y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) Y[i] = 2.0f * X[i];
}
extern "C" __global__ void beside(const float* X, float* Y, int n) {
  for (int i = threadIdx.x; i <= n; i += blockDim.x) Y[i] = 2.0f * X[i % n];
}
extern "C" __global__ void stale(const float* X, float* Y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) Y[i] = i == 3 ? Y[i] + 1.0f : 2.0f * X[i];
}
extern "C" __global__ void half_of_it(const float* X, float* Y, int n) {
  for (int i = threadIdx.x; i < n / 2; i += blockDim.x) Y[i] = 2.0f * X[i];
}
extern "C" __global__ void shared(const float* X, float* Y, int n) {
  extern __shared__ float rows[];
  float* last = rows + 16 * 1024;
  for (int i = threadIdx.x; i < n; i += blockDim.x) last[i] = X[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) Y[n - 1 - i] = 2.0f * last[n - 1 - i];
}
extern "C" __global__ void far(const float* X, float* Y, int n) {
  Y[(long long)1 << 40] = X[0] + n;
}
"""
WRONG = "__global__ void wrong(float* Y) {\n  Y[0] = ;\n}\n"
PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 X, .param .u64 Y, .param .u32 n) {
  .reg .b64 %rd<5>; .reg .b32 %r<4>; .reg .f32 %f<2>; .reg .pred %p;
  mov.u32 %r1, %tid.x;
  ld.param.u32 %r2, [n];
  setp.ge.u32 %p, %r1, %r2;
  @%p bra done;
  ld.param.u64 %rd1, [X];
  ld.param.u64 %rd2, [Y];
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd2], %f1;
done:
  ret;
}
"""
RIGHT = 'launch "k.cu"::twice[1, 8](X[0], Y[0], i32(n)) reads(X[0]) writes(Y[0]) reference=doubled'
HEAD = """hir 2.1
sizes n=8

kernel doubled(X: f32[n]) -> (Y: f32[n]):
  Y = X * f32(2)

kernel tripled(X: f32[n]) -> (Y: f32[n]):
  Y = X * f32(3)

f(X: f32[2, n]) -> (Y: f32[2, n]):
  Y = alloc
  Y[0] = Set(X[0])
  Y[1] = Set(X[1])
"""
PLAIN = """
plain(X: f32[2, n]) -> (Y: f32[2, n]):
  T = X[0] * f32(2)
  Y = alloc
  Y[0] = Set(T)
  Y[1] = Set(X[1])
"""


def kernel(name: str) -> str:
    """The right launch of another kernel."""
    return RIGHT.replace("::twice", f"::{name}")


def run(suite: Suite) -> None:
    """Programs with one launch each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in {"k.cu": KERNELS, "wrong.cu": WRONG, "k.ptx": PTX, "text.cubin": "no code"}.items():
            (folder / file).write_text(text)
        case = Case(suite, folder)
        case.expect("without permission", RIGHT, 2, "H0680", options=[])
        case.expect("source", RIGHT, 0)
        case.expect("source in a graph", RIGHT, 0, options=["--allow-kernels", "--graph"])
        case.expect("PTX", RIGHT.replace("k.cu", "k.ptx"), 0)
        case.expect("more than 48 KiB of shared memory", kernel("shared").replace("[1, 8]", "[1, 8, 64 * 1024 + 64]"), 0)
        case.expect("no such kernel", kernel("nothing"), 1, "H0427", "it has `twice`")
        case.expect("a wrong type", RIGHT.replace("i32(n)", "n"), 1, "H0428", "`int n`", "write `i32(n)`")
        case.expect("source that does not compile", 'launch "wrong.cu"::wrong[1, 1](Y) writes(Y)', 1, "H0683", "wrong.cu(2): error")
        case.expect("no cubin", RIGHT.replace("k.cu", "text.cubin"), 3, "H0681")
        case.expect("an address outside of memory", kernel("far"), 3, "H0522")
        check_declarations(case)
        run_triton(suite)


def check_declarations(case: Case) -> None:
    """What `--check-launches` finds."""
    options = ["--allow-kernels", "--check-launches"]
    case.expect("a right launch", RIGHT, 0, options=options)
    case.expect("an undeclared write", kernel("beside"), 1, "H0429", "writes 4 bytes", options=options)
    case.expect("an undeclared read", kernel("stale"), 1, "H0429", "1 element of `Y` depend", options=options)
    case.expect("elements left out", kernel("half_of_it"), 1, "H0429", "does not write 4 elements", options=options)
    slice_launch = RIGHT.replace("writes(Y[0])", "writes(Y[1])").replace("Y[0], i32", "Y, i32")
    case.expect("a wrong slice", slice_launch, 1, "H0429", options=options)
    case.expect("another reference", RIGHT.replace("=doubled", "=tripled"), 1, "H0429", "8 of 8 elements", options=options)


class Case:
    """Programs in a folder of their own."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite, self.folder = suite, folder

    def expect(self, name: str, launch: str, code: int, *texts: str, options: list[str] | None = None) -> None:
        """A run of a program with this launch ends so. A right one has the numbers of the plain math."""
        program = self.folder / "p.hir"
        program.write_text(f"{HEAD}  {launch}\n{PLAIN}")
        options = ["--allow-kernels"] if options is None else options
        reference = ["--reference=:plain"] if code == 0 else []
        command = [str(self.suite.tool), "--backend=cuda", str(program), *reference, *options]
        self.suite.expect(f"a kernel of the user: {name}", command, code, *texts)


def run_triton(suite: Suite) -> None:
    """The example with a kernel of Triton's, where triton is."""
    if importlib.util.find_spec("triton") is None:
        suite.skip("a kernel of Triton's", "triton is not installed")
        return
    script = ROOT / "docs/examples/kernels/softmax_rows.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        suite.failed.append("a kernel of Triton's is compiled")
        print(f"FAILED {script}\n{done.stderr[-2000:]}")
        return
    print(done.stdout, end="")
    program = str(ROOT / "docs/examples/triton_ring.hir")
    for options in (["--reference=:plain"], ["--check-launches"]):
        command = [str(suite.tool), "--backend=cuda", "--map-backend=NCCL=CUDA", program, "--allow-kernels", *options]
        suite.expect(f"a kernel of Triton's in a ring: {options[0]}", command, 0)
