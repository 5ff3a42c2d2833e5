"""Makes evaluator.safetensors with numpy.

    python3 test/run/evaluator/Inputs/make.py
"""

import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../../Inputs"))
from tensors import save  # noqa: E402

table = {}


def add(name, array, dtype="<f4"):
    table[name] = np.asarray(array, dtype=dtype)


random = np.random.default_rng(0)
normal = random.standard_normal

# Fusions: a cube, twice of it summed up, and what two and three fusions make of it.
x = normal((4, 2, 3)).astype("<f4").astype("<f8")
add("cube", x)
add("single", (2 * x).sum(axis=0))
add("two", 2 * np.maximum(x, 0).sum(axis=(0, 1)))
add("three", (2 * x).sum(axis=0) + (4 * x * x).sum(axis=0))

add("count", np.arange(4))

# A square, and parts of it.
square = normal((8, 8)).astype("<f4")
add("square", square)
add("sliced", square[:, 3:7])
add("selected", square[:, 3])
add("zeros", np.zeros((8, 8)))

# Another shape: a row, and the rows as long as the columns were.
table["shape"] = normal((3, 4)).astype("<f4")
add("shape.flat", table["shape"].reshape(12))
add("shape.turned", table["shape"].reshape(4, 3))
add("shape.permuted", table["shape"].reshape(2, 6).T)

# Products.
a, b = normal((3, 4, 5)).astype("<f4"), normal((3, 5, 6)).astype("<f4")
add("a", a)
add("b", b)
add("a.b", a.astype("<f8") @ b.astype("<f8"))
weight, bias = normal((6, 5)).astype("<f4"), normal(6).astype("<f4")
add("weight", weight)
add("bias", bias)
add("linear", a.astype("<f8") @ weight.T.astype("<f8") + bias)
ints = [random.integers(0, 5, shape) for shape in ((3, 4, 5), (6, 5), (6,))]
for name, array in zip(("ints", "ints.weight", "ints.bias"), ints):
    add(name, array)
add("ints.linear", ints[0] @ ints[1].T + ints[2])

# Two of everything that one function takes, and sums.
left, right = normal((8, 6)).astype("<f4"), normal((8, 6)).astype("<f4")
add("left", left)
add("right", right)
for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
    add(name, function(left, right))
whole = random.integers(-8, 8, (8, 6))
add("whole", whole)
add("whole.rows", whole.sum(axis=1))
add("whole.first", whole[:, 0])
add("whole.sum", whole[:, 0].sum())

add("small", normal((2, 3)))
add("small.sum", table["small"].astype("<f8").sum(axis=0))
add("small.rows", table["small"].astype("<f8").sum(axis=1))

# Loops: 21 + 1 + 3 + 5; zeros to which 1, 3 and 5 are added; what two of three streams double.
add("start", [21], "<i8")
add("thirty", [30], "<i8")
add("nine", np.full(10, 9))
wide = normal((5, 3, 2)).astype("<f4")
add("wide", wide)
doubled = 2 * wide
doubled[:, 0] = 0
add("wide.doubled", doubled)
second = 2 * wide
second[:, [0, 2]] = 0
add("wide.second", second)
# A product of as many ones as there are devices, and one.
add("nines", np.full((2, 3, 5), 9))
add("fours", np.full((8, 6), 4))
add("two.ones", [2])
add("three.ones", [3])
# (tensor + 2) * 3
add("numbers", random.integers(-8, 8, (3, 4)), "<i8")
add("numbers.scaled", (table["numbers"] + 2) * 3, "<i8")
# x, and 4 x^2
add("tutorial.x", np.arange(128) / 8 - 8)
add("tutorial.y", 4 * (np.arange(128) / 8 - 8) ** 2)
# 2 x + 1, 4 x + 5 and x + 3 of the tutorials; what a ReduceScatter keeps of products that each device has.
field = normal((5, 6)).astype("<f4")
add("field", field)
add("field.line", 2 * field.astype("<f8") + 1)
add("field.lines", 4 * field.astype("<f8") + 5)
add("field.three", field.astype("<f8") + 3)
save(here, "evaluator.safetensors", table)
