"""The pass over graphs of torch: regions become programs, and each collective gets a line in the report."""

from __future__ import annotations

import itertools
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch.profiler import record_function

from hostir import _native
from hostir._errors import HostIrError
from hostir._program import parse
from hostir.torch._op import Op
from hostir.torch._op_checks import check_tolerances, check_tuning
from hostir.torch._overlap.ballot import RanksAbsent, announce_failure, site_of
from hostir.torch._overlap.bodies import Part, apart_module, program_module, region_body, torch_module
from hostir.torch._overlap.emit import Written, write_region
from hostir.torch._overlap.emit_experts import write_experts
from hostir.torch._overlap.experts import ExpertRegion, find_experts
from hostir.torch._overlap.explain import explain_region
from hostir.torch._overlap.gathers import find_gather, with_narrow_products_whole
from hostir.torch._overlap.joins import join_regions
from hostir.torch._overlap.kept_regions import RegionStore, open_store
from hostir.torch._overlap.measure import BURST, Ways, agree_to_replace, is_compiled_by_all, is_live_group, measure_ways
from hostir.torch._overlap.nodes import Collective, Node, collective_of
from hostir.torch._overlap.programs import (
    RegionOp,
    RegionProgram,
    body_of_region,
    default_passes,
    kind_of,
    region_op,
    region_program,
)
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.regions import GraphIndex, Region
from hostir.torch._overlap.report import Line, Report, Trial, shape_of_graph, source_line
from hostir.torch._overlap.restore import entry_of_region, restore_from, restored_regions
from hostir.torch._overlap.rewrite import check_convex, check_in_place, merge_waits, replace_region, try_replacement
from hostir.torch._overlap.sizes import current_sizes, example_of, read_inputs, sizes_of_graph
from hostir.torch._overlap.sums import find_sum, with_factors_side_by_side, with_gradients_of_weights
from hostir.torch._overlap.times import Times
from hostir.torch._overlap.topology import announce_place, check_topology
from hostir.torch._overlap.views import merge_views
from hostir.torch._session import Tuning
from hostir.torch._torch_internals import inductor_pass, is_in_inductor, pytree

__all__ = ["Overlap"]

log = logging.getLogger(__name__)

ACCIDENTS = (Reason.RANKS_DISAGREE, Reason.RUN_FAILED, Reason.INTERNAL_ERROR)


