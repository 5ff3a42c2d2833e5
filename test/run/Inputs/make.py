"""Makes the data files of this folder with numpy, so that no expectation comes from the code under test.

    python3 test/run/Inputs/make.py
"""

import json
import os
import struct

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(here, name)


def safetensors(name, tensors):
    """The format of https://github.com/huggingface/safetensors; `tensors`: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for key, (dtype, shape, raw) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path(name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def bfloat16(values):
    """The upper halves of floats that have nothing in their lower halves."""
    bits = np.asarray(values, dtype="<f4").view("<u4")
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("<u2").tobytes()


# x is [2, 3] with one row a rank; y = x + x (for booleans: x or x).
x = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -7.5]])
for name, dtype in [("double", "<f8"), ("float", "<f4"), ("half", "<f2"), ("int64", "<i8"), ("int", "<i4")]:
    np.save(path(f"x.{name}.npy"), x.astype(dtype))
    np.save(path(f"y.{name}.npy"), (x.astype(dtype) + x.astype(dtype)))
np.save(path("x.bool.npy"), x != 0)
np.save(path("y.bool.npy"), x != 0)
for rank in range(2):
    np.save(path(f"part.{rank}.npy"), x[rank : rank + 1].astype("<f4"))
    np.save(path(f"sum.{rank}.npy"), (x[rank : rank + 1] * 2).astype("<f4"))
safetensors(
    "xy.safetensors",
    {
        "x": ("BF16", [2, 3], bfloat16(x)),
        "y": ("BF16", [2, 3], bfloat16(x + x)),
        "x32": ("F32", [2, 3], x.astype("<f4").tobytes()),
    },
)
# The first row only, a file that ends early, and one that is no array.
np.save(path("row.npy"), x[:1].astype("<f4"))
with open(path("x.float.npy"), "rb") as file:
    whole = file.read()
with open(path("short.npy"), "wb") as file:
    file.write(whole[:-4])
with open(path("text.npy"), "w") as file:
    file.write("1 2 3\n")
# Column-major and big-endian arrays hold the same numbers.
np.save(path("fortran.npy"), np.asfortranarray(x.astype("<f4")))
np.save(path("big.npy"), x.astype(">f4"))
# 0, 1, 2, ... and its double.
np.save(path("iota.npy"), np.arange(6, dtype="<f4").reshape(2, 3))
np.save(path("iota2.npy"), 2 * np.arange(6, dtype="<f4").reshape(2, 3))
np.save(path("two.npy"), np.full((2, 3), 2, dtype="<f4"))
# Rows of iota, and one of them with two wrong elements.
np.save(path("row0.npy"), np.array([0, 1, 2], dtype="<f4"))
np.save(path("row1.npy"), np.array([3, 4, 5], dtype="<f4"))
np.save(path("off.npy"), np.array([3, 6, 4], dtype="<f4"))
np.save(path("turned.npy"), np.arange(6, dtype="<f4").reshape(2, 3)[::-1].copy())
np.save(path("half.npy"), np.array([0.0, 0.5, 1.0]))
# Ones, tripled, and added up in three steps.
np.save(path("tripled.npy"), np.full(2, 3, "<f4"))
np.save(path("steps.npy"), np.array([[1, 1], [2, 2], [3, 3]], "<f4"))

# Six numbers as `iota` counts them, of which a Reduce with one sender makes nothing else.
np.save(path("root.npy"), np.arange(6, dtype="<f4"))
