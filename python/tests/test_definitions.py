"""What a function and a program have to have in common to be an op, and what is refused."""

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
            return x * y if result == 6.0 else x + y  # noqa: B023

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
        (nothing, "the function gives NoneType, but says that it gives 1 tensor"),
        (two, "the function gives Tensor, Tensor, but says that it gives 1 tensor"),
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
