#!/usr/bin/env python3
"""Writes a host program in the printed form, for measuring hir-opt.

usage: generate.py (--ops N | --megabytes M) > file.hir

The program is a sequence of stream-pipelined allgather+matmul loops over tensors of their own, as
stream lowering prints them: 14 ops a loop, about 300 bytes an op.
"""

import argparse
import sys

MESH = "(DeviceMesh{0 1 2 3 4 5 6 7})"


class Numbers:
    """Numbers tensors and domains in order of appearance."""

    def __init__(self):
        self.tensors = 0
        self.domains = 0

    def tensor(self, memory, axes):
        text = f"T{self.tensors}_{memory}_float["
        self.tensors += 1
        parts = []
        for kind, extent in axes:
            parts.append(f"{kind}{self.domains}{{{extent}}}")
            self.domains += 1
        return text + ", ".join(parts) + f"] {MESH}"


def allocate(indent, tensor, size):
    return (
        f"{indent}{tensor} = ALLOCATE(buffer={tensor}, mem_type=global, size={size}, "
        "zero_init=false, resets_to_zero=false)\n"
    )


def select(tensor, source, axis):
    return f"    {tensor}\n       = HirAliasSelect( {source}, axis = {axis}, index = StreamIdx )\n"


def axis(tensor, position):
    return tensor[tensor.index("[") + 1 : tensor.index("]")].split(", ")[position]


def loop(n, number, a, b):
    """One pipelined loop: 14 ops."""
    gathered = n.tensor("g", [("iStreamIdx", "i0"), ("iS", "i2"), ("iS", "i3"), ("iS", "i4")])
    product = n.tensor(
        "g", [("iStreamIdx", "i0"), ("iS", "i2"), ("iS", "i3"), ("iS", "i6"), ("rS", "i4")]
    )
    a_i = n.tensor("g", [("ideviceIdx.x", "i2"), ("iS", "i3"), ("iS", "i4")])
    g_i = n.tensor("g", [("iS", "i2"), ("iS", "i3"), ("iS", "i4")])
    p_i = n.tensor("l", [("iS", "i2"), ("iS", "i3"), ("iS", "i6"), ("rS", "i4")])
    text = allocate("  ", gathered, "( ( ( i0 * i2 ) * i3 ) * i4 )")
    text += allocate("  ", product, "( ( ( i0 * i2 ) * i3 ) * i6 )")
    text += f"  FOR StreamIdx in {axis(gathered, 0)}:\n"
    text += "    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )\n"
    text += "    Synchronize Stream 0\n"
    text += select(a_i, a, axis(a, 0))
    text += select(g_i, gathered, axis(gathered, 0))
    text += allocate("    ", g_i, "( ( i2 * i3 ) * i4 )")
    text += (
        f"    Communication {number} (type=Allgather, team=(0 1 2 3 4 5 6 7), input={a_i}, "
        f"output={g_i}, backend=NCCL)\n    Wait Communication {number}\n"
    )
    text += select(p_i, product, axis(product, 0))
    text += f"    {p_i}\n       = matmul({g_i},\n                {b})\n"
    text += "    SetCurrentStream to Stream 0\n"
    text += "    Synchronize Stream ( StreamIdx % numberOfStreams )\n"
    return text, product


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--ops", type=int)
    size.add_argument("--megabytes", type=float)
    options = parser.parse_args()
    n = Numbers()
    a = n.tensor("g", [("iS", "i0"), ("ideviceIdx.x", "i2"), ("iS", "i3"), ("iS", "i4")])
    b = n.tensor("g", [("iS", "i5"), ("iS", "i6")])
    body = ["  GetCurrentStream into Stream 0\n"]
    length, count, product = 0, 1, None
    while (options.ops and count < options.ops) or (
        options.megabytes and length < options.megabytes * 1e6
    ):
        text, product = loop(n, 1000 + count, a, b)
        body.append(text)
        length += len(text)
        count += 14
    out = sys.stdout
    out.write(f"%HostIrContainer {{ ({a}, {b}) -> ({product}) :\n")
    out.write("".join(body))
    out.write("} // %HostIrContainer\n")
    print(f"{count} ops, {length / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
