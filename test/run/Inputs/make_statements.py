"""Writes statements.safetensors: inputs and results of the programs of docs/statements."""

import os

import numpy as np
from tensors import save

FOLDER = os.path.dirname(os.path.abspath(__file__))
RANKS, N = 4, 8


def drawn(*shape):
    """Numbers with few bits, so that sums are exact."""
    return np.random.default_rng(1).integers(-16, 17, shape).astype("f4") / 8


def relu(values):
    """The positive part."""
    return np.maximum(values, 0)


def main():
    x, y, rows = drawn(RANKS, N), drawn(2, RANKS, N)[1], drawn(RANKS, 6, N)
    tensors = np.stack([np.exp(x[0]) + x[1], y[1], relu(x[2]), np.maximum(x[3], y[3])])
    control = np.concatenate([relu(rows[:, :2]), rows[:, 2:]], axis=1)
    for first in (2, 4):
        control[:, first] = np.exp(rows[:, first])
        control[:-1, first + 1] = -rows[:-1, first + 1]
    entries = {
        "x": x,
        "y": y,
        "rows": rows,
        "tensors.z": tensors,
        "control.y": control,
        "streams.y": np.exp(x),
        "streams.z": np.exp(x),
        "communication.s": x.sum(axis=0),
        "communication.r": np.roll(x, 1, axis=0),
        "kernels.z": x[0] * 2 + y[0],
        "x0": x[0],
        "y0": y[0],
    }
    save(FOLDER, "statements.safetensors", entries)


if __name__ == "__main__":
    main()
