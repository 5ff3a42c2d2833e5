"""Cases of several ranks, which the function `run_rank` runs in each rank's process."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh

import hostir
import hostir.torch as hir

K, N = 64, 96
ROWS = 128


@hir.op(
    "hostir_gpu::gather_matmul",
    program="gather_matmul.hir",
    args={"x": "X", "w": "W"},
    out="Y",
    passes="overlap-lower",
)
def gather_matmul(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The product of all ranks' rows."""
    return fc.all_gather_tensor(x, 0, group) @ w


@gather_matmul.backward(program="gather_matmul_gradient.hir", args={"dy": "DY", "x": "X", "w": "W"}, out={"x": "DX", "w": "DW"})
def _(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, group: str) -> tuple[torch.Tensor, torch.Tensor]:
    return fc.reduce_scatter_tensor(dy @ w.T, "sum", 0, group), fc.all_gather_tensor(x, 0, group).T @ dy


@hir.op(
    "hostir_gpu::matmul_reduce_scatter",
    program="matmul_reduce_scatter.hir",
    args={"x": "X", "w": "W"},
    out="Y",
    passes="overlap-lower",
)
def matmul_reduce_scatter(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The rank's rows of the sum of all ranks' products."""
    return fc.reduce_scatter_tensor(x @ w, "sum", 0, group)


@hir.op("hostir_gpu::push", program="push.hir", args={"x": "X"}, out="Y")
def push(x: torch.Tensor, group: str) -> torch.Tensor:
    """All ranks' rows."""
    return fc.all_gather_tensor(x.contiguous(), 0, group)


@hir.op("hostir_gpu::pull", program="pull.hir", args={"x": "X"}, out="Y")
def pull(x: torch.Tensor, group: str) -> torch.Tensor:
    """The same."""
    return fc.all_gather_tensor(x.contiguous(), 0, group)


def numbers(*shape: int, seed: int) -> torch.Tensor:
    """Small whole numbers, of which sums of products are exact in bfloat16 or nearly so."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).to(torch.bfloat16).cuda()


def rows(rank: int, seed: int = 0) -> torch.Tensor:
    """A rank's rows."""
    return numbers(ROWS, K, seed=100 * seed + rank)


def weights() -> torch.Tensor:
    """The state that all ranks share."""
    return numbers(K, N, seed=1000)


def all_rows(ranks: list[int], seed: int = 0) -> torch.Tensor:
    """The rows of these ranks, without communication."""
    return torch.cat([rows(rank, seed) for rank in ranks])


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=0.016, atol=0.5)


def forward() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    close(gather_matmul(rows(rank), weights(), group), all_rows([0, 1]) @ weights())
    x = [numbers(2 * ROWS, K, seed=rank) for rank in range(2)]
    w = [numbers(K, N, seed=10 + rank) for rank in range(2)]
    wanted = sum(x[rank].float() @ w[rank].float() for rank in range(2))
    found = matmul_reduce_scatter(x[rank], w[rank], group)
    close(found.float(), wanted[rank * ROWS : (rank + 1) * ROWS])


def backward() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    x, w = rows(rank).requires_grad_(), weights().requires_grad_()
    gradient = [numbers(2 * ROWS, N, seed=50 + rank) for rank in range(2)]
    gather_matmul(x, w, group).backward(gradient[rank])
    through = sum(gradient[other].float() @ weights().float().T for other in range(2))
    close(x.grad.float(), through[rank * ROWS : (rank + 1) * ROWS])
    close(w.grad.float(), all_rows([0, 1]).float().T @ gradient[rank].float())


def replays() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    x, w = rows(rank), weights()
    gather_matmul(x, w, group)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = gather_matmul(x, w, group)
        z = matmul_reduce_scatter_of(y, group)
    for seed in range(200):
        x.copy_(rows(rank, seed))
        graph.replay()
        wanted = all_rows([0, 1], seed) @ w
        assert torch.equal(y, wanted), f"replay {seed}"
        # Both ranks add the same columns.
        close(z.float(), 2 * (wanted[rank * ROWS : (rank + 1) * ROWS].float() @ square().float()))
        if seed % 20 == 0:
            # A run that is issued, between replays.
            assert torch.equal(gather_matmul(x, w, group), wanted)


