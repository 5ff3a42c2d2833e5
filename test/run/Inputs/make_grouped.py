"""Writes grouped.safetensors: matrices of small integers, and numpy's matmul of each group."""

import os

import numpy as np
from tensors import save

FOLDER = os.path.dirname(os.path.abspath(__file__))


def integers(shape, dtype, seed):
    """From -4 to 4: exact in every type, and so are their sums."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def bounds(offsets):
    return zip([0, *offsets[:-1]], offsets)


def rows(a, b, offsets):
    out = np.zeros((a.shape[0], b.shape[2]), a.dtype)
    for group, (start, end) in enumerate(bounds(offsets)):
        out[start:end] = a[start:end] @ b[group]
    return out


def columns(a, b, offsets):
    out = np.zeros((a.shape[1], b.shape[1]), a.dtype)
    for group, (start, end) in enumerate(bounds(offsets)):
        out[:, start:end] = a[group] @ b[:, start:end]
    return out


def contracted(a, b, offsets):
    return np.stack([a[:, start:end] @ b[start:end] for start, end in bounds(offsets)])


table = {}


def add(name, make, a, b, offsets, kind):
    table.update({f"{name}.a": a, f"{name}.b": b, f"{name}.offsets": np.array(offsets, kind)})
    table[f"{name}.out"] = make(a, b, offsets)


# A group without rows; what is not finite in one group stays in it.
a, b = integers((7, 5), "float32", 1), integers((4, 5, 3), "float32", 2)
b[3, 0, 0], b[1] = np.inf, np.nan
a[6] = np.abs(a[6]) + 1
add("rows", rows, a, b, [2, 2, 6, 7], "int32")
# Rows in no group.
add("short", rows, integers((7, 5), "float16", 3), integers((4, 5, 3), "float16", 4), [0, 3, 3, 5], "int64")
add("columns", columns, integers((3, 2, 3), "float64", 5), integers((3, 7), "float64", 6), [1, 7, 7], "int64")
a = integers((3, 9), "float32", 7)
a[:, 5] = np.inf
add("contracted", contracted, a, np.abs(integers((9, 2), "float32", 8)) + 1, [4, 4, 9], "int32")
add("one", rows, integers((1, 1), "float32", 9), integers((1, 1, 1), "float32", 10), [1], "int32")
add("none", rows, integers((0, 2), "float32", 11), integers((2, 2, 3), "float32", 12), [0, 0], "int32")
# Scales are powers of two: of rows and, in each group, of columns.
a, b = integers((7, 5), "float32", 13), integers((4, 5, 3), "float32", 14)
one = np.exp2(np.arange(7) - 3).astype("float32")[:, None]
two = np.exp2(np.arange(12).reshape(4, 1, 3) - 5).astype("float32")
table.update({"scaled.a": a, "scaled.b": b, "scaled.one": one, "scaled.two": two})
table["scaled.out"] = rows(a * one, b * two, [2, 2, 6, 7])
table["bias"] = integers((3,), "float32", 15)
table["biased.out"] = rows(a, b, [2, 2, 6, 7]) + table["bias"]
# alpha * GEMM + beta * bias, in single precision, rounded once.
for kind in ("float32", "float16"):
    a, b, bias = integers((7, 5), kind, 16), integers((4, 5, 3), kind, 17), integers((3,), kind, 18)
    alpha, beta = np.array([0.3], "float32"), np.array([[0.7]], "float32")
    gemm = rows(a.astype("float32"), b.astype("float32"), [0, 3, 3, 5])
    out = gemm * alpha[0] + bias.astype("float32") * beta[0, 0]
    out[5:] = 0
    table.update({f"sum.{kind}.a": a, f"sum.{kind}.b": b, f"sum.{kind}.bias": bias, f"sum.{kind}": out.astype(kind)})
    table.update({"alpha": alpha, "beta": beta})
a, b, bias = integers((3, 9), "float32", 19), integers((9, 2), "float32", 20), integers((3, 2), "float32", 21)
table.update({"parts.a": a, "parts.b": b, "parts.bias": bias})
table["parts"] = contracted(a, b, [4, 4, 9]) * np.float32(0.3) + bias * np.float32(0.7)
# Out of order, and beyond the axis.
table["falling"] = np.array([2, 6, 5, 7], "int32")
table["beyond"] = np.array([2, 2, 6, 8], "int32")
table["negative"] = np.array([-1, 2, 6, 7], "int32")
save(FOLDER, "grouped.safetensors", table)
