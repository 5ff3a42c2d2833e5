"""Ops under `torch.func`'s transforms: `grad` and `vmap` work, forward-mode derivatives are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch._dynamo
import torch.autograd.forward_ad as forward_ad
import torch.utils._pytree as pytree

from hostir import _native

__all__ = [
    "call_by_sample",
    "is_differentiated",
    "is_followed_outside",
    "is_transformed",
    "refuse_forward_level",
    "refuse_forward_mode",
    "refuse_replaced",
    "refuse_second_derivative",
    "refuse_second_level",
    "refuse_tangents",
    "refuse_transform",
]

_functorch = torch._C._functorch


def is_transformed() -> bool:
    """True if a transform of `torch.func` is under way that differentiates, or `vmap`."""
    if _functorch.peek_interpreter_stack() is None:
        return False
    kinds = [interpreter.key() for interpreter in _functorch.get_interpreter_stack() or ()]
    return any(kind != _functorch.TransformType.Functionalize for kind in kinds)


@torch._dynamo.assume_constant_result
def is_differentiated() -> bool:
    """True if a transform of `torch.func` differentiates. Compilers ask when they trace, and guard what they are in."""
    kinds = [interpreter.key() for interpreter in _functorch.get_interpreter_stack() or ()]
    return _functorch.TransformType.Grad in kinds


def is_followed_outside(tensors: Sequence[torch.Tensor]) -> bool:
    """True within a transform that differentiates, if autograd follows one of the tensors outside of it."""
    found = _functorch.get_interpreter_stack() or ()
    levels = [level for level in found if level.key() == _functorch.TransformType.Grad]
    if not levels or not _functorch.CGradInterpreterPtr(levels[0]).prevGradMode():
        return False
    return any(_innermost(tensor).requires_grad for tensor in tensors)


def _innermost(tensor: torch.Tensor) -> torch.Tensor:
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def refuse_forward_level(name: str) -> None:
    """Raises where derivatives are forward; of compilers, which do not say what has a tangent."""
    if forward_ad._current_level >= 0:
        refuse_forward_mode(name)


@torch._dynamo.assume_constant_result
def refuse_second_level() -> bool:
    """Raises where `torch.func` differentiates twice; of compilers, which would take the second derivative for zeros."""
    kinds = [interpreter.key() for interpreter in _functorch.get_interpreter_stack() or ()]
    if kinds.count(_functorch.TransformType.Grad) > 1:
        refuse_second_derivative()
    return True


def refuse_tangents(name: str, values: Sequence[Any]) -> None:
    """Raises where an argument of the op has a tangent, of which the op's result would have none."""
    if forward_ad._current_level >= 0 and any(_has_tangent(value) for value in values):
        refuse_forward_mode(name)


def refuse_forward_mode(name: str) -> NoReturn:
    """Raises."""
    _native.raise_error(
        "H0614",
        f"{name} has no forward-mode derivative, but an argument has a tangent, of `torch.func.jvp`, `jacfwd` or `dual_level`",
        "differentiate backward (`torch.func.vjp`, `jacrev`), or differentiate the op's function in plain torch, `.body`",
    )


def refuse_transform(name: str) -> None:
    """Raises within a transform of `torch.func`."""
    if is_transformed():
        _native.raise_error(
            "H0614",
            f"{name} has no rules for the transforms of `torch.func`",
            "use `torch.autograd.grad`, or an op of `hir.op`, which `torch.func.grad` and `vmap` take",
        )


@torch._dynamo.assume_constant_result
def refuse_replaced(name: str) -> NoReturn:
    """Raises, also where a compiler traces."""
    message = f"{name}: this op was replaced by one of the same name that was defined since"
    _native.raise_error("H0614", message, "take the new one, or give both names of their own")


def refuse_second_derivative() -> NoReturn:
    """Raises."""
    _native.raise_error(
        "H0614",
        "the gradient of an op of torch or of `hir.linear` is differentiated, but has no derivative",
        "differentiate plain torch: an op's function, `.body`, and for `hir.linear` collectives and `F.linear`",
    )


def _has_tangent(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return False
    # A wrapper of a transform does not show the tangent of what it wraps, and samples of `vmap` cannot be asked.
    if not _functorch.is_batchedtensor(value) and forward_ad.unpack_dual(value).tangent is not None:
        return True
    return _functorch.is_functorch_wrapped_tensor(value) and _has_tangent(_functorch.get_unwrapped(value))


def call_by_sample(function: Callable[..., Any], info: Any, in_dims: Any, *values: Any) -> tuple[Any, Any]:
    """The rule of an op under `vmap`: a call for each sample, and the results with the samples as their first axis.

    All ranks of a group call it with as many samples, one at least: nothing else says what a result looks like.
    """
    if info.batch_size == 0:
        _native.raise_error("H0614", "`vmap` of an op has no samples", "call it with a batch that is not empty")
    leaves, spec = pytree.tree_flatten(values)
    dims = pytree.tree_flatten(in_dims, is_leaf=lambda dim: dim is None)[0]
    made = []
    for sample in range(info.batch_size):
        parts = [leaf if dim is None else leaf.select(dim, sample) for leaf, dim in zip(leaves, dims, strict=True)]
        made.append(function(*pytree.tree_unflatten(parts, spec)))
    stacked = pytree.tree_map(lambda *results: torch.stack(results), *made)
    return stacked, pytree.tree_map(lambda _: 0, stacked)
