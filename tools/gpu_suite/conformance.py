"""The programs of all tests on GPUs, by the test program `devices` (see test/harness/devices.rs).

Tolerances (relative, absolute as a part of the reference's root mean square) are those of hir-run's --expect: double 1e-11,
float 1e-4, half and bfloat16 their rounding; integers are equal.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO, NamedTuple

from gpu_suite.suite import Suite

COPIES = "--map-backend=NCCL=CUDA --map-backend=UCC=CUDA"
NCCL = "--map-backend=UCC=NCCL"
MEMCHECK = ("compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "99")


class Output(NamedTuple):
    """What all jobs said, and whether one failed."""

    text: str
    is_failed: bool


def run(suite: Suite) -> None:
    """With all communications as copies, the same recorded as CUDA graphs, and over NCCL."""
    run_with(suite, COPIES)
    run_with(suite, f"{COPIES} --graph")
    run_with(suite, NCCL)


def run_memcheck(suite: Suite) -> None:
    """With all communications as copies, under compute-sanitizer."""
    run_with(suite, COPIES, MEMCHECK)


def run_with(suite: Suite, flags: str, wrapper: Sequence[str] = ()) -> None:
    """All programs with these flags."""
    start = time.time()
    filters = [suite.options.only] if suite.options.only else []
    out = run_jobs(suite, [*wrapper, suite.options.devices, *filters], flags)
    passed = len(re.findall(r"^test .* ok$", out.text, re.MULTILINE))
    lost = re.findall(r"^test (.*?) +\.\.\. FAILED$", out.text, re.MULTILINE)
    suite.passed += passed
    suite.failed += lost or (["conformance"] if out.is_failed else [])
    if out.is_failed:
        print(re.sub(r"^test .* ok\n", "", out.text, flags=re.MULTILINE)[-8000:])
    told = re.findall(r"^\d+ lines ran on .*$", out.text, re.MULTILINE)
    lines = sum(int(line.split()[0]) for line in told)
    few = sum(int(count) for line in told for count in re.findall(r"(\d+) need more", line)[:1])
    if not filters and not (lines or few):
        # A test program that was built in another folder finds no programs.
        suite.failed.append(f"conformance {flags}: no line ran")
    ran = f"{lines} lines ran on {suite.count} GPUs, {few} need more"
    print(f"conformance {flags}: {passed} files passed, {len(lost)} failed; {ran}; {time.time() - start:.0f} s", flush=True)


def run_jobs(suite: Suite, command: Sequence[str], flags: str) -> Output:
    """The test program in several processes, each with a part of the files."""
    start, jobs = time.time(), suite.options.jobs
    env = {**os.environ, "HIR_GPU_FLAGS": f"--backend=cuda {flags}", "HIR_LINE_SECONDS": str(suite.options.line_seconds)}
    text, is_failed = "", False
    with contextlib.ExitStack() as stack:
        parts: list[tuple[IO[str], subprocess.Popen[bytes]]] = []
        for job in range(jobs):
            file = stack.enter_context(tempfile.TemporaryFile("w+"))
            shard = {**env, "HIR_SHARD": f"{job}/{jobs}"}
            parts.append((file, subprocess.Popen(command, env=shard, stdout=file, stderr=subprocess.STDOUT)))
        for log, process in parts:
            try:
                is_failed |= process.wait(timeout=max(1, start + suite.options.seconds - time.time())) != 0
            except subprocess.TimeoutExpired:
                process.kill()
                is_failed = True
                text += "the time was up\n"
            log.seek(0)
            text += log.read()
    return Output(text, is_failed)
