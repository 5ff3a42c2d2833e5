"""Ratios of two ways that were timed in turn, with 95 % intervals.

A *turn* is a few runs of each way, one way after the other; its value for a way is the median of the runs. Two ways
are compared by the ratio of their values in each turn, so what changes slowly (clocks, temperature, neighbours)
divides out. The ratio of the ways is the geometric mean over all turns. Its interval is Student's t interval of the
mean of the logarithms, with one degree of freedom less than there are turns: if the measurement were repeated often in
the same processes on the same machine, 95 of 100 such intervals would hold the ratio. What differs from one start of
the processes to the next (algorithms of GEMMs, placement in memory) is in it only where there are several rounds.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.overlap.records import RowRecord, Series

# 97.5 % quantiles of Student's distribution for 1 to 30 degrees of freedom, and for 40, 60, 120 and infinitely many.
QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448,
    2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484,
    2.0452, 2.0423,
)  # fmt: skip
LATER = ((30, 2.0423), (40, 2.0211), (60, 2.0003), (120, 1.9799), (math.inf, 1.9600))


class Interval(NamedTuple):
    """A ratio (or a gap), the ends of its 95 % interval where there are two turns and more, and the turns."""

    value: float
    low: float | None
    high: float | None
    turns: int

    def minus(self, number: float) -> Interval:
        """The interval of the ratio less a number."""
        low, high = (end if end is None else end - number for end in (self.low, self.high))
        return Interval(self.value - number, low, high, self.turns)


def student(freedom: float) -> float:
    """The 97.5 % quantile; between the numbers of the table linear in 1 / freedom."""
    if freedom <= 30:
        return QUANTILES[max(1, int(freedom)) - 1]
    for (less, high), (more, low) in itertools.pairwise(LATER):
        if freedom <= more:
            share = (1 / less - 1 / freedom) / (1 / less - 1 / more)
            return high + share * (low - high)
    return LATER[-1][1]


def of_ratios(ratios: Iterable[float]) -> Interval | None:
    """The interval of the geometric mean of ratios; None without any."""
    logs = [math.log(ratio) for ratio in ratios]
    if not logs:
        return None
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(mean), None, None, len(logs))
    half = student(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), len(logs))


def of_means(groups: Iterable[Sequence[float]]) -> Interval | None:
    """The interval of the geometric mean of several rows' ratios, each row counted once (Welch's degrees of freedom)."""
    logs = [[math.log(ratio) for ratio in ratios] for ratios in groups if ratios]
    if not logs:
        return None
    mean = statistics.fmean(statistics.fmean(row) for row in logs)
    count = sum(len(row) for row in logs)
    if any(len(row) < 2 for row in logs):
        return Interval(math.exp(mean), None, None, count)
    parts = [statistics.variance(row) / len(row) / len(logs) ** 2 for row in logs]
    spread = sum(parts)
    weights = sum(part**2 / (len(row) - 1) for part, row in zip(parts, logs, strict=True))
    half = student(spread**2 / weights) * math.sqrt(spread) if weights else 0.0
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


# ---- series ----


def values(series: Series, way: str) -> list[float]:
    """A way's value in each turn of a series."""
    return [statistics.median(runs) for runs in series["turns"].get(way, ())]


def longest(series: Series, ways: Sequence[str]) -> list[float]:
    """In each turn that has all of several ways the largest of their values."""
    return [max(found) for found in zip(*(values(series, way) for way in ways), strict=False)]


def ratios(row: RowRecord, numerator: Sequence[str], denominator: Sequence[str]) -> list[float]:
    """Numerator over denominator in each turn that has both; each names ways, of which the slowest counts."""
    found = []
    for series in row["series"]:
        turns = zip(longest(series, numerator), longest(series, denominator), strict=False)
        found += [above / below for above, below in turns]
    return found


def runs(row: RowRecord, way: str) -> list[float]:
    """All times of a way."""
    return [ms for series in row["series"] for turn in series["turns"].get(way, ()) for ms in turn]


def ways(row: RowRecord) -> list[str]:
    """All ways of a row that were timed, in the order in which they came."""
    return list(dict.fromkeys(way for series in row["series"] for way, turns in series["turns"].items() if turns))


def medians(row: RowRecord) -> dict[str, float]:
    """The median of all times of each way."""
    return {way: statistics.median(runs(row, way)) for way in ways(row)}
