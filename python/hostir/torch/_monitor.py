"""A thread that looks after what runs on GPUs: a rank that fails or ends must not leave the others waiting."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
import warnings
import weakref
from typing import Any, NoReturn

from hostir import _native
from hostir._errors import HostIrError
from hostir.torch._exchange import GroupExchange

__all__ = ["forget_session", "watch_session"]

_INTERVAL = 0.5
# Seconds for which a run is under way, and a rank gone, before that counts; and those that a process's end waits for its runs.
_AFTERMATH = 2.0
# Seconds between two looks that show that this process itself was stopped.
_STOPPED = 2.0
# Seconds that standard error may take.
_WRITING = 2.0
_SILENCE = 30.0


class _Watched:
    """A session, the group whose ranks it has, its number among the group's, and since when its runs have been under way."""

    def __init__(self, session: _native.Session, exchange: GroupExchange, number: int = 0, name: str = "") -> None:
        self.name = name
        """The op's name."""
        self.session = weakref.ref(session)
        self.exchange = exchange
        self.number = number
        self.busy_since: float | None = None
        self.gone: tuple[int, float] | None = None
        """A rank that was seen to be gone, and since when."""

    def rest(self) -> None:
        """Nothing is under way, or nobody knows since when."""
        self.busy_since = self.gone = None


class _Monitor:
    """The watched sessions of a process. A fork of it has none, and no thread."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.watched: list[_Watched] = []
        self.counts: weakref.WeakKeyDictionary[GroupExchange, int] = weakref.WeakKeyDictionary()
        """The number of sessions that each exchange has had; all ranks prepare them together."""
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.thread: threading.Thread | None = None

    def add(self, session: _native.Session, exchange: GroupExchange, name: str = "") -> None:
        _silence_limit()
        with self.lock:
            if self.thread is None:
                exchange.beat()
                thread = threading.Thread(target=self.run, name="hostir-monitor", daemon=True)
                thread.start()
                self.thread = thread
                atexit.register(self.end)
            number = self.counts.get(exchange, 0)
            self.counts[exchange] = number + 1
            self.watched.append(_Watched(session, exchange, number, name))

    def remove(self, session: _native.Session) -> None:
        """Forgets the session that was added last, and that no rank uses: ranks that never had it count as this one."""
        with self.lock:
            if self.watched and self.watched[-1].session() is session:
                forgotten = self.watched.pop()
                self.counts[forgotten.exchange] = forgotten.number

    def run(self) -> None:
        last = time.monotonic()
        while not self.ending.wait(_INTERVAL):
            with self.lock:
                self.watched = [watched for watched in self.watched if watched.session() is not None]
                current = list(self.watched)
            if time.monotonic() - last > _INTERVAL + _STOPPED:
                _excuse(current)
            last = time.monotonic()
            self.look(current)

    def look(self, current: list[_Watched]) -> None:
        """One look at all sessions and ranks. It raises nothing: without this thread a job can hang."""
        for exchange in _exchanges_of(current):
            try:
                exchange.beat()
                failed = exchange.failed_rank()
            except Exception:  # noqa: BLE001 - what it means is seen below, if a run is under way
                continue
            if failed is not None:
                exchange.control_plane.note_failure(*failed)
        now = time.monotonic()
        for watched in current:
            session = watched.session()
            if session is None or not _is_busy(session, watched):
                watched.rest()
                continue
            if watched.busy_since is None:
                watched.busy_since = now
            if now - watched.busy_since < _AFTERMATH:
                continue
            lost = _lost_rank(watched, session, now)
            if lost is not None:
                watched.exchange.control_plane.note_loss(*lost)
                _is_busy(session, watched)

    def end(self) -> None:
        """Looks at all runs a last time, and tells the other ranks that this process ends. A fork of it tells nobody."""
        if os.getpid() != self.process:
            return
        self.ending.set()
        with self.lock:
            current, self.watched = self.watched, []
        busy = _busy_at_end(current)
        for exchange in _exchanges_of(current):
            own = [watched for watched in current if watched.exchange is exchange]
            try:
                exchange.leave(_finished(self.counts.get(exchange, 0), own, busy))
            except Exception:  # noqa: BLE001 - who cannot be told sees that this process is silent
                continue
        for watched in current:
            session = watched.session()
            if session is not None:
                # Other ranks may still read and write memory of this one.
                session.abandon()


def _exchanges_of(current: list[_Watched]) -> list[GroupExchange]:
    return list({id(watched.exchange): watched.exchange for watched in current}.values())


def _excuse(current: list[_Watched]) -> None:
    """This process was stopped: what others did meanwhile is still to be seen."""
    for exchange in _exchanges_of(current):
        exchange.excuse_silence()
    for watched in current:
        watched.rest()


def _is_complete(session: _native.Session, watched: _Watched | None = None) -> bool | None:
    """False if a run is under way, None if another thread has the session. Ends the process if a run has failed: nobody knows
    what its results are used for.
    """
    try:
        return session.is_complete()
    except (HostIrError, RuntimeError) as error:
        _end_process(error, "" if watched is None else _place_of(watched, session))


def _is_busy(session: _native.Session, watched: _Watched | None = None) -> bool:
    """True if a run is known to be under way."""
    return _is_complete(session, watched) is False


def _place_of(watched: _Watched, session: _native.Session) -> str:
    """The op, the rank and the run that has failed: ` (hostir::region_3f2a91c0_4d5e6f, rank 1, run 812)`."""
    runs = _runs_of(session)
    rank = getattr(watched.exchange, "rank", None)
    known = [watched.name, "" if rank is None else f"rank {rank}", "" if runs is None else f"run {runs}"]
    return f" ({', '.join(filter(None, known))})" if any(known) else ""


def _busy_at_end(current: list[_Watched]) -> list[_Watched]:
    """The sessions whose runs have not ended, though they had a moment for it: other ranks may need what they send."""
    deadline = time.monotonic() + _AFTERMATH
    while True:
        known = [(watched, watched.session()) for watched in current]
        busy = [watched for watched, session in known if session is not None and not _is_complete(session, watched)]
        if not busy or time.monotonic() > deadline:
            return busy
        time.sleep(0.01)


def _finished(sessions: int, own: list[_Watched], busy: list[_Watched]) -> dict[str, Any]:
    """For the other ranks: how many sessions there were, which have runs under way, and how many runs the others have done."""
    done = {}
    for watched in own:
        session = watched.session()
        runs = None if session is None else _runs_of(session)
        if runs is not None:
            done[str(watched.number)] = runs
    return {"sessions": sessions, "busy": [watched.number for watched in own if watched in busy], "runs": done}


def _runs_of(session: _native.Session) -> int | None:
    """The runs that were enqueued; None for a session of another making, such as a test's."""
    count = getattr(session, "runs", None)
    return None if count is None else int(count())


