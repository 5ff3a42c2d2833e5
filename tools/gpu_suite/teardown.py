"""Ranks that are killed or stopped while others wait for them.

Programs of test/run/teardown run on two GPUs, one process a rank, again and again; two seconds after they began one
rank is sent SIGKILL or SIGSTOP. The others have to end by themselves, within the time limit and two seconds, and say
which op and iteration they waited in, or that they were between two runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.paths import ROOT
from gpu_suite.processes import ProcessOutput, children_of, environment, is_running
from gpu_suite.suite import Suite

# Seconds that a run may take, and how much longer until everything has ended.
LIMIT, MORE = 5, 2
# Elements that make a run some milliseconds long.
PROGRAMS = {"one_team": 1 << 22, "two_teams": 1 << 22, "copies_beside": 1 << 23}
# What is said of a process that does not end by itself.
FROM_OUTSIDE = ("did not return", "does not stop")
# More messages at once than a graph of several GPUs may pull without copy engines, and as many as it may.
PULLS = """%HostIrContainer {{ (T0_g_float[ideviceIdx.x0{{2}}, iS1{{{n}}}, iS2{{{m}}}] (DeviceMesh{{0 1}})) -> (T1_g_float[ideviceIdx.x3{{2}}, iS4{{{n}}}, iS5{{{m}}}] (DeviceMesh{{0 1}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size={all}, zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 999
  FOR s from 0 to {n}:
    SetCurrentStream to Stream s
    Synchronize Stream 999
    T2_l_float[ideviceIdx.x6{{2}}, iS7{{{m}}}] (DeviceMesh{{0 1}})
       = HirAliasSelect( T0, axis = iS1{{{n}}}, index = s )
    T3_l_float[ideviceIdx.x8{{2}}, iS9{{{m}}}] (DeviceMesh{{0 1}})
       = HirAliasSelect( T1, axis = iS4{{{n}}}, index = s )
    P2PCommunication 0 (type=send, buffer=T2, peer=( 1 - rank ), backend=CUDA)
    P2PCommunication 1 (type=recv, buffer=T3, peer=( 1 - rank ), backend=CUDA)
    Wait Communication 1
    Wait Communication 0
  SetCurrentStream to Stream 999
  FOR s from 0 to {n}:
    Synchronize Stream s
}} // %HostIrContainer
"""  # noqa: E501


class TimedRun(NamedTuple):
    """A benchmark that would go on for hours, its messages, and its ranks' processes once all are ready."""

    parent: subprocess.Popen[str]
    output: ProcessOutput
    children: list[int]


def say(suite: Suite, name: str, wrong: str | None) -> None:
    """Counts a case; `wrong` is what is wrong with it."""
    if wrong:
        suite.failed.append(name)
        print(f"FAILED {name}: {wrong}", flush=True)
    else:
        suite.passed += 1
        print(f"ok {name}", flush=True)


def start_run(suite: Suite, program: str, flags: Sequence[str], cumem: str) -> TimedRun:
    """Starts a program of test/run/teardown; `cumem` is NCCL_CUMEM_ENABLE."""
    path = ROOT / f"test/run/teardown/{program}.hir"
    command = [str(suite.tool), str(path), "--backend=cuda", "-n", "2", "--processes", "--set", f"i0={PROGRAMS[program]}"]
    command += ["--bench", "--iters", "100000000", "--timeout-ms", str(LIMIT * 1000), *flags]
    env = environment({"NCCL_CUMEM_ENABLE": cumem})
    parent = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output = ProcessOutput(parent.stderr)
    is_ready = output.has("ready in", 60)
    time.sleep(2)
    return TimedRun(parent, output, children_of(parent.pid) if is_ready else [])


def interrupt_run(suite: Suite, name: str, program: str, number: int, flags: Sequence[str], cumem: str) -> None:
    """Sends rank 1 a signal, and checks how rank 0 ends."""
    if (suite.options.only or "") not in name:
        return
    parent, output, children = start_run(suite, program, flags, cumem)
    if len(children) != 2:
        parent.kill()
        say(suite, name, f"the run was not ready, or ended too early: {output.all()[-2000:]}")
        return
    sent = time.time()
    os.kill(children[1], number)
    try:
        parent.wait(timeout=60)
    except subprocess.TimeoutExpired:
        parent.kill()
        say(suite, name, f"no end within 60 s\n{output.all()[-2000:]}")
        return
    spent, err = time.time() - sent, output.all()
    is_placed = "aborted in" in err or "waited for the other" in err
    faults = {
        f"exit {parent.returncode}": parent.returncode != 3,
        f"ended after {spent:.1f} s": spent > LIMIT + MORE,
        "processes are left": any(is_running(child) for child in children),
        "a process was ended from outside": any(text in err for text in FROM_OUTSIDE),
        "the lost rank is not named": "rank 1 is lost" not in err,
        "nobody says where it was": not is_placed,
    }
    wrong = [text for text, is_bad in faults.items() if is_bad]
    say(suite, f"{name} ({spent:.1f} s)", f"{', '.join(wrong)}\n{err[-3000:]}" if wrong else None)
    if not wrong:
        print("".join(f"    {line.strip()}\n" for line in err.splitlines() if "aborted in" in line or "waited for" in line), end="")


def pull_at_once(suite: Suite) -> None:
    """Recorded pulls go through kernels, or are refused; they never wait for each other's engines."""
    rejected = ("H0505", "--processes")
    cases: list[tuple[int, int, tuple[str, ...]]] = [(60, 0, ()), (66, 0, ()), (80, 1, rejected)]
    with tempfile.TemporaryDirectory() as folder:
        for streams, code, texts in cases:
            path = Path(folder) / f"pulls{streams}.hir"
            path.write_text(PULLS.format(n=streams, m=1 << 19, all=2 * streams << 19))
            command = [str(suite.tool), str(path), "--backend=cuda", "--graph", "--streams", str(streams)]
            command += ["--timeout-ms", "20000", "--input", "0=ones"]
            suite.expect(f"{streams} recorded pulls at once", command, code, *texts)


def run(suite: Suite) -> None:
    """Each program, signal and mode is a case."""
    if suite.count < 2:
        suite.skip("teardown", "it needs two GPUs")
        return
    pull_at_once(suite)
    for program in PROGRAMS:
        cumem = "0" if program == "two_teams" else "1"
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for flags in ([], ["--graph"]):
                mode = " as a graph" if flags else ""
                name = f"{number.name} while {program} runs{mode}, NCCL_CUMEM_ENABLE={cumem}"
                interrupt_run(suite, name, program, number, flags, cumem)
