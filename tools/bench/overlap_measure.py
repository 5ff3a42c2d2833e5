#!/usr/bin/env python3
"""tools/overlap-bench on GPUs: rows in turns of ours and of torch, copies and messages."""

import json
import statistics
import time
from pathlib import Path

import overlap_bars as bars
import overlap_cases as cases
import overlap_programs as programs
import overlap_report as report
import overlap_rows as rows
import overlap_statistics as paired
from overlap_processes import LOADING, TOGETHER, Failed, Torch, Turns

SHARDS = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30]
MESSAGES = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
EXCHANGES = 100
# The product beside an allgather: its edge, and milliseconds and GB/s that only decide how often it is repeated.
EDGE, EDGE_MS, RECEIVED = 4096, 0.18, 250e6
SETTINGS = ("rounds", "alternations", "iters", "warmup", "share", "backend")


class Bench:
    def __init__(self, options, tools, clock, devices):
        self.options, self.tools, self.clock, self.devices = options, tools, clock, devices
        self.torch = Torch(options, tools.folder, clock, devices)
        self.report = {"devices": devices, "rows": {}, "copies": [], "exchanges": [], "about": {}, "failed": []}
        self.report["settings"] = {name: getattr(options, name) for name in SETTINGS}
        if options.share:
            self.report["shared"] = True
        # Files by row, seconds by row, and ways that did not run, by row.
        self.files, self.spent, self.broken = {}, {}, {}

    def tell(self, line):
        print(line, flush=True)

    def failed(self, what, error):
        self.tell(f"FAILED {what}: {error}")
        self.report["failed"].append(f"{what}: {error}")

    def save(self):
        self.report["about"] = {"ours": self.tools.about, **self.torch.about}
        if self.options.json:
            found = report.timed(self.report)
            self.report["figures"] = {name: report.figures(row) for name, row in found.items()}
            self.report["bars"] = [] if self.options.share else bars.verdicts({**self.report, "rows": found})
            beside = Path(self.options.json + ".part")
            beside.write_text(json.dumps(self.report, indent=1) + "\n")
            beside.replace(self.options.json)

    def part(self, what, work):
        """A part whose failure leaves the others."""
        start = time.monotonic()
        try:
            work()
        except Failed as error:
            self.failed(what, error)
        except Exception as error:  # the figures so far are worth more than a trace
            self.failed(what, f"{type(error).__name__}: {error}")
        self.save()
        return time.monotonic() - start

    # ---- rows ----

    def fits(self, name):
        """True if a row can run here; else it is left out by name."""
        why = rows.fits(name, self.devices)
        if why:
            self.failed(name, f"left out, {why}")
        return not why

    def case(self, name):
        """A row's entry in the report."""
        row = rows.ROWS[name]
        empty = {**row._asdict(), "devices": self.devices, "series": [], "issue_us": {}, "notes": []}
        if self.options.share:
            empty["ranks"] = "ranks on one GPU"
        return self.report["rows"].setdefault(name, empty)

    def round(self, name):
        row = self.case(name)
        if name not in self.files:
            self.files[name] = cases.build(self.tools, name, self.devices, self.options.more)
        files = list(self.files[name].values())
        ready = False
        for graph in (False, True) if self.options.graphs else (False,):
            # Torch is set up once for both, unless it ended in between.
            if self.options.torch and not (ready and self.torch.processes):
                self.part(f"{name} torch", lambda: self.prepare(name, row))
                ready = True
            mode = " as graphs" if graph else ""
            self.part(f"{name}{mode}", lambda graph=graph: self.series(name, row, files, graph))
        if ready:
            self.part(f"{name} torch", self.torch.drop)

    def prepare(self, name, row):
        order = {key: row[key] for key in ("kind", "dtype", "m", "k", "n")}
        ways, failed = self.torch.prepare({**order, "warmup": self.options.warmup, "ranks": self.devices})
        # Peers that nobody asked for may be missing.
        asked = {"flashinfer": self.options.flashinfer, "mkernel": self.options.mkernel}
        for way in [way for way in failed if not asked.get(way, True)]:
            self.note(name, row, f"{way}: left out, {failed.pop(way)}")
        self.lost(name, row, failed)
        self.tell(f"{name}: torch has {', '.join(ways)}")

    def flags(self, kind, graph):
        streams = self.options.streams or rows.streams(kind, self.devices)
        flags = ["--streams", streams] if streams else []
        # As torch's ways, which have `use_fast_accum`.
        fast = ["--fp8-fast-accumulation"] if kind.startswith("scaled") else []
        return [*flags, *fast, *cases.inputs(kind), *(["--graph"] if graph else [])]

    def series(self, name, row, files, graph):
        """All programs of a row in turns, together if they run together."""
        suffix = "-graph" if graph else ""
        broken = self.broken.setdefault(name, {})
        files = [file for file in files if file.stem + suffix not in broken]
        flags = self.flags(row["kind"], graph)
        if TOGETHER + suffix not in broken and self.loaded(name, row, files, flags, graph, broken):
            return
        files = [file for file in files if file.stem + suffix not in broken]
        alone = [file for file in files if bars.is_part(file.stem)]
        for file in files:
            if not bars.is_part(file.stem):
                self.loaded(name, row, [file, *alone], flags, graph, None)

    def loaded(self, name, row, files, flags, graph, broken):
        """Loads programs and times them; whether that worked. Those that do not run by themselves join `broken`, and the
        others are tried again."""
        suffix = "-graph" if graph else ""
        if not files:
            return True
        turns = Turns(self.tools, files, flags)
        try:
            # Programs are loaded, and the first turn warms up what the two sides share.
            turns.turn(LOADING)
        except KeyboardInterrupt:
            turns.stop()
            raise
        except Failed as error:
            turns.stop()
            if broken is None:
                self.lost(name, row, {files[0].stem + suffix: str(error)})
                return False
            found = self.alone(files, flags)
            told = {way + suffix: told for way, told in found.items()} or {TOGETHER + suffix: str(error)}
            broken.update(told)
            self.lost(name, row, told)
            files = [file for file in files if file.stem not in found]
            return bool(found) and self.loaded(name, row, files, flags, graph, broken)
        self.alternate(name, row, turns, graph)
        return True

    def alone(self, files, flags):
        """The programs that do not run by themselves, and what they say."""
        failed = {}
        for number, file in enumerate(files):
            try:
                self.tools.together([file], flags, 1, 0)
            except Failed as error:
                failed[file.stem] = str(error)
            if number == 3 and len(failed) == 4:
                untried = {file.stem: "not tried, since none of the others ran" for file in files[4:]}
                return {**failed, **untried}
        return failed

    def alternate(self, name, row, turns, graph):
        """Turns of ours and of torch, the first of which changes."""
        suffix = "-graph" if graph else ""
        series = {"graph": graph, "turns": {}}
        row["series"].append(series)
        sides = [("ours", lambda: {way + suffix: ms for way, ms in turns.turn().items()})]
        if self.torch.processes:
            sides.append(("torch", lambda: self.torch.turn(self.options.iters)))
        try:
            for number in range(self.options.alternations):
                for side, ask in sides[::-1] if number % 2 else list(sides):
                    try:
                        for way, ms in ask().items():
                            series["turns"].setdefault(way, []).append(ms)
                    except Failed as error:
                        self.lost(name, row, {f"{side}{suffix}, turn {number + 1}": str(error)})
                        sides = [kept for kept in sides if kept[0] != side]
                if not sides or sides[0][0] != "ours":
                    break
        finally:
            row["issue_us"].update({way + suffix: issue for way, issue in turns.end().items()})
            turns.stop()
        medians = {way: statistics.median(paired.values(series, way)) for way in series["turns"]}
        self.say(f"{name}{' as graphs' if graph else ''}", medians)

    def note(self, name, row, told):
        if told not in row["notes"]:
            row["notes"].append(told)
            self.tell(f"{name} {told}")

    def lost(self, name, row, failed):
        for way, told in failed.items():
            if f"{way}: {told}" not in row["notes"]:
                row["notes"].append(f"{way}: {told}")
                self.failed(f"{name} {way}", told)

    def say(self, name, times):
        if times:
            self.tell(f"{name}: " + ", ".join(f"{way} {ms:.4f}" for way, ms in times.items()) + " ms")

    # ---- copy engines ----

    def copies(self, count):
        """One size: both backends alone and beside a product."""
        elements, received = count // 2, (self.devices - 1) * count / RECEIVED
        repeat = max(4, int(1.5 * received / EDGE_MS) + 1)
        d, folder = self.devices, f"copies-{count}"
        texts = {"product": programs.gemm(d, "bfloat", EDGE, EDGE, EDGE, False, repeat)}
        for backend in ("CUDA", "NCCL"):
            texts[backend] = programs.allgather(d, "bfloat", [elements], backend)
            texts[f"{backend}-beside"] = programs.allgather_beside_gemm(d, elements, backend, EDGE, repeat)
        files = [self.tools.write(f"{folder}/{way}", text) for way, text in texts.items()]
        found, failed = self.tools.bench(files, ["--streams", self.options.streams or 2, *cases.inputs("ag")])
        times = {way: figure["median_ms"] for way, figure in found.items()}
        self.report["copies"].append({"bytes": count, "devices": d, "products": repeat, "times": times})
        for way, told in failed.items():
            self.failed(f"allgather of {report.size(count)} {way}", told)
        self.say(f"allgather of {report.size(count)}", times)

    def exchanges(self):
        """All sizes of messages in two calls, the second one as graphs."""
        files = []
        for count in MESSAGES:
            for way, (backend, protocol) in {"CUDA-get": ("CUDA", "get"), "CUDA-put": ("CUDA", "put"), "NCCL": ("NCCL", "get")}.items():
                text = programs.exchange(self.devices, count // 4, backend, EXCHANGES, protocol)
                files.append(self.tools.write(f"exchange/{way}.{count}", text))
        entries = {count: {"bytes": count, "ways": {}} for count in MESSAGES}
        self.report["exchanges"] = list(entries.values())
        for flags in ([], ["--graph"]):
            found, failed = self.tools.bench(files, ["--streams", self.options.streams or 2, *cases.inputs("ag"), *flags])
            for stem, figure in found.items():
                way, count = stem.split(".")
                device = figure["median_ms"] * 1e3 / EXCHANGES
                told = {"graph_us": device} if flags else {"device_us": device, "host_us": figure["issue_us"] / EXCHANGES}
                entries[int(count)]["ways"].setdefault(way, {}).update(told)
            for stem, told in failed.items():
                self.failed(f"exchange {' '.join([stem, *flags])}", told)
            self.save()

    # ---- all of it ----

    def all(self, names):
        for number in range(self.options.rounds):
            for name in names:
                last = self.spent.get(name, 10)
                if self.clock.left() < 1.1 * last:
                    self.tell(f"{name}: left out of round {number + 1}: it takes {last:.0f} s, {max(0, self.clock.left()):.0f} s are left")
                    self.report["failed"] += [f"{name}: no time for it"] if number == 0 else []
                    continue
                self.tell(f"-- round {number + 1}, {name}, {report.title(self.case(name))}, {self.clock.left():.0f} s left")
                self.spent[name] = self.part(name, lambda name=name: self.round(name))
            if number == 0 and self.options.copies:
                self.part("exchange", self.exchanges)
                for count in SHARDS:
                    self.part(f"allgather of {report.size(count)}", lambda count=count: self.copies(count))
