#!/usr/bin/env python3
"""Writes a flat program of N ops, as a host program or for mlir-opt, for measuring canonicalize and cse.

usage: flat.py (hir | hir-short | mlir) N > file

Groups of eight ops, each of which reads the group before it. In each group one op can be folded and one
repeats its neighbour, so both passes have the same share of work in either language: of the host program
canonicalize removes one op of eight and cse one, of the MLIR program likewise. `hir` writes every tensor
in full, as nvFuser prints it; `hir-short` by its number once it is known.
"""

import sys


def host(ops, short):
    """add, relu, relu again, mul, exp, sub, and a stream that is set twice."""
    full = lambda number: f"T{number}_l_float[iS{2 * number}{{i0}}, iS{2 * number + 1}{{i1}}]"
    use = (lambda number: f"T{number}") if short else full
    body, number, before = [], 1, 1
    for group in range(ops // 8):
        a, b, c, d, e, f = (number + k for k in range(1, 7))
        body.append(
            f"  {full(a)}\n     = {use(before)}\n     + {use(0)};\n"
            f"  {full(b)}\n     = relu({use(a)});\n"
            f"  {full(c)}\n     = relu({use(a)});\n"
            f"  {full(d)}\n     = {use(b)}\n     * {use(c)};\n"
            f"  {full(e)}\n     = expf({use(d)});\n"
            f"  {full(f)}\n     = {use(e)}\n     - {use(a)};\n"
            f"  SetCurrentStream to Stream 0\n"
            f"  SetCurrentStream to Stream {group % 2 + 1}\n"
        )
        number, before = f, f
    print(f"%HostIrContainer {{ ({full(0)}, {full(1)}) -> ({full(number)}) :")
    print("".join(body), end="")
    print("} // %HostIrContainer")


def mlir(ops):
    """addi, addi of a zero, remui, remui again, load, mulf, store, and a call."""
    print("func.func private @launch(index, f32)")
    print("func.func @main(%a: memref<?xf32>, %b: memref<?xf32>, %n: index, %s: index) {")
    print("  %zero = arith.constant 0 : index")
    before = "%n"
    for group in range(ops // 8):
        name = lambda what: f"%{what}{group}"
        print(
            f"  {name('i')} = arith.addi {before}, %s : index\n"
            f"  {name('j')} = arith.addi {name('i')}, %zero : index\n"
            f"  {name('k')} = arith.remui {name('j')}, %s : index\n"
            f"  {name('l')} = arith.remui {name('j')}, %s : index\n"
            f"  {name('u')} = memref.load %a[{name('k')}] : memref<?xf32>\n"
            f"  {name('m')} = arith.mulf {name('u')}, {name('u')} : f32\n"
            f"  memref.store {name('m')}, %b[{name('l')}] : memref<?xf32>\n"
            f"  func.call @launch({name('l')}, {name('m')}) : (index, f32) -> ()"
        )
        before = name("k")
    print("  return\n}")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("hir", "hir-short", "mlir"):
        sys.exit(__doc__)
    ops = int(sys.argv[2])
    if sys.argv[1] == "mlir":
        mlir(ops)
    else:
        host(ops, sys.argv[1] == "hir-short")


if __name__ == "__main__":
    main()
