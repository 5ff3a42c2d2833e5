"""All that this package has of torch beside its public API, each with the question that it answers.

No other module names what is private there, which `python/tests/test_torch_internals.py` checks; that file also says what each of
these does, in the version of torch at hand. A new version of torch is a matter of this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import sympy
import torch

# Fake tensors import torch's compiler, which takes seconds: here, where nobody waits for a step, not in the first call.
import torch._dynamo
import torch.autograd.forward_ad as forward_ad
import torch.utils._pytree as pytree
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "below_autograd",
    "below_views",
    "collects_guards",
    "compile_by_inductor",
    "dispatch_watchers",
    "expression_of",
    "followed_by_autograd",
    "forward_level",
    "functional_collectives",
    "group_by_name",
    "group_store",
    "has_op",
    "has_tangent",
    "hint_of",
    "inductor_pass",
    "inductor_settings",
    "innermost_tensor",
    "is_in_inductor",
    "least_value",
    "make_missing_ops",
    "may_overlap",
    "memory_of",
    "nccl_communicator",
    "op_base_name",
    "op_overload_name",
    "op_schema",
    "outside_modes",
    "parse_schema",
    "process_groups",
    "pytree",
    "rank_count_of",
    "raw_stream_reader",
    "remove_library",
    "rendezvous",
    "reserved_op_names",
    "reserved_spaces",
    "spin_device",
    "transform_levels",
    "version_of",
]

_functorch = torch._C._functorch


# Ops and their registration


def op_overload_name(target: Any) -> str:
    """The name of an op's overload: `dtype` of `aten.to.dtype`; empty for what is no op."""
    return str(getattr(target, "_overloadname", ""))


def op_base_name(target: OpOverload) -> str:
    """An op's name without namespace and overload."""
    return str(target._opname)


def op_schema(target: Any) -> Any:
    """The schema of an op; None for what is none."""
    return getattr(target, "_schema", None)


def functional_collectives() -> Any:
    """The namespace of collectives that return their results."""
    return torch.ops._c10d_functional


def has_op(name: str) -> bool:
    """True if torch's dispatcher has an op of a name, `namespace::op`."""
    return bool(torch._C._jit_get_schemas_for_operator(name))


def parse_schema(text: str) -> Any:
    """The schema that a text is. Raises `RuntimeError` for one that is none."""
    return torch._C.parse_schema(text)


def remove_library(library: torch.library.Library) -> None:
    """Takes a library's ops and kernels out of torch's dispatcher."""
    library._destroy()


def reserved_spaces() -> list[str]:
    """The names that no namespace of ops can have, since `torch.ops` has something else there."""
    others = [key for key, value in vars(torch.ops).items() if not isinstance(value, torch._ops._OpNamespace)]
    return [*others, "higher_order", *dir(type(torch.ops))]


def reserved_op_names() -> list[str]:
    """The names that no op can have, since a namespace of ops has something else there."""
    return ["name", "_dir", *dir(torch._ops._OpNamespace)]


def make_missing_ops(namespace: Any, make: Callable[[str], None]) -> None:
    """Lets a namespace of `torch.ops` ask `make` for each op that it has not looked up before, by its name.

    It is asked for an op while it makes it, too. The first one of a namespace counts.
    """
    kind = type(namespace)
    if hasattr(kind, "makes_missing_ops"):
        return

    def find(self: Any, name: str) -> Any:
        make(name)
        return kind.__getattr__(self, name)

    # Compiled graphs write ops with the module of this class.
    members = {"__module__": kind.__module__, "__getattr__": find, "makes_missing_ops": True}
    namespace.__class__ = type(kind.__name__, (kind,), members)


# Dispatch


def below_autograd() -> AbstractContextManager[None]:
    """A context in which ops are called below autograd."""
    guard: AbstractContextManager[None] = torch._C._AutoDispatchBelowAutograd()
    return guard


def below_views() -> AbstractContextManager[None]:
    """A context in which autograd does not learn of views and of changes in place."""
    guard: AbstractContextManager[None] = torch._C._AutoDispatchBelowADInplaceOrView()
    return guard


@contextmanager
def followed_by_autograd() -> Iterator[None]:
    """A context in which autograd follows ops, also within a kernel that is called below it."""
    keys = torch._C.DispatchKey
    with ExitStack() as stack:
        for key in (keys.AutogradCPU, keys.AutogradCUDA, keys.AutogradFunctionality):
            stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


def dispatch_watchers() -> list[tuple[Callable[[], Any] | None, Any]]:
    """The functions that say whether somebody wants to see the ops that are called, each with what it returns if nobody does; None
    where this torch has no such function.
    """
    return [
        # Modes in Python: of fake tensors, proxies, functionalization, a user's own.
        (getattr(torch._C, "_len_torch_dispatch_stack", None), 0),
        # Modes above autograd, such as `torch.set_default_device`.
        (getattr(torch._C, "_len_torch_function_stack", None), 0),
        # `torch.func`'s transforms.
        (getattr(_functorch, "peek_interpreter_stack", None), None),
        # Forward-mode derivatives outside of transforms. A partial object is called without a frame of Python.
        (functools.partial(getattr, forward_ad, "_current_level", None), -1),
        # `torch.jit.trace`.
        (getattr(torch._C, "_get_tracing_state", None), None),
        # `torch.profiler`, which sees ops in torch's dispatcher.
        (getattr(torch.autograd, "_profiler_enabled", None), False),
    ]


