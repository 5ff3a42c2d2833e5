"""Makes the files of complex numbers with numpy: functions of them, sums, products, files in and out.

    python3 test/run/Inputs/complex.py
"""

import os

import numpy as np
from tensors import save

here = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(11)


def numbers(shape):
    return random.normal(size=shape) + 1j * random.normal(size=shape)


# No odd number is near a branch cut: the libraries' results differ by rounding there.
a, b = numbers((5, 3)), numbers((5, 3))
b[2] = a[2]
one = np.complex128(1)
functions = {
    "neg": -a, "abs": np.abs(a), "reciprocal": one / a, "exp": np.exp(a), "exp2": np.exp2(a), "expm1": np.expm1(a),
    "log": np.log(a), "log2": np.log2(a), "log10": np.log10(a), "log1p": np.log1p(a), "sqrt": np.sqrt(a),
    "rsqrt": one / np.sqrt(a), "sin": np.sin(a), "cos": np.cos(a), "tan": np.tan(a), "asin": np.arcsin(a),
    "acos": np.arccos(a), "atan": np.arctan(a), "sinh": np.sinh(a), "cosh": np.cosh(a), "tanh": np.tanh(a),
    "asinh": np.arcsinh(a), "acosh": np.arccosh(a), "atanh": np.arctanh(a), "sigmoid": one / (one + np.exp(-a)),
    "silu": a / (one + np.exp(-a)), "std::real": a.real, "std::imag": a.imag,
}
pairs = {"+": a + b, "-": a - b, "*": a * b, "/": a / b, "pow": np.power(a, b)}
parts = numbers((2, 2, 3))
index = np.array([4, 0, 2, 2])
added = a.copy()
np.add.at(added, index, b[:4])
left, right = numbers((3, 5)), numbers((5, 7))
table = {
    "real": a.real.copy(), "imag": a.imag.copy(), "equal": a == b, "other": a != b, "chosen": np.where(a == b, a, b),
    "rows": a.sum(1), "products": a.prod(0), "turned": a.T.copy(), "taken": a[index], "added": added,
    "parts": parts, "summed": parts.sum(0), "mean": parts.mean(0), "swapped": parts[::-1].copy(),
    "left": left, "right": right, "matmul": left @ right, "scaled": a * (1 + 2.5j), "moved": a + 2, "squared": a**2,
    "whole": np.arange(15).reshape(5, 3).astype(np.complex128),
}
def joined(results):
    return np.concatenate([value.astype(np.complex128) for value in results.values()])


table |= {"a": a, "b": b, "functions": joined(functions), "pairs": joined(pairs)}
os.makedirs(os.path.join(here, "complex"), exist_ok=True)
for name in ["a", "b", "functions", "pairs", "rows", "taken", "left", "right", "matmul", "parts", "summed"]:
    np.save(os.path.join(here, "complex", f"{name}.npy"), table[name])
np.save(os.path.join(here, "complex", "big.npy"), a.astype(">c8"))
narrow = {name: value.astype(np.complex64) for name, value in table.items() if value.dtype == np.complex128}
others = {name: table[name] for name in ["equal", "other"]}
save(here, "complex.safetensors", narrow | others | {"real": a.real.astype("f4"), "imag": a.imag.astype("f4"), "index": index})
