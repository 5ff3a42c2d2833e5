"""A session whose run does not end, on a stand-in for CUDA's driver (`tools/run/tests/needs/driver.c`): what other threads of the
process can do meanwhile, and what a fork of it touches.

usage: python stopped_gpu.py CASE, with the stand-in in LD_LIBRARY_PATH and DRIVER_EVENTS=0
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable

import hostir
from hostir import _native
from hostir._program import _settings

PROGRAM = "hir 2\nf(x: f32[8]) -> (y: f32[8]):\n  y = Set(x)\n"
LAYOUT = ("float32", [8], [1])
TIMEOUT = 3.0


class Ticker:
    """Another thread of Python's, and the longest time for which it stood still."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(0.02)
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now


def busy_session(reports: list[str]) -> _native.Session:
    """A session with a run under way."""
    plane = _native.ControlPlane(0, 1, "here", lambda what, message: ([message], None), reports.append)
    settings = {
        "device": 0,
        "copies": False,
        "timeout": TIMEOUT,
        "parent": None,
        "tunes_sustained": False,
        "gemm_kernels": False,
        "symmetric": [],
    }
    program = hostir.parse(PROGRAM)._handle
    session = _native.Session(program, [LAYOUT], [(0, LAYOUT)], plane, _settings(1, None, None, None, False, None), settings)
    buffers = [ctypes.create_string_buffer(4096) for _ in range(2)]
    session.run(0, [(ctypes.addressof(buffer) + 511) // 512 * 512 for buffer in buffers])
    # Memory of a run stays.
    KEPT.extend(buffers)
    return session


KEPT: list[object] = []


def waits(session: _native.Session, told: list[str]) -> None:
    """The run is waited for, which fails."""
    try:
        session.wait()
    except hostir.HostIrError as error:
        told.append(str(error).splitlines()[0])


def taken(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


def ask() -> None:
    """While one thread waits for the run, another one asks."""
    ticker, reports, told = Ticker(), [], []
    session = busy_session(reports)
    waiter = threading.Thread(target=waits, args=(session, told), daemon=True)
    waiter.start()
    time.sleep(0.5)
    for question in (session.is_recorded, session.symmetric, session.platform, session.phases, session.runs, session.is_complete):
        assert taken(question) < 1, question
    assert session.is_complete() is None and session.runs() == 1
    waiter.join(30)
    assert not waiter.is_alive() and "H0511" in told[0], told
    assert ticker.longest < 1, f"another thread stood still for {ticker.longest:.1f} s"


def drop() -> None:
    """A session is dropped while its run is under way."""
    ticker = Ticker()
    session = busy_session([])
    time.sleep(0.3)
    del session
    assert ticker.longest < 1, f"another thread stood still for {ticker.longest:.1f} s"


def abandon() -> None:
    """A session that another thread has is left as it is."""
    session, told = busy_session([]), []
    waiter = threading.Thread(target=waits, args=(session, told), daemon=True)
    waiter.start()
    time.sleep(0.3)
    assert taken(session.abandon) < 1
    waiter.join(30)
    assert not waiter.is_alive()
    assert taken(session.close) < 1


def fork() -> None:
    """A fork drops the sessions of its parent, and waits for none."""
    session = busy_session([])
    waiter = threading.Thread(target=waits, args=(session, []), daemon=True)
    waiter.start()
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        # The lock is the waiting thread's, which the fork has not.
        assert session.is_complete() is True and session.is_recorded() is False
        session.abandon()
        session.close()
        try:
            session.wait()
        except hostir.HostIrError as error:
            assert error.code == "H0614" and "a fork of" in str(error), error
        else:
            raise AssertionError("a fork waits for a run")
        del session
        sys.exit(7)
    began = time.monotonic()
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == 7 and time.monotonic() - began < 2
    waiter.join(30)


if __name__ == "__main__":
    {"ask": ask, "drop": drop, "abandon": abandon, "fork": fork}[sys.argv[1]]()
    print("right", flush=True)
    os._exit(0)
