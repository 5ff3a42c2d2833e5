"""A thread that looks after what runs on GPUs: a rank that fails or ends must not leave the others waiting."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from typing import NoReturn

from hostir import _native
from hostir._errors import HostIrError
from hostir.torch._exchange import GroupExchange

__all__ = ["watch_session"]

_INTERVAL = 0.5
_AFTERMATH = 2.0


class _Watched:
    """A session, the group whose ranks it has, and since when its runs have been under way."""

    def __init__(self, session: _native.Session, exchange: GroupExchange) -> None:
        self.session = weakref.ref(session)
        self.exchange = exchange
        self.busy_since: float | None = None


class _Monitor:
    def __init__(self) -> None:
        self.watched: list[_Watched] = []
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, session: _native.Session, exchange: GroupExchange) -> None:
        with self.lock:
            self.watched.append(_Watched(session, exchange))
            if self.thread is None:
                exchange.beat()
                self.thread = threading.Thread(target=self.run, name="hostir-monitor", daemon=True)
                self.thread.start()
                atexit.register(self.end)

    def run(self) -> None:
        while not self.ending.wait(_INTERVAL):
            with self.lock:
                self.watched = [watched for watched in self.watched if watched.session() is not None]
                current = list(self.watched)
            self.look(current)

    def look(self, current: list[_Watched]) -> None:
        for exchange in {id(watched.exchange): watched.exchange for watched in current}.values():
            try:
                exchange.beat()
                failed = exchange.failed_rank()
            except (RuntimeError, OSError):
                # What it means is seen below, if a run is under way.
                continue
            if failed is not None:
                exchange.control_plane.note_failure(*failed)
        now = time.monotonic()
        for watched in current:
            session = watched.session()
            if session is None or not _is_busy(session):
                watched.busy_since = None
                continue
            if watched.busy_since is None:
                watched.busy_since = now
            if now - watched.busy_since < _AFTERMATH:
                continue
            ended = _ended_rank(watched.exchange)
            if ended is not None:
                watched.exchange.control_plane.note_loss(*ended)
                _is_busy(session)

    def end(self) -> None:
        self.ending.set()
        with self.lock:
            current, self.watched = self.watched, []
        for exchange in {id(watched.exchange): watched.exchange for watched in current}.values():
            try:
                exchange.leave()
            except (RuntimeError, OSError):
                continue
        for watched in current:
            session = watched.session()
            if session is not None:
                # Other ranks may still read and write memory of this one.
                session.abandon()


def _is_busy(session: _native.Session) -> bool:
    """True if a run is under way. Ends the process if it has failed: nobody knows what its results are used for."""
    try:
        return session.is_complete() is False
    except HostIrError as error:
        _end_process(error)


def _ended_rank(exchange: GroupExchange) -> tuple[int, str] | None:
    """A rank that is gone, and how; a store that does not answer is gone with the process that had it."""
    try:
        return exchange.ended_rank(_silence_limit())
    except (RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        return 0, f"the process group's store, which its process usually has, does not answer: {reason}"


def _end_process(error: HostIrError) -> NoReturn:
    print(f"hostir: {error}\nhostir: the process ends, lest wrong results are used", file=sys.stderr, flush=True)
    os._exit(1)


def _silence_limit() -> float:
    """Seconds without a heartbeat after which a rank that others wait for is taken for lost."""
    return float(os.environ.get("HOSTIR_PEER_TIMEOUT", "30"))


_monitor = _Monitor()


def watch_session(session: _native.Session, exchange: GroupExchange) -> None:
    """Looks after a session's runs until it is gone."""
    _monitor.add(session, exchange)
