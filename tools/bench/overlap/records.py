"""What tools/overlap-bench writes to --json, and --show reads."""

from __future__ import annotations

from typing import Any, TypedDict


class Series(TypedDict):
    """Turns of the ways of a row in one mode: by way, the milliseconds of each run of each turn."""

    graph: bool
    turns: dict[str, list[list[float]]]


class RowRecord(TypedDict, total=False):
    """The times of a row. `times` is in files of older versions only: medians by way, one a round."""

    kind: str
    dtype: str
    m: int
    k: int
    n: int
    devices: int
    ranks: str
    series: list[Series]
    issue_us: dict[str, float]
    notes: list[str]
    times: dict[str, list[float]]


class CopyRecord(TypedDict):
    """Milliseconds of an allgather with shards of so many bytes, by backend, alone and beside products."""

    bytes: int
    devices: int
    products: int
    times: dict[str, float]


class ExchangeRecord(TypedDict):
    """Microseconds of an exchange of messages of so many bytes, by way."""

    bytes: int
    ways: dict[str, dict[str, float]]


class VerdictRecord(TypedDict):
    """A bar beside what was measured."""

    rows: list[str]
    measure: str
    rule: str
    bar: float
    ways: str
    value: float | None
    low: float | None
    high: float | None
    turns: int | None
    verdict: str


class Report(TypedDict, total=False):
    """All of a run, or of several."""

    devices: int
    rows: dict[str, RowRecord]
    copies: list[CopyRecord]
    exchanges: list[ExchangeRecord]
    about: dict[str, str]
    failed: list[str]
    settings: dict[str, Any]
    shared: bool
    figures: dict[str, Any]
    bars: list[VerdictRecord]
