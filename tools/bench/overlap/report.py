"""The output of tools/overlap-bench from its figures: tables as text, bars as SVG."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.overlap import bars, paired_ratios as paired
from bench.overlap.paired_ratios import Interval
from bench.overlap.records import CopyRecord, ExchangeRecord, Report, RowRecord, VerdictRecord
from bench.overlap.rows import title


def timed(report: Report) -> dict[str, RowRecord]:
    """The rows of a report that have times. Those of older versions have medians only, one a round."""
    found: dict[str, RowRecord] = {}
    for name, row in report.get("rows", {}).items():
        whole: RowRecord = row
        if "series" not in row:
            turns = {way: [[ms] for ms in times] for way, times in row.get("times", {}).items()}
            whole = {**row, "series": [{"graph": False, "turns": turns}]}
        if paired.ways(whole):
            found[name] = whole
    return found


@dataclass
class Figure:
    """A way of a row: ms and runs, speed-up over torch's serial, hidden fraction, and with intervals the gap to max(G, C) and the
    ratio to torch's best.
    """

    ms: float
    runs: int
    speedup: float | None = None
    hidden: float | None = None
    gap: Interval | None = None
    of_torch: Interval | None = None

    def as_json(self) -> dict[str, object]:
        """What is known, by name."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {name: value._asdict() if isinstance(value, Interval) else value for name, value in known.items()}


def figures(row: RowRecord) -> dict[str, Figure]:
    """The figures of each way."""
    found = paired.medians(row)
    serial, torch = found.get("torch-serial"), bars.best(found, bars.is_torch)
    result: dict[str, Figure] = {}
    for way, time in found.items():
        result[way] = figure = Figure(time, len(paired.runs(row, way)))
        if bars.is_part(way):
            continue
        parts = bars.floor(row, way if bars.is_ours(way) else "")
        least = max(found[part] for part in parts) if parts and all(part in found for part in parts) else None
        if serial:
            figure.speedup = serial / time
        if serial and least and len(parts) == 2 and serial > least:
            figure.hidden = (serial - time) / (serial - least)
        figure.gap = bars.gap(row, way) if bars.is_ours(way) else None
        figure.of_torch = bars.compare(row, torch, way)
    return result


def figures_as_json(row: RowRecord) -> dict[str, dict[str, object]]:
    """The figures of each way, as the report has them."""
    return {way: figure.as_json() for way, figure in figures(row).items()}


def cell(value: float | None, form: str) -> str:
    """A number, or a dash."""
    return form.format(value) if value is not None else "-"


def ratio_cell(interval: Interval | None) -> str:
    """`1.024x [1.019, 1.030]`"""
    if interval is None:
        return "-"
    ends = ""
    if interval.low is not None and interval.high is not None:
        ends = f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.value:.3f}x{ends}"


def gap_cell(interval: Interval | None) -> str:
    """`+1.3% [+0.8, +1.9]`"""
    if interval is None:
        return "-"
    ends = ""
    if interval.low is not None and interval.high is not None:
        ends = f" [{interval.low * 100:+.1f}, {interval.high * 100:+.1f}]"
    return f"{interval.value:+.1%}{ends}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they have to be; the first one to the left."""
    whole = [head, *rows]
    widths = [max(len(row[column]) for row in whole) for column in range(len(head))]
    lines = []
    for row in whole:
        words = [word.rjust(width) for word, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *words[1:]]).rstrip())
    return "\n".join(lines)


def spread(times: Sequence[float]) -> str:
    """The 10th and the 90th percentile."""
    if len(times) < 2:
        return "-"
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return f"{tenths[0]:.3f}..{tenths[-1]:.3f}"


def case(name: str, row: RowRecord) -> str:
    """The figures of one case."""
    head = ["way", "ms", "p10..p90", "runs", "speed-up", "hidden", "gap", "of torch", "issue us"]
    lines = []
    for way, figure in figures(row).items():
        issue = row.get("issue_us", {}).get(way)
        lines.append([
            way,
            f"{figure.ms:.4f}",
            spread(paired.runs(row, way)),
            str(figure.runs),
            cell(figure.speedup, "{:.3f}x"),
            cell(figure.hidden, "{:.0%}"),
            gap_cell(figure.gap),
            ratio_cell(figure.of_torch),
            cell(issue, "{:.0f}"),
        ])  # fmt: skip
    told = "".join(f"\n  note: {note}" for note in row.get("notes", []))
    return f"{name}: {title(row)}\n{table(head, lines)}{told}"


