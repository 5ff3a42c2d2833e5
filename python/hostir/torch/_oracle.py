"""The comparison of an op's programs with its body, and with the function of its gradient."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hostir import Tensor, _native
from hostir._arrays import copy_tensor
from hostir._program import Program, _settings
from hostir.torch._gradient import tensor_gradients
from hostir.torch._op_checks import check_tolerances
from hostir.torch._torch_internals import FakeTensor, pytree, version_of
from hostir.torch._verdicts import RankVerdicts

if TYPE_CHECKING:
    from hostir.torch._op import Op

__all__ = ["compare_with_body"]


ROUNDINGS = {
    torch.bfloat16: (1.6e-2, 1e-5, 2),
    torch.float16: (1e-3, 1e-5, 2),
    torch.float32: (1.3e-6, 1e-5, 64),
    torch.float64: (1e-7, 1e-7, 64),
}
"""By element type: both tolerances of `torch.testing.assert_close`, and how many roundings of the largest result are allowed
besides. Results of 16 bits are rounded once or twice. Sums of n terms in other types are off by some sqrt(n) / 4 roundings of
the largest one: 64 are enough for 2^16 terms. The coarsest type counts to which values are rounded on the way to a result.
"""

COARSE_ROUNDINGS = {torch.float8_e4m3fn: (0.125, 1e-5, 2), torch.float8_e5m2: (0.25, 1e-5, 2)}
"""The same for types of values on the way alone."""


@dataclass(frozen=True)
class _Tolerances:
    """The differences that results may have, as `torch.testing.assert_close` takes them."""

    rtol: float | None
    atol: float | None


@dataclass(frozen=True)
class _Pair:
    """A result of a program, and of the function that says what it has to be."""

    name: str
    function: str
    found: Tensor | None
    roundings: list[str]
    """The element types to which values are rounded on the way to `found`."""
    wanted: torch.Tensor


@dataclass(frozen=True)
class _Wanted:
    """The results of an op's functions."""

    results: list[torch.Tensor]
    gradients: list[torch.Tensor]
    """Of results, as random numbers; none without a program of the gradient."""
    given: list[torch.Tensor]
    """The gradients of the tensor arguments."""


def compare_with_body(made: Op, values: Sequence[Any], rtol: float | None, atol: float | None) -> None:
    """Runs programs and functions, and raises on all ranks if results differ on one.

    Each step is one of all ranks: none goes on to the next one if another has failed.
    """
    ranks = RankVerdicts(made.name, made.group_of_call(values))
    with ranks.share_failures("tolerances"):
        check_tolerances(made.name, rtol, atol)
    # As for `assert_close` one that is not given is 0 beside the other.
    tolerances = _Tolerances(rtol, atol) if (rtol is None) == (atol is None) else _Tolerances(rtol or 0.0, atol or 0.0)
    named = made.named_arguments(values)
    _check_alike(made, {argument: named[argument] for argument in made.args}, ranks)
    with ranks.share_failures("functions"):
        wanted = _function_results(made, values, ranks.rank)
    with ranks.share_failures("results"):
        for pair in _result_pairs(made, values, wanted, ranks):
            _compare(made, pair, ranks.rank, tolerances)


def _function_results(made: Op, values: Sequence[Any], rank: int) -> _Wanted:
    """The results of the body, and those of the function of the gradient if it has a program."""
    results = _body_results(made, values)
    if made.gradient.schedule is None:
        return _Wanted(results, [], [])
    generator = torch.Generator().manual_seed(rank)
    gradients = [torch.randn(result.shape, generator=generator).to(result) for result in results]
    return _Wanted(results, gradients, _gradient_results(made, values, gradients))


def _result_pairs(made: Op, values: Sequence[Any], wanted: _Wanted, ranks: RankVerdicts) -> list[_Pair]:
    """The results of programs and functions, also of gradients."""
    named = made.named_arguments(values)
    outputs = _run_program(made.program, {name: named[argument] for argument, name in made.args.items()}, ranks)
    pairs = []
    for name, result in zip(made.outputs, wanted.results, strict=True):
        position = made.program.position(name, "output")
        assert position is not None
        pairs.append(_Pair(name, "the body", *outputs[position][1:], result))
    return pairs if made.gradient.schedule is None else pairs + _gradient_pairs(made, values, wanted, ranks)


