#!/usr/bin/env python3
"""Writes table.txt: what every pointwise function gives for operands that are hard.

usage: make.py [PATH]        needs torch, numpy and mpmath (which torch brings along)

A line of the table is one of

  in GROUP PLACE TYPE BITS...       operands: their place (0, 1, 2) in a group of operands
  EXPR RESULT LIMIT GROUP BITS...   what an expression of a group's operands gives, in elements of type RESULT

EXPR is written as in a program, with `{0}` for the operand of place 0. BITS are the elements' bits in hexadecimal (`0`, `1` for bool), with three words beside: `nan` any NaN, `zero`
a zero of either sign, `*` any value at all: what C++ leaves undefined, and overflows on the way. LIMIT is
`exact`, or how far a result may be off in units of its last place: `CPU/GPU`. The CPU's limit is 2; that of
CUDA is the error that its mathematics library documents for the function where that is more.

Exact functions and casts are torch's or numpy's in the precision of the type (`float` for the narrower ones,
rounded once at the end). The others are computed in a wider type and rounded. Where nvFuser's
runtime/helpers.cu differs from torch, it decides (docs/language.md, Pointwise functions): its formulas stand
below, each in a function of its own.
"""

import sys
from pathlib import Path

import mpmath
import numpy as np
import torch

np.seterr(all="ignore")
mpmath.mp.prec = 200
LONG = np.longdouble
TORCH = {
    "double": torch.float64, "float": torch.float32, "__half": torch.float16, "__bfloat": torch.bfloat16,
    "__e4m3": torch.float8_e4m3fn, "__e5m2": torch.float8_e5m2, "__e8m0": torch.float8_e8m0fnu,
    "int64_t": torch.int64, "int": torch.int32, "bool": torch.bool,
}
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
FLOATS = ["double", "float", "__half", "__bfloat"]
INTEGERS = {"int64_t": 64, "int": 32}
inf, nan = float("inf"), float("nan")
lines = []


def is_float(name):
    return TORCH[name].is_floating_point


def computes_in(name):
    """numpy's type that elements of a type compute in."""
    return np.float64 if name == "double" else np.float32


def words(values, name, marks=None):
    """The elements of a tensor as the table has them."""
    size = values.element_size()
    width = 1 if name == "bool" else 2 * size
    bits = values.view(BITS[size]).tolist()
    nans = torch.isnan(values.to(torch.float64)).tolist() if is_float(name) else [False] * len(bits)
    out = []
    for at, (bit, is_nan) in enumerate(zip(bits, nans)):
        word = "nan" if is_nan else f"{bit & (1 << 8 * size) - 1:0{width}x}"
        out.append((marks or {}).get(at, word))
    return " ".join(out)


def converted(tensor, name):
    """torch's cast; but newer versions of torch saturate to __e4m3, which the language never does."""
    result = tensor.to(TORCH[name])
    if name != "__e4m3":
        return result
    beyond = ~(tensor.to(torch.float32).abs() <= 464)
    code = torch.where(tensor.to(torch.float32) < 0, 0xFF, 0x7F).to(torch.uint8)
    return torch.where(beyond, code, result.view(torch.uint8)).view(TORCH[name])


def narrowed(values, name):
    """numpy's numbers as elements of a type, rounded as torch does."""
    values = np.asarray(values)
    if values.dtype == LONG:
        values = values.astype(np.float64)
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    if is_float(name) and name != "double" and tensor.dtype == torch.float64:
        tensor = tensor.to(torch.float32)
    return converted(tensor, name)


SIGNS = {
    "neg": "-", "not": "!", "bitwise_not": "~", "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%",
    "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "ge": ">=", "gt": ">", "le": "<=", "lt": "<",
    "logical_and": "&&", "logical_or": "||", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}
NARROW = {"__half": "half", "__bfloat": "bfloat", "__e4m3": "e4m3", "__e5m2": "e5m2", "__e8m0": "e8m0"}
PLAIN = {"double": "double", "float": "float", "int64_t": "int64", "int": "int32", "bool": "bool"}


def cast(source, target):
    """The cast's name; between two plain types it only says what the result is."""
    if source in PLAIN and target in PLAIN:
        return f"__to_{PLAIN[target]}"
    name = {**PLAIN, **NARROW, "int64_t": "int"}
    return f"__{name[source]}2{name[target]}"