def raw_stream_reader() -> Callable[[int], int] | None:
    """The function that gives the handle of a device's current stream; None in a torch without CUDA."""
    reader: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return reader


# Transforms and derivatives


def transform_levels() -> list[tuple[str, bool]]:
    """The transforms of `torch.func` under way, the outermost first: the kind (`Grad`, `Vmap`, `Jvp`, `Functionalize`), and for
    `Grad` whether autograd follows outside of it.
    """
    if _functorch.peek_interpreter_stack() is None:
        return []
    found = []
    for level in _functorch.get_interpreter_stack() or ():
        is_followed = level.key() == _functorch.TransformType.Grad and _functorch.CGradInterpreterPtr(level).prevGradMode()
        found.append((str(level.key().name), bool(is_followed)))
    return found


def innermost_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that the wrappers of `torch.func`'s transforms hold."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def forward_level() -> int:
    """The level of forward-mode derivatives; -1 outside of them."""
    return int(forward_ad._current_level)


def has_tangent(tensor: torch.Tensor) -> bool:
    """True for a tensor with a tangent, or of which a wrapper of a transform holds one."""
    # A wrapper does not show the tangent of what it wraps, and samples of `vmap` cannot be asked.
    if not _functorch.is_batchedtensor(tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
        return True
    return _functorch.is_functorch_wrapped_tensor(tensor) and has_tangent(_functorch.get_unwrapped(tensor))


# Memory


def memory_of(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory, also of one that has none."""
    return int(tensor.untyped_storage()._cdata)


def may_overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors share memory; also for some that have no element in common."""
    return bool(torch._C._overlaps(one, other))


def version_of(tensor: torch.Tensor) -> int:
    """The number of changes in place that a tensor has had."""
    return int(tensor._version)


# Process groups


def process_groups() -> list[Any]:
    """All process groups of which this process is a member."""
    from torch.distributed import distributed_c10d

    return list(distributed_c10d._world.pg_map)


def group_store(group: Any) -> Any:
    """The group's part of the store."""
    from torch.distributed import distributed_c10d

    return distributed_c10d._world.pg_map[group][1]


def group_by_name(name: str) -> Any:
    """The process group of a name. Raises `RuntimeError` or `ValueError` for a name of none."""
    from torch.distributed.distributed_c10d import _resolve_process_group

    return _resolve_process_group(name)


def rank_count_of(name: str) -> int:
    """The number of ranks of the group of a name; compilers know the answer."""
    from torch.distributed.distributed_c10d import _get_group_size_by_name

    return int(_get_group_size_by_name(name))


def nccl_communicator(group: Any, device: torch.device) -> int:
    """The handle of the NCCL communicator that a group has for a device; 0 where there is none yet, or torch does not tell."""
    try:
        return int(group._get_backend(device)._comm_ptr())
    except (AttributeError, RuntimeError):
        return 0


def rendezvous(tensor: torch.Tensor, name: str) -> Any:
    """Exchanges the addresses of symmetric memory with the ranks of a group; None for a tensor of other memory."""
    import torch.distributed._symmetric_memory as symm_mem

    return symm_mem.rendezvous(tensor, name)


# Inductor


def inductor_pass() -> type[Any]:
    """The class of passes over Inductor's graphs that have an identity in its cache."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    return CustomGraphPass


def is_in_inductor() -> bool:
    """True while Inductor compiles a graph, rather than somebody who runs it node by node."""
    from torch._inductor.virtualized import NullHandler, V

    return not isinstance(V.fake_mode, NullHandler)


def inductor_settings(names: Collection[str]) -> dict[str, Any]:
    """Settings of Inductor by name; None for one that it does not have."""
    import torch._inductor.config

    return {name: getattr(torch._inductor.config, name, None) for name in names}


def outside_modes() -> AbstractContextManager[Any]:
    """Within it ops compute numbers, whatever mode the compiler has set."""
    import torch.utils._python_dispatch

    return torch.utils._python_dispatch._disable_current_modes()


def compile_by_inductor(module: torch.fx.GraphModule, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """The module, compiled by Inductor for these inputs."""
    import torch._inductor

    return torch._inductor.compile(module, list(inputs), options=options)


# Symbolic sizes


def expression_of(extent: torch.SymInt) -> Any:
    """A symbolic size as an expression of sympy."""
    return extent.node.expr


def hint_of(extent: torch.SymInt) -> int | None:
    """The number for which a graph with a symbolic size is traced; None if data decides it."""
    hint = extent.node.hint
    return None if hint is None else int(hint)


def least_value(extent: torch.SymInt, symbol: Any) -> int:
    """The least value that a symbol of a size can have; 0 if that is unknown."""
    lower = sympy.sympify(extent.node.shape_env.var_to_range[symbol].lower)
    return int(lower) if lower.is_Integer else 0


def collects_guards(extent: torch.SymInt) -> bool:
    """True while the conditions of the graph with this size are collected: what is compiled for other sizes is compiled again."""
    return torch._guards.TracingContext.try_get() is not None and not extent.node.shape_env.frozen


# GPUs


def spin_device(cycles: int) -> None:
    """Lets the current stream's device spin for so many cycles."""
    torch.cuda._sleep(cycles)
