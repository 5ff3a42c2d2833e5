#!/usr/bin/env python3
"""tools/overlap-bench --dry-run: what can be checked without GPUs.

All programs are built, lowered and proved in full size, and run in small on the CPU, against plain math. The tool that
measures runs too, with hir-run on the CPU and a stand-in for torch. torch's own ways run with --torch-on-cpu.
"""

import concurrent.futures
import os
import struct

import overlap_cases as cases
import overlap_programs as programs
import overlap_rows as rows
import overlap_simulation as simulation
from overlap_processes import Failed, Torch


class DryRun:
    def __init__(self, tools, options):
        self.tools, self.options, self.count, self.lost, self.left = tools, options, 0, 0, []
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self.running = []

    def check(self, what, work):
        """Starts a check; `finish` waits for all."""
        self.running.append((what, self.pool.submit(work)))

    def finish(self):
        for what, work in self.running:
            try:
                work.result()
                self.count += 1
            except Exception as error:  # one check that fails leaves the others
                self.lost += 1
                told = error if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
                print(f"FAILED {what}: {told}", flush=True)
        self.running = []

    def leave_out(self, what, why):
        if why not in self.left:
            self.left.append(why)
            print(f"{what}: left out, {why}", flush=True)

    def all(self, full, small, names):
        """`full` and `small`: numbers of devices for programs of full size and for small ones."""
        for devices in full:
            for name in names:
                why = rows.fits(name, devices)
                if why:
                    print(f"{name} on {devices} devices: left out, {why}")
                    continue
                self.check(f"{name} on {devices} devices", lambda name=name, devices=devices: self.full(name, devices))
        for devices in small:
            self.small_rows(devices)
            self.check(f"copies on {devices}", lambda devices=devices: self.moves(devices))
            for backend, protocol in (("CUDA", "get"), ("CUDA", "put"), ("NCCL", "get")):
                what = f"exchange {backend} {protocol} on {devices}"
                self.check(what, lambda backend=backend, protocol=protocol, devices=devices: self.exchange(backend, protocol, devices))
        self.finish()

    def full(self, name, devices):
        """Programs of full size, followed to their ends without data, and proved."""
        files = cases.build(self.tools, name, devices, True)
        self.tools.call([self.tools.run, *files.values(), "--check-only", "--backend=cpu", "-q"])
        print(f"{name} on {devices} devices: would time {' '.join(files)}", flush=True)

    def small_rows(self, devices):
        for kind in rows.KINDS:
            dtype = "e4m3" if kind.startswith("scaled") else "bfloat"
            row = rows.Row(kind, dtype, 3 * devices, 5 * devices, 6 * devices)
            for way, how in rows.ways(kind, more=True).items():
                what = f"small {kind} {way} on {devices}"
                self.check(what, lambda way=way, how=how, row=row: self.small(row, way, how, devices))
            self.check(f"small parts of {kind} on {devices}", lambda row=row: self.alone(row, devices))

    def small(self, row, way, how, devices):
        """A small program, against plain math: proved for all inputs, and run."""
        text = cases.whole_text(row, devices, how)
        name = f"small-{devices}/{row.kind}-{way}"
        low = self.tools.lowered(name, text, how.lowering)
        plain = self.tools.write(name + ".reference", cases.plain_text(row, devices, text))
        self.same(low, plain, "--exact")

    def alone(self, row, devices):
        for part, text in cases.alone_texts(row, devices).items():
            self.runs(self.tools.write(f"small-{devices}/{row.kind}-{part}", text))

    def runs(self, file):
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q"])

    def same(self, file, plain, *flags):
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q", "--reference", plain, *flags])

    def moves(self, devices):
        folder = f"small-{devices}"
        for dtype in programs.CARRIED:
            for backend in ("CUDA", "NCCL"):
                for kind, make in (("ag", programs.allgather), ("rs", programs.reduce_scatter)):
                    file = self.tools.write(f"{folder}/{kind}-{backend}", make(devices, dtype, [3, 5], backend, True))
                    self.same(file, self.tools.write(f"{folder}/{kind}.plain", programs.plain(devices, dtype, kind, [3, 5])))
                self.runs(self.tools.write(f"{folder}/beside", programs.allgather_beside_gemm(devices, 8, backend, 4, 3)))
            for sharded in (False, True):
                self.runs(self.tools.write(f"{folder}/gemm", programs.gemm(devices, dtype, 4, 2 * devices, 3, sharded, 2)))

    def exchange(self, backend, protocol, devices):
        """Row r of what is received is row r - 1 of what was sent."""
        text = programs.exchange(devices, 3, backend, 4, protocol, True)
        name = f"small-{devices}/exchange-{backend}-{protocol}"
        file = self.tools.write(name, text)
        values = [[10.0 * rank + column for column in range(3)] for rank in range(devices)]
        sent, turned = (self.tools.folder / f"{name}.{what}.npy" for what in ("sent", "turned"))
        npy(sent, values)
        npy(turned, [values[(rank - 1) % devices] for rank in range(devices)])
        self.tools.call([self.tools.run, file, "--backend=cpu", "-q", "--input", f"0={sent}", "--expect", f"T1={turned}"])

    def simulated(self):
        """Statistics, bars and tables of made-up times, and the tool itself with stand-ins."""
        for what, work in simulation.checks(self.tools):
            self.check(what, work)
        library = simulation.stand_in_library(self.tools)
        if not library:
            self.leave_out("runs on stand-ins for GPUs", "libhostir_fakes.so is not beside hir-run, in deps (cargo test -p hostir-test --no-run)")
        for what, work in simulation.gpu_checks(self.tools, library) if library else ():
            self.check(what, work)
        self.finish()

    def torch(self, devices):
        """torch's ways of small rows, each against torch's serial one, on the CPU over gloo."""
        torch = Torch(self.options, self.tools.folder, self.tools.clock, devices)
        try:
            for kind in rows.KINDS:
                dtype = "e4m3" if kind.startswith("scaled") else "bfloat"
                order = {"kind": kind, "dtype": dtype, "m": 32 * devices, "k": 64 * devices, "n": 32 * devices, "warmup": 1, "ranks": devices}
                self.check(f"torch's {kind} on {devices}", lambda order=order: self.torch_row(torch, order))
                self.finish()
        finally:
            torch.stop()

    def torch_row(self, torch, order):
        ways, failed = torch.prepare(order)
        times = torch.turn(2)
        torch.drop()
        print(f"torch's {order['kind']} on {order['ranks']}: {' '.join(ways)}", flush=True)
        if failed:
            raise Failed("; ".join(f"{way}: {told}" for way, told in failed.items()))
        if list(times) != ways or any(len(runs) != 2 for runs in times.values()):
            raise Failed(f"a turn of two runs has {times}")


def npy(path, values):
    """A matrix of floats in NumPy's format 1.0."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)}, {len(values[0])}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    body = b"".join(struct.pack(f"<{len(row)}f", *row) for row in values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + body)
