"""Makes the data files of this folder with numpy in doubles: attention, its gradients, and rows of tables.

    python3 test/run/attention/Inputs/make.py
"""

import json
import os
import struct

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
codes = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "|b1": "BOOL"}
table = {}


def add(name, values, dtype=None):
    """Adds an array of our numbers, or of the rounded ones of another type."""
    array = np.asarray(values, dtype, order="C")
    table[name] = array


def write(name):
    """The format of https://github.com/huggingface/safetensors."""
    header, data = {}, b""
    for key, array in table.items():
        raw = array.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[key] = {"dtype": codes[array.dtype.str], "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(here, name), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


random = np.random.default_rng(7)


def draw(*shape):
    """Numbers that halves hold exactly."""
    return (random.integers(-24, 25, shape) / 16).astype("<f8")


def attention(q, k, v, scale=None, counts=None, bias=0.0):
    """softmax(scale * q @ k^T + bias) @ v over the keys that count, the logarithms of the sums, and the weights."""
    served = q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, served, -3) for x in (k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * np.einsum("...le,...se->...ls", q, k) + bias
    if counts is not None:
        scores = np.where(counts, scores, -np.inf)
    with np.errstate(divide="ignore"):
        exponentials = np.exp(scores)
        sums = exponentials.sum(-1)
        weights = exponentials / np.where(sums == 0, 1, sums)[..., None]
        return np.einsum("...ls,...sd->...ld", weights, v), np.log(sums), weights


def gradients(d, q, k, v, weights, scale=None):
    """The gradients by queries, keys and values: with the Jacobian of each row's softmax, written out."""
    heads, served = k.shape[-3], q.shape[-3] // k.shape[-3]
    k, v = (np.repeat(x, served, -3) for x in (k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    by_weights = np.einsum("...ld,...sd->...ls", d, v)
    jacobian = np.einsum("...ls,st->...lst", weights, np.eye(weights.shape[-1])) - np.einsum(
        "...ls,...lt->...lst", weights, weights
    )
    by_scores = scale * np.einsum("...lst,...lt->...ls", jacobian, by_weights)
    by_key = np.einsum("...ls,...le->...se", by_scores, q)
    by_value = np.einsum("...ls,...ld->...sd", weights, d)

    def summed(x):
        """The sum over the heads that a head of keys serves."""
        return x.reshape(*x.shape[:-3], heads, served, *x.shape[-2:]).sum(-3)

    return np.einsum("...ls,...se->...le", by_scores, k), summed(by_key), summed(by_value)


def case(name, dtype, q, k, v, scale=None, counts=None, bias=None):
    """The operands and results in a type, with those of the gradients."""
    d = draw(*q.shape[:-1], v.shape[-1])
    out, lse, weights = attention(q, k, v, scale, counts, 0.0 if bias is None else bias)
    by = gradients(d, q, k, v, weights, scale)
    for word, values in zip(("q", "k", "v", "d", "out"), (q, k, v, d, out)):
        add(f"{name}.{word}", values, dtype)
    for word, values in zip(("q", "k", "v"), by):
        add(f"{name}.by_{word}", values, dtype)
    add(f"{name}.lse", lse, "<f4")


# Odd extents; 5 queries, 6 keys.
q, k, v = draw(2, 3, 5, 7), draw(2, 3, 6, 7), draw(2, 3, 6, 7)
case("plain", "<f4", q, k, v)
case("scaled", "<f2", q, k, v, scale=0.125)
# A causal mask, more rows than a block of them.
q, k, v = draw(1, 2, 131, 2), draw(1, 2, 131, 2), draw(1, 2, 131, 2)
case("causal", "<f8", q, k, v, counts=np.tril(np.ones((131, 131), bool)))
# Six heads of queries, two of keys.
q, k, v = draw(2, 6, 5, 4), draw(2, 2, 3, 4), draw(2, 2, 3, 4)
case("grouped", "<f4", q, k, v)
# A bias for each head, a mask for each batch; the third query of the second batch sees nothing.
q, k, v = draw(2, 3, 5, 4), draw(2, 3, 6, 4), draw(2, 3, 6, 4)
bias, mask = draw(1, 3, 5, 6), random.integers(0, 2, (2, 1, 5, 6)) > 0
mask[:, :, :, 0] = True
mask[1, 0, 2] = False
add("bias", bias, "<f4")
# The same as a mask.
infinite = np.where(mask, 0.0, -np.inf)
add("bias.infinite", infinite, "<f4")
out, lse, _ = attention(q, k, v, None, mask)
add("infinite.out", out, "<f4")
add("infinite.lse", lse, "<f4")
add("mask", mask)
case("masked", "<f4", q, k, v, counts=mask, bias=bias)
k, v, triangle = k[..., :5, :], v[..., :5, :], mask[..., :5]
add("triangle", triangle)
add("triangle.k", k, "<f4")
add("triangle.v", v, "<f4")
add("triangle.out", attention(q, k, v, None, triangle & np.tril(np.ones((5, 5), bool)))[0], "<f4")

# Rows of a table, for indices of no, one and two axes.
rows = draw(10, 6)
add("table", rows, "<f4")
add("table.half", rows, "<f2")
one, two = np.array(7, "<i8"), np.array([[1, 9, 1], [0, 4, 9]], "<i4")
line = np.array([3, 0, 3, 8], "<i8")
for name, index in (("none", one), ("line", line), ("plane", two)):
    add(f"index.{name}", index)
    add(f"took.{name}", rows[index], "<f4")
    add(f"took.{name}.half", rows[index], "<f2")
    for kind in (1, 2, 3, np.inf):
        norms = np.linalg.norm(rows, kind, 1)
        small = np.where(norms > 1.5, 1.5 / (norms + 1e-7), 1.0)[:, None] * rows
        add(f"norm.{kind}.{name}", small[index], "<f4")
# The gradient of the table, whose third row counts as padding.
grad = draw(4, 6)
by_table = np.zeros((10, 6))
for row, of in zip(line, grad):
    by_table[row] += 0.0 if row == 3 else of
add("grad", grad, "<f4")
add("by_table", by_table, "<f4")
write("attention.safetensors")
