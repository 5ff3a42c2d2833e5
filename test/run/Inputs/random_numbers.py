"""Writes random_numbers.safetensors: what rng_* make, by numpy's integers, so that no expectation comes from our code.

    python3 test/run/Inputs/random_numbers.py

The generator is Philox 4x32-10 of Salmon et al. (2011); words are checked against the published vectors of Random123,
and numbers against those that torch documents for CUDA, whose generator is the same.
"""

import os

import numpy as np
from tensors import save

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def philox(seed, subsequence, offset):
    """Four words for each subsequence."""
    subsequence = np.asarray(subsequence, np.uint64)
    parts = [offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF]
    c = [*(np.full(subsequence.shape, part, np.uint64) for part in parts), subsequence & LOW, subsequence >> HALF]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [b >> HALF ^ c[1] ^ np.uint64(key[0]), b & LOW, a >> HALF ^ c[3] ^ np.uint64(key[1]), a & LOW]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return np.stack(c, -1)


def raw(count, dtype, seed, offset):
    """Numbers above 0 and up to 1."""
    if dtype == np.float64:
        words = philox(seed, np.arange(-(-count // 2)), offset).reshape(-1, 2)[:count]
        return (words[:, 0] ^ words[:, 1] << np.uint64(21)).astype(dtype) * 2.0**-53 + 2.0**-54
    words = philox(seed, np.arange(-(-count // 4)), offset).reshape(-1)[:count]
    return words.astype(np.uint32).astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)


def uniform(count, dtype, seed, offset=0):
    numbers = raw(count, dtype, seed, offset).astype(dtype)
    return np.where(numbers == 1, dtype(0), numbers)


def fused(a, b, c):
    """a * b + c, rounded once."""
    return (a.astype(np.longdouble) * np.longdouble(b) + np.longdouble(c)).astype(a.dtype)


def uniform_range(count, dtype, low, high, seed, offset=0):
    if dtype != np.float16:
        return fused(uniform(count, dtype, seed, offset), dtype(high) - dtype(low), dtype(low))
    numbers = fused(raw(count, dtype, seed, offset), np.float32(high) - np.float32(low), np.float32(low)).astype(dtype)
    return np.where(numbers == dtype(high), dtype(low), numbers)


def normal(count, dtype, seed, offset=0):
    wide = np.float64 if dtype == np.float64 else np.float32
    pairs = uniform(count + count % 2, wide, seed, offset).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log(pairs[:, 0])), pairs[:, 1] * wide(6.283185307179586)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], -1).reshape(-1)[:count].astype(dtype)


def check():
    vectors = {(0, 0): [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], (-1, -1): [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]}
    for (seed, counter), words in vectors.items():
        assert philox(seed, np.array([counter]).astype(np.uint64), counter)[0].tolist() == words
    # torch.manual_seed(0), then torch.rand(6, device="cuda") and torch.randn(6, device="cuda"): one subsequence each.
    known = [0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967], [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797]
    for numbers, expected in zip((uniform(24, np.float32, 0), normal(24, np.float32, 0)), known):
        assert np.round(numbers[::4], 4).tolist() == np.array(expected, np.float32).tolist()


check()
torch = {"torch_uniform": uniform(24, np.float32, 0)[::4], "torch_normal": normal(24, np.float32, 0)[::4]}
table = {name: values.copy() for name, values in torch.items()}
for name, dtype in (("f64", np.float64), ("f32", np.float32), ("f16", np.float16)):
    table[f"uniform_{name}"] = uniform(15, dtype, 7).reshape(3, 5)
    table[f"offset_{name}"] = uniform(15, dtype, -3, 1 << 33).reshape(3, 5)
    table[f"range_{name}"] = uniform_range(15, dtype, -1.5, 2.25, 1 << 40).reshape(3, 5)
    table[f"normal_{name}"] = normal(15, dtype, 7).reshape(3, 5)
    table[f"general_{name}"] = (normal(15, np.float64 if dtype == np.float64 else np.float32, 7) * 0.5 + 3).astype(dtype).reshape(3, 5)
words = philox(5, np.arange(6), 9)
table["philox"] = (words[:, 0] | words[:, 1] << HALF).view(np.int64)
save(os.path.dirname(os.path.abspath(__file__)), "random_numbers.safetensors", table)
