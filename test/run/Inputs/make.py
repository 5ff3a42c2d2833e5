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


def rounded_bfloat16(values):
    """The nearest numbers of 16 bits, the even ones of two; no value is near the largest."""
    bits = np.asarray(values, dtype="<f4").view("<u4").astype("<u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


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
np.save(path("ones.npy"), np.ones(2, "<f4"))
np.save(path("tripled.npy"), np.full(2, 3, "<f4"))
np.save(path("steps.npy"), np.array([[1, 1], [2, 2], [3, 3]], "<f4"))

# Six numbers as `iota` counts them, of which a Reduce with one sender makes nothing else.
np.save(path("root.npy"), np.arange(6, dtype="<f4"))


# ---- 8-bit floats: codes by the definition of their formats, the nearest found by search ----
def codes(exponent_bits, mantissa_bits, bias, count):
    """The numbers that codes 0, 1, ... are."""
    numbers = []
    for code in range(count):
        exponent, mantissa = code >> mantissa_bits, code % (1 << mantissa_bits)
        fraction = mantissa / 2**mantissa_bits
        numbers.append(fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias))
    return numbers


def nearest(numbers, beyond, value):
    """The code of the nearest number, the even one of two; `beyond` stands for all that is too large."""
    if np.isnan(value):
        return 0x7F
    sign = 0x80 if np.signbit(value) else 0
    distances = [abs(number - min(abs(value), beyond)) for number in [*numbers, beyond]]
    best = min(range(len(distances)), key=lambda code: (distances[code], code % 2))
    return sign | best


e4m3, e5m2 = codes(4, 3, 7, 0x7F), codes(5, 2, 15, 0x7C)
special = [0.0, -0.0, 448, 449, 464, 465, 480, -448, -464, -500, np.inf, -np.inf, np.nan, 57344, 61439, 61440, 1e9]
small = [2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 3 * 2.0**-10, 5 * 2.0**-10, 2.0**-6, 2.0**-16, 2.0**-17, 3 * 2.0**-17]
middle = [1, 1.0625, 1.125, 1.1875, -1.3, 3.14159, 17, 18, 19, 100, 208, 216, 224, 0.1, 0.3, -0.7]
values = np.array(special + small + [-x for x in small] + middle, dtype="<f4")


def meaning(numbers, byte, infinite):
    """The float that a code is."""
    low = byte & 0x7F
    number = numbers[low] if low < len(numbers) else np.inf if infinite and low == len(numbers) else np.nan
    return -number if byte & 0x80 else number


# The exponent of a power of two and a half: whole, down, up.
scales = np.array([1, 1.25, 1.5, 1.75, 2, 3, 2.0**-126, 2.0**127, 0.5, 2.0**100], dtype="<f4")
scale_codes = bytes([127, 127, 128, 128, 128, 129, 1, 254, 126, 227])
# A product of small integers: exact in every type, with its bias.
left = np.arange(32 * 48).reshape(32, 48) % 7 - 3.0
right = np.arange(16 * 48).reshape(16, 48) % 5 - 2.0
bias = np.arange(16) % 3 - 1.0
product = left @ right.T + bias
table = {}
for name, numbers, beyond, infinite, kind in [
    ("e4m3", e4m3, 480.0, False, "F8_E4M3"),
    ("e5m2", e5m2, 65536.0, True, "F8_E5M2"),
]:
    encode = lambda array: bytes(nearest(numbers, beyond, float(x)) for x in array.flatten())
    rounded = encode(values)
    back = np.array([meaning(numbers, byte, infinite) for byte in rounded], dtype="<f4")
    with np.errstate(divide="ignore"):
        inverse = (np.float32(1) / back).astype("<f4")
    table[name] = (kind, [len(values)], rounded)
    table[f"{name}.back"] = ("F32", [len(values)], back.tobytes())
    table[f"{name}.inverse"] = ("F32", [len(values)], inverse.tobytes())
    table[f"{name}.left"] = (kind, [32, 48], encode(left))
    table[f"{name}.right"] = (kind, [16, 48], encode(right))
    table[f"{name}.turned"] = (kind, [48, 16], encode(right.T))
    table[f"{name}.product"] = (kind, [32, 16], encode(product))
    table[f"{name}.sums"] = (kind, [48], encode(left.sum(axis=0)))
    table[f"{name}.tripled"] = (kind, [32, 48], encode(left * 3))
    table[f"{name}.parts"] = (kind, [2, 16, 48], encode(left))
    table[f"{name}.summed"] = (kind, [16, 48], encode(left[:16] + left[16:]))
    table[f"{name}.largest"] = (kind, [16, 48], encode(np.maximum(left[:16], left[16:])))
