"""Runs this repository's programs on the GPUs of this machine and compares them with the CPU.

usage: tools/gpu-suite [--hir-run PATH] [--devices PATH] [--jobs N] [--only TEXT] [conformance] [pointwise] [faults] [session]
                       [kernels] [stores] [launch] [teardown] [torch] [bench] [overlap] [memcheck]

  conformance   every RUN line of test/ that runs a program, with --backend=cuda, against what it compares with
                there: with all communications as copies, which needs one GPU, the same recorded as CUDA
                graphs, and over NCCL
  pointwise     every pointwise function on NaN, infinities, signed zeros, subnormals and the ends of integers,
                against test/library/pointwise/table.txt, which torch and numpy made
  faults        what bad input and bad days get
  kernels       kernels of the user: what is refused, and what --check-launches finds; one of Triton's where triton is
  stores        one launch that stores in the memory of several ranks: every algorithm of such a product
  session       the library beside another CUDA user of its process, and in one process a rank whose data change
                from run to run: examples/session.rs and examples/processes.rs, from target/release/examples
  launch        torchrun, mpirun, srun's variables and --processes, two "hosts", ranks that are killed or stopped
  teardown      ranks that are killed or stopped while others wait for them, over NCCL and copies, also as graphs
  torch         programs as ops of torch: numbers, gradients, graphs, groups, ranks that end (python/tests/gpu); the
                package has to be built (python/hostir/_native.abi3.so)
  bench         the figures of docs/benchmarks.md, beside torch where that is the reference
  overlap       tools/overlap-bench: overlap beside torch on all GPUs, or what it costs with ranks on one GPU
  memcheck      conformance under compute-sanitizer

Without parts: conformance, pointwise, faults, kernels, launch and bench. --only TEXT: of conformance the test files, and of
launch the signals to running ranks, whose name has TEXT, and the run behind them. Exit status: 0 nothing failed, 1 something
did, 2 the command line is wrong, 3 nothing ran, since there is no GPU or something is not built.

Nothing is built here: hir-run and hir-opt are taken from target/release, or from beside --hir-run, and the test
program `devices` from target/release/deps (`cargo test --release -p hostir-test --test devices --no-run`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence

from bench.paths import release_tool, target_folder
from gpu_suite import conformance, faults, kernels, launch, libraries, pointwise, stores, teardown
from gpu_suite.suite import Suite, nothing_ran

PARTS: dict[str, Callable[[Suite], None]] = {
    "conformance": conformance.run,
    "pointwise": pointwise.run,
    "faults": faults.run,
    "kernels": kernels.run,
    "stores": stores.run,
    "session": libraries.run_sessions,
    "launch": launch.run,
    "teardown": teardown.run,
    "torch": libraries.run_torch,
    "bench": libraries.run_benchmarks,
    "overlap": libraries.run_overlap,
    "memcheck": conformance.run_memcheck,
}
USUAL = ["conformance", "pointwise", "faults", "kernels", "launch", "bench"]


def newest_devices() -> str | None:
    """The newest test program `devices` of a release build."""
    built = [path for path in (target_folder() / "release/deps").glob("devices-*") if not path.suffix]
    newest = max(built, key=lambda path: path.stat().st_mtime, default=None)
    return str(newest) if newest else None


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """The command line. Ends the program if it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hir-run", default=release_tool("hir-run"))
    parser.add_argument("--devices", default=newest_devices(), help="the test program `devices`")
    parser.add_argument("--jobs", type=int, default=6, help="processes beside each other")
    parser.add_argument("--seconds", type=float, default=3600, help="how long a part may take")
    parser.add_argument("--line-seconds", type=int, default=90, help="how long one RUN line of conformance may take")
    parser.add_argument("--only", default=None)
    parser.add_argument("parts", nargs="*")
    options = parser.parse_args(words)
    options.parts = options.parts or USUAL
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"there is no part `{part}`; there are {', '.join(PARTS)}")
    return options


def missing(suite: Suite, parts: Sequence[str]) -> str | None:
    """The reason that nothing of these parts can run here: one line, or None."""
    if suite.count == 0:
        return "there is no GPU (`nvidia-smi -L` lists none)"
    if {"conformance", "memcheck"} & set(parts) and not suite.options.devices:
        return "the test program `devices` is not built (cargo test --release -p hostir-test --test devices --no-run)"
    if set(parts) - {"conformance", "memcheck", "torch"}:
        for tool in (suite.tool, suite.opt):
            if not tool.exists():
                return f"{tool} is not built (cargo build --release)"
    if "session" in parts:
        for name in libraries.EXAMPLES:
            if not libraries.example(suite, name).exists():
                return f"examples/{name} is not built (cargo build --release -p hostir-cuda --examples)"
    return None


def main(words: Sequence[str]) -> int:
    """Runs the parts; gives the exit status."""
    options = read_options(words)
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    suite = Suite(options)
    if why := missing(suite, options.parts):
        return nothing_ran(why)
    print(f"{suite.count} GPUs; {options.hir_run}", flush=True)
    for part in options.parts:
        PARTS[part](suite)
    return suite.summary()
