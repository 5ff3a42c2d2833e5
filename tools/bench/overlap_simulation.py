#!/usr/bin/env python3
"""A simulated machine for tools/overlap-bench: made-up times whose ratios are known.

`checks` yields what --dry-run runs: statistics against known quantiles and coverage, bars against cases worked out by
hand, tables, and the tool that measures with hir-run on the CPU and a stand-in for torch.
"""

import json
import math
import random
import sys
import tempfile
import time
import xml.dom.minidom
from pathlib import Path
from types import SimpleNamespace

import overlap_bars as bars
import overlap_measure as measure
import overlap_report as report
import overlap_rows as rows
import overlap_statistics as paired
from overlap_processes import Clock, Failed, Tools, Torch


def expect(found, wanted, what, tolerance=1e-9):
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        if abs(found - wanted) <= tolerance:
            return
    elif found == wanted:
        return
    raise Failed(f"{what}: {found}, not {wanted}")


class QuietBench(measure.Bench):
    """The tool that measures, without what it prints."""

    def tell(self, line):
        pass


class Machine:
    """Times of ways that share a clock, which drifts by some percent from turn to turn, and noise of each run."""

    def __init__(self, seed, drift=0.05, noise=0.01):
        self.random, self.drift, self.noise, self.speed = random.Random(seed), drift, noise, 1.0

    def turn(self, times, runs=5):
        self.speed = max(0.5, self.speed * math.exp(self.random.gauss(0, self.drift)))
        return {way: [ms * self.speed * math.exp(self.random.gauss(0, self.noise)) for _ in range(runs)] for way, ms in times.items()}

    def series(self, times, turns=12, graph=False):
        found = {}
        for _ in range(turns):
            for way, runs in self.turn(times).items():
                found.setdefault(way, []).append(runs)
        return {"graph": graph, "turns": found}

    def row(self, kind, plain, graphs=None, turns=12):
        """A row with a series of plain runs and, if `graphs` has times, one of graphs."""
        series = [self.series(plain, turns)] + ([self.series(graphs, turns, True)] if graphs else [])
        return {"kind": kind, "dtype": "bfloat", "m": 8, "k": 8, "n": 8, "devices": 4, "series": series, "notes": []}


def quantiles():
    """Published quantiles of Student's distribution, in the table and between its lines."""
    for freedom, quantile in ((1, 12.706), (5, 2.571), (11, 2.201), (30, 2.042), (50, 2.009), (80, 1.990), (1000, 1.962)):
        expect(round(paired.student(freedom), 3), quantile, f"quantile for {freedom}", 0.0011)


def by_hand():
    """An interval computed by hand: logs -d, 0, d with d = log 1.1, so the half width is 4.3027 d / sqrt(3)."""
    found = paired.of_ratios([1 / 1.1, 1.0, 1.1])
    half = 4.3027 * math.log(1.1) / math.sqrt(3)
    for place, wanted in ((found.value, 1.0), (found.low, math.exp(-half)), (found.high, math.exp(half))):
        expect(place, wanted, "interval of three ratios", 1e-6)
    expect(found.turns, 3, "turns")
    expect(paired.of_ratios([1.5]), paired.Interval(1.5, None, None, 1), "one ratio")
    expect(paired.of_ratios([]), None, "no ratio")
    # Two rows, each counted once however many turns it has.
    both = paired.of_means([[1.21, 1.21], [1.0, 1.0, 1.0, 1.0]])
    expect(both.value, 1.1, "mean of two rows")


def coverage():
    """95 of 100 intervals hold the ratio, though the clock drifts far more than the ways differ."""
    held, trials = 0, 1000
    for seed in range(trials):
        row = Machine(seed).row("ag", {"torch-serial": 1.03, "push": 1.0})
        found = paired.of_ratios(paired.ratios(row, ["torch-serial"], ["push"]))
        held += found.low <= 1.03 <= found.high
        if not 0.95 < found.value < 1.11:
            raise Failed(f"the ratio of seed {seed} is {found.value}, not about 1.03")
    # Five standard deviations of a binomial distribution.
    if abs(held / trials - 0.95) > 5 * math.sqrt(0.95 * 0.05 / trials):
        raise Failed(f"{held} of {trials} intervals hold the ratio")


