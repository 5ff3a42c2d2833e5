"""Measures and verdicts, of times whose ratios are known."""

from __future__ import annotations

import pytest

from bench.overlap import bars, paired_ratios as paired, rows
from bench.overlap.records import Report
from bench.tests.simulation import GRAPHS, PLAIN, Machine

MEASURES = {
    "torch": (1.10, "async-tp-graph / push-graph"),
    "gap": (0.04, "push-graph over max(gemm-parts-graph, comm-graph)"),
    "async-tp": (1.10, "async-tp-graph / push-graph"),
    "serial": (1.5 / 1.06, "torch-serial / push"),
    "serial graph": (1.45 / 1.04, "torch-serial-graph / push-graph"),
    "graph": (1.10, "async-tp-graph / push-graph"),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measure_compares_the_right_ways(name: str) -> None:
    row = Machine(7, noise=0.001).row("ag", PLAIN, GRAPHS)
    value, ways = MEASURES[name]
    found = bars.measured({"rows": {"ag1": row}, "copies": []}, "ag1", name)
    assert found.ways == ways
    interval = found.interval
    assert interval is not None and interval.low is not None and interval.high is not None
    assert interval.value == pytest.approx(value, abs=0.004)
    assert interval.low < interval.value < interval.high


@pytest.mark.parametrize(
    ("rule", "bar", "interval", "verdict"),
    [
        ("reaches", 1.0, (0.99, 0.97, 1.01), "met"),
        ("reaches", 1.0, (0.97, 0.95, 0.99), "missed"),
        ("at least", 1.06, (1.08, 1.07, 1.09), "met"),
        ("at least", 1.06, (1.07, 1.05, 1.09), "met, within noise"),
        ("at least", 1.06, (1.05, 1.03, 1.07), "missed, within noise"),
        ("at least", 1.06, (1.02, 1.01, 1.03), "missed"),
        ("at least", 345.0, (346.0, None, None), "met"),
        ("at most", 0.02, (0.01, 0.005, 0.015), "met"),
        ("at most", 0.02, (0.03, 0.025, 0.035), "missed"),
        ("above", 1.0, (1.02, 1.01, 1.03), "met"),
        ("above", 1.0, (1.02, 0.99, 1.05), "missed"),
    ],
)
def test_verdict(rule: str, bar: float, interval: tuple[float, float | None, float | None], verdict: str) -> None:
    """Each rule on both sides of its bar, and with the bar in the interval."""
    assert bars.verdict(rows.Bar(("x",), "torch", rule, bar), paired.Interval(*interval, 9)) == verdict


def test_without_a_measure_there_is_no_verdict() -> None:
    assert bars.verdict(rows.BARS[0], None) == "not measured"


@pytest.fixture
def scatters() -> Report:
    """Four scatters with ratios 1.08, 1.01, 1.01 and 0.98: the mean is 1.019, below its bar."""
    report: Report = {"rows": {}, "copies": []}
    for seed, (name, ratio) in enumerate(zip(rows.SCATTERS, (1.08, 1.01, 1.01, 0.98), strict=True)):
        times = {"accumulate": 1.0, "gemm": 0.96, "gemm-parts": 0.97, "comm": 0.5, "torch-serial": 1.4, "async-tp": ratio}
        report["rows"][name] = Machine(seed, noise=0.0005).row("rs", times)
    return report


def test_verdicts_of_scatters(scatters: Report) -> None:
    told = {(tuple(entry["rows"]), entry["measure"], entry["rule"]): entry for entry in bars.verdicts(scatters)}
    gap = 1 / 0.96 - 1
    wanted = {
        (("rs1",), "torch", "at least"): (1.08, "met"),
        (("rs4",), "torch", "reaches"): (0.98, "missed"),
        (rows.SCATTERS, "geometric mean", "at least"): ((1.08 * 1.01 * 1.01 * 0.98) ** 0.25, "missed"),
        (("rs2",), "gap", "at most"): (gap, "met"),
        (("rs4",), "gap", "at most"): (gap, "missed"),
    }
    assert {key: told[key]["verdict"] for key in wanted} == {key: verdict for key, (_, verdict) in wanted.items()}
    assert [told[key]["value"] for key in wanted] == pytest.approx([value for value, _ in wanted.values()], abs=0.002)


def test_there_is_no_mean_without_all_rows(scatters: Report) -> None:
    del scatters["rows"]["rs3"]
    means = [entry["verdict"] for entry in bars.verdicts(scatters) if entry["measure"] == "geometric mean"]
    assert means == ["not measured"]