class Overlap(inductor_pass()):  # type: ignore[misc]
    """Lets programs do the collectives of a graph together with the matmuls beside them.

    - `min_gain`: how many times faster than torch's nodes a program has to be. If it is 1 or more, the program also has to be
      faster in so many rounds that chance does not explain it.
    - `choose`: `"measure"` times both once, when a graph is compiled; `"always"` takes every program; `"never"` takes none,
      and the report tells what would have become of the collectives.
    - `passes`: what lowers the programs; by default `overlap-lower`, with `gather_into=buffer,own_part=return` where gathered rows
      are a result, and with `independent_products=inside` where gradients of weights stand beside a sum; for experts,
      `alltoall-matmul`.
    - `rounds`: how often both are timed, in turn. With fewer than 5 nothing can be told from chance, so none is taken.
    - `reuse_times`: whether times that an earlier process has measured and kept count. Else all regions are measured anew,
      and nothing is kept.
    - `timeout`: seconds that a rank waits for the others to compile the same region.
    - `tuning`: how the programs' matmuls are tuned, as for `hir.op`. `"sustained"` and `"kernels"` also time regions at the GPU's
      power limit, and take minutes for a model.

    An error of its own never fails a job that torch finishes: the region stays torch's on all ranks, or its nodes run
    where a rank cannot prepare its program. The report has the error, and one warning tells it.

    It is Inductor's `post_grad_custom_post_pass`, and can be called with any `torch.fx.Graph`, `GraphModule` or
    `torch.export.ExportedProgram` of aten ops, which it changes in place.
    """

    def __init__(
        self,
        min_gain: float = 1.02,
        choose: Literal["measure", "always", "never"] = "measure",
        passes: str | None = None,
        rounds: int = 20,
        timeout: float = 300.0,
        reuse_times: bool = True,
        tuning: Tuning = "quick",
    ) -> None:
        _check_settings(min_gain, choose, rounds, timeout, reuse_times)
        check_tuning("Overlap", tuning)
        if passes is not None:
            _check_passes(passes)
        self.min_gain = min_gain
        self.choose = choose
        self.passes = passes
        self.rounds = rounds
        self.timeout = timeout
        self.reuse_times = reuse_times
        self.tuning = tuning
        self._report = Report()
        self._graphs = 0
        self._times: dict[tuple[str, str], Times] = {}
        self._taken: set[tuple[str, str]] = set()
        """The ops that are in a graph, as the report has them."""
        self._trials: list[Trial] = []
        """The programs that were tried for the collective at hand, and lost."""
        self._has_warned = False
        self._alone: set[str] = set()
        """The groups of which other ranks do not compile this graph, since they have."""

    def __copy__(self) -> Overlap:
        return self

    def __deepcopy__(self, memo: Any) -> Overlap:
        """The pass itself, whose ops belong to this process: a copy of a compiled module has the same."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """A pass with the same settings, that has seen no graph."""
        settings = (self.min_gain, self.choose, self.passes, self.rounds, self.timeout, self.reuse_times, self.tuning)
        return Overlap, settings

    def report(self) -> Report:
        """The outcome for each collective so far, and the regions of graphs that Inductor has kept from earlier processes."""
        store = self._store()
        for line in self._report.fused:
            line.fallback = next((made.op.fallback for made in self._report.ops_of(line.region or "") if made.op.fallback), "")
        own = {name.partition("::")[2] for name, _ in self._taken}
        self._report.restored = [] if store is None else [found for found in restored_regions(store) if found.op not in own]
        return self._report

    def explain(self, region: str) -> str:
        """The program of a region, as the report names it, beside the nodes of torch that it replaced, and the program that runs.

        Raises `hostir.HostIrError` (`H0610`) for a region that no graph of this pass has.
        """
        report = self.report()
        known = {**{found.program.name: found.program for found in report.restored}, **report.programs}
        if region not in known:
            note = f"the regions so far are {', '.join(sorted(known))}" if known else "there is none so far: compile a model first"
            _native.raise_error("H0610", f"`{region}` is no region of a graph that this pass has seen", note)
        return explain_region(known[region], body_of_region(region))

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes the regions' programs; see `Report.save`."""
        return self._report.save(folder)

    def check(self, rtol: float | None = None, atol: float | None = None) -> None:
        """Compares the program of each region that is in a graph with the nodes that it replaced, on random numbers, on the CPU.

        All ranks call this. The tolerances are those of `Op.check`. Raises `hostir.HostIrError` if the results of a region
        differ on one of its ranks (`H0630`), and if ranks have put other programs into it (`H0614`): the first error, after
        the last region.
        """
        if not self._taken:
            check_tolerances("Overlap", rtol, atol)
        found: list[HostIrError] = []
        for key in sorted(self._taken):
            try:
                self._report.ops[key].check(rtol, atol)
            except HostIrError as error:
                # The other regions may be those of other ranks, which wait for this one there.
                found.append(error)
        if found:
            raise found[0]

    def uuid(self) -> str | None:
        """The identity by which Inductor keeps graphs: of settings, versions, devices, groups, and the regions kept for them.

        None if nothing can be kept, as with `HOSTIR_CACHE=0`: then each process compiles.
        """
        store = self._store()
        if store is None:
            return None
        restore_from(store)
        return f"{store.folder.name} {store.identity}"

    def _store(self) -> RegionStore | None:
        settings = [self.min_gain, self.choose, self.passes, self.rounds, self.reuse_times, self.tuning]
        try:
            return open_store([type(self).__qualname__, *settings])
        except Exception:
            # Whatever it is, graphs are compiled as without a cache.
            log.debug("hir.Overlap: compiled graphs are not kept", exc_info=True)
            return None

    def _keep_region(self, part: Part, lines: list[Line]) -> None:
        """Keeps a region for later processes, in which Inductor finds the graph that calls its op."""
        store = self._store()
        if store is None or not is_live_group(part.region.group):
            return
        name = part.target.name().partition("::")[2]
        try:
            entry = entry_of_region(name, [(line.collective, line.group, line.where) for line in lines])
        except Exception:
            log.debug("hir.Overlap: %s cannot be kept", name, exc_info=True)
            entry = None
        if entry is None:
            store.spoil()
        else:
            store.write(name, entry)

    def __call__(self, graph: Any, *others: Any) -> None:
        """Changes a graph. Raises `hostir.HostIrError` (`H0610`) for what is none, and if it is called as a backend."""
        module = getattr(graph, "graph_module", graph)
        found = getattr(module, "graph", module)
        if others or not isinstance(found, torch.fx.Graph):
            note = 'compile the model with `torch.compile(model, options={"post_grad_custom_post_pass": overlap})`'
            what = f"changes graphs of torch.fx, not a `{type(graph).__name__}`"
            what = "is no backend of `torch.compile`, but a pass" if others else what
            _native.raise_error("H0610", f"`Overlap` {what}", note)
        before = _results_of(found)
        # Exported programs have graphs in graphs, as for `with torch.no_grad()`; compilers call passes for each.
        modules = [inner for inner in module.modules() if isinstance(inner, torch.fx.GraphModule)] if module is not found else []
        for inner in [inner.graph for inner in modules] or [found]:
            with record_function("hostir::overlap"):
                self._change(inner)
        for inner in modules:
            inner.recompile()
        if module is not graph:
            # An exported program names its results elsewhere, too.
            for old, new in zip(before, _results_of(found), strict=True):
                if old != new:
                    graph.graph_signature.replace_all_uses(old, new)

    def _change(self, graph: torch.fx.Graph) -> None:
        self._alone.clear()
        ends: list[Collective] = []
        try:
            ends = _collectives_of(graph)
            merge_waits(graph)
            ends = _collectives_of(graph)
            attempts = sizes_of_graph(graph, [end.size for end in ends])
            first = next(attempts)
            if ends:
                read_inputs(graph, first)
            with first.bound():
                merge_views(graph)
            shape = shape_of_graph(graph, self._graphs)
            lines = {end.node: _line_of(end, self._graphs) for end in ends}
        except Exception as error:  # noqa: BLE001 - whatever it is, the graph is torch's own
            announce_failure(ends)
            self._warn("a graph stays as torch has it", error)
            return
        self._graphs += 1
        self._report.lines.extend(lines.values())
        self._report.graphs.append(shape)
        done: set[Node] = set()
        for sizes in itertools.chain([first], attempts):
            with sizes.bound():
                # Sums first: a region with both ends is better than two.
                for end in sorted(ends, key=lambda end: not end.is_sum):
                    if end.node not in done:
                        done |= self._fuse(graph, end, ends, lines, done)
        self._forget_accidents(lines.values())

    def _forget_accidents(self, lines: Iterable[Line]) -> None:
        """Lets later processes compile a graph again that is as it is for what may not happen twice."""
        if any(line.reason in ACCIDENTS for line in lines):
            store = self._store()
            if store is not None:
                store.spoil()

    def _fuse(
        self, graph: torch.fx.Graph, end: Collective, ends: list[Collective], lines: dict[Node, Line], done: set[Node]
    ) -> set[Node]:
        """Tries the regions that a collective can be in. Gives the nodes of the collectives that are fused now."""
        line = lines[end.node]
        self._trials = line.lost
        try:
            index = GraphIndex(graph)
            for candidate in _candidates(index, end, [other for other in ends if other.node not in done]):
                try:
                    name, times = self._take(graph, index, candidate, lines)
                except Kept as kept:
                    line.reason, line.detail, line.times = kept.reason, _told(kept), kept.times
                    if kept.reason is Reason.NOT_PROVED or isinstance(kept, RanksAbsent):
                        # Other ranks may have it.
                        announce_failure(candidate.region.collectives)
                    if kept.reason is not Reason.CHOICE_NEVER:
                        continue
                    # The largest region is the one that would be.
                    for found in candidate.region.collectives:
                        lines[found.node].reason, lines[found.node].detail = kept.reason, _told(kept)
                    return {found.node for found in candidate.region.collectives}
                taken = {found.node for found in candidate.region.collectives}
                for node in taken:
                    lines[node].region, lines[node].times = name, times
                    lines[node].reason, lines[node].detail = None, ""
                return taken
        except Kept as kept:
            if line.reason is None:
                line.reason, line.detail = kept.reason, _told(kept)
        except Exception as error:  # noqa: BLE001 - whatever it is, the graph is as it was before this region
            announce_failure([end])
            line.reason, line.detail = Reason.INTERNAL_ERROR, _first_line(error)
            self._warn(f"the {end.kind} at {line.where} stays as torch has it", error)
        return set()

    def _warn(self, what: str, error: Exception) -> None:
        """Tells an error of this package's own: the first one by a warning, all of them with their places by `logging`."""
        log.debug("hir.Overlap: %s", what, exc_info=error)
        if not self._has_warned:
            self._has_warned = True
            message = f"hir.Overlap: {what}, because of an error of hostir's own: {_first_line(error)}; please report it"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _take(
        self, graph: torch.fx.Graph, index: GraphIndex, candidate: _Candidate, lines: dict[Node, Line]
    ) -> tuple[str, Times | None]:
        """Puts a region's program into the graph, or raises `Kept`."""
        if self.choose == "measure":
            part, times = self._fastest_part(index, candidate)
        else:
            (part, _), times = self._part(index, candidate.region), None
        is_compiled, failure = is_in_inductor(), None
        try:
            if part.written.sizes is not None and not part.written.sizes.guard_multiples(part.written.symbols):
                raise Kept(Reason.ROWS_NOT_DIVISIBLE, "for sizes that no guard may exclude")
            try_replacement(graph, part.region, part.written, part.target, is_compiled=is_compiled)
        except Exception as error:  # noqa: BLE001 - the other ranks have to know before they change their graphs
            failure = error
        self._agree(part, failure)
        replace_region(graph, index.order, part.region, part.written, part.target, is_compiled=is_compiled)
        self._taken.add((part.target.name(), part.region.group))
        self._keep_region(part, [lines[end.node] for end in part.region.collectives])
        return part.written.name, times

    def _agree(self, part: Part, failure: Exception | None) -> None:
        """Raises unless all ranks put the program of a region into their graphs."""
        group, name = part.region.group, part.target.name()
        if group not in self._alone and is_live_group(group):
            program = self._report.programs[part.written.name]
            kind = kind_of(part.written.name, program)
            sites = [site_of(end) for end in part.region.collectives]
            is_known = (name, group) in self._taken
            announce_place(group, _device_of(part))
            agree_to_replace(kind, name, group, self.timeout, failure, sites, is_known=is_known)
            check_topology(group, program)
        if failure is not None:
            raise failure

    def _fastest_part(self, index: GraphIndex, candidate: _Candidate) -> tuple[Part, Times]:
        """The region in the form that gains most. Raises `Kept` where none gains enough: that of the first form."""
        found: list[tuple[Part, Times]] = []
        kept: list[Kept] = []
        for form in candidate.forms(index):
            try:
                part, program = self._part(index, form.region)
                found.append((part, self._choose(index, form, part, program)))
            except Kept as reason:
                if reason.reason is Reason.RANKS_DISAGREE:
                    # Others may have no second form, and would not come to it.
                    raise
                kept.append(reason)
        if not found:
            raise kept[0]
        best = max(found, key=lambda one: one[1].gain)
        self._trials.extend(
            Trial(part.written.name, "another form is faster", times) for part, times in found if part is not best[0]
        )
        return best

    def _part(self, index: GraphIndex, region: Region) -> tuple[Part, RegionProgram]:
        """The op of a region. Raises `Kept` where it cannot be, or shall not."""
        check_convex(index, region)
        check_in_place(index, region)
        written = write_experts(index, region) if isinstance(region, ExpertRegion) else write_region(index, region)
        if not written.results:
            raise Kept(Reason.RESULT_UNUSED)
        program = region_program(written, region.ranks, self.passes or default_passes(written))
        self._report.programs[written.name] = program
        if self.choose == "never":
            raise Kept(Reason.CHOICE_NEVER, written.name)
        op = _op_of(index, region, written, program, self.tuning)
        self._report.ops[(op.name, region.group)] = RegionOp(op, region.group, written)
        return Part(region, written, op._packet.default), program

    def _choose(self, index: GraphIndex, candidate: _Candidate, part: Part, program: RegionProgram) -> Times:
        sizes, symbols = part.written.sizes, part.written.symbols
        # Times are those of sizes up to twice as large.
        key = (part.target.name() if sizes is None else f"{part.target.name()}{sizes.range_text(symbols)}", part.region.group)
        # Parts of different sizes are different regions, of which one rank may know its own.
        kind, is_known = kind_of(part.written.name, program), key in self._times
        sites = [site_of(end) for end in part.region.collectives]
        if part.region.group not in self._alone:
            announce_place(part.region.group, _device_of(part))
            if not is_compiled_by_all(kind, *key, self.timeout, is_known, sites):
                self._alone.add(part.region.group)
            check_topology(part.region.group, program)
        if key not in self._times:
            self._times[key] = self._measure(index, candidate, part, program)
        times = self._times[key]
        name = part.written.name
        if sizes is not None:
            sizes.guard_range(symbols, is_larger=times.is_faster(self.min_gain))
        if not times.is_faster(self.min_gain):
            gain = f"gain {times.gain:.3f}, faster in {times.wins} of {times.rounds} rounds"
            self._trials.append(Trial(name, gain, times))
            raise Kept(Reason.NO_GAIN, f"{name}: {gain}", times)
        if times.is_better_apart and all(self._is_taken(index, part) for part in candidate.parts):
            self._trials.append(Trial(name, f"its parts take {times.apart:.3f} ms", times))
            raise Kept(Reason.NO_GAIN, f"{name}: {times.measured:.3f} ms, and {times.apart:.3f} taken apart", times)
        return times

    def _is_taken(self, index: GraphIndex, region: Region) -> bool:
        """True if a part of a region is taken by itself, in one of its forms."""
        try:
            self._fastest_part(index, _Candidate(region))
        except Kept:
            return False
        return True

    def _measure(self, index: GraphIndex, candidate: _Candidate, part: Part, program: RegionProgram) -> Times:
        region, written = part.region, part.written
        own, ours = torch_module(index, region, written), program_module(region, written, part.target)
        ways = Ways(own, ours, self._apart(index, candidate, written))
        inputs = [example_of(node.meta["val"]) for node in written.argument_nodes]
        name = part.target.name()
        # The op's name has a hash of the nodes that it replaces.
        text = f"{name} {ways.apart is not None}\n{program.lowered}" if self.reuse_times else None
        burst = 0.0 if self.tuning == "quick" else BURST
        with record_function(f"hostir::measure {name.partition('::')[2]}"):
            return measure_ways(name, region.group, ways, inputs, self.rounds, self.timeout, text, burst)

    def _apart(self, index: GraphIndex, candidate: _Candidate, written: Written) -> Any | None:
        """The region as a program for each part, with torch's nodes between; None without parts, or if one has no program."""
        if not candidate.parts:
            return None
        try:
            parts = [self._part(index, region)[0] for region in candidate.parts]
            return apart_module(index, candidate.region, written, parts)
        except (Kept, KeyError):
            return None


