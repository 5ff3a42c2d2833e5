"""Compiles a kernel of Triton to a cubin, and prints the launch of it for a program in `hir 2.1`.

    python docs/examples/kernels/softmax_rows.py                # for this machine's GPU
    python docs/examples/kernels/softmax_rows.py --arch 90      # for sm_90, also without a GPU

The cubin is written beside this file, where docs/examples/triton_ring.hir looks for it. Triton makes code for the values of
its `constexpr` parameters, here one block that holds a row of up to --columns elements, and for a number of warps.
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from typing import Any

import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, n, BLOCK: tl.constexpr):
    """One row a program: `y = exp(x - max(x)) / sum(exp(x - max(x)))`."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * n + at, values / tl.sum(values, axis=0), mask=at < n)


#: The types of the parameters; BLOCK is a value that Triton knows.
SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32"}


def compile_kernel(arch: int | None, block: int, warps: int) -> Any:
    """The compiled kernel. Triton 3.2 renamed an argument, and lists constants in the signature."""
    known = inspect.signature(triton.compiler.ASTSource.__init__).parameters
    if "constexprs" in known:
        signature = {**SIGNATURE, "BLOCK": "constexpr"}
        source = triton.compiler.ASTSource(fn=softmax_rows, signature=signature, constexprs={"BLOCK": block})
    else:
        source = triton.compiler.ASTSource(fn=softmax_rows, signature=SIGNATURE, constants={"BLOCK": block})
    if arch is None:
        target = triton.runtime.driver.active.get_current_target()
    else:
        target = triton.backends.compiler.GPUTarget("cuda", arch, 32)
    return triton.compile(source, target=target, options={"num_warps": warps})


def parameter_count(ptx: str) -> int:
    """The parameters of the only kernel: Triton adds addresses of scratch memory after those of the source."""
    found = re.search(r"\.entry\s+\w+\s*\((.*?)\)", ptx, re.DOTALL)
    return found.group(1).count(".param") if found else len(SIGNATURE)


def main() -> None:
    """Writes the cubin and prints the launch."""
    parser = argparse.ArgumentParser(description="compiles softmax_rows to a cubin")
    parser.add_argument("--arch", type=int, help="the architecture, such as 90; by default that of the GPU")
    parser.add_argument("--columns", type=int, default=512, help="the longest row")
    parser.add_argument("--warps", type=int, default=4, help="warps of a block, of 32 threads each")
    options = parser.parse_args()
    block = triton.next_power_of_2(options.columns)
    kernel = compile_kernel(options.arch, block, options.warps)
    file = Path(__file__).with_suffix(".cubin")
    file.write_bytes(kernel.asm["cubin"])
    # The kernel uses no scratch memory, so that these addresses are null.
    scratch = ", 0" * (parameter_count(kernel.asm["ptx"]) - len(SIGNATURE))
    sizes = f"[m, {32 * options.warps}, {kernel.metadata.shared}]"
    entry = kernel.metadata.name
    print(f'launch "kernels/{file.name}"::{entry}{sizes}(X, Y, i32(n){scratch}) reads(X) writes(Y)')


if __name__ == "__main__":
    main()