table["values"] = ("F32", [len(values)], values.tobytes())
table["scales"] = ("F32", [len(scales)], scales.tobytes())
table["e8m0"] = ("F8_E8M0", [len(scales)], scale_codes)
table["e8m0.back"] = ("F32", [len(scales)], (2.0 ** (np.frombuffer(scale_codes, "u1") - 127.0)).astype("<f4").tobytes())
table["bias"] = ("F32", [16], bias.astype("<f4").tobytes())
table["product"] = ("F32", [32, 16], product.astype("<f4").tobytes())
table["dot"] = ("F32", [32, 16], (product - bias).astype("<f4").tobytes())
table["bfloat"] = ("BF16", [32, 16], bfloat16(product))
safetensors("fp8.safetensors", table)

# ---- the same factors with scales; floats hold all products and sums, so that only the result is rounded ----
rows = (np.arange(32) % 5 + 1.0).reshape(32, 1) / 8
columns = (np.arange(16) % 7 + 1.0).reshape(1, 16) / 2
addend = np.arange(32 * 16).reshape(32, 16) % 11 * 16.0
scaled = (left @ right.T) * rows * columns
assert all((x.astype("<f4") == x).all() for x in (scaled, scaled + bias, scaled + addend))
table = {
    "left": ("F8_E4M3", [32, 48], bytes(nearest(e4m3, 480.0, float(x)) for x in left.flatten())),
    "right": ("F8_E4M3", [48, 16], bytes(nearest(e4m3, 480.0, float(x)) for x in right.T.flatten())),
    "weight": ("F8_E4M3", [16, 48], bytes(nearest(e4m3, 480.0, float(x)) for x in right.flatten())),
    "rows": ("F32", [32, 1], rows.astype("<f4").tobytes()),
    "columns": ("F32", [1, 16], columns.astype("<f4").tobytes()),
    "bias": ("BF16", [16], bfloat16(bias)),
    "addend": ("BF16", [32, 16], bfloat16(addend)),
    "bfloat": ("BF16", [32, 16], rounded_bfloat16(scaled)),
    "half": ("F16", [32, 16], scaled.astype("<f2").tobytes()),
    "float": ("F32", [32, 16], scaled.astype("<f4").tobytes()),
    "biased": ("BF16", [32, 16], rounded_bfloat16(scaled + bias)),
    "added": ("BF16", [32, 16], rounded_bfloat16(scaled + addend)),
    "whole": ("BF16", [32, 16], rounded_bfloat16((left @ right.T) * 0.375 * 2.5)),
    "row": ("F32", [1, 1], np.array([0.375], "<f4").tobytes()),
    "column": ("F32", [], np.array(2.5, "<f4").tobytes()),
}
safetensors("scaled.safetensors", table)

# ---- bitwise reductions over two devices ----
bits = ((np.arange(20) * 2654435761) % 2**31).astype("<i4").reshape(2, 2, 5)
bits[0, 0, 0] = -1
table = {"x": ("I32", [2, 2, 5], bits.tobytes())}
for name, function in [("bor", np.bitwise_or), ("band", np.bitwise_and), ("bxor", np.bitwise_xor)]:
    table[name] = ("I32", [2, 5], function(bits[0], bits[1]).tobytes())
safetensors("bits.safetensors", table)

# ---- reads and sums by index ----
table = {}


def add(name, array):
    kind = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}[array.dtype.name]
    table[name] = (kind, list(array.shape), np.ascontiguousarray(array).tobytes())