def expression(function, source, result, operands):
    if function in SIGNS:
        return f"{SIGNS[function]}{{0}}" if operands == 1 else f"{{0}}{SIGNS[function]}{{1}}"
    name = cast(source, result) if function == "cast" else function
    return f"{name}({','.join(f'{{{k}}}' for k in range(operands))})"


class Group:
    """Operands of a type. `wide` are the values in what the type computes in."""

    def __init__(self, name, label, columns):
        self.name, self.label = name, label
        self.columns = [c if isinstance(c, torch.Tensor) else narrowed(np.array(c), name) for c in columns]
        if is_float(name):
            self.wide = [c.to(torch.float64 if name == "double" else torch.float32).numpy() for c in self.columns]
        else:
            self.wide = [c.numpy() for c in self.columns]
        for place, column in enumerate(self.columns):
            kind = next(key for key, value in TORCH.items() if value == column.dtype)
            lines.append(f"in {name}-{label} {place} {kind} {words(column, kind)}")

    def row(self, function, result, limit, values, marks=None):
        tensor = values if isinstance(values, torch.Tensor) else narrowed(values, result)
        text = expression(function, self.name, result, len(self.columns))
        lines.append(f"{text} {result} {limit} {self.name}-{self.label} {words(tensor, result, marks)}")


# ---- helpers.cu, where it differs from torch or says more ----


def h_max(a, b):
    return np.where(np.isnan(a) | (a > b), a, b)


def h_min(a, b):
    return np.where(np.isnan(b), b, np.where(a > b, b, a))


def h_clamp(x, low, high):
    return h_min(h_max(x, low), high)


def h_relu(x):
    """Minus zero becomes zero."""
    return np.where(x <= 0, x.dtype.type(0), x)


def h_remainder(a, b):
    mod = np.fmod(a, b)
    return np.where((mod != 0) & ((b < 0) != (mod < 0)), mod + b, mod)


def h_lerp(start, end, weight):
    """torch looks at the weight's magnitude."""
    one, half = weight.dtype.type(1), weight.dtype.type(0.5)
    return np.where(weight < half, start + weight * (end - start), end - (end - start) * (one - weight))


def h_sigmoid(x):
    """Below -88 a float's exponential overflows, and the result is 0."""
    one = x.dtype.type(1)
    return one / (one + np.exp((-x).astype(LONG)).astype(x.dtype))


def h_silu(x):
    return x * h_sigmoid(x)


def h_pow(a, b):
    if b < 0:
        return 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    return pow(a, b) if abs(a) < 2 or b < 64 else pow(a, b, 1 << 64)


def h_ceil_div(a, b):
    return divided(a + b - 1, b)


# ---- C++ ----


