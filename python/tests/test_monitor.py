"""The thread that looks after runs: which ranks are lost, and what it survives. Sessions and stores are stand-ins."""

import json
import os
import subprocess
import sys
import textwrap
import warnings

import pytest

torch = pytest.importorskip("torch")

from hostir.torch import _exchange, _monitor  # noqa: E402
from hostir.torch._exchange import Patience  # noqa: E402


class Session:
    """A run that does not end."""

    def __init__(self, runs=1):
        self.count = runs

    def is_complete(self):
        return False

    def runs(self):
        return self.count


class Exchange:
    """A group whose other ranks have ended, or are silent; `left` has what each said of its runs."""

    def __init__(self, ended=(), left=None):
        self.ended, self.left, self.losses, self.limits = list(ended), left or {}, [], []
        self.control_plane = self

    def beat(self):
        pass

    def failed_rank(self):
        return None

    def ended_rank(self, silence, known=()):
        self.limits.append(silence)
        return next(((rank, "it has ended") for rank in self.ended if rank not in known), None)

    def finished_runs(self, rank):
        return self.left.get(rank, {})

    def excuse_silence(self):
        self.limits.append("excused")

    def note_loss(self, *loss):
        self.losses.append(loss)


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns on."""
    now = [1000.0]
    monkeypatch.setattr(_monitor.time, "monotonic", lambda: now[0])
    return now


def losses_after(clock, exchange, session, seconds):
    watched = _monitor._Watched(session, exchange)
    monitor = _monitor._Monitor()
    end = clock[0] + seconds
    while clock[0] < end:
        monitor.look([watched])
        clock[0] += 0.5
    return exchange.losses


DONE = {"sessions": 1, "busy": [], "runs": {"0": 3}}


@pytest.mark.parametrize(
    ("left", "is_lost"),
    [
        (DONE, False),
        ({"sessions": 1, "busy": [], "runs": {}}, False),
        ({**DONE, "runs": {"0": 2}}, True),
        ({**DONE, "busy": [0]}, True),
        ({**DONE, "sessions": 0}, True),
        ({}, True),
    ],
)
def test_a_rank_that_has_done_its_runs_may_end(clock, left, is_lost):
    """The third run goes on here, as with a last stage's own work."""
    found = losses_after(clock, Exchange([1], {1: left}), Session(runs=3), 60)
    assert bool(found) == is_lost, found


def test_a_rank_behind_one_that_may_end_is_seen(clock):
    found = losses_after(clock, Exchange([1, 2], {1: DONE}), Session(runs=3), 60)
    assert found[0] == (2, "it has ended")


def test_a_rank_that_ends_has_two_seconds(clock):
    """After the two for which the run has gone on."""
    assert losses_after(clock, Exchange([1]), Session(), 4.0) == []
    assert losses_after(clock, Exchange([1]), Session(), 5.0)[0] == (1, "it has ended")


def test_a_process_that_was_stopped_sees_what_came_meanwhile(clock, monkeypatch):
    exchange, session = Exchange([1]), Session()
    monitor = _monitor._Monitor()
    monitor.watched = [_monitor._Watched(session, exchange)]
    gaps = iter([0.5, 0.5, 0.5, 0.5, 0.5, 40.0, 0.5, 0.5, None])

    class Waits:
        def wait(self, seconds):
            gap = next(gaps)
            clock[0] += gap or 0
            return gap is None

    monkeypatch.setattr(monitor, "ending", Waits())
    monitor.run()
    assert exchange.losses == [] and exchange.limits[-1] == "excused", exchange.limits


def test_what_is_wrong_with_the_store_ends_no_monitor(clock):
    exchange = Exchange([1])
    exchange.failed_rank = lambda: int("no rank")
    assert losses_after(clock, exchange, Session(), 10) != []


