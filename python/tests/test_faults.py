"""Never worse than torch: faults of `Overlap`'s own, while a graph is compiled and before a program's first run."""

import pytest

torch = pytest.importorskip("torch")

import fault_ranks as ranks  # noqa: E402
import rank_pool  # noqa: E402
from rank_pool import start_ranks  # noqa: E402


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch):
    """A job that hangs is told early."""
    monkeypatch.setattr(rank_pool, "CASE", 90.0)


@pytest.mark.parametrize("name", ranks.FAULTS)
def test_a_fault_does_not_end_the_job(name):
    start_ranks(ranks.run_fault(name), 2)


@pytest.mark.parametrize("work", [ranks.no_fault, ranks.one_rank_without_the_pass, ranks.a_failed_run_names_its_place])
def test_two_ranks(work):
    start_ranks(work, 2)
