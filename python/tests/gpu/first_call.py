"""A process's first call of an op, after its imports and torch's own start on the GPU: seconds, and where they go."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hostir
import hostir.torch as hir

PROGRAM = hostir.parse(
    "hir 2\nf(x: bf16[m, k], w: bf16[k, n]) -> (y: bf16[m, n], z: bf16[m, n]):\n  p = matmul(x, w)\n  y = relu(p)\n  z = p * y\n"
)


@hir.op("hostir_first::f", program=PROGRAM, args={"x": "x", "w": "w"}, out=("y", "z"))
def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A product and what follows from it."""
    p = x @ w
    return torch.relu(p), p * torch.relu(p)


def main() -> None:
    """Prints the seconds."""
    x, w = (torch.ones(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.mm(x, w)
    torch.cuda.synchronize()
    start = time.perf_counter()
    f(x, w)
    torch.cuda.synchronize()
    whole = time.perf_counter() - start
    phases = [(name, seconds) for name, seconds in f._sessions.sessions()[0].phases() if seconds >= 0.005]
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in phases)
    print(f"{whole:.2f} s (preparing the device {sum(seconds for _, seconds in phases):.2f}: {parts})")


if __name__ == "__main__":
    main()
