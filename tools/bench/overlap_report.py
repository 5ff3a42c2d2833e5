#!/usr/bin/env python3
"""The output of tools/overlap-bench from its figures: tables as text, bars as SVG."""

import statistics
from xml.sax.saxutils import escape

import overlap_bars as bars
import overlap_rows
import overlap_statistics as paired


def title(row):
    return overlap_rows.title(row)


def timed(report):
    """The rows of a report that have times. Those of older versions have medians only, one a round."""
    rows = {}
    for name, row in report.get("rows", {}).items():
        if "series" not in row:
            turns = {way: [[ms] for ms in times] for way, times in row.get("times", {}).items()}
            row = {**row, "series": [{"turns": turns}]}
        if paired.ways(row):
            rows[name] = row
    return rows


def figures(row):
    """For each way: ms, speed-up over torch's serial, hidden fraction, and with intervals the ratio to torch's best and
    the gap to max(G, C)."""
    found = paired.medians(row)
    serial, torch = found.get("torch-serial"), bars.best(found, bars.is_torch)
    result = {}
    for way, time in found.items():
        result[way] = figure = {"ms": time, "runs": len(paired.runs(row, way))}
        if bars.is_part(way):
            continue
        parts = bars.floor(row, way if bars.is_ours(way) else "")
        least = max(found[part] for part in parts) if parts and all(part in found for part in parts) else None
        if serial:
            figure["speedup"] = serial / time
        if serial and least and len(parts) == 2 and serial > least:
            figure["hidden"] = (serial - time) / (serial - least)
        for key, interval in (("gap", bars.gap(row, way) if bars.is_ours(way) else None), ("of_torch", bars.compare(row, torch, way))):
            if interval:
                figure[key] = interval._asdict()
    return result


def cell(value, form):
    return form.format(value) if value is not None else "-"


def ratio_cell(figure):
    """`1.024x [1.019, 1.030]`"""
    if not figure:
        return "-"
    ends = "" if figure["low"] is None else f" [{figure['low']:.3f}, {figure['high']:.3f}]"
    return f"{figure['value']:.3f}x{ends}"


def gap_cell(figure):
    """`+1.3% [+0.8, +1.9]`"""
    if not figure:
        return "-"
    ends = "" if figure["low"] is None else f" [{figure['low'] * 100:+.1f}, {figure['high'] * 100:+.1f}]"
    return f"{figure['value']:+.1%}{ends}"