a = (np.arange(4 * 6 * 16) * 37 % 101 - 50.0).astype("<f4").reshape(4, 6, 16)
rows, planes, places = np.array([5, 0, 3, 3, 1], "<i8"), np.array([2, 2, 0, 3, 1, 1], "<i4"), np.array([15, 0, 7], "<i8")
add("a", a)
add("half", a.astype("<f2"))
add("bool", a > 0)
add("rows", rows)
add("planes", planes)
add("places", places)
add("select.0", np.take(a, planes, 0))
add("select.1", np.take(a, rows, 1))
add("select.2", np.take(a, places, 2))
add("select.half", np.take(a.astype("<f2"), rows, 1))
add("select.bool", np.take(a > 0, places, 2))
add("four", rows[:4])
add("select.four", np.take(a, rows[:4], 1))
add("select.sum", np.take(np.take(a, planes, 0), rows, 1) * np.float32(2))
# One index for all of the first axis, and a different one for each element.
along = (np.arange(6 * 3) * 7 % 16).astype("<i8").reshape(1, 6, 3)
add("along", along)
add("along.took", np.take_along_axis(a, along, 2))
other = (np.arange(4 * 2 * 16) * 5 % 6).astype("<i4").reshape(4, 2, 16)
add("other", other)
add("other.took", np.take_along_axis(a, other, 1))
# An index that is shorter than the operand along the axes that it does not choose from.
short = (np.arange(3 * 9 * 5) * 11 % 6).astype("<i8").reshape(3, 9, 5)
gathered = np.empty((3, 9, 5), "<f4")
for i, j, k in np.ndindex(gathered.shape):
    gathered[i, j, k] = a[i, short[i, j, k], k]
add("short", short)
add("short.gathered", gathered)


def put(base, index, value, wide):
    """Sums in the order of the index, in a wider type, rounded once."""
    sums = base.astype(wide)
    for place, row in zip(index.reshape(-1), value):
        sums[place] = sums[place] + row.astype(wide)
    return sums.astype(base.dtype)


# Sums that depend on their order: 1e8 and -1e8 take all that is small between them away.
value = np.tile(np.array([1e8, 3, -1e8, 5, 7, -1e8, 1e8], "<f4")[:, None], (1, 12)) + np.arange(12, dtype="<f4")
value = value.astype("<f4").reshape(7, 4, 3)
base = (np.arange(5 * 4 * 3) % 9 - 4.0).astype("<f4").reshape(5, 4, 3)
index = np.array([3, 3, 3, 0, 3, 4, 4], "<i8")
add("base", base)
add("value", value)
add("index", index)
add("column", index.astype("<i4").reshape(7, 1))
add("sums", put(base, index, value, "f4"))
small = (value % 8).astype("<f2") / np.float16(3)
add("base.half", base.astype("<f2"))
add("value.half", small)
add("sums.half", put(base.astype("<f2"), index, small, "f4"))
add("base.double", base.astype("<f8"))
add("value.double", value.astype("<f8") / 3)
add("sums.double", put(base.astype("<f8"), index, value.astype("<f8") / 3, "f8"))
add("base.int", base.astype("<i8"))
add("value.int", value.astype("<i8"))
add("sums.int", put(base.astype("<i8"), index, value.astype("<i8"), "i8"))
add("twice", put(put(base, index, value, "f4"), index, value, "f4"))
# What is out of range.
add("above", np.array([0, 2, 3], "<i8"))
add("low", np.array([0, -1, 2], "<i8"))
add("high", np.array([[1, 2, 3], [3, 0, 4]], "<i4"))
safetensors("index.safetensors", table)

# A block of a grid moves one place along x, then one along y: docs/patterns/grid.hir.
for rows, columns in [(2, 3), (4, 2)]:
    blocks = np.arange(rows * columns * 8, dtype=np.float32).reshape(rows, columns, 8)
    np.save(path(f"grid_{rows}x{columns}.npy"), np.roll(blocks, (1, 1), axis=(0, 1)))