def _run_program(
    program: Program, given: dict[str, torch.Tensor], ranks: RankVerdicts
) -> list[tuple[str, Tensor | None, list[str]]]:
    """This rank's outputs of a program that all ranks give their parts: name, part and types of roundings."""
    parts = {name: _all_parts(tensor, ranks.group) for name, tensor in given.items()}
    return _native.run_ranks(program._handle, parts, _settings(ranks.world, None, None, None, False, None))[ranks.rank]


def _body_results(made: Op, values: Sequence[Any]) -> list[torch.Tensor]:
    """The body's results. Raises if these are not a tensor for each output, or if the body changes an argument."""
    tensors = {name: value for name, value in made.named_arguments(values).items() if isinstance(value, torch.Tensor)}
    with torch.no_grad(), _unchanged(f"{made.name}: the function", tensors):
        return pytree.tree_leaves(made.run_body(*values))


@contextmanager
def _unchanged(function: str, tensors: dict[str, torch.Tensor]) -> Iterator[None]:
    """Raises if a function changes its arguments, and gives them their numbers back."""
    kept = {name: (version_of(tensor), tensor.clone()) for name, tensor in tensors.items() if not tensor.is_inference()}
    yield
    for name, (version, numbers) in kept.items():
        if version_of(tensors[name]) != version:
            with torch.no_grad():
                tensors[name].copy_(numbers)
            note = f"let it work on a copy: `{name} = {name}.clone()`"
            _native.raise_error("H0611", f"{function} changes its argument `{name}`", note)


