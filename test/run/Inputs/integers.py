"""Makes integers.safetensors and the files of 8 bits with numpy: integers over the whole range of their types.

    python3 test/run/Inputs/integers.py
"""

import os

import numpy as np
from tensors import save

here = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(7)
table = {}


def numbers(dtype, shape):
    """Any numbers of a type, its limits among them."""
    info = np.iinfo(dtype)
    values = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    values.flat[:4] = [info.min, info.max, 0, info.max - 1]
    return values


def matrices(name, dtype):
    a, b = numbers(dtype, (5, 3)), numbers(dtype, (5, 3))
    b[2] = a[2]
    index = np.array([4, 0, 2, 2])
    sums = a.copy()
    np.add.at(sums, index, b[:4])
    left, right = numbers(dtype, (3, 5)), numbers(dtype, (5, 7))
    found = {
        "a": a, "b": b, "sum": a + b, "product": a * b, "less": a < b, "chosen": np.where(a < b, a, b),
        "rows": a.sum(1, dtype=dtype), "factors": a.prod(1, dtype=dtype), "largest": a.max(1), "smallest": a.min(0),
        "all": np.bitwise_and.reduce(a, 0), "real": a.astype(np.float32), "turned": a.T.copy(),
        "index": index, "taken": a[index], "added": sums, "left": left, "right": right, "matmul": left @ right,
    }
    table.update({f"{name}.{key}": value for key, value in found.items()})


def shards(name, dtype):
    """A part for each of two ranks, and what the ranks make of them together."""
    parts = numbers(dtype, (2, 2, 3))
    found = {"parts": parts, "summed": parts.sum(0, dtype=dtype), "top": parts.max(0), "least": parts.min(0), "swapped": parts[::-1].copy()}
    # An average is the quotient of the whole sum, cut off, not of a wrapped one.
    whole = [[int(x) + int(y) for x, y in zip(*rows)] for rows in zip(*parts)] if dtype != np.uint64 else None
    if whole:
        found["mean"] = np.array([[abs(x) // 2 * (1 if x >= 0 else -1) for x in row] for row in whole]).astype(dtype)
    table.update({f"{name}.{key}": value for key, value in found.items()})


for name, dtype in [("i8", np.int8), ("i16", np.int16), ("u8", np.uint8), ("u16", np.uint16), ("u32", np.uint32), ("u64", np.uint64)]:
    matrices(name, dtype)
    shards(name, dtype)
save(here, "integers.safetensors", table)
np.save(os.path.join(here, "u8.npy"), table["u8.a"])
np.save(os.path.join(here, "i16.big.npy"), table["i16.a"].astype(">i2"))