def summary(rows: Mapping[str, RowRecord]) -> str:
    """One line a case: the best of ours beside the best of torch and of its peers."""
    head = [
        "case",
        "G",
        "C",
        "torch serial",
        "best of torch",
        "best peer",
        "best of ours",
        "way",
        "speed-up",
        "hidden",
        "gap",
        "of torch",
    ]
    lines = []
    for name, row in rows.items():
        found = paired.medians(row)
        ours = bars.best(found, bars.is_ours)
        parts = bars.floor(row, ours or "")
        product = next((part for part in parts if part.startswith("gemm")), "torch-gemm")
        comm = next((part for part in parts if part.startswith("comm") and part in found), "torch-comm")
        figure = figures(row)[ours] if ours else Figure(0.0, 0)
        best = [bars.best(found, chosen) for chosen in (bars.is_torch, bars.is_peer)]
        shown = ["torch-serial", *best, ours]
        lines.append([
            name,
            cell(found.get(product), "{:.3f}"),
            cell(found.get(comm), "{:.3f}"),
            *(cell(found.get(way) if way else None, "{:.3f}") for way in shown),
            ours or "-",
            cell(figure.speedup, "{:.3f}x"),
            cell(figure.hidden, "{:.0%}"),
            gap_cell(figure.gap),
            ratio_cell(figure.of_torch),
        ])  # fmt: skip
    return table(head, lines)


SIGNS = {"reaches": "reaches", "at least": ">=", "at most": "<=", "above": ">"}
MEASURES = {
    "torch": "torch / ours",
    "async-tp": "async-TP / ours",
    "serial": "serial / ours",
    "serial graph": "serial / ours, graphs",
    "graph": "torch / ours, graphs",
}


def verdicts(told: Iterable[VerdictRecord]) -> str:
    """A line for each bar."""
    head = ["case", "what", "bar", "measured", "turns", "verdict", "ways"]
    lines = []
    for entry in told:
        found = None
        if entry["value"] is not None:
            found = Interval(entry["value"], entry["low"], entry["high"], entry["turns"] or 0)
        if entry["measure"] == "gap":
            bar, measured = f"{entry['bar']:.0%}", gap_cell(found)
        elif entry["measure"] == "64 MB":
            bar, measured = f"{entry['bar']:.0f} GB/s", cell(entry["value"], "{:.1f} GB/s")
        else:
            bar, measured = f"{entry['bar']:.2f}x", ratio_cell(found)
        what = MEASURES.get(entry["measure"], entry["measure"])
        bar = f"{SIGNS[entry['rule']]} {bar}"
        lines.append([",".join(entry["rows"]), what, bar, measured, cell(entry["turns"], "{}"), entry["verdict"], entry["ways"]])
    return table(head, lines)


def copies(found: Iterable[CopyRecord]) -> str:
    """Allgather by copy engines and by NCCL: GB/s received a GPU, and what a product beside it costs."""
    head = ["shard", "backend", "alone ms", "GB/s received", "product ms", "both ms", "exposed ms", "product slower by"]
    lines = []
    for entry in found:
        for backend in ("CUDA", "NCCL"):
            times = entry["times"]
            alone, product, both = times.get(backend), times.get("product"), times.get(f"{backend}-beside")
            received = (entry["devices"] - 1) * entry["bytes"] / alone / 1e6 if alone else None
            exposed = slower = None
            if product is not None and both is not None:
                exposed = both - max(product, alone or 0)
                # Only where the product outlasts the communication does the whole say how much the product lost.
                slower = both / product - 1 if alone and product > alone else None
            lines.append([
                size(entry["bytes"]),
                backend,
                cell(alone, "{:.4f}"),
                cell(received, "{:.1f}"),
                cell(product, "{:.4f}"),
                cell(both, "{:.4f}"),
                cell(exposed, "{:+.4f}"),
                cell(slower, "{:+.1%}"),
            ])  # fmt: skip
    return table(head, lines)


