"""The private names of torch: one module alone has them, and each does what that module says, in the version at hand."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "hostir"
INTERNALS = PACKAGE / "torch" / "_torch_internals.py"
# Names without an underscore that torch's documentation does not have.
UNDOCUMENTED = {"shape_env", "var_to_range", "pg_map"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _private_parts(dotted: str) -> list[str]:
    return [part for part in dotted.split(".") if _is_private(part)]


def _names_from_torch(tree: ast.AST) -> set[str]:
    """The names that a module's imports of torch bind."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names if one.name.split(".")[0] == "torch"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            found |= {one.asname or one.name for one in node.names}
    return found


def _own_names(trees: list[ast.AST]) -> set[str]:
    """The private attributes that classes and modules of the package have."""
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return {name for name in found if _is_private(name)}


def _uses(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """The private names of other packages that a module has."""
    of_torch = _names_from_torch(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("torch") and _private_parts(one.name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            yield from (f"{node.module}.{one.name}" for one in node.names if _private_parts(f"{node.module}.{one.name}"))
        elif isinstance(node, ast.Attribute):
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            is_torchs = isinstance(root, ast.Name) and root.id in of_torch
            is_private = _is_private(node.attr) and (is_torchs or node.attr not in own)
            if (is_private or node.attr in UNDOCUMENTED) and ast.unparse(node) != "os._exit":
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            name = node.args[1]
            if isinstance(name, ast.Constant) and _is_private(str(name.value)) and name.value not in own:
                yield ast.unparse(node)


def test_no_other_module_has_private_names_of_torch() -> None:
    trees: dict[Path, ast.AST] = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    stub = ast.parse((PACKAGE / "_native.pyi").read_text(encoding="utf-8"))
    own = _own_names([*(tree for path, tree in trees.items() if path != INTERNALS), stub])
    found = [f"{path.name}: {use}" for path, tree in trees.items() if path != INTERNALS for use in _uses(tree, own)]
    assert not found, "move them to hostir/torch/_torch_internals.py:\n" + "\n".join(found)
    assert list(_uses(trees[INTERNALS], set())), "the check finds nothing where there is something"


@pytest.fixture
def internals() -> Any:
    pytest.importorskip("torch")
    from hostir.torch import _torch_internals

    return _torch_internals


def test_names_of_ops(internals: Any) -> None:
    import torch

    target = torch.ops.aten._to_copy.default
    assert isinstance(target, internals.OpOverload)
    assert (internals.op_base_name(target), internals.op_overload_name(target)) == ("_to_copy", "default")
    assert internals.op_overload_name(torch.ops.aten.to.dtype) == "dtype"
    assert internals.op_overload_name(len) == "" and internals.op_schema(len) is None
    assert internals.op_schema(torch.ops.aten.add_.Tensor).is_mutable
    assert not internals.op_schema(torch.ops.aten.add.Tensor).is_mutable
    assert internals.op_schema(target).name == "aten::_to_copy"
    assert isinstance(torch.ops.higher_order.cond, internals.HigherOrderOperator)


def test_registration_of_ops(internals: Any) -> None:
    import torch

    schema = internals.parse_schema("f(Tensor x, int n=1) -> (Tensor, Tensor)")
    assert [(one.name, str(one.type)) for one in schema.arguments] == [("x", "Tensor"), ("n", "int")]
    assert [str(one.type) for one in schema.returns] == ["Tensor", "Tensor"]
    with pytest.raises(RuntimeError):
        internals.parse_schema("f(Nothing x) ->")
    assert internals.has_op("aten::add") and not internals.has_op("hostir_internals::made")
    library = torch.library.Library("hostir_internals", "FRAGMENT")
    library.define("made(Tensor x) -> Tensor")
    assert internals.has_op("hostir_internals::made")
    internals.remove_library(library)
    assert not internals.has_op("hostir_internals::made")
    assert {"higher_order", "load_library"} <= set(internals.reserved_spaces()) and "aten" not in internals.reserved_spaces()
    assert {"name", "_dir", "__getattr__"} <= set(internals.reserved_op_names())


def test_a_namespace_makes_the_ops_that_it_lacks(internals: Any) -> None:
    import torch

    library = torch.library.Library("hostir_missing", "FRAGMENT")
    asked: list[str] = []

    def make(name: str) -> None:
        asked.append(name)
        if name == "late" and asked.count(name) == 1:
            library.define("late(Tensor x) -> Tensor")
            library.impl("late", lambda x: x + 1, "CPU")

    namespace = torch.ops.hostir_missing
    kind = type(namespace)
    internals.make_missing_ops(namespace, make)
    internals.make_missing_ops(namespace, lambda name: pytest.fail("the first one counts"))
    assert namespace.late(torch.zeros(1)).item() == 1
    count = len(asked)
    assert namespace.late and len(asked) == count, "an op is asked for until there is one"
    with pytest.raises(AttributeError):
        _ = namespace.never
    assert type(namespace).__module__ == kind.__module__ and isinstance(namespace, kind)


def test_dispatch_below_autograd(internals: Any) -> None:
    import torch

    x = torch.ones(2, requires_grad=True)
    with internals.below_autograd():
        assert (x * 2).grad_fn is None
        with internals.followed_by_autograd():
            assert (x * 2).grad_fn is not None
    assert (x * 2).grad_fn is not None
    with internals.below_views():
        assert not (x.detach() * 2)._is_view()


def test_watchers_of_dispatch(internals: Any) -> None:
    import torch
    from torch.autograd import forward_ad, profiler
    from torch.utils._python_dispatch import TorchDispatchMode

    watchers = internals.dispatch_watchers()
    assert all(ask is not None for ask, _ in watchers), "a call of an op goes past torch's dispatcher only if all are known"

    def watching() -> list[int]:
        return [at for at, (ask, answer) in enumerate(watchers) if ask() != answer]

    assert watching() == []
    with TorchDispatchMode():
        assert watching() == [0]
    with torch.device("cpu"):
        assert watching() == [1]
    seen: list[list[int]] = []
    torch.func.grad(lambda x: seen.append(watching()) or x.sum())(torch.ones(1))
    assert 2 in seen[0]
    with forward_ad.dual_level():
        assert watching() == [3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(lambda x: seen.append(watching()) or x + 1, torch.ones(1), check_trace=False)
    assert 4 in seen[1]
    with profiler.profile():
        assert 5 in watching()
    reader = internals.raw_stream_reader()
    assert reader is None or callable(reader)


def test_transforms(internals: Any) -> None:
    import torch

    x, seen = torch.ones(2), []

    def f(value: Any) -> Any:
        seen.append((internals.transform_levels(), internals.innermost_tensor(value), internals.has_tangent(value)))
        return value.sum()

    assert internals.transform_levels() == []
    torch.func.grad(f)(x)
    torch.func.vmap(f)(x[None])
    torch.func.jvp(f, (x,), (x,))
    with torch.no_grad():
        torch.func.grad(torch.func.grad(f))(x[0])
    levels = [levels for levels, _, _ in seen]
    assert levels == [[("Grad", True)], [("Vmap", False)], [("Jvp", False)], [("Grad", False), ("Grad", True)]]
    assert [tangent for _, _, tangent in seen] == [False, False, True, False]
    assert all(type(inner) is torch.Tensor and "Wrapper" not in repr(inner) for _, inner, _ in seen[:2])


def test_forward_mode(internals: Any) -> None:
    import torch
    from torch.autograd import forward_ad

    assert internals.forward_level() == -1
    with forward_ad.dual_level():
        assert internals.forward_level() == 0
        assert internals.has_tangent(forward_ad.make_dual(torch.ones(1), torch.ones(1)))
        assert not internals.has_tangent(torch.ones(1))


def test_memory(internals: Any) -> None:
    import torch

    x = torch.zeros(4)
    assert internals.memory_of(x) == internals.memory_of(x[1:]) != internals.memory_of(x.clone())
    assert internals.may_overlap(x[:3], x[2:]) and not internals.may_overlap(x, x.clone())
    before = internals.version_of(x)
    x.add_(1)
    assert internals.version_of(x) == before + 1
    with internals.FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        assert isinstance(fake, internals.FakeTensor) and isinstance(internals.memory_of(fake), int)
        assert fake.fake_mode is mode


def test_process_groups(internals: Any) -> None:
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("torch has no process groups")
    with pytest.raises((RuntimeError, ValueError)):
        internals.rank_count_of("no group")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        name = dist.group.WORLD.group_name
        group = internals.group_by_name(name)
        assert group is dist.group.WORLD and internals.process_groups() == [group]
        assert internals.rank_count_of(name) == 1
        store = internals.group_store(group)
        store.set("a", "b")
        assert store.get("a") == b"b"
        with pytest.raises((RuntimeError, ValueError)):
            internals.group_by_name("no group")
        assert internals.nccl_communicator(group, torch.device("cpu")) == 0
        ops = internals.functional_collectives()
        for kind in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "wait_tensor"):
            assert getattr(ops, kind).default
    finally:
        dist.destroy_process_group()
    assert internals.process_groups() == []


def test_symmetric_memory(internals: Any) -> None:
    import inspect

    symm_mem = pytest.importorskip("torch.distributed._symmetric_memory")
    parameters = list(inspect.signature(symm_mem.rendezvous).parameters)
    assert parameters[:2] == ["tensor", "group"]


@pytest.mark.skipif(sys.platform != "linux", reason="Inductor compiles for Linux")
def test_inductor(internals: Any) -> None:
    import torch

    seen: list[bool] = []

    class Pass(internals.inductor_pass()):  # type: ignore[misc]
        def __call__(self, graph: Any) -> None:
            seen.append(internals.is_in_inductor())

        def uuid(self) -> None:
            return None

    assert not internals.is_in_inductor()
    settings = internals.inductor_settings(["max_autotune", "no such setting"])
    assert settings["max_autotune"] in (True, False) and settings["no such setting"] is None
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    x = torch.randn(8)
    made = internals.compile_by_inductor(module, [x], {"post_grad_custom_post_pass": Pass(), "triton.cudagraphs": False})
    (found,) = made(x) if isinstance(made(x), (tuple, list)) else (made(x),)
    assert torch.equal(found, x.relu())
    assert seen == [True]


def test_symbolic_sizes(internals: Any) -> None:
    import torch

    seen: list[Any] = []

    def look(module: Any, inputs: Any) -> Any:
        shapes = [one.shape if isinstance(one, torch.Tensor) else (one,) for one in inputs]
        extent = next(extent for shape in shapes for extent in shape if isinstance(extent, torch.SymInt))
        symbol = internals.expression_of(extent)
        seen.append((symbol.is_Symbol, internals.hint_of(extent), internals.least_value(extent, symbol)))
        seen.append(internals.collects_guards(extent))
        return module.forward

    torch.compile(lambda x: x + 1, backend=look, dynamic=True)(torch.ones(6, 3))
    assert seen == [(True, 6, 2), True]


def test_ops_compute_outside_of_modes(internals: Any) -> None:
    import torch

    with internals.FakeTensorMode():
        assert isinstance(torch.ones(2), internals.FakeTensor)
        with internals.outside_modes():
            assert torch.ones(2).tolist() == [1.0, 1.0]


def test_pytree(internals: Any) -> None:
    tree = {"a": (1, [2, 3])}
    leaves, spec = internals.pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3] == internals.pytree.tree_leaves(tree)
    assert internals.pytree.tree_unflatten(leaves, spec) == tree
    assert internals.pytree.tree_map(lambda leaf: -leaf, tree) == {"a": (-1, [-2, -3])}


def test_gpus_spin(internals: Any) -> None:
    import torch

    assert callable(torch.cuda._sleep) and callable(internals.spin_device)
