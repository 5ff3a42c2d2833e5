"""Times products that overlap with communication: ours, lowered in several ways, beside torch's, on GPUs.

usage: tools/overlap-bench [--rows ag1,rs1] [--alternations 12] [--copies] [--json FILE] [--plot FILE.svg] [--seconds 1500]
       tools/overlap-bench --share 4        N ranks of ours on one GPU: what each way costs where nothing is hidden
       tools/overlap-bench --dry-run        builds and checks all programs on a machine without GPUs
       tools/overlap-bench --show FILE...   prints (and plots) what earlier runs wrote

Cases (--rows takes whole names, beginnings of names, or `none`; M,K,N of the whole product, or tokens,hidden,ffn):
ROWS

Both sides load a case once: hir-run with all programs of ours, the products alone and the communication alone among
them, and torch in processes of its own. Then they time it in turn: --alternations turns of --iters runs of each way,
one side after the other. The same once more with our programs as CUDA graphs; torch's graphs take part in both.

Ratios come from turns: the median of a way's runs in a turn over that of another way in the same turn. A ratio is the
geometric mean over all turns, and [..] its 95 % interval (Student's, of the logarithms): where the ratio would lie, if
these processes on this machine went on being measured. What differs from one start to the next (algorithms of GEMMs,
placement in memory) is in it only with --rounds, which loads everything anew. `gap` holds ours against max(G, C): the
product alone (the faster of the whole and of its parts one after the other) and the communication alone over NCCL,
timed in the same process and mode. Each bar of tools/bench/overlap/rows.py gets a verdict, also in --json.

--copies adds two tables: allgather by copy engines and by NCCL, alone and beside a product; and the exchange of
messages with neighbours. What fails is said and left out; what is measured is written to --json at once.
docs/benchmarks.md says what the ways and columns mean.

Nothing is built here: hir-run and hir-opt are taken from target/release, or from beside --hir-run. Exit status: 0 if
nothing failed, 1 if something did, 2 for the command line, 3 if there are too few GPUs.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.gpus import gpu_count
from bench.overlap import report, rows
from bench.overlap.dry_run import DryRun
from bench.overlap.hir_tools import HirTools
from bench.overlap.measure import OverlapBench
from bench.overlap.options import Options
from bench.overlap.processes import Clock
from bench.overlap.records import Report

MORE_HELP = "more ways of ours: copies on the iterations' streams, get, inter_stream_synchronization, broadcast"


def new_parser() -> argparse.ArgumentParser:
    """The parser of the command line; defaults are those of `Options`."""
    listed = "\n".join(
        f"  {name:14} {rows.KINDS[row.kind]:41} {row.m},{row.k},{row.n} {row.dtype}" for name, row in rows.ROWS.items()
    )
    description = (__doc__ or "").replace("ROWS", listed)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hir-run")
    parser.add_argument("--python", help="the Python that has torch")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="ours alone")
    parser.add_argument("--flashinfer", metavar="FOLDER", help="where the package flashinfer is, if it is not installed")
    parser.add_argument(
        "--mkernel", metavar="PATH", help="the built module of mKernel's GEMM + reduce-scatter, or a folder with it"
    )
    parser.add_argument(
        "-n", "--devices", type=int, help="how many GPUs (all; --dry-run: 2 and 4 in full size, 2, 3, 4 and 8 in small)"
    )
    parser.add_argument("--share", type=int, metavar="N", help="N ranks on one GPU, over copies; of torch the product alone")
    parser.add_argument("--rows", help="cases to time, separated by commas, in this order")
    parser.add_argument("--rounds", type=int, help="how often everything is loaded and timed")
    parser.add_argument("--alternations", type=int, help="turns of ours and torch a round and mode; intervals are over turns")
    parser.add_argument("--iters", type=int, help="timed runs of each way a turn")
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="our programs as calls only (so with --share)")
    parser.add_argument(
        "--streams", type=int, help="of our programs: two, as torch takes, or where sums are exchanged one for each GPU"
    )
    parser.add_argument("--gemm-kernels", action="store_true", help="our programs with --tuning=sustained --gemm-kernels")
    parser.add_argument("--more", action="store_true", help=MORE_HELP)
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--seconds", type=float, help="how long all of it may take")
    parser.add_argument("--json", help="where figures go, after each step")
    parser.add_argument("--plot", help="where a picture goes, as SVG")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--torch-on-cpu", action="store_true", help="with --dry-run: check torch's ways too, over gloo")
    parser.add_argument("--show", nargs="+", metavar="FILE")
    return parser


def read_options(words: Sequence[str]) -> Options:
    """The command line. Ends the program if it is wrong."""
    parser = new_parser()
    options = parser.parse_args(words, namespace=Options())
    for name in ("alternations", "iters", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is at least 1")
    if options.share is not None and (options.share < 2 or options.devices or options.copies):
        parser.error("--share takes 2 ranks and more, and neither --devices nor --copies, which needs several GPUs")
    if options.torch_on_cpu and not options.dry_run:
        parser.error("--torch-on-cpu checks ways and times nothing: it goes with --dry-run")
    return options


def selected(text: str | None) -> list[str]:
    """The names of rows that --rows asks for. Ends the program for a name that there is not."""
    if text == "none":
        return []
    words = text.split(",") if text else [""]
    for word in words:
        if not any(name.startswith(word) for name in rows.ROWS):
            print(f"there is no case `{word}`; there are {', '.join(rows.ROWS)}", file=sys.stderr)
            sys.exit(2)
    meant = [[word] if word in rows.ROWS else [name for name in rows.ROWS if name.startswith(word)] for word in words]
    return list(dict.fromkeys(name for names in meant for name in names))


def finish(options: Options, found: Report) -> None:
    """Prints a report, and plots it."""
    print("\n" + report.text(found), flush=True)
    if options.plot:
        Path(options.plot).write_text(report.plot(found))


def show(options: Options, paths: Sequence[str]) -> int:
    """Figures of earlier runs, as if they came from one."""
    whole: Report = {"rows": {}, "copies": [], "exchanges": [], "about": {}}
    for path in paths:
        found: Report = json.loads(Path(path).read_text())
        for name, row in found["rows"].items():
            whole["rows"][f"{name}/{Path(path).stem}" if name in whole["rows"] else name] = row
        whole["copies"] += found["copies"]
        whole["exchanges"] += found["exchanges"]
        whole["about"] = found["about"] or whole["about"]
        whole["shared"] = whole.get("shared") or found.get("shared") or False
    finish(options, whole)
    return 0


def dry_run(options: Options, folder: str) -> int:
    """Checks the programs; gives the exit status."""
    run = DryRun(HirTools(options, folder, Clock(options.seconds)), options)
    full, small = ([options.devices],) * 2 if options.devices else ([2, 4], [2, 3, 4, 8])
    if options.torch_on_cpu:
        run.torch(options.devices or 3)
    run.all(full, small, selected(options.rows))
    print(f"{run.count} checks passed, {run.lost} failed")
    return 1 if run.lost else 0


def measure(options: Options, folder: str) -> int:
    """Times rows; gives the exit status."""
    names = selected(options.rows)
    found, needed = gpu_count(), 1 if options.share else max(2, options.devices or 2)
    if found < needed:
        print(f"GPUs found: {found}, needed: {needed}; --dry-run checks the programs without any", file=sys.stderr)
        return 3
    if options.share:
        # A graph needs a GPU for each rank.
        options.graphs = False
    devices = options.share or options.devices or found
    clock = Clock(options.seconds)
    bench = OverlapBench(options, HirTools(options, folder, clock), clock, devices)
    names = [name for name in names if bench.fits(name)]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        bench.all(names)
    except KeyboardInterrupt:
        bench.failed("all", "interrupted")
    finally:
        bench.torch.stop()
        bench.save()
        finish(options, bench.report)
    return 1 if bench.report["failed"] else 0


def main(words: Sequence[str]) -> int:
    """Runs the command; gives the exit status."""
    options = read_options(words)
    if options.show:
        return show(options, options.show)
    with tempfile.TemporaryDirectory() as folder:
        return dry_run(options, folder) if options.dry_run else measure(options, folder)
