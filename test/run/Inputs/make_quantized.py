"""Writes quantized.safetensors: what the arithmetic of nvFuser's kernels makes of blocks, in single precision.

mxFP8 has blocks of 32 elements of `__e4m3`; a scale is the largest magnitude over 448, rounded up to a power of two.
nvFP4 has blocks of 16 elements of `__e2m1`; a scale is the largest magnitude over 6, rounded to `__e4m3`.
"""

import os

import numpy as np
from tensors import save

FOLDER = os.path.dirname(os.path.abspath(__file__))
F32 = np.float32


def numbers(exponent_bits, mantissa_bits, bias, count):
    """The first nonnegative numbers of a format, in order of their codes."""
    out = []
    for code in range(count):
        exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        if exponent:
            out.append((1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias))
        else:
            out.append(mantissa / (1 << mantissa_bits) * 2.0 ** (1 - bias))
    return np.array(out)


E4M3, E2M1 = numbers(4, 3, 7, 127), numbers(2, 1, 1, 8)


def nearest(values, table):
    """To the nearest number of a table, ties to the even code, beyond the last to the last."""
    size = np.abs(values.astype("f8"))
    high = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    below, above = size - table[high - 1], table[high] - size
    up = (above < below) | ((above == below) & (high % 2 == 0))
    out = np.where(size >= table[-1], table[-1], table[np.where(up, high, high - 1)])
    return np.copysign(out, values).astype(F32)


def mxfp8(x):
    blocks = x.astype(F32).reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    scaled = np.abs(blocks).max(-1) * (F32(1) / F32(448))
    fraction, exponent = np.frexp(scaled)
    power = np.where(scaled == 0, -127, np.where(fraction == 0.5, exponent - 1, exponent)).clip(-127, 127)
    inverse = np.where(power == -127, 1.0, 2.0**-power).astype(F32)
    return np.exp2(power.astype("f8")).astype(F32), nearest(blocks * inverse[..., None], E4M3).reshape(x.shape)


def nvfp4(x):
    blocks = x.astype(F32).reshape(*x.shape[:-1], x.shape[-1] // 16, 16)
    scales = nearest(np.abs(blocks).max(-1) / F32(6), E4M3)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.minimum(F32(1) / scales, np.finfo(F32).max)
    return scales, nearest(blocks * inverse[..., None], E2M1).reshape(x.shape)


def operand(shape, dtype, seed):
    """Magnitudes over many powers of two, with a block of zeros."""
    random = np.random.default_rng(seed)
    out = random.standard_normal(shape) * np.exp2(random.integers(-6, 7, (*shape[:-1], 1)))
    if out.size:
        out.reshape(-1)[:32] = 0
    return out.astype(dtype)


table = {}
for name, shape, dtype, seed in [
    ("float", (5, 96), "float32", 1),
    ("half", (3, 1, 64), "float16", 2),
    ("one", (1, 32), "float32", 3),
    ("none", (0, 64), "float32", 4),
]:
    x = operand(shape, dtype, seed)
    table[name] = x
    table[f"{name}.mxfp8.scales"], table[f"{name}.mxfp8"] = mxfp8(x)
    table[f"{name}.nvfp4.scales"], table[f"{name}.nvfp4"] = nvfp4(x)
save(FOLDER, "quantized.safetensors", table)
