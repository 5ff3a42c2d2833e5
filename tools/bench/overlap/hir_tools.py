"""hir-opt and hir-run as tools/overlap-bench uses them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.overlap.options import Options
from bench.overlap.processes import TURN, Clock, Failed, Lines, environment, first_lines, write_line

# Stands for several programs that did not run, or did not agree, in one call.
TOGETHER = "all together"

Word = str | int | Path
Figures = dict[str, dict[str, Any]]
"""What `hir-run --bench --json` writes of each program, by the file's stem."""


class HirTools:
    """hir-opt and hir-run, with a folder for programs."""

    def __init__(self, options: Options, folder: str | Path, clock: Clock) -> None:
        self.run = Path(options.hir_run).resolve()
        self.opt = self.run.with_name("hir-opt")
        self.options, self.folder, self.clock = options, Path(folder), clock
        self.environment = environment()
        if options.share:
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
            self.environment["CUDA_VISIBLE_DEVICES"] = first
        self.about = ""

    def call(self, command: Sequence[Word], seconds: float = 180) -> str:
        """Standard output of a command. Raises `Failed` if it fails or takes too long."""
        seconds = self.clock.at_most(seconds)
        try:
            words = [str(word) for word in command]
            done = subprocess.run(words, capture_output=True, text=True, env=self.environment, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end within {seconds:.0f} s: {' '.join(map(str, command))}") from None
        if done.returncode != 0:
            raise Failed(f"exit {done.returncode}: {first_lines(done.stderr)}")
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """A file with a program."""
        path = self.folder / f"{name}.hir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def lowered(self, name: str, text: str, lowering: str) -> Path:
        """The file of a program after its lowering."""
        plain, low = self.write(name + ".plain", text), self.folder / f"{name}.hir"
        self.call([self.opt, plain, f"--pass={lowering}", "-o", low])
        return low

    def command(self, files: Sequence[Path], flags: Sequence[Word], iters: int, warmup: int) -> list[Word]:
        """hir-run's command for timed runs, without its JSON."""
        backend = ["--backend=cuda", "--timeout-ms=30000"] if self.options.backend == "cuda" else ["--backend=cpu"]
        backend += ["--map-backend=NCCL=CUDA"] if self.options.share else []
        return [self.run, *files, *backend, "--bench", f"--iters={iters}", f"--warmup={warmup}", *flags]

    def bench(self, files: Sequence[Path], flags: Sequence[Word] = (), iters: int = 20) -> tuple[Figures, dict[str, str]]:
        """The figures of programs timed in one call, by name; those that fail even apart, with what they say."""
        found: Figures = {}
        failed: dict[str, str] = {}
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

    def together(self, files: Sequence[Path], flags: Sequence[Word], iters: int, warmup: int | None = None) -> Figures:
        """The figures of programs timed in one call."""
        out = self.folder / "figures.json"
        out.unlink(missing_ok=True)
        warmup = self.options.warmup if warmup is None else warmup
        said = self.call([*self.command(files, flags, iters, warmup), "--json", out])
        self.note_device(said)
        figures = json.loads(out.read_text())["programs"]
        return {Path(figure["file"]).stem: figure for figure in figures}

    def note_device(self, said: str) -> None:
        """Keeps what hir-run says that it ran on."""
        self.about = next((line[3:] for line in said.splitlines() if line.startswith("on ")), self.about)


class Turns:
    """hir-run with programs loaded, which times each of them a few times in every turn."""

    def __init__(self, tools: HirTools, files: Sequence[Path], flags: Sequence[Word]) -> None:
        self.tools, self.ways = tools, [file.stem for file in files]
        self.figures = tools.folder / "turns.json"
        self.figures.unlink(missing_ok=True)
        self.told = tools.folder / "turns.err"
        timed = tools.command(files, flags, tools.options.iters, tools.options.warmup)
        command = [str(word) for word in [*timed, "--turns", "--json", self.figures]]
        pipe = subprocess.PIPE
        with self.told.open("w") as errors:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=tools.environment)
        self.lines = Lines(self.process.stdout)

    def ended(self) -> str | None:
        """What hir-run said, if it has ended."""
        code = self.process.poll()
        return None if code is None else f"exit {code}: {first_lines(self.told.read_text(errors='replace'))}"

    def turn(self, seconds: float = TURN) -> dict[str, list[float]]:
        """The times of one turn, by way."""
        seconds = self.tools.clock.at_most(seconds)
        try:
            write_line(self.process, b"go")
        except OSError:
            # It closed its input: it ends, or is stuck on its way out.
            time.sleep(0.5)
            raise Failed(self.ended() or "hir-run reads no more") from None
        line = ""
        while not line.startswith("{"):
            line = self.lines.next(seconds, self.ended)
        return dict(zip(self.ways, json.loads(line)["ms"], strict=True))

    def end(self) -> dict[str, float]:
        """Ends the measurement; microseconds in which the host issues a run, by way."""
        try:
            said, _ = self.process.communicate(timeout=60)
        except (subprocess.TimeoutExpired, OSError):
            return {}
        self.tools.note_device(said.decode(errors="replace"))
        if self.process.returncode or not self.figures.exists():
            return {}
        figures = json.loads(self.figures.read_text())["programs"]
        return {Path(figure["file"]).stem: figure["issue_us"] for figure in figures if "issue_us" in figure}

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
