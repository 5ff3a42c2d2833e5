"""Writes a large program to standard output.

usage: tools/benchmark generate pipelined (--ops N | --megabytes M)   stream-pipelined loops, in the printed form
       tools/benchmark generate annotated (streams | lower) N         what stream-parallel-type and host-ir-lower lower
       tools/benchmark generate flat (hir | hir-short | mlir) N       what canonicalize and cse shorten
       tools/benchmark generate template (mixed | flat) N             a text in hir 2
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.generators import annotated, flat, pipelined, templates


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="tools/benchmark generate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="generator", required=True)
    size = kinds.add_parser("pipelined").add_mutually_exclusive_group(required=True)
    size.add_argument("--ops", type=int, default=0)
    size.add_argument("--megabytes", type=float, default=0.0)
    for name, choices in (("annotated", list(annotated.KINDS)), ("flat", flat.LANGUAGES), ("template", templates.NAMES)):
        kind = kinds.add_parser(name)
        kind.add_argument("kind", choices=choices)
        kind.add_argument("ops", type=int)
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Writes the program that is asked for."""
    options = read_options(words)
    if options.generator == "pipelined":
        written = pipelined.write_program(sys.stdout, ops=options.ops, megabytes=options.megabytes)
        print(f"{written.ops} ops, {written.bytes / 1e6:.1f} MB", file=sys.stderr)
    elif options.generator == "annotated":
        annotated.write_program(sys.stdout, options.kind, options.ops)
    elif options.generator == "flat":
        flat.write_program(sys.stdout, options.kind, options.ops)
    else:
        templates.write_program(sys.stdout, options.kind, options.ops)
    return 0
