"""Gradients: an autograd function around an op, and the op that computes them from the body."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch

from hostir import _native
from hostir._program import Program
from hostir.torch._group import plain_tensor
from hostir.torch._session import ProgramSessions
from hostir.torch._torch_internals import below_autograd, followed_by_autograd, memory_of, pytree
from hostir.torch._transforms import (
    call_by_sample,
    is_followed_outside,
    is_transformed,
    refuse_forward_mode,
    refuse_second_derivative,
    refuse_tangents,
)

__all__ = [
    "GradientSchedule",
    "GradientSpec",
    "apply_in_transform",
    "apply_with_gradient",
    "call_below_autograd",
    "differentiable_once",
    "differentiate_followed",
    "mark_of",
    "tensor_gradients",
    "within_autograd",
    "without_autocast",
]


class GradientSpec:
    """The gradient of an op."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward
        """The op's body, which is differentiated where there is no other."""
        self.body: Callable[..., Any] | None = None
        """The user's function for it."""
        self.program: Program | None = None
        """The program for it."""
        self.is_warned = False
        """True if it was said that a result has no gradient."""
        self.schedule: GradientSchedule | None = None
        """The name of the program, if that was said."""


class GradientSchedule:
    """The program of a gradient with what it takes and gives: the gradients of results and then the op's arguments."""

    def __init__(self, sessions: ProgramSessions, inputs: Sequence[int], tensors: Sequence[int]) -> None:
        self.sessions = sessions
        self.inputs = tuple(inputs)
        """For each input of the program its place among gradients and arguments."""
        self.tensors = tuple(tensors)
        """For each output of the program the tensor argument whose gradient it is."""

    def run(self, gradients: list[torch.Tensor], values: Sequence[Any]) -> list[torch.Tensor]:
        """The gradients of all tensor arguments; zeros where the program gives none."""
        given = [*gradients, *values]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        others = tuple(value for value in values if not isinstance(value, torch.Tensor))
        layouts = lambda: [(tensors[at].shape, tensors[at].dtype) for at in self.tensors]  # noqa: E731
        found = self.sessions.run([given[at] for at in self.inputs], others, layouts)
        by_tensor = dict(zip(self.tensors, found, strict=True))
        return [by_tensor[at] if at in by_tensor else _zeros(tensor) for at, tensor in enumerate(tensors)]


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor, memory_format=torch.contiguous_format)


class _Undifferentiable(torch.autograd.Function):
    """Gradients as they are, which cannot be differentiated once more. `count` tensors in front are what they depend on."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> Any:
        # Not views: users may change gradients in place.
        return tuple(None if gradient is None else gradient.data for gradient in tensors[count:])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        refuse_second_derivative()


class _Mark(torch.autograd.Function):
    """A tensor without elements, in the place of one that a gradient depends on and that is not kept."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.new_empty(0)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        # The first derivative has nothing here, and the second is refused by what comes before.
        return None