def _device_of(part: Part) -> torch.device:
    """The device of a region's tensors."""
    device: torch.device = part.written.argument_nodes[0].meta["val"].device
    return device


def _line_of(end: Collective, graph: int) -> Line:
    path = source_line(end)
    return Line(graph, end.kind, _group_text(end.group), os.path.basename(path), path=path if os.sep in path else "")


def _collectives_of(graph: torch.fx.Graph) -> list[Collective]:
    return [end for end in map(collective_of, graph.nodes) if end is not None]


def _told(kept: Kept) -> str:
    sizes = current_sizes()
    return kept.detail if sizes is None else sizes.told(kept.detail)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def _check_settings(min_gain: Any, choose: Any, rounds: Any, timeout: Any, reuse_times: Any) -> None:
    """Raises `hostir.HostIrError` (`H0610`) for a setting of another type or range."""
    if choose not in ("measure", "always", "never"):
        _refuse_setting("choose", choose, 'it is `"measure"`, `"always"` or `"never"`')
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        _refuse_setting("rounds", rounds, "it is a whole number, 1 or more")
    for name, value in (("min_gain", min_gain), ("timeout", timeout)):
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
            _refuse_setting(name, value, "it is a number, not below 0")
    if not isinstance(reuse_times, bool):
        _refuse_setting("reuse_times", reuse_times, "it is True or False")


