"""Makes e2m1.safetensors with numpy: floats, the nearest of the numbers of 4 bits by search, and their codes in pairs.

    python3 test/run/Inputs/narrow.py
"""

import json
import os
import struct

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
NUMBERS = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def code(value):
    """The nearest number, of two the one with an even code; beyond 6 it is 6, and so is a NaN."""
    if np.isnan(value):
        return 7
    distances = [abs(number - min(abs(value), 6)) for number in NUMBERS]
    return min(range(8), key=lambda k: (distances[k], k % 2)) | (8 if np.signbit(value) else 0)


def meaning(codes):
    return np.array([(-1 if k & 8 else 1) * float(NUMBERS[k & 7]) for k in codes.flat], "<f4").reshape(codes.shape)


edges = [0.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
around = [value + step for value in edges for step in (-0.01, 0.0, 0.01)]
special = [7.0, 100.0, np.inf, np.nan, 1e-30, 0.3, 4.9, -0.0]
values = np.array([*around, *(-value for value in around), *special, *(-value for value in special)], "<f4").reshape(8, 8)
codes = np.array([code(value) for value in values.flat], "u1").reshape(8, 8)
rounded = meaning(codes)
# Arithmetic in float, rounded once.
doubled = np.array([code(value) for value in (rounded + rounded).flat], "u1").reshape(8, 8)
sums = np.array([code(value) for value in rounded.sum(1)], "u1")
table = {
    "values": ("F32", values.shape, values.tobytes()),
    "rounded": ("F32", values.shape, rounded.tobytes()),
    "half": ("F16", values.shape, rounded.astype("<f2").tobytes()),
    # The first number of a pair is in the lower four bits.
    "pairs": ("F4", values.shape, (codes[:, ::2] | codes[:, 1::2] << 4).tobytes()),
    "parts": ("F4", (2, 4, 8), (codes[:, ::2] | codes[:, 1::2] << 4).tobytes()),
    "doubled": ("F32", values.shape, meaning(doubled).tobytes()),
    "sums": ("F32", (8,), meaning(sums).tobytes()),
    "odd": ("F4", (4, 3), bytes(6)),
}
header, data = {}, b""
for name, (kind, shape, raw) in table.items():
    header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(here, "e2m1.safetensors"), "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