def series_apart():
    """Ways are compared within a series only: a slower hour of both sides is no difference."""
    machine = Machine(1, noise=0.001)
    row = machine.row("ag", {"torch-serial": 1.0, "push": 1.0})
    row["series"].append(machine.series({"torch-serial": 3.0, "push": 3.0}))
    row["series"].append(machine.series({"push": 0.1}))
    found = bars.compare(row, "torch-serial", "push")
    expect(found.turns, 24, "turns of two series")
    expect(found.value, 1.0, "ratio over two series", 0.002)
    # A side that ended early is compared as far as it came.
    row["series"][0]["turns"]["torch-serial"] = row["series"][0]["turns"]["torch-serial"][:5]
    expect(bars.compare(row, "torch-serial", "push").turns, 17, "turns of a side that ended")


# Ours is 1.10 times as fast as torch's best, a graph, and 4 % above the slower of product and communication.
PLAIN = {"push": 1.06, "serial": 1.6, "gemm": 1.02, "gemm-parts": 1.0, "comm": 0.4, "torch-serial": 1.5, "async-tp": 1.2, "torch-serial-graph": 1.45, "async-tp-graph": 1.144, "vllm-ring": 0.9}
GRAPHS = {"push-graph": 1.04, "serial-graph": 1.55, "gemm-graph": 1.01, "gemm-parts-graph": 1.0, "comm-graph": 0.4, **{way: ms for way, ms in PLAIN.items() if bars.is_torch(way)}}


def chosen():
    """The ways and the numbers that each measure compares, for known times."""
    row = Machine(7, noise=0.001).row("ag", PLAIN, GRAPHS)
    whole = {"rows": {"ag1": row}, "copies": []}
    wanted = {
        "torch": (1.10, "async-tp-graph / push-graph"),
        "gap": (0.04, "push-graph over max(gemm-parts-graph, comm-graph)"),
        "async-tp": (1.10, "async-tp-graph / push-graph"),
        "serial": (1.5 / 1.06, "torch-serial / push"),
        "serial graph": (1.45 / 1.04, "torch-serial-graph / push-graph"),
        "graph": (1.10, "async-tp-graph / push-graph"),
    }
    for name, (value, ways) in wanted.items():
        found, told = bars.measured(whole, "ag1", name)
        expect(told, ways, f"ways of {name}")
        expect(found.value, value, f"value of {name}", 0.004)
        if not found.low < found.value < found.high:
            raise Failed(f"{name}: {found} is no interval")


def rules():
    """Each rule on both sides of its bar, and with the bar in the interval."""
    table = [
        ("reaches", 1.0, (0.99, 0.97, 1.01), "met"),
        ("reaches", 1.0, (0.97, 0.95, 0.99), "missed"),
        ("at least", 1.06, (1.08, 1.07, 1.09), "met"),
        ("at least", 1.06, (1.07, 1.05, 1.09), "met, within noise"),
        ("at least", 1.06, (1.05, 1.03, 1.07), "missed, within noise"),
        ("at least", 1.06, (1.02, 1.01, 1.03), "missed"),
        ("at most", 0.02, (0.01, 0.005, 0.015), "met"),
        ("at most", 0.02, (0.03, 0.025, 0.035), "missed"),
        ("above", 1.0, (1.02, 1.01, 1.03), "met"),
        ("above", 1.0, (1.02, 0.99, 1.05), "missed"),
    ]
    for rule, bar, (value, low, high), wanted in table:
        found = bars.verdict(rows.Bar(("x",), "torch", rule, bar), paired.Interval(value, low, high, 9))
        expect(found, wanted, f"{value} [{low}, {high}] {rule} {bar}")
    expect(bars.verdict(rows.Bar(("x",), "torch", "at least", 345.0), paired.Interval(346.0, None, None, 1)), "met", "without an interval")
    expect(bars.verdict(rows.BARS[0], None), "not measured", "nothing")


def scatter_verdicts():
    """Verdicts of four scatters with ratios 1.08, 1.01, 1.01 and 0.98: the mean is 1.019, below its bar."""
    found = {}
    for name, ratio in zip(rows.SCATTERS, (1.08, 1.01, 1.01, 0.98)):
        times = {"accumulate": 1.0, "gemm": 0.96, "gemm-parts": 0.97, "comm": 0.5, "torch-serial": 1.4, "async-tp": ratio}
        found[name] = Machine(len(found), noise=0.0005).row("rs", times)
    told = {(tuple(entry["rows"]), entry["measure"], entry["rule"]): entry for entry in bars.verdicts({"rows": found, "copies": []})}
    gap = 1 / 0.96 - 1
    wanted = {
        (("rs1",), "torch", "at least"): (1.08, "met"),
        (("rs4",), "torch", "reaches"): (0.98, "missed"),
        (tuple(rows.SCATTERS), "geometric mean", "at least"): ((1.08 * 1.01 * 1.01 * 0.98) ** 0.25, "missed"),
        (("rs2",), "gap", "at most"): (gap, "met"),
        (("rs4",), "gap", "at most"): (gap, "missed"),
    }
    for key, (value, verdict) in wanted.items():
        expect(told[key]["value"], value, f"value of {key}", 0.002)
        expect(told[key]["verdict"], verdict, f"verdict of {key}")
    # With a row missing there is no mean.
    del found["rs3"]
    last = [entry for entry in bars.verdicts({"rows": found}) if entry["measure"] == "geometric mean"]
    expect([entry["verdict"] for entry in last], ["not measured"], "mean without a row")


