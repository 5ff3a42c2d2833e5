"""Ops under the transforms of `torch.func` and forward-mode derivatives; expected values are those of plain torch."""

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad  # noqa: E402
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
import torch_ranks as ranks  # noqa: E402
from rank_pool import start_ranks  # noqa: E402


@hir.op("hostir_transforms::matmul", program="programs/matmul.hir", args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


@hir.op("hostir_transforms::two_results", program="programs/two_results.hir", args={"x": "x"}, out=("a", "b"))
def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results."""
    return torch.relu(x), torch.exp(x)


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def w():
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(1))


def dual(x, w):
    with forward_ad.dual_level():
        return matmul(forward_ad.make_dual(x, x), w)


FORWARD = {
    "jvp": lambda x, w: jvp(matmul, (x, w), (x, w)),
    "jvp of one": lambda x, w: jvp(lambda x: matmul(x, w), (x,), (x,)),
    "two results": lambda x, w: jvp(two_results, (x[0],), (x[0],)),
    "by keyword": lambda x, w: jvp(lambda x: matmul(x, w=w), (x,), (x,)),
    "out": lambda x, w: jvp(lambda x: matmul(x, w, out=torch.empty(3, 5)), (x,), (x,)),
    "jacfwd": lambda x, w: jacfwd(lambda x: matmul(x, w))(x),
    "hessian": lambda x, w: hessian(lambda x: matmul(x, w).square().sum())(x),
    "jvp of grad": lambda x, w: jvp(grad(lambda x: matmul(x, w).square().sum()), (x,), (x,)),
    "grad of jvp": lambda x, w: grad(lambda x: jvp(lambda x: matmul(x, w), (x,), (x,))[1].sum())(x),
    "jvp of vmap": lambda x, w: jvp(vmap(matmul, (0, None)), (x[None], w), (x[None], w)),
    "vmap of jvp": lambda x, w: vmap(lambda x: jvp(lambda x: matmul(x, w), (x,), (x,))[1])(x[None]),
    "dual numbers": dual,
    "followed": lambda x, w: dual(x.requires_grad_(), w),
    "compiled": lambda x, w: torch.compile(lambda x: jvp(lambda x: matmul(x, w), (x,), (x,))[1], backend="eager")(x),
}


@pytest.mark.parametrize("call", FORWARD.values(), ids=FORWARD)
def test_forward_mode_is_refused(call, x, w):
    torch._dynamo.reset()
    with pytest.raises(hostir.HostIrError, match="has no forward-mode derivative") as caught:
        call(x, w)
    assert caught.value.code == "H0614" and "vjp" in caught.value.notes[0]


def dual_gradient(x, w):
    y = matmul(x.requires_grad_(), w)
    with forward_ad.dual_level():
        return torch.autograd.grad(y, x, forward_ad.make_dual(torch.ones(3, 5), torch.ones(3, 5)))


SECOND = {
    "dual gradient": dual_gradient,
    "grad of grad": lambda x, w: grad(lambda x: grad(lambda x: matmul(x, w).square().sum())(x).sum())(x),
    "by the gradient alone": lambda x, w: grad(lambda w: vjp(lambda x: matmul(x, w), x)[1](torch.ones(3, 5))[0].sum())(w),
    "jvp of grad": lambda x, w: jvp(lambda w: vjp(lambda x: matmul(x, w), x)[1](torch.ones(3, 5))[0], (w,), (w,)),
    "jacrev twice": lambda x, w: jacrev(jacrev(lambda x: matmul(x, w).square().sum()))(x),
}


@pytest.mark.parametrize("call", SECOND.values(), ids=SECOND)
def test_a_second_derivative_is_refused(call, x, w):
    with pytest.raises(hostir.HostIrError, match="derivative") as caught:
        call(x, w)
    assert caught.value.code == "H0614" and ".body" in caught.value.notes[0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_compilers_refuse_a_second_derivative(is_whole, x, w):
    """They would take it for zeros."""
    torch._dynamo.reset()
    twice = grad(lambda x: grad(lambda x: matmul(x, w).square().sum())(x).sum())
    with pytest.raises(Exception, match="H0614.*is differentiated, but has no derivative"):
        torch.compile(twice, backend="eager", fullgraph=is_whole)(x)


def test_arguments_without_tangents_are_no_matter(x, w):
    with forward_ad.dual_level():
        assert torch.equal(matmul(x, w), x @ w)
    assert torch.equal(jvp(lambda v: v + matmul(x, w).sum(), (x,), (x,))[1], x)
    with forward_ad.dual_level(), forward_ad._set_fwd_grad_enabled(False):
        assert torch.equal(matmul(x, w), x @ w)


def test_gradients_by_transforms(x, w):
    op, plain = (lambda x, w: (matmul(x.sin(), w) ** 2).sum()), (lambda x, w: ((x.sin() @ w) ** 2).sum())
    for one, other in zip(grad(op, (0, 1))(x, w), grad(plain, (0, 1))(x, w)):
        torch.testing.assert_close(one, other)
    found, back = vjp(matmul, x, w)
    assert torch.equal(found, x @ w)
    for one, other in zip(back(torch.ones(3, 5)), (torch.ones(3, 5) @ w.T, x.T @ torch.ones(3, 5))):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(grad(lambda x: two_results(x)[1].sum())(x[0]), x[0].exp())


@pytest.mark.parametrize("chunk", [None, 1])
def test_jacobians(chunk, x, w):
    for op, plain in [(matmul, torch.matmul), (lambda x, w: two_results(x[0])[1], lambda x, w: x[0].exp())]:
        for one, other in zip(jacrev(op, (0, 1), chunk_size=chunk)(x, w), jacrev(plain, (0, 1))(x, w)):
            torch.testing.assert_close(one, other)


def test_samples(x, w):
    batch = torch.stack([x, 2 * x])
    torch.testing.assert_close(vmap(matmul, (0, None))(batch, w), batch @ w)
    torch.testing.assert_close(vmap(matmul, (2, None), 1)(batch.movedim(0, 2), w), (batch @ w).movedim(0, 1))
    one, other = vmap(two_results)(x)
    assert torch.equal(one, torch.relu(x)) and torch.equal(other, torch.exp(x))
    with pytest.raises(hostir.HostIrError, match="no samples"):
        vmap(matmul, (0, None))(batch[:0], w)
    nested = vmap(vmap(matmul, (0, None)), (0, None))(batch[None], w)
    torch.testing.assert_close(nested, (batch @ w)[None])


def test_gradients_of_samples(x, w):
    batch = torch.stack([x, 2 * x])
    op, plain = (lambda x, w: matmul(x, w).square().sum()), (lambda x, w: (x @ w).square().sum())
    wanted = vmap(grad(plain), (0, None))(batch, w)
    torch.testing.assert_close(vmap(grad(op), (0, None))(batch, w), wanted)
    torch.testing.assert_close(grad(lambda x: vmap(op, (0, None))(x, w).sum())(batch), wanted)
    followed = batch.clone().requires_grad_()
    vmap(op, (0, None))(followed, w).sum().backward()
    torch.testing.assert_close(followed.grad, wanted)


def test_compiled_transforms(x, w):
    torch._dynamo.reset()
    found = torch.compile(lambda x, w: grad(lambda x: matmul(x, w).square().sum())(x), backend="aot_eager")(x, w)
    torch.testing.assert_close(found, 2 * (x @ w) @ w.T)
    batch = torch.stack([x, 2 * x])
    torch.testing.assert_close(torch.compile(vmap(matmul, (0, None)), backend="aot_eager")(batch, w), batch @ w)


def test_other_transforms(x, w):
    assert torch.equal(torch.func.functionalize(matmul)(x, w), x @ w)
    with pytest.raises(RuntimeError, match="Functionalize rule"):
        grad(torch.func.functionalize(lambda x: matmul(x, w).sum()))(x)


def test_ranks():
    start_ranks(ranks.transforms, 2)