def divided(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def wrapped(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# ---- functions of reals ----

NEAR = {
    "acos": (np.arccos, 3), "acosh": (np.arccosh, 4), "asin": (np.arcsin, 4), "asinh": (np.arcsinh, 4),
    "atan": (np.arctan, 2), "atanh": (np.arctanh, 3), "cos": (np.cos, 2), "cosh": (np.cosh, 2),
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "expm1": (np.expm1, 2), "log": (np.log, 2),
    "log10": (np.log10, 2), "log1p": (np.log1p, 2), "log2": (np.log2, 2), "sin": (np.sin, 2),
    "sinh": (np.sinh, 3), "tan": (np.tan, 4), "tanh": (np.tanh, 2),
}


def special(name):
    """erf, erfc and lgamma, correctly rounded to double."""

    def one(x):
        x = float(x)
        if np.isnan(x):
            return nan
        if np.isinf(x):
            return {"erf": np.sign(x), "erfc": 0.0 if x > 0 else 2.0, "lgamma": inf}[name]
        if name == "lgamma":
            pole = x <= 0 and x == int(x)
            return inf if pole or x > 2.6e305 else float(mpmath.re(mpmath.loggamma(abs(x)))) if x > 0 else reflected(x)
        if name == "erf" and x == 0:
            return x
        if name != "lgamma" and abs(x) > 30:
            return one(np.copysign(inf, x))
        return float(getattr(mpmath, name)(x))

    return np.vectorize(one, otypes=[np.float64])


def reflected(x):
    """log|gamma(x)| of a negative number."""
    x = mpmath.mpf(x)
    return float(mpmath.log(mpmath.pi / abs(mpmath.sin(mpmath.pi * x))) - mpmath.re(mpmath.loggamma(1 - x)))


def inverse(name):
    """erfinv and erfcinv, correctly rounded to double. With 1400 bits, 1 - y is exact for every double y."""

    def one(x):
        x = float(x)
        low, high = (-1, 1) if name == "erfinv" else (0, 2)
        if not low <= x <= high:
            return nan
        if x in (low, high):
            return inf if (x == high) == (name == "erfinv") else -inf
        if x == (low + high) / 2:
            return x if name == "erfinv" else 0.0
        with mpmath.workprec(1400):
            y = mpmath.mpf(x) if name == "erfinv" else 1 - mpmath.mpf(x)
            # A first value from a wider neighbourhood, then Newton's method on the logarithm of erfc.
            z = -mpmath.log1p(-abs(y)) if abs(y) > 0.5 else None
            root = mpmath.sqrt(z) if z else abs(y) * mpmath.sqrt(mpmath.pi) / 2
            for _ in range(60):
                erfc = mpmath.erfc(root)
                slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-root * root)
                step = mpmath.log(erfc / (1 - abs(y))) * erfc / slope
                root += step
                if abs(step) < abs(root) * mpmath.mpf(2) ** -120:
                    break
            return float(mpmath.sign(y) * root)

    return np.vectorize(one, otypes=[np.float64])


INVERSES = (("erfinv", 5), ("erfcinv", 6))


def inverses(name):
    """What the inverses of erf and erfc find hard: near 0, near the ends, where the methods change."""
    ends = [2.0**-10, 2.0**-24, 2.0**-25, 2.0**-40, 2.0**-52, 2.0**-53, 1e-5, 1e-3]
    small = [1e-10, 1e-9, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.33, 0.4, 0.45, 0.4999, 0.5, 0.5001, 0.6, 0.7, 0.8, 0.9, 0.97]
    tiny = [5e-324, 1e-320, 1e-310, 2.3e-308, 1e-300, 1e-281, 1e-280, 1e-279, 1e-200, 1e-100, 1e-45, 1e-38, 1e-37, 1e-30, 1e-20, 6e-8]
    whole = [1 + v for v in (0.05, 0.2, 0.3, 0.49, 0.5, 0.51, 0.7, 0.9, 0.999, 0.999999)]
    group = Group(name, "i", [ends + small + tiny + whole + [1 - v for v in ends] + [-v for v in ends + small + tiny[:5]] + [2 - 2 * v for v in ends[:6]]])
    for function, gpu in INVERSES:
        group.row(function, name, f"2/{gpu}", inverse(function)(group.wide[0]))


def unary(group):
    name, (x,) = group.name, group.wide
    exact = {
        "neg": -x, "abs": np.abs(x), "ceil": np.ceil(x), "floor": np.floor(x), "trunc": np.trunc(x),
        "nearbyint": np.rint(x), "frac": x - np.trunc(x), "sqrt": np.sqrt(x), "reciprocal": x.dtype.type(1) / x,
        "relu": h_relu(x), "print": x,
    }
    for function, values in exact.items():
        group.row(function, name, "exact", values)
    for function, (reference, gpu) in NEAR.items():
        group.row(function, name, f"2/{gpu}", reference(x.astype(LONG)))
    for function, gpu in (("erf", 2), ("erfc", 5), ("lgamma", 6)):
        values = special(function)(x)
        # Next to its zeros below 0, lgamma is the difference of two logarithms: libraries lose digits there.
        lost = np.nonzero((function == "lgamma") & (x < 0) & (np.abs(values) < 1))[0].tolist()
        group.row(function, name, f"2/{gpu}", values, dict.fromkeys(lost, "*"))
    for function, gpu in INVERSES:
        group.row(function, name, f"2/{gpu}", inverse(function)(x))
    group.row("rsqrt", name, "2/2", LONG(1) / np.sqrt(x.astype(LONG)))
    group.row("sigmoid", name, "2/3", h_sigmoid(x))
    group.row("silu", name, "2/4", h_silu(x))
    tests = {
        "not": x == 0, "signbit": np.signbit(x), "isfinite": np.isfinite(x), "isinf": np.isinf(x), "isnan": np.isnan(x),
        "isneginf": np.isneginf(x), "isposinf": np.isposinf(x), "isreal": np.ones_like(x, bool),
    }
    for function, values in tests.items():
        # A NaN's sign depends on who made it.
        unknown = np.nonzero(np.isnan(x) & (function == "signbit"))[0].tolist()
        group.row(function, "bool", "exact", values, dict.fromkeys(unknown, "*"))


def comparisons(group, a, b):
    found = {"eq": a == b, "ne": a != b, "ge": a >= b, "gt": a > b, "le": a <= b, "lt": a < b}
    found |= {"logical_and": (a != 0) & (b != 0), "logical_or": (a != 0) | (b != 0)}
    for function, values in found.items():
        group.row(function, "bool", "exact", values)


def binary(group):
    name, (a, b) = group.name, group.wide
    exact = {
        "add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "fmod": np.fmod(a, b), "remainder": h_remainder(a, b),
        "max": h_max(a, b), "min": h_min(a, b),
    }
    ours = exact["remainder"]
    theirs = torch.remainder(torch.from_numpy(a), torch.from_numpy(b)).numpy()
    # torch's vectorized fmod gives NaN where the quotient overflows.
    known = np.isfinite(a / b) | ~np.isfinite(a) | ~np.isfinite(b)
    assert np.array_equal(ours[known], theirs[known], equal_nan=True), "torch's remainder"
    for function, values in exact.items():
        group.row(function, name, "exact", values)
    zeros = dict.fromkeys(np.nonzero((a == 0) & (b == 0))[0].tolist(), "zero")
    group.row("fmax", name, "exact", np.fmax(a, b), zeros)
    group.row("fmin", name, "exact", np.fmin(a, b), zeros)
    if name in ("double", "float"):
        group.row("nextafter", name, "exact", np.nextafter(a, b))
    group.row("atan2", name, "2/3", np.arctan2(a.astype(LONG), b.astype(LONG)))
    group.row("pow", name, "2/4", np.power(a.astype(LONG), b.astype(LONG)))
    comparisons(group, a, b)


def ternary(group):
    name, (a, b, c) = group.name, group.wide
    group.row("clamp", name, "exact", h_clamp(a, b, c))
    group.row("threshold", name, "exact", np.where(a <= b, c, a))
    group.row("lerp", name, "2/2", h_lerp(a, b, c))


def choice(name, columns):
    """`where`: the condition is of bool."""
    a, b, c = (c if isinstance(c, torch.Tensor) else narrowed(np.array(c), name) for c in columns)
    picked = Group(name, "where", [a.to(torch.float64) > 0 if is_float(name) else a > 0, b, c])
    picked.row("where", name, "exact", torch.where(picked.columns[0], b, c))


def crossed(values, other=None):
    other = values if other is None else other
    return [[a for a in values for _ in other], [b for _ in values for b in other]]


def reals(name):
    dtype = TORCH[name]
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps
    hard = [nan, inf, -inf, 0.0, -0.0, info.max, info.min, info.smallest_normal, -info.smallest_normal, least, -least]
    plain = [1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 0.75, -0.75, 0.1, 2, 3, -3, 10, -10, 100, -100, 1e-3, 30, -30, 0.9999, 5e4, -7.25]
    unary(Group(name, "1", [hard + plain]))
    inverses(name)
    pair = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 3.0, info.max, least, -info.smallest_normal]
    binary(Group(name, "2", crossed(pair)))
    steps = Group(name, "r", [[-0.5, -5.5, 7, -7, 5.25, -3, 3, 0.1, 1e-3], [2, 3, -3, 3, -2.5, 1, -1, -0.03, 7]])
    binary(steps)
    some = [nan, inf, -inf, -0.0, 0.0, 2.0, -1.5]
    rest = [(a, b, c) for a in some for b in (nan, -1.0, 1.0, inf) for c in (nan, 0.0, 2.0, -inf)]
    ternary(Group(name, "3", [[r[k] for r in rest] for k in range(3)]))
    weights = [(1, 3, w) for w in (0, 0.25, 0.5, 0.75, 1, 2, -1, -0.75)] + [(0.1, 100, w) for w in (0, 0.3, 0.5, 0.9, 1)]
    ternary(Group(name, "w", [[w[k] for w in weights] for k in range(3)]))
    picks = [(a, b, c) for a in (1.0, 0.0) for b in (nan, -0.0, 2.5) for c in (inf, 1.0)]
    choice(name, [[p[k] for p in picks] for k in range(3)])


