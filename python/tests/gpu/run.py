"""Programs as ops of torch on GPUs: what `tools/gpu-suite torch` runs.

usage: python run.py [CASE...]

Each case prints `ok CASE` or `FAILED CASE` with a traceback. Exit status: 0 all passed, 1 one failed, 3 there is no GPU.
Cases of several ranks take one GPU each, in turn, and share them where there are too few.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent), str(Path(__file__).parents[1])]
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

import one_rank  # noqa: E402
import own_kernels  # noqa: E402
import several_ranks  # noqa: E402
import torch  # noqa: E402

LIMIT = 180.0


def run_alone(case: Callable[[], None]) -> None:
    """A case of one rank, in this process."""
    torch.cuda.synchronize()
    case()
    torch.cuda.synchronize()


def run_ranks(case: Callable[[], None], world: int, expected: dict[int, tuple[int, str]]) -> None:
    """A case of several ranks, a process each: exit status 0, or what is expected of a rank and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        log = [Path(folder) / f"{rank}.log" for rank in range(world)]
        ranks = []
        for rank in range(world):
            command = [sys.executable, str(Path(__file__)), "--rank", case.__name__, str(rank), str(world), f"{folder}/store"]
            with open(log[rank], "wb") as output:
                ranks.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        deadline = time.monotonic() + LIMIT
        wrong = []
        for rank, process in enumerate(ranks):
            try:
                status = process.wait(max(deadline - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                process.kill()
                status = "no end"
            wanted, text = expected.get(rank, (0, ""))
            said = log[rank].read_text(errors="replace")
            if status != wanted or text not in said:
                wrong.append(f"rank {rank}: {status}, not {wanted} with `{text}`\n{said[-3000:]}")
        # Figures of rank 0.
        for line in log[0].read_text(errors="replace").splitlines():
            if line.startswith("  ") and not wrong:
                print(line, flush=True)
        if wrong:
            raise AssertionError("\n".join(wrong))


def cases() -> dict[str, Callable[[], None]]:
    """All cases by name."""
    alone = {f"one rank: {case.__name__}": lambda case=case: run_alone(case) for case in [*one_rank.CASES, *own_kernels.CASES]}
    together = {
        f"{world} ranks: {case.__name__}": lambda case=case, world=world, expected=expected: run_ranks(case, world, expected)
        for case, world, expected in several_ranks.CASES
    }
    return alone | together


def main() -> int:
    if not torch.cuda.is_available():
        print("run.py: there is no GPU", file=sys.stderr)
        return 3
    if sys.argv[1:2] == ["--rank"]:
        name, rank, world, store = sys.argv[2:6]
        several_ranks.run_rank(name, int(rank), int(world), store)
        return 0
    wanted = sys.argv[1:]
    failed = 0
    for name, case in cases().items():
        if wanted and not any(word in name for word in wanted):
            continue
        start = time.monotonic()
        try:
            case()
        except Exception:  # noqa: BLE001 - a case that fails leaves the others
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()[-4000:]}", flush=True)
        else:
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
