"""Launches on the GPUs of a machine: tools/gpu-suite's part `launch`.

Every launch computes a pipelined allgather + matmul and compares it with plain math on the CPU, as the run in
one process does. Launchers that are not installed are printed as skipped.
"""

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import overlap_programs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples/printed"
# Variables of launchers that this script itself may run under.
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC", "OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "HIR_RANK", "HIR_WORLD", "HIR_COORDINATOR", "HIR_PARENT")
SIZES = ["--set", "i1=512", "--set", "i2=256", "--set", "i3=128"]
# Some milliseconds a run, most of them on the devices.
LARGE = ["--set", "i1=2048", "--set", "i2=4096", "--set", "i3=2048"]


def environment(more=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    clean["NCCL_NVLS_ENABLE"] = "0"
    clean.update(more or {})
    return clean


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Launches:
    """`suite` counts what passed and failed; programs are made for `count` GPUs."""

    def __init__(self, suite, folder):
        self.suite, self.tool = suite, str(suite.tool)
        self.count = min(suite.count, 4)
        self.folder = Path(folder)
        self.program = self.resized("ag_matmul_p2p.hir")
        self.reference = str(EXAMPLES / "ag_matmul_p2p.ref.hir")

    def resized(self, name):
        """The example for as many devices as there are GPUs."""
        out = self.folder / name
        made = subprocess.run(
            [str(self.suite.opt), str(EXAMPLES / name), f"--pass=resize-mesh{{devices={self.count}}}", "-o", str(out)],
            capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise SystemExit(f"{name} cannot be made for {self.count} devices: {made.stderr}")
        return str(out)

    def arguments(self, *more, sizes=SIZES, timeout=60000):
        return [self.program, "--backend=cuda", *sizes, f"--timeout-ms={timeout}", *more]

    def say(self, name, wrong, seconds=0.0):
        if wrong is None:
            self.suite.passed += 1
            print(f"ok {name} ({seconds:.1f} s)", flush=True)
        else:
            self.suite.failed.append(name)
            print(f"FAILED {name}: {wrong}\n", flush=True)

    # ---- launches that go well ----

    def together(self, name, commands):
        """Runs commands at the same time, a list of (command, environment): all have to end with 0, and rank 0's
        output file has to hold what one process computes."""
        start = time.time()
        children = [subprocess.Popen(command, env=environment(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command, env in commands]
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

    def launchers(self):
        check = ["--reference", self.reference, "--output", f"T2={self.folder}/T2.npy"]
        n = str(self.count)
        run = [self.tool, *self.arguments(*check)]
        one = [(run, {})]
        self.together("one process", one)
        self.together("--processes", [([*run, "-n", n, "--processes"], {})])
        self.together("--processes --graph", [([*run, "-n", n, "--processes", "--graph"], {})])
        if shutil.which("torchrun"):
            self.together("torchrun", [(["torchrun", "--standalone", "--nproc-per-node", n, "--no-python", *run], {})])
        else:
            print("skipped torchrun: it is not installed")
        if shutil.which("mpirun"):
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", n, *run]
            # On one machine nothing is started remotely, but Open MPI looks for ssh all the same.
            agent = {name: "/bin/false" for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")}
            self.together("mpirun", [(mpirun, agent)])
        else:
            print("skipped mpirun: it is not installed")
        slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NTASKS": n, "SLURM_NNODES": "1"}
        self.together("srun's variables", [(run, {**slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}) for rank in range(self.count)])

    def hosts(self, name="two hosts", more=()):
        """Two hosts on one machine: disjoint GPUs, and NCCL's traffic crosses sockets."""
        port, half = free_port(), max(self.count // 2, 1)
        apart = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "HIR_TOKEN": secrets.token_hex(16)}
        commands = []
        for rank in range(self.count):
            host, local = divmod(rank, half)
            visible = ",".join(str(gpu) for gpu in range(host * half, min(self.count, (host + 1) * half)))
            env = {**apart, "HIR_HOST_ID": f"host{host}", "NCCL_HOSTID": f"host{host}", "CUDA_VISIBLE_DEVICES": visible}
            place = ["--rank", str(rank), "--world", str(self.count), "--coordinator", f"127.0.0.1:{port}"]
            commands.append(([self.tool, *self.arguments("--reference", self.reference), *more, *place], env))
        self.together(name, commands)

    # ---- timelines ----

    def traces(self):
        """One file of all processes: as many slices a rank as one process writes, on clocks that agree."""
        one, several = self.folder / "one.json", self.folder / "several.json"
        self.together("one process, traced", [([self.tool, *self.arguments("--trace", str(one))], {})])
        more = ["--trace", str(several), "-n", str(self.count), "--processes"]
        self.together("--processes, traced", [([self.tool, *self.arguments(*more)], {})])
        self.compare("the trace of --processes", one, several, 100)
        self.hosts("two hosts, traced", ["--trace", str(several)])
        self.compare("the trace of two hosts", one, several, 1000)

    def compare(self, name, one, other, most):
        """Slices by rank, and that ranks are apart by at most so many microseconds."""
        try:
            texts = [json.loads(path.read_text()) for path in (one, other)]
        except (OSError, ValueError) as error:
            return self.say(name, str(error))
        slices = [[sum(event["ph"] == "X" and event["pid"] == rank for event in text["traceEvents"]) for rank in range(self.count)] for text in texts]
        apart = texts[1]["otherData"]["ranks may be apart by (us)"]
        wrong = None
        if slices[0] != slices[1] or 0 in slices[1]:
            wrong = f"slices by rank: {slices[0]} of one process, {slices[1]}"
        elif apart > most:
            wrong = f"ranks may be apart by {apart} us"
        self.say(f"{name}: ranks may be apart by {apart} us", wrong)

    def same_gpu(self):
        one = {"CUDA_VISIBLE_DEVICES": "0"}
        self.suite.expect("two processes on one GPU", [self.tool, *self.arguments("-n", str(self.count), "--processes")], 3, "H0534", env=environment(one))

    # ---- faults ----

    def fault(self, name, number, victim, codes, *texts, program=None):
        """Sends a signal to a rank two seconds after all are ready: in the middle of timed runs, or in a program that
        takes much longer."""
        if (self.suite.options.only or "") not in name:
            return
        start = time.time()
        command = [self.tool, *self.arguments("--bench", "--iters", "100000000", sizes=LARGE, timeout=10000)]
        if program:
            command = [self.tool, program, "--backend=cuda", "--timeout-ms=60000", "--input", "0=zeros"]
        command += ["-n", str(self.count), "--processes"]
        parent = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = Said(parent.stderr)
        ready = said.has("ready in", 60)
        time.sleep(2)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        if not ready or len(children) != self.count:
            parent.kill()
            self.say(name, f"the run was not ready, or ended too early: {said.all()[-2000:]}")
            return
        sent = time.time()
        os.kill(int(children[victim]) if victim is not None else parent.pid, number)
        try:
            parent.wait(timeout=60)
        except subprocess.TimeoutExpired:
            parent.kill()
            self.say(name, f"no end within 60 s\n{said.all()[-2000:]}")
            return
        spent, err = time.time() - sent, said.all()
        left = [pid for pid in children if running(pid)]
        lacks = [text for text in texts if text not in err]
        if left or lacks or parent.returncode not in codes:
            self.say(name, f"exit {parent.returncode}, left {left}, lacks {lacks}\n{err[-3000:]}")
        else:
            self.say(f"{name}: all ended {spent:.1f} s after it", None, time.time() - start)
            print("".join(f"    {line}\n" for line in err.splitlines() if "exits: " in line or "aborted in" in line), end="")

    def faults(self):
        last = self.count - 1
        lost = f"rank {last} is lost"
        self.fault("SIGKILL of a rank in a run", signal.SIGKILL, last, (3,), lost, "SIGKILL")
        self.fault("SIGKILL of rank 0 in a run", signal.SIGKILL, 0, (3,), "rank 0 is lost")
        self.fault("SIGSTOP of a rank in a run", signal.SIGSTOP, last, (3,), lost, "it sent no heartbeat")
        self.fault("SIGTERM of a rank in a run", signal.SIGTERM, last, (3,), lost, "SIGTERM")
        self.fault("Ctrl-C", signal.SIGINT, None, (130,))
        for place, text in self.places().items():
            program = self.folder / f"{place.replace(' ', '-')}.hir"
            program.write_text(text)
            self.fault(f"SIGKILL of a rank {place}", signal.SIGKILL, last, (3,), lost, "SIGKILL", "aborted in", program=str(program))
            if place.startswith("in"):
                self.fault(f"SIGSTOP of a rank {place}", signal.SIGSTOP, last, (3,), lost, "it sent no heartbeat", "aborted in", program=str(program))
        self.together("a run after all that", [([self.tool, *self.arguments("-n", str(self.count), "--processes", "--reference", self.reference)], {})])

    def places(self):
        """Programs of 20 to 50 seconds on H200s, by where a rank is then all the time."""
        n = self.count
        product = Body(overlap_programs.gemm(n, "bfloat", 8192, 8192, 8192, False, 20000))
        gather = Body(overlap_programs.allgather(n, "float", [1 << 20], "NCCL"), 3)
        return {
            "before a collective": program(product, gather),
            "behind a collective": program(gather, product),
            "in a collective": program(Body(overlap_programs.allgather(n, "float", [64 << 20], "NCCL")).repeated(20000)),
            "in a message over NCCL": overlap_programs.exchange(n, 256 << 20, "NCCL", 15000),
            "in a message by copies": overlap_programs.exchange(n, 256 << 20, "CUDA", 15000, "put"),
        }

    # ---- figures ----

    def figures(self):
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

    def __init__(self, text, tensors=0):
        if tensors:
            text = re.sub(r"\bT(\d+)", lambda found: f"T{int(found[1]) + tensors}", text)
            text = re.sub(r"((?:iS|rS|Idx\.x))(\d+)\{", lambda found: f"{found[1]}{int(found[2]) + 90}{{", text)
        head, *lines = text.splitlines()
        self.inputs, self.lines = re.match(r"%HostIrContainer \{ \((.*)\) -> ", head)[1], lines[:-1]

    def repeated(self, times):
        """All but the allocation in a loop."""
        self.lines[1:] = [f"  FOR i from 0 to {times}:", *("  " + line for line in self.lines[1:])]
        return self


def program(*bodies):
    head = f"%HostIrContainer {{ ({', '.join(body.inputs for body in bodies)}) -> () :"
    return "\n".join([head, *(line for body in bodies for line in body.lines), "} // %HostIrContainer\n"])


class Said:
    """The output of a process while it runs."""

    def __init__(self, stream):
        self.text, self.stream = "", stream
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.stream:
            self.text += line

    def has(self, word, seconds):
        """Waits until a word is said; whether it was, before the end and in time."""
        end = time.monotonic() + seconds
        while word not in self.text and self.reader.is_alive() and time.monotonic() < end:
            time.sleep(0.05)
        return word in self.text

    def all(self):
        self.reader.join(10)
        return self.text


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def main(suite):
    if suite.count < 2:
        suite.skip("launch", "it needs two GPUs")
        return
    with tempfile.TemporaryDirectory() as folder:
        launches = Launches(suite, folder)
        if suite.options.only:
            return launches.faults()
        launches.launchers()
        launches.hosts()
        launches.traces()
        launches.same_gpu()
        launches.faults()
        launches.figures()
