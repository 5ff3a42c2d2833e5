"""Reports as text, HTML and JSON."""

from __future__ import annotations

import html
import json
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hostir.torch._overlap.times import Times

if TYPE_CHECKING:
    from hostir.torch._overlap.report import GraphShape, Line, Report, Trial

__all__ = ["html_of_report", "json_of_report", "text_of_report"]

HEADS = ("collective", "where", "verdict", "serial ms", "measured ms")
TIMES = 2
# The widest verdict of a line, in characters; longer ones go on in the next.
WIDEST = 60
# The inputs of a graph that are listed.
MOST_INPUTS = 6

STYLE = """\
body{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}
table{border-collapse:collapse}
th,td{text-align:left;padding:.2em .8em;border-bottom:1px solid #ccc;vertical-align:top}
td.time{text-align:right;font-variant-numeric:tabular-nums}
.fused{color:#06600f}
.kept{color:#7a3b00}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}.fused{color:#7fd48a}.kept{color:#e8b27a}}"""


def text_of_report(report: Report) -> str:
    """A table for each graph, the regions that were tried and lost, and the files' full paths."""
    parts: list[str] = []
    graphs: list[GraphShape | None] = [*report.graphs] or [None]
    for graph in graphs:
        lines = [line for line in report.lines if graph is None or line.graph == graph.number]
        if graph is not None:
            parts.append(_graph_text(graph))
        if lines:
            parts.extend(_table([HEADS, *(_cells(line) for line in lines)]))
    parts.append(f"{len(report.lines)} collectives: {len(report.fused)} fused, {len(report.kept)} kept")
    parts.extend(_lost_text(line) for line in report.lines if line.lost)
    parts.extend(report.notes())
    parts.extend(f"{short} is {path}" for short, path in sorted(_files(report.lines).items()))
    return "\n".join(parts)


def _graph_text(graph: GraphShape) -> str:
    more = f" and {len(graph.inputs) - MOST_INPUTS} more" if len(graph.inputs) > MOST_INPUTS else ""
    return f"graph {graph.number}: {graph.nodes} nodes of {', '.join(graph.inputs[:MOST_INPUTS]) or 'nothing'}{more}"


def _cells(line: Line) -> tuple[str, ...]:
    return (f"{line.collective} ({line.group})", line.where, line.verdict, *_time_cells(line.times))


def _time_cells(times: Times | None) -> tuple[str, str]:
    return ("", "") if times is None else (f"{times.serial:.3f}", f"{times.measured:.3f}")


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows below each other; verdicts that are too long go on in lines of their own."""
    wrapped = [(row, textwrap.wrap(row[2], WIDEST, break_long_words=False, break_on_hyphens=False) or [""]) for row in rows]
    narrow = [(*row[:2], verdict[0], *row[3:]) for row, verdict in wrapped]
    widths = [max(map(len, column)) for column in zip(*narrow, strict=True)]
    widths[2] = max(len(part) for _, verdict in wrapped for part in verdict)
    found = []
    for row, (_, verdict) in zip(narrow, wrapped, strict=True):
        found.append(_joined(row, widths))
        found.extend(" " * (widths[0] + widths[1] + 4) + part for part in verdict[1:])
    return found


def _joined(row: tuple[str, ...], widths: Sequence[int]) -> str:
    texts = len(row) - TIMES
    cells = [
        cell.ljust(width) if at < texts else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _lost_text(line: Line) -> str:
    tried = "; ".join(_trial_text(trial) for trial in line.lost)
    return textwrap.fill(f"{line.collective} at {line.where}, tried: {tried}", 2 * WIDEST, subsequent_indent="  ")


def _trial_text(trial: Trial) -> str:
    times = "" if trial.times is None else f" {trial.times.measured:.3f} ms beside {trial.times.serial:.3f}"
    return f"{trial.region}{times} ({trial.outcome})"


def _files(lines: Iterable[Line]) -> dict[str, str]:
    """The full paths by their names, of files that are not in the current folder."""
    found: dict[str, set[str]] = {}
    for line in lines:
        path = line.path.rpartition(":")[0]
        if path and os.path.dirname(path) != os.getcwd():
            found.setdefault(os.path.basename(path), set()).add(path)
    return {short: ", ".join(sorted(paths)) for short, paths in found.items()}


def json_of_report(report: Report) -> str:
    """The report as an object of JSON: `graphs`, `collectives`, `restored` and `notes`."""
    found = {
        "format": "hostir overlap report 1",
        "graphs": [asdict(graph) for graph in report.graphs],
        "collectives": [_line_data(line) for line in report.lines],
        "restored": [
            {
                "region": one.program.name,
                "op": one.op,
                "collectives": [list(end) for end in one.collectives],
                "seconds": one.seconds,
            }
            for one in report.restored
        ],
        "notes": report.notes(),
    }
    return json.dumps(found, indent=1)


def _line_data(line: Line) -> dict[str, Any]:
    return {
        "graph": line.graph,
        "collective": line.collective,
        "group": line.group,
        "where": line.where,
        "path": line.path,
        "region": line.region,
        "reason": None if line.reason is None else line.reason.name,
        "detail": line.detail,
        "verdict": line.verdict,
        "fallback": line.fallback,
        "times": _times_data(line.times),
        "lost": [{"region": one.region, "outcome": one.outcome, "times": _times_data(one.times)} for one in line.lost],
    }


def _times_data(times: Times | None) -> dict[str, Any] | None:
    return None if times is None else asdict(times)


def html_of_report(report: Report) -> str:
    """The report as a page that needs no other file."""
    parts = ["<!doctype html>", '<html lang="en"><meta charset="utf-8"><title>hir.Overlap</title>', f"<style>{STYLE}</style>"]
    parts.append(f"<h1>{len(report.lines)} collectives: {len(report.fused)} fused, {len(report.kept)} kept</h1>")
    for graph in report.graphs:
        lines = [line for line in report.lines if line.graph == graph.number]
        parts.append(f"<h2>{html.escape(_graph_text(graph))}</h2>")
        if lines:
            heads = "".join(f"<th>{head}</th>" for head in HEADS)
            parts.append(f"<table><tr>{heads}</tr>{''.join(map(_row_of_page, lines))}</table>")
    parts.extend(f"<p>{html.escape(note)}</p>" for note in report.notes())
    return "\n".join(parts) + "\n</html>\n"


def _row_of_page(line: Line) -> str:
    texts = [f"{line.collective} ({line.group})", line.path or line.where]
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
    lost = "".join(f"<br>tried: {html.escape(_trial_text(trial))}" for trial in line.lost)
    verdict = f'<td class="{"fused" if line.is_fused else "kept"}">{html.escape(line.verdict)}{lost}</td>'
    times = "".join(f'<td class="time">{text}</td>' for text in _time_cells(line.times))
    return f"<tr>{cells}{verdict}{times}</tr>\n"
