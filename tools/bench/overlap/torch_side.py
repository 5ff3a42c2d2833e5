"""The side of tools/overlap-bench that starts torch's processes (`torch_process`) and gives them orders."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.overlap.options import Options
from bench.overlap.processes import SETUP, TURN, Clock, Failed, Lines, write_line
from bench.paths import python_environment
from bench.torch_baselines.environment import WITHOUT_MULTICAST

MODULE = ("-m", "bench.overlap.torch_process")

Order = dict[str, Any]
"""An order of `torch_process`."""


class TorchProcesses:
    """torch's processes, one a GPU; started when they are needed and again after they failed.

    `arguments` are those of Python that start one.
    """

    def __init__(self, options: Options, folder: str | Path, clock: Clock, devices: int, arguments: Sequence[str] = MODULE) -> None:
        self.options, self.folder, self.clock, self.arguments = options, Path(folder), clock, arguments
        self.devices = 1 if options.share else devices
        self.processes: list[subprocess.Popen[bytes]] = []
        self.lines = Lines(None)
        self.about: dict[str, str] = {}
        self.starts = 0
        # Ways that took the processes with them, by kind of row.
        self.without: dict[str, dict[str, str]] = {}

    def start(self) -> None:
        """Starts a process for each rank. Raises `Failed` after too many starts."""
        if self.starts >= 12:
            raise Failed("torch failed twelve times and is not started again")
        self.starts += 1
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for rank in range(self.devices):
            command = [self.options.python, *self.arguments]
            with (self.folder / f"torch.{rank}.err").open("w") as errors:
                out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
                started = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=self.environment(rank, port)
                )
            self.processes.append(started)
        self.lines = Lines(self.processes[0].stdout)
        self.about = self.answer(180)

    def environment(self, rank: int, port: int) -> dict[str, str]:
        """The environment of a rank's process."""
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.devices, "LOCAL_WORLD_SIZE": self.devices}
        place: dict[str, str | int] = {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        peers = {"HIR_FLASHINFER": self.options.flashinfer, "HIR_MKERNEL": self.options.mkernel}
        place.update({name: value for name, value in peers.items() if value})
        if self.options.torch_on_cpu:
            place["HIR_TORCH_DEVICE"] = "cpu"
        return {**python_environment(), **WITHOUT_MULTICAST, **{name: str(value) for name, value in place.items()}}

    def ended(self) -> str | None:
        """What the first process that has ended said."""
        for rank, process in enumerate(self.processes):
            if process.poll() is not None:
                return f"torch's process of rank {rank} ended (exit {process.returncode}): {self.said(rank)}"
        return None

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next line of rank 0; without one the processes are ended."""
        try:
            answer: dict[str, Any] = json.loads(self.lines.next(self.clock.at_most(seconds), self.ended))
            return answer
        except Failed as error:
            self.stop()
            raise Failed(f"torch: {error}") from None

    def said(self, rank: int) -> str:
        """The last lines of a rank's standard error."""
        lines = (self.folder / f"torch.{rank}.err").read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:])[:600]

    def send(self, order: Order) -> None:
        """Gives all processes an order. Raises `Failed` if they are gone."""
        if not self.processes:
            self.start()
        try:
            for process in self.processes:
                write_line(process, json.dumps(order).encode())
        except OSError:
            told = self.ended() or "torch's processes are gone"
            self.stop()
            raise Failed(told) from None

    def prepare(self, order: Order) -> tuple[list[str], dict[str, str]]:
        """Sets up all ways of a row; the names of those that work, and what is wrong with the others.

        A way that hangs or ends the processes is left out of all rows of its kind from then on.
        """
        broken = self.without.setdefault(order["kind"], {})
        while True:
            self.send({**order, "do": "prepare", "without": list(broken)})
            trying = None
            try:
                answer = self.answer(SETUP)
                while "trying" in answer:
                    trying = answer["trying"]
                    answer = self.answer(SETUP)
            except Failed as error:
                self.clock.at_most(1)
                if trying is None:
                    raise
                broken[trying] = str(error)
                continue
            return answer["ways"], {**answer["failed"], **broken}

    def turn(self, runs: int) -> dict[str, list[float]]:
        """The times of one turn, by way."""
        self.send({"do": "turn", "runs": runs})
        times: dict[str, list[float]] = self.answer(TURN)["times"]
        return times

    def drop(self) -> None:
        """Frees what a row holds."""
        if self.processes:
            self.send({"do": "drop"})
            self.answer(30)

    def stop(self) -> None:
        """Ends the processes."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []
