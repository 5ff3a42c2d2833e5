"""The programs that tools/overlap-bench times, as text for any number of devices and any sizes.

A case is a product and the communication beside it: `ag` gathers the rows of the left factor, `rs` scatters the
sum of partial products by rows. M, K and N are those of the whole product. Programs of a case compute the same
from the same inputs, position by position. Programs without outputs are timed only: nothing is downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CARRIED = {"bfloat": "__bfloat", "float": "float"}

Axis = tuple[str, int]
"""The prefix of a domain, such as `iS`, and its extent."""


class Writer:
    """Spells tensors on one row of `devices` devices."""

    def __init__(self, devices: int, dtype: str) -> None:
        self.devices, self.dtype, self.domains = devices, CARRIED[dtype], 0
        self.row = " ".join(map(str, range(devices)))

    def tensor(self, number: int, axes: Sequence[Axis]) -> str:
        """`T2_g_float[ideviceIdx.x5{2}, iS6{8}] (DeviceMesh{0 1})` of `("ideviceIdx.x", 2), ("iS", 8)`."""
        words = []
        for prefix, extent in axes:
            words.append(f"{prefix}{self.domains}{{{extent}}}")
            self.domains += 1
        return f"T{number}_g_{self.dtype}[{', '.join(words)}] (DeviceMesh{{{self.row}}})"

    def program(self, inputs: Sequence[str], outputs: Sequence[str], lines: Sequence[str]) -> str:
        """The text of a program."""
        head = f"%HostIrContainer {{ ({', '.join(inputs)}) -> ({', '.join(outputs)}) :"
        return "\n".join([head, *("  " + line for line in lines), "} // %HostIrContainer\n"])


def allocate(tensor: str, size: int) -> str:
    """An allocation of so many elements."""
    name = tensor.split("_")[0]
    return f"{tensor} = ALLOCATE(buffer={name}, mem_type=global, size={size}, zero_init=false, resets_to_zero=false)"


def allgather_matmul(devices: int, dtype: str, m: int, k: int, n: int, parts: str = "iStreamIdx") -> str:
    """y[D, M/D, N] = allgather(x) @ w, part by part; with `parts="iS"` the whole at once."""
    w = Writer(devices, dtype)
    x = w.tensor(0, [("ideviceIdx.x", devices), ("iS", m // devices), ("iS", k)])
    weight = w.tensor(1, [("iS", k), ("iS", n)])
    y = w.tensor(2, [(parts, devices), ("iS", m // devices), ("iS", n), ("rS", k)])
    return w.program([x, weight], [y], ["T2", "   = matmul(T0, T1)"])


def matmul_reduce_scatter(devices: int, dtype: str, m: int, k: int, n: int, parts: str = "iStreamIdx") -> str:
    """y[r, D, M/D, N] = the sum over devices of x @ w; `parts` as in `allgather_matmul`."""
    w = Writer(devices, dtype)
    sharded = ("ideviceIdx.x", devices)
    x = w.tensor(0, [sharded, (parts, devices), ("iS", m // devices), ("iS", k // devices)])
    weight = w.tensor(1, [sharded, ("bS", 1), ("iS", k // devices), ("iS", n)])
    part = w.tensor(2, [sharded, (parts, devices), ("iS", m // devices), ("iS", n), ("rS", k // devices)])
    turned = w.tensor(3, [(parts, devices), sharded, ("iS", m // devices), ("iS", n)])
    y = w.tensor(4, [("rS", devices), sharded, ("iS", m // devices), ("iS", n)])
    lines = [part, "   = matmul(T0, T1)"]
    if parts == "iStreamIdx":
        lines += [turned, "   = Set( T2, cache_op=Streaming )"]
    summed = "T3" if parts == "iStreamIdx" else "T2"
    lines += ["T4", f"   = reduction( {summed}, op = add, initial value = {w.dtype}(0), allreduce = false )"]
    return w.program([x, weight], [y], lines)


def gemm(devices: int, dtype: str, m: int, k: int, n: int, sharded: bool, repeat: int = 1) -> str:
    """The product alone on every device: of all rows (`ag`), or of the device's part of K (`rs`: sharded)."""
    w = Writer(devices, dtype)
    first = [("ideviceIdx.x", devices)] if sharded else []
    depth = k // devices if sharded else k
    x = w.tensor(0, [*first, ("iS", m), ("iS", depth)])
    weight = w.tensor(1, [*first, ("iS", depth), ("iS", n)])
    y = w.tensor(2, [*first, ("iS", m), ("iS", n), ("rS", depth)])
    matmul = ["T2", "   = matmul(T0, T1)"]
    lines = [allocate(y, m * n * (devices if sharded else 1))]
    if repeat > 1:
        lines += [f"FOR i from 0 to {repeat}:", *("  " + line for line in matmul)]
    else:
        lines += matmul
    return w.program([x, weight], [], lines)