def square() -> torch.Tensor:
    return numbers(N, N, seed=2000).triu(N - 4)


def matmul_reduce_scatter_of(y: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    if torch.cuda.is_current_stream_capturing():
        return matmul_reduce_scatter(y, _square[0], group)
    return matmul_reduce_scatter(y, square(), group)


_square: list[torch.Tensor] = []


def replays_of_two_ops() -> None:
    _square.append(square())
    matmul_reduce_scatter(numbers(2 * ROWS, N, seed=1), _square[0], dist.group.WORLD)
    replays()


def compiled() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    run = torch.compile(lambda x, w: gather_matmul(x * 2, w, group).relu(), fullgraph=True)
    close(run(rows(rank), weights()), (2 * all_rows([0, 1]) @ weights()).relu())


def overlap_pass() -> None:
    """Collectives and matmuls of a graph become programs, also those of a block."""
    rank, group = dist.get_rank(), dist.group.WORLD
    overlap = hir.Overlap(choose="always")

    def block(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = fc.all_gather_tensor(x, 0, group)
        return fc.reduce_scatter_tensor(torch.relu(rows @ w) @ v, "sum", 0, group)

    columns = [numbers(K, N, seed=20 + other) for other in range(2)]
    back = [numbers(N, K, seed=30 + other).triu(N - K - 4) for other in range(2)]
    run = torch.compile(block, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
    for seed in range(3):
        found = run(rows(rank, seed), columns[rank], back[rank])
        inner = [torch.relu(all_rows([0, 1], seed) @ columns[other]) for other in range(2)]
        wanted = sum(inner[other].float() @ back[other].float() for other in range(2))
        close(found.float(), wanted[rank * ROWS : (rank + 1) * ROWS])
    assert len(overlap.report().fused) == 2, str(overlap.report())


def joined_products() -> None:
    """With tuning="kernels" a product may be one launch that stores in the memory of all ranks, also of other processes."""
    rank, group = dist.get_rank(), dist.group.WORLD
    size, world = 4096, dist.get_world_size()
    overlap = hir.Overlap(choose="always", tuning="kernels", passes="overlap-lower{matmul_reduce_scatter=direct}")
    run = torch.compile(
        lambda x, w: fc.reduce_scatter_tensor(x @ w, "sum", 0, group),
        fullgraph=True,
        options={"post_grad_custom_post_pass": overlap},
    )
    x, w = ([numbers(size, size, seed=place + other) for other in range(world)] for place in (70, 80))
    wanted = sum(one.float() @ other.float() for one, other in zip(x, w, strict=True)).chunk(world)[rank]
    for _ in range(3):
        close(run(x[rank], w[rank]).float(), wanted)
    assert len(overlap.report().fused) == 1, str(overlap.report())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run(x[rank], w[rank])
        torch.cuda.synchronize()
    kernels = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    print(f"  kernels of a run: {', '.join(kernels)}", flush=True)


def measured_pass() -> None:
    """Every collective is timed on the GPUs, and the faster way is taken, whichever it is; with either the numbers are right."""
    if torch.cuda.device_count() < dist.get_world_size():
        # Over gloo, torch 2.11's own allgather of tensors on GPUs ends the process.
        print("  measured_pass: torch's own collectives need a GPU for each rank", flush=True)
        return
    rank, group = dist.get_rank(), dist.group.WORLD

    def gather(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return fc.all_gather_tensor(x, 0, group) @ w

    # Times of these sizes say little: what is tried is that they are there, and that a bar on the gain decides.
    for min_gain, is_fused in ((1e-3, True), (1e3, False)):
        torch.compiler.reset()
        overlap = hir.Overlap(choose="measure", min_gain=min_gain, reuse_times=False)
        run = torch.compile(gather, fullgraph=True, options={"post_grad_custom_post_pass": overlap})
        w = numbers(K, N, seed=7)
        for seed in range(3):
            close(run(rows(rank, seed), w), all_rows([0, 1], seed) @ w)
        (line,) = overlap.report().lines
        assert line.is_fused == is_fused, str(overlap.report())
        assert line.reason is (None if is_fused else hir.Reason.NO_GAIN), str(overlap.report())
        assert line.times is not None and line.times.rounds >= 20 and not line.times.is_earlier
        assert 0 < line.times.serial < 50 and 0 < line.times.measured < 50, str(overlap.report())


def linear_slots() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    hir.linear.use(hir.Overlap(choose="always"))
    x, w = rows(rank).requires_grad_(), numbers(N, K, seed=40 + rank).requires_grad_()
    y = hir.linear.all_gather(x, w, group)
    close(y, all_rows([0, 1]) @ w.detach().T)
    gradient = [numbers(2 * ROWS, N, seed=60 + other) for other in range(2)]
    y.backward(gradient[rank])
    through = sum(gradient[other].float() @ numbers(N, K, seed=40 + other).float() for other in range(2))
    close(x.grad.float(), through[rank * ROWS : (rank + 1) * ROWS])
    close(w.grad.float(), gradient[rank].float().T @ all_rows([0, 1]).float())
    report = hir.linear.report()
    assert len(report.fused) == 2, str(report)


def symmetric_memory() -> None:
    """Registered symmetric memory that peers read or write is used in place: as an argument, as `out`, and in a graph."""
    if torch.cuda.device_count() < dist.get_world_size():
        print("  symmetric_memory: torch's symmetric memory needs a GPU for each rank", flush=True)
        return
    import torch.distributed._symmetric_memory as symm_mem

    rank, group = dist.get_rank(), dist.group.WORLD
    plain = rows(rank)
    x, other = (symm_mem.empty(ROWS, K, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    y = symm_mem.empty(2 * ROWS, K, dtype=torch.bfloat16, device="cuda")
    for tensor in (x, other, y):
        assert hir.register_symmetric(tensor, group) is tensor
    # A push writes the peer's result, and a pull reads its argument.
    for op, taken in ((push, (True, 0)), (pull, (False, 0))):
        assert torch.equal(op(plain, group), all_rows([0, 1])) and in_place(op) == []
        op(x, group, out=y)
        gathers_in_place(op, x, y)
        assert in_place(op) == [taken]
        torch.cuda.synchronize()
    # A second tensor has a session of its own, and plain tensors, views with gaps and other groups' have theirs.
    other.copy_(rows(rank, 3))
    count = len(pull._sessions.sessions())
    assert torch.equal(pull(other, group), all_rows([0, 1], 3)) and in_place(pull) == [(False, 0)]
    assert len(pull._sessions.sessions()) == count + 1
    assert torch.equal(pull(plain, group), all_rows([0, 1])) and in_place(pull) == []
    half = other[:, : K // 2]
    assert torch.equal(pull(half, group), all_rows([0, 1], 3)[:, : K // 2]) and in_place(pull) == []
    wrong_registrations(group)
    hir.unregister_symmetric(other)


def gathers_in_place(op: hir.Op, x: torch.Tensor, y: torch.Tensor) -> None:
    """Calls and replays, each followed at once by the rank's own work on both tensors: the runs alone order it with the peer's
    accesses."""
    rank, group = dist.get_rank(), dist.group.WORLD
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        op(x, group, out=y)
    for seed in range(100):
        x.copy_(rows(rank, seed))
        if seed % 2 == rank:
            torch.cuda._sleep(2_000_000)
        if seed < 50:
            assert op(x, group, out=y) is y
        else:
            graph.replay()
        found = y.clone()
        x.fill_(7)
        y.fill_(9)
        assert torch.equal(found, all_rows([0, 1], seed)), f"run {seed}"


def in_place(op: hir.Op) -> list[tuple[bool, int]]:
    """The tensors that the last used session takes in place: true for an output, and its position."""
    return op._sessions.sessions()[-1].symmetric()


def wrong_registrations(group: dist.ProcessGroup) -> None:
    for tensor in (torch.zeros(ROWS, device="cuda"), torch.zeros(ROWS), torch.zeros(8, 8, device="cuda").t()[:4]):
        try:
            hir.register_symmetric(tensor, group)
        except hostir.HostIrError as error:
            assert error.code == "H0536", error
        else:
            raise AssertionError("a plain tensor is registered")


def two_groups() -> None:
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    for _ in range(3):
        x, w = rows(rank), weights()
        inner = gather_matmul(x, w, mesh["inner"])
        outer = gather_matmul(x, w, mesh["outer"])
        close(inner, all_rows([rank // 2 * 2, rank // 2 * 2 + 1]) @ w)
        close(outer, all_rows([rank % 2, rank % 2 + 2]) @ w)


def another_shape_each_time() -> None:
    """More layouts than sessions are kept: the ranks drop the same ones."""
    rank, group = dist.get_rank(), dist.group.WORLD
    gather_matmul._sessions.limit = 3
    for count in [8, 16, 24, 32, 40, 8, 16]:
        x = rows(rank)[:count]
        close(gather_matmul(x, weights(), group), torch.cat([rows(other)[:count] for other in range(2)]) @ weights())
    assert len(gather_matmul._sessions.sessions()) == 3


def wrong_calls() -> None:
    """What one rank is refused, all learn."""
    rank, group = dist.get_rank(), dist.group.WORLD
    try:
        gather_matmul(rows(rank)[:, : K - 8 * rank], weights()[: K - 8 * rank], group)
    except Exception as error:  # noqa: BLE001 - of each rank its own kind
        print(f"rank {rank} is told: {error}", flush=True)
    torch.cuda.synchronize()


def a_rank_is_killed() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    gather_matmul(rows(rank), weights(), group)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)
    gather_matmul(rows(rank), weights(), group)
    torch.cuda.synchronize()
    time.sleep(60)
    print("nobody noticed", flush=True)


def a_rank_raises() -> None:
    rank, group = dist.get_rank(), dist.group.WORLD
    gather_matmul(rows(rank), weights(), group)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 1:
        raise ValueError("this rank raises")
    gather_matmul(rows(rank), weights(), group)
    torch.cuda.synchronize()
    time.sleep(60)
    print("nobody noticed", flush=True)


def training() -> None:
    """200 steps of a small model: programs are as close to eager torch as `torch.compile` is."""
    from training import compare_losses

    if torch.cuda.device_count() < dist.get_world_size():
        print("  training: torch's own collectives need a GPU for each rank", flush=True)
        return
    for dtype in (torch.float32, torch.bfloat16):
        told = compare_losses(200, "cuda", dtype)
        if dist.get_rank() == 0:
            print(f"  training, {dtype}: {told}", flush=True)


CASES = [
    (forward, 2, {}),
    (backward, 2, {}),
    (replays_of_two_ops, 2, {}),
    (compiled, 2, {}),
    (overlap_pass, 2, {}),
    (joined_products, 2, {}),
    (measured_pass, 2, {}),
    (linear_slots, 2, {}),
    (symmetric_memory, 2, {}),
    (training, 2, {}),
    (two_groups, 4, {}),
    (another_shape_each_time, 2, {}),
    (a_rank_is_killed, 2, {0: (1, "no sign of life"), 1: (-signal.SIGKILL, "")}),
    (a_rank_raises, 2, {0: (1, "its process has ended"), 1: (1, "this rank raises")}),
]


def run_rank(name: str, rank: int, world: int, store: str) -> None:
    """Runs a case as one of its ranks."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["HOSTIR_PEER_TIMEOUT"] = "4"
    torch.cuda.set_device(rank % torch.cuda.device_count())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= world else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
    globals()[name]()
    torch.cuda.synchronize()
    dist.barrier()
