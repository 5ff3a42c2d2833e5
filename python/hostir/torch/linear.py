"""Linear layers of tensor parallelism whose collectives go on beside the matmul, without a compiler.

Weights are `[out, in]` as those of `torch.nn.Linear`, and a rank has its part of them. Rows are tokens: axis `dim` of `x`,
of which each rank has its part. The functions are differentiable; what is gathered in the forward is kept for the backward.
Under `torch.compile` they are torch's own collectives and matmuls, which `Overlap` finds in the graph. Under
`torch.autocast` arguments are converted as those of `torch.nn.functional.linear` are, before they are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from hostir.torch._gradient import differentiable_once, mark_of, without_autocast
from hostir.torch._group import known_group_name, rank_count
from hostir.torch._slot_checks import check_biases, check_kinds, check_part_rows, check_rows, check_types, check_weights
from hostir.torch._slot_graphs import (
    SlotCall,
    check,
    gather_rows,
    report,
    run_slot,
    scatter_sum,
    use,
)
from hostir.torch._torch_internals import functional_collectives
from hostir.torch._transforms import refuse_tangents, refuse_transform

__all__ = ["all_gather", "all_reduce", "check", "reduce_scatter", "report", "use"]

c10d = functional_collectives()


@overload
def all_gather(x: Tensor, w: Tensor, group: Any, bias: Tensor | None = None, *, dim: int = 0) -> Tensor: ...


@overload
def all_gather(
    x: Tensor, w: Sequence[Tensor], group: Any, bias: Sequence[Tensor] | None = None, *, dim: int = 0
) -> tuple[Tensor, ...]: ...


def all_gather(x: Tensor, w: Any, group: Any, bias: Any = None, *, dim: int = 0) -> Any:
    """`linear(gathered x, w, bias)`: the rows of all ranks times this rank's columns.

    With a list of weights, and of biases if any, they share the gather, and the result is a tuple. `group` is a process
    group, its name, a `DeviceMesh` of one dimension, or None for the default group.

    Wrong shapes and groups are a `hostir.HostIrError` (`H0610`).
    """
    is_list = _is_list(w)
    weights = tuple(w) if is_list else (w,)
    biases = () if bias is None else tuple(bias) if _is_list(bias) else (bias,)
    check_kinds(x, weights, biases, is_list)
    check_rows(x, dim)
    call = _slot_call(x, group, dim, weights, biases, is_list)
    given = _arguments(call, x, *weights, *biases)
    is_compiled = torch.compiler.is_compiling()
    made = _gather_compiled(call, *given) if is_compiled else _Gather.apply(call, mark_of(given[0]), *given)
    return tuple(made) if is_list else made[0]


def reduce_scatter(x: Tensor, w: Tensor, group: Any, bias: Tensor | None = None, *, dim: int = 0) -> Tensor:
    """`linear(x, w)` summed over the ranks, of which each has its part of the rows; then `bias` is added.

    A rank has its part of the columns of `x` and `w`, and the whole bias, whose gradient is that of all rows.
    """
    biases = () if bias is None else (bias,)
    check_kinds(x, (w,), biases, is_list=False)
    check_rows(x, dim)
    call = _slot_call(x, group, dim, (w,), biases)
    check_part_rows(x, dim, call.ranks)
    return (_scatter_compiled if torch.compiler.is_compiling() else _Scatter.apply)(call, *_arguments(call, x, w, *biases))


def all_reduce(x: Tensor, w: Tensor, group: Any, bias: Tensor | None = None) -> Tensor:
    """`linear(x, w)` summed over the ranks, which all have the sum; then `bias` is added.

    All ranks go on with the same numbers, so the gradient that comes back is the same on all, and is not summed.
    """
    biases = () if bias is None else (bias,)
    check_kinds(x, (w,), biases, is_list=False)
    call = _slot_call(x, group, 0, (w,), biases)
    return _Reduce.apply(call, *_arguments(call, x, w, *biases))


def _is_list(value: Any) -> bool:
    """True also for other sequences, such as `nn.ParameterList`."""
    return not isinstance(value, Tensor) and hasattr(value, "__iter__")


def _slot_call(
    x: Tensor, group: Any, dim: int, weights: Sequence[Tensor], biases: Sequence[Any], is_list: bool = False
) -> SlotCall:
    if not torch.compiler.is_compiling():
        refuse_transform("`hir.linear`")
        refuse_tangents("`hir.linear`", (x, *weights, *biases))
    name = known_group_name(group)
    ranks = rank_count(name)
    check_weights(x, weights, is_list, ranks)
    check_biases(biases, weights, is_list)
    return SlotCall(name, ranks, dim % x.dim(), len(weights), len(biases) > 0)


def _arguments(call: SlotCall, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The arguments as the matmuls take them: `x`, weights and biases of one element type."""
    found = _cast_for_autocast(*tensors)
    check_types(found, call.count)
    return found


