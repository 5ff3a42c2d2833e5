"""The CPU seconds of `Overlap`'s own for the layers of an 8B Llama: when they are compiled first, and in a later process.

usage: python python/tests/compile_cost.py [--layers 4] [--tokens 8192] [--ranks 2]
The ranks are processes over gloo. Tensors have shapes and no numbers, and graphs are those that Inductor gets, so that torch's own
kernels are not compiled, and nothing is measured, tuned or run: on GPUs these come on top. Torch's compiler is imported before.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))


class Clock:
    """The CPU seconds in functions, without those of others that are counted inside of them, and the calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._inner: list[float] = []

    def count(self, name: str, owner: Any, attribute: str) -> None:
        """Counts a function's seconds from now on."""
        setattr(owner, attribute, self._counted(name, getattr(owner, attribute)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*values: Any, **settings: Any) -> Any:
            start = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*values, **settings)
            finally:
                spent = time.process_time() - start
                self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
                self.calls[name] = self.calls.get(name, 0) + 1
                if self._inner:
                    self._inner[-1] += spent

        return run


def compile_layers(rank: int, options: argparse.Namespace, store: str) -> None:
    """A rank of the first process: it compiles the layers, and prints what took how long."""
    import torch
    import torch._inductor.compile_fx
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh

    start = time.process_time()
    import hostir.torch as hir
    from hostir._program import Program
    from hostir.torch._overlap import overlap as module, programs

    clock = Clock()
    clock.seconds["import hostir.torch"], clock.calls["import hostir.torch"] = time.process_time() - start, 1
    for name, owner, attribute in (
        ("the pass, the rest", module.Overlap, "__call__"),
        ("index of the graph", module, "GraphIndex"),
        ("sizes and views", module, "merge_views"),
        ("search of regions", module, "find_gather"),
        ("search of regions", module, "find_sum"),
        ("search of regions", module, "join_regions"),
        ("search of regions", module, "with_gradients_of_weights"),
        ("order and places", module, "check_convex"),
        ("order and places", module, "check_in_place"),
        ("text", module, "write_region"),
        ("parser", programs, "parse"),
        ("verifier", Program, "verify"),
        ("lowering", Program, "run_passes"),
        ("proof", programs, "_check_runs"),
        ("body", module, "region_body"),
        ("op", module, "region_op"),
        ("trial of the change", module, "try_replacement"),
        ("agreement of ranks", module, "agree_to_replace"),
        ("change of the graph", module, "replace_region"),
        ("keeping", module.Overlap, "_keep_region"),
    ):
        clock.count(name, owner, attribute)
    from bench.torch_baselines import llama
    from overlap_models import graphs_through

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, options.ranks), rank=rank, world_size=options.ranks)
    mesh = init_device_mesh("cpu", (options.ranks,))
    shape = dataclasses.replace(llama.LLAMA_8B, layers=options.layers)
    with torch.device("meta"):
        model = llama.parallelize(llama.Layers(shape), shape, mesh).bfloat16()
    overlap = hir.Overlap(choose="always")
    overlap.uuid()
    start = time.process_time()
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = model.to_empty(device="cpu")
        given = torch.randn(1, options.tokens // options.ranks, shape.hidden, dtype=torch.bfloat16)
        made = torch.compile(model, backend=graphs_through(overlap), fullgraph=True)(given)
        made.float().square().mean().backward()
    whole = time.process_time() - start
    report = overlap.report()
    told = {"fused": len(report.fused), "kept": [line.verdict for line in report.kept], "programs": len(report.programs)}
    dist.barrier()
    if rank == 0:
        print(json.dumps(told | {"seconds": clock.seconds, "calls": clock.calls, "whole": whole}), flush=True)
    dist.destroy_process_group()


def restore_layers(rank: int, options: argparse.Namespace, store: str) -> None:
    """A rank of a later process: it makes the ops of all regions, as graphs do that Inductor has kept."""
    import torch
    import torch._inductor.compile_fx
    import torch.distributed as dist

    start = time.process_time()
    import hostir.torch as hir
    from hostir.torch._overlap import overlap as module, restore

    seconds = {"import hostir.torch": time.process_time() - start}
    dist.init_process_group("gloo", store=dist.FileStore(store, options.ranks), rank=rank, world_size=options.ranks)
    overlap = hir.Overlap(choose="always")
    start = time.process_time()
    overlap.uuid()
    seconds["identity and entries"] = time.process_time() - start
    clock = Clock()
    for name, owner, attribute in (
        ("parser", restore, "parse"),
        ("nodes", restore.pickle, "loads"),
        ("op", restore, "restored_op"),
    ):
        clock.count(name, owner, attribute)
    kept = overlap._store()
    assert kept is not None
    start = time.process_time()
    for name, _ in kept.entries():
        getattr(torch.ops.hostir, name)
    seconds["ops of regions"] = time.process_time() - start
    restored = len(overlap.report().restored)
    dist.barrier()
    if rank == 0:
        print(
            json.dumps({"restored": restored, "seconds": seconds, "within": clock.seconds, "module": module.__name__}), flush=True
        )
    dist.destroy_process_group()


def run_ranks(work: str, options: argparse.Namespace, cache: str) -> dict[str, Any]:
    """The lines that rank 0 prints."""
    import subprocess

    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--layers", str(options.layers), "--tokens", str(options.tokens)]
        words += ["--ranks", str(options.ranks), "--work", work, "--store", os.path.join(folder, "store"), "--rank"]
        environment = os.environ | {"HOSTIR_CACHE": cache, "GLOO_SOCKET_IFNAME": "lo"}
        ranks = [
            subprocess.Popen([*words, str(rank)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(options.ranks)
        ]
        said = [rank.communicate(timeout=900) for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(said[0][1][-4000:] + said[-1][1][-4000:])
    found: dict[str, Any] = json.loads(said[0][0].splitlines()[-1])
    return found


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in (("layers", 4), ("tokens", 8192), ("ranks", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name in ("work", "store"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--rank", type=int, default=-1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.rank >= 0:
        {"compile": compile_layers, "restore": restore_layers}[options.work](options.rank, options, options.store)
        return
    with tempfile.TemporaryDirectory() as cache:
        first, second = (run_ranks(work, options, cache) for work in ("compile", "restore"))
    print(f"first process: {first['fused']} collectives in {first['programs']} programs, kept {first['kept']}")
    print("| first process | CPU s | calls |\n|---|---|---|")
    for name, spent in sorted(first["seconds"].items(), key=lambda one: -one[1]):
        print(f"| {name} | {spent:.2f} | {first['calls'][name]} |")
    print(f"| all of it | {sum(first['seconds'].values()):.2f} | |")
    print(f"| compilation with torch's, without Inductor | {first['whole']:.2f} | |")
    print(f"second process: {second['restored']} ops\n| second process | CPU s |\n|---|---|")
    for name, spent in second["seconds"].items():
        print(f"| {name} | {spent:.2f} |")
    print(f"| all of it | {sum(second['seconds'].values()):.2f} |")
    print("within the ops:", {name: round(spent, 2) for name, spent in second["within"].items()})


if __name__ == "__main__":
    main()
