"""Messages about wrong arguments of ops, slots and groups: the argument, what is needed, and the repair."""

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Shard  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
import torch_ranks as ranks  # noqa: E402


@pytest.fixture
def group():
    """A group of four ranks that exists for shapes only."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield dist.group.WORLD
    dist.destroy_process_group()


def ones(*shape):
    return torch.ones(shape)


def refusal(call, *args, **kwargs):
    """The message and the note of what is refused."""
    with pytest.raises(hostir.HostIrError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == "H0610" and len(caught.value.notes) == 1
    return caught.value.message, caught.value.notes[0]


GATHER, SCATTER, REDUCE = hir.linear.all_gather, hir.linear.reduce_scatter, hir.linear.all_reduce
LINEAR = [
    (GATHER, (ones(8, 6), ones(5, 7)), "`x` has 6 features, but `w` of shape (5, 7) takes 7", "weights are [out, in]"),
    (GATHER, (ones(8, 6), ones(6, 5)), "`x` has 6 features, but `w` of shape (6, 5) takes 5", "pass its transpose, `w.t()`"),
    (GATHER, (ones(8, 6), [ones(5, 6), ones(5, 7)]), "`w[1]` of shape (5, 7) takes 7", "weights are [out, in]"),
    (SCATTER, (ones(8, 6), ones(5, 24)), "`w` of shape (5, 24) takes 24", "4 ranks"),
    (REDUCE, (ones(8, 24), ones(5, 6)), "`x` has 24 features, but `w` of shape (5, 6) takes 6", "4 ranks"),
    (GATHER, (ones(6), ones(5, 6)), "`x` has 1 axis, but needs that of the rows and that of the features", "x[None]"),
    (SCATTER, (ones(6), ones(5, 6)), "`x` has 1 axis", "x[None]"),
    (REDUCE, (torch.tensor(1.0), ones(5, 6)), "`x` has 0 axes", "x[None]"),
    (GATHER, (ones(8, 6), ones(6)), "`w` has the shape (6), but needs two axes", "[out, in]"),
    (SCATTER, (ones(8, 6), ones(2, 5, 6)), "`w` has the shape (2, 5, 6)", "[out, in]"),
    (GATHER, (ones(8, 6), []), "`w` is a list without weights", "one weight"),
    (GATHER, (ones(8, 6), [ones(5, 6)] * 2, "group", [ones(5), None]), "`bias[1]` is None", "zeros"),
    (GATHER, (ones(8, 6), [ones(5, 6)] * 2, "group", [ones(5)]), "`w` has 2 weights, but `bias` has 1", "a bias for each"),
    (GATHER, (ones(8, 6), [ones(5, 6)] * 2, "group", ones(5)), "`w` has 2 weights, but `bias` has 1", "a bias for each"),
    (GATHER, (ones(8, 6), ones(5, 6), "group", ones(6)), "`bias` has the shape (6), but `w` of shape (5, 6) gives 5", "(5)"),
    (SCATTER, (ones(8, 6), ones(5, 6), "group", ones(1, 5)), "`bias` has the shape (1, 5)", "(5)"),
    (REDUCE, (ones(8, 6), ones(5, 6), "group", ones(4)), "`bias` has the shape (4)", "(5)"),
    (GATHER, ([1.0], ones(5, 6)), "`x` is of type list, but needs a tensor", "torch.Tensor"),
    (GATHER, (ones(8, 6), None), "`w` is of type NoneType", "torch.Tensor"),
    (GATHER, (ones(8, 6), [ones(5, 6), 3]), "`w[1]` is of type int", "torch.Tensor"),
    (SCATTER, (ones(8, 6), ones(5, 6), "group", [ones(5)]), "`bias` is of type list", "torch.Tensor"),
    (REDUCE, (ones(8, 6), ones(5, 6).to("meta")), "`x` is on cpu, but `w` on meta", "move one"),
    (SCATTER, (ones(6, 6), ones(5, 6)), "axis 0 of `x` has 6 rows, which do not divide into one part for each of 4 ranks", "pad"),
]


@pytest.mark.parametrize(("slot", "given", "message", "note"), LINEAR)
@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_slots(group, kind, slot, given, message, note):
    x, w, *rest = given
    found = refusal(maybe_compiled(kind, slot), x, w, group.group_name, *rest[1:])
    assert message in found[0] and note in found[1], found


def maybe_compiled(kind, call, fullgraph=False):
    torch._dynamo.reset()
    return call if kind == "eager" else torch.compile(call, backend="eager", fullgraph=fullgraph)


def second_derivative(slot, group, of):
    x, w = ones(8, 6).requires_grad_(), ones(5, 6).requires_grad_()
    (gradient,) = torch.autograd.grad(slot(x, w, group).sum(), w, create_graph=True)
    of(gradient.square().sum() + x.sum(), x)


@pytest.mark.parametrize("slot", [GATHER, SCATTER, REDUCE])
def test_second_derivatives_of_slots(group, slot):
    """Also where what a gradient depends on is not kept."""
    hir.linear.use(hir.Overlap(choose="never"))
    for of in (lambda total, x: total.backward(), torch.autograd.grad):
        with pytest.raises(hostir.HostIrError, match="has no derivative") as caught:
            second_derivative(slot, group, of)
        assert caught.value.code == "H0614"


@pytest.mark.parametrize("slot", [GATHER, SCATTER, REDUCE])
def test_forward_derivatives_of_slots(group, slot):
    with forward_ad.dual_level(), pytest.raises(hostir.HostIrError, match="`hir.linear` has no forward-mode derivative") as caught:
        slot(forward_ad.make_dual(ones(8, 6), ones(8, 6)), ones(5, 6), group)
    assert caught.value.code == "H0614"


def test_other_sequences_of_weights(group):
    hir.linear.use(hir.Overlap(choose="never"))
    weights = torch.nn.ParameterList([torch.nn.Parameter(ones(rows, 6)) for rows in (5, 3)])
    assert [tuple(made.shape) for made in GATHER(ones(8, 6), weights, group)] == [(32, 5), (32, 3)]


def test_the_axis_of_rows(group):
    for dim, message in [
        (None, "`dim` is of type NoneType"),
        (1, "`dim` is 1, the axis of the features of `x`"),
        (-1, "`dim` is -1"),
        (2, "`x` has 2 axes"),
    ]:
        assert message in refusal(GATHER, ones(8, 6), ones(5, 6), group, dim=dim)[0]
    message, note = refusal(SCATTER, ones(2, 6, 6), ones(5, 6), group, dim=1)
    assert "axis 1 of `x` has 6 rows" in message and "2 more" in note


def test_what_is_right_is_taken(group):
    """Also one row without an axis of rows, where all ranks have the sum."""
    hir.linear.use(hir.Overlap(choose="never"))
    for given in [group, group.group_name, init_device_mesh("cpu", (4,)), None]:
        for kind in ["eager", "compiled"]:
            gather, scatter, reduce = (maybe_compiled(kind, slot, fullgraph=True) for slot in (GATHER, SCATTER, REDUCE))
            assert gather(ones(8, 6), ones(5, 6), given, ones(5)).shape == (32, 5)
            assert [one.shape for one in gather(ones(8, 6), [ones(5, 6)], given)] == [(32, 5)]
            assert scatter(ones(3, 8, 6), ones(5, 6), given, dim=-2).shape == (3, 2, 5)
            assert reduce(ones(6), ones(5, 6), given, ones(5)).shape == (5,)


def test_slots_of_two_types_and_under_transforms(group):
    message, note = refusal(GATHER, ones(8, 6).double(), ones(5, 6), group)
    assert message == "`x` is torch.float64, but `w` is torch.float32" and "x.to(w.dtype)" in note
    message, _ = refusal(GATHER, ones(8, 6), [ones(5, 6), ones(5, 6)], group, [ones(5), ones(5).half()])
    assert message == "`x` is torch.float32, but `bias[1]` is torch.float16"
    with pytest.raises(hostir.HostIrError, match="no rules for the transforms") as caught:
        torch.func.grad(lambda x: GATHER(x, ones(5, 6), group).sum())(ones(8, 6))
    assert caught.value.code == "H0614"


@pytest.mark.parametrize("slot", [GATHER, SCATTER, REDUCE])
@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_element_types_that_slots_do_not_take(group, kind, slot):
    """The call leaves no region behind."""
    hir.linear.use(hir.Overlap(choose="always"))
    for dtype in (torch.int32, torch.complex64, torch.float8_e4m3fn):
        message, note = refusal(maybe_compiled(kind, slot), ones(8, 16).to(dtype), ones(16, 16).to(dtype), group)
        assert message == f"`x` is {dtype}, but slots take float32, float64, float16, bfloat16" and "x.to(" in note
    assert not hir.linear.report().lines and not hir.linear.report().ops
    hir.linear.check()


def test_passes_of_slots_and_texts_in_the_place_of_paths():
    for wrong in (None, "always"):
        assert f"`overlap` is of type {type(wrong).__name__}" in refusal(hir.linear.use, wrong)[0]
    text = matmul.program.to_hir2()
    for call in (hostir.load, lambda text: hir.override("region_00000000", text)):
        message, note = refusal(call, text)
        assert "is a text of several lines" in message and "hostir.parse(text)" in note


def test_slots_without_memory(group):
    """On the meta device, as a model is built before it gets its weights."""
    x, w = torch.empty(8, 6, device="meta"), torch.empty(5, 6, device="meta")
    assert GATHER(x, w, group).shape == (32, 5) and SCATTER(x, w, group).shape == (2, 5)
    y = REDUCE(x.requires_grad_(), w, group)
    y.sum().backward()
    assert y.is_meta and x.grad.is_meta


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_no_group(kind):
    message, note = refusal(maybe_compiled(kind, GATHER), ones(8, 6), ones(5, 6), None)
    assert "`group` is None, and there is no default group" in message and "init_process_group" in note


@pytest.mark.parametrize("given", ["nobody", 7])
def test_unknown_groups(group, given):
    message, note = refusal(GATHER, ones(8, 6), ones(5, 6), given)
    assert f"`group` is {given!r}, of which torch knows no process group" in message and "a `DeviceMesh`" in note


def test_what_ops_take_for_a_group(group):
    for given in (3, "nobody"):
        message, _ = refusal(ranks.gather_matmul_2, ones(3, 4), ones(4, 5), given)
        assert message == f"`group` is {given!r}, of which torch knows no process group"
    # None is the default group.
    assert ranks.gather_matmul_2(ones(3, 4), ones(4, 5), None).shape == (12, 5)


def test_dtensors(group):
    x = DTensor.from_local(ones(3, 4), init_device_mesh("cpu", (4,)), [Shard(0)], run_check=False)
    message, note = refusal(ranks.gather_matmul_2, x, ones(4, 5), group)
    assert message == "hostir_tests::gather_matmul_2: `x` is a `DTensor`, but programs take each rank's part"
    assert note == "pass the rank's part: `x.to_local()`"
    assert "`x` is a `DTensor`, but slots take" in refusal(GATHER, x, ones(5, 4), group)[0]


@pytest.mark.parametrize("call", [GATHER, ranks.gather_matmul_2])
def test_meshes_of_two_dimensions(group, call):
    named = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    message, note = refusal(call, ones(8, 6), ones(5, 6), named)
    assert message == "`group` is a `DeviceMesh` of 2 dimensions (dp, tp), but needs one"
    assert note == 'slice a dimension: `mesh["tp"]`'
    message, note = refusal(call, ones(8, 6), ones(5, 6), init_device_mesh("cpu", (2, 2)))
    assert "of 2 dimensions, but" in message and "mesh_dim_names" in note
    style = hir.ColwiseParallel()._apply
    assert refusal(style, torch.nn.Linear(6, 5), named)[1] == 'slice a dimension: `mesh["tp"]`'


@hir.op("hostir_refusals::two_results", program="programs/two_results.hir", args={"x": "x"}, out=("a", "b"))
def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x), torch.exp(x)


@hir.op("hostir_refusals::matmul", program="programs/matmul.hir", args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


SAME = torch.empty(4)
OUT = [
    (two_results, (ones(4),), ones(4), "`out` is one tensor, but hostir_refusals::two_results has 2 results (a, b)", "out=(a, b)"),
    (
        two_results,
        (ones(4),),
        [ones(4)],
        "`out` has 1 of 2 tensors: the results of hostir_refusals::two_results are a, b",
        "out=(a, b)",
    ),
    (two_results, (ones(4),), [ones(4)] * 3, "`out` has 3 of 2 tensors", "out=(a, b)"),
    (two_results, (ones(4),), (SAME, SAME), "`out` has tensors that share memory for several results", "of its own"),
    (two_results, (ones(4),), (ones(4), None), "`out` has a value of type NoneType", "out=(a, b)"),
    (
        matmul,
        (ones(3, 4), ones(4, 5)),
        (ones(3, 5),) * 2,
        "`out` has 2 of 1 tensors: the result of hostir_refusals::matmul is y",
        "out=y",
    ),
    (matmul, (ones(3, 4), ones(4, 5)), 7, "`out` is of type int", "out=y"),
]


@pytest.mark.parametrize(("op", "given", "out", "message", "note"), OUT)
@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_out(kind, op, given, out, message, note):
    found = refusal(maybe_compiled(kind, op), *given, out=out)
    assert message in found[0] and note in found[1], found


WRONG_OUT = [
    (torch.empty(2, 3, 5), "a tensor of `out` is torch.float32 of shape [2, 3, 5]"),
    (torch.empty(3, 5, dtype=torch.int32), "a tensor of `out` is torch.int32 of shape [3, 5]"),
]


@pytest.mark.parametrize(("out", "message"), WRONG_OUT)
def test_out_of_another_shape_or_type(out, message):
    found = refusal(matmul, ones(3, 4), ones(4, 5), out=out)
    assert message in found[0] and "writes torch.float32 of shape [3, 5]" in found[0]


def test_out_that_shares_memory():
    """Elements that are written twice have one of two values."""
    buffer = torch.empty(6)
    for given in ((buffer[:4], buffer[2:]), (SAME, SAME[:])):
        message, note = refusal(two_results, ones(4), out=given)
        assert message == "`out` has tensors that share memory for several results of hostir_refusals::two_results"
        assert note == "give each result a tensor of its own: `out=(a, b)`"
    two_results(ones(3), out=(buffer[:3], buffer[3:]))
    two_results(ones(3), out=(buffer[::2], buffer[1::2]))
    for given in (torch.empty(10).as_strided((3, 5), (1, 1)), torch.empty(1, 1).expand(1 << 20, 1 << 20)):
        message, _ = refusal(matmul, ones(3, 4), ones(4, 5), out=given)
        assert message == "`out` has elements that share memory, but hostir_refusals::matmul writes each of them"
    message, _ = refusal(matmul, ones(3, 4), ones(4, 5), out=torch.empty(3, 5).to_sparse())
    assert message == "`out` is sparse, but hostir_refusals::matmul writes all elements"
    x = ones(4, 4)
    message, _ = refusal(matmul, x, ones(4, 4), out=x)
    assert message.startswith("`out` shares memory with an argument")
    matmul(x[:2], x[2:].t()[:, :2].repeat(1, 2).contiguous(), out=torch.empty(2, 4))


def test_out_elsewhere():
    message, _ = refusal(matmul, ones(3, 4), ones(4, 5), out=torch.empty(3, 5, device="meta"))
    assert message == "a tensor of `out` is on meta, but the results of hostir_refusals::matmul are on cpu"


def test_sparse_tensors(group):
    message, note = refusal(matmul, ones(3, 4).to_sparse(), ones(4, 5))
    assert message == "hostir_refusals::matmul: `x` is sparse, but programs take all elements" and note == "pass `x.to_dense()`"
    assert refusal(GATHER, ones(3, 4).to_sparse(), ones(5, 4), group)[0] == "`x` is sparse, but needs all its elements"


def test_a_group_of_other_ranks(group):
    message, _ = refusal(ranks.gather_matmul_2, ones(3, 4), ones(4, 5), ones(3))
    assert message.startswith("`group` is tensor(")
    message, _ = refusal(ranks.gather_matmul_2, ones(3, 4), ones(4, 5), dist.GroupMember.NON_GROUP_MEMBER)
    assert message == "this rank is no member of `group`"


def test_styles(group):
    """Arguments of torch's styles, and weights of which ranks would have parts of different sizes."""
    message, note = refusal(hir.RowwiseParallel, output_layouts=Shard(1))
    assert message.startswith("RowwiseParallel has no `output_layouts`") and "use torch's style" in note
    mesh = init_device_mesh("cpu", (4,))
    message, note = refusal(hir.ColwiseParallel()._apply, torch.nn.Linear(6, 7), mesh)
    assert message == "ColwiseParallel: axis 0 of `weight` has 7 elements, which 4 ranks cannot share alike"
    assert note.startswith("pad it by 1")
    assert "axis 1 of `weight` has 6 elements" in refusal(hir.RowwiseParallel()._apply, torch.nn.Linear(6, 7), mesh)[0]


def test_out_in_a_tuple():
    out = torch.empty(3, 5)
    for given in ((out,), [out], out):
        assert matmul(ones(3, 4), ones(4, 5), out=given) is out
    assert torch.equal(out, 4 * ones(3, 5))


@pytest.mark.parametrize("name", ["region", "regoin_3f2a91c0", "region_3f2a91c", "region_3F2A91C0", "mylib::matmul"])
def test_overrides_of_what_is_no_region(name):
    message, note = refusal(hir.override, name, matmul.program)
    assert message == f"`{name}` is not the name of a region, as `region_3f2a91c0` is"
    assert "report" in note or "the regions so far are region_" in note
