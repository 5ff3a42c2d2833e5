"""Tables and the picture of made-up times, against figures worked out by hand; also of a file of an earlier version."""

from __future__ import annotations

import xml.dom.minidom

import pytest

from bench.overlap import report
from bench.overlap.records import Report, RowRecord
from bench.tests.simulation import GRAPHS, PLAIN, Machine


@pytest.fixture
def whole() -> Report:
    """A row of an earlier version, one of today, copies and messages."""
    times = {"ring": [1.3, 1.25, 1.2], "gemm": [1.0], "comm": [0.5], "torch-serial": [2.0], "async-tp": [1.5]}
    old: RowRecord = {"kind": "ag", "dtype": "bfloat", "m": 8, "k": 8, "n": 8, "devices": 2, "times": times}
    moved = {"CUDA": 2.0, "NCCL": 2.5, "product": 4.0, "CUDA-beside": 4.2}
    return {
        "rows": {"ag1": old, "rs1": Machine(3, noise=0.001).row("rs", {**PLAIN, "accumulate": 1.07}, GRAPHS)},
        "copies": [
            {"bytes": 1 << 30, "devices": 3, "products": 4, "times": moved},
            {"bytes": 64 << 20, "devices": 4, "products": 4, "times": {"CUDA": 0.6}},
        ],
        "exchanges": [{"bytes": 1 << 20, "ways": {"NCCL": {"device_us": 10.0, "host_us": 1.0}}}],
    }


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        ("1.600x", "the speed-up of the old row: 2.0 / 1.25"),
        ("75%", "hidden: 0.75 of 1.0 ms"),
        ("1073.7", "GB/s: two shards of 1 GB in 2.0 ms"),
        ("+0.2000", "exposed: 4.2 - 4.0 ms"),
        ("+5.0%", "the product beside copies: 4.2 / 4.0"),
        ("104.86", "GB/s: 1 MB in 10 us"),
        ("335.5 GB/s", "three shards of 64 MB in 0.6 ms"),
        ("not measured", "a bar without a measure"),
        ("met", "a bar that is met"),
        ("async-tp-graph / push-graph", "the ways of a ratio"),
    ],
)
def test_tables_have(whole: Report, figure: str, reason: str) -> None:
    assert figure in report.text(whole), reason


def test_pictures_are_xml(whole: Report) -> None:
    for picture in (report.plot(whole), report.plot({"rows": {}})):
        xml.dom.minidom.parseString(picture)


def test_figures_of_a_way_are_those_that_are_known(whole: Report) -> None:
    found = report.figures_as_json(report.timed(whole)["ag1"])
    assert found["ring"]["speedup"] == pytest.approx(1.6)
    assert list(found["gemm"]) == ["ms", "runs"]
