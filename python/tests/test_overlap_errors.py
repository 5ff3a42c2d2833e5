"""`Overlap` with traces of all kinds, and with errors of its own: a compilation goes on with torch's nodes."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import hostir.torch as hir  # noqa: E402
import trace_ranks as ranks  # noqa: E402
from hostir.torch import Reason  # noqa: E402
from hostir.torch._overlap import emit, overlap as overlap_module, rewrite  # noqa: E402
from rank_pool import start_ranks  # noqa: E402

c10d = torch.ops._c10d_functional


@pytest.mark.parametrize(
    "work",
    [
        ranks.traces,
        ranks.regions_of_no_graph_are_not_compared,
        ranks.nothing_is_measured_on_the_cpu,
        ranks.programs_get_what_they_take,
    ],
)
def test_two_ranks(work):
    start_ranks(work, 2)


@pytest.fixture
def group(fake_group):
    return fake_group.group_name


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_traces_of_real_tensors_become_the_programs_of_fake_ones(group, pre_dispatch):
    """`make_fx` gives each node of a trace with real tensors a fake mode of its own."""

    def layer(x, w, v, bias):
        rows = c10d.wait_tensor(c10d.all_gather_into_tensor(x, 2, group))
        inner = torch.nn.functional.silu(rows @ w) * 2 + bias
        return inner, rows, c10d.wait_tensor(c10d.reduce_scatter_tensor(inner @ v, "sum", 2, group)), x.t() @ x

    def gradients(x, w, dy):
        rows = c10d.wait_tensor(c10d.all_gather_into_tensor(x, 2, group)).view(2, 4, 8)
        return rows.transpose(0, 1).reshape(8, 8) @ w, dy.t() @ rows.view(8, 8)

    for function, shapes in ((layer, [(4, 8), (8, 6), (6, 8), (6,)]), (gradients, [(4, 8), (8, 6), (8, 3)])):
        found = []
        for mode in ("fake", "real"):
            module = make_fx(function, tracing_mode=mode, pre_dispatch=pre_dispatch)(*map(torch.randn, shapes))
            overlap = hir.Overlap(choose="always")
            overlap(module)
            module.graph.lint()
            assert overlap.report().fused, f"{mode}: {overlap.report()}"
            found.append(([line.verdict for line in overlap.report().lines], module.print_readable(print_output=False)))
        assert found[0] == found[1]


def two_layers(group):
    """Two gathers with matmuls, of which the second one is a region of its own."""

    def layer(x, w, v):
        rows = c10d.wait_tensor(c10d.all_gather_into_tensor(x, 2, group))
        more = c10d.wait_tensor(c10d.all_gather_into_tensor(torch.relu(x), 2, group))
        return rows @ w, (more @ v).cos()

    return make_fx(layer, tracing_mode="fake")(torch.empty(4, 8), torch.empty(8, 6), torch.empty(8, 5))


def fails(*_, **__):
    raise ZeroDivisionError("a mistake of ours\nand where it is")


# Places that an error may come from: before, in the midst of and after the change of a graph.
PLACES = [
    (overlap_module, "find_gather"),
    (overlap_module, "write_region"),
    (overlap_module, "region_op"),
    (rewrite, "call_program"),
    (rewrite, "_restore_order"),
    (rewrite, "_copy_equal_sums"),
    (overlap_module, "merge_views"),
    (overlap_module, "source_line"),
]


@pytest.mark.parametrize(("module", "name"), PLACES, ids=lambda one: one if isinstance(one, str) else "")
def test_an_error_of_its_own_leaves_the_graph(group, monkeypatch, module, name):
    graph = two_layers(group)
    before = graph.print_readable(print_output=False)
    monkeypatch.setattr(module, name, fails)
    overlap = hir.Overlap(choose="always")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        overlap(graph)
    graph.graph.lint()
    assert graph.print_readable(print_output=False) == before
    (warning,) = [one for one in found if "hir.Overlap" in str(one.message)]
    assert warning.category is RuntimeWarning and "ZeroDivisionError: a mistake of ours; please report it" in str(warning.message)
    if name in ("merge_views", "source_line"):
        assert overlap.report().lines == []
        return
    assert [line.reason for line in overlap.report().lines] == [Reason.INTERNAL_ERROR] * 2
    assert overlap.report().lines[0].detail == "ZeroDivisionError: a mistake of ours"
    text = " ".join(str(overlap.report()).split())
    assert "please" not in text and "which is to be reported: ZeroDivisionError" in text


def test_other_regions_are_fused_beside_one_with_an_error(group, monkeypatch):
    graph, original, calls = two_layers(group), rewrite._restore_order, []

    def fails_at_first(graph):
        calls.append(graph)
        return fails() if len(calls) == 1 else original(graph)

    monkeypatch.setattr(rewrite, "_restore_order", fails_at_first)
    overlap = hir.Overlap(choose="always")
    with pytest.warns(RuntimeWarning, match="a mistake of ours"):
        overlap(graph)
    graph.graph.lint()
    assert [line.reason for line in overlap.report().lines] == [Reason.INTERNAL_ERROR, None]
    assert sum("region_" in str(node.target) for node in graph.graph.nodes) == 1


def test_a_compilation_survives_an_error(group, monkeypatch):
    """Inductor compiles torch's nodes; a warning of the pass is all that is seen of it."""
    monkeypatch.setattr(overlap_module, "write_region", fails)
    overlap = hir.Overlap(choose="always")

    def layer(x, w):
        return c10d.wait_tensor(c10d.all_gather_into_tensor(x, 2, group)) @ w

    def compiled(graph, inputs):
        overlap(graph)
        return graph

    from torch._dynamo.backends.common import aot_autograd

    with pytest.warns(RuntimeWarning, match="please report it"):
        made = torch.compile(layer, backend=aot_autograd(fw_compiler=compiled))(torch.ones(4, 8), torch.ones(8, 6))
    assert made.shape == (8, 6) and overlap.report().kept[0].reason is Reason.INTERNAL_ERROR


