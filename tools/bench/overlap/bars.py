"""Measures of rows beside the bars of `rows`.

`ours` is the fastest of our ways, and `torch` the fastest of torch's, graphs and symmetric memory included, by the
median of all runs. Ratios are paired: see `paired_ratios`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.overlap import paired_ratios as paired, rows
from bench.overlap.paired_ratios import Interval
from bench.overlap.records import Report, RowRecord, VerdictRecord

# Parts of a row, alone: products and communication.
PARTS = ("gemm", "gemm-parts", "comm", "torch-gemm", "torch-comm")
PEERS = ("vllm-ring", "flashinfer", "mkernel")


def base(way: str) -> str:
    """A way without its mode."""
    return way.removesuffix("-graph")


def is_graph(way: str) -> bool:
    """True for a way that runs as CUDA graphs."""
    return way.endswith("-graph")


def is_part(way: str) -> bool:
    """True for a product or a communication alone."""
    return base(way) in PARTS


def is_async(way: str) -> bool:
    """True for async-TP's operators."""
    return way.startswith("async-tp")


def is_torch(way: str) -> bool:
    """True for a way of torch's."""
    return not is_part(way) and (is_async(way) or way.startswith("torch-"))


def is_peer(way: str) -> bool:
    """True for another implementation."""
    return base(way) in PEERS


def is_ours(way: str) -> bool:
    """True for a way of ours."""
    return not (is_part(way) or is_torch(way) or is_peer(way))


def best(found: Mapping[str, float], chosen: Callable[[str], bool]) -> str | None:
    """The fastest way that is chosen, of medians by way; None without one."""
    return min((way for way in found if chosen(way)), key=lambda way: found[way], default=None)


def floor(row: RowRecord, way: str) -> list[str]:
    """The product and the communication alone that a way of ours is held against: G and C of its series."""
    found, suffix = paired.medians(row), "-graph" if is_graph(way) else ""
    product = best(found, lambda part: part in ("gemm" + suffix, "gemm-parts" + suffix))
    return [part for part in (product, "comm" + suffix) if part]


def compare(row: RowRecord, numerator: str | None, denominator: str | None) -> Interval | None:
    """The paired ratio of two ways with its interval; None if one of them is none, or they were never timed in turn."""
    if numerator is None or denominator is None:
        return None
    return paired.of_ratios(paired.ratios(row, [numerator], [denominator]))


def gap(row: RowRecord, way: str) -> Interval | None:
    """way / max(G, C) - 1."""
    parts = floor(row, way)
    found = paired.of_ratios(paired.ratios(row, [way], parts)) if len(parts) == 2 else None
    return found and found.minus(1)


class Pair(NamedTuple):
    """The two ways that a measure compares; None where none was timed."""

    numerator: str | None
    ours: str | None


class Measured(NamedTuple):
    """A measure, and the ways that it compares; None where one of them is missing."""

    interval: Interval | None
    ways: str


def choose(row: RowRecord, measure: str) -> Pair:
    """The ways that a measure compares."""
    found = paired.medians(row)
    numerators: dict[str, Callable[[str], bool]] = {
        "torch": is_torch,
        "async-tp": is_async,
        "serial": lambda way: way == "torch-serial",
        "serial graph": lambda way: way == "torch-serial-graph",
        "graph": lambda way: is_torch(way) and is_graph(way),
    }
    like = {"serial": False, "serial graph": True, "graph": True}.get(measure)
    ours = best(found, lambda way: is_ours(way) and like in (None, is_graph(way)))
    return Pair(best(found, numerators[measure]), ours)


def measured(report: Report, name: str, measure: str) -> Measured:
    """A measure of one row."""
    row = report["rows"].get(name)
    if name == "copies":
        return copied(report)
    if not row:
        return Measured(None, "")
    if measure == "gap":
        ours = best(paired.medians(row), is_ours)
        return Measured(gap(row, ours), f"{ours} over max({', '.join(floor(row, ours))})") if ours else Measured(None, "")
    above, ours = choose(row, measure)
    return Measured(compare(row, above, ours), f"{above} / {ours}")


def copied(report: Report) -> Measured:
    """GB/s that each GPU receives in an allgather by copy engines with shards of 64 MB."""
    for entry in report.get("copies", []):
        ms = entry["times"].get("CUDA")
        if entry["bytes"] == 64 << 20 and ms:
            return Measured(Interval((entry["devices"] - 1) * entry["bytes"] / ms / 1e6, None, None, 1), "CUDA")
    return Measured(None, "")


def mean(report: Report, names: Sequence[str]) -> Measured:
    """The geometric mean over rows of torch's best over ours."""
    groups = []
    for name in names:
        row = report["rows"].get(name)
        if row is None:
            continue
        above, ours = choose(row, "torch")
        if above and ours:
            groups.append(paired.ratios(row, [above], [ours]))
    is_whole = len(groups) == len(names) and all(groups)
    return Measured(paired.of_means(groups) if is_whole else None, "torch / ours")


def verdict(bar: rows.Bar, found: Interval | None) -> str:
    """Says if a bar is met; `within noise` where the interval holds the bar. By rule:

    reaches    the upper end of the interval is at or above the bar: nothing says that ours is slower
    at least   the value is
    at most    the value is at or below it
    above      the lower end of the interval is above the bar
    """
    if found is None:
        return "not measured"
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    met = {
        "reaches": high >= bar.bar,
        "at least": found.value >= bar.bar,
        "at most": found.value <= bar.bar,
        "above": low > bar.bar,
    }[bar.rule]
    doubtful = low < bar.bar <= high and bar.rule in ("at least", "at most")
    return ("met" if met else "missed") + (", within noise" if doubtful else "")


def verdicts(report: Report, bars: Sequence[rows.Bar] = rows.BARS) -> list[VerdictRecord]:
    """All bars that a report has rows for."""
    told: list[VerdictRecord] = []
    for bar in bars:
        is_joint = bar.measure == "geometric mean"
        for names in [bar.rows] if is_joint else [(name,) for name in bar.rows]:
            if any(has_row(report, name) for name in names):
                found = mean(report, names) if is_joint else measured(report, names[0], bar.measure)
                told.append(verdict_record(bar, names, found))
    return told


def has_row(report: Report, name: str) -> bool:
    """True if a report has times for a row of a bar."""
    return name in report["rows"] or (name == "copies" and bool(report.get("copies")))


def verdict_record(bar: rows.Bar, names: Sequence[str], found: Measured) -> VerdictRecord:
    """A bar beside what was measured."""
    value, low, high, turns = found.interval or (None,) * 4
    return {
        "rows": list(names),
        "measure": bar.measure,
        "rule": bar.rule,
        "bar": bar.bar,
        "ways": found.ways,
        "value": value,
        "low": low,
        "high": high,
        "turns": turns,
        "verdict": verdict(bar, found.interval),
    }
