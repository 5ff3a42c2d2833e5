"""Calls past torch's dispatcher: which go there, with what, and which torch has to see. Sessions are stand-ins."""

import gc

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
from hostir import _native  # noqa: E402
from hostir.torch._direct import make_dispatcher  # noqa: E402

PRODUCT = hostir.parse("hir 2\nf(x: f32[m, k], w: f32[k, n]) -> (y: f32[m, n]):\n  y = matmul(x, w)\n")


class Session:
    """Notes the runs; the results keep the number that marks a run past torch's dispatcher."""

    def __init__(self):
        self.runs = []

    def run(self, stream, addresses):
        self.runs.append((stream, list(addresses)))


class Prepared:
    def __init__(self):
        self.session = Session()


def make_op(name, *others):
    """An op whose calls with these tensors are prepared, and the stand-in of its session."""

    @hir.op(f"hostir_direct::{name}", program=PRODUCT, args={"x": "x", "w": "w"}, out="y")
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    x, w = torch.rand(3, 4), torch.rand(4, 5)
    prepared = Prepared()
    product._sessions.dispatcher.insert((x, w), others, prepared, [((3, 5), (5, 1), torch.float32)])
    return product, x, w, prepared.session


pytestmark = pytest.mark.usefixtures("streams_of_no_gpu")


@pytest.fixture(scope="module")
def op(streams_of_no_gpu):
    return make_op("product")


@pytest.fixture(autouse=True)
def no_runs(op):
    op[3].runs.clear()


def test_a_prepared_call_enqueues_addresses(op):
    product, x, w, session = op
    y = product(x, w)
    assert session.runs == [(0, [x.data_ptr(), w.data_ptr(), y.data_ptr()])]
    assert (y.shape, y.stride(), y.dtype, y.device, type(y)) == ((3, 5), (5, 1), torch.float32, x.device, torch.Tensor)
    assert not y.requires_grad


def test_torch_has_the_exchange_api(op):
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    # Packages may add it to older ones.
    assert op[0]._sessions.dispatcher.has_exchange_api or version < (2, 10)


def test_results_go_into_out(op):
    product, x, w, session = op
    out = torch.zeros(3, 5)
    version = out._version
    assert product(x, w, out=out) is out
    assert session.runs == [(0, [x.data_ptr(), w.data_ptr(), out.data_ptr()])]
    assert out._version == version + 1
    with torch.inference_mode():
        product(x, w, out=torch.zeros(3, 5))
    assert len(session.runs) == 2
    turned = torch.zeros(5, 3).t()
    product(x, w, out=turned)
    assert len(session.runs) == 2 and torch.equal(turned, x @ w)


@pytest.mark.parametrize("shapes", [((3, 4), (4, 6)), ((2, 4), (4, 5))])
def test_other_shapes_are_not_prepared(op, shapes):
    product, _, _, session = op
    x, w = (torch.rand(shape) for shape in shapes)
    assert torch.equal(product(x, w), x @ w) and not session.runs


def test_other_layouts_are_not_prepared(op):
    product, x, w, session = op
    for other in [x.t().contiguous().t(), x[:1].expand(3, 4), torch.rand(3, 8)[:, ::2], x.double()]:
        product(other, w.to(other.dtype))
    assert not session.runs
    # Another place is the same layout.
    product(torch.rand(6, 4)[3:], w)
    assert len(session.runs) == 1


def test_autograd_follows(op):
    product, x, w, session = op
    x = x.clone().requires_grad_()
    # The op's own forward is below autograd.
    y = product(x, w)
    assert y.requires_grad and len(session.runs) == 1
    with torch.no_grad():
        assert not product(x, w).requires_grad
    parameter = torch.nn.Parameter(x.detach().clone())
    assert product(parameter, w).requires_grad
    with torch.inference_mode():
        assert product(parameter, w).is_inference()
    assert len(session.runs) == 4
    with pytest.raises(hostir.HostIrError, match="`out` requires a gradient"):
        product(x, w, out=torch.zeros(3, 5, requires_grad=True))


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.ops.append(function)
        return function(*args, **(kwargs or {}))


