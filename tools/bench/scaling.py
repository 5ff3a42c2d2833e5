"""Times ways to write one computation on 8 to 1,024 ranks by the cost model.

usage: tools/benchmark scaling [--hir-run PATH] [--ranks N,N] [--subject WORD] [FLAG...]

FLAGs go to hir-run, such as --hosts=8,50,10. Programs are those of docs/scaling and docs/patterns, whose tests prove
them at small sizes; here they are simulated only. Prints a table in Markdown for each subject: the time of each way,
and the fastest in bold. What is slower than it by less than 2 % counts as equal: the model cannot tell.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.paths import ROOT, release_tool

RANKS = (8, 64, 512, 1024)
HOST_RANKS = 8
TIE = 1.02


@dataclass(frozen=True)
class Way:
    """One way to write a computation: a name, a program and its sizes beside those of its subject."""

    name: str
    program: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    flags: Sequence[str] = ()


@dataclass(frozen=True)
class Subject:
    """A computation: its word on the command line, a title and the ways to write it."""

    word: str
    title: str
    ways: Sequence[Way]


@dataclass(frozen=True)
class Shape:
    """The ranks of a run."""

    ranks: int

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return max(1, self.ranks // HOST_RANKS)


MIB = 1 << 20


def chunked(name: str, program: str, elements: int, chunks: int) -> Way:
    """An all-reduce of so many elements in chunks."""
    return Way(name, program, {"c": chunks, "total": elements})


def work_subjects() -> list[Subject]:
    """Computations that communicate."""
    gathered = {"m": 512, "k": 4096, "n": 4096}
    scattered = {"m": 512, "k": 512, "n": 4096}
    layer = {"b": 64, "m": 2048, "h": 4096}
    attention = {"q": 2048, "t": 2048, "e": 128}
    return [
        Subject(
            "allgather",
            "allgather and GEMM: each rank gathers blocks of 512 x 4,096 and multiplies all by 4,096 x 4,096",
            [
                Way("one allgather", "docs/scaling/allgather_serial.hir", gathered),
                Way("host by host", "docs/scaling/allgather_two_level.hir", gathered),
                Way("ring", "docs/patterns/ring.hir", gathered, ("--streams=1",)),
            ],
        ),
        Subject(
            "reduce-scatter",
            "GEMM and reduce-scatter: a product with 512 x 4,096 results for each rank, summed over the ranks",
            [
                Way("one reduce-scatter", "docs/scaling/reduce_scatter_serial.hir", scattered),
                Way("host by host", "docs/scaling/reduce_scatter_two_level.hir", scattered),
                Way("4 chunks", "docs/patterns/reduce_scatter.hir", {**scattered, "c": 4, "m": 128}, ("--streams=2",)),
            ],
        ),
        Subject(
            "attention",
            "attention of 2,048 queries a rank to 2,048 keys and values of every rank, of 128 each",
            [
                Way("one allgather", "docs/scaling/attention_gathered.hir", attention),
                Way("ring", "docs/patterns/ring_attention.hir", attention),
            ],
        ),
        Subject(
            "pipeline",
            "training of 8 layers in a pipeline of 8 ranks, 64 microbatches of 2,048 x 4,096, one replica a host",
            [
                Way("all forwards first", "docs/scaling/pipeline_phases.hir", layer),
                Way("1F1B", "docs/scaling/pipeline_replicas.hir", layer),
            ],
        ),
    ]


def all_reduce_subjects() -> list[Subject]:
    """All-reduces without work beside them."""
    return [
        Subject(
            "all-reduce-large",
            "all-reduce of 1 GiB on every rank",
            [
                chunked("one all-reduce", "docs/scaling/allreduce_flat.hir", 256 * MIB, 1),
                chunked("two levels", "docs/scaling/allreduce_two_level.hir", 256 * MIB, 1),
                chunked("two levels, 4 chunks", "docs/scaling/allreduce_two_level.hir", 256 * MIB, 4),
                chunked("two levels, 16 chunks", "docs/scaling/allreduce_two_level.hir", 256 * MIB, 16),
            ],
        ),
        Subject(
            "all-reduce-small",
            "all-reduce of 1 MiB on every rank",
            [
                chunked("one all-reduce", "docs/scaling/allreduce_flat.hir", MIB // 4, 1),
                chunked("two levels", "docs/scaling/allreduce_two_level.hir", MIB // 4, 1),
                chunked("two levels, 4 chunks", "docs/scaling/allreduce_two_level.hir", MIB // 4, 4),
            ],
        ),
    ]


def program_sizes(way: Way, shape: Shape) -> dict[str, int]:
    """The sizes of a way's program on so many ranks."""
    sizes = {name: size for name, size in way.sizes.items() if name != "total"}
    text = (ROOT / way.program).read_text()
    if "mesh d = 0..p" in text:
        return {**sizes, "p": shape.ranks}
    if "x:p]" in text:
        return {**sizes, "a": shape.hosts, "p": HOST_RANKS}
    inner = min(shape.ranks, HOST_RANKS)
    if "total" in way.sizes:
        chunk = way.sizes["total"] // way.sizes["c"]
        sizes["n"] = chunk if "allreduce_flat" in way.program else chunk // inner
    return {**sizes, "a": shape.hosts, "b": inner}


def modelled_ms(hir_run: str, way: Way, shape: Shape, flags: Sequence[str]) -> float:
    """The time of a way by the cost model, in milliseconds."""
    sizes = ",".join(f"{name}={size}" for name, size in program_sizes(way, shape).items())
    command = [hir_run, str(ROOT / way.program), "--set", sizes, "--backend=sim", "--bench", "--json", "-", "-q"]
    command += ["--no-check", *way.flags, *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"scaling: {shlex.join(command)} ends with {done.returncode}:\n{done.stderr}")
    return float(json.loads(done.stdout)["programs"][0]["median_ms"])


def table_row(name: str, times: Sequence[float], best: Sequence[float]) -> str:
    """A row of the table: each time, in bold where no way is faster by more than a tie."""
    pairs = zip(times, best, strict=True)
    cells = [f"**{time:.4g}**" if time <= least * TIE else f"{time:.4g}" for time, least in pairs]
    return f"| {name} | " + " | ".join(cells) + " |"


def main(words: Sequence[str]) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hir-run", default=release_tool("hir-run"))
    parser.add_argument("--ranks", default=",".join(str(ranks) for ranks in RANKS))
    parser.add_argument("--subject", default="")
    options, flags = parser.parse_known_args(words)
    shapes = [Shape(int(ranks)) for ranks in options.ranks.split(",")]
    for subject in work_subjects() + all_reduce_subjects():
        if options.subject not in subject.word:
            continue
        times = [[modelled_ms(options.hir_run, way, shape, flags) for shape in shapes] for way in subject.ways]
        best = [min(column) for column in zip(*times, strict=True)]
        print(f"{subject.title} ({subject.word}), ms:\n")
        print("| ranks | " + " | ".join(f"{shape.ranks:,}" for shape in shapes) + " |")
        print("|" + "---|" * (len(shapes) + 1))
        for way, row in zip(subject.ways, times, strict=True):
            print(table_row(way.name, row, best))
        print(flush=True)
    return 0