def _has_done_its_part(watched: _Watched, session: _native.Session, rank: int) -> bool:
    """True if a rank that has left had done all runs of this session that are enqueued here: none of them waits for it."""
    say = getattr(watched.exchange, "finished_runs", None)
    said = {} if say is None else say(rank)
    number, runs = watched.number, _runs_of(session)
    if number >= said.get("sessions", 0) or number in said.get("busy", ()):
        return False
    return runs is None or runs <= said.get("runs", {}).get(str(number), runs)


def _lost_rank(watched: _Watched, session: _native.Session, now: float) -> tuple[int, str] | None:
    """A rank that a run waits for in vain, and how it is known. A store that does not answer is gone with its process."""
    done: set[int] = set()
    try:
        ended = watched.exchange.ended_rank(_silence_limit())
        while ended is not None and _has_done_its_part(watched, session, ended[0]):
            done.add(ended[0])
            ended = watched.exchange.ended_rank(_silence_limit(), done)
    except Exception as error:  # noqa: BLE001 - whatever the store or what it holds is, this thread goes on
        reason = str(error).partition("\n")[0]
        return 0, f"the process group's store, which its process usually has, does not answer: {reason}"
    if ended is None:
        watched.gone = None
        return None
    if watched.gone is None or watched.gone[0] != ended[0]:
        watched.gone = (ended[0], now)
    return ended if now - watched.gone[1] >= _AFTERMATH else None


def _end_process(error: Exception, place: str = "") -> NoReturn:
    """Ends the process, also where nobody can be told why: standard error may be closed, or a pipe that nobody reads."""
    text = f"hostir: {error}\nhostir: the process ends, lest wrong results are used{place}\n"
    writer = threading.Thread(target=_write_error, args=(text,), daemon=True)
    try:
        writer.start()
        writer.join(_WRITING)
    except RuntimeError:
        # No thread can be started, as at the end of the interpreter.
        _write_error(text)
    finally:
        os._exit(1)


def _write_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:  # noqa: BLE001 - there is nobody to tell
        return


_warned: set[str] = set()


def _silence_limit() -> float:
    """Seconds without a heartbeat after which a rank that others wait for is taken for lost; infinite where limits are off."""
    given = os.environ.get("HOSTIR_PEER_TIMEOUT", "").strip()
    if given.lower() in {"0", "off"}:
        return math.inf
    try:
        seconds = float(given) if given else _SILENCE
    except ValueError:
        seconds = math.nan
    if seconds > 0:
        return seconds
    if given not in _warned:
        _warned.add(given)
        what = f"HOSTIR_PEER_TIMEOUT is {given!r}, no number of seconds above 0, nor `off`: a silent rank is lost after 30 s"
        warnings.warn(what, RuntimeWarning, stacklevel=2)
    return _SILENCE


_monitor = _Monitor()


def _start_anew() -> None:
    """Watches nothing in a forked process: sessions, the thread, and locks that it may hold, are the parent's."""
    global _monitor
    _monitor = _Monitor()


os.register_at_fork(after_in_child=_start_anew)


def watch_session(session: _native.Session, exchange: GroupExchange, name: str = "") -> None:
    """Looks after the runs of an op's session until it is gone."""
    _monitor.add(session, exchange, name)


def forget_session(session: _native.Session) -> None:
    """Takes back `watch_session`, before the next session is watched."""
    _monitor.remove(session)