class Above(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_modes_see_the_op(op):
    product, x, w, session = op
    with Seen() as below:
        product(x, w)
    with Above() as above:
        product(x, w)
    default = torch.ops.hostir_direct.product.default
    assert default in below.ops and default in above.seen and not session.runs


def test_fake_tensors_and_proxies_see_the_op(op):
    product, x, w, session = op
    with FakeTensorMode() as mode:
        assert product(mode.from_tensor(x), mode.from_tensor(w)).shape == (3, 5)
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x, w: product(x, w) + 1)(x, w)
    assert torch.ops.hostir_direct.product.default in [node.target for node in graph.graph.nodes]
    # After the tracing, the graph calls torch's op.
    assert torch.equal(graph(x, w), x @ w + 1) and not session.runs


def test_export_sees_the_op(op):
    product, x, w, session = op

    class Module(torch.nn.Module):
        def forward(self, x, w):
            return product(x, w).relu()

    for strict in [True, False]:
        graph = torch.export.export(Module(), (x, w), strict=strict).graph
        assert torch.ops.hostir_direct.product.default in [node.target for node in graph.nodes]
    assert not session.runs


def test_compilers_see_the_op(op):
    product, x, w, session = op
    torch._dynamo.reset()
    graphs = []

    def backend(module, _):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(lambda x, w: product(x, w).relu(), fullgraph=True, backend=backend)
    assert torch.equal(compiled(x, w), (x @ w).relu())
    assert torch.ops.hostir_direct.product.default in [node.target for node in graphs[0].graph.nodes]
    assert not session.runs


def test_functionalization_sees_the_op(op):
    product, x, w, session = op
    y = torch.func.functionalize(lambda x, w: product(x, w))(x, w)
    assert torch.equal(y, x @ w) and not session.runs
    # Wrapped by hand, outside of any transform.
    wrapped = [torch._to_functional_tensor(tensor) for tensor in (x, w)]
    torch._enable_functionalization(reapply_views=True)
    try:
        result = product(*wrapped)
    finally:
        torch._disable_functionalization()
    assert torch._is_functional_tensor(result) and not session.runs


def test_forward_derivatives_and_transforms_see_the_op(op):
    product, x, w, session = op
    with forward_ad.dual_level():
        with pytest.raises(hostir.HostIrError, match="no forward-mode derivative"):
            product(forward_ad.make_dual(x, x), w)
        assert torch.equal(product(x, w), x @ w)
    with pytest.raises(hostir.HostIrError, match="no forward-mode derivative"):
        torch.func.jvp(product, (x, w), (x, w))
    assert not session.runs
    # Below the transforms the calls are plain again.
    torch.func.vjp(product, x, w)
    torch.func.vmap(product, (0, None))(torch.stack([x, x]), w)
    assert len(session.runs) == 3


def test_traces_see_the_op(op):
    product, x, w, session = op
    traced = torch.jit.trace(lambda x, w: product(x, w), (x, w), check_trace=False)
    assert "hostir_direct::product" in str(traced.graph) and not session.runs


def test_profiles_see_the_op(op):
    product, x, w, session = op
    with torch.profiler.profile() as profile:
        product(x, w)
    assert "hostir_direct::product" in {event.key for event in profile.key_averages()} and not session.runs


def test_pending_signs_are_resolved(op):
    product, x, w, session = op
    negative = torch._neg_view(x)
    assert torch.equal(product(negative, w), -(x @ w)) and not session.runs


class Subclass(torch.Tensor):
    pass


def test_subclasses_go_through_torch(op):
    product, x, w, session = op
    result = product(x.as_subclass(Subclass), w)
    assert torch.equal(torch.Tensor(result), x @ w) and not session.runs


def test_storage_that_was_given_back_is_no_argument(op):
    product, x, w, session = op
    gone = x.clone()
    gone.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError):
        product(gone, w)
    assert not session.runs


def test_signs_that_are_not_applied_yet(op):
    """The numbers of an imaginary part of a conjugate are those in memory with the other sign."""
    product, _, w, _ = make_op("negative")
    complex_numbers = torch.rand(3, 4, dtype=torch.complex64)
    plain, negative = complex_numbers.imag, complex_numbers.conj().imag
    prepared = Prepared()
    product._sessions.dispatcher.insert((plain, w), (), prepared, [((3, 5), (5, 1), torch.float32)])
    product(plain, w)
    assert len(prepared.session.runs) == 1 and negative.stride() == plain.stride()
    torch.testing.assert_close(product(negative, w), -plain @ w)
    assert len(prepared.session.runs) == 1