def allgather(devices: int, dtype: str, shape: Sequence[int], backend: str, outputs: bool = False) -> str:
    """Each device's part of `shape` at all devices."""
    w = Writer(devices, dtype)
    axes = [("iS", extent) for extent in shape]
    x = w.tensor(0, [("ideviceIdx.x", devices), *axes])
    y = w.tensor(1, [("iS", devices), *axes])
    lines = [allocate(y, devices * math.prod(shape)), *post(w, "Allgather", "", backend)]
    return w.program([x], [y] if outputs else [], lines)


def allreduce(devices: int, dtype: str, shape: Sequence[int], backend: str, outputs: bool = False) -> str:
    """The sum of the devices' parts of `shape` at all devices."""
    w = Writer(devices, dtype)
    axes = [("iS", extent) for extent in shape]
    x = w.tensor(0, [("ideviceIdx.x", devices), *axes])
    y = w.tensor(1, [("rdeviceIdx.x", devices), *axes])
    lines = [allocate(y, math.prod(shape)), *post(w, "Allreduce", "red_op=sum, ", backend)]
    return w.program([x], [y] if outputs else [], lines)


def reduce_scatter(devices: int, dtype: str, shape: Sequence[int], backend: str, outputs: bool = False) -> str:
    """Part r of the devices' sum at device r."""
    w = Writer(devices, dtype)
    axes = [("iS", extent) for extent in shape]
    x = w.tensor(0, [("ideviceIdx.x", devices), ("iS", devices), *axes])
    y = w.tensor(1, [("rS", devices), ("ideviceIdx.x", devices), *axes])
    lines = [allocate(y, devices * math.prod(shape)), *post(w, "ReduceScatter", "red_op=sum, ", backend)]
    return w.program([x], [y] if outputs else [], lines)


def plain(devices: int, dtype: str, kind: str, shape: Sequence[int]) -> str:
    """`allgather` and `reduce_scatter` as plain math."""
    w = Writer(devices, dtype)
    axes = [("iS", extent) for extent in shape]
    sharded = ("ideviceIdx.x", devices)
    if kind == "ag":
        x, y = w.tensor(0, [sharded, *axes]), w.tensor(1, [("iS", devices), *axes])
        return w.program([x], [y], ["T1", "   = Set( T0, cache_op=Streaming )"])
    x, y = w.tensor(0, [sharded, ("iS", devices), *axes]), w.tensor(1, [("rS", devices), sharded, *axes])
    return w.program([x], [y], ["T1", f"   = reduction( T0, op = add, initial value = {w.dtype}(0), allreduce = false )"])


def post(w: Writer, kind: str, extra: str, backend: str) -> list[str]:
    """A communication of all devices from T0 to T1, and the wait for it."""
    return [f"Communication 0 (type={kind}, team=({w.row}), {extra}input=T0, output=T1, backend={backend})", "Wait Communication 0"]


def allgather_beside_gemm(devices: int, elements: int, backend: str, edge: int, repeat: int) -> str:
    """An allgather on stream 1 while stream 0 multiplies square matrices, `repeat` times."""
    w = Writer(devices, "bfloat")
    x = w.tensor(0, [("ideviceIdx.x", devices), ("iS", elements)])
    y = w.tensor(1, [("iS", devices), ("iS", elements)])
    a, b = (w.tensor(number, [("iS", edge), ("iS", edge)]) for number in (2, 3))
    c = w.tensor(4, [("iS", edge), ("iS", edge), ("rS", edge)])
    lines = [allocate(y, devices * elements), allocate(c, edge * edge), "GetCurrentStream into Stream 0"]
    lines += ["SetCurrentStream to Stream 1", "Synchronize Stream 0", *post(w, "Allgather", "", backend)]
    lines += ["SetCurrentStream to Stream 0", f"FOR i from 0 to {repeat}:", "  T4", "     = matmul(T2, T3)"]
    return w.program([x, a, b], [], [*lines, "Synchronize Stream 1"])


def exchange(devices: int, elements: int, backend: str, repeat: int, protocol: str = "get", outputs: bool = False) -> str:
    """Every device sends its row to the next one and receives the row before, `repeat` times."""
    w = Writer(devices, "float")
    axes = [("ideviceIdx.x", devices), ("iS", elements)]
    x, y = w.tensor(0, axes), w.tensor(1, axes)
    said = f"backend={backend}" + (f", protocol={protocol}" if protocol != "get" else "")
    send = f"P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % {devices} ), {said})"
    receive = f"P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + {devices - 1} ) % {devices} ), {said})"
    if backend == "NCCL":
        body = ["StartCoalescing", receive, send, "EndCoalescing 3", "Wait Communication 3"]
    else:
        posts = [receive, send] if protocol == "put" else [send, receive]
        waits = ["Wait Communication 2", "Wait Communication 1"]
        body = [f"ShareMemHandles({posts[0]}, {posts[1]},", *posts, *waits]
    loop = [f"FOR i from 0 to {repeat}:", *("  " + line for line in body)]
    return w.program([x], [y] if outputs else [], [allocate(y, devices * elements), *loop])
