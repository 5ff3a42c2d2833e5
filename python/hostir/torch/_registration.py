"""The registration of ops with torch's dispatcher: schemas, kernels, and what becomes of an op whose name is defined again."""

from __future__ import annotations

import functools
import inspect
import keyword
import re
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from hostir import _native
from hostir.torch._gradient import differentiate_followed, tensor_gradients, within_autograd
from hostir.torch._group import plain_tensor
from hostir.torch._session import check_device, check_out
from hostir.torch._torch_internals import (
    below_views,
    has_op,
    memory_of,
    parse_schema,
    pytree,
    remove_library,
    reserved_op_names,
    reserved_spaces,
)
from hostir.torch._transforms import call_by_sample

if TYPE_CHECKING:
    from hostir.torch._op import Op

__all__ = ["own_results", "register_op"]

Kernel = Callable[..., Any]

_LOCK = threading.RLock()
_DEFINED: dict[str, tuple[Op, torch.library.Library]] = {}
"""The ops by name, with their libraries: the last one that was defined."""
_PINS: dict[str, torch.library.Library] = {}
"""By name of an op or a gradient a kernel that nothing calls. It stays when an op is defined again, so that handles that graphs
and users hold of the one before do not dangle.
"""
_PIN_KEY = "PrivateUse3"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def register_op(made: Op) -> tuple[Any, Any]:
    """Defines the op, its variants with `out=` and its gradient: the packet of the first, and the last.

    An op that had the name before is marked as replaced.
    """
    namespace, name = _names_of(made)
    _check_signature(made)
    schema = _schema_of(made)
    _check_schema(made, f"{name}{schema}")
    with _LOCK:
        _check_free(made, namespace, name)
        if made.name in _DEFINED:
            # Defined anew, as in a notebook: the op that had the name before goes.
            before, library = _DEFINED.pop(made.name)
            before.is_replaced = True
            remove_library(library)
        library = torch.library.Library(namespace, "FRAGMENT")
        _define(library, name, schema)
        _add_kernels(library, made, namespace, name)
        ops = getattr(torch.ops, namespace)
        found = getattr(ops, name), getattr(ops, _gradient_name(name)).default
        _DEFINED[made.name] = (made, library)
    return found


def _gradient_name(name: str) -> str:
    return f"{name}_backward"


def _names_of(made: Op) -> tuple[str, str]:
    """Namespace and name. Raises unless torch can have an op of this name, and Python call it."""
    namespace, _, name = str(made.name).partition("::")
    if not isinstance(made.name, str) or not all(_NAME.fullmatch(part) for part in (namespace, name)):
        note = 'write "namespace::op", two names of ASCII letters, digits and `_`'
        _refuse("H0610", f"`{made.name}` is not the name of an op", note)
    # Modules and namespaces of ops have more than ops.
    taken = {"namespace": reserved_spaces(), "op": reserved_op_names()}
    for what, part in (("namespace", namespace), ("op", name)):
        if keyword.iskeyword(part) or part in taken[what]:
            _refuse("H0610", f"`{made.name}`: `torch.ops` can have no {what} `{part}`", "take another name")
    return namespace, name


def _check_free(made: Op, namespace: str, name: str) -> None:
    """Raises if a name that the op needs is that of another op, or of another op's gradient."""
    if made.name in _DEFINED:
        return
    for needed, purpose in ((name, ""), (_gradient_name(name), " for its gradient")):
        full = f"{namespace}::{needed}"
        if has_op(full):
            _refuse("H0610", f"`{made.name}` needs the name `{full}`{purpose}, which another op has", "take another name")


def _define(library: torch.library.Library, name: str, schema: str) -> None:
    arguments, _, result = schema.rpartition(" -> ")
    results = result.strip("()").split(", ")
    tags = (torch.Tag.pt2_compliant_tag,)
    library.define(f"{name}{schema}", tags=tags)
    for gives in (True, False):
        library.define(_out_schema(name, arguments, len(results), gives), tags=() if gives else tags)
    library.define(_backward_schema(name, arguments), tags=tags)


def _add_kernels(library: torch.library.Library, made: Op, namespace: str, name: str) -> None:
    gradient = _gradient_name(name)
    kernels: list[tuple[str, Kernel, Kernel, Kernel]] = [
        (name, _run, _run_on_gpu, _run),
        (f"{name}.out", _run_out, _run_out_on_gpu, _fake_out),
        (f"{name}.into", _run_into, _run_into_on_gpu, _fake_into),
        (gradient, _run_gradient, _run_gradient_on_gpu, _fake_gradient),
    ]
    for registered, *of_devices in kernels:
        first = 1 if registered == gradient else 0
        kernel, gpu_kernel, fake = (_with_defaults(one, made, first) for one in of_devices)
        library.impl(registered, kernel, "CPU")
        library.impl(registered, gpu_kernel, "CUDA")
        torch.library.register_fake(f"{namespace}::{registered}", fake, lib=library)
        _pin(namespace, registered)
    for registered in (name, gradient):
        overload = getattr(getattr(torch.ops, namespace), registered).default
        torch.library.register_vmap(overload, functools.partial(call_by_sample, overload), lib=library)
    followed = functools.partial(differentiate_followed, getattr(getattr(torch.ops, namespace), gradient).default)
    library.impl(gradient, followed, "Autograd")


