"""Ops under `torch.func`'s transforms: `grad` and `vmap` work, forward-mode derivatives are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from hostir import _native
from hostir.torch._torch_internals import forward_level, has_tangent, innermost_tensor, pytree, transform_levels

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


def is_transformed() -> bool:
    """True if a transform of `torch.func` is under way that differentiates, or `vmap`."""
    return any(kind != "Functionalize" for kind, _ in transform_levels())


@torch.compiler.assume_constant_result
def is_differentiated() -> bool:
    """True if a transform of `torch.func` differentiates. Compilers ask when they trace, and guard what they are in."""
    return any(kind == "Grad" for kind, _ in transform_levels())


def is_followed_outside(tensors: Sequence[torch.Tensor]) -> bool:
    """True within a transform that differentiates, if autograd follows one of the tensors outside of it."""
    followed = [is_followed for kind, is_followed in transform_levels() if kind == "Grad"]
    return bool(followed) and followed[0] and any(innermost_tensor(tensor).requires_grad for tensor in tensors)


def refuse_forward_level(name: str) -> None:
    """Raises where derivatives are forward; of compilers, which do not say what has a tangent."""
    if forward_level() >= 0:
        refuse_forward_mode(name)


@torch.compiler.assume_constant_result
def refuse_second_level() -> bool:
    """Raises where `torch.func` differentiates twice; of compilers, which would take the second derivative for zeros."""
    if [kind for kind, _ in transform_levels()].count("Grad") > 1:
        refuse_second_derivative()
    return True


def refuse_tangents(name: str, values: Sequence[Any]) -> None:
    """Raises where an argument of the op has a tangent, of which the op's result would have none."""
    if forward_level() >= 0 and any(isinstance(value, torch.Tensor) and has_tangent(value) for value in values):
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


@torch.compiler.assume_constant_result
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
