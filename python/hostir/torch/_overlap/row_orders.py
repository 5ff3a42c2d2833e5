"""The order of rows in tensors that views and permutations make of exchanged ones.

Rows are all axes but the last, which is the columns. The rows of an exchanged tensor are counted as they lie in memory; an axis of
another tensor is a list of runs of them, each with a number of rows and the step between two. So `[p, q, c]` with its first two
axes exchanged is `[(q, c)], [(p, q * c)], [(c, 1)]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hostir.torch._overlap.layouts import Move, permutation_of
from hostir.torch._overlap.nodes import shape_of

__all__ = ["RowOrder", "Run", "order_after", "order_before"]


@dataclass(frozen=True)
class Run:
    """Rows with the same step from each to the next."""

    count: int
    step: int


@dataclass(frozen=True)
class RowOrder:
    """The rows of each axis but the last of a tensor."""

    axes: tuple[tuple[Run, ...], ...]

    @staticmethod
    def of_shape(shape: Sequence[int]) -> RowOrder:
        """The order of a tensor whose rows lie as they are counted."""
        order = RowOrder(((Run(math.prod(shape[:-1]), 1),),)).viewed(shape[:-1])
        assert order is not None
        return order

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of all axes, from the outermost on; those that continue one another are one."""
        return _merged([run for axis in self.axes for run in axis])

    @property
    def is_natural(self) -> bool:
        """True if rows lie as they are counted."""
        runs = self.runs
        return not runs or (len(runs) == 1 and runs[0].step == 1)

    def axis_runs(self, axis: int) -> tuple[Run, ...]:
        """The runs of an axis, joined where they continue one another."""
        return _merged(self.axes[axis])

    def viewed(self, extents: Sequence[int]) -> RowOrder | None:
        """The order of a view with axes of these extents; None if one of them is no whole runs."""
        left = list(self.runs)
        axes = []
        for extent in extents:
            found = _take(left, extent)
            if found is None:
                return None
            axes.append(found)
        return None if left else RowOrder(tuple(axes))

    def permuted(self, order: Sequence[int]) -> RowOrder:
        """The order with the axes in another one."""
        return RowOrder(tuple(self.axes[axis] for axis in order))


def _merged(runs: Sequence[Run]) -> tuple[Run, ...]:
    found: list[Run] = []
    for run in runs:
        if run.count == 1:
            continue
        if found and found[-1].step == run.count * run.step:
            found[-1] = Run(found[-1].count * run.count, run.step)
        else:
            found.append(run)
    return tuple(found)


def _take(left: list[Run], extent: int) -> tuple[Run, ...] | None:
    """Takes so many rows from the front of runs, and gives theirs."""
    taken: list[Run] = []
    while extent != 1:
        if not left or extent == 0:
            return None
        run = left.pop(0)
        if extent % run.count == 0:
            taken.append(run)
            extent //= run.count
        elif run.count % extent == 0:
            rest = run.count // extent
            taken.append(Run(extent, run.step * rest))
            left.insert(0, Run(rest, run.step))
            extent = 1
        else:
            return None
    return tuple(taken)


def order_after(move: Move, order: RowOrder) -> RowOrder | None:
    """The order of a move's result, for that of its source; None if it moves columns, too."""
    return _moved(order, shape_of(move.source), shape_of(move.node), None if move.axes else permutation_of(move.node), move)


def order_before(move: Move, order: RowOrder) -> RowOrder | None:
    """The order of a move's source, for that of its result."""
    permutation = None if move.axes else permutation_of(move.node)
    back = None if permutation is None else [permutation.index(axis) for axis in range(len(permutation))]
    return _moved(order, shape_of(move.node), shape_of(move.source), back, move)


def _moved(order: RowOrder, source: list[int], made: list[int], permutation: list[int] | None, move: Move) -> RowOrder | None:
    if move.axes is not None or not source or not made or source[-1] != made[-1]:
        return None
    if permutation is None:
        return order.viewed(made[:-1])
    is_last_kept = bool(permutation) and permutation[-1] == len(source) - 1
    return order.permuted(permutation[:-1]) if is_last_kept else None
