#!/usr/bin/env python3
"""Writes integers.txt: the part of the table of make.py about 8 and 16 bits and about integers without a sign.

usage: make_integers.py [PATH]        needs numpy

The lines are those of make.py's table. Values are Python's integers, which have no limit, wrapped to the type at
the end; casts are numpy's. What C++ leaves undefined is `*`.
"""

import math
import sys
from pathlib import Path

import numpy as np

np.seterr(all="ignore")
TYPES = {
    "int8_t": np.int8, "int16_t": np.int16, "uint8_t": np.uint8, "uint16_t": np.uint16, "uint32_t": np.uint32,
    "uint64_t": np.uint64, "int": np.int32, "int64_t": np.int64, "bool": np.bool_,
}
NEW = ["int8_t", "int16_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"]
FLOATS = {"double": np.float64, "float": np.float32, "__half": np.float16}
WORDS = {
    "int8_t": "int8", "int16_t": "int16", "uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32",
    "uint64_t": "uint64", "int": "int32", "int64_t": "int64", "bool": "bool", "double": "double", "float": "float",
    "__half": "half", "__bfloat": "bfloat",
}
lines = []


def limits(name):
    info = np.iinfo(TYPES[name])
    return int(info.min), int(info.max), info.bits


def wrapped(value, name):
    low, _, bits = limits(name)
    value &= (1 << bits) - 1
    return value - (1 << bits) if low < 0 and value >> (bits - 1) else value


def words(values, name):
    """The bits of elements; None is any value."""
    if name == "bool":
        return " ".join("*" if value is None else str(int(bool(value))) for value in values)
    bits = limits(name)[2]
    return " ".join("*" if v is None else f"{wrapped(v, name) & ((1 << bits) - 1):0{bits // 4}x}" for v in values)


class Group:
    def __init__(self, name, label, columns):
        self.name, self.label, self.columns = name, f"{name}-{label}", columns
        for place, column in enumerate(columns):
            lines.append(f"in {self.label} {place} {name} {words(column, name)}")

    def row(self, text, f, result=None):
        result = result or self.name
        values = [f(*operands) for operands in zip(*self.columns)]
        lines.append(f"{text} {result} exact {self.label} {words(values, result)}")


def crossed(values, other):
    return [[a for a in values for _ in other], [b for _ in values for b in other]]


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def power(a, b):
    if b < 0:
        return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    return pow(a, b, 1 << 64)


