#!/usr/bin/env python3
"""The processes of tools/overlap-bench: hir-opt and hir-run, and torch's, one a GPU.

Both sides load their programs once and then time them whenever they are asked to, so their runs alternate.
"""

import json
import os
import select
import socket
import subprocess
import time
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
# Multicast stays off, in ours and in torch: see overlap_torch.py.
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
# Stands for several programs that did not run, or did not agree, in one call.
TOGETHER = "all together"
# Loading programs, with the choice of algorithms; one turn; a way of torch that is set up and checked.
LOADING, TURN, SETUP = 400, 120, 150


class Failed(Exception):
    """A part that did not work, in one sentence."""


def last_lines(text, count=6):
    return " / ".join(line.strip() for line in text.strip().splitlines()[:count] if line.strip())[:600]


class Clock:
    """The time that is left of --seconds."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def at_most(self, seconds):
        """Time for one step; a sentence where there is none."""
        if self.left() < 5:
            raise Failed("the time was up (--seconds)")
        return min(seconds, self.left())


class Lines:
    """Lines that processes write to a pipe."""

    def __init__(self, pipe):
        self.pipe, self.text = pipe.fileno(), b""

    def next(self, seconds, ended):
        """The next line; a sentence if none comes in time, or `ended` says that the writer is gone."""
        end = time.monotonic() + seconds
        while b"\n" not in self.text:
            told = ended()
            if select.select([self.pipe], [], [], 0 if told else 0.2)[0]:
                read = os.read(self.pipe, 1 << 16)
                self.text += read
                if read:
                    continue
                # The writer closed the pipe: it is about to end.
                time.sleep(0.2)
                told = told or ended() or "its output ended"
            if told:
                raise Failed(told)
            if time.monotonic() > end:
                raise Failed(f"no answer within {seconds:.0f} s")
        line, self.text = self.text.split(b"\n", 1)
        return line.decode(errors="replace")


class Tools:
    """hir-opt and hir-run, with a folder for programs."""

    def __init__(self, options, folder, clock):
        self.run = Path(options.hir_run).resolve()
        self.opt = self.run.with_name("hir-opt")
        self.options, self.folder, self.clock = options, Path(folder), clock
        self.environment = {**os.environ, **ENVIRONMENT}
        if options.share:
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            self.environment["CUDA_VISIBLE_DEVICES"] = first
        self.about = ""

    def call(self, command, seconds=180):
        seconds = self.clock.at_most(seconds)
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end within {seconds:.0f} s: {' '.join(map(str, command))}") from None
        if done.returncode != 0:
            raise Failed(f"exit {done.returncode}: {last_lines(done.stderr)}")
        return done.stdout

    def write(self, name, text):
        path = self.folder / f"{name}.hir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def lowered(self, name, text, lowering):
        """The file of a program after its lowering."""
        plain, low = self.write(name + ".plain", text), self.folder / f"{name}.hir"
        self.call([self.opt, plain, f"--pass={lowering}", "-o", low])
        return low

    def command(self, files, flags, iters, warmup):
        """hir-run's command for timed runs, without its JSON."""
        backend = ["--backend=cuda", "--timeout-ms=30000"] if self.options.backend == "cuda" else ["--backend=cpu"]
        backend += ["--map-backend=NCCL=CUDA"] if self.options.share else []
        return [self.run, *files, *backend, "--bench", f"--iters={iters}", f"--warmup={warmup}", *flags]

    def bench(self, files, flags=(), iters=20):
        """The figures of programs timed in one call, by name; those that fail even apart, with what they say."""
        found, failed = {}, {}
        try:
            return self.together(files, flags, iters), {}
        except Failed as error:
            failed[TOGETHER] = str(error)
        for file in files:
            try:
                found.update(self.together([file], flags, iters))
            except Failed as error:
                failed[file.stem] = str(error)
            if len(failed) > 3 and not found:
                failed["the others"] = "not tried, since none of these ran"
                break
        return found, failed

    def together(self, files, flags, iters, warmup=None):
        out = self.folder / "figures.json"
        out.unlink(missing_ok=True)
        warmup = self.options.warmup if warmup is None else warmup
        said = self.call([*self.command(files, flags, iters, warmup), "--json", out])
        self.about = next((line[3:] for line in said.splitlines() if line.startswith("on ")), self.about)
        figures = json.loads(out.read_text())["programs"]
        return {Path(figure["file"]).stem: figure for figure in figures}