def _cast_for_autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The arguments in the element type of `torch.autocast`, if it is on. It leaves double as it is."""
    kind = tensors[0].device.type
    # Autocast knows nothing of tensors without memory.
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor.to(dtype) if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor for tensor in tensors)


def _flat(rows: Tensor) -> Tensor:
    # Without features, -1 says nothing.
    return rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])


def _unflat(rows: Tensor, like: Tensor) -> Tensor:
    return rows.reshape(*like.shape[:-1], rows.shape[-1])


def _weight_gradients(gradients: Sequence[Tensor], rows: Tensor, call: SlotCall) -> list[Tensor]:
    """Of each weight, then of each bias."""
    flat = [_flat(gradient) for gradient in gradients]
    biases = [gradient.sum(0) for gradient in flat] if call.has_bias else []
    return [*(torch.mm(gradient.t(), _flat(rows)) for gradient in flat), *biases]


def _input_gradient(gradients: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    products = [torch.mm(_flat(gradient), weight) for gradient, weight in zip(gradients, weights, strict=True)]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return _unflat(total, gradients[0])


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = torch.mm(_flat(rows), weight.t())
    return _unflat(made if bias is None else made + bias, rows)


def _biases(call: SlotCall, weights: Sequence[Tensor]) -> Sequence[Tensor | None]:
    return weights[call.count :] if call.has_bias else [None] * call.count


# Gather


def _gather_forward(call: SlotCall, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    whole = gather_rows(call, x)
    pairs = zip(weights[: call.count], _biases(call, weights), strict=True)
    return (*(_linear(whole, weight, bias) for weight, bias in pairs), whole)


def _gather_backward(call: SlotCall, whole: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    weights, gradients = rest[: call.count], rest[call.count :]
    given = scatter_sum(call, _input_gradient(gradients, weights))
    return (given, *_weight_gradients(gradients, whole, call))


class _Gather(torch.autograd.Function):
    """Gathered rows times weights."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, mark: Tensor | None, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        *made, whole = run_slot(_gather_forward, call, (x, *weights))
        ctx.call = call
        ctx.save_for_backward(mark, whole, *weights[: call.count])
        return tuple(made)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, saved: Sequence[Tensor], *gradients: Tensor) -> Any:
        given = [gradient.contiguous() for gradient in gradients]
        return (None, None, *run_slot(_gather_backward, ctx.call, (*saved[1:], *given)))


def _gather_compiled(call: SlotCall, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
    whole = _AllGather.apply(call, x)
    pairs = zip(weights[: call.count], _biases(call, weights), strict=True)
    return tuple(F.linear(whole, weight, bias) for weight, bias in pairs)


# Scatter


def _scatter_forward(call: SlotCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = scatter_sum(call, _linear(x, weight))
    return made if bias is None else made + bias


def _scatter_backward(call: SlotCall, x: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
    whole = gather_rows(call, gradient)
    given = _unflat(torch.mm(_flat(whole), weight), whole)
    return (given, *_weight_gradients([whole], x, call))


class _Scatter(torch.autograd.Function):
    """Products summed over ranks, by rows."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        ctx.call = call
        ctx.save_for_backward(x, weight)
        return run_slot(_scatter_forward, call, (x, weight, *bias))

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, saved: Sequence[Tensor], gradient: Tensor) -> Any:
        return (None, *run_slot(_scatter_backward, ctx.call, (*saved, gradient.contiguous())))


def _scatter_compiled(call: SlotCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = _ReduceScatter.apply(call, F.linear(x, weight))
    return made if bias is None else made + _SumGradient.apply(call, bias)


class _AllGather(torch.autograd.Function):
    """The collective alone, for compilers."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, x: Tensor) -> Tensor:
        ctx.call = call
        return gather_rows(call, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, scatter_sum(ctx.call, gradient)


class _ReduceScatter(torch.autograd.Function):
    """The collective alone, for compilers."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, x: Tensor) -> Tensor:
        ctx.call = call
        return scatter_sum(call, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, gather_rows(ctx.call, gradient)


class _SumGradient(torch.autograd.Function):
    """A tensor that all ranks have, whose gradient is summed over them."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, x: Tensor) -> Tensor:
        ctx.call = call
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, c10d.wait_tensor(c10d.all_reduce(gradient.contiguous(), "sum", ctx.call.group))


# Reduce


def _reduce_forward(call: SlotCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = c10d.wait_tensor(c10d.all_reduce(_linear(x, weight), "sum", call.group))
    return made if bias is None else made + bias


class _Reduce(torch.autograd.Function):
    """Products summed over ranks, on all of them."""

    @staticmethod
    def forward(ctx: Any, call: SlotCall, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        ctx.call = call
        ctx.save_for_backward(x, weight)
        if torch.compiler.is_compiling():
            return _reduce_forward(call, x, weight, *bias)
        return run_slot(_reduce_forward, call, (x, weight, *bias))

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, saved: Sequence[Tensor], gradient: Tensor) -> Any:
        x, weight = saved
        with without_autocast(x.device.type):
            given = _unflat(torch.mm(_flat(gradient), weight), x)
            return (None, given, *_weight_gradients([gradient], x, ctx.call))
