"""The cost model beside the measured times of nine rows of tools/overlap-bench on 4 H100s, and of layers of Llama on 2.

usage: tools/benchmark model [--machine FILE.toml] [--fit]

Prints the error of each way of a row, as calls and as a graph, the way that the model would choose, and the regret of
the choice; and the error of each region of a layer, as torch has it and as a program, and of the step that follows from
that of torch and what the regions save. --machine tries another machine than h100x4 for the rows; --fit looks for
constants that come closer, also with each row left out in turn (minutes).
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Sequence

from bench.paths import ROOT


def main(words: Sequence[str]) -> int:
    """Runs the comparison; gives its exit status."""
    parser = argparse.ArgumentParser(prog="tools/benchmark model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machine", help="file of a machine")
    parser.add_argument("--fit", action="store_true", help="look for better constants")
    options = parser.parse_args(list(words))
    environment = dict(os.environ)
    if options.machine:
        environment["HIR_MACHINE"] = os.path.abspath(options.machine)
    if options.fit:
        environment["HIR_FIT"] = "1"
    command = ["cargo", "test", "--quiet", "-p", "hostir-test", "--test", "model", "--", "--nocapture"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