def _gradient_results(made: Op, values: Sequence[Any], gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients by the function of `backward`, for these gradients of the results."""
    parameters = list(inspect.signature(made.gradient.body).parameters) if made.gradient.body else []
    tensors = {name: one for name, one in zip(parameters, [*gradients, *values]) if isinstance(one, torch.Tensor)}
    with _unchanged(f"{made.name}: the function of `backward`", tensors):
        return tensor_gradients(made.name, made.gradient, gradients, values)


def _gradient_pairs(made: Op, values: Sequence[Any], wanted: _Wanted, ranks: RankVerdicts) -> list[_Pair]:
    """The gradients of the program and of the function."""
    schedule = made.gradient.schedule
    assert schedule is not None
    given = [*wanted.gradients, *values]
    program = schedule.sessions.program
    inputs = dict(zip(program.inputs, (given[at] for at in schedule.inputs), strict=True))
    outputs = _run_program(program, inputs, ranks)
    names = [name for name in made.named_arguments(values) if name in made.args]
    for at, gradient in enumerate(wanted.given):
        if at not in schedule.tensors and gradient.any():
            given_one = f"the function of `backward` gives a gradient of `{names[at]}`"
            place = "" if ranks.group is None else f" on rank {ranks.rank}"
            message = f"{made.name}: {given_one}, but no output of its program is that{place}"
            _native.raise_error("H0630", message, "name the output in `out`; without one the gradient is zero on GPUs")
    places = zip(schedule.sessions.outputs, schedule.tensors, strict=True)
    return [
        _Pair(f"the gradient of `{names[at]}`", "the function of `backward`", *outputs[position][1:], wanted.given[at])
        for position, at in places
    ]


def _check_alike(made: Op, tensors: dict[str, Any], ranks: RankVerdicts) -> None:
    """Raises on all ranks unless all arguments are tensors with numbers, of the same shapes and types, and programs the same."""
    digests = [_digest_of(program) for program in (made.program, made.backward_program) if program is not None]
    own = [{name: _kind_of(value) for name, value in tensors.items()}, digests]
    found = ranks.gather_messages("arguments", own)
    for name, (first, _) in found[0][0].items():
        for rank, (other, _) in enumerate(found):
            _check_kind(made, name, first, other.get(name, (first, True)), "" if ranks.group is None else f" on rank {rank}")
    for rank, (_, other) in enumerate(found):
        if other != found[0][1]:
            message = f"{made.name}: rank {rank} has another program than rank 0"
            _native.raise_error("H0614", message, "give all ranks the same one; all of them call `hir.override`")


def _check_kind(made: Op, name: str, first: str, found: tuple[str, bool], place: str) -> None:
    """Raises unless an argument is a tensor with numbers, like the one of the first rank."""
    kind, has_numbers = found
    if not has_numbers:
        message = f"{made.name}: `{name}` is {kind}{place}, but `check` needs a tensor with numbers"
        _native.raise_error("H0610", message, None)
    if kind != first:
        message = f"{made.name}: `{name}` is {first} on rank 0, but {kind}{place}"
        _native.raise_error("H0610", message, "ranks pass tensors of the same shapes and types")


def _digest_of(program: Program) -> str:
    return hashlib.sha256(str(program).encode()).hexdigest()


def _kind_of(value: Any) -> tuple[str, bool]:
    """A text about an argument, and true if it is a tensor with numbers."""
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return f"a {type(value).__name__}", False
    if value.is_meta:
        return "a tensor of the meta device", False
    if type(value).__name__ == "DTensor" or value.layout is not torch.strided:
        return f"a {'sparse tensor' if value.layout is not torch.strided else 'DTensor'}", False
    return f"{list(value.shape)} of {value.dtype}", True


def _all_parts(tensor: torch.Tensor, group: Any) -> list[Tensor]:
    own = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if group is None:
        return [copy_tensor(own)]
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    # Gloo knows no floats of 8 bits.
    is_small = own.element_size() == 1
    sent, received = (own.view(torch.uint8), [part.view(torch.uint8) for part in parts]) if is_small else (own, parts)
    dist.all_gather(received, sent, group=group)
    return [copy_tensor(part) for part in parts]


def _tensor_of(found: Tensor) -> torch.Tensor:
    if not found.dtype.startswith("float8"):
        return torch.from_dlpack(found)
    # Older versions of torch take no floats of 8 bits from others.
    dtype: torch.dtype = getattr(torch, found.dtype)
    return torch.from_dlpack(found.bits()).view(dtype)


def _compare(made: Op, pair: _Pair, rank: int, tolerances: _Tolerances) -> None:
    name, function, wanted = pair.name, pair.function, pair.wanted
    rtol, atol = tolerances.rtol, tolerances.atol
    if pair.found is None:
        _native.raise_error("H0630", f"{made.name}: rank {rank} holds no part of {name}, but {function} gives one", None)
    got = _tensor_of(pair.found)
    if got.numel() != wanted.numel():
        shapes = f"{list(got.shape)}, but that of {function} {list(wanted.shape)}"
        _native.raise_error("H0630", f"{made.name}: {name} of rank {rank} has shape {shapes}", None)
    if rtol is None and wanted.dtype in ROUNDINGS and wanted.numel():
        # Sums are rounded by parts and terms: errors are those of their largest terms.
        coarsest = _coarsest_type(wanted.dtype, pair.roundings)
        rtol, least, roundings = (ROUNDINGS | COARSE_ROUNDINGS)[coarsest]
        largest = wanted.abs().nan_to_num(posinf=0.0).max().item()
        atol = max(least, roundings * torch.finfo(coarsest).eps * largest)
    try:
        torch.testing.assert_close(got.reshape(wanted.shape), wanted, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        message = f"{made.name}: {name} of rank {rank} differs from {function}: {' '.join(str(error).split())}"
        _native.raise_error("H0630", message, "`rtol` and `atol` set how far they may be apart")


def _coarsest_type(dtype: torch.dtype, roundings: list[str]) -> torch.dtype:
    """The coarsest of the types to which a result of this type, and values on the way to it, are rounded, as for hir-run."""
    others: list[torch.dtype] = [getattr(torch, name) for name in roundings]
    known = [other for other in others if other in ROUNDINGS or other in COARSE_ROUNDINGS]
    return max([dtype, *known], key=lambda one: torch.finfo(one).eps)