def test_control_c_is_no_error(group, monkeypatch):
    def interrupts(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(emit, "write_function", interrupts)
    monkeypatch.setattr(overlap_module, "write_region", interrupts)
    with pytest.raises(KeyboardInterrupt):
        hir.Overlap(choose="always")(two_layers(group))


@pytest.mark.parametrize(
    ("function", "reason", "detail"),
    [
        (lambda x: x.square().mean(), Reason.NO_MATMUL_BEFORE, "mean"),
        (lambda x: x.sum(0), Reason.NO_MATMUL_BEFORE, "sum"),
        (lambda x: x.relu(), Reason.NO_MATMUL_BEFORE, "relu"),
        (lambda x: torch.dot(x[0], x[1]), Reason.OP_NOT_IN_LANGUAGE, "dot"),
        (lambda x: x @ x.t(), Reason.ROWS_NOT_DIVISIBLE, "7 rows by 2 ranks"),
        (lambda x: (x[:1] @ x[:1].t()).view([]), Reason.ROWS_NOT_DIVISIBLE, "[] by 2 ranks"),
    ],
    ids=["loss", "gradient of a bias", "function", "dot", "rows", "one product"],
)
def test_what_is_summed_is_the_reason_before_its_rows(group, function, reason, detail):
    reduce = lambda x: c10d.wait_tensor(c10d.all_reduce(function(x), "sum", group))  # noqa: E731
    overlap = hir.Overlap(choose="always")
    overlap(make_fx(reduce, tracing_mode="fake")(torch.empty(7, 8)))
    (line,) = overlap.report().lines
    assert line.reason is reason and detail in line.detail, line.verdict


def test_settings_that_are_true(group):
    for setting in ("rounds", "min_gain", "timeout"):
        with pytest.raises(hir.Overlap.__init__.__globals__["HostIrError"], match=f"`{setting}` is True"):
            hir.Overlap(**{setting: True})


def test_styles_speak_of_their_own_settings():
    with pytest.raises(Exception, match="ColwiseParallel: `sequence_dim` is of type str"):
        hir.ColwiseParallel(sequence_dim="tokens")
    for style, axis, what in ((hir.ColwiseParallel, 2, "the axis of the features"), (hir.RowwiseParallel, 5, "but `x` has 3 axes")):
        with pytest.raises(Exception, match=f"`sequence_dim` is {axis}, ?{what}|`sequence_dim` is {axis}, {what}"):
            style(sequence_dim=axis)._check_tokens(torch.ones(2, 4, 8))
