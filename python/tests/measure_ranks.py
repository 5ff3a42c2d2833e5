"""Ranks of the tests of `Overlap(choose="measure")`. On the CPU nothing is measured but by the clock of these tests, and by those
that a test sets where times would say nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.fx.experimental.proxy_tensor import make_fx

import hostir
import hostir.torch as hir
from hostir.torch._overlap import measure
from hostir.torch._overlap.measure import Ways, measure_ways
from hostir.torch._overlap.programs import op_of_region
from hostir.torch._overlap.reasons import Kept, Reason

# Each test measures; those of kept times name a folder of their own.
os.environ["HOSTIR_CACHE"] = "0"

SHAPES = [(4, 8), (8, 6)]


def time_on_cpu(module: Any, tensors: list[torch.Tensor], runs: int) -> float:
    """Milliseconds of one run. A program takes as long as torch's nodes, which its op runs."""
    start = time.perf_counter()
    module(*tensors)
    return (time.perf_counter() - start) * 1e3


measure._time_on_cpu = time_on_cpu


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return fc.all_gather_tensor(x, 0, dist.group.WORLD) @ w


def graph_of(function: Callable[..., Any] = product, shapes: Any = SHAPES) -> torch.fx.GraphModule:
    """The graph of a function, in the group that exists."""
    return make_fx(function, tracing_mode="fake")(*[torch.empty(shape) for shape in shapes])


@contextmanager
def clock_that_reads(read: Callable[[Any, Any, int], float]) -> Any:
    """Times are what `read` gives for a way, its tensors, and the number of runs in a row."""
    found, measure._time_on_cpu = measure._time_on_cpu, read
    try:
        yield
    finally:
        measure._time_on_cpu = found


@contextmanager
def clock(times: Callable[[bool], float]) -> Any:
    """Everything runs, but times are `times(is_program)`."""

    def read(module: Any, tensors: Any, runs: int) -> float:
        module(*tensors)
        is_program = any("hostir" in str(node.target) for node in module.graph.nodes)
        return times(is_program)

    with clock_that_reads(read):
        yield


def verdict_of(overlap: hir.Overlap, module: torch.fx.GraphModule) -> Any:
    """The line of a graph's only collective, which is the same on all ranks."""
    overlap(module)
    (line,) = overlap.report().lines
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (line.verdict, line.times))
    assert len(set(told)) == 1, told
    return line


def measured(group: Any) -> None:
    """What is measured is in the report, of programs that are taken and of those that are not."""
    for program, is_fused in ((1.0, True), (2.0, False), (1.99, False)):
        with clock(lambda is_program, program=program: program if is_program else 2.0):
            line = verdict_of(overlap := hir.Overlap(rounds=6), graph_of())
        assert line.is_fused == is_fused, str(overlap.report())
        assert (line.times.serial, line.times.measured, line.times.gain) == (2.0, program, 2.0 / program)
        assert f"2.000        {program:.3f}" in str(overlap.report())
        if not is_fused:
            assert line.reason is Reason.NO_GAIN and f"gain {2 / program:.3f}" in line.detail
    # With times of this machine: on the CPU both are the same nodes.
    line = verdict_of(hir.Overlap(rounds=6, min_gain=0.01), graph_of())
    assert line.is_fused and line.times.serial > 0 and line.times.measured > 0 and line.times.rounds == 6


@contextmanager
def clock_of_nodes(times: Callable[[list[str]], float]) -> Any:
    """As `clock`, by what a way calls: names of torch's ops, and texts of programs."""

    def read(module: Any, tensors: Any, runs: int) -> float:
        module(*tensors)
        calls = [node.target for node in module.graph.nodes if node.op == "call_function"]
        made = [op_of_region(call) for call in calls]
        return times([str(call) if op is None else str(op.program) for call, op in zip(calls, made, strict=True)])

    with clock_that_reads(read):
        yield


