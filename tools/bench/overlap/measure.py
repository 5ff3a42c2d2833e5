"""tools/overlap-bench on GPUs: rows in turns of ours and of torch, copies and messages."""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.overlap import bars, cases, paired_ratios as paired, programs, report, rows
from bench.overlap.hir_tools import TOGETHER, HirTools, Turns
from bench.overlap.options import Options
from bench.overlap.processes import LOADING, Clock, Failed
from bench.overlap.records import ExchangeRecord, Report, RowRecord, Series
from bench.overlap.torch_side import TorchProcesses

SHARDS = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30]
MESSAGES = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
EXCHANGES = 100
# The product beside an allgather: its edge, and milliseconds and GB/s that only decide how often it is repeated.
EDGE, EDGE_MS, RECEIVED = 4096, 0.18, 250e6
EXCHANGE_WAYS = {"CUDA-get": ("CUDA", "get"), "CUDA-put": ("CUDA", "put"), "NCCL": ("NCCL", "get")}
SETTINGS = ("rounds", "alternations", "iters", "warmup", "share", "backend")


Side = tuple[str, Callable[[], dict[str, list[float]]]]
"""The name of a side, and a function that gives its times of a turn."""


class OverlapBench:
    """A run: what it measures goes into `report`, which is written after each step."""

    def __init__(self, options: Options, tools: HirTools, clock: Clock, devices: int) -> None:
        self.options, self.tools, self.clock, self.devices = options, tools, clock, devices
        self.torch = TorchProcesses(options, tools.folder, clock, devices)
        settings = {name: getattr(options, name) for name in SETTINGS}
        self.report: Report = {
            "devices": devices,
            "rows": {},
            "copies": [],
            "exchanges": [],
            "about": {},
            "failed": [],
            "settings": settings,
        }
        if options.share:
            self.report["shared"] = True
        # Files by row, seconds by row, and ways that did not run, by row.
        self.files: dict[str, dict[str, Path]] = {}
        self.spent: dict[str, float] = {}
        self.broken: dict[str, dict[str, str]] = {}

    def tell(self, line: str) -> None:
        """Prints a line."""
        print(line, flush=True)

    def failed(self, what: str, error: str | Exception) -> None:
        """Reports what did not work."""
        self.tell(f"FAILED {what}: {error}")
        self.report["failed"].append(f"{what}: {error}")

    def save(self) -> None:
        """Writes the report to --json."""
        self.report["about"] = {"ours": self.tools.about, **self.torch.about}
        if self.options.json:
            found = report.timed(self.report)
            self.report["figures"] = {name: report.figures_as_json(row) for name, row in found.items()}
            timed: Report = {**self.report, "rows": found}
            self.report["bars"] = [] if self.options.share else bars.verdicts(timed)
            beside = Path(self.options.json + ".part")
            beside.write_text(json.dumps(self.report, indent=1) + "\n")
            beside.replace(self.options.json)

    def part(self, what: str, work: Callable[[], object]) -> float:
        """A part whose failure leaves the others; gives the seconds that it took."""
        start = time.monotonic()
        try:
            work()
        except Failed as error:
            self.failed(what, error)
        except Exception as error:  # noqa: BLE001 - the figures so far are worth more than a trace
            self.failed(what, f"{type(error).__name__}: {error}")
        self.save()
        return time.monotonic() - start

    # ---- rows ----

    def fits(self, name: str) -> bool:
        """True if a row can run here; else it is left out by name."""
        why = rows.misfit(name, self.devices)
        if why:
            self.failed(name, f"left out, {why}")
        return not why

    def case(self, name: str) -> RowRecord:
        """A row's entry in the report."""
        if name not in self.report["rows"]:
            row = rows.ROWS[name]
            entry: RowRecord = {
                "kind": row.kind,
                "dtype": row.dtype,
                "m": row.m,
                "k": row.k,
                "n": row.n,
                "devices": self.devices,
                "series": [],
                "issue_us": {},
                "notes": [],
            }
            if self.options.share:
                entry["ranks"] = "ranks on one GPU"
            self.report["rows"][name] = entry
        return self.report["rows"][name]

    def round(self, name: str) -> None:
        """Times a row, as calls and as graphs."""
        row = self.case(name)
        if name not in self.files:
            self.files[name] = cases.build(self.tools, name, self.devices, self.options.more)
        files = list(self.files[name].values())
        is_ready = False
        for graph in (False, True) if self.options.graphs else (False,):
            # Torch is set up once for both, unless it ended in between.
            if self.options.torch and not (is_ready and self.torch.processes):
                self.part(f"{name} torch", functools.partial(self.prepare, name, row))
                is_ready = True
            mode = " as graphs" if graph else ""
            self.part(f"{name}{mode}", functools.partial(self.series, name, row, files, graph))
        if is_ready:
            self.part(f"{name} torch", self.torch.drop)

    def prepare(self, name: str, row: RowRecord) -> None:
        """Sets up torch's ways of a row."""
        sizes = {"kind": row["kind"], "dtype": row["dtype"], "m": row["m"], "k": row["k"], "n": row["n"]}
        ways, failed = self.torch.prepare({**sizes, "warmup": self.options.warmup, "ranks": self.devices})
        # Peers that nobody asked for may be missing.
        asked: dict[str, object] = {"flashinfer": self.options.flashinfer, "mkernel": self.options.mkernel}
        for way in [way for way in failed if not asked.get(way, True)]:
            self.note(name, row, f"{way}: left out, {failed.pop(way)}")
        self.lost(name, row, failed)
        self.tell(f"{name}: torch has {', '.join(ways)}")

    def flags(self, kind: str, graph: bool) -> list[str]:
        """hir-run's flags for a kind of row."""
        streams = self.options.streams or rows.streams(kind, self.devices)
        flags = ["--streams", str(streams)] if streams else []
        # As torch's ways, which have `use_fast_accum`.
        fast = ["--fp8-fast-accumulation"] if kind.startswith("scaled") else []
        own = ["--tuning=sustained", "--gemm-kernels"] if self.options.gemm_kernels else []
        return [*flags, *fast, *own, *cases.inputs(kind), *(["--graph"] if graph else [])]

    def series(self, name: str, row: RowRecord, files: Sequence[Path], graph: bool) -> None:
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

    def loaded(
        self,
        name: str,
        row: RowRecord,
        files: Sequence[Path],
        flags: Sequence[str],
        graph: bool,
        broken: dict[str, str] | None,
    ) -> bool:
        """Loads programs and times them; gives whether that worked. Those that do not run by themselves join `broken`, and the
        others are tried again.
        """
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

    def alone(self, files: Sequence[Path], flags: Sequence[str]) -> dict[str, str]:
        """The programs that do not run by themselves, and what they say."""
        failed: dict[str, str] = {}
        for number, file in enumerate(files):
            try:
                self.tools.together([file], flags, 1, 0)
            except Failed as error:
                failed[file.stem] = str(error)
            if number == 3 and len(failed) == 4:
                untried = {file.stem: "not tried, since none of the others ran" for file in files[4:]}
                return {**failed, **untried}
        return failed

    def alternate(self, name: str, row: RowRecord, turns: Turns, graph: bool) -> None:
        """Turns of ours and of torch, the first of which changes."""
        suffix = "-graph" if graph else ""
        series: Series = {"graph": graph, "turns": {}}
        row["series"].append(series)
        sides: list[Side] = [("ours", lambda: {way + suffix: ms for way, ms in turns.turn().items()})]
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

    def note(self, name: str, row: RowRecord, told: str) -> None:
        """Notes something of a row, once."""
        if told not in row["notes"]:
            row["notes"].append(told)
            self.tell(f"{name} {told}")

    def lost(self, name: str, row: RowRecord, failed: Mapping[str, str]) -> None:
        """Reports ways of a row that do not work."""
        for way, told in failed.items():
            if f"{way}: {told}" not in row["notes"]:
                row["notes"].append(f"{way}: {told}")
                self.failed(f"{name} {way}", told)

    def say(self, name: str, times: Mapping[str, float]) -> None:
        """Prints times."""
        if times:
            self.tell(f"{name}: " + ", ".join(f"{way} {ms:.4f}" for way, ms in times.items()) + " ms")

    # ---- copy engines ----

    def copies(self, count: int) -> None:
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

    def exchanges(self) -> None:
        """All sizes of messages in two calls, the second one as graphs."""
        files = []
        for count in MESSAGES:
            for way, (backend, protocol) in EXCHANGE_WAYS.items():
                text = programs.exchange(self.devices, count // 4, backend, EXCHANGES, protocol)
                files.append(self.tools.write(f"exchange/{way}.{count}", text))
        entries: dict[int, ExchangeRecord] = {count: {"bytes": count, "ways": {}} for count in MESSAGES}
        self.report["exchanges"] = list(entries.values())
        flags: list[str]
        for flags in ([], ["--graph"]):
            found, failed = self.tools.bench(files, ["--streams", self.options.streams or 2, *cases.inputs("ag"), *flags])
            for stem, figure in found.items():
                way, count_text = stem.split(".")
                device = figure["median_ms"] * 1e3 / EXCHANGES
                host = {} if flags else {"host_us": figure["issue_us"] / EXCHANGES}
                told = {"graph_us" if flags else "device_us": device, **host}
                entries[int(count_text)]["ways"].setdefault(way, {}).update(told)
            for stem, said in failed.items():
                self.failed(f"exchange {' '.join([stem, *flags])}", said)
            self.save()

    # ---- all of it ----

    def all(self, names: Sequence[str]) -> None:
        """Runs all rounds of these rows, and copies where they are asked for."""
        for number in range(self.options.rounds):
            for name in names:
                self.row_in_time(number, name)
            if number == 0 and self.options.copies:
                self.part("exchange", self.exchanges)
                for count in SHARDS:
                    self.part(f"allgather of {report.size(count)}", functools.partial(self.copies, count))

    def row_in_time(self, number: int, name: str) -> None:
        """A row of a round, if there is time for it."""
        last, left = self.spent.get(name, 10), self.clock.left()
        if left < 1.1 * last:
            self.tell(f"{name}: left out of round {number + 1}: it takes {last:.0f} s, {max(0, left):.0f} s are left")
            self.report["failed"] += [f"{name}: no time for it"] if number == 0 else []
            return
        self.tell(f"-- round {number + 1}, {name}, {rows.title(self.case(name))}, {left:.0f} s left")
        self.spent[name] = self.part(name, functools.partial(self.round, name))
