"""The properties that a function and a program share if they are an op, and what is refused."""

import functools
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402

PRODUCT = hostir.parse("hir 2\nf(X: f32[n], Y: f32[n]) -> (Z: f32[n]):\n  Z = X * Y\n")
MATMUL = hostir.parse("hir 2\nf(X: f32[m, k], Y: f32[k, n]) -> (Z: f32[m, n]):\n  Z = matmul(X, Y)\n")
TWO = hostir.parse("hir 2\nf(X: f32[n], Y: f32[n]) -> (Z: f32[n], W: f32[n]):\n  Z = X + Y\n  W = X * Y\n")
SCALAR = "hir 2\nf(X: f32[n], DY: f32[n]) -> (DX: f32[n], DY2: f32[n]):\n  DX = DY * X\n  DY2 = DY * X\n"
XY = {"x": "X", "y": "Y"}


@hir.op("hostir_definitions::product", program=PRODUCT, args=XY, out="Z")
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y


def listed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x + y, x * y]


def paired(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + y, x * y


def optional(x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
    return x if y is None else x * y


def biased(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x * y + bias


def nothing(x: torch.Tensor, y: torch.Tensor) -> None:
    return None


IN_PLACE = hostir.parse("hir 2\nf(X: f32[n], Y: f32[n]) -> (X):\n  T = X * Y\n")
WRITTEN = [
    hostir.parse(f"hir 2\nf(X: f32[2, n], Y: f32[2, n]) -> (Z: f32[2, n]):\n  Z = X * Y\n{lines}")
    for lines in ("  X = Y * Y\n", "  X[1] = Y[0] * Y[0]\n", "  T: f32[2, 1, n] = alloc(share=X)\n  T[1] = Set(T[0])\n")
]
WRONG = [
    *((product.body, program, XY, "Z", "the program writes its input X", "T = Set(X)") for program in WRITTEN),
    (listed, TWO, XY, ["Z", "W"], "gives a result of type List[Tensor]", "tuple[torch.Tensor, torch.Tensor]"),
    (paired, TWO, XY, "Z", "has 2 results, but `out` names 1 outputs", "an output for each"),
    (product.body, TWO, XY, ["Z", "W"], "has 1 results, but `out` names 2 outputs", "an output for each"),
    (paired, TWO, XY, ["Z", "Z"], "names the output Z twice", "once"),
    (nothing, PRODUCT, XY, "Z", "has 0 results", "an output for each"),
    (optional, PRODUCT, XY, "Z", "the argument `y` is of type Optional[Tensor]", "one tensor for each input"),
    (biased, PRODUCT, XY, "Z", "no input of the program is the argument `bias`", "leave it out"),
    (product.body, IN_PLACE, XY, "X", "the output X is an input of the program, too", "Y = Set(X)"),
]


@pytest.mark.parametrize(("function", "program", "args", "out", "message", "note"), WRONG)
def test_a_function_and_a_program_that_do_not_fit(function, program, args, out, message, note):
    with pytest.raises(hostir.HostIrError) as caught:
        hir.op("hostir_definitions::wrong", program=program, args=args, out=out)(function)
    assert caught.value.code == "H0611"
    assert message in caught.value.message and note in caught.value.notes[0], str(caught.value)


@pytest.mark.parametrize("given", [{"args": {"x": "X", "dy": "DY"}}, {"out": {"x": "DX"}}])
def test_a_gradient_with_half_of_its_names(given):
    with pytest.raises(hostir.HostIrError, match="`backward` has `") as caught:
        product.backward(program=hostir.parse(SCALAR), **given)(lambda dy, x, y: (dy * y, dy * x))
    assert caught.value.code == "H0611"


def test_a_text_and_a_path_that_is_not_there():
    with pytest.raises(hostir.HostIrError, match="needs a path or a program") as caught:
        hir.op("hostir_definitions::text", program=str(PRODUCT), args=XY, out="Z")(product.body)
    assert "hostir.parse" in caught.value.notes[0]
    with pytest.raises(FileNotFoundError, match=r"no program `nowhere.hir` in .*tests"):
        hir.op("hostir_definitions::path", program="nowhere.hir", args=XY, out="Z")(product.body)


def test_an_op_is_defined_anew():
    """As a cell of a notebook that runs again."""
    for program, result in [(PRODUCT, 6.0), (hostir.parse(str(PRODUCT).replace("*", "+")), 5.0)]:

        @hir.op("hostir_definitions::cell", program=program, args=XY, out="Z")
        def cell(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y if result == 6.0 else x + y

        x = torch.full((3,), 2.0, requires_grad=True)
        found = cell(x, torch.full((3,), 3.0))
        found.sum().backward()
        assert found.tolist() == [result] * 3 and x.grad is not None
        assert torch.ops.hostir_definitions.cell(x, torch.full((3,), 3.0)).tolist() == [result] * 3
        cell.check(x.detach(), torch.ones(3))


def test_checkpoints_compute_results_again():
    y = torch.rand(4)
    for is_reentrant in (False, True):
        x = torch.rand(4, requires_grad=True)
        checkpoint(product, x, y, use_reentrant=is_reentrant).sum().backward()
        assert torch.equal(x.grad, y)


def test_check_compares_numbers():
    x = torch.tensor([1.0, float("nan")])
    product.check(x, x)
    product.check(torch.rand(3), torch.rand(3), rtol=1e-6)
    with FakeTensorMode(), pytest.raises(hostir.HostIrError, match="`x` is a FakeTensor"):
        product.check(torch.ones(3), torch.ones(3))
    with pytest.raises(hostir.HostIrError, match="`y` is a tensor of the meta device"):
        product.check(torch.ones(3), torch.ones(3, device="meta"))


SUMS = hostir.parse("hir 2\nf(X: bf16[n, k], Y: bf16[k, n]) -> (Z: bf16[n, n]):\n  Z = matmul(X, Y)\n")


def test_sixteen_bits_are_compared_by_the_largest_term():
    """Sums of large terms may be small: they are as wrong as the terms are."""
    noise = torch.zeros(64, 64)

    @hir.op("hostir_definitions::sums", program=SUMS, args=XY, out="Z")
    def sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.float() @ y.float() + noise).bfloat16()

    x, y = (torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)).bfloat16() for seed in (1, 2))
    largest = (x.float() @ y.float()).abs().max()
    # As a rounding of a term of the size of the largest result.
    noise.fill_(largest / 256)
    sums.check(x, y)
    noise.fill_(largest / 32)
    with pytest.raises(hostir.HostIrError, match="H0630"):
        sums.check(x, y)


def refused(code, message, call, *given, **named):
    with pytest.raises(hostir.HostIrError) as caught:
        call(*given, **named)
    assert caught.value.code == code and message in caught.value.message, str(caught.value)


def test_functions_that_are_no_ops():
    def keyword(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor: ...
    def anything(x: torch.Tensor, *y: torch.Tensor) -> torch.Tensor: ...
    def bare(x: torch.Tensor, y) -> torch.Tensor: ...
    def silent(x: torch.Tensor, y: torch.Tensor): ...

    for function, message in [
        (keyword, "the argument `y` is keyword-only"),
        (anything, "the argument `y` is variadic positional"),
        (bare, "the argument `y` has no annotation"),
        (silent, "the function does not say what it gives"),
    ]:
        refused("H0611", message, hir.op("hostir_definitions::no_op", program=MATMUL, args=XY, out="Z"), function)
    for name in ("no_namespace", "my lib::product", "lib::2"):
        refused("H0610", "is not the name of an op", hir.op(name, program=MATMUL, args=XY, out="Z"), times)


def test_arguments_that_are_no_tensors():
    x, y = torch.ones(3, 4), torch.ones(4, 5)
    refused("H0610", "`x` is of type NoneType, but needs a tensor", matmul, None, y)
    refused("H0610", "`y` is of type list, but needs a tensor", matmul, x, [1.0])


def test_what_the_oracle_finds_in_a_function():
    def changes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x @ y

    def nothing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return None

    def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y, x @ y

    for function, message in [
        (changes, "the function changes its argument `x`"),
        (nothing, "the function gives nothing, but says that it gives a tensor"),
        (two, "the function gives a tuple of Tensor, Tensor, but says that it gives a tensor"),
    ]:
        made = hir.op(f"hostir_definitions::{function.__name__}", program=MATMUL, args=XY, out="Z")(function)
        refused("H0611", message, made.check, torch.ones(3, 4), torch.ones(4, 5))


def test_the_oracle_allows_the_roundings_of_long_sums():
    generator = torch.Generator().manual_seed(1)
    for terms in (512, 8192):
        x, y = torch.randn(64, terms, generator=generator), torch.randn(terms, 64, generator=generator)
        matmul.check(x, y)
    wrong = hir.op("hostir_definitions::wrong_product", program=MATMUL, args=XY, out="Z")(one_term_less)
    refused("H0630", "differs from the body", wrong.check, x, y)


def times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


matmul = hir.op("hostir_definitions::matmul", program=MATMUL, args=XY, out="Z")(times)


def one_term_less(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x[:, 1:] @ y[1:]


def test_a_mesh_of_fewer_ranks_than_the_group():
    program = hostir.parse("hir 2\nmesh d = 0..2\n\nf(X: f32[x:2, n]) -> (Y: f32[x:2, n]) on d:\n  Y = relu(X)\n")

    @hir.op("hostir_definitions::of_two", program=program, args={"x": "X"}, out="Y")
    def of_two(x: torch.Tensor, group: str) -> torch.Tensor:
        return torch.relu(x)

    assert of_two.prove(world=2, sizes={"n": 4}).idle == ()
    refused("H0553", "the program uses 2 of 4 ranks", of_two.prove, 4, sizes={"n": 4})
    # In the printed form a mesh of numbers is usual.
    printed = hostir.parse(program.to_printed())
    of_two = hir.op("hostir_definitions::of_two", program=printed, args={"x": "T0"}, out="T1")(of_two.body)
    refused("H0614", "ranks 2, 3 of 4 hold no part of the program's inputs and outputs", of_two.prove, 4, sizes={"n": 4})


def test_gradients_that_no_output_is():
    made = hir.op("hostir_definitions::partly", program=MATMUL, args=XY, out="Z")(times)

    @made.backward(program=MATMUL, args={"dz": "X", "v": "Y"}, out={"x": "Z"})
    def _(dz: torch.Tensor, x: torch.Tensor, v: torch.Tensor) -> tuple:
        return dz @ v, x.t() @ dz

    message = "gives a gradient of `y`, but no output of its program is that"
    refused("H0630", message, made.check, torch.randn(3, 5), torch.randn(5, 5))


def test_fake_tensors_and_signs_that_are_not_applied_yet():
    with FakeTensorMode(), pytest.raises(hostir.HostIrError, match="FakeTensor"):
        PRODUCT.run({"X": torch.ones(2), "Y": torch.ones(2)})
    negative = torch.tensor([1 + 1j, 2 + 2j]).conj().imag
    assert negative.is_neg()
    assert PRODUCT.run({"X": negative, "Y": torch.ones(2)})["Z"].tolist() == [-1.0, -2.0]
    product.check(negative, torch.ones(2))


def test_sizes_of_a_proof_are_the_gradients_too():
    named = hostir.parse("hir 2\nf(X: f32[n, m], Y: f32[n, m]) -> (Z: f32[n, m]):\n  Z = X * Y\n")
    gradient = hostir.parse("hir 2\ng(D: f32[n], Y: f32[n]) -> (DX: f32[n]):\n  DX = D * Y\n")

    @hir.op("hostir_definitions::sized", program=named, args=XY, out="Z")
    def sized(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    @sized.backward(program=gradient)
    def _(dz: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return dz * y, dz * x

    assert sized.prove(1, sizes={"n": 3, "m": 4}).sizes == {"n": 3, "m": 4}


NAMED = hostir.parse("hir 2\nf(X: f32[m, k], W: f32[k, n]) -> (Y: f32[m, n]):\n  Y = matmul(X, W)\n")
OF_X = hostir.parse(
    "hir 2\ng(DY: f32[a, b], W: f32[c, b]) -> (DX: f32[a, c]):\n  T = Set.Permute(W, perm=[1, 0])\n  DX = matmul(DY, T)\n"
)


def scaled_matmul(name):
    """An op with an argument that is no tensor."""

    @hir.op(f"hostir_definitions::{name}", program=NAMED, args={"x": "X", "w": "W"}, out="Y")
    def made(x: torch.Tensor, w: torch.Tensor, s: float = 1.0) -> torch.Tensor:
        return x @ w

    return made


def of_x(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, s: float) -> tuple:
    return dy @ w.t(), None


def test_names_of_a_gradients_program_are_those_of_a_proof_too():
    made = scaled_matmul("proved")
    made.backward(program=OF_X, args={"dy": "DY", "w": "W"}, out={"x": "DX"})(of_x)
    assert made.prove(sizes={"m": 3, "k": 4, "n": 5, "a": 3, "b": 5, "c": 4}).ok
    assert made.prove(shapes={"X": (3, 4), "W": (4, 5), "DY": (3, 5)}).ok
    assert made.prove(shapes={"T0": (3, 4), "T1": (4, 5)}, sizes={"*": 7}).ok
    refused("H0610", "`world` is -1", made.prove, -1)
    refused("H0610", "`prove` takes `world`, not `devices`", made.prove, devices=4)


GRADIENTS = [
    ({"args": {"dy": "DY", "s": "W"}, "out": {"x": "DX"}}, "H0611", "`s` of `backward` is no tensor"),
    ({"args": {"dy": "DY", "w": "W"}, "out": {"x": "DX", "w": "DX"}}, "H0611", "`out` of `backward` names the output DX twice"),
    ({"args": {"dy": "DY", "w": "W"}, "out": {}}, "H0611", "names no gradient"),
    ({"args": {"dy": "DY", "w": "W"}, "out": "DX"}, "H0610", "`out` of `backward` is of type str"),
    ({"args": ["dy"], "out": {"x": "DX"}}, "H0610", "`args` of `backward` is of type list"),
    ({"program": None}, "H0610", "`program` of `backward` is of type NoneType"),
    (
        {"function": lambda dy, x: (dy, None)},
        "H0611",
        "the function of `backward` does not take 4 arguments: too many positional arguments",
    ),
    (
        {"args": {"dy": "DY", "more": "W"}, "out": {"x": "DX"}, "function": lambda dy, x, w, s, more=1: (dy, None)},
        "H0611",
        "`more` of `backward` is no tensor",
    ),
    ({"function": 7}, "H0610", "`backward` decorates a function"),
]


@pytest.mark.parametrize(("given", "code", "message"), GRADIENTS, ids=[message for _, _, message in GRADIENTS])
def test_gradients_that_cannot_be(given, code, message):
    settings = {"program": OF_X, "function": of_x, **given}
    function = settings.pop("function")
    made = scaled_matmul("cannot")
    refused(code, message, lambda: made.backward(**settings)(function))


SCALAR_INPUT = hostir.parse("hir 2\nf(a, X: f32[n]) -> (Y: f32[n]):\n  Y = X * f32(a)\n")
EXTENT_INPUT = hostir.parse("hir 2\nf(n, X: f32[n]) -> (Y: f32[n]):\n  Y = relu(X)\n")


def one_to_one(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def test_programs_that_no_call_could_run():
    name = "hostir_definitions::never"
    for program, args, out, message in (
        (SCALAR_INPUT, {"x": "X"}, "Y", "the program has the scalar input a"),
        (PRODUCT, {}, "Z", "`args` names no argument"),
        (PRODUCT, XY, (), "`out` names no output"),
    ):
        refused("H0611", message, lambda: hir.op(name, program=program, args=args, out=out)(one_to_one))
    message = "`out` names the output Z twice, also as T2"
    refused("H0611", message, lambda: hir.op(name, program=TWO, args=XY, out=("Z", "T2"))(paired))
    given = hir.op("hostir_definitions::extent", program=EXTENT_INPUT, args={"x": "X"}, out="Y")(one_to_one)
    given.check(torch.randn(5))
    twice = hostir.parse("hir 2\nf(n, X: f32[2*n]) -> (Y: f32[2*n]):\n  Y = relu(X)\n")
    message = "the program has the scalar input n"
    refused("H0611", message, lambda: hir.op(name, program=twice, args={"x": "X"}, out="Y")(one_to_one))
    tied = hostir.parse("hir 2\nf(m, X: f32[n]) -> (Y: f32[m]):\n  Y = relu(X)\n")
    hir.op("hostir_definitions::tied", program=tied, args={"x": "X"}, out="Y")(one_to_one).check(torch.randn(5))


def test_a_gradient_that_is_a_function_of_c():
    made = hir.op("hostir_definitions::of_c", program=RELU, args={"x": "X"}, out="Z")(one_to_one)
    made.backward(program=RELU)(torch.mul)
    x = torch.randn(4, requires_grad=True)
    made(x).sum().backward()
    assert torch.equal(x.grad, x.detach())


RACE = hostir.parse("hir 2\nf(X: f32[n]) -> (Y: f32[n]):\n  T = relu(X)\n  stream 1:\n    Y = T + T\n  sync 1\n")


def test_check_proves_first():
    """On the CPU this program happens to give the right numbers."""

    @hir.op("hostir_definitions::race", program=RACE, args={"x": "X"}, out="Y")
    def made(x: torch.Tensor) -> torch.Tensor:
        return 2 * torch.relu(x)

    refused("H0701", "race on T", made.check, torch.randn(8))


def test_functions_that_autograd_does_not_follow():
    @hir.op("hostir_definitions::by_numpy", program=RELU, args={"x": "X"}, out="Z")
    def made(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy()).relu()

    x = torch.randn(4, requires_grad=True)
    with pytest.warns(UserWarning, match="hostir_definitions::by_numpy: a result of the function does not depend on an argument"):
        made(x).sum().backward()
    assert not x.grad.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(x).sum().backward()


def with_dict(x: torch.Tensor, settings: dict) -> torch.Tensor:
    return x


def with_list(x: torch.Tensor, sizes: list[int] = [1]) -> torch.Tensor:  # noqa: B006
    return x


def with_infinity(x: torch.Tensor, least: float = float("-inf")) -> torch.Tensor:
    return x


def with_process_group(x: torch.Tensor, group: torch.distributed.ProcessGroup) -> torch.Tensor:
    return x


@pytest.mark.parametrize("function", [with_dict, with_list, with_infinity])
def test_arguments_that_torch_knows_no_type_of(function):
    define = hir.op("hostir_definitions::untyped", program=RELU, args={"x": "X"}, out="Z")
    refused("H0611", "torch can make no op of the function: ", define, function)


def test_a_group_that_is_no_name():
    define = hir.op("hostir_definitions::untyped", program=RELU, args={"x": "X"}, out="Z")
    # Older versions of torch do not say which one.
    refused("H0611", "annotation" if torch.__version__ < "2.10" else "the argument `group`", define, with_process_group)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_tensor_as_two_arguments(backend):
    """As tied weights are. Compilers take no tensor twice in functions of autograd."""
    run = torch.compile(lambda x: product(x, x) + product(x, x + 1), fullgraph=True, backend=backend)
    x = torch.randn(4, requires_grad=True)
    run(x).sum().backward()
    torch.testing.assert_close(x.grad, 4 * x.detach() + 1)


def refused_as(code, message, function, *args, **kwargs):
    with pytest.raises(hostir.HostIrError) as caught:
        function(*args, **kwargs)
    assert caught.value.code == code and message in str(caught.value), str(caught.value)


RELU = hostir.parse("hir 2\nf(X: f32[n]) -> (Z: f32[n]):\n  Z = relu(X)\n")
TWICE = hostir.parse("hir 2\nf(X: f32[n]) -> (Z: f32[n], W: f32[n]):\n  Z = relu(X)\n  W = Set(Z)\n")


def test_trailing_arguments_that_are_as_their_defaults():
    """Torch leaves them out when it calls kernels."""

    def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x * factor

    made = hir.op("hostir_definitions::scaled_by", program=RELU, args={"x": "X"}, out="Z")(scaled)

    @made.backward(program=RELU)
    def gradient(d: torch.Tensor, x: torch.Tensor, factor: float = 5.0) -> tuple[torch.Tensor]:
        return (d * factor,)

    for given, factor in (((), 2.0), ((2.0,), 2.0), ((3.0,), 3.0)):
        x = torch.ones(4, requires_grad=True)
        y = made(x, *given)
        y.sum().backward()
        assert y.tolist() == [factor] * 4 and x.grad.tolist() == [factor] * 4


def test_results_have_memory_of_their_own():
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x)
        return y, y

    made = hir.op("hostir_definitions::twice", program=TWICE, args={"x": "X"}, out=["Z", "W"])(twice)
    one, other = made(torch.ones(3))
    one.add_(100)
    assert other.tolist() == [1, 1, 1]
    torch.library.opcheck(torch.ops.hostir_definitions.twice.default, (torch.ones(3),))
    x = torch.ones(3)
    found = made.run_body(x=x)
    assert all(one.data_ptr() != x.data_ptr() for one in found)


def test_a_function_that_gives_a_list_for_a_tensor():
    def listed_alone(x: torch.Tensor) -> torch.Tensor:
        return [x.relu()]

    made = hir.op("hostir_definitions::listed_alone", program=RELU, args={"x": "X"}, out="Z")(listed_alone)
    for call in (made, made.check):
        refused_as("H0611", "gives a list of Tensor, but says that it gives a tensor", call, torch.ones(3))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_arguments_that_lie_column_by_column(backend):
    """Results and gradients lie row by row, whatever the arguments do."""

    def product_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    made = hir.op(f"hostir_definitions::turned_{backend}", program=MATMUL, args=XY, out="Z")(product_of)
    weight = torch.randn(5, 4, requires_grad=True)
    x = torch.randn(3, 4, requires_grad=True)
    wanted = torch.autograd.grad((x @ weight.t()).square().sum(), (x, weight))
    compiled = torch.compile(lambda x, w: made(x, w.t()), fullgraph=True, backend=backend)
    found = torch.autograd.grad(compiled(x, weight).square().sum(), (x, weight))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    overload = getattr(torch.ops.hostir_definitions, f"turned_{backend}_backward").default
    torch.library.opcheck(overload, ([torch.ones(3, 5)], torch.randn(4, 3).t(), torch.randn(5, 4).t()))


def again(factor):
    @hir.op("hostir_definitions::again", program=RELU, args={"x": "X"}, out="Z")
    def op(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return op


def test_an_op_that_is_held_while_it_is_defined_again():
    first = again(1.0)
    x = torch.ones(2, requires_grad=True)
    pending = first(x).sum()
    compiled = torch.compile(first, fullgraph=True, backend="eager")
    compiled(x)
    held = torch.ops.hostir_definitions.again.default
    ops = [again(float(factor)) for factor in range(2, 6)]
    for call in (first, ops[0], lambda x: first(x, out=torch.empty(2)), lambda x: pending.backward()):
        refused_as("H0614", "this op was replaced by one of the same name", call, x)
    with pytest.raises(Exception, match="this op was replaced"):
        compiled(x)
    # Torch's own handles call the last one.
    assert held(x).tolist() == ops[-1](x).tolist() == [5, 5]
    ops[-1](x).sum().backward()
    assert x.grad.tolist() == [5, 5]


def with_out(x: torch.Tensor, out: int) -> torch.Tensor:
    return x


def with_self(self: torch.Tensor) -> torch.Tensor:
    return self


async def later(x: torch.Tensor) -> torch.Tensor:
    return x


def yielding(x: torch.Tensor) -> torch.Tensor:
    yield x


NAMES = ["é", "class", "name", "__init__", "", "a-b", "a.b"]
OTHER_NAMES = ["alone", "::a", "a::", "import_module::a", "loaded_libraries::a", "higher_order::a", "a::_dir", 3, None]


@pytest.mark.parametrize("name", [*(f"hostir_definitions::{name}" for name in NAMES), *OTHER_NAMES])
def test_names_that_no_op_can_have(name):
    refused_as("H0610", "`", hir.op(name, program=RELU, args={"x": "X"}, out="Z"), product_alone)


def product_alone(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@pytest.mark.parametrize("name", ["hostir::region_00000000", "hostir::region_3f2a91c0_ab12cd", "hostir::region_3f2a91c01"])
def test_names_of_regions(name):
    with pytest.raises(hostir.HostIrError, match="is a name of regions of `Overlap`") as caught:
        hir.op(name, program=MATMUL, args=XY, out="Z")
    assert caught.value.code == "H0610" and caught.value.notes


def test_names_that_others_have():
    define = lambda name: hir.op(name, program=RELU, args={"x": "X"}, out="Z")(product_alone)  # noqa: E731
    define("hostir_definitions::taken")
    refused_as("H0610", "which another op has", define, "hostir_definitions::taken_backward")
    refused_as("H0610", "`hostir_definitions::late_backward` for its gradient, which another op has", _define_late, define)
    refused_as("H0610", "which another op has", define, "aten::relu")


def _define_late(define):
    define("hostir_definitions::late_backward")
    define("hostir_definitions::late")


class Callable:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_functions_and_settings_that_make_no_op():
    for function, args, message in [
        (with_out, {"x": "X"}, "has an argument `out`"),
        (with_self, {"self": "X"}, "has an argument `self`"),
        (later, {"x": "X"}, "is a coroutine"),
        (yielding, {"x": "X"}, "is a generator"),
    ]:
        refused_as("H0611", message, hir.op("hostir_definitions::wrong", program=RELU, args=args, out="Z"), function)
    for made in (Callable(), functools.partial(product_alone), None):
        refused_as(
            "H0610", "decorates a function", hir.op("hostir_definitions::wrong", program=RELU, args={"x": "X"}, out="Z"), made
        )
    for setting, value in [("program", None), ("args", None), ("args", ["x"]), ("out", None), ("out", [1])]:
        settings = {"program": RELU, "args": {"x": "X"}, "out": "Z", setting: value}
        refused_as("H0610", f"`{setting}` is of type", hir.op, "hostir_definitions::wrong", **settings)
    wrong = {"program": PRODUCT, "args": XY, "out": "Z", "tuning": "fast"}
    refused_as("H0610", "`tuning` is 'fast'", hir.op, "hostir_definitions::wrong", **wrong)


def test_gradients_that_a_function_gives_wrongly():
    made = hir.op("hostir_definitions::with_gradient", program=MATMUL, args=XY, out="Z")(times)
    x, y = torch.ones(3, 4, requires_grad=True), torch.ones(4, 5, requires_grad=True)
    for give, message in [
        (lambda d, x, y: d @ y.t(), "gives Tensor for 2 tensor arguments"),
        (lambda d, x, y: (d @ y.t(), None, None), "gives Tensor, NoneType, NoneType for 2"),
        (lambda d, x, y: None, "gives NoneType for 2"),
        (lambda d, x, y: (d, None), "has shape [3, 5], but the argument [3, 4]"),
    ]:
        made.backward(program=MATMUL)(give)
        refused_as("H0611", message, made(x, y).sum().backward)


def test_a_gradient_that_changes_its_arguments():
    gradient = hostir.parse("hir 2\nf(D: f32[n], X: f32[n]) -> (G: f32[n]):\n  G = D * X\n")
    made = hir.op("hostir_definitions::changes_gradient", program=RELU, args={"x": "X"}, out="Z")(product_alone)

    @made.backward(program=gradient, args={"d": "D", "x": "X"}, out={"x": "G"})
    def changes(d: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (d.mul_(10),)

    x = torch.ones(3)
    refused_as("H0611", "the function of `backward` changes its argument `d`", made.check, x)


def test_tolerances_that_are_none():
    for name, value in [("rtol", -1), ("atol", float("nan")), ("rtol", "a")]:
        message = f"`{name}` is {value!r}, which is no tolerance"
        refused_as("H0610", message, matmul.check, torch.ones(3, 4), torch.ones(4, 5), **{name: value})


def test_out_that_requires_a_gradient():
    x, y = torch.ones(3), torch.ones(3)
    out = torch.ones(3, requires_grad=True) * 1
    refused_as("H0610", "`out` requires a gradient", product, x, y, out=out)
    with torch.no_grad():
        product(x, y, out=out)
