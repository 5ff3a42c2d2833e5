"""Annotated programs, on which passes are measured.

`streams`: groups of seven copies whose results are spread over streams, with a copy that is not between them. stream-parallel-type
turns each group into a loop.

`lower`: blocks of five ops on four devices: a pointwise op on shards, a copy to all devices (an allgather), a product, a pointwise
op on it and a reduction across the devices. host-ir-lower lowers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

MESH = "(DeviceMesh{0 1 2 3})"


class Program:
    """A program that grows op by op."""

    def __init__(self) -> None:
        self.domains, self.tensors = 0, 0
        self.lines: list[str] = []

    def tensor(self, memory: str, *axes: str, mesh: str = MESH) -> str:
        """A new tensor with axes like `iS:8`."""
        written = []
        for axis in axes:
            kind, extent = axis.split(":")
            written.append(f"{kind}{self.domains}{{{extent}}}")
            self.domains += 1
        text = f"T{self.tensors}_{memory}_float[{', '.join(written)}]" + (f" {mesh}" if mesh else "")
        self.tensors += 1
        return text

    def op(self, result: str, text: str) -> None:
        """Adds an op."""
        self.lines.append(f"  {result}\n     = {text}")

    def text(self, inputs: list[str], outputs: list[str]) -> str:
        """The whole program."""
        head = f"%HostIrContainer {{ ({', '.join(inputs)}) -> ({', '.join(outputs)}) :"
        return "\n".join([head, "\n".join(self.lines), "} // %HostIrContainer\n"])


def streams_program(ops: int) -> str:
    """Groups of copies that are spread over streams."""
    program = Program()
    source = program.tensor("g", "iS:8", "iS:16", mesh="")
    last = source
    for _ in range(ops // 8):
        for _ in range(7):
            result = program.tensor("l", "iStreamIdx:8", "iS:16", mesh="")
            program.op(result, f"Set( {last}, cache_op=Streaming )")
            last = result
        result = program.tensor("g", "iS:8", "iS:16", mesh="")
        program.op(result, f"Set( {last}, cache_op=Streaming )")
        last = result
    return program.text([source], [last])


def lower_program(ops: int) -> str:
    """Blocks of five ops on four devices."""
    program = Program()
    source = program.tensor("g", "ideviceIdx.x:4", "iS:4", "iS:8")
    weight = program.tensor("g", "iS:8", "iS:8")
    last = source
    for _ in range(ops // 5):
        shard = program.tensor("l", "ideviceIdx.x:4", "iS:4", "iS:8")
        program.op(shard, f"relu({last});")
        whole = program.tensor("l", "iS:4", "iS:4", "iS:8")
        program.op(whole, f"Set( {shard}, cache_op=Streaming )")
        product = program.tensor("l", "iS:4", "iS:4", "iS:8", "rS:8")
        program.op(product, f"matmul({whole},\n              {weight})")
        bounded = program.tensor("l", "iS:4", "iS:4", "iS:8")
        program.op(bounded, f"relu({product});")
        last = program.tensor("l", "ideviceIdx.x:4", "iS:4", "iS:8")
        program.op(last, f"Set( {bounded}, cache_op=Streaming )")
    return program.text([source, weight], [last])


KINDS: dict[str, Callable[[int], str]] = {"streams": streams_program, "lower": lower_program}


def write_program(out: TextIO, kind: str, ops: int) -> None:
    """Writes a program of a kind with about so many ops."""
    out.write(KINDS[kind](ops))
