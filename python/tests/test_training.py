"""Training by programs: losses are as close to eager torch's as those of `torch.compile`."""

import pytest

torch = pytest.importorskip("torch")

from rank_pool import start_ranks  # noqa: E402


def trains(_group):
    from training import compare_losses

    print(compare_losses(200, "cpu"), flush=True)


def test_two_hundred_steps():
    start_ranks(trains, 2)