def _refuse_setting(name: str, value: Any, needed: str) -> NoReturn:
    _native.raise_error("H0610", f"`{name}` is {value!r}, which `Overlap` does not take", needed)


def _results_of(graph: torch.fx.Graph) -> list[str]:
    """The names of the nodes that a graph gives."""
    leaves = pytree.tree_leaves([output.args for output in graph.find_nodes(op="output")])
    return [node.name for node in leaves if isinstance(node, torch.fx.Node)]


def _check_passes(passes: Any) -> None:
    """Raises `hostir.HostIrError` unless it is a pipeline of passes that there are, with options that they have."""
    if not isinstance(passes, str):
        _refuse_setting("passes", passes, 'write the passes in one text: `"overlap-lower"`')
    try:
        parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n").run_passes(passes)
    except HostIrError as error:
        # What a pass cannot do with this program says nothing.
        if error.code is not None and error.code.startswith("H030"):
            raise


@dataclass(frozen=True)
class _Candidate:
    """A region that a collective can be in."""

    region: Region
    parts: tuple[Region, ...] = ()
    """The regions that are parts of it: of its two collectives, or a sum's without gradients of weights."""

    def forms(self, index: GraphIndex) -> Iterator[_Candidate]:
        """The region, and the same nodes as another program."""
        yield self
        if isinstance(self.region, ExpertRegion):
            return
        other = with_narrow_products_whole(index, self.region) if self.region.sum is None else None
        if other is not None:
            yield _Candidate(other)
        joined = with_factors_side_by_side(index, self.region)
        if joined is not None:
            yield _Candidate(joined, self.parts)


