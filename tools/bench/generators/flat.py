"""Flat programs, as host programs or for mlir-opt, on which canonicalize and cse are measured.

Groups of eight ops, each of which reads the group before it. In each group one op can be folded and one repeats its neighbour, so
both passes have the same share of work in either language: of the host program canonicalize removes one op of eight and cse one, of
the MLIR program likewise. `hir` writes every tensor in full, as nvFuser prints it; `hir-short` by its number once it is known.
"""

from __future__ import annotations

from typing import TextIO

LANGUAGES = ("hir", "hir-short", "mlir")


def full_name(number: int) -> str:
    """A tensor with its axes."""
    return f"T{number}_l_float[iS{2 * number}{{i0}}, iS{2 * number + 1}{{i1}}]"


def short_name(number: int) -> str:
    """A tensor by its number."""
    return f"T{number}"


def host_program(ops: int, *, short: bool) -> str:
    """add, relu, relu again, mul, exp, sub, and a stream that is set twice."""
    full, use = full_name, short_name if short else full_name
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
    head = f"%HostIrContainer {{ ({full(0)}, {full(1)}) -> ({full(number)}) :\n"
    return head + "".join(body) + "} // %HostIrContainer\n"


def mlir_program(ops: int) -> str:
    """addi, addi of a zero, remui, remui again, load, mulf, store, and a call."""
    lines = [
        "func.func private @launch(index, f32)",
        "func.func @main(%a: memref<?xf32>, %b: memref<?xf32>, %n: index, %s: index) {",
        "  %zero = arith.constant 0 : index",
    ]
    before = "%n"
    for group in range(ops // 8):
        i, j, k, l, u, m = (f"%{letter}{group}" for letter in "ijklum")  # noqa: E741  (as the ops name them)
        lines += [
            f"  {i} = arith.addi {before}, %s : index",
            f"  {j} = arith.addi {i}, %zero : index",
            f"  {k} = arith.remui {j}, %s : index",
            f"  {l} = arith.remui {j}, %s : index",
            f"  {u} = memref.load %a[{k}] : memref<?xf32>",
            f"  {m} = arith.mulf {u}, {u} : f32",
            f"  memref.store {m}, %b[{l}] : memref<?xf32>",
            f"  func.call @launch({l}, {m}) : (index, f32) -> ()",
        ]
        before = k
    return "\n".join([*lines, "  return\n}\n"])


def write_program(out: TextIO, language: str, ops: int) -> None:
    """Writes a program of about so many ops in one of `LANGUAGES`."""
    out.write(mlir_program(ops) if language == "mlir" else host_program(ops, short=language == "hir-short"))
