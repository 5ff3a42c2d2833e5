#!/usr/bin/env python3
"""What tools/overlap-bench prints and draws from its figures: tables as text, bars as SVG."""

import statistics
from xml.sax.saxutils import escape

TORCH = ("torch-gemm", "torch-comm", "torch-serial", "torch-serial-graph")
PARTS = ("gemm", "comm", "torch-gemm", "torch-comm")


def medians(row):
    return {name: statistics.median(times) for name, times in row["times"].items() if times}


def is_async(name):
    return name.startswith("async-tp")


def is_ours(name):
    return not is_async(name) and name not in TORCH and name not in PARTS


def bounds(found):
    """G and C: the product and the communication alone, ours if they were timed."""
    return found.get("gemm", found.get("torch-gemm")), found.get("comm", found.get("torch-comm"))


def best(found, chosen):
    return min(((time, name) for name, time in found.items() if chosen(name)), default=None)


def figures(row):
    """For each way: ms, speed-up over torch's serial, hidden fraction, gap to max(G, C), ratio to the best async-TP."""
    found = medians(row)
    serial, (g, c) = found.get("torch-serial"), bounds(found)
    floor = max(g, c) if g and c else None
    fused = best(found, is_async)
    result = {}
    for name, time in found.items():
        figure = {"ms": time}
        if serial:
            figure["speedup"] = serial / time
        if serial and floor and serial > floor:
            figure["hidden"] = (serial - time) / (serial - floor)
        if floor:
            figure["gap"] = time / floor - 1
        if fused:
            figure["of_async_tp"] = fused[0] / time
        result[name] = figure
    return result


def cell(value, form):
    return form.format(value) if value is not None else "-"


def table(head, rows):
    """Columns as wide as they have to be; the first one to the left."""
    rows = [head, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for row in rows:
        words = [word.rjust(width) for word, width in zip(row, widths)]
        lines.append("  ".join([row[0].ljust(widths[0]), *words[1:]]).rstrip())
    return "\n".join(lines)


def case(name, row):
    """The figures of one case."""
    head = ["way", "ms", "rounds", "speed-up", "hidden", "gap", "of async-TP", "issue us"]
    lines = []
    for way, figure in figures(row).items():
        whole = way not in PARTS
        get = lambda key, whole=whole, figure=figure: figure.get(key) if whole else None
        times = row["times"][way]
        issue = row.get("issue_us", {}).get(way)
        lines.append([
            way,
            f"{figure['ms']:.4f}",
            f"{min(times):.3f}..{max(times):.3f}" if len(times) > 1 else "1",
            cell(get("speedup"), "{:.3f}x"),
            cell(get("hidden"), "{:.0%}"),
            cell(get("gap"), "{:+.1%}"),
            cell(get("of_async_tp"), "{:.3f}x"),
            cell(issue, "{:.0f}"),
        ])
    told = "".join(f"\n  note: {note}" for note in row.get("notes", []))
    return f"{name}: {title(row)}\n{table(head, lines)}{told}"


def title(row):
    what = "allgather + matmul" if row["kind"] == "ag" else "matmul + reduce-scatter"
    return f"{what} {row['m']},{row['k']},{row['n']} {row['dtype']}, {row['devices']} GPUs"


def summary(rows):
    """One line a case: the best of ours beside the best of torch."""
    head = ["case", "G", "C", "torch serial", "best async-TP", "best of ours", "way", "speed-up", "hidden", "gap", "of async-TP"]
    lines = []
    for name, row in rows.items():
        found, all = medians(row), figures(row)
        ours, fused, (g, c) = best(found, is_ours), best(found, is_async), bounds(found)
        figure = all[ours[1]] if ours else {}
        lines.append([
            name,
            cell(g, "{:.3f}"),
            cell(c, "{:.3f}"),
            cell(found.get("torch-serial"), "{:.3f}"),
            cell(fused and fused[0], "{:.3f}"),
            cell(ours and ours[0], "{:.3f}"),
            ours[1] if ours else "-",
            cell(figure.get("speedup"), "{:.3f}x"),
            cell(figure.get("hidden"), "{:.0%}"),
            cell(figure.get("gap"), "{:+.1%}"),
            cell(figure.get("of_async_tp"), "{:.3f}x"),
        ])
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
            ])
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
            ])
    return table(head, lines)


def size(count):
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def text(report):
    about = ", ".join(f"{name}: {value}" for name, value in report.get("about", {}).items() if value)
    parts = [about] if about else []
    timed = {name: row for name, row in report.get("rows", {}).items() if row["times"]}
    parts += [case(name, row) for name, row in timed.items()]
    if timed:
        parts.append("ms; hidden: 0% serial, 100% as fast as max(G, C)\n" + summary(timed))
    if report.get("copies"):
        parts.append("allgather by copy engines and by NCCL\n" + copies(report["copies"]))
    if report.get("exchanges"):
        parts.append("exchange with the neighbours\n" + exchanges(report["exchanges"]))
    return "\n\n".join(parts)


# ---- the plot ----

WIDTH, BAR, LABEL, NUMBER = 900, 14, 210, 150
COLOURS = {"ours": "#2f6f9f", "async": "#c9822b", "torch": "#8a8f98"}


def colour(name):
    return COLOURS["async" if is_async(name) else "ours" if is_ours(name) else "torch"]


def plot(report):
    """Bars for each case: time over torch's serial, with a line at max(G, C). As SVG."""
    rows = {name: row for name, row in report.get("rows", {}).items() if row["times"]}
    body, y = [], 40
    for name, row in rows.items():
        drawn, y = bars(name, row, y)
        body += drawn
    gpus = escape(str(report.get("about", {}).get("gpu", "")))
    head = f'<text x="10" y="22" font-size="15">Time over torch serial (shorter is better); dashes: max(G, C). {gpus}</text>'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{y + 10}" fill="white"/>',
        head,
        *body,
        "</svg>\n",
    ])


def bars(name, row, y):
    """The bars of one case from `y` on, and where the next case starts."""
    found = medians(row)
    shown = {way: time for way, time in found.items() if way not in PARTS}
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
    for value, dash in ((base, ""), (max(filter(None, bounds(found)), default=None), ' stroke-dasharray="4 3"')):
        if value:
            x = LABEL + value / base * unit
            drawn.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 2}" y2="{y}" stroke="black"{dash}/>')
    return drawn, y + 14
