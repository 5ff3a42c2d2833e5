"""Ratios of ways that were timed in turn: against published quantiles, intervals worked out by hand, and a simulated machine."""

from __future__ import annotations

import math

import pytest

from bench.overlap import bars, paired_ratios as paired
from bench.tests.simulation import Machine


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (5, 2.571), (11, 2.201), (30, 2.042), (50, 2.009), (80, 1.990), (1000, 1.962)]
)
def test_quantiles_are_the_published_ones(freedom: int, quantile: float) -> None:
    """In the table and between its lines."""
    assert round(paired.student(freedom), 3) == pytest.approx(quantile, abs=0.0011)


def test_interval_of_three_ratios_by_hand() -> None:
    """The logs are -d, 0, d with d = log 1.1, so the half width is 4.3027 d / sqrt(3)."""
    found = paired.of_ratios([1 / 1.1, 1.0, 1.1])
    half = 4.3027 * math.log(1.1) / math.sqrt(3)
    assert found == pytest.approx((1.0, math.exp(-half), math.exp(half), 3), abs=1e-6)


def test_few_ratios_have_no_interval() -> None:
    assert paired.of_ratios([1.5]) == paired.Interval(1.5, None, None, 1)
    assert paired.of_ratios([]) is None


def test_mean_counts_each_row_once() -> None:
    """However many turns it has."""
    both = paired.of_means([[1.21, 1.21], [1.0, 1.0, 1.0, 1.0]])
    assert both is not None
    assert both.value == pytest.approx(1.1)


def test_95_of_100_intervals_hold_the_ratio() -> None:
    """Though the clock drifts far more than the ways differ."""
    held, trials = 0, 1000
    for seed in range(trials):
        row = Machine(seed).row("ag", {"torch-serial": 1.03, "push": 1.0})
        found = paired.of_ratios(paired.ratios(row, ["torch-serial"], ["push"]))
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 1.03 <= found.high
        assert 0.95 < found.value < 1.11, seed
    # Five standard deviations of a binomial distribution.
    assert held / trials == pytest.approx(0.95, abs=5 * math.sqrt(0.95 * 0.05 / trials))


def test_ways_are_compared_within_a_series() -> None:
    """A slower hour of both sides is no difference; a side that ended early is compared as far as it came."""
    machine = Machine(1, noise=0.001)
    row = machine.row("ag", {"torch-serial": 1.0, "push": 1.0})
    row["series"].append(machine.series({"torch-serial": 3.0, "push": 3.0}))
    row["series"].append(machine.series({"push": 0.1}))
    found = bars.compare(row, "torch-serial", "push")
    assert found is not None
    assert found.turns == 24
    assert found.value == pytest.approx(1.0, abs=0.002)
    turns = row["series"][0]["turns"]
    turns["torch-serial"] = turns["torch-serial"][:5]
    shorter = bars.compare(row, "torch-serial", "push")
    assert shorter is not None
    assert shorter.turns == 17
