"""Ops of regions that an earlier process has made, as soon as a graph of Inductor's cache asks for them."""

from __future__ import annotations

import base64
import logging
import pickle
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import record_function

from hostir._program import parse
from hostir.torch._overlap.bodies import body_of_module
from hostir.torch._overlap.kept_regions import RegionStore
from hostir.torch._overlap.nodes import REGION
from hostir.torch._overlap.programs import RegionProgram, is_region_op, made_region, restored_op
from hostir.torch._torch_internals import has_op, make_missing_ops

__all__ = ["RestoredRegion", "entry_of_region", "restore_from", "restored_regions"]

log = logging.getLogger(__name__)

_OP_NAME = re.compile(rf"{REGION.pattern}_[0-9a-f]{{6}}")

_stores: list[RegionStore] = []
_seconds: dict[str, float] = {}
"""By op the time that it took to make it."""
_lock = threading.RLock()


@dataclass(frozen=True)
class RestoredRegion:
    """A region of a graph that Inductor has kept."""

    op: str
    """`region_3f2a91c0_4d5e6f`."""
    program: RegionProgram
    collectives: tuple[tuple[str, str, str], ...]
    """The collectives that it does: kind, group and line of the user's code."""
    seconds: float
    """The time that it took to make the op; 0 for one that this process has compiled."""


def entry_of_region(name: str, collectives: Sequence[tuple[str, str, str]]) -> dict[str, Any] | None:
    """All that makes the op of a region, as JSON; None for one that cannot be kept, as with a program of the user's."""
    op, program, body = made_region(name)
    if program.is_override:
        return None
    return {
        "region": program.name,
        "plain": program.plain.to_printed(),
        "lowered": program.generated.to_printed(),
        "passes": program.passes,
        "ranks": program.ranks,
        "args": list(op.args.items()),
        "outputs": list(op.outputs),
        "tuning": op.tuning,
        "sites": list(op.fallback_sites or ()),
        "body": base64.b64encode(pickle.dumps(body.module)).decode(),
        "results": body.result_count,
        "size_count": body.size_count,
        "sizes": dict(program.sizes),
        "collectives": [list(one) for one in collectives],
    }


def restore_from(store: RegionStore) -> None:
    """Lets graphs find the regions of a store, from now on."""
    with _lock:
        if store not in _stores:
            _stores.append(store)
        _watch_names()


def restored_regions(store: RegionStore) -> list[RestoredRegion]:
    """The regions of a store that this process has, which graphs of Inductor's cache call."""
    found = []
    for name, entry in store.entries():
        if is_region_op(name):
            collectives = tuple((kind, group, where) for kind, group, where in entry["collectives"])
            found.append(RestoredRegion(name, made_region(name)[1], collectives, _seconds.get(name, 0.0)))
    return found


def _watch_names() -> None:
    """Lets `torch.ops.hostir` make the op of a region that it does not have."""
    make_missing_ops(torch.ops.hostir, _restore)


def _restore(name: str) -> None:
    if not _OP_NAME.fullmatch(name) or has_op(f"hostir::{name}"):
        return
    with _lock:
        for store in _stores:
            # The code that makes an op asks for it, too.
            entry = None if is_region_op(name) else store.read(name)
            if entry is not None:
                start = time.perf_counter()
                with record_function(f"hostir::restore {name}"):
                    _make_op_of_entry(name, entry)
                _seconds[name] = time.perf_counter() - start
                log.debug("hir.Overlap: %s is of an earlier process", name)
                return


def _make_op_of_entry(name: str, entry: dict[str, Any]) -> None:
    plain, lowered = (parse(entry[key], entry["region"]) for key in ("plain", "lowered"))
    program = RegionProgram(entry["region"], plain, lowered, entry["passes"], entry["ranks"], entry["sizes"])
    # This user's own file, as those of Inductor's cache are.
    module = pickle.loads(base64.b64decode(entry["body"]))
    args = dict(entry["args"])
    body = body_of_module(module, entry["region"], list(args), entry["results"], entry["size_count"])
    restored_op(name, program, body, args, entry["outputs"], entry["tuning"], entry["sites"])
