"""Stream-pipelined allgather + matmul loops in the printed form, as stream lowering prints them.

Each loop has tensors of its own: 14 ops a loop, about 300 bytes an op.
"""

from __future__ import annotations

from typing import NamedTuple, TextIO

MESH = "(DeviceMesh{0 1 2 3 4 5 6 7})"
OPS_PER_LOOP = 14

Axes = list[tuple[str, str]]


class Numbers:
    """Numbers tensors and domains in order of appearance."""

    def __init__(self) -> None:
        self.tensors = 0
        self.domains = 0

    def tensor(self, memory: str, axes: Axes) -> str:
        """A new tensor; `axes` are prefixes of domains and extents."""
        text = f"T{self.tensors}_{memory}_float["
        self.tensors += 1
        parts = []
        for kind, extent in axes:
            parts.append(f"{kind}{self.domains}{{{extent}}}")
            self.domains += 1
        return text + ", ".join(parts) + f"] {MESH}"


class Size(NamedTuple):
    """The size of a text."""

    ops: int
    bytes: int


def allocate(indent: str, tensor: str, size: str) -> str:
    """An allocation of so many elements."""
    return f"{indent}{tensor} = ALLOCATE(buffer={tensor}, mem_type=global, size={size}, zero_init=false, resets_to_zero=false)\n"


def select(tensor: str, source: str, axis: str) -> str:
    """A slice of this iteration."""
    return f"    {tensor}\n       = HirAliasSelect( {source}, axis = {axis}, index = StreamIdx )\n"


def axis_of(tensor: str, position: int) -> str:
    """The text of an axis of a tensor."""
    return tensor[tensor.index("[") + 1 : tensor.index("]")].split(", ")[position]


def pipelined_loop(numbers: Numbers, number: int, a: str, b: str) -> tuple[str, str]:
    """The text of a loop, and its result."""
    gathered = numbers.tensor("g", [("iStreamIdx", "i0"), ("iS", "i2"), ("iS", "i3"), ("iS", "i4")])
    product = numbers.tensor("g", [("iStreamIdx", "i0"), ("iS", "i2"), ("iS", "i3"), ("iS", "i6"), ("rS", "i4")])
    a_i = numbers.tensor("g", [("ideviceIdx.x", "i2"), ("iS", "i3"), ("iS", "i4")])
    g_i = numbers.tensor("g", [("iS", "i2"), ("iS", "i3"), ("iS", "i4")])
    p_i = numbers.tensor("l", [("iS", "i2"), ("iS", "i3"), ("iS", "i6"), ("rS", "i4")])
    text = allocate("  ", gathered, "( ( ( i0 * i2 ) * i3 ) * i4 )")
    text += allocate("  ", product, "( ( ( i0 * i2 ) * i3 ) * i6 )")
    text += f"  FOR StreamIdx in {axis_of(gathered, 0)}:\n"
    text += "    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )\n"
    text += "    Synchronize Stream 0\n"
    text += select(a_i, a, axis_of(a, 0))
    text += select(g_i, gathered, axis_of(gathered, 0))
    text += allocate("    ", g_i, "( ( i2 * i3 ) * i4 )")
    text += (
        f"    Communication {number} (type=Allgather, team=(0 1 2 3 4 5 6 7), input={a_i}, "
        f"output={g_i}, backend=NCCL)\n    Wait Communication {number}\n"
    )
    text += select(p_i, product, axis_of(product, 0))
    text += f"    {p_i}\n       = matmul({g_i},\n                {b})\n"
    text += "    SetCurrentStream to Stream 0\n"
    text += "    Synchronize Stream ( StreamIdx % numberOfStreams )\n"
    return text, product


def write_program(out: TextIO, *, ops: int = 0, megabytes: float = 0.0) -> Size:
    """Writes a program of at least so many ops, or so many megabytes."""
    numbers = Numbers()
    a = numbers.tensor("g", [("iS", "i0"), ("ideviceIdx.x", "i2"), ("iS", "i3"), ("iS", "i4")])
    b = numbers.tensor("g", [("iS", "i5"), ("iS", "i6")])
    body = ["  GetCurrentStream into Stream 0\n"]
    length, count, product = 0, 1, ""
    while count < ops or length < megabytes * 1e6:
        text, product = pipelined_loop(numbers, 1000 + count, a, b)
        body.append(text)
        length += len(text)
        count += OPS_PER_LOOP
    out.write(f"%HostIrContainer {{ ({a}, {b}) -> ({product}) :\n")
    out.write("".join(body))
    out.write("} // %HostIrContainer\n")
    return Size(count, length)
