"""One launch that stores in the memory of several ranks: every algorithm of such a product, on ranks that share a GPU.

A choice that a sustained run has kept is replaced by each number in turn, so that every kernel runs, not only the fastest.
The first result is compared with the plain math on the CPU, the others with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from bench.paths import ROOT
from gpu_suite.suite import Suite

PROGRAM = ROOT / "test/run/joined_stores.hir"
CASES = ((2, "bf16"), (3, "bf16"), (4, "bf16"), (8, "bf16"), (4, "f16"))
"""Numbers of ranks, and the type of the elements."""
HEADER_BYTES, CHOICE_BYTES, DIGEST_BYTES = 120, 8, 32
NUMBERS = 48
"""More than there are algorithms; a number that is too large is not taken."""


class Outcome(NamedTuple):
    """A run that took an algorithm: whether its result was right, and the kernels that it compiled."""

    is_right: bool
    kernels: int
    text: str


def run(suite: Suite) -> None:
    """All algorithms, for each number of ranks and type."""
    for ranks, element in CASES:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "joined_stores.hir"
            program.write_text(PROGRAM.read_text().replace("bf16", element))
            test_ranks(suite, f"stores, {ranks} ranks, {element}", ranks, program)


def test_ranks(suite: Suite, name: str, ranks: int, program: Path) -> None:
    """The algorithms of a product in so many parts."""
    folder = program.parent
    result = f"Y={folder / 'Y.safetensors'}"
    tuned = run_once(suite, ranks, program, folder / "tuned", "--tuning=sustained", "--reference=:plain", "--output", result)
    kept = [path for path in entries(folder / "tuned") if path.stat().st_size == HEADER_BYTES + CHOICE_BYTES]
    if not tuned.is_right or len(kept) != 1:
        suite.failed.append(name)
        print(f"FAILED {name}, tuned: {len(kept)} choices\n{tuned.text}")
        return
    whole = kept[0].read_bytes()

    def run_number(number: int) -> Outcome:
        """Runs the program with nothing kept but this choice."""
        cache = folder / f"cache{number}"
        (cache / "kernels").mkdir(parents=True)
        (cache / "kernels" / kept[0].name).write_bytes(with_choice(whole, number))
        outcome = run_once(suite, ranks, program, cache, "--expect", result)
        shutil.rmtree(cache)
        return outcome

    with ThreadPoolExecutor(suite.options.jobs) as pool:
        outcomes = list(pool.map(run_number, range(NUMBERS)))
    wrong = [number for number, outcome in enumerate(outcomes) if not outcome.is_right]
    own = [number for number, outcome in enumerate(outcomes) if outcome.kernels > outcomes[0].kernels]
    chosen = whole[HEADER_BYTES]
    if wrong or len(own) != 4:
        suite.failed.append(name)
        print(f"FAILED {name}: {wrong} are wrong, {own} are ours\n{outcomes[wrong[0] if wrong else 0].text}")
    else:
        suite.passed += 1
        print(f"ok {name}: {own} are ours, {chosen} was the fastest", flush=True)


def with_choice(whole: bytes, number: int) -> bytes:
    """A kept choice with another number."""
    choice = number.to_bytes(CHOICE_BYTES, "little")
    return whole[: HEADER_BYTES - DIGEST_BYTES] + hashlib.sha256(choice).digest() + choice


def entries(cache: Path) -> list[Path]:
    """What a cache keeps."""
    return sorted((cache / "kernels").iterdir()) if (cache / "kernels").exists() else []


def run_once(suite: Suite, ranks: int, program: Path, cache: Path, *flags: str) -> Outcome:
    """Runs the program, on products that are long enough for sustained tuning."""
    sizes = f"m={4096 // ranks // 128 * 128},k=4096,n=4096"
    command = [str(suite.tool), str(program), "--container", "1", "-n", str(ranks), "--backend=cuda", "--gemm-kernels"]
    env = {**os.environ, "HOSTIR_CACHE": str(cache)}
    done = subprocess.run([*command, "--set", sizes, *flags], capture_output=True, text=True, check=False, env=env)
    return Outcome(done.returncode == 0, len(entries(cache)), done.stderr)