def _pin(namespace: str, registered: str) -> None:
    full = f"{namespace}::{registered}"
    if full not in _PINS:
        _PINS[full] = torch.library.Library(namespace, "IMPL")
        _PINS[full].impl(registered, _nothing, _PIN_KEY)


def _nothing(*values: Any, **out: Any) -> NoReturn:
    raise NotImplementedError


def _with_defaults(kernel: Kernel, made: Op, first: int) -> Kernel:
    """A kernel that gets all arguments: torch leaves out trailing ones that are as their defaults. `first` others come before."""
    defaults = [parameter.default for parameter in made._signature.parameters.values()]

    def run(*values: Any, **out: Any) -> Any:
        return kernel(made, *values, *defaults[len(values) - first :], **out)

    return run


# Kernels


def _run(made: Op, *values: Any) -> Any:
    """Also on fake tensors: what the results look like follows from the body. Nothing else of it is in the graph."""
    made.check_parts(values)
    with torch.no_grad(), within_autograd():
        found = own_results(made, made.body(*values), values)
    # A view that was made without gradients could not be changed in place, so autograd does not learn of it.
    with below_views():
        return pytree.tree_map(torch.ops.aten.alias.default, found)


def _run_out(made: Op, *values: Any, **out: Any) -> Any:
    found = pytree.tree_leaves(_run(made, *values))
    check_out(made.name, tuple(out.values()), found)
    written = tuple(target.copy_(value) for target, value in zip(out.values(), found, strict=True))
    return written[0] if len(written) == 1 else written


def _run_into(made: Op, *values: Any, **out: Any) -> None:
    _run_out(made, *values, **out)


def _run_gradient(made: Op, gradients: list[torch.Tensor], *values: Any) -> list[torch.Tensor]:
    return tensor_gradients(made.name, made.gradient, gradients, values)


def _fake_out(made: Op, *values: Any, **out: Any) -> Any:
    # Torch calls this one if any tensor is on the meta device.
    given = [value for value in values if isinstance(value, torch.Tensor)]
    if not any(value.is_meta for value in given):
        for target in filter(lambda one: one.is_meta, out.values()):
            check_device(made.name, target, given[0].device)
    return next(iter(out.values())) if len(out) == 1 else tuple(out.values())


def _fake_into(made: Op, *values: Any, **out: Any) -> None:
    found = pytree.tree_leaves(_run(made, *values))
    check_out(made.name, tuple(out.values()), found)


def _fake_gradient(made: Op, gradients: list[torch.Tensor], *values: Any) -> list[torch.Tensor]:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]


def _run_on_gpu(made: Op, *values: Any) -> Any:
    found = made.run_program(values)
    return found[0] if len(found) == 1 else tuple(found)


def _run_into_on_gpu(made: Op, *values: Any, **out: torch.Tensor) -> None:
    made.run_program_into(values, tuple(out.values()))


def _run_out_on_gpu(made: Op, *values: Any, **out: torch.Tensor) -> Any:
    _run_into_on_gpu(made, *values, **out)
    return next(iter(out.values())) if len(out) == 1 else tuple(out.values())


def _run_gradient_on_gpu(made: Op, gradients: list[torch.Tensor], *values: Any) -> list[torch.Tensor]:
    schedule = made.gradient.schedule
    if schedule is None:
        return _run_gradient(made, gradients, *values)
    return schedule.run(gradients, values)


def own_results(made: Op, results: Any, values: Sequence[Any]) -> Any:
    """Plain tensors, row by row in memory that they share with no argument and with each other, as results of an op have to be.

    Raises `hostir.HostIrError` if they are not a tensor for each output of the program.
    """
    count = len(made.outputs)
    given = (results,) if count == 1 else results
    if not isinstance(given, (tuple, list)) or len(given) != count or not all(isinstance(one, torch.Tensor) for one in given):
        needed = "a tensor" if count == 1 else f"a tuple of {count} tensors"
        _refuse("H0611", f"{made.name}: the function gives {_kinds_of(results)}, but says that it gives {needed}", None)
    taken = {_memory(value) for value in values if isinstance(value, torch.Tensor)}
    found = []
    for one in map(plain_tensor, given):
        own = one.clone(memory_format=torch.contiguous_format) if _memory(one) in taken else one.contiguous()
        taken.add(_memory(own))
        found.append(own)
    return found[0] if count == 1 else tuple(found)


def _kinds_of(results: Any) -> str:
    if isinstance(results, (tuple, list)):
        kinds = ", ".join(type(one).__name__ for one in results)
        return f"a {type(results).__name__} of {kinds or 'nothing'}"
    return "nothing" if results is None else f"a value of type {type(results).__name__}"