@pytest.mark.parametrize(
    ("given", "limit", "is_warned"),
    [
        ("", 30, 0),
        ("7.5", 7.5, 0),
        ("off", float("inf"), 0),
        ("0", float("inf"), 0),
        ("soon", 30, 1),
        ("-3", 30, 1),
        ("nan", 30, 1),
    ],
)
def test_the_limit_of_silence(monkeypatch, given, limit, is_warned):
    monkeypatch.setenv("HOSTIR_PEER_TIMEOUT", given)
    monkeypatch.setattr(_monitor, "_warned", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert [_monitor._silence_limit() for _ in range(2)] == [limit] * 2
    assert len(found) == is_warned and all("HOSTIR_PEER_TIMEOUT" in str(one.message) for one in found)


def test_patience_counts_the_time_in_which_this_process_ran(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_exchange.time, "monotonic", lambda: now[0])
    monkeypatch.delenv("HOSTIR_PEER_TIMEOUT", raising=False)

    def is_over_after(gaps, limit=10.0):
        patience = Patience(limit)
        for gap in gaps:
            now[0] += gap
            found = patience.is_over()
        return found

    assert is_over_after([1.0] * 11) and not is_over_after([1.0] * 10)
    assert not is_over_after([1.0, 3600.0, 1.0])
    monkeypatch.setenv("HOSTIR_PEER_TIMEOUT", "off")
    assert not is_over_after([1.0] * 1000)


class Store:
    def __init__(self, **entries):
        self.entries = {f"hostir/{key.replace('_', '/')}": value for key, value in entries.items()}

    def check(self, keys):
        return all(key in self.entries for key in keys)

    def get(self, key):
        return self.entries[key]


def exchange_with(**entries):
    made = _exchange.GroupExchange.__new__(_exchange.GroupExchange)
    made.rank, made.world, made._process, made._beats = 0, 2, os.getpid(), Store(**entries)
    return made


def test_reports_of_others():
    assert exchange_with().failed_rank() is None
    assert exchange_with(failed=b"1\nH0521\n\nno memory").failed_rank() == (1, "H0521\n\nno memory")
    for malformed in (b"", b"soon", b"\xff\xfe\n", b"-1\nx", b"2\nno such rank", "\u0661\nx".encode(), b"9" * 5000):
        assert exchange_with(failed=malformed).failed_rank() is None, malformed
    assert exchange_with(left_1=json.dumps(DONE).encode()).finished_runs(1) == DONE
    for malformed in (b"1", b"", b"[" * 100_000, b"\xff", b'"x"'):
        assert exchange_with(left_1=malformed).finished_runs(1) == {}, malformed[:20]


def python(code, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True, check=False, timeout=120, **options)


FORK = """
    import os, sys, tempfile, time
    import torch.distributed as dist
    from hostir.torch import _monitor
    from hostir.torch._exchange import exchange_of

    class Session:
        def is_complete(self): return True
        def runs(self): return 1
        def abandon(self): print("abandoned by", "the parent" if os.getpid() == parent else "a fork", flush=True)

    parent, name = os.getpid(), tempfile.mkstemp()[1]
    store = dist.FileStore(name, 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    session, exchange = Session(), exchange_of(dist.group.WORLD, 5.0)
    _monitor.watch_session(session, exchange)
    child = os.fork()
    if child == 0:
        exchange.beat(); exchange.report("H0000"); exchange.leave()
        assert exchange.ended_rank(0.0) is None and exchange.failed_rank() is None
        assert _monitor._monitor.watched == [] and exchange_of.__globals__["_exchanges"] == {}
        try:
            exchange.gather("step", b"")
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print("left:", exchange._beats.check(["hostir/left/0"]), "failed:", exchange._beats.check(["hostir/failed"]), flush=True)
    sys.exit(0)
"""


def test_the_end_of_a_fork_is_not_the_end_of_its_parent():
    done = python(FORK, capture_output=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("a forked process has no part in its parent's process group")
    assert lines[1:] == ["left: False failed: False", "abandoned by the parent"], done.stdout


FAILED = """
    import sys
    from hostir import _native
    from hostir.torch import _monitor

    class Failed:
        def is_complete(self):
            {how}
    {before}
    _monitor._is_busy(Failed())
    print("still here", flush=True)
"""
REFUSED = '_native.raise_error("H0528", "the run failed", None)'


@pytest.mark.parametrize(
    ("how", "before"),
    [
        (REFUSED, "sys.stderr.close()"),
        (REFUSED, "sys.stderr = None"),
        (REFUSED, "import os; os.close(2)"),
        (REFUSED, 'sys.stderr = open("/dev/full", "w")'),
        (REFUSED, 'import os; sys.stderr = os.fdopen(os.pipe()[1], "w"); sys.stderr.write("x" * (1 << 16)); sys.stderr.flush()'),
        ('raise RuntimeError("internal error: panicked")', ""),
    ],
)
def test_a_failed_process_ends_whatever_standard_error_is(how, before):
    done = python(FAILED.format(how=how, before=before), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert done.returncode == 1 and "still here" not in done.stdout