def forms_of_a_region(group: Any) -> None:
    """Of two forms of a region the faster one is taken."""

    def layer(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> Any:
        rows = fc.all_gather_tensor(x, 0, dist.group.WORLD)
        return rows @ q, rows @ k

    for whole, by_parts in ((1.0, 1.5), (1.5, 1.0), (1.0, 3.0), (3.0, 1.0)):

        def times(calls: list[str], whole: float = whole, by_parts: float = by_parts) -> float:
            (program, *_) = [call for call in calls if call.startswith("hir 2")] or [""]
            return 2.0 if not program else whole if "P2: f32[x:2, 8, 3]" in program else by_parts

        with clock_of_nodes(times):
            line = verdict_of(overlap := hir.Overlap(rounds=6), graph_of(layer, [(4, 8), (8, 6), (8, 3)]))
        assert line.is_fused and line.times.measured == 1.0, line
        # Programs that lost are told with their times.
        (lost,) = line.lost
        assert lost.times.measured == max(whole, by_parts) and lost.region != line.region
        assert f"{lost.times.measured:.3f} ms beside 2.000" in str(overlap.report()), str(overlap.report())


def joined_factors(group: Any) -> None:
    """Of a sum of matmuls with factors side by side or not the faster form is taken; what joins them is in its time."""

    def layer(dq: torch.Tensor, dk: torch.Tensor, q: torch.Tensor, k: torch.Tensor, x: torch.Tensor) -> Any:
        return fc.reduce_scatter_tensor(dq @ q + dk @ k, "sum", 0, dist.group.WORLD), dq.t() @ x, dk.t() @ x

    shapes = [(8, 6), (8, 3), (6, 4), (3, 4), (8, 5)]
    for joined, is_taken in ((1.0, True), (1.8, False)):

        def times(calls: list[str], joined: float = joined) -> float:
            programs = [call for call in calls if call.startswith("hir 2")]
            assert not programs or ("W2" in programs[0]) != any("cat" in call for call in calls), calls
            return 2.0 if not programs else 1.5 if "W2" in programs[0] else joined

        with clock_of_nodes(times):
            graph = graph_of(layer, shapes)
            line = verdict_of(overlap := hir.Overlap(rounds=6), graph)
        assert line.is_fused and line.times.measured == min(joined, 1.5), str(overlap.report())
        assert ("W2" not in str(overlap.report().programs[line.region].plain)) == is_taken
        given = [torch.randn(*shape, generator=torch.Generator().manual_seed(dist.get_rank())) for shape in shapes]
        torch.testing.assert_close(graph(*given), layer(*given))


def sums_beside_torchs_gradients(group: Any) -> None:
    """A sum's program has gradients of weights unless torch's matmuls beside the sum's own program are faster."""

    def layer(dy: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
        return fc.reduce_scatter_tensor(dy @ w, "sum", 0, dist.group.WORLD), dy.t() @ x

    for apart, is_within in ((1.6, True), (1.0, False)):

        def times(calls: list[str], apart: float = apart) -> float:
            programs = [call for call in calls if call.startswith("hir 2")]
            return 2.0 if not programs else apart if any("mm" in call for call in calls if call not in programs) else 1.5

        with clock_of_nodes(times):
            line = verdict_of(overlap := hir.Overlap(rounds=6), graph_of(layer, [(8, 6), (6, 4), (8, 4)]))
        assert line.is_fused and line.times.measured == 1.5, str(overlap.report())
        assert ("D1" in str(overlap.report().programs[line.region].plain)) == is_within
        assert line.times.apart == (apart if is_within else None)


def runs_in_a_row(group: Any) -> None:
    """At the power limit a time is that of one of many runs in a row, as many for each way on all ranks; else of one alone."""
    for tuning, wanted in (
        ("sustained", {True: 30, False: 15}),
        ("kernels", {True: 30, False: 15}),
        ("quick", {True: 1, False: 1}),
    ):
        seen: dict[bool, list[int]] = {True: [], False: []}

        def read(module: Any, tensors: Any, runs: int, seen: dict[bool, list[int]] = seen) -> float:
            is_program = any("hostir" in str(node.target) for node in module.graph.nodes)
            seen[is_program].append(runs)
            # The slowest rank's count is everybody's.
            return (1.0 if is_program else 2.0) / (1 + dist.get_rank())

        with clock_that_reads(read):
            line = verdict_of(hir.Overlap(rounds=6, tuning=tuning), graph_of())
        assert line.is_fused and line.times.measured == 1.0
        # Two runs before, and a round that does not count.
        assert seen == {program: [1, 1] + [count] * 7 for program, count in wanted.items()}, seen


@contextmanager
def cache_folder() -> Any:
    """A folder for what is kept, which all ranks share."""
    told: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told)
    os.environ["HOSTIR_CACHE"] = told[0]
    try:
        yield Path(told[0]) / "choices"
    finally:
        os.environ["HOSTIR_CACHE"] = "0"


def line_with(program: float, shapes: Any = SHAPES, **settings: Any) -> Any:
    """The verdict where a program takes so long and torch's nodes take 2 ms."""
    with clock(lambda is_program: program if is_program else 2.0):
        return verdict_of(hir.Overlap(rounds=6, **settings), graph_of(shapes=shapes))


def kept_times(group: Any) -> None:
    """A new pass takes what an earlier one has measured; other shapes and `reuse_times=False` measure."""
    with cache_folder() as folder:
        assert not line_with(1.0).times.is_earlier
        assert len(list(folder.iterdir())) == 1
        line = line_with(4.0)
        assert line.is_fused and line.times.is_earlier and line.times.measured == 1.0
        assert line.verdict.endswith(", by times of an earlier process"), line.verdict
        assert line_with(1.0, min_gain=3.0).reason is Reason.NO_GAIN, "times are kept, not the choice"
        for changed in ({"shapes": [(6, 8), (8, 6)]}, {"reuse_times": False}):
            line = line_with(4.0, **changed)
            assert line.reason is Reason.NO_GAIN and not line.times.is_earlier, line
        os.environ["HOSTIR_CACHE"] = "0"
        assert line_with(4.0).reason is Reason.NO_GAIN


def times_of_one_rank(group: Any) -> None:
    """Where a rank lacks the times, or has damaged ones, all ranks measure; the entry is replaced."""
    with cache_folder() as shared:
        own = shared.parent / str(dist.get_rank())
        os.environ["HOSTIR_CACHE"] = str(own)
        line_with(1.0)
        (entry,) = (own / "choices").iterdir()
        whole = entry.read_bytes()
        for damaged in (None, b"", whole[:-9], whole.replace(b"2.0", b"9.0"), b"[" * 50000):
            entry.write_bytes(whole)
            if dist.get_rank() == 1:
                entry.unlink()
                if damaged is not None:
                    entry.write_bytes(damaged)
            dist.barrier()
            line = line_with(4.0)
            assert line.reason is Reason.NO_GAIN and not line.times.is_earlier, damaged
            assert line_with(1.0).times.is_earlier


def one_slow_rank(group: Any) -> None:
    """The program is faster on one rank and slower on the other: for both it is slower."""
    own = (1.0, 3.0)[dist.get_rank()]
    with clock(lambda is_program: own if is_program else 2.0):
        line = verdict_of(hir.Overlap(rounds=6), graph_of())
    assert line.reason is Reason.NO_GAIN and line.times.measured == 3.0


def kept_reason(work: Callable[[], Any]) -> Kept:
    try:
        work()
    except Kept as kept:
        return kept
    raise AssertionError("nothing was kept")


def different_regions(group: Any) -> None:
    name = f"region_{dist.get_rank()}"
    kept = kept_reason(lambda: measure_ways(name, group.group_name, Ways(torch.relu, torch.relu), [torch.ones(3)], 6, 30.0))
    assert (kept.reason, kept.detail) == (Reason.RANKS_DISAGREE, "region_0, region_1")


def uneven(rank: int, width: int) -> torch.fx.GraphModule:
    """A graph of which this rank's part has one column less than those of the others."""
    return graph_of(shapes=[(4, 8), (8, width - (dist.get_rank() == rank))])


def two_products(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Two regions of different kinds, of which the second one has two matmuls."""
    rows = fc.all_gather_tensor(x.relu(), 0, dist.group.WORLD)
    return product(x, w), rows @ v, rows @ (v + 1)


@contextmanager
def fast_programs() -> Any:
    """Programs are faster, and nobody waits long for a rank that compiles alone."""
    found, measure.ALONE = measure.ALONE, 0.5
    try:
        with clock(lambda is_program: 1.0 if is_program else 2.0):
            yield
    finally:
        measure.ALONE = found


def same_reasons(overlap: hir.Overlap, skipped: int = 0) -> list[Any]:
    """The reasons of the lines, after those of graphs that this rank alone has compiled; all ranks have the same."""
    found = [line.reason for line in overlap.report().lines[skipped:]]
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, found)
    assert all(one == found for one in told), (told, str(overlap.report()))
    return found


def parts_of_different_sizes(group: Any) -> None:
    """A rank that knows its region, since its part has the same size, learns of the others that theirs is another one."""
    overlap = hir.Overlap(rounds=6, timeout=60.0)
    last = dist.get_world_size() - 1
    with fast_programs():
        overlap(graph_of())
        start = time.monotonic()
        for graph in (uneven(last, 6), uneven(0, 6), uneven(last, 5), graph_of()):
            overlap(graph)
    assert time.monotonic() - start < 20
    assert same_reasons(overlap) == [None, *[Reason.RANKS_DISAGREE] * 3, None]


def one_rank_compiles_again(group: Any) -> None:
    """Alone it does not wait long for regions whose times it has, and the others meet it at the next ones, the same among them."""
    overlap = hir.Overlap(rounds=6, timeout=60.0)
    is_first = dist.get_rank() == 0
    with fast_programs():
        overlap(graph_of())
        if is_first:
            start = time.monotonic()
            overlap(graph_of())
            assert time.monotonic() - start < 10 and overlap.report().lines[-1].is_fused
        dist.barrier()
        for graph in (graph_of(two_products, [(4, 8), (8, 6), (8, 6)]), graph_of(), uneven(1, 6)):
            overlap(graph)
    if is_first:
        del overlap.report().lines[1]
    assert same_reasons(overlap) == [None, None, None, None, Reason.RANKS_DISAGREE]


def one_rank_compiles_something_alone(group: Any) -> None:
    """A region that nobody else has is kept, and costs nothing of those that follow."""
    overlap = hir.Overlap(rounds=6, timeout=1.0)
    is_first = dist.get_rank() == 0
    with fast_programs():
        overlap(graph_of())
        if is_first:
            overlap(graph_of(two_products, [(4, 8), (8, 6), (8, 6)]))
            assert [line.reason for line in overlap.report().lines[1:]] == [Reason.RANKS_DISAGREE, None], str(overlap.report())
        dist.barrier()
        overlap(graph_of(two_products, [(4, 8), (8, 6), (8, 6)]))
        overlap(graph_of())
    if is_first:
        del overlap.report().lines[1:3]
    assert same_reasons(overlap) == [None] * 4


def one_rank_fails(group: Any) -> None:
    """Whatever is raised, in whatever step, all ranks know it and none waits."""
    rank = dist.get_rank()
    raised: list[Callable[[], Any]] = [
        lambda: hostir.parse("hir 2\nf("),
        lambda: torch.empty(-1),
        lambda: {}["missing"],
    ]
    for failing in (0, 1):
        for fail in raised:
            for after in (0, 1, 3):
                runs: list[int] = []

                def program(x: torch.Tensor, runs: list[int] = runs, fail: Any = fail, after: int = after) -> torch.Tensor:
                    runs.append(0)
                    if rank == failing and len(runs) > after:
                        fail()
                    return x

                start = time.monotonic()
                modules = (torch.relu, program)
                kept = kept_reason(lambda: measure_ways("region", group.group_name, Ways(*modules), [torch.ones(3)], 6, 30.0))
                assert kept.reason is Reason.RUN_FAILED and kept.detail.startswith(f"rank {failing}: "), kept
                assert time.monotonic() - start < 20


def one_rank_never_comes(group: Any) -> None:
    """The others give up, and a rank that comes later learns it; the next region is measured as if nothing had been."""
    rank = dist.get_rank()
    if rank == 1:
        time.sleep(2)
    kept = kept_reason(lambda: measure_ways("late", group.group_name, Ways(torch.relu, torch.relu), [torch.ones(3)], 6, 0.5))
    assert kept.reason is Reason.RANKS_DISAGREE and "rank 1 has not come within" in kept.detail, kept
    found = measure_ways("region", group.group_name, Ways(torch.relu, torch.relu), [torch.ones(3)], 6, 30.0)
    assert found.rounds == 6


def block(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """An MLP block: both its collectives can be in one program."""
    hidden = torch.relu(fc.all_gather_tensor(x, 0, dist.group.WORLD) @ w)
    return fc.reduce_scatter_tensor(hidden @ v, "sum", 0, dist.group.WORLD)


@contextmanager
def clock_of_blocks(joined: float, apart: float, part: float) -> Any:
    """A clock by what a module has: torch's nodes take 2 ms for the block, and 1 for one of its collectives."""

    def read(module: Any, tensors: Any, runs: int) -> float:
        module(*tensors)
        programs = sum("hostir" in str(node.target) for node in module.graph.nodes)
        whole = any("relu" in str(node.target) for node in module.graph.nodes)
        if programs == 2:
            return apart
        if len(tensors) == 3:
            return joined if programs else 2.0
        assert not whole
        return part if programs else 1.0

    with clock_that_reads(read):
        yield


def joined_or_apart(group: Any) -> None:
    """A region with two collectives is measured beside a program for each of them, too; the faster way is taken."""
    x, w, v = torch.randn(4, 8) + dist.get_rank(), torch.randn(8, 6), torch.randn(6, 8)
    for joined, apart, names in ((1.0, 1.5, 1), (1.0, 1.0, 1), (1.5, 1.0, 2)):
        module = graph_of(block, [tuple(given.shape) for given in (x, w, v)])
        with clock_of_blocks(joined, apart, 0.5):
            overlap = hir.Overlap(rounds=6)
            overlap(module)
        lines = overlap.report().lines
        assert all(line.is_fused for line in lines) and len({line.region for line in lines}) == names, str(overlap.report())
        assert names == 2 or {line.times.apart for line in lines} == {apart}
        torch.testing.assert_close(module(x, w, v), block(x, w, v))
    # Where the two gain nothing by themselves, the joined program is taken though they are faster together.
    module = graph_of(block, [tuple(given.shape) for given in (x, w, v)])
    with clock_of_blocks(1.5, 1.0, 1.0):
        overlap = hir.Overlap(rounds=6)
        overlap(module)
    assert [(line.is_fused, line.times.measured) for line in overlap.report().lines] == [(True, 1.5)] * 2
    # Where the joined program loses, and one of the two gains nothing, that collective stays.
    module = graph_of(block, [tuple(given.shape) for given in (x, w, v)])
    with clock_of_blocks(3.0, 1.0, 1.0):
        overlap = hir.Overlap(rounds=6)
        overlap(module)
    assert [line.reason for line in overlap.report().lines] == [Reason.NO_GAIN] * 2


def refused_programs(group: Any) -> None:
    """A program that the pass or the proof refuses leaves torch's nodes, on all ranks, without measuring."""
    for passes in ("resize-mesh{devices=3}", "host-ir-lower"):
        before = [str(node.target) for node in graph_of().graph.nodes]
        module = graph_of()
        line = verdict_of(hir.Overlap(passes=passes), module)
        assert line.reason in (Reason.NOT_PROVED, Reason.COLLECTIVE_REMAINS) and line.times is None
        assert [str(node.target) for node in module.graph.nodes] == before


def kept_graphs_compute(group: Any) -> None:
    """Through `torch.compile`, with the default settings: the numbers are torch's whatever was chosen."""
    x, w = torch.randn(4, 8) + dist.get_rank(), torch.randn(8, 6)
    overlap = hir.Overlap(rounds=6)
    run = torch.compile(product, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
    torch.testing.assert_close(run(x, w), product(x, w))
    (line,) = overlap.report().lines
    assert line.times is not None and (line.is_fused or line.reason is Reason.NO_GAIN), str(overlap.report())