def _memory(tensor: torch.Tensor) -> Any:
    return memory_of(tensor)


# Schemas


def _check_signature(made: Op) -> None:
    """Raises for a function of which torch can make no op."""
    kinds = {"a coroutine": inspect.iscoroutinefunction, "a generator": inspect.isgeneratorfunction}
    for kind, is_kind in kinds.items():
        if is_kind(made.body):
            _refuse("H0611", f"{made.name}: the function is {kind}, which gives no tensors when it is called", "return tensors")
    for name, parameter in made._signature.parameters.items():
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            note = "give it a name that may also be given by position: no `*`, `/`, `*args` or `**kwargs`"
            _refuse("H0611", f"{made.name}: the argument `{name}` is {parameter.kind.description}", note)
        if name == "self" or name in ("out", *_out_names(len(made.outputs))):
            why = "torch calls an op's first argument so" if name == "self" else "ops get their results so"
            _refuse("H0611", f"{made.name}: the function has an argument `{name}`, but {why}", "rename it")
        if parameter.annotation is inspect.Parameter.empty:
            note = f"write `{name}: torch.Tensor`, or another type that torch's ops take"
            _refuse("H0611", f"{made.name}: the argument `{name}` has no annotation", note)
    if made._signature.return_annotation is inspect.Signature.empty:
        _refuse("H0611", f"{made.name}: the function does not say what it gives", "write `-> torch.Tensor`")


def _schema_of(made: Op) -> str:
    """The schema of the function. Raises if torch knows none, as for an argument of another type or another default."""
    try:
        schema: str = torch.library.infer_schema(made.body, mutates_args=())
        parse_schema(f"f{schema}")
    except (ValueError, RuntimeError, AttributeError) as error:
        # Older versions of torch ask types for what only annotations with parameters have.
        is_internal = isinstance(error, AttributeError)
        why = "an annotation is no type that it knows" if is_internal else " ".join(str(error).split("\n\n")[0].split())
        note = "ops take tensors and `int`, `float`, `bool` and `str`, with defaults that are numbers, texts or None"
        _refuse("H0611", f"{made.name}: torch can make no op of the function: {why}", note)
    return schema


def _check_schema(made: Op, text: str) -> None:
    """Raises unless all tensors of the function are the program's, and its results as many as `out` names."""
    schema = parse_schema(text)
    for argument in schema.arguments:
        kind = str(argument.type)
        if "PyObject" in kind or "ProcessGroup" in kind:
            note = "annotate groups as `str`: callers may pass the group itself"
            _refuse("H0611", f"{made.name}: the argument `{argument.name}` is of a type that graphs cannot hold", note)
        if kind != "Tensor" and "Tensor" in kind:
            note = "annotate it as `torch.Tensor`: programs take one tensor for each input"
            _refuse("H0611", f"{made.name}: the argument `{argument.name}` is of type {kind}", note)
        if kind == "Tensor" and argument.name not in made.args:
            note = "name it in `args`, or leave it out of the function"
            _refuse("H0611", f"{made.name}: no input of the program is the argument `{argument.name}`", note)
    for result in schema.returns:
        if str(result.type) != "Tensor":
            note = "annotate results as `torch.Tensor` or `tuple[torch.Tensor, torch.Tensor]`"
            _refuse("H0611", f"{made.name}: the function gives a result of type {result.type}", note)
    if len(schema.returns) != len(made.outputs):
        message = f"the function has {len(schema.returns)} results, but `out` names {len(made.outputs)} outputs"
        _refuse("H0611", f"{made.name}: {message}", "name an output for each result")


def _out_schema(name: str, arguments: str, count: int, gives: bool) -> str:
    """`f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)`, or `f.into`, which gives nothing, for graphs."""
    inner = arguments.strip()[1:-1]
    names = _out_names(count)
    letters = [chr(ord("a") + index) for index in range(count)]
    out = ", ".join(f"Tensor({letter}!) {name}" for letter, name in zip(letters, names, strict=True))
    if not gives:
        return f"{name}.into({_listed(inner, '*', out)}) -> ()"
    result = ", ".join(f"Tensor({letter}!)" for letter in letters)
    return f"{name}.out({_listed(inner, '*', out)}) -> {result if count == 1 else f'({result})'}"


def _backward_schema(name: str, arguments: str) -> str:
    """`f_backward(Tensor[] gradients, Tensor x) -> Tensor[]`."""
    inner = arguments.strip()[1:-1]
    return f"{_gradient_name(name)}({_listed('Tensor[] gradients', inner)}) -> Tensor[]"


def _out_names(count: int) -> list[str]:
    return ["out"] if count == 1 else [f"out{index}" for index in range(count)]


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _refuse(code: str, message: str, note: str | None) -> NoReturn:
    _native.raise_error(code, message, note)