def table(head, rows):
    """Columns as wide as they have to be; the first one to the left."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for row in rows:
        words = [word.rjust(width) for word, width in zip(row, widths)]
        lines.append("  ".join([row[0].ljust(widths[0]), *words[1:]]).rstrip())
    return "\n".join(lines)


def spread(times):
    """The 10th and the 90th percentile."""
    if len(times) < 2:
        return "-"
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return f"{tenths[0]:.3f}..{tenths[-1]:.3f}"


def case(name, row):
    """The figures of one case."""
    head = ["way", "ms", "p10..p90", "runs", "speed-up", "hidden", "gap", "of torch", "issue us"]
    lines = []
    for way, figure in figures(row).items():
        issue = row.get("issue_us", {}).get(way)
        lines.append([
            way,
            f"{figure['ms']:.4f}",
            spread(paired.runs(row, way)),
            str(figure["runs"]),
            cell(figure.get("speedup"), "{:.3f}x"),
            cell(figure.get("hidden"), "{:.0%}"),
            gap_cell(figure.get("gap")),
            ratio_cell(figure.get("of_torch")),
            cell(issue, "{:.0f}"),
        ])  # fmt: skip
    told = "".join(f"\n  note: {note}" for note in row.get("notes", []))
    return f"{name}: {title(row)}\n{table(head, lines)}{told}"


def summary(rows):
    """One line a case: the best of ours beside the best of torch and of its peers."""
    head = ["case", "G", "C", "torch serial", "best of torch", "best peer", "best of ours", "way", "speed-up", "hidden", "gap", "of torch"]
    lines = []
    for name, row in rows.items():
        found, all = paired.medians(row), figures(row)
        ours = bars.best(found, bars.is_ours)
        parts = bars.floor(row, ours or "")
        product = next((part for part in parts if part.startswith("gemm")), "torch-gemm")
        comm = next((part for part in parts if part.startswith("comm") and part in found), "torch-comm")
        figure = all.get(ours, {})
        best = [bars.best(found, chosen) for chosen in (bars.is_torch, bars.is_peer)]
        lines.append([
            name,
            cell(found.get(product), "{:.3f}"),
            cell(found.get(comm), "{:.3f}"),
            cell(found.get("torch-serial"), "{:.3f}"),
            *(cell(found.get(way), "{:.3f}") for way in best),
            cell(found.get(ours), "{:.3f}"),
            ours or "-",
            cell(figure.get("speedup"), "{:.3f}x"),
            cell(figure.get("hidden"), "{:.0%}"),
            gap_cell(figure.get("gap")),
            ratio_cell(figure.get("of_torch")),
        ])  # fmt: skip
    return table(head, lines)


def verdicts(told):
    """A line for each bar."""
    head = ["case", "what", "bar", "measured", "turns", "verdict", "ways"]
    signs = {"reaches": "reaches", "at least": ">=", "at most": "<=", "above": ">"}
    names = {"torch": "torch / ours", "async-tp": "async-TP / ours", "serial": "serial / ours", "serial graph": "serial / ours, graphs", "graph": "torch / ours, graphs"}
    lines = []
    for entry in told:
        figure = entry if entry["value"] is not None else None
        if entry["measure"] == "gap":
            bar, found = f"{entry['bar']:.0%}", gap_cell(figure)
        elif entry["measure"] == "64 MB":
            bar, found = f"{entry['bar']:.0f} GB/s", cell(entry["value"], "{:.1f} GB/s")
        else:
            bar, found = f"{entry['bar']:.2f}x", ratio_cell(figure)
        what = names.get(entry["measure"], entry["measure"])
        lines.append([",".join(entry["rows"]), what, f"{signs[entry['rule']]} {bar}", found, cell(entry["turns"], "{}"), entry["verdict"], entry["ways"]])
    return table(head, lines)


def copies(found):
    """Allgather by copy engines and by NCCL: GB/s received a GPU, and what a product beside it costs."""
    head = ["shard", "backend", "alone ms", "GB/s received", "product ms", "both ms", "exposed ms", "product slower by"]
    lines = []
    for entry in found:
        for backend in ("CUDA", "NCCL"):
            times = entry["times"]
            alone, product, both = times.get(backend), times.get("product"), times.get(f"{backend}-beside")
            received = (entry["devices"] - 1) * entry["bytes"] / alone / 1e6 if alone else None
            full = product is not None and both is not None
            # Only where the product outlasts the communication does the whole say how much the product lost.
            slower = both / product - 1 if full and alone and product > alone else None
            lines.append([
                size(entry["bytes"]),
                backend,
                cell(alone, "{:.4f}"),
                cell(received, "{:.1f}"),
                cell(product, "{:.4f}"),
                cell(both, "{:.4f}"),
                cell(both - max(product, alone or 0) if full else None, "{:+.4f}"),
                cell(slower, "{:+.1%}"),
            ])  # fmt: skip
    return table(head, lines)


def exchanges(found):
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


def size(count):
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def text(report):
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
    told = bars.verdicts({**report, "rows": rows}) if not report.get("shared") else []
    if told:
        parts.append("bars\n" + verdicts(told))
    return "\n\n".join(parts)


# ---- the plot ----

WIDTH, BAR, LABEL, NUMBER = 900, 14, 210, 150
COLOURS = {"ours": "#2f6f9f", "async": "#c9822b", "peer": "#7a4f9a", "torch": "#8a8f98"}


def colour(way):
    kinds = (("async", bars.is_async), ("peer", bars.is_peer), ("ours", bars.is_ours))
    return COLOURS[next((kind for kind, is_kind in kinds if is_kind(way)), "torch")]


def plot(report):
    """Bars for each case: time over torch's serial, with a line at max(G, C). As SVG."""
    body, y = [], 40
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


def draw_row(name, row, y):
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