def unary(name):
    low, high, bits = limits(name)
    one = Group(name, "1", [[0, 1, 2, 3, 7, 10, 31, 62, high, low, high - 1, low + 1, 1 << (bits // 2), wrapped(-1, name)]])
    one.row("-{0}", lambda a: -a)
    one.row("~{0}", lambda a: ~a)
    one.row("abs({0})", lambda a: None if a < 0 and a == low else abs(a))
    one.row("relu({0})", lambda a: max(a, 0))
    for function in ("ceil", "floor", "nearbyint", "trunc"):
        one.row(f"{function}({{0}})", lambda a: a)
    one.row("!{0}", lambda a: a == 0, "bool")
    one.row("signbit({0})", lambda a: a < 0, "bool")
    one.row("isfinite({0})", lambda a: True, "bool")


def binary(name):
    low, high, bits = limits(name)
    two = Group(name, "2", crossed([0, 1, 2, 3, wrapped(-7, name), 10, bits - 1, bits, high, low, 123], [0, 1, 2, wrapped(-1, name), 5, bits - 1, high, low]))
    # A shift by a negative number or by all bits is undefined; one of a negative number wraps.
    shift = lambda f: lambda a, b: f(a, b) if 0 <= b < bits else None
    for sign, f in {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
        "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": shift(lambda a, b: a << b), ">>": shift(lambda a, b: a >> b),
    }.items():
        two.row(f"{{0}}{sign}{{1}}", f)
    for function, f in {"max": max, "fmax": max, "min": min, "fmin": min, "pow": power}.items():
        two.row(f"{function}({{0}},{{1}})", f)
    two.row("gcd({0},{1})", lambda a, b: None if low < 0 and low in (a, b) else math.gcd(a, b))
    for sign, f in {
        "==": lambda a, b: a == b, "!=": lambda a, b: a != b, ">=": lambda a, b: a >= b, ">": lambda a, b: a > b,
        "<=": lambda a, b: a <= b, "<": lambda a, b: a < b, "&&": lambda a, b: a and b, "||": lambda a, b: a or b,
    }.items():
        two.row(f"{{0}}{sign}{{1}}", f, "bool")


def divisions(name):
    low, high, _ = limits(name)
    by = Group(name, "d", crossed([0, 1, 5, wrapped(-5, name), 7, 100, high, low, low + 1], [1, 2, 3, 7, wrapped(-2, name), high, wrapped(-1, name)]))
    fits = lambda f: lambda a, b: None if low < 0 and (a, b) == (low, -1) else f(a, b)
    by.row("{0}/{1}", fits(truncated))
    by.row("{0}%{1}", fits(lambda a, b: a - b * truncated(a, b)))
    by.row("remainder({0},{1})", fits(lambda a, b: a - b * (a // b)))
    inside = lambda a, b: a + b <= high and low <= a + b - 1 and (low == 0 or (a + b - 1, b) != (low, -1))
    by.row("ceilDiv({0},{1})", lambda a, b: truncated(a + b - 1, b) if inside(a, b) else None)


def ternary(name):
    low, high, _ = limits(name)
    triples = [(a, b, c) for a in (low, 5, 9, high) for b in (0, 4, high) for c in (low, 3, 6)]
    three = Group(name, "3", [list(column) for column in zip(*triples)])
    three.row("clamp({0},{1},{2})", lambda a, b, c: min(max(a, b), c))
    three.row("threshold({0},{1},{2})", lambda a, b, c: c if a <= b else a)


def bits_of(values):
    width = 2 * values.itemsize
    if values.dtype == np.bool_:
        return " ".join(str(int(value)) for value in values)
    return " ".join(f"{int.from_bytes(value.tobytes(), sys.byteorder):0{width}x}" for value in values)


def bfloat(values):
    """The nearest numbers with the upper half of a float's bits."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def casts_from(name, values):
    column = np.array(values).astype(TYPES[name])
    lines.append(f"in {name}-integers 0 {name} {bits_of(column)}")
    for target in [*TYPES, *FLOATS, "__bfloat"]:
        if target == name or not {name, target} & set(NEW):
            continue
        if target == "__bfloat":
            result = bfloat(column)
        elif target == "__half":
            result = column.astype(np.float32).astype(np.float16)
        else:
            result = column.astype({**TYPES, **FLOATS}[target])
        # nvFuser has one name for the casts of all integers to a narrow float.
        narrow = f"__{'bool' if name == 'bool' else 'int'}2{WORDS[target]}"
        text = narrow if target.startswith("__") else f"__to_{WORDS[target]}"
        lines.append(f"{text}({{0}}) {target} exact {name}-integers {bits_of(result)}")


def casts_of_reals(name):
    """A real that an integer type does not hold is undefined in C++; ours goes through 64 bits with a sign and wraps."""
    edges = [127.9, 128.0, 255.9, 256.0, 300.0, 32767.0, 65504.0, 65535.0, 70000.0, 4294967040.0, 4294967296.0, 1e10, 9.3e18, 1.8e19]
    values = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.75, -2.75, -128.0, -129.5, -32768.0, *edges]
    if name == "__half":
        values = [value for value in values if abs(value) <= 65504]
    column = np.array(values, FLOATS[name])
    lines.append(f"in {name}-whole 0 {name} {bits_of(column)}")
    for target in NEW:
        whole = [math.trunc(float(value)) for value in column]
        signed = lambda value: -(1 << 63) <= value < 1 << 63
        found = [value if signed(value) or target == "uint64_t" else None for value in whole]
        named = "uint" if target == "uint64_t" else "uint32" if target.startswith("uint") else "int32"
        text = f"__half2{named}" if name == "__half" else f"__to_{WORDS[target]}"
        lines.append(f"{text}({{0}}) {target} exact {name}-whole {words(found, target)}")


def parts():
    """A real number is its own real part, and has no imaginary one."""
    column = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf], np.float32)
    lines.append(f"in float-parts 0 float {bits_of(column)}")
    lines.append(f"std::real({{0}}) float exact float-parts {bits_of(column)}")
    lines.append(f"std::imag({{0}}) float exact float-parts {bits_of(np.zeros_like(column))}")


def main():
    for name in NEW:
        unary(name)
        binary(name)
        divisions(name)
        ternary(name)
    for name in TYPES:
        if name == "bool":
            casts_from(name, [False, True])
            continue
        low, high, _ = limits(name)
        some = [0, 1, 127, 128, 200, 255, 256, 448, 2049, 65519, 65520, 16777217, (1 << 31) - 1, (1 << 32) - 1, (1 << 40) + 5, 1 << 63, -1, -77]
        casts_from(name, np.array([value for value in [*some, low, high, high // 2] if low <= value <= high], object))
    for name in FLOATS:
        casts_of_reals(name)
    parts()
    head = f"# Made by make_integers.py beside it, with numpy {np.__version__}.\n"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("integers.txt")
    path.write_text(head + "\n".join(lines) + "\n")


main()
