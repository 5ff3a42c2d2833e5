#!/usr/bin/env python3
"""Writes an annotated program, for measuring passes.

usage: annotated.py (streams | lower) OPS > file.hir

  streams   groups of seven copies whose results are spread over streams, with a copy that is not between them:
            what stream-parallel-type alone turns into a loop for each group
  lower     blocks of five ops on four devices: a pointwise op on shards, a copy to all devices (an allgather),
            a product, a pointwise op on it and a reduction across the devices: what host-ir-lower lowers
"""

import sys

MESH = "(DeviceMesh{0 1 2 3})"


class Program:
    def __init__(self):
        self.domains, self.tensors, self.lines = 0, 0, []

    def tensor(self, memory, *axes, mesh=MESH):
        """A new tensor with axes like `iS:8`."""
        written = []
        for axis in axes:
            kind, extent = axis.split(":")
            written.append(f"{kind}{self.domains}{{{extent}}}")
            self.domains += 1
        text = f"T{self.tensors}_{memory}_float[{', '.join(written)}]" + (f" {mesh}" if mesh else "")
        self.tensors += 1
        return text

    def op(self, result, text):
        self.lines.append(f"  {result}\n     = {text}")

    def write(self, inputs, outputs):
        print(f"%HostIrContainer {{ ({', '.join(inputs)}) -> ({', '.join(outputs)}) :")
        print("\n".join(self.lines))
        print("} // %HostIrContainer")


def streams(count):
    program = Program()
    source = program.tensor("g", "iS:8", "iS:16", mesh="")
    last = source
    for _ in range(count // 8):
        for _ in range(7):
            result = program.tensor("l", "iStreamIdx:8", "iS:16", mesh="")
            program.op(result, f"Set( {last}, cache_op=Streaming )")
            last = result
        result = program.tensor("g", "iS:8", "iS:16", mesh="")
        program.op(result, f"Set( {last}, cache_op=Streaming )")
        last = result
    program.write([source], [last])


def lower(count):
    program = Program()
    source = program.tensor("g", "ideviceIdx.x:4", "iS:4", "iS:8")
    weight = program.tensor("g", "iS:8", "iS:8")
    last = source
    for _ in range(count // 5):
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
    program.write([source, weight], [last])


def main():
    kinds = {"streams": streams, "lower": lower}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]](int(sys.argv[2]))


if __name__ == "__main__":
    main()
