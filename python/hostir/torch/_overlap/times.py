"""Times of a region as torch has it and as a program, and when a program counts as faster."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Times", "wins_needed"]

# The probability with which a program that is no faster may be taken for one that is.
CHANCE = 0.05


@dataclass(frozen=True)
class Times:
    """Times of rounds in each of which both ran, in milliseconds; of the slowest rank in the round."""

    serial: float
    """The median as torch has it."""
    measured: float
    """The median as a program."""
    gain: float
    """The factor by which the program is faster: the median of the rounds' quotients."""
    wins: int
    """The rounds in which the program was faster."""
    rounds: int
    apart: float | None = None
    """The median as a program for each collective, with torch's functions between; None for a region with one collective."""
    is_earlier: bool = False
    """True if an earlier process has measured them."""

    @staticmethod
    def of_ranks(ranks: Sequence[Sequence[Sequence[float]]]) -> Times:
        """The times of samples: for each rank the rounds of torch's way, of the program, and of programs apart, if there are."""
        slowest = ([max(times) for times in zip(*samples, strict=True)] for samples in zip(*ranks, strict=True))
        serial, measured, *apart = slowest
        pairs = list(zip(serial, measured, strict=True))
        return Times(
            statistics.median(serial),
            statistics.median(measured),
            statistics.median(one / other if other else math.inf for one, other in pairs),
            sum(other < one for one, other in pairs),
            len(pairs),
            statistics.median(apart[0]) if apart else None,
        )

    def is_faster(self, min_gain: float) -> bool:
        """True if the program gains `min_gain`, and was faster more often than chance explains.

        A `min_gain` below 1 asks for no more than that gain.
        """
        return self.gain >= min_gain and (min_gain < 1 or self.wins >= wins_needed(self.rounds))

    @property
    def is_better_apart(self) -> bool:
        """True if the parts of the region as programs are faster than this one. Chance may decide between two that are as fast."""
        return self.apart is not None and self.apart < self.measured


def wins_needed(rounds: int) -> int:
    """The least number of rounds that a program has to win: if both were as fast, that many are won by chance in at most
    one of 20 cases. More than `rounds` if these are too few to say so.
    """
    ways, chance = 0, CHANCE * 2**rounds
    for wins in range(rounds, -1, -1):
        ways += math.comb(rounds, wins)
        if ways > chance:
            return wins + 1
    return 0
