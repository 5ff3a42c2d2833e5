"""tools/overlap-bench --dry-run: what can be checked without GPUs.

All programs are built, lowered and proved in full size, and run in small on the CPU, against plain math. torch's own ways run with
--torch-on-cpu. The tool that measures, and its statistics, are tested in `bench/tests`.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from bench.overlap import cases, programs, rows
from bench.overlap.hir_tools import HirTools
from bench.overlap.options import Options
from bench.overlap.processes import Failed
from bench.overlap.rows import Row, Way
from bench.overlap.torch_side import Order, TorchProcesses


class DryRun:
    """Checks, which run side by side; those that fail are printed."""

    def __init__(self, tools: HirTools, options: Options) -> None:
        self.tools, self.options = tools, options
        self.count, self.lost = 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self.running: list[tuple[str, Future[None]]] = []

    def check(self, what: str, work: Callable[[], None]) -> None:
        """Starts a check; `finish` waits for all."""
        self.running.append((what, self.pool.submit(work)))

    def finish(self) -> None:
        """Waits for all checks, and prints those that failed."""
        for what, work in self.running:
            try:
                work.result()
                self.count += 1
            except Exception as error:  # noqa: BLE001 - one check that fails leaves the others
                self.lost += 1
                told = error if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
                print(f"FAILED {what}: {told}", flush=True)
        self.running = []

    def all(self, full: Sequence[int], small: Sequence[int], names: Sequence[str]) -> None:
        """`full` and `small`: numbers of devices for programs of full size and for small ones."""
        for devices in full:
            for name in names:
                why = rows.misfit(name, devices)
                if why:
                    print(f"{name} on {devices} devices: left out, {why}")
                    continue
                self.check(f"{name} on {devices} devices", functools.partial(self.full, name, devices))
        for devices in small:
            self.small_rows(devices)
            self.check(f"copies on {devices}", functools.partial(self.moves, devices))
            for backend, protocol in (("CUDA", "get"), ("CUDA", "put"), ("NCCL", "get")):
                what = f"exchange {backend} {protocol} on {devices}"
                self.check(what, functools.partial(self.exchange, backend, protocol, devices))
        self.finish()

    def full(self, name: str, devices: int) -> None:
        """Programs of full size, followed to their ends without data, and proved."""
        files = cases.build(self.tools, name, devices, True)
        self.tools.call([self.tools.run, *files.values(), "--check-only", "--backend=cpu", "-q"])
        print(f"{name} on {devices} devices: would time {' '.join(files)}", flush=True)

    def small_rows(self, devices: int) -> None:
        """Programs of all kinds and ways in small."""
        for kind in rows.KINDS:
            dtype = "e4m3" if kind.startswith("scaled") else "bfloat"
            row = rows.Row(kind, dtype, 3 * devices, 5 * devices, 6 * devices)
            for way, how in rows.ways(kind, more=True).items():
                self.check(f"small {kind} {way} on {devices}", functools.partial(self.small, row, way, how, devices))
            self.check(f"small parts of {kind} on {devices}", functools.partial(self.alone, row, devices))

    def small(self, row: Row, way: str, how: Way, devices: int) -> None:
        """A small program, against plain math: proved for all inputs, and run."""
        text = cases.whole_text(row, devices, how)
        name = f"small-{devices}/{row.kind}-{way}"
        low = self.tools.lowered(name, text, how.lowering)
        plain = self.tools.write(name + ".reference", cases.plain_text(row, devices, text))
        self.same(low, plain, "--exact")

    def alone(self, row: Row, devices: int) -> None:
        """The product and the communication of a row alone."""
        for part, text in cases.alone_texts(row, devices).items():
            self.runs(self.tools.write(f"small-{devices}/{row.kind}-{part}", text))

    def runs(self, file: Path) -> None:
        """Runs a program on the CPU."""
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q"])

    def same(self, file: Path, plain: Path, *flags: str) -> None:
        """Compares a program with its reference."""
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q", "--reference", plain, *flags])

    def moves(self, devices: int) -> None:
        """Communications and products alone, in small."""
        folder = f"small-{devices}"
        for dtype in programs.CARRIED:
            for backend in ("CUDA", "NCCL"):
                for kind, make in (("ag", programs.allgather), ("rs", programs.reduce_scatter)):
                    file = self.tools.write(f"{folder}/{kind}-{backend}", make(devices, dtype, [3, 5], backend, True))
                    plain = programs.plain(devices, dtype, kind, [3, 5])
                    self.same(file, self.tools.write(f"{folder}/{kind}.plain", plain))
                beside = programs.allgather_beside_gemm(devices, 8, backend, 4, 3)
                self.runs(self.tools.write(f"{folder}/beside", beside))
            for sharded in (False, True):
                gemm = programs.gemm(devices, dtype, 4, 2 * devices, 3, sharded, 2)
                self.runs(self.tools.write(f"{folder}/gemm", gemm))

    def exchange(self, backend: str, protocol: str, devices: int) -> None:
        """Row r of what is received is row r - 1 of what was sent."""
        text = programs.exchange(devices, 3, backend, 4, protocol, True)
        name = f"small-{devices}/exchange-{backend}-{protocol}"
        file = self.tools.write(name, text)
        values = [[10.0 * rank + column for column in range(3)] for rank in range(devices)]
        sent, turned = (self.tools.folder / f"{name}.{what}.npy" for what in ("sent", "turned"))
        write_npy(sent, values)
        write_npy(turned, [values[(rank - 1) % devices] for rank in range(devices)])
        data = ["--input", f"0={sent}", "--expect", f"T1={turned}"]
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q", *data])

    def torch(self, devices: int) -> None:
        """torch's ways of small rows, each against torch's serial one, on the CPU over gloo."""
        torch = TorchProcesses(self.options, self.tools.folder, self.tools.clock, devices)
        try:
            for kind in rows.KINDS:
                dtype = "e4m3" if kind.startswith("scaled") else "bfloat"
                sizes = {"m": 32 * devices, "k": 64 * devices, "n": 32 * devices}
                order = {"kind": kind, "dtype": dtype, **sizes, "warmup": 1, "ranks": devices}
                self.check(f"torch's {kind} on {devices}", functools.partial(self.torch_row, torch, order))
                self.finish()
        finally:
            torch.stop()

    def torch_row(self, torch: TorchProcesses, order: Order) -> None:
        """All of torch's ways of a row."""
        ways, failed = torch.prepare(order)
        times = torch.turn(2)
        torch.drop()
        print(f"torch's {order['kind']} on {order['ranks']}: {' '.join(ways)}", flush=True)
        if failed:
            raise Failed("; ".join(f"{way}: {told}" for way, told in failed.items()))
        if list(times) != ways or any(len(runs) != 2 for runs in times.values()):
            raise Failed(f"a turn of two runs has {times}")


def write_npy(path: Path, values: Sequence[Sequence[float]]) -> None:
    """A matrix of floats in NumPy's format 1.0."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)}, {len(values[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    body = b"".join(struct.pack(f"<{len(row)}f", *row) for row in values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + body)