class Turns:
    """hir-run with programs loaded, which times each of them a few times in every turn."""

    def __init__(self, tools, files, flags):
        self.tools, self.ways = tools, [file.stem for file in files]
        self.figures = tools.folder / "turns.json"
        self.figures.unlink(missing_ok=True)
        self.told = tools.folder / "turns.err"
        command = [*tools.command(files, flags, tools.options.iters, tools.options.warmup), "--turns", "--json", self.figures]
        with open(self.told, "w") as errors:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=tools.environment)
        self.lines = Lines(self.process.stdout)

    def ended(self):
        code = self.process.poll()
        return None if code is None else f"exit {code}: {last_lines(self.told.read_text(errors='replace'))}"

    def turn(self, seconds=TURN):
        """The times of one turn, by way."""
        seconds = self.tools.clock.at_most(seconds)
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except OSError:
            # It closed its input: it ends, or is stuck on its way out.
            time.sleep(0.5)
            raise Failed(self.ended() or "hir-run reads no more") from None
        line = ""
        while not line.startswith("{"):
            line = self.lines.next(seconds, self.ended)
        return dict(zip(self.ways, json.loads(line)["ms"]))

    def end(self):
        """Ends the measurement; microseconds in which the host issues a run, by way."""
        try:
            said, _ = self.process.communicate(timeout=60)
        except (subprocess.TimeoutExpired, OSError):
            return {}
        self.tools.about = next((line[3:] for line in said.decode(errors="replace").splitlines() if line.startswith("on ")), self.tools.about)
        if self.process.returncode or not self.figures.exists():
            return {}
        figures = json.loads(self.figures.read_text())["programs"]
        return {Path(figure["file"]).stem: figure["issue_us"] for figure in figures if "issue_us" in figure}

    def stop(self):
        self.process.kill()
        self.process.wait()


class Torch:
    """torch's processes, one a GPU; started when they are needed and again after they failed."""

    def __init__(self, options, folder, clock, devices, script=ROOT / "tools/bench/overlap_torch.py"):
        self.options, self.folder, self.clock, self.script = options, Path(folder), clock, script
        self.devices = 1 if options.share else devices
        self.processes, self.lines, self.about, self.starts = [], None, {}, 0
        # Ways that took the processes with them, by kind of row.
        self.without = {}

    def start(self):
        if self.starts >= 12:
            raise Failed("torch failed twelve times and is not started again")
        self.starts += 1
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        peers = {"HIR_FLASHINFER": self.options.flashinfer, "HIR_MKERNEL": self.options.mkernel}
        for rank in range(self.devices):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.devices, "LOCAL_WORLD_SIZE": self.devices, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            place.update({name: value for name, value in peers.items() if value})
            if self.options.torch_on_cpu:
                place["HIR_TORCH_DEVICE"] = "cpu"
            environment = {**os.environ, **ENVIRONMENT, **{name: str(value) for name, value in place.items()}}
            command = [self.options.python, str(self.script)]
            with open(self.folder / f"torch.{rank}.err", "w") as errors:
                out = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
                self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=environment))
        self.lines = Lines(self.processes[0].stdout)
        self.about = self.answer(180)

    def ended(self):
        for rank, process in enumerate(self.processes):
            if process.poll() is not None:
                return f"torch's process of rank {rank} ended (exit {process.returncode}): {self.said(rank)}"
        return None

    def answer(self, seconds):
        """The next line of rank 0; without one the processes are ended."""
        try:
            return json.loads(self.lines.next(self.clock.at_most(seconds), self.ended))
        except Failed as error:
            self.stop()
            raise Failed(f"torch: {error}") from None

    def said(self, rank):
        lines = (self.folder / f"torch.{rank}.err").read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:])[:600]

    def send(self, order):
        if not self.processes:
            self.start()
        try:
            for process in self.processes:
                process.stdin.write((json.dumps(order) + "\n").encode())
                process.stdin.flush()
        except OSError:
            told = self.ended() or "torch's processes are gone"
            self.stop()
            raise Failed(told) from None

    def prepare(self, order):
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

    def turn(self, runs):
        self.send({"do": "turn", "runs": runs})
        return self.answer(TURN)["times"]

    def drop(self):
        """Frees what a row holds."""
        if self.processes:
            self.send({"do": "drop"})
            self.answer(30)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []
