"""Ranks of tests: functions that processes run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch.distributed.device_mesh import init_device_mesh

import hostir
import hostir.torch as hir

PROGRAMS = Path(__file__).parent / "programs"


@contextmanager
def refused(code: str, message: str) -> Iterator[None]:
    """A part that a `HostIrError` ends."""
    with pytest.raises(hostir.HostIrError) as caught:
        yield
    assert caught.value.code == code and message in caught.value.message, str(caught.value)


def gather_rows(x: torch.Tensor, group: str) -> torch.Tensor:
    """The rows of all ranks. Older versions of torch differentiate only what has `autograd` in its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return fc.all_gather_tensor_autograd(x, 0, group)


@hir.op("hostir_tests::gather_matmul_2", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def gather_matmul_2(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The product of all ranks' rows."""
    return gather_rows(x, group) @ w


@hir.op("hostir_tests::gather_matmul_4", program="programs/gather_matmul_4.hir", args={"x": "T0", "w": "T1"}, out="C")
def gather_matmul_4(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The product of all ranks' rows."""
    return gather_rows(x, group) @ w


@hir.op("hostir_tests::push_gather_matmul", program="programs/push_gather_matmul.hir", args={"x": "A", "w": "B"}, out="C")
def push_gather_matmul(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """The product of all ranks' rows, which copy engines push."""
    return gather_rows(x, group) @ w


@hir.op("hostir_tests::wrong_order", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def wrong_order(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """A body that says something else than the program."""
    return gather_rows(x, group).flip(0) @ w


@hir.op("hostir_tests::with_mode", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def with_mode(x: torch.Tensor, w: torch.Tensor, mode: str, group: str) -> torch.Tensor:
    """An op with a text in front of its group."""
    return gather_rows(x, group) @ w


@hir.op("hostir_tests::with_gradient", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def with_gradient(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """An op whose gradient has a program, which `factor_of_gradient` makes right or wrong."""
    return gather_rows(x, group) @ w


factor_of_gradient = 1.0


@hir.op("hostir_tests::wrong_on_one_rank", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def wrong_on_one_rank(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """A body that says something else than the program on rank 1."""
    return gather_rows(x, group) @ w + dist.get_rank()


@wrong_on_one_rank.backward(
    program="programs/gather_matmul_gradient.hir", args={"dy": "DY", "x": "X", "w": "W"}, out={"w": "DW", "x": "DX"}
)
@with_gradient.backward(
    program="programs/gather_matmul_gradient.hir", args={"dy": "DY", "x": "X", "w": "W"}, out={"w": "DW", "x": "DX"}
)
def _(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, group: str) -> tuple[torch.Tensor, torch.Tensor]:
    dx = fc.reduce_scatter_tensor(dy @ w.T, "sum", 0, group)
    return factor_of_gradient * dx, fc.all_gather_tensor(x, 0, group).T @ dy


def random_inputs(rank: int, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """The rank's rows of x, and w, which all ranks share."""
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rank))
    w = torch.randn(4, 5, generator=torch.Generator().manual_seed(100))
    return x, w


def whole_product(ranks: list[int]) -> torch.Tensor:
    """The op's result on these ranks, without communication."""
    return torch.cat([random_inputs(rank)[0] for rank in ranks]) @ random_inputs(0)[1]


def forward_and_out(group: Any) -> None:
    rank = dist.get_rank()
    x, w = random_inputs(rank)
    torch.testing.assert_close(gather_matmul_2(x, w, group), whole_product([0, 1]))
    torch.testing.assert_close(gather_matmul_2(x, w=w, group=group.group_name), whole_product([0, 1]))
    mesh = init_device_mesh("cpu", (2,))
    torch.testing.assert_close(gather_matmul_2(x, w, mesh), whole_product([0, 1]))
    out = torch.empty(6, 5)
    assert gather_matmul_2(x, w, group, out=out) is out
    torch.testing.assert_close(out, whole_product([0, 1]))


@hir.op("hostir_tests::gather_matmul_optional", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def gather_matmul_optional(x: torch.Tensor, w: torch.Tensor, group: str | None = None) -> torch.Tensor:
    return gather_rows(x, group or dist.group.WORLD.group_name) @ w


def no_group(group: Any) -> None:
    """None is the default group, also where the annotation allows it."""
    x, w = random_inputs(dist.get_rank())
    for given in ((x, w), (x, w, None), (x, w, group)):
        gather_matmul_optional.check(*given)
        torch.testing.assert_close(gather_matmul_optional(*given), gather_matmul_2(x, w, group))


def oracle(group: Any) -> None:
    x, w = random_inputs(dist.get_rank())
    gather_matmul_2.check(x, w, group)
    with refused("H0630", "C of rank"):
        wrong_order.check(x, w, group)
    x, w = random_inputs(dist.get_rank(), rows=3 + dist.get_rank())
    with refused("H0610", "`x` is [3, 4] of torch.float32 on rank 0, but [4, 4]"):
        gather_matmul_2.check(x, w, group)
    # All ranks are told of one that has no numbers.
    x, w = random_inputs(dist.get_rank())
    with refused("H0610", "`x` is a tensor of the meta device on rank 1, but `check` needs a tensor with numbers"):
        gather_matmul_2.check(x if dist.get_rank() == 0 else x.to("meta"), w, group)


@hir.op("hostir_tests::failing", program="programs/gather_matmul_2.hir", args={"x": "A", "w": "B"}, out="C")
def failing_on_one_rank(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    """A body that fails on rank 1, after its collective."""
    y = gather_rows(x, group) @ w
    if dist.get_rank() == 1:
        raise ValueError("no more")
    return y


def shared_verdicts(group: Any) -> None:
    """All ranks raise if one has to: they meet in the next comparison."""
    rank = dist.get_rank()
    x, w = random_inputs(rank)
    place = "" if rank == 1 else "`check` has failed on rank 1: "
    with refused("H0610", f"{place}`rtol` is -1, which is no tolerance"):
        gather_matmul_2.check(x, w, group, rtol=0.1 if rank == 0 else -1)
    with pytest.raises(ValueError, match="no more") if rank == 1 else refused("H0530", f"{place}ValueError: no more"):
        failing_on_one_rank.check(x, w, group)
    with refused("H0630", "C of rank 1 differs from the body"):
        wrong_on_one_rank.check(x, w, group)
    gather_matmul_2.check(x, w, group)


def programs_of_ranks(group: Any) -> None:
    """An override on one rank alone is told on all."""
    hir.linear.use(hir.Overlap(choose="always"))
    x, w = torch.randn(4, 34), torch.randn(6, 34)
    hir.linear.all_gather(x, w, group)
    hir.linear.all_gather(x[:2], w, group)
    hir.linear.check()
    name, made = sorted(hir.linear.report().programs.items())[0]
    other = made.plain.run_passes("host-ir-lower")
    if dist.get_rank() == 1:
        hir.override(name, other)
    with refused("H0614", "rank 1 has another program than rank 0"):
        hir.linear.check()
    if dist.get_rank() == 0:
        hir.override(name, other)
    hir.linear.check()
    hir.override(name, None)


def oracle_of_a_gradient(group: Any) -> None:
    global factor_of_gradient
    x, w = random_inputs(dist.get_rank())
    with_gradient.check(x, w, group)
    # The rank that finds a difference leaves the other one in nothing that waits for it, and tells it.
    with refused("H0630", "C of rank 1 differs from the body"):
        wrong_on_one_rank.check(x, w, group)
    factor_of_gradient = 2.0
    with refused("H0630", f"the gradient of `x` of rank {dist.get_rank()} differs from the function of `backward`"):
        with_gradient.check(x, w, group)
    factor_of_gradient = 1.0


def gradients_of_body(x: torch.Tensor, w: torch.Tensor, group: Any) -> tuple[torch.Tensor, ...]:
    """Gradients of all ranks' sums of squares together, as autograd of the body has them."""
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    (gather_rows(torch.relu(x), group.group_name) @ w).square().sum().backward()
    return (x.grad, w.grad)


def gradients(group: Any) -> None:
    x, w = random_inputs(dist.get_rank())
    wanted = gradients_of_body(x, w, group)
    # Both ranks have the whole product, so a rank's rows count twice: 2 * 2 * (x @ w) @ w.T, where relu lets them through.
    rows = torch.relu(x)
    torch.testing.assert_close(wanted[0], 2 * 2 * (rows @ w) @ w.T * (x > 0))
    loss = lambda x, w: gather_matmul_2(torch.relu(x), w, group).square().sum()  # noqa: E731
    for backend in ["eager", "aot_eager", "inductor"]:
        torch._dynamo.reset()
        followed = [tensor.clone().requires_grad_() for tensor in (x, w)]
        compiled = loss if backend == "eager" else torch.compile(loss, fullgraph=True, backend=backend)
        compiled(*followed).backward()
        for tensor, gradient in zip(followed, wanted):
            torch.testing.assert_close(tensor.grad, gradient)


def two_groups(_world: Any) -> None:
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    x, w = random_inputs(rank)
    neighbours = [rank // 2 * 2, rank // 2 * 2 + 1]
    torch.testing.assert_close(gather_matmul_2(x, w, mesh["inner"]), whole_product(neighbours))
    across = [rank % 2, rank % 2 + 2]
    torch.testing.assert_close(gather_matmul_2(x, w, mesh["outer"]), whole_product(across))
    gather_matmul_2.check(x, w, mesh["outer"])
    # A text that is the name of a group, of that of all ranks, does not name the op's.
    with_mode.check(x, w, dist.group.WORLD.group_name, mesh["outer"])
    with refused("H0610", "`group` is 'nobody'"):
        with_mode.check(x, w, "fast", "nobody")
    compiled = torch.compile(
        lambda x, w: gather_matmul_2(x, w, mesh["inner"]) + gather_matmul_2(x, w, mesh["outer"]),
        fullgraph=True,
        backend="aot_eager",
    )
    torch.testing.assert_close(compiled(x, w), whole_product(neighbours) + whole_product(across))


def four_ranks(group: Any) -> None:
    x, w = random_inputs(dist.get_rank())
    torch.testing.assert_close(gather_matmul_4(x, w, group), whole_product([0, 1, 2, 3]))
    gather_matmul_4.check(x, w, group)
    # A program of two ranks.
    with pytest.raises(hostir.HostIrError):
        gather_matmul_2.check(x, w, group)


class Layer(torch.nn.Module):
    """A module with an op in it."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(random_inputs(0)[1])
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gather_matmul_2(x, self.weight, self.group)


def export(group: Any) -> None:
    x, _ = random_inputs(dist.get_rank())
    exported = torch.export.export(Layer(group.group_name), (x,))
    ops = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert ops == [torch.ops.hostir_tests.gather_matmul_2.default], ops
    torch.testing.assert_close(exported.module()(x).detach(), whole_product([0, 1]))


def pushed_rows(group: Any) -> None:
    x, w = random_inputs(dist.get_rank())
    push_gather_matmul.prove(world=4)
    push_gather_matmul.check(x, w, group)
    torch.testing.assert_close(push_gather_matmul(x, w, group), whole_product([0, 1, 2, 3]))


def transforms(group: Any) -> None:
    x, w = random_inputs(dist.get_rank())
    wanted = gradients_of_body(x, w, group)
    found = torch.func.grad(lambda x, w: gather_matmul_2(torch.relu(x), w, group).square().sum(), (0, 1))(x, w)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other)
    samples = torch.func.vmap(lambda x: gather_matmul_2(x, w, group))(torch.stack([x, 2 * x]))
    torch.testing.assert_close(samples, torch.stack([whole_product([0, 1]), 2 * whole_product([0, 1])]))
