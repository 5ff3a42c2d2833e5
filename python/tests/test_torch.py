"""Programs as ops of torch, on the CPU: one process, and groups of 2 and 4 processes over gloo."""

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
import torch_ranks as ranks  # noqa: E402
from rank_pool import start_ranks  # noqa: E402


@hir.op("hostir_tests::matmul", program="programs/matmul.hir", args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


@hir.op("hostir_tests::two_results", program="programs/two_results.hir", args={"x": "x"}, out=("a", "b"))
def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A result that is smooth, and one that is not."""
    return torch.relu(x), torch.exp(x)


def inputs():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 4, generator=generator), torch.randn(4, 5, generator=generator)


def test_an_op_computes_its_body():
    x, w = inputs()
    assert torch.equal(matmul(x, w), x @ w)
    assert torch.equal(torch.ops.hostir_tests.matmul(x, w), x @ w)
    assert matmul.__doc__ == "A product."
    assert "hostir_tests::matmul" in repr(matmul)


def test_torchs_own_checks_of_ops():
    x, w = inputs()
    torch.library.opcheck(torch.ops.hostir_tests.matmul.default, (x, w))
    torch.library.opcheck(torch.ops.hostir_tests.two_results.default, (x[0],))
    torch.library.opcheck(torch.ops.hostir_tests.matmul.into, (x, w), {"out": torch.empty(3, 5)})


def test_fake_tensors():
    with FakeTensorMode() as mode:
        x, w = (mode.from_tensor(tensor) for tensor in inputs())
        assert matmul(x, w).shape == (3, 5)
        assert [part.shape for part in two_results(x[0])] == [(4,), (4,)]


def test_gradients_are_the_bodys():
    x, w = (tensor.double().requires_grad_() for tensor in inputs())
    assert torch.autograd.gradcheck(matmul, (x, w))
    assert torch.autograd.gradcheck(two_results, (x[0].detach().requires_grad_(),))


def test_what_needs_no_gradient_gets_none():
    x, w = inputs()
    w.requires_grad_()
    matmul(x, w).sum().backward()
    assert x.grad is None
    torch.testing.assert_close(w.grad, x.T @ torch.ones(3, 5))
    with torch.no_grad():
        assert not matmul(x, w).requires_grad


def penalty(x, w, loss):
    (gradient,) = torch.autograd.grad(loss(matmul(x, w)).sum(), x, create_graph=True)
    return gradient.square().sum() + w.sum()


@pytest.mark.parametrize("loss", [torch.square, lambda y: y])
def test_a_second_derivative_is_an_error(loss):
    """Also of a loss that is linear in the result: its gradient depends on `w`. The sum beside it has a gradient anyhow."""
    x, w = (tensor.requires_grad_() for tensor in inputs())
    for differentiate in (
        lambda: penalty(x, w, loss).backward(),
        lambda: penalty(x, w, loss).backward(inputs=[w]),
        lambda: torch.autograd.grad(penalty(x, w, loss), w),
        lambda: torch.autograd.functional.hvp(lambda x: loss(matmul(x, x.t())).sum(), x, torch.ones_like(x)),
    ):
        with pytest.raises(hostir.HostIrError) as caught:
            differentiate()
        assert caught.value.code == "H0614"


def test_gradients_with_a_graph_may_be_changed_in_place():
    x, w = (tensor.requires_grad_() for tensor in inputs())
    (gradient,) = torch.autograd.grad(matmul(x, w).sum(), x, create_graph=True)
    wanted = gradient.detach() * 2
    gradient.mul_(2)
    torch.testing.assert_close(gradient.detach(), wanted)


def test_compiled_autograd_of_a_call_that_was_not_compiled():
    x, w = (tensor.requires_grad_() for tensor in inputs())
    y = matmul(x, w).sum()
    compiler = lambda module: torch.compile(module, backend="eager", fullgraph=True)  # noqa: E731
    with torch._dynamo.compiled_autograd._enable(compiler):
        y.backward()
    torch.testing.assert_close(x.grad, torch.ones(3, 5) @ w.detach().T)


@pytest.mark.parametrize(("backend", "dynamic"), [("eager", True), ("aot_eager", False), ("aot_eager", True), ("inductor", True)])
def test_compiled_without_graph_breaks(backend, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: matmul(x.sin(), w).cos().sum(), fullgraph=True, backend=backend, dynamic=dynamic)
    for rows in [3, 6]:
        x, w = inputs()
        x = x.repeat(rows // 3, 1).requires_grad_()
        w.requires_grad_()
        wanted = torch.autograd.grad((x.sin() @ w).cos().sum(), (x, w))
        found = torch.autograd.grad(compiled(x, w), (x, w))
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_out_in_a_graph(backend):
    """What `out=` writes is seen after the call, and so is what was written before."""
    torch._dynamo.reset()

    def run(x, w, out, pair):
        product = matmul(x + 1, w, out=out)
        a, b = two_results(product[0], out=pair)
        fresh = torch.empty(3, 5)
        matmul(x, w, out=fresh)
        return product.relu(), a + b, fresh.mul_(2)

    x, w = inputs()
    out, pair = torch.zeros(3, 5), (torch.zeros(5), torch.zeros(5))
    found = torch.compile(run, fullgraph=True, backend=backend)(x.requires_grad_(), w, out, pair)
    x.detach_()
    wanted = (x + 1) @ w
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(pair, (wanted[0].relu(), wanted[0].exp()))
    torch.testing.assert_close(found, (wanted.relu(), pair[0] + pair[1], 2 * (x @ w)))
    assert not out.requires_grad and not any(one.requires_grad for one in found)


@pytest.mark.parametrize("backend", ["none", "eager", "aot_eager", "inductor"])
def test_autocast_changes_no_op(backend):
    """The types of an op follow from its arguments, however it is called."""
    torch._dynamo.reset()
    x, w = (tensor.requires_grad_() for tensor in inputs())
    run = matmul if backend == "none" else torch.compile(lambda x, w: matmul(x, w), fullgraph=True, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(x, w)
        assert (x @ w).dtype == torch.bfloat16
        found.sum().backward()
        assert matmul.run_body(x, w).dtype == torch.float32
        assert matmul(x, w, out=torch.empty(3, 5)).dtype == torch.float32
        matmul.check(x, w)
        with FakeTensorMode() as mode:
            assert matmul(*(mode.from_tensor(tensor) for tensor in inputs())).dtype == torch.float32
    assert found.dtype == torch.float32 and torch.equal(found, x @ w)
    torch.testing.assert_close(x.grad, torch.ones(3, 5) @ w.T, rtol=1e-6, atol=1e-6)


def test_exports_of_autocast():
    class Layer(torch.nn.Module):
        def forward(self, x, w):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return matmul(x, w), x @ w

    exported = torch.export.export(Layer(), inputs())
    one, other = exported.module()(*inputs())
    assert (one.dtype, other.dtype) == (torch.float32, torch.bfloat16)
    names = [node.target for module in exported.graph_module.modules() for node in module.graph.nodes]
    assert names.count(torch.ops.hostir_tests.matmul.default) == 1
    assert len([name for name in names if "autocast" in str(name)]) == 1


def test_autocast_changes_no_gradient_of_ones_own():
    @hir.op("hostir_tests::autocast_gradient", program=matmul.program, args={"x": "x", "w": "w"}, out="y")
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    kinds = []

    @product.backward(program="programs/matmul.hir")
    def _(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple:
        kinds.append((dy @ w.T).dtype)
        return dy @ w.T, x.T @ dy

    x, w = (tensor.requires_grad_() for tensor in inputs())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product(x, w).sum().backward()
    assert kinds == [torch.float32]


def test_out():
    x, w = inputs()
    out = torch.empty(3, 5)
    assert matmul(x, w, out=out) is out
    assert torch.equal(out, x @ w)
    a, b = torch.empty(4), torch.empty(4)
    two_results(x[0], out=(a, b))
    assert torch.equal(a, torch.relu(x[0])) and torch.equal(b, torch.exp(x[0]))


def test_results_own_their_memory():
    @hir.op(
        "hostir_tests::same", program=hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = Set(x)\n"), args={"x": "x"}, out="y"
    )
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    x = torch.ones(3)
    same(x)[0] = 5
    assert x.tolist() == [1, 1, 1]


def test_the_oracle_of_one_rank():
    x, w = inputs()
    matmul.check(x, w)
    two_results.check(x[0])

    @hir.op("hostir_tests::twice", program=matmul.program, args={"x": "x", "w": "w"}, out="y")
    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return 2 * (x @ w)

    with pytest.raises(hostir.HostIrError, match="y of rank 0 differs from the body") as caught:
        twice.check(x, w)
    assert caught.value.code == "H0630"
    twice.check(x, w, rtol=0.6, atol=0)


def test_a_gradient_of_ones_own():
    @hir.op("hostir_tests::own_gradient", program=matmul.program, args={"x": "x", "w": "w"}, out="y")
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    @product.backward(program="programs/matmul.hir")
    def _(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple:
        return 3 * (dy @ w.T), None

    x, w = (tensor.requires_grad_() for tensor in inputs())
    product(x, w).sum().backward()
    torch.testing.assert_close(x.grad, 3 * torch.ones(3, 5) @ w.detach().T)
    assert not w.grad.any()
    assert product.backward_program is not None


def test_the_oracle_of_a_gradient():
    @hir.op("hostir_tests::checked_gradient", program=matmul.program, args={"x": "x", "w": "w"}, out="y")
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    factor = 1

    @product.backward(program="programs/matmul.hir", args={"dy": "x", "v": "w"}, out={"x": "y"})
    def _(dy: torch.Tensor, x: torch.Tensor, v: torch.Tensor) -> tuple:
        return factor * (dy @ v), None

    x, w = torch.randn(3, 5), torch.randn(5, 5)
    product.check(x, w)
    factor = 2
    with pytest.raises(hostir.HostIrError) as caught:
        product.check(x, w)
    assert caught.value.code == "H0630"
    assert "the gradient of `x` of rank 0 differs from the function of `backward`" in caught.value.message


def test_proofs(tutorial):
    assert ranks.gather_matmul_2.prove(world=2, sizes={"*": 4}).ranks == 2

    @hir.op("hostir_tests::race", program=tutorial / "race.hir", args={"x": "A", "w": "B"}, out="C")
    def race(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
        return x @ w

    with pytest.raises(hostir.HostIrError) as caught:
        race.prove(world=4)
    assert (caught.value.code, caught.value.line) == ("H0701", 12)
    assert caught.value.fixes


def test_passes_lower_a_program(examples):
    @hir.op("hostir_tests::lowered", program=examples / "ag_matmul.hir", args={"x": "x", "w": "w"}, out="y", passes="host-ir-lower")
    def lowered(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
        return x @ w

    assert lowered.prove(world=4).ok
    assert "recv(" in str(lowered.program)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"args": {"x": "x", "w": "v"}}, "has no input `v`"),
        ({"args": {"x": "x", "v": "w"}}, "has no argument `v`"),
        ({"args": {"x": "x"}}, "input w needs one argument"),
        ({"args": {"x": "x", "w": "T0"}}, "needs one argument"),
        ({"out": "z"}, "has no output `z`"),
    ],
)
def test_names_that_nothing_has(names, message):
    with pytest.raises(hostir.HostIrError, match=message) as caught:
        given = {"args": {"x": "x", "w": "w"}, "out": "y", **names}

        @hir.op("hostir_tests::unknown", program="programs/matmul.hir", **given)
        def unknown(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return x @ w

    assert caught.value.code == "H0611"


def test_wrong_programs_are_no_ops():
    with pytest.raises(hostir.HostIrError) as caught:
        program = hostir.parse("hir 2\nf(x: f32[4], z: f32[5]) -> (y: f32[4]):\n  y = x + z\n")

        @hir.op("hostir_tests::invalid", program=program, args={"x": "x", "z": "z"}, out="y")
        def invalid(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return x

    assert caught.value.line == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torchs_profiler_shows_calls(backend):
    torch._dynamo.reset()
    x, w = inputs()
    run = torch.compile(lambda x, w: matmul(x, w).cos(), fullgraph=True, backend=backend)
    run(x, w)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            run(x, w)
    assert [event.name for event in profile.events()].count("hostir_tests::matmul") == 3


def test_timelines_of_ops(tmp_path):
    x, w = ranks.random_inputs(0)
    chart = ranks.gather_matmul_2.timeline(tmp_path / "op.svg", x, w, "group", world=2)
    assert "timeline of 2 ranks" in chart and "all ranks together" in chart
    assert (tmp_path / "op.svg").read_text().startswith("<svg")
    for group in [(), (None,)]:
        assert ranks.gather_matmul_2.timeline(None, x, w, *group, world=2) == chart
    assert ranks.gather_matmul_2.timeline(None, x=x, w=w, world=2) == chart
    with pytest.raises(TypeError, match="'w'"):
        ranks.gather_matmul_2.timeline(None, x, world=2)
    with pytest.raises(TypeError, match="'group'"):
        ranks.gather_matmul_2.timeline(None, x, w)
    with pytest.raises(hostir.HostIrError, match="has the axes"):
        ranks.gather_matmul_2.timeline(None, x[0], w, "group", world=2)


def test_bfloat16_without_importing_more():
    program = hostir.parse("hir 2\nf(x: bf16[n]) -> (y: bf16[n]):\n  y = relu(x)\n")
    x = torch.tensor([1.0, -2, 3], dtype=torch.bfloat16, requires_grad=True)
    y = program.run({"x": x})["y"]
    assert torch.equal(torch.from_dlpack(y), torch.tensor([1.0, 0, 3], dtype=torch.bfloat16))


@pytest.mark.parametrize(
    "work",
    [
        ranks.forward_and_out,
        ranks.oracle,
        ranks.shared_verdicts,
        ranks.programs_of_ranks,
        ranks.oracle_of_a_gradient,
        ranks.gradients,
        ranks.export,
        ranks.no_group,
    ],
)
def test_two_ranks(work):
    start_ranks(work, 2)


@pytest.mark.parametrize("work", [ranks.two_groups, ranks.four_ranks, ranks.pushed_rows])
def test_four_ranks(work):
    start_ranks(work, 4)