def _op_of(index: GraphIndex, region: Region, written: Written, program: RegionProgram, tuning: Tuning) -> Op:
    """The op of a region; a program that no op can have is refused as one that is not proved."""
    try:
        sites = [site_of(end) for end in region.collectives]
        return region_op(written, program, region_body(index, region, written), tuning, sites)
    except HostIrError as error:
        raise Kept(Reason.NOT_PROVED, f"{error.code}: {error.message}") from error


def _candidates(index: GraphIndex, end: Collective, ends: list[Collective]) -> Iterator[_Candidate]:
    """The regions that a collective can be in, the largest first."""
    if not end.result.users:
        raise Kept(Reason.RESULT_UNUSED)
    if end.is_gather:
        yield _Candidate(find_gather(index, end))
        return
    if end.is_exchange:
        yield from map(_Candidate, find_experts(index, end, ends))
        return
    if not end.is_sum:
        raise Kept(Reason.COLLECTIVE_KIND, end.kind)
    total = find_sum(index, end)
    before = _collectives_before(end)
    for other in ends:
        if other.is_gather and other.node in before:
            joined = _joined(index, other, total)
            if joined is not None:
                yield joined
    wider = with_gradients_of_weights(index, total, lambda region: _can_be_replaced(index, region))
    if wider is not None:
        yield _Candidate(wider, (total,))
    yield _Candidate(total)


def _collectives_before(end: Collective) -> set[Node]:
    """The collectives from which a collective depends without others between."""
    queue: list[Node] = [end.source]
    seen, found = {end.source}, set()
    while queue:
        node = queue.pop()
        if collective_of(node) is not None:
            found.add(node)
            continue
        queue.extend(operand for operand in node.all_input_nodes if operand not in seen)
        seen.update(node.all_input_nodes)
    return found


def _can_be_replaced(index: GraphIndex, region: Region) -> bool:
    try:
        check_convex(index, region)
        check_in_place(index, region)
    except Kept:
        return False
    return True


def _joined(index: GraphIndex, end: Collective, total: Region) -> _Candidate | None:
    try:
        gather = find_gather(index, end)
        joined = join_regions(index, gather, total)
    except Kept:
        return None
    return None if joined is None else _Candidate(joined, (gather, total))


def _group_text(group: Any) -> str:
    return group if isinstance(group, str) else "?"
