"""The messages of ranks of a group, over torch's stores."""

import subprocess
import sys
import textwrap
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
from hostir.torch import _monitor  # noqa: E402
from hostir.torch._exchange import GroupExchange, describe_trouble, exchange_of  # noqa: E402
from rank_pool import start_ranks  # noqa: E402


def gathers(group):
    exchange = exchange_of(group, 30.0)
    assert exchange_of(group, 30.0) is exchange
    for round in range(20):
        messages, trouble = exchange.gather("step", f"{round} of {exchange.rank}".encode())
        assert trouble is None
        assert messages == [f"{round} of {rank}".encode() for rank in range(exchange.world)]
    assert exchange.gather("empty", b"") == ([b""] * exchange.world, None)


def groups_apart(_world):
    rank = dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    messages, trouble = exchange_of(pairs[rank // 2], 30.0).gather("step", str(rank).encode())
    assert (messages, trouble) == ([str(rank // 2 * 2).encode(), str(rank // 2 * 2 + 1).encode()], None)


def late_ranks_are_named(group):
    exchange = exchange_of(group, 1.0)
    if exchange.rank == 0:
        assert exchange.gather("step", b"") == ([], ([1], 1.0))
    dist.barrier()


def different_steps(group):
    exchange = exchange_of(group, 30.0)
    with pytest.raises(RuntimeError, match="is at `b`, but this rank at `a`|is at `a`, but this rank at `b`"):
        exchange.gather("ab"[exchange.rank], b"")


def failures_are_told(group):
    exchange = exchange_of(group, 30.0)
    if exchange.rank == 1:
        exchange.report("H0521\n\nno device memory")
        assert exchange.failed_rank() is None
    else:
        messages, trouble = exchange.gather("step", b"")
        assert (messages, trouble) == ([], (1, "H0521\n\nno device memory", True))
        assert exchange.failed_rank() == (1, "H0521\n\nno device memory")


def ends_and_silence(group):
    exchange = GroupExchange(group, 30.0)
    exchange.beat()
    dist.barrier()
    assert exchange.ended_rank(30.0) is None
    other = 1 - exchange.rank
    # Longer than a busy machine takes from a heartbeat to a barrier's end.
    time.sleep(3)
    rank, how = exchange.ended_rank(2.0)
    assert rank == other and how.startswith("its process has shown no sign of life for ")
    dist.barrier()
    exchange.beat()
    dist.barrier()
    assert exchange.ended_rank(2.0) is None
    time.sleep(3)
    # Who was stopped has heard nothing meanwhile.
    exchange.excuse_silence()
    assert exchange.ended_rank(2.0) is None
    dist.barrier()
    exchange.beat()
    # Both have looked before one leaves.
    dist.barrier()
    if exchange.rank == 1:
        exchange.leave()
    dist.barrier()
    assert exchange.ended_rank(30.0) == ((1, "its process has ended") if exchange.rank == 0 else None)


@pytest.mark.parametrize("work", [gathers, late_ranks_are_named, different_steps, failures_are_told, ends_and_silence])
def test_two_ranks(work):
    start_ranks(work, 2)


def test_four_ranks():
    start_ranks(groups_apart, 4)


def test_a_session_that_failed_ends_its_process():
    code = """
        from hostir import HostIrError, _native
        from hostir.torch import _monitor

        class Failed:
            def is_complete(self):
                _native.raise_error("H0528", "the run failed", None)

        _monitor._is_busy(Failed())
        print("still here")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "still here" not in done.stdout
    assert "error[H0528]: the run failed" in done.stderr and "the process ends" in done.stderr


def test_a_store_that_is_gone_is_a_rank_that_is_gone():
    class Gone:
        rank, world, losses = 1, 2, []

        def beat(self):
            raise RuntimeError("Connection reset by peer\n at TCPStore.cpp")

        failed_rank = ended_rank = lambda self, *_: self.beat()

        @property
        def control_plane(self):
            return self

        def note_loss(self, *loss):
            self.losses.append(loss)

    class Busy:
        def is_complete(self):
            return False

    session, exchange = Busy(), Gone()
    watched = _monitor._Watched(session, exchange)
    _monitor._Monitor().look([watched])
    assert exchange.losses == [] and watched.busy_since is not None
    watched.busy_since -= 60
    _monitor._Monitor().look([watched])
    ((rank, how),) = exchange.losses
    assert rank == 0 and how.endswith("does not answer: Connection reset by peer")


def test_troubles_in_words():
    assert describe_trouble(([1, 3], 60.0)) == "not called within 60 s on rank 1, 3"
    assert describe_trouble((2, "H0521\n\nno device memory", True)) == "rank 2 failed with H0521: no device memory"
    assert describe_trouble((2, "its process has ended", False)) == "rank 2: its process has ended"


ROWS = hostir.parse("hir 2\nf(x: f32[2, m, k], w: f32[k, n]) -> (y: f32[2, m, n]):\n  y = matmul(x, w)\n")


def test_axes_of_a_program_that_are_one_of_the_tensors():
    @hir.op("hostir_tests::rows", program=ROWS, args={"x": "x", "w": "w"}, out="y")
    def rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    rows.check(torch.randn(6, 4), torch.randn(4, 5))
    rows.check(torch.randn(2, 3, 4), torch.randn(4, 5))
    for wrong in [torch.randn(5, 4), torch.randn(1, 2, 3, 4)]:
        with pytest.raises(hostir.HostIrError, match=r"x has the axes \[2, m, k\]") as caught:
            rows.check(wrong, torch.randn(4, 5))
        assert caught.value.code == "H0605"


def test_gradients_of_programs_name_arguments():
    @hir.op("hostir_tests::scheduled", program=ROWS, args={"x": "x", "w": "w"}, out="y")
    def scheduled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    gradient = hostir.parse(
        "hir 2\ng(dy: f32[m, n], w: f32[k, n]) -> (dx: f32[m, k]):\n  t = Set.Permute(w, perm=[1, 0])\n  dx = matmul(dy, t)\n"
    )
    for args, out, wrong in [
        ({"dy": "dy", "v": "w"}, {"x": "dx"}, "no argument `v`"),
        ({"dy": "dy", "w": "w"}, {"y": "dx"}, "`y` is no tensor argument"),
        ({"dy": "dy", "w": "w"}, {"x": "dy"}, "no output `dy`"),
        ({"dy": "dy"}, {"x": "dx"}, "input w needs one argument"),
    ]:
        with pytest.raises(hostir.HostIrError, match=wrong):
            scheduled.backward(program=gradient, args=args, out=out)(lambda dy, x, w: (dy @ w.T, None))