def tables():
    """The tables of made-up times, against figures worked out by hand; also those of an earlier version."""
    times = {"ring": [1.3, 1.25, 1.2], "gemm": [1.0], "comm": [0.5], "torch-serial": [2.0], "async-tp": [1.5]}
    row = {"kind": "ag", "dtype": "bfloat", "m": 8, "k": 8, "n": 8, "devices": 2, "times": times}
    moved = {"CUDA": 2.0, "NCCL": 2.5, "product": 4.0, "CUDA-beside": 4.2}
    copied = {"bytes": 1 << 30, "devices": 3, "products": 4, "times": moved}
    bar = {"bytes": 64 << 20, "devices": 4, "products": 4, "times": {"CUDA": 0.6}}
    exchanged = {"bytes": 1 << 20, "ways": {"NCCL": {"device_us": 10.0, "host_us": 1.0}}}
    new = Machine(3, noise=0.001).row("rs", {**PLAIN, "accumulate": 1.07}, GRAPHS)
    whole = {"rows": {"ag1": row, "rs1": new}, "copies": [copied, bar], "exchanges": [exchanged]}
    said = report.text(whole)
    # 1.6: 2.0 / 1.25. 75 %: 0.75 of 1.0 ms. 335.5 GB/s: three shards of 64 MB in 0.6 ms.
    for word in ("1.600x", "75%", "1073.7", "+0.2000", "+5.0%", "104.86", "335.5 GB/s", "not measured", "met", "async-tp-graph / push-graph"):
        if word not in said:
            raise Failed(f"the tables lack {word}:\n{said}")
    for part in (report.plot(whole), report.plot({"rows": {}})):
        xml.dom.minidom.parseString(part)


# Answers as overlap_torch.py does, with made-up times. The way `ends` takes the process with it when it is tried.
STAND_IN = """
import json, sys
def tell(answer): print(json.dumps(answer), flush=True)
tell({"torch": "stand-in"})
for line in sys.stdin:
    order = json.loads(line)
    if order["do"] == "prepare":
        for way in ("torch-serial", "ends"):
            if way in order["without"]: continue
            tell({"trying": way})
            if way == "ends": sys.exit("as it was told to")
        tell({"ways": ["torch-serial"], "failed": {"flashinfer": "not there"}})
    elif order["do"] == "turn": tell({"times": {"torch-serial": [1.5] * order["runs"]}})
    else: tell({})
"""


def stand_in_bench(tools, **changes):
    """The tool that measures, with hir-run on the CPU and a stand-in for torch."""
    options = SimpleNamespace(**{**vars(tools.options), "backend": "cpu", "share": None, "graphs": False, "torch": True, "json": None, "streams": None})
    options.rounds, options.alternations, options.iters, options.warmup, options.more, options.copies = 1, 3, 2, 1, False, False
    options.flashinfer = options.mkernel = None
    options.torch_on_cpu, options.python = False, sys.executable
    vars(options).update(changes)
    folder = Path(tempfile.mkdtemp(dir=tools.folder))
    clock = Clock(120)
    script = folder / "stand_in.py"
    script.write_text(STAND_IN)
    bench = QuietBench(options, Tools(options, folder, clock), clock, 2)
    bench.torch = Torch(options, folder, clock, 2, script)
    return bench