def exchanges(found: Iterable[ExchangeRecord]) -> str:
    """One message each way between neighbours: microseconds an exchange on the device and on the host."""
    head = ["message", "backend", "device us", "host us", "in a graph us", "GB/s received"]
    lines = []
    for entry in found:
        for way, figure in entry["ways"].items():
            device = figure.get("device_us")
            lines.append([
                size(entry["bytes"]),
                way,
                cell(device, "{:.2f}"),
                cell(figure.get("host_us"), "{:.2f}"),
                cell(figure.get("graph_us"), "{:.2f}"),
                cell(entry["bytes"] / device / 1e3 if device else None, "{:.2f}"),
            ])  # fmt: skip
    return table(head, lines)


def size(count: int) -> str:
    """A number of bytes."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def text(report: Report) -> str:
    """All tables."""
    about = ", ".join(f"{name}: {value}" for name, value in report.get("about", {}).items() if value)
    parts = [about] if about else []
    rows = timed(report)
    parts += [case(name, row) for name, row in rows.items()]
    if rows:
        parts.append("ms; hidden: 0% serial, 100% as fast as max(G, C); [95 % intervals]\n" + summary(rows))
    if report.get("copies"):
        parts.append("allgather by copy engines and by NCCL\n" + copies(report["copies"]))
    if report.get("exchanges"):
        parts.append("exchange with the neighbours\n" + exchanges(report["exchanges"]))
    whole: Report = {**report, "rows": rows}
    told = bars.verdicts(whole) if not report.get("shared") else []
    if told:
        parts.append("bars\n" + verdicts(told))
    return "\n\n".join(parts)


# ---- the plot ----

WIDTH, BAR, LABEL, NUMBER = 900, 14, 210, 150
COLOURS = {"ours": "#2f6f9f", "async": "#c9822b", "peer": "#7a4f9a", "torch": "#8a8f98"}


def colour(way: str) -> str:
    """The colour of a way's bar."""
    kinds = (("async", bars.is_async), ("peer", bars.is_peer), ("ours", bars.is_ours))
    return COLOURS[next((kind for kind, is_kind in kinds if is_kind(way)), "torch")]


def plot(report: Report) -> str:
    """Bars for each case: time over torch's serial, with a line at max(G, C). As SVG."""
    body: list[str] = []
    y = 40
    for name, row in timed(report).items():
        drawn, y = draw_row(name, row, y)
        body += drawn
    gpus = escape(str(report.get("about", {}).get("gpu", "")))
    head = f'<text x="10" y="22" font-size="15">Time over torch serial (shorter is better); dashes: max(G, C). {gpus}</text>'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{y + 10}" fill="white"/>',
        head,
        *body,
        "</svg>\n",
    ])  # fmt: skip


def draw_row(name: str, row: RowRecord, y: int) -> tuple[list[str], int]:
    """The bars of one case from `y` on, and where the next case starts."""
    found = paired.medians(row)
    shown = {way: time for way, time in found.items() if not bars.is_part(way)}
    base = found.get("torch-serial") or max(found.values())
    longest = max([*shown.values(), base]) / base
    unit = (WIDTH - LABEL - NUMBER) / longest
    drawn = [f'<text x="10" y="{y + 12}" font-weight="bold">{escape(name)}: {escape(title(row))}</text>']
    top = y = y + 20
    for way, time in shown.items():
        length = time / base * unit
        drawn.append(f'<text x="{LABEL - 6}" y="{y + BAR - 3}" text-anchor="end">{escape(way)}</text>')
        drawn.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 3}" fill="{colour(way)}"/>')
        drawn.append(f'<text x="{WIDTH - 10}" y="{y + BAR - 3}" text-anchor="end">{time:.3f} ms, {base / time:.2f}x</text>')
        y += BAR
    least = max((found[part] for part in bars.floor(row, "") if part in found), default=None)
    for value, dash in ((base, ""), (least, ' stroke-dasharray="4 3"')):
        if value:
            x = LABEL + value / base * unit
            drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 2}" y2="{y}" stroke="black"{dash}/>')
    return drawn, y + 14
