"""Makes rows.safetensors with numpy: sorts, selections, scans, scatters and Welfords.

    python3 test/run/Inputs/rows.py
"""

import os

import numpy as np
from tensors import save

table = {}


def descending(array, axis):
    """Positions from the largest to the smallest, NaN first, equal elements in their order."""
    turned = np.argsort(np.flip(array, axis), axis, kind="stable")
    return np.flip(array.shape[axis] - 1 - turned, axis)


def first(array, count, axis):
    return np.take(array, np.arange(count), axis)


# ---- sorts: ties, both zeros, infinities and NaN ----
x = (np.arange(5 * 7) * 11 % 13 - 6.0).astype("<f4").reshape(5, 7)
x[0, 1], x[0, 4], x[1, 0], x[1, 3], x[1, 5] = np.nan, np.nan, np.inf, -np.inf, np.nan
x[2, 2], x[2, 3], x[2, 6] = 0.0, -0.0, 0.0
n = (np.arange(3 * 9) * 7 % 5 - 2).astype("<i8").reshape(3, 9)
n[1, 4], n[1, 5] = np.iinfo("<i8").max, np.iinfo("<i8").min
table["x"], table["n"] = x, n
for name, array in [("x", x), ("n", n)]:
    for axis in [0, 1]:
        up, down = np.argsort(array, axis, kind="stable"), descending(array, axis)
        table[f"{name}.up.{axis}"], table[f"{name}.down.{axis}"] = up, down
        table[f"{name}.most.{axis}"] = np.take_along_axis(array, first(down, 3, axis), axis)
        table[f"{name}.most.at.{axis}"] = first(down, 3, axis)
        table[f"{name}.least.{axis}"] = np.take_along_axis(array, first(up, 2, axis), axis)
        table[f"{name}.least.at.{axis}"] = first(up, 2, axis)

# ---- scans: numbers whose sums and products are exact in any order ----
s = (np.arange(6 * 11) * 5 % 7 - 3.0).reshape(6, 11)
table["s"], table["s.float"], table["s.int"] = s, s.astype("<f4"), s.astype("<i4")
for axis in [0, 1]:
    table[f"s.sum.{axis}"] = np.cumsum(s, axis) + 2.5
    table[f"s.float.sum.{axis}"] = np.cumsum(s, axis).astype("<f4")
    table[f"s.max.{axis}"] = np.maximum.accumulate(s, axis)
    table[f"s.int.min.{axis}"] = np.minimum.accumulate(s, axis).astype("<i4")
    table[f"s.int.product.{axis}"] = np.cumprod(s.astype("<i4"), axis, dtype="<i4")
    table[f"s.int.xor.{axis}"] = np.bitwise_xor.accumulate(s.astype("<i4"), axis)

# ---- scatters: in the order of the index, so that of equal ones the last remains ----
base = (np.arange(5 * 4 * 6) % 9 - 4.0).astype("<f4").reshape(5, 4, 6)
table["base"], table["base.int"] = base, base.astype("<i4")
for axis in range(3):
    shape = [4, 3, 5]
    shape[axis] = 7
    index = (np.arange(np.prod(shape)) * 13 % base.shape[axis]).astype("<i8").reshape(shape)
    value = (np.arange(np.prod(shape)) * 7 % 11 - 5.0).astype("<f4").reshape(shape)
    table[f"at.{axis}"], table[f"value.{axis}"], table[f"value.int.{axis}"] = index, value, value.astype("<i4")
    combined = {"last": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for name, combine in combined.items():
        result, numbers = base.copy(), base.astype("<i4")
        for place in np.ndindex(*shape):
            to = list(place)
            to[axis] = index[place]
            result[tuple(to)] = combine(result[tuple(to)], value[place])
            numbers[tuple(to)] = combine(numbers[tuple(to)], value[place].astype("<i4"))
        table[f"{name}.{axis}"], table[f"{name}.int.{axis}"] = result, numbers
    ones = base.copy()
    for place in np.ndindex(*shape):
        to = list(place)
        to[axis] = index[place]
        ones[tuple(to)] = 1.5
    table[f"ones.{axis}"] = ones

# ---- Welfords by their definition ----
w = (np.arange(6 * 5 * 3) * 17 % 23 / 4.0 - 2.0).reshape(6, 5, 3)
squares = (np.arange(6 * 5 * 3) * 3 % 7 / 2.0).reshape(6, 5, 3)
counts = (np.arange(6 * 5 * 3) * 5 % 4).reshape(6, 5, 3)
counts[2] = 0
table["w"], table["w.float"] = w, w.astype("<f4")
table["squares"], table["counts"] = squares, counts


def welford(name, weights, more, mean, square, count, axes):
    """The three results along axes; `mean`, `square` and `count` are an element more of each row."""
    total = weights.sum(axes, keepdims=True) + count
    average = ((weights * w).sum(axes, keepdims=True) + count * mean) / np.maximum(total, 1)
    spread = (weights * (w - average) ** 2 + more).sum(axes, keepdims=True) + count * (mean - average) ** 2 + square
    table[f"{name}.avg"], table[f"{name}.var"] = average.squeeze(axes), spread.squeeze(axes)
    table[f"{name}.count"] = total.squeeze(axes).astype("<i8")


one = np.ones((6, 5, 3), "<i8")
welford("plain", one, 0.0, 0.0, 0.0, 0, (1, 2))
welford("started", one, 0.0, 0.75, 2.0, 3, (0,))
welford("full", counts, squares, 0.0, 0.0, 0, (1, 2))
welford("all", counts, squares, -1.5, 4.0, 2, (1,))
assert (table["full.count"] == 0).any()
for name in ["plain", "started"]:
    for part in ["avg", "var"]:
        table[f"{name}.float.{part}"] = table[f"{name}.{part}"].astype("<f4")

save(os.path.dirname(os.path.abspath(__file__)), "rows.safetensors", {name: np.ascontiguousarray(array) for name, array in table.items()})
