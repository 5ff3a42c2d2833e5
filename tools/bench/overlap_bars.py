#!/usr/bin/env python3
"""Measures of rows beside the bars of overlap_rows.py.

`ours` is the fastest of our ways, and `torch` the fastest of torch's, graphs and symmetric memory included, by the
median of all runs. Ratios are paired: see overlap_statistics.py.
"""

import overlap_rows as rows
import overlap_statistics as paired

# Parts of a row, alone: products and communication.
PARTS = ("gemm", "gemm-parts", "comm", "torch-gemm", "torch-comm")
PEERS = ("vllm-ring", "flashinfer", "mkernel")


def base(way):
    return way.removesuffix("-graph")


def is_graph(way):
    return way.endswith("-graph")


def is_part(way):
    return base(way) in PARTS


def is_async(way):
    return way.startswith("async-tp")


def is_torch(way):
    return not is_part(way) and (is_async(way) or way.startswith("torch-"))


def is_peer(way):
    return base(way) in PEERS


def is_ours(way):
    return not (is_part(way) or is_torch(way) or is_peer(way))


def best(found, chosen):
    """The fastest way that is chosen, of medians by way; None without one."""
    return min((way for way in found if chosen(way)), key=found.get, default=None)


def floor(row, way):
    """The product and the communication alone that a way of ours is held against: G and C of its series."""
    found, suffix = paired.medians(row), "-graph" if is_graph(way) else ""
    product = best(found, lambda part: part in ("gemm" + suffix, "gemm-parts" + suffix))
    return [part for part in (product, "comm" + suffix) if part]


def compare(row, numerator, denominator):
    """The paired ratio of two ways with its interval; None if one of them is none, or they were never timed in turn."""
    if numerator is None or denominator is None:
        return None
    return paired.of_ratios(paired.ratios(row, [numerator], [denominator]))


def gap(row, way):
    """way / max(G, C) - 1."""
    parts = floor(row, way)
    found = paired.of_ratios(paired.ratios(row, [way], parts)) if len(parts) == 2 else None
    return found and found.minus(1)


def choose(row, measure):
    """The two ways that a measure compares: what is in the numerator, and ours."""
    found = paired.medians(row)
    numerators = {
        "torch": is_torch,
        "async-tp": is_async,
        "serial": lambda way: way == "torch-serial",
        "serial graph": lambda way: way == "torch-serial-graph",
        "graph": lambda way: is_torch(way) and is_graph(way),
    }
    like = {"serial": False, "serial graph": True, "graph": True}.get(measure)
    ours = best(found, lambda way: is_ours(way) and like in (None, is_graph(way)))
    return best(found, numerators[measure]), ours


def measured(report, name, measure):
    """A measure of one row, and the ways that it compares."""
    row = report["rows"].get(name)
    if name == "copies":
        return copied(report)
    if not row:
        return None, ""
    if measure == "gap":
        ours = best(paired.medians(row), is_ours)
        return (gap(row, ours), f"{ours} over max({', '.join(floor(row, ours))})") if ours else (None, "")
    above, ours = choose(row, measure)
    return compare(row, above, ours), f"{above} / {ours}"


def copied(report):
    """GB/s that each GPU receives in an allgather by copy engines with shards of 64 MB."""
    for entry in report.get("copies", []):
        ms = entry["times"].get("CUDA")
        if entry["bytes"] == 64 << 20 and ms:
            return paired.Interval((entry["devices"] - 1) * entry["bytes"] / ms / 1e6, None, None, 1), "CUDA"
    return None, ""


def mean(report, names):
    """The geometric mean over rows of torch's best over ours."""
    groups = []
    for name in names:
        row = report["rows"].get(name)
        above, ours = choose(row, "torch") if row else (None, None)
        if above and ours:
            groups.append(paired.ratios(row, [above], [ours]))
    whole = len(groups) == len(names) and all(groups)
    return paired.of_means(groups) if whole else None, "torch / ours"


def verdict(bar, found):
    """True if a bar is met; `within noise` where the interval holds the bar. By rule:

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


def verdicts(report, bars=rows.BARS):
    """All bars that a report has rows for, as dictionaries."""
    told = []
    for bar in bars:
        joint = bar.measure == "geometric mean"
        for names in [bar.rows] if joint else [(name,) for name in bar.rows]:
            known = [name for name in names if name in report["rows"] or (name == "copies" and report.get("copies"))]
            if not known:
                continue
            found, ways = mean(report, names) if joint else measured(report, names[0], bar.measure)
            numbers = dict(zip(("value", "low", "high", "turns"), found or (None,) * 4))
            entry = {"rows": list(names), "measure": bar.measure, "rule": bar.rule, "bar": bar.bar, "ways": ways}
            told.append({**entry, **numbers, "verdict": verdict(bar, found)})
    return told