def mark_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A tensor to save for gradients that depend on one which is not kept; None if that has no gradient."""
    is_followed = tensor.requires_grad and torch.is_grad_enabled()
    return _Mark.apply(tensor) if is_followed else None


def differentiable_once(backward: Callable[..., Any]) -> Callable[..., Any]:
    """The `backward` of an autograd function, whose results refuse to be differentiated. It gets what was saved, then gradients.

    They do with torch's `once_differentiable` only where a gradient that comes in requires one: a loss that is linear in the
    results would have a second derivative of zero.
    """

    @functools.wraps(backward)
    def refusing(ctx: Any, *gradients: Any) -> Any:
        # Checkpoints give what was saved once.
        saved = ctx.saved_tensors
        # In a graph it is the gradient's op that refuses.
        if torch.compiler.is_compiling():
            return backward(ctx, saved, *gradients)
        with torch.no_grad():
            found = backward(ctx, saved, *gradients)
        if not torch.is_grad_enabled():
            return found
        followed = [one for one in (*gradients, *saved) if isinstance(one, torch.Tensor) and one.requires_grad]
        return _Undifferentiable.apply(len(followed), *followed, *found) if followed else found

    return refusing


class _WithGradient(torch.autograd.Function):
    """An op that autograd follows: its gradient is an op, too, so a graph has one node for each.

    Torch calls functions with a `setup_context`, as transforms need it, by 20 us later.
    """

    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, *values: Any) -> Any:
        _keep_inputs(ctx, backward, values)
        return forward(*values)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, saved: Any, *gradients: Any) -> Any:
        return _input_gradients(ctx, saved, gradients, ctx.op)


def _keep_inputs(ctx: Any, backward: Any, values: Sequence[Any]) -> None:
    ctx.op = backward
    ctx.places = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
    ctx.others = [None if isinstance(value, torch.Tensor) else value for value in values]
    ctx.save_for_backward(*[values[at] for at in ctx.places])


def _input_gradients(
    ctx: Any, saved: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], backward: Callable[..., Any]
) -> tuple[Any, ...]:
    values = list(ctx.others)
    for at, tensor in zip(ctx.places, saved):
        values[at] = tensor
    refuse_tangents("the gradient of an op of torch", (*gradients, *saved))
    found = backward([gradient.contiguous() for gradient in gradients], *values)
    by_place: list[Any] = [None] * len(values)
    for at, gradient in zip(ctx.places, found):
        by_place[at] = gradient if ctx.needs_input_grad[at + 2] else None
    return (None, None, *by_place)


class _Transformed(torch.autograd.Function):
    """The same within transforms of `torch.func`."""

    @staticmethod
    def forward(forward: Any, backward: Any, *values: Any) -> Any:
        return forward(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, backward, *values = inputs
        _keep_inputs(ctx, backward, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _input_gradients(ctx, ctx.saved_tensors, gradients, functools.partial(_apply_backward, ctx.op))

    @staticmethod
    def vmap(info: Any, in_dims: Any, *values: Any) -> tuple[Any, Any]:
        return call_by_sample(_Transformed.apply, info, in_dims, *values)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        refuse_forward_mode("an op of torch")


class _Backward(torch.autograd.Function):
    """The gradient of an op within transforms, which cannot be differentiated once more."""

    @staticmethod
    def forward(backward: Any, count: int, *values: Any) -> Any:
        return tuple(backward(list(values[:count]), *values[count:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        refuse_second_derivative()

    @staticmethod
    def vmap(info: Any, in_dims: Any, *values: Any) -> tuple[Any, Any]:
        return call_by_sample(_Backward.apply, info, in_dims, *values)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        refuse_second_derivative()


def differentiate_followed(backward: Any, gradients: list[torch.Tensor], *values: Any) -> list[torch.Tensor]:
    """Calls a gradient's op below autograd, which is told that it cannot follow: compilers differentiate what is in a graph."""
    if not torch.is_grad_enabled() and not is_transformed():
        return call_below_autograd(backward, gradients, *values)
    tensors = (*gradients, *(value for value in values if isinstance(value, torch.Tensor)))
    is_followed = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    below = functools.partial(call_below_autograd, backward)
    if is_transformed():
        # Transforms follow by functions of their own, but in graphs autograd would not see these.
        if is_followed_outside(tensors):
            refuse_second_derivative()
        return below(gradients, *values)
    return list(_apply_backward(below, gradients, *values)) if is_followed else below(gradients, *values)


def call_below_autograd(backward: Any, gradients: list[torch.Tensor], *values: Any) -> list[torch.Tensor]:
    """Calls a gradient's op, of which autograd knows that it ends there."""
    with below_autograd():
        found: list[torch.Tensor] = backward(gradients, *values)
    return found


def _apply_backward(backward: Any, gradients: list[torch.Tensor], *values: Any) -> Any:
    return _Backward.apply(backward, len(gradients), *gradients, *values)


def apply_with_gradient(forward: Any, backward: Any, values: Sequence[Any]) -> Any:
    """The op's results, followed by autograd."""
    return _WithGradient.apply(forward, backward, *values)


def apply_in_transform(forward: Any, backward: Any, values: Sequence[Any]) -> Any:
    """The op's results within a transform of `torch.func`."""
    return _Transformed.apply(forward, backward, *values)


