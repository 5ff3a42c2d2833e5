"""Ops: a body in plain torch, registered with torch's dispatcher, and the program that schedules it."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.profiler import record_function

from hostir import _native
from hostir._errors import HostIrError
from hostir._program import Program, Verdict
from hostir._settings import MOST_RANKS, read_number
from hostir._timeline import timeline
from hostir.torch._gradient import (
    GradientSchedule,
    GradientSpec,
    apply_in_transform,
    apply_with_gradient,
    call_below_autograd,
    within_autograd,
    without_autocast,
)
from hostir.torch._group import group_among, group_name, is_group, known_group_name
from hostir.torch._op_checks import (
    check_gradient,
    check_idle,
    check_tensor,
    check_tuning,
    checked_out,
    checked_settings,
    gradient_places,
    group_place,
    input_places,
    known_settings,
    load_beside,
    output_places,
)
from hostir.torch._pickling import find_module_place, importable_op
from hostir.torch._registration import own_results, register_op
from hostir.torch._session import ProgramSessions, ResultLayout, Tuning
from hostir.torch._session_vote import SessionRefused
from hostir.torch._torch_internals import FakeTensorMode, pytree
from hostir.torch._transforms import (
    is_differentiated,
    is_transformed,
    refuse_forward_level,
    refuse_replaced,
    refuse_second_level,
    refuse_tangents,
)

__all__ = ["Op", "op"]

Body = Callable[..., Any]

log = logging.getLogger(__name__)

_MOST_FITTING = 256


def op(
    name: str,
    *,
    program: str | os.PathLike[str] | Program,
    args: Mapping[str, str],
    out: str | Sequence[str],
    passes: str = "",
    tuning: Tuning = "quick",
) -> Callable[[Body], Op]:
    """Makes an op of torch of a function in plain torch, which says what the op computes, and a host program.

    - `name`: `"namespace::op"`, as which torch knows it.
    - `program`: a `hostir.Program`, or the path of a text; a relative one starts at the folder of the function's file.
    - `args`: for each tensor argument of the function the program's input, by name or number (`"T0"`).
    - `out`: the program's output, or the outputs of a function that gives a tuple.
    - `passes`: a pipeline that the program goes through first, `"host-ir-lower"`.
    - `tuning`: how cuBLASLt's algorithms for the program's matmuls are chosen, and those of its gradient's. `"quick"` times
      single runs; `"sustained"` takes some 4 s for each large one, at the clock that the GPU's power limit leaves, which makes
      matmuls of a model that keeps the GPU there up to 4% faster; `"kernels"` times kernels of ours with them, for 16-bit floats
      on Hopper.

    The function's arguments and results need annotations (`torch.Tensor`, `int`, `float`, `bool`, `str`). A process
    group is an argument of type `str`; callers pass its name, the group, a `DeviceMesh` of one dimension, or None for the
    default group. Collectives are those of `torch.distributed._functional_collectives`. The function must not change its
    arguments.

    Raises `hostir.HostIrError` if the program is wrong or does not have these inputs and outputs.
    """

    outputs = checked_settings(name, program, args, out)
    check_tuning(name, tuning)

    def decorate(body: Body) -> Op:
        if not (inspect.isfunction(inspect.unwrap(body)) or inspect.ismethod(body)):
            kind = type(body).__name__
            _native.raise_error("H0610", f"{name}: `op` decorates a function, not a value of type {kind}", None)
        found = program if isinstance(program, Program) else load_beside(body, program)
        made = found.run_passes(passes) if passes else found
        return Op(name, body, made, args, outputs, tuning)

    return decorate


class Op:
    """An op of torch with a host program. Calling it is calling the op."""

    def __init__(
        self,
        name: str,
        body: Body,
        program: Program,
        args: Mapping[str, str],
        out: tuple[str, ...],
        tuning: Tuning = "quick",
        fallback_sites: Sequence[str] | None = None,
    ) -> None:
        functools.update_wrapper(self, body)
        self.name = name
        """`"namespace::op"`."""
        self.body = body
        """The function in plain torch."""
        self.program = program
        """The program, after the passes."""
        self.args = dict(args)
        """For each tensor argument the program's input."""
        self.outputs = out
        """The program's outputs, in the order of the function's results."""
        self._signature = inspect.signature(body)
        self._gradient = GradientSpec(body)
        self._inputs = input_places(self, args, list(self._signature.parameters), program)
        outputs = output_places(self, program, self.outputs)
        program.verify()
        self._group_at = group_place(self._signature, self.args)
        others = [at for at, name in enumerate(self._signature.parameters) if name not in self.args]
        self._group_argument = None if self._group_at is None else others[self._group_at]
        annotations = [parameter.annotation for parameter in self._signature.parameters.values()]
        self._group_kind = None if self._group_argument is None else annotations[self._group_argument]
        self.tuning: Tuning = tuning
        """The way to choose algorithms of matmuls, also of the gradient's program."""
        self.fallback_sites = fallback_sites
        """The kinds of collectives that the program does, if the body runs where ranks have no session; None for other ops."""
        self.fallback: str | None = None
        """The reason why the body runs on GPUs, if it does."""
        self._sessions = self._sessions_of(program, outputs)
        self._fitting: set[Any] = set()
        """Shapes and element types of arguments that the program takes."""
        self.is_replaced = False
        """True if an op of the same name was defined since, which torch calls in its place."""
        self._packet, self._backward = register_op(self)

    def __repr__(self) -> str:
        return f"<hostir.torch.Op {self.name}: {self.program.name}>"

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: Any) -> Op:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return importable_op, (self.name, *find_module_place(self))

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """The op's results. With `out=` they are written there, and autograd does not follow."""
        if self.is_replaced:
            refuse_replaced(self.name)
        if out is not None:
            out = checked_out(self, out, (*args, *kwargs.values()))
        if torch.compiler.is_compiling():
            refuse_forward_level(self.name)
            refuse_second_level()
            values = self._bind(args, kwargs)
            if out is None:
                return self._call_by_torch(self._packet.default, values, None)
            # Graphs take no op that gives what it writes.
            with torch.no_grad():
                self._packet.into(*values, **self._out_arguments(out))
            return out
        if not kwargs:
            found = self._call_directly(args, out)
            if found is not None:
                return found
        values = self._bind(args, kwargs)
        found = self._call_directly(values, out) if values != args or kwargs else None
        if found is not None:
            return found
        refuse_tangents(self.name, values)
        try:
            if out is None and is_transformed():
                return apply_in_transform(self._call_below_autograd, self._backward, values)
            return self._call_by_torch(self._call_below_autograd, values, out)
        except Exception:
            # Only a call that fails pays for the question whether its arguments were right.
            self._check_arguments(values)
            raise

    def _check_arguments(self, values: Sequence[Any]) -> None:
        """Raises for what is no tensor that the op takes, or no group."""
        for at, (argument, value) in enumerate(self.named_arguments(values).items()):
            if argument in self.args:
                check_tensor(self.name, argument, value)
            elif at == self._group_argument and value is not None:
                known_group_name(value)

    def _call_directly(self, values: tuple[Any, ...], out: Any) -> Any:
        """The op's results past torch's dispatcher; None where that has to see the call."""
        dispatcher = self._sessions.dispatcher
        return dispatcher.call(values) if out is None else dispatcher.call_into(values, out)

    def _call_below_autograd(self, *values: Any) -> Any:
        found = self._sessions.dispatcher.call(values)
        return self._packet.default(*values) if found is None else found

    def _call_by_torch(self, forward: Callable[..., Any], values: tuple[Any, ...], out: Any) -> Any:
        if out is not None:
            return self._packet.out(*values, **self._out_arguments(out))
        if not (_is_followed(values) or is_differentiated()):
            return self._packet.default(*values)
        if torch.compiler.is_compiling():
            return apply_with_gradient(forward, self._backward, _each_once(values))
        return apply_with_gradient(forward, self._call_gradient, values)

    def _call_gradient(self, gradients: list[torch.Tensor], *values: Any) -> Any:
        """The op of the gradient, below autograd."""
        if self.is_replaced:
            refuse_replaced(self.name)
        # Compiled autograd traces it, and no guard.
        if torch.compiler.is_compiling():
            return self._backward(gradients, *values)
        return call_below_autograd(self._backward, gradients, *values)

    def backward(
        self,
        *,
        program: str | os.PathLike[str] | Program,
        args: Mapping[str, str] | None = None,
        out: Mapping[str, str] | None = None,
        passes: str = "",
    ) -> Callable[[Body], Body]:
        """Says by a function in plain torch, and a program, what the gradient is; without it the body is differentiated.

        The function gets the gradients of the results and then the op's arguments, and gives a tuple with a gradient, or
        None, for each tensor argument. On tensors of GPUs the program runs if `args` says for arguments of the function
        which inputs of the program they are, and `out` for tensor arguments of the op which output is their gradient.
        """

        def decorate(function: Body) -> Body:
            check_gradient(self, function, program)
            found = program if isinstance(program, Program) else load_beside(function, program)
            made = found.run_passes(passes) if passes else found
            made.verify()
            self._gradient.body = function
            self._gradient.program = made
            self._gradient.schedule = self._schedule_gradient(function, made, args, out)
            return function

        return decorate

    def _schedule_gradient(
        self, function: Body, program: Program, args: Mapping[str, str] | None, out: Mapping[str, str] | None
    ) -> GradientSchedule | None:
        if args is None and out is None:
            return None
        if args is None or out is None:
            given, other = ("out", "args") if args is None else ("args", "out")
            message = f"{self.name}: `backward` has `{given}`, but not `{other}`"
            _native.raise_error("H0611", message, "give both, or none to run the function")
        places = gradient_places(self, function, program, args, out)
        name, tuning = f"{self.name}_backward", self.tuning
        sessions = ProgramSessions(name, program, places.outputs, group_at=self._group_at, tuning=tuning)
        return GradientSchedule(sessions, places.inputs, places.tensors)

    def replace_program(self, program: Program) -> None:
        """Puts another program with the same inputs and outputs in the place of the op's; sessions of the old one go."""
        outputs = output_places(self, program, self.outputs)
        self._inputs = input_places(self, self.args, list(self._signature.parameters), program)
        self.program = program
        self._fitting.clear()
        self.fallback = None
        self._sessions = self._sessions_of(program, outputs)

    def _sessions_of(self, program: Program, outputs: Sequence[int]) -> ProgramSessions:
        at, sites = self._group_at, self.fallback_sites
        return ProgramSessions(self.name, program, outputs, self._inputs, at, self.tuning, fallback_sites=sites)

    def check_parts(self, values: Sequence[Any]) -> None:
        """Raises for tensors of element types or shapes that the program cannot take, as on GPUs. Symbolic shapes are not known.

        Tensors that are all double are taken, whatever floats the program has: `torch.autograd.gradcheck` needs them.
        """
        if self.fallback_sites is not None:
            # The body is torch's own nodes, which take what they took before.
            return
        key = tuple((tensor.dtype, _known_shape(tensor)) for tensor in (values[at] for at in self._inputs))
        if key in self._fitting:
            return
        parts = [(str(dtype).removeprefix("torch."), None if shape is None else list(shape)) for dtype, shape in key]
        try:
            _native.check_parts(self.program._handle, parts)
        except HostIrError as error:
            shapes = [list(shape) for _, shape in key if shape is not None]
            if error.code != "H0606" or any(dtype is not torch.float64 for dtype, _ in key):
                raise
            if len(shapes) == len(key):
                _native.sizes_of_parts(self.program._handle, shapes)
        if len(self._fitting) >= _MOST_FITTING:
            self._fitting.clear()
        self._fitting.add(key)

    def drop_sessions(self) -> None:
        """Frees what the op's programs have on GPUs; the next call prepares anew. All ranks do it."""
        self._sessions.drop_all()

    def run_program(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """The program's results for tensors of a GPU, enqueued on torch's current stream; those of the body where no rank has a
        session, and can do without.
        """
        try:
            return self._sessions.run(*self._call(values))
        except SessionRefused as refused:
            return self._run_body_instead(values, str(refused))

    def run_program_into(self, values: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """As `run_program`, with the results in `out`."""
        try:
            self._sessions.run_into(*self._call(values), out)
        except SessionRefused as refused:
            for target, result in zip(out, self._run_body_instead(values, str(refused)), strict=True):
                target.copy_(result)

    def _run_body_instead(self, values: Sequence[Any], reason: str) -> list[torch.Tensor]:
        """The body's results on all ranks, since none has a session."""
        if self.fallback is None:
            self.fallback = reason
            warn_of_fallback(self.name, reason)
        with torch.no_grad(), within_autograd(), record_function(f"{self.name} by torch's nodes"):
            return pytree.tree_leaves(own_results(self, self.body(*values), values))

    def _call(self, values: Sequence[Any]) -> tuple[list[torch.Tensor], tuple[Any, ...], Callable[[], list[ResultLayout]]]:
        others = tuple(value for value in values if not isinstance(value, torch.Tensor))
        return [values[at] for at in self._inputs], others, lambda: self._result_layouts(values)

    def _result_layouts(self, values: Sequence[Any]) -> list[ResultLayout]:
        """The form of the results for these arguments, by the body on tensors without memory."""
        with FakeTensorMode() as mode, torch.no_grad(), within_autograd():
            fake = [mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in values]
            found = pytree.tree_leaves(own_results(self, self.body(*fake), fake))
        return [(result.shape, result.dtype) for result in found]

    @property
    def gradient(self) -> GradientSpec:
        """The op's gradient: its function, its program, and how that is called."""
        return self._gradient

    @property
    def backward_program(self) -> Program | None:
        """The program of the gradient, if `backward` has given one."""
        return self._gradient.program

    def prove(self, world: int | None = None, **settings: Any) -> Verdict:
        """Proves the program, and that of the gradient, for a number of ranks: no race, no deadlock, no misuse of memory.

        Other settings are those of `hostir.check`; sizes and inputs are those of either program. Raises
        `hostir.HostIrError` with places and fixes if one is wrong, and
        `H0614` if some of the ranks hold no part of an input or output: as an op it has to run on all ranks of its group.
        """
        if "devices" in settings:
            _native.raise_error("H0610", f"{self.name}: `prove` takes `world`, not `devices`", "write `world=4`")
        ranks = None if world is None else read_number("world", world, MOST_RANKS)
        gradient = self._gradient.program
        verdict = self.program.check(devices=ranks, **known_settings(self.program, gradient, settings)).raise_if_wrong()
        check_idle(self.name, verdict)
        if gradient is not None:
            found = gradient.check(devices=ranks, **known_settings(gradient, self.program, settings, is_gradient=True))
            check_idle(f"the gradient of {self.name}", found.raise_if_wrong())
        return verdict

    def check(self, *args: Any, rtol: float | None = None, atol: float | None = None, **kwargs: Any) -> None:
        """Compares the program with the body: both run, the program on the CPU for all ranks of the group. It is proved first.

        All ranks of the group call this, each with its own tensors. The tolerances are those of
        `torch.testing.assert_close`; if one is given, the other is 0, and without any, results may also differ by 64
        roundings of the largest one, those of 16 bits by two. The coarsest type counts to which the program rounds values on
        the way to a result: float32 sums of bfloat16 products may differ as bfloat16 does. A program of the gradient that
        runs on GPUs is compared with the function of `backward`, on random gradients of the results.

        Raises `hostir.HostIrError` on all ranks: `H0630` if results differ on one of them, `H0610` for arguments that are
        no tensors with numbers, or that differ in shape or type, and `H0614` if ranks have other programs. If a function
        fails on a rank, that one raises its error, and the others `H0530`.
        """
        from hostir.torch._oracle import compare_with_body

        compare_with_body(self, self._bind(args, kwargs), rtol, atol)

    def timeline(self, path: str | os.PathLike[str] | None, *args: Any, world: int | None = None, **kwargs: Any) -> str:
        """The program's timeline for such tensors by the cost model, as a chart; `path` as for `hostir.timeline`.

        The arguments are those of a call, of which only the shapes count. `world` is the number of ranks; without it that
        of the group. With it the group may be left out.
        """
        if world is None:
            values = self._bind(args, kwargs)
            group = self.group_of_call(values)
            world = None if group is None else group.size()
        else:
            values = self._bind_without_group(args, kwargs)
        shapes = [list(values[at].shape) for at in self._inputs]
        return timeline(self.program, path, devices=world, sizes=_native.sizes_of_parts(self.program._handle, shapes))

    def run_body(self, *args: Any, **kwargs: Any) -> Any:
        """The body's results, as plain tensors that share no memory with the arguments."""
        values = self._bind(args, kwargs)
        with without_autocast("cpu"), without_autocast("cuda"):
            return own_results(self, self.body(*values), values)

    def group_of_call(self, values: Sequence[Any]) -> Any:
        """The process group of a call with these arguments; None for one rank."""
        return group_among([value for value in values if not isinstance(value, torch.Tensor)], self._group_at)

    def named_arguments(self, values: Sequence[Any]) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self._signature.parameters, values, strict=True))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        parameters = self._signature.parameters
        if kwargs or len(args) != len(parameters):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        values = [group_name(value) if is_group(value) else value for value in args]
        at = self._group_argument
        if at is not None and values[at] is None:
            values[at] = self._default_group()
        return tuple(values)

    def _bind_without_group(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call whose group is not looked at, and may be left out."""
        if self._group_argument is not None:
            name = list(self._signature.parameters)[self._group_argument]
            if name not in self._signature.bind_partial(*args, **kwargs).arguments:
                kwargs = {**kwargs, name: None}
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def _default_group(self) -> str | None:
        """The name of the default group; None where there is none, and the op's argument may be None."""
        is_needed = self._group_kind in (str, "str")
        is_text = is_needed or "str" in str(self._group_kind)
        has_default = torch.distributed.is_available() and torch.distributed.is_initialized()
        return known_group_name(None) if is_needed or (is_text and has_default) else None

    def _out_arguments(self, out: Any) -> dict[str, Any]:
        if len(self.outputs) == 1:
            return {"out": out}
        return {f"out{index}": value for index, value in enumerate(out)}


_warned_of_fallback = False


def warn_of_fallback(name: str, reason: str) -> None:
    """Tells that torch's nodes run in the place of a program: the first time by a warning, each time by `logging`."""
    global _warned_of_fallback
    log.debug("%s runs torch's nodes: %s", name, reason)
    if not _warned_of_fallback:
        _warned_of_fallback = True
        message = f"hir.Overlap: {name} runs torch's nodes on all ranks, since a program could not be prepared: {reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def _known_shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The shape; None if it is symbolic."""
    return tuple(tensor.shape) if all(type(extent) is int for extent in tensor.shape) else None


def _is_followed(values: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _each_once(values: Sequence[Any]) -> list[Any]:
    """The arguments with a view in the place of a tensor that stands there before: compilers take no tensor twice."""
    found: list[Any] = []
    for value in values:
        is_again = isinstance(value, torch.Tensor) and any(value is other for other in found)
        found.append(value.view_as(value) if is_again else value)
    return found