def test_plain_arguments_are_compared_with_their_types():
    dispatcher = make_dispatcher([0])
    x = torch.ones(2)
    by_value = {}
    for value in [1, 1.0, True, "1", None]:
        by_value[type(value)] = Prepared()
        dispatcher.insert((x,), (value,), by_value[type(value)], [((2,), (1,), torch.float32)])
    for value in [True, None, 1.0, "1", 1]:
        assert dispatcher.call((x, value)) is not None
        assert [kind for kind, prepared in by_value.items() if prepared.session.runs] == [type(value)]
        by_value[type(value)].session.runs.clear()
    assert dispatcher.call((x, 2)) is None
    assert dispatcher.call((x, object())) is None


def test_the_least_recently_used_is_named_first():
    dispatcher = make_dispatcher([0])
    prepared = [Prepared() for _ in range(3)]
    for count, one in enumerate(prepared):
        dispatcher.insert((torch.ones(count + 1),), (), one, [((1,), (1,), torch.float32)])
    assert dispatcher.prepared() == prepared
    assert dispatcher.run([torch.ones(1)], ()) is not None
    assert dispatcher.prepared() == [prepared[1], prepared[2], prepared[0]]
    dispatcher.remove(prepared[1])
    assert dispatcher.prepared() == [prepared[2], prepared[0]]
    assert dispatcher.run([torch.ones(2)], ()) is None


def test_several_results_are_a_tuple():
    dispatcher = make_dispatcher([0])
    prepared, x = Prepared(), torch.ones(2)
    dispatcher.insert((x,), (), prepared, [((2,), (1,), torch.float32), ((), (), torch.int64)])
    a, b = dispatcher.call((x,))
    assert (a.dtype, b.dtype, b.shape) == (torch.float32, torch.int64, ())
    assert prepared.session.runs == [(0, [x.data_ptr(), a.data_ptr(), b.data_ptr()])]


def test_an_error_of_a_run_is_the_calls():
    class Broken:
        def run(self, stream, addresses):
            raise OSError("broken")

    dispatcher = make_dispatcher([0])
    prepared, x = Prepared(), torch.ones(2)
    prepared.session = Broken()
    dispatcher.insert((x,), (), prepared, [((2,), (1,), torch.float32)])
    with pytest.raises(OSError, match="broken"):
        dispatcher.call((x,))


class Foreign:
    """A tensor without the exchange API, as those of older versions of torch."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.requires_grad = False

    def __getattr__(self, name):
        return getattr(self.tensor, name)


def test_tensors_without_the_exchange_api_are_read_by_attributes():
    functions = {
        "tensors": [Foreign],
        "empty_strided": lambda *args, **options: Foreign(torch.empty_strided(*args, **options)),
        "is_grad_enabled": torch.is_grad_enabled,
        "current_stream": lambda device: 7 + device,
        "increment_version": lambda tensor: None,
        "inactive": [],
    }
    dispatcher = _native.Dispatcher(functions, [0])
    assert not dispatcher.has_exchange_api
    prepared, x = Prepared(), Foreign(torch.ones(2, 3).t())
    dispatcher.insert((x,), (), prepared, [((3, 2), (2, 1), torch.float32)])
    y = dispatcher.call((x,))
    assert prepared.session.runs == [(7, [x.data_ptr(), y.data_ptr()])]
    assert dispatcher.call((Foreign(torch.ones(3, 2)),)) is None
    gone = Foreign(torch.ones(2, 3).t())
    gone.tensor.untyped_storage().resize_(0)
    assert dispatcher.call((gone,)) is None


def test_dispatchers_hold_nothing_of_a_call():
    dispatcher = make_dispatcher([0])
    prepared, x = Prepared(), torch.ones(2)
    dispatcher.insert((x,), (), prepared, [((2,), (1,), torch.float32)])
    before = len(gc.get_objects())
    for _ in range(1000):
        dispatcher.call((x,))
        prepared.session.runs.clear()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