@contextmanager
def within_autograd() -> Iterator[None]:
    """A part of an op's kernel that autograd follows, and in which ops that are made of others by autograd work.

    Graphs call ops below autograd. Element types are those of the tensors, also under `torch.autocast`: graphs and programs
    know nothing of it.
    """
    with ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            stack.enter_context(without_autocast(kind))
        stack.enter_context(followed_by_autograd())
        yield


def without_autocast(kind: str) -> AbstractContextManager[Any]:
    """A context in which element types are those of the tensors, whatever `torch.autocast` says for a kind of device."""
    is_on = kind != "meta" and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if is_on else nullcontext()


def tensor_gradients(name: str, spec: GradientSpec, gradients: list[torch.Tensor], values: Sequence[Any]) -> list[torch.Tensor]:
    """The gradients of all tensor arguments of the op of a name."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    with within_autograd():
        found = (_user_gradients if spec.body else _body_gradients)(name, spec, gradients, values)
    return [
        _zeros(tensor) if gradient is None else _own_memory(plain_tensor(gradient).to(tensor.dtype), gradients + tensors)
        for tensor, gradient in zip(tensors, found, strict=True)
    ]


def _user_gradients(name: str, spec: GradientSpec, gradients: list[torch.Tensor], values: Sequence[Any]) -> Sequence[Any]:
    """The results of the function of `backward`. Raises unless they are a gradient, or None, for each tensor."""
    assert spec.body is not None
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    with torch.no_grad():
        found = spec.body(*gradients, *values)
    found = (found,) if isinstance(found, torch.Tensor) else found
    is_list = isinstance(found, (tuple, list)) and all(one is None or isinstance(one, torch.Tensor) for one in found)
    if not is_list or len(found) != len(tensors):
        kinds = ", ".join(type(one).__name__ for one in found) if isinstance(found, (tuple, list)) else type(found).__name__
        message = f"{name}: the function of `backward` gives {kinds or 'nothing'} for {len(tensors)} tensor arguments"
        _native.raise_error("H0611", message, "give a tuple with a gradient, or None, for each tensor argument")
    for at, (tensor, gradient) in enumerate(zip(tensors, found, strict=True)):
        if gradient is not None and gradient.shape != tensor.shape:
            shapes = f"{list(gradient.shape)}, but the argument {list(tensor.shape)}"
            message = f"{name}: the gradient of tensor argument {at} that the function of `backward` gives has shape {shapes}"
            _native.raise_error("H0611", message, "a gradient has the shape of its argument")
    return found


def _body_gradients(name: str, spec: GradientSpec, gradients: list[torch.Tensor], values: Sequence[Any]) -> Sequence[Any]:
    """The derivative of the body. Warns, once an op, if autograd has not followed it to one of its results."""
    with torch.enable_grad():
        own = [_leaf(value) if isinstance(value, torch.Tensor) else value for value in values]
        results = pytree.tree_leaves(spec.forward(*own))
        followed = [(result, gradient) for result, gradient in zip(results, gradients, strict=True) if result.requires_grad]
        leaves = [value for value in own if isinstance(value, torch.Tensor)]
        inputs = [leaf for leaf in leaves if leaf.requires_grad]
        if not inputs or not any(map(_is_differentiable, results)):
            return [None] * len(leaves)
        if len(followed) < sum(map(_is_differentiable, results)) and not spec.is_warned:
            spec.is_warned = True
            what = "does not depend on an argument, or leaves torch on the way to it, so its gradient is zero"
            warnings.warn(f"{name}: a result of the function {what}; `backward` says what it is", stacklevel=2)
        if not followed:
            return [None] * len(leaves)
        found = torch.autograd.grad(
            [result for result, _ in followed], inputs, [gradient for _, gradient in followed], allow_unused=True
        )
    by_leaf = dict(zip(map(id, inputs), found, strict=True))
    return [by_leaf.get(id(leaf)) for leaf in leaves]


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(_is_differentiable(tensor))


def _is_differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _own_memory(gradient: torch.Tensor, others: Sequence[torch.Tensor]) -> torch.Tensor:
    gradient = gradient.detach()
    memory = memory_of(gradient)
    shared = any(memory_of(other) == memory for other in others)
    return gradient.clone(memory_format=torch.contiguous_format) if shared else gradient.contiguous()