# ---- functions of integers ----


def whole(group, function, bits, values, marks=None):
    numbers = [0 if value is None else wrapped(value, bits) for value in values]
    unknown = {at: "*" for at, value in enumerate(values) if value is None}
    group.row(function, group.name, "exact", np.array(numbers, dtype=np.int64).astype(group.wide[-1].dtype), unknown | (marks or {}))


def gcd(a, b, low):
    import math

    return None if low in (a, b) else math.gcd(a, b)


def integers(name, bits):
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    dtype = np.int64 if bits == 64 else np.int32
    values = [0, 1, -1, 2, -2, 3, -7, 10, 31, 62, high, low, low + 1, high - 1, 1 << (bits // 2), 123456789]
    one = Group(name, "1", [np.array(values, dtype)])
    found = {"neg": lambda a: -a, "bitwise_not": lambda a: ~a, "relu": lambda a: max(a, 0)}
    found |= {f: (lambda a: a) for f in ("ceil", "floor", "nearbyint", "trunc", "print")}
    # Not representable: C++ leaves it undefined.
    found["bit_ceil"] = lambda a: 1 if a == 0 else None if a < 0 or a > 1 << (bits - 2) else 1 << (a - 1).bit_length()
    found["abs"] = lambda a: None if a == low else abs(a)
    for function, f in found.items():
        whole(one, function, bits, [f(a) for a in values])
    x = one.wide[0]
    tests = {"not": x == 0, "signbit": x < 0, "isfinite": x == x, "isinf": x != x, "isnan": x != x, "isreal": x == x}
    for function, truth in tests.items():
        one.row(function, "bool", "exact", truth)
    pairs = crossed([0, 1, -1, 2, -2, 3, -7, 10, bits - 1, bits, high, low, 12345])
    two = Group(name, "2", [np.array(column, dtype) for column in pairs])
    ab = list(zip(*pairs))
    shift = lambda f: [f(a, b) if 0 <= b < bits else None for a, b in ab]
    whole(two, "add", bits, [a + b for a, b in ab])
    whole(two, "sub", bits, [a - b for a, b in ab])
    whole(two, "mul", bits, [a * b for a, b in ab])
    for function in ("max", "fmax"):
        whole(two, function, bits, [max(a, b) for a, b in ab])
    for function in ("min", "fmin"):
        whole(two, function, bits, [min(a, b) for a, b in ab])
    whole(two, "bitwise_and", bits, [a & b for a, b in ab])
    whole(two, "bitwise_or", bits, [a | b for a, b in ab])
    whole(two, "bitwise_xor", bits, [a ^ b for a, b in ab])
    whole(two, "lshift", bits, shift(lambda a, b: a << b))
    whole(two, "rshift", bits, shift(lambda a, b: a >> b))
    whole(two, "gcd", bits, [gcd(a, b, low) for a, b in ab])
    whole(two, "pow", bits, [h_pow(a, b) for a, b in ab])
    comparisons(two, *two.wide)
    powers = [[3, 3, -3, 7, 2, 2, 2, -2, 10, 5, -1, -1, 1, 0, 0], [39, 40, 39, 22, 62, 63, 64, 63, 18, 27, -3, -4, -9, 0, -1]]
    power = Group(name, "p", [np.array(column, dtype) for column in powers])
    whole(power, "pow", bits, [h_pow(a, b) for a, b in zip(*powers)])
    pairs = crossed([0, 1, -1, 5, -5, 7, -7, 100, high, low, low + 1], [1, -1, 2, -2, 3, -3, 7, high, low])
    by = Group(name, "d", [np.array(column, dtype) for column in pairs])
    ab = list(zip(*pairs))
    fits = lambda a, b: not (a == low and b == -1)
    rest = lambda a, b: a - b * divided(a, b)
    whole(by, "div", bits, [divided(a, b) if fits(a, b) else None for a, b in ab])
    whole(by, "mod", bits, [rest(a, b) if fits(a, b) else None for a, b in ab])
    whole(by, "remainder", bits, [a - b * (a // b) if fits(a, b) else None for a, b in ab])
    inside = lambda a, b: low <= a + b <= high and low <= a + b - 1 and fits(a + b - 1, b)
    whole(by, "ceilDiv", bits, [h_ceil_div(a, b) if inside(a, b) else None for a, b in ab])
    triples = [(a, b, c) for a in (low, -5, 0, 9, high) for b in (-2, 4, high) for c in (low, 3, 6)]
    three = Group(name, "3", [np.array(column, dtype) for column in zip(*triples)])
    whole(three, "clamp", bits, [min(max(a, b), c) for a, b, c in triples])
    whole(three, "threshold", bits, [c if a <= b else a for a, b, c in triples])
    choice(name, three.columns)


def truths():
    one = Group("bool", "1", [np.array([False, True])])
    one.row("not", "bool", "exact", ~one.wide[0])
    one.row("bitwise_not", "bool", "exact", ~one.wide[0])
    one.row("print", "bool", "exact", one.wide[0])
    two = Group("bool", "2", [np.array(column) for column in crossed([False, True])])
    a, b = two.wide
    for function, values in (("bitwise_and", a & b), ("bitwise_or", a | b), ("bitwise_xor", a ^ b)):
        two.row(function, "bool", "exact", values)
    for function, values in (("max", a | b), ("min", a & b), ("add", a | b), ("mul", a & b)):
        two.row(function, "bool", "exact", values)
    comparisons(two, a.astype(np.int8), b.astype(np.int8))
    choice("bool", [np.array([bool(k & bit) for k in range(8)]) for bit in (4, 2, 1)])


# ---- 8-bit floats, and casts ----


def eights(name):
    """A few functions: they compute in float and round once."""
    every = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(TORCH[name])
    one = Group(name, "1", [every])
    (x,) = one.wide
    for function, values in (("neg", -x), ("abs", np.abs(x)), ("relu", h_relu(x)), ("sqrt", np.sqrt(x)), ("floor", np.floor(x))):
        one.row(function, name, "exact", values)
    one.row("isnan", "bool", "exact", np.isnan(x))
    picks = every[::19]
    pairs = crossed(list(range(len(picks))))
    two = Group(name, "2", [picks.view(torch.uint8)[torch.tensor(column)].view(TORCH[name]) for column in pairs])
    a, b = two.wide
    for function, values in (("add", a + b), ("mul", a * b), ("max", h_max(a, b)), ("min", h_min(a, b))):
        two.row(function, name, "exact", values)
    comparisons(two, a, b)


def casts():
    edges = [16777217, 2049, 65504, 65519, 65520, 448, 464, 465, 57344, 61439, 61440, 2147483647, 4294967297, 255, 256.5, 3.3e38]
    small = [0.1, 1.00048828125, 1.00146484375, 2.0**-24, 2.0**-25, 2.0**-149, 2.0**-127, 1.5 * 2.0**-10, 0.3333333333333333]
    for source in [*FLOATS, "__e4m3", "__e5m2", "__e8m0", *INTEGERS, "bool"]:
        if is_float(source):
            values = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.75, -2.75, *edges, *(-e for e in edges), *small, *(-s for s in small)]
            group = Group(source, "cast", [np.array(values, np.float64)])
        elif source == "bool":
            group = Group(source, "cast", [np.array([False, True])])
        else:
            bits = INTEGERS[source]
            values = [0, 1, -1, 127, 255, 448, 2049, 65519, 65520, 16777217, -16777219, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), 1 << (bits - 2), (1 << (bits - 8)) + 1]
            group = Group(source, "cast", [np.array(values, np.int64 if bits == 64 else np.int32)])
        (column,) = group.columns
        for target in TORCH:
            eight = lambda name: TORCH[name].itemsize == 1 and is_float(name)
            if target == source or (eight(source) and eight(target)):
                continue
            marks = {}
            if is_float(source) and target in INTEGERS:
                limit = 2.0 ** (INTEGERS[target] - 1)
                wide = column.to(torch.float64).tolist()
                marks = {at: "*" for at, x in enumerate(wide) if not -limit <= np.trunc(x) < limit}
            group.row("cast", target, "exact", converted(column, target), marks)
        for target in TORCH:
            # A NaN's bits, and those of a bool other than 0 and 1, depend on who made them.
            if "bool" not in (target, source) and target != source and TORCH[target].itemsize == TORCH[source].itemsize:
                unknown = np.nonzero(torch.isnan(column.to(torch.float64)).numpy())[0].tolist()
                group.row("bit_cast", target, "exact", column.view(TORCH[target]), dict.fromkeys(unknown, "*"))


def main():
    for name in FLOATS:
        reals(name)
    for name, bits in INTEGERS.items():
        integers(name, bits)
    truths()
    for name in ("__e4m3", "__e5m2"):
        eights(name)
    casts()
    head = f"# Made by make.py beside it, with torch {torch.__version__} and numpy {np.__version__}.\n"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("table.txt")
    path.write_text(head + "\n".join(lines) + "\n")


main()