def measured(tools):
    """A row is measured as on GPUs: turns of both sides, ways that fail by themselves or take torch with them."""
    bench = stand_in_bench(tools)
    bench.options.json = str(bench.tools.folder / "out.json")
    small = rows.Row("rs", "bfloat", 8, 8, 8)
    bad = bench.tools.write("tiny/broken", "hir 2\n\nno program\n")
    rows.ROWS["tiny"] = small
    try:
        bench.files["tiny"] = {**measure.cases.build(bench.tools, "tiny", 2, False), "broken": bad}
        bench.all(["tiny"])
    finally:
        del rows.ROWS["tiny"]
        bench.torch.stop()
    row = json.loads((bench.tools.folder / "out.json").read_text())["rows"]["tiny"]
    (series,) = row["series"]
    expect(sorted(series["turns"]), sorted(["p2p", "p2p-cuda", "accumulate", "serial", "gemm", "gemm-parts", "comm", "torch-serial"]), "ways")
    for way, turns in series["turns"].items():
        expect([len(runs) for runs in turns], [2, 2, 2], f"runs of {way} a turn")
    expect(series["turns"]["torch-serial"], [[1.5, 1.5]] * 3, "times of the stand-in")
    expect(sorted(note.split(":")[0] for note in row["notes"]), ["broken", "ends", "flashinfer"], "notes")
    expect(len(paired.ratios(row, ["torch-serial"], ["serial"])), 3, "pairs")
    # A peer that nobody asked for is left out without being a failure.
    expect(len(bench.report["failed"]), 2, f"failures {bench.report['failed']}")


def late(tools):
    """When the time is up, what was measured stays, and the end is told."""
    bench = stand_in_bench(tools, torch=False)
    bench.options.alternations = 100000
    small = rows.Row("ag", "bfloat", 8, 8, 8)
    rows.ROWS["brief"] = small
    try:
        bench.files["brief"] = measure.cases.build(bench.tools, "brief", 2, False)
        bench.clock.end = bench.tools.clock.end = time.monotonic() + 6.5
        bench.round("brief")
    finally:
        del rows.ROWS["brief"]
    row = bench.report["rows"]["brief"]
    if not row["series"] or len(row["series"][0]["turns"]["serial"]) < 1:
        raise Failed("nothing was kept")
    if not any("the time was up" in note for note in row["notes"]):
        raise Failed(f"the end of the time is not told: {row['notes']}")


# ---- hir-run's CUDA backend, on stand-ins for NVIDIA's libraries ----

LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnccl.so.2")


def stand_in_library(tools):
    """test/fakes, where it is built beside hir-run; none elsewhere."""
    file = tools.run.parent / "deps/libhostir_fakes.so"
    return file if file.exists() else None


def on_stand_ins(tools, library, kind, devices, share):
    """Every way of a small row runs on the CUDA backend: as calls and, with a GPU for each rank, as a graph."""
    bench = stand_in_bench(tools, backend="cuda", share=share, graphs=not share, torch=False)
    for name in LIBRARIES:
        (bench.tools.folder / name).symlink_to(library)
    bench.tools.environment.update({"LD_LIBRARY_PATH": str(bench.tools.folder), "HIR_FAKE_DEVICES": str(1 if share else devices)})
    bench.devices = devices
    name, edge = f"gpu-{kind}-{devices}-{share}", 16 * devices
    rows.ROWS[name] = rows.Row(kind, "e4m3" if kind.startswith("scaled") else "bfloat", edge, edge, edge)
    try:
        files = measure.cases.build(bench.tools, name, devices, False)
        bench.files[name] = files
        bench.round(name)
    finally:
        del rows.ROWS[name]
    if bench.report["failed"]:
        raise Failed("; ".join(bench.report["failed"]))
    row = bench.report["rows"][name]
    wanted = [[way + suffix for way in files] for suffix in (("", "-graph") if not share else ("",))]
    expect([list(series["turns"]) for series in row["series"]], wanted, "ways")
    for way in paired.ways(row):
        expect(len(paired.runs(row, way)), bench.options.alternations * bench.options.iters, f"runs of {way}")
        if way not in row["issue_us"]:
            raise Failed(f"{way} has no time of the host")
    if not bars.gap(row, bars.best(paired.medians(row), bars.is_ours)):
        raise Failed("there is no gap")


def gpu_checks(tools, library):
    for kind in rows.KINDS:
        for devices, share in ((2, None), (3, 3)):
            what = f"simulated: {kind} on stand-ins for {'one GPU' if share else f'{devices} GPUs'}"
            yield what, lambda kind=kind, devices=devices, share=share: on_stand_ins(tools, library, kind, devices, share)


def checks(tools):
    """The checks, by name."""
    plain = (quantiles, by_hand, coverage, series_apart, chosen, rules, scatter_verdicts, tables)
    yield from ((f"simulated: {check.__name__}", check) for check in plain)
    for check in (measured, late):
        yield f"simulated: {check.__name__}", lambda check=check: check(tools)
