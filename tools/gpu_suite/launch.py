"""Launches on the GPUs of a machine: torchrun, mpirun, srun's variables and --processes.

Every launch computes a pipelined allgather + matmul and compares it with plain math on the CPU, as the run in
one process does. Launchers that are not installed are printed as skipped.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.overlap import programs
from bench.paths import ROOT
from gpu_suite.processes import ProcessOutput, children_of, environment, free_port, is_running
from gpu_suite.suite import Suite

EXAMPLES = ROOT / "docs/examples/printed"
SIZES = ["--set", "i1=512", "--set", "i2=256", "--set", "i3=128"]
# Some milliseconds a run, most of them on the devices.
LARGE = ["--set", "i1=2048", "--set", "i2=4096", "--set", "i3=2048"]


class Started(NamedTuple):
    """A command, and what its environment has in addition."""

    command: Sequence[str]
    environment: Mapping[str, str]


def start_command(started: Started) -> subprocess.Popen[str]:
    """Starts a command; both of its outputs go to one pipe."""
    env = environment(started.environment)
    return subprocess.Popen(started.command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Launches:
    """`suite` counts what passed and failed; programs are made for `count` GPUs."""

    def __init__(self, suite: Suite, folder: str | Path) -> None:
        self.suite, self.tool = suite, str(suite.tool)
        self.count = min(suite.count, 4)
        self.folder = Path(folder)
        self.program = self.resized("ag_matmul_p2p.hir")
        self.reference = str(EXAMPLES / "ag_matmul_p2p.ref.hir")

    def resized(self, name: str) -> str:
        """The example for as many devices as there are GPUs."""
        out = self.folder / name
        resize = f"--pass=resize-mesh{{devices={self.count}}}"
        command = [str(self.suite.opt), str(EXAMPLES / name), resize, "-o", str(out)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise SystemExit(f"{name} cannot be made for {self.count} devices: {made.stderr}")
        return str(out)

    def arguments(self, *more: str, sizes: Sequence[str] = SIZES, timeout: int = 60000) -> list[str]:
        """hir-run's arguments for the program."""
        return [self.program, "--backend=cuda", *sizes, f"--timeout-ms={timeout}", *more]

    def say(self, name: str, wrong: str | None, seconds: float = 0.0) -> None:
        """Counts a case; `wrong` is what is wrong with it."""
        if wrong is None:
            self.suite.passed += 1
            print(f"ok {name} ({seconds:.1f} s)", flush=True)
        else:
            self.suite.failed.append(name)
            print(f"FAILED {name}: {wrong}\n", flush=True)

    # ---- launches that go well ----

    def together(self, name: str, commands: Sequence[Started]) -> None:
        """Runs commands at the same time: all have to end with 0, and rank 0's file has to hold what one process computes."""
        start = time.time()
        children = [start_command(started) for started in commands]
        wrong = None
        for child in children:
            try:
                out, _ = child.communicate(timeout=180)
            except subprocess.TimeoutExpired:
                child.kill()
                out, wrong = child.communicate()[0], "no end within 180 s"
            if child.returncode != 0:
                wrong = f"exit {child.returncode}\n{out[-3000:]}"
        self.say(name, wrong, time.time() - start)

    def launchers(self) -> None:
        """One process, our own processes, and launchers that are installed."""
        check = ["--reference", self.reference, "--output", f"T2={self.folder}/T2.npy"]
        n = str(self.count)
        run = [self.tool, *self.arguments(*check)]
        self.together("one process", [Started(run, {})])
        self.together("--processes", [Started([*run, "-n", n, "--processes"], {})])
        self.together("--processes --graph", [Started([*run, "-n", n, "--processes", "--graph"], {})])
        if shutil.which("torchrun"):
            torchrun = ["torchrun", "--standalone", "--nproc-per-node", n, "--no-python", *run]
            self.together("torchrun", [Started(torchrun, {})])
        else:
            print("skipped torchrun: it is not installed")
        if shutil.which("mpirun"):
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", n, *run]
            # On one machine nothing is started remotely, but Open MPI looks for ssh all the same.
            agent = dict.fromkeys(("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"), "/bin/false")
            self.together("mpirun", [Started(mpirun, agent)])
        else:
            print("skipped mpirun: it is not installed")
        slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": n, "SLURM_NNODES": "1"}
        ranks = [{**slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(self.count)]
        self.together("srun's variables", [Started(run, rank) for rank in ranks])

    def hosts(self, name: str = "two hosts", more: Sequence[str] = ()) -> None:
        """Two hosts on one machine: disjoint GPUs, and NCCL's traffic crosses sockets."""
        port, half = free_port(), max(self.count // 2, 1)
        apart = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "HIR_TOKEN": secrets.token_hex(16)}
        commands = []
        for rank in range(self.count):
            host = rank // half
            visible = ",".join(str(gpu) for gpu in range(host * half, min(self.count, (host + 1) * half)))
            env = {**apart, "HIR_HOST_ID": f"host{host}", "NCCL_HOSTID": f"host{host}", "CUDA_VISIBLE_DEVICES": visible}
            place = ["--rank", str(rank), "--world", str(self.count), "--coordinator", f"127.0.0.1:{port}"]
            commands.append(Started([self.tool, *self.arguments("--reference", self.reference), *more, *place], env))
        self.together(name, commands)

    # ---- timelines ----

    def traces(self) -> None:
        """One file of all processes: as many slices a rank as one process writes, on clocks that agree."""
        one, several = self.folder / "one.json", self.folder / "several.json"
        self.together("one process, traced", [Started([self.tool, *self.arguments("--trace", str(one))], {})])
        more = ["--trace", str(several), "-n", str(self.count), "--processes"]
        self.together("--processes, traced", [Started([self.tool, *self.arguments(*more)], {})])
        self.compare("the trace of --processes", one, several, 100)
        self.hosts("two hosts, traced", ["--trace", str(several)])
        self.compare("the trace of two hosts", one, several, 1000)

    def compare(self, name: str, one: Path, other: Path, most: float) -> None:
        """Slices by rank, and that ranks are apart by at most so many microseconds."""
        try:
            texts = [json.loads(path.read_text()) for path in (one, other)]
        except (OSError, ValueError) as error:
            self.say(name, str(error))
            return
        slices = [
            [sum(event["ph"] == "X" and event["pid"] == rank for event in text["traceEvents"]) for rank in range(self.count)]
            for text in texts
        ]
        apart = texts[1]["otherData"]["ranks may be apart by (us)"]
        wrong = None
        if slices[0] != slices[1] or 0 in slices[1]:
            wrong = f"slices by rank: {slices[0]} of one process, {slices[1]}"
        elif apart > most:
            wrong = f"ranks may be apart by {apart} us"
        self.say(f"{name}: ranks may be apart by {apart} us", wrong)

    def same_gpu(self) -> None:
        """Two processes on one GPU are rejected."""
        command = [self.tool, *self.arguments("-n", str(self.count), "--processes")]
        self.suite.expect("two processes on one GPU", command, 3, "H0534", env=environment({"CUDA_VISIBLE_DEVICES": "0"}))

    # ---- faults ----

    def fault(
        self, name: str, number: int, victim: int | None, codes: Sequence[int], *texts: str, program: str | None = None
    ) -> None:
        """Sends a signal to a rank two seconds after all are ready: in the middle of timed runs, or in a program that
        takes much longer. Without a `victim` the launching process gets it.
        """
        if (self.suite.options.only or "") not in name:
            return
        start = time.time()
        command = [self.tool, *self.arguments("--bench", "--iters", "100000000", sizes=LARGE, timeout=10000)]
        if program:
            command = [self.tool, program, "--backend=cuda", "--timeout-ms=60000", "--input", "0=zeros"]
        command += ["-n", str(self.count), "--processes"]
        parent = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ProcessOutput(parent.stderr)
        ready = said.has("ready in", 60)
        time.sleep(2)
        children = children_of(parent.pid)
        if not ready or len(children) != self.count:
            parent.kill()
            self.say(name, f"the run was not ready, or ended too early: {said.all()[-2000:]}")
            return
        sent = time.time()
        os.kill(children[victim] if victim is not None else parent.pid, number)
        try:
            parent.wait(timeout=60)
        except subprocess.TimeoutExpired:
            parent.kill()
            self.say(name, f"no end within 60 s\n{said.all()[-2000:]}")
            return
        spent, err = time.time() - sent, said.all()
        left = [pid for pid in children if is_running(pid)]
        lacks = [text for text in texts if text not in err]
        if left or lacks or parent.returncode not in codes:
            self.say(name, f"exit {parent.returncode}, left {left}, lacks {lacks}\n{err[-3000:]}")
        else:
            self.say(f"{name}: all ended {spent:.1f} s after it", None, time.time() - start)
            print("".join(f"    {line}\n" for line in err.splitlines() if "exits: " in line or "aborted in" in line), end="")

    def faults(self) -> None:
        """Signals to ranks in runs and at places of programs, and a run after all that."""
        last = self.count - 1
        lost = f"rank {last} is lost"
        silent = "it sent no heartbeat"
        self.fault("SIGKILL of a rank in a run", signal.SIGKILL, last, (3,), lost, "SIGKILL")
        self.fault("SIGKILL of rank 0 in a run", signal.SIGKILL, 0, (3,), "rank 0 is lost")
        self.fault("SIGSTOP of a rank in a run", signal.SIGSTOP, last, (3,), lost, silent)
        self.fault("SIGTERM of a rank in a run", signal.SIGTERM, last, (3,), lost, "SIGTERM")
        self.fault("Ctrl-C", signal.SIGINT, None, (130,))
        for place, text in self.places().items():
            path = self.folder / f"{place.replace(' ', '-')}.hir"
            path.write_text(text)
            program = str(path)
            self.fault(f"SIGKILL of a rank {place}", signal.SIGKILL, last, (3,), lost, "SIGKILL", "aborted in", program=program)
            if place.startswith("in"):
                self.fault(f"SIGSTOP of a rank {place}", signal.SIGSTOP, last, (3,), lost, silent, "aborted in", program=program)
        whole = self.arguments("-n", str(self.count), "--processes", "--reference", self.reference)
        self.together("a run after all that", [Started([self.tool, *whole], {})])

    def places(self) -> dict[str, str]:
        """Programs of 20 to 50 seconds on H200s, by where a rank is then all the time."""
        n = self.count
        product = Body(programs.gemm(n, "bfloat", 8192, 8192, 8192, False, 20000))
        gather = Body(programs.allgather(n, "float", [1 << 20], "NCCL"), 3)
        return {
            "before a collective": program_of(product, gather),
            "behind a collective": program_of(gather, product),
            "in a collective": program_of(Body(programs.allgather(n, "float", [64 << 20], "NCCL")).repeated(20000)),
            "in a message over NCCL": programs.exchange(n, 256 << 20, "NCCL", 15000),
            "in a message by copies": programs.exchange(n, 256 << 20, "CUDA", 15000, "put"),
        }

    # ---- figures ----

    def figures(self) -> None:
        """The same program timed in one process and in several."""
        medians = {}
        for name, more in (("one process", []), ("processes", ["-n", str(self.count), "--processes"])):
            figures = self.folder / f"{name}.json"
            command = [self.tool, *self.arguments("--bench", "--json", str(figures), *more, sizes=LARGE)]
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                self.say(f"timed: {name}", done.stderr[-2000:])
                return
            medians[name] = done.stdout.strip()
        for name, text in medians.items():
            print(f"{name}:\n{text}", flush=True)


class Body:
    """Inputs and ops of a program without outputs; numbers of tensors and domains moved on for one of several."""

    def __init__(self, text: str, tensors: int = 0) -> None:
        if tensors:
            text = re.sub(r"\bT(\d+)", lambda found: f"T{int(found[1]) + tensors}", text)
            text = re.sub(r"((?:iS|rS|Idx\.x))(\d+)\{", lambda found: f"{found[1]}{int(found[2]) + 90}{{", text)
        head, *lines = text.splitlines()
        self.inputs = head.removeprefix("%HostIrContainer { (").partition(") -> ")[0]
        self.lines = lines[:-1]

    def repeated(self, times: int) -> Body:
        """All but the allocation in a loop."""
        self.lines[1:] = [f"  FOR i from 0 to {times}:", *("  " + line for line in self.lines[1:])]
        return self


def program_of(*bodies: Body) -> str:
    """A program that does one after the other."""
    head = f"%HostIrContainer {{ ({', '.join(body.inputs for body in bodies)}) -> () :"
    return "\n".join([head, *(line for body in bodies for line in body.lines), "} // %HostIrContainer\n"])


def run(suite: Suite) -> None:
    """All launches; with --only the faults whose name has its text."""
    if suite.count < 2:
        suite.skip("launch", "it needs two GPUs")
        return
    with tempfile.TemporaryDirectory() as folder:
        launches = Launches(suite, folder)
        if suite.options.only:
            launches.faults()
            return
        launches.launchers()
        launches.hosts()
        launches.traces()
        launches.same_gpu()
        launches.faults()
        launches.figures()
