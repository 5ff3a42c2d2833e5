"""Makes communication.safetensors with numpy, in the formulas of nvFuser's communication tests.

    python3 test/run/communication/Inputs/make.py
"""

import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../Inputs"))
from tensors import save  # noqa: E402

table = {}


def rows(repetitions, ranks, elements, formula):
    """[repetition, rank, element], each from the formula."""
    return np.array(
        [[[formula(rep, rank, x) for x in range(elements)] for rank in range(ranks)] for rep in range(repetitions)],
        dtype="<f4",
    )


random = np.random.default_rng(0)
for ranks in (1, 2, 3, 4, 8):
    # What rank r holds in repetition k is arange + (r + 1) k.
    held = rows(8, ranks, 4, lambda rep, rank, x: x + (rank + 1) * rep)
    table[f"rows.{ranks}"] = held
    # The rows of all ranks added up, by the formula of the sum.
    sums = [[ranks * x + ranks * (ranks + 1) // 2 * rep for x in range(4)] for rep in range(8)]
    table[f"sum.{ranks}"] = np.array(sums, dtype="<f4")
    # Zeros and ones: [repetition, rank that holds, rank that keeps, element], and what each keeps.
    parts = random.integers(0, 2, (8, ranks, ranks, 3)).astype("<f4")
    table[f"parts.{ranks}"] = parts
    table[f"kept.{ranks}"] = parts.sum(axis=1).astype("<f4")
    # Any numbers, and twice of them.
    table[f"held.{ranks}"] = random.standard_normal((ranks, 2, 3)).astype("<f4")
    table[f"twice.{ranks}"] = table[f"held.{ranks}"] * np.float32(2)
    # Around a ring: rank r sends arange + r and has that of rank r - 1 in the end.
    table[f"ring.{ranks}"] = rows(1, ranks, 8, lambda rep, rank, x: x + rank)[0]
    table[f"round.{ranks}"] = rows(1, ranks, 8, lambda rep, rank, x: x + (rank - 1) % ranks)[0]
    # The same 32 times: arange + 10 k + 100 r.
    table[f"ring32.{ranks}"] = rows(32, ranks, 2, lambda rep, rank, x: x + 10 * rep + 100 * rank)
    table[f"round32.{ranks}"] = rows(32, ranks, 2, lambda rep, rank, x: x + 10 * rep + 100 * ((rank - 1) % ranks))
    # And 10 times in integers: arange + 10 (k + 1) + 100 r.
    table[f"ints.{ranks}"] = rows(10, ranks, 4, lambda rep, rank, x: x + 10 * (rep + 1) + 100 * rank).astype("<i4")
    table[f"roundints.{ranks}"] = rows(10, ranks, 4, lambda rep, rank, x: x + 10 * (rep + 1) + 100 * ((rank - 1) % ranks)).astype("<i4")
    # [part, row, rank, column]: each rank has all parts but the one before its own.
    swizzle = random.standard_normal((ranks, 2, ranks, 2)).astype("<f4")
    table[f"swizzle.{ranks}"] = swizzle
    swizzled = swizzle.copy()
    for rank in range(ranks):
        swizzled[(rank + ranks - 1) % ranks, :, rank] = 0
    table[f"swizzled.{ranks}"] = swizzled
    # Small whole numbers: a product of each device's factors, and what each keeps of the sum.
    factors, others = random.integers(-4, 5, (ranks, ranks, 2, 3)), random.integers(-4, 5, (ranks, 1, 3, 4))
    table[f"factors.{ranks}"], table[f"others.{ranks}"] = factors.astype("<f4"), others.astype("<f4")
    table[f"gemm.{ranks}"] = (factors @ others).sum(axis=0).astype("<f4")
# What a Broadcast and a SendRecv bring, whatever the number of ranks.
table["row.first"] = table["rows.2"][:, 0]
table["row.second"] = table["rows.2"][:, 1]
save(here, "communication.safetensors", table)
