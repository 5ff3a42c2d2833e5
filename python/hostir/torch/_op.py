"""Ops: a body in plain torch, registered with torch's dispatcher, and the program that schedules it."""

from __future__ import annotations

import errno
import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

# Fake tensors import torch's compiler, which takes seconds: here, where nobody waits for a step, not in the first call.
import torch._dynamo
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode

from hostir import _native
from hostir._program import Program, Verdict, load
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
from hostir.torch._pickling import find_module_place, importable_op
from hostir.torch._registration import own_results, register_op
from hostir.torch._session import ProgramSessions, ResultLayout
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


def op(
    name: str,
    *,
    program: str | os.PathLike[str] | Program,
    args: Mapping[str, str],
    out: str | Sequence[str],
    passes: str = "",
) -> Callable[[Body], Op]:
    """Makes an op of torch of a function in plain torch, which says what the op computes, and a host program.

    - `name`: `"namespace::op"`, as which torch knows it.
    - `program`: a `hostir.Program`, or the path of a text; a relative one starts at the folder of the function's file.
    - `args`: for each tensor argument of the function the program's input, by name or number (`"T0"`).
    - `out`: the program's output, or the outputs of a function that gives a tuple.
    - `passes`: a pipeline that the program goes through first, `"host-ir-lower"`.

    The function's arguments and results need annotations (`torch.Tensor`, `int`, `float`, `bool`, `str`). A process
    group is an argument of type `str`; callers pass its name, the group, a `DeviceMesh` of one dimension, or None for the
    default group. Collectives are those of `torch.distributed._functional_collectives`. The function must not change its
    arguments.

    Raises `hostir.HostIrError` if the program is wrong or does not have these inputs and outputs.
    """

    outputs = _checked_settings(name, program, args, out)

    def decorate(body: Body) -> Op:
        if not (inspect.isfunction(inspect.unwrap(body)) or inspect.ismethod(body)):
            _refuse("H0610", f"{name}: `op` decorates a function, not a value of type {type(body).__name__}", None)
        found = program if isinstance(program, Program) else _load_beside(body, program)
        made = found.run_passes(passes) if passes else found
        return Op(name, body, made, args, outputs)

    return decorate


def _checked_settings(name: Any, program: Any, args: Any, out: Any) -> tuple[str, ...]:
    """The outputs as a tuple. Raises for settings of other types."""
    outputs = (out,) if isinstance(out, str) else out
    is_names = isinstance(outputs, Sequence) and all(isinstance(one, str) for one in outputs)
    is_mapping = isinstance(args, Mapping) and all(isinstance(one, str) for pair in args.items() for one in pair)
    settings = (
        ("program", program, isinstance(program, (str, os.PathLike, Program)), "a path or a `hostir.Program`"),
        ("args", args, is_mapping, 'a dictionary from arguments to inputs, `{"x": "T0"}`'),
        ("out", out, is_names, 'the name of an output, or several: `("C", "D")`'),
    )
    for setting, value, is_right, needed in settings:
        if not is_right:
            _refuse("H0610", f"{name}: `{setting}` is of type {type(value).__name__}", f"give {needed}")
    return tuple(outputs)


class Op:
    """An op of torch with a host program. Calling it is calling the op."""

    def __init__(self, name: str, body: Body, program: Program, args: Mapping[str, str], out: tuple[str, ...]) -> None:
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
        self._inputs = _argument_places(self, args, list(self._signature.parameters), program)
        outputs = _output_places(self, program)
        program.verify()
        self._group_at = _group_place(self._signature, self.args)
        others = [at for at, name in enumerate(self._signature.parameters) if name not in self.args]
        self._group_argument = None if self._group_at is None else others[self._group_at]
        annotations = [parameter.annotation for parameter in self._signature.parameters.values()]
        self._may_lack_group = self._group_argument is not None and annotations[self._group_argument] not in (str, "str")
        self._sessions = ProgramSessions(name, program, outputs, self._inputs, self._group_at)
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
            out = _checked_out(self, out)
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
                _check_tensor(self.name, argument, value)
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
        backward = self._backward if torch.compiler.is_compiling() else self._call_gradient
        return apply_with_gradient(forward, backward, values)

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
            found = program if isinstance(program, Program) else _load_beside(function, program)
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
            _refuse("H0611", f"{self.name}: `backward` has `{given}`, but not `{other}`", "give both, or none to run the function")
        tensors = list(self.args)
        tensors.sort(key=list(self._signature.parameters).index)
        for argument in out:
            if argument not in tensors:
                _refuse("H0611", f"{self.name}: `{argument}` is no tensor argument", f"they are {', '.join(tensors)}")
        outputs = [_position(self, name, program, "output") for name in out.values()]
        inputs = _argument_places(self, args, list(inspect.signature(function).parameters), program)
        sessions = ProgramSessions(f"{self.name}_backward", program, outputs, group_at=self._group_at)
        return GradientSchedule(sessions, inputs, [tensors.index(argument) for argument in out])

    def replace_program(self, program: Program) -> None:
        """Puts another program with the same inputs and outputs in the place of the op's; sessions of the old one go."""
        outputs = _output_places(self, program)
        self._inputs = _argument_places(self, self.args, list(self._signature.parameters), program)
        self.program = program
        self._sessions = ProgramSessions(self.name, program, outputs, self._inputs, self._group_at)

    def drop_sessions(self) -> None:
        """Frees what the op's programs have on GPUs; the next call prepares anew. All ranks do it."""
        self._sessions.drop_all()

    def run_program(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """The program's results for tensors of a GPU, enqueued on torch's current stream."""
        return self._sessions.run(*self._call(values))

    def run_program_into(self, values: Sequence[Any], out: Sequence[torch.Tensor]) -> None:
        """As `run_program`, with the results in `out`."""
        self._sessions.run_into(*self._call(values), out)

    def _call(
        self, values: Sequence[Any]
    ) -> tuple[list[torch.Tensor], tuple[Any, ...], Callable[[], list[ResultLayout]]]:
        others = tuple(value for value in values if not isinstance(value, torch.Tensor))
        return [values[at] for at in self._inputs], others, lambda: self._result_layouts(values)

    def _result_layouts(self, values: Sequence[Any]) -> list[ResultLayout]:
        """What the results for these arguments look like, by the body on tensors without memory."""
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

        Other settings are those of `hostir.check`. Raises `hostir.HostIrError` with places and fixes if one is wrong, and
        `H0614` if some of the ranks hold no part of an input or output: as an op it has to run on all ranks of its group.
        """
        verdict = self.program.check(devices=world, **settings).raise_if_wrong()
        _check_idle(self.name, verdict)
        if self._gradient.program is not None:
            gradient = self._gradient.program.check(devices=world, **_settings_of(self._gradient.program, settings))
            _check_idle(f"the gradient of {self.name}", gradient.raise_if_wrong())
        return verdict

    def check(self, *args: Any, rtol: float | None = None, atol: float | None = None, **kwargs: Any) -> None:
        """Compares the program with the body: both run, the program on the CPU for all ranks of the group.

        All ranks of the group call this, each with its own tensors. The tolerances are those of
        `torch.testing.assert_close`; if one is given, the other is 0, and without any, results may also differ by 64
        roundings of the largest one, those of 16 bits by two. A program of the gradient that runs on GPUs is compared with
        the function of `backward`, on random gradients of the results. Raises `hostir.HostIrError` (`H0630`) on every rank
        whose results differ, and `H0610` on all ranks for arguments that are no tensors with numbers, or that differ in
        shape or type.
        """
        from hostir.torch._oracle import compare_with_body

        compare_with_body(self, self._bind(args, kwargs), rtol, atol)

    def timeline(self, path: str | os.PathLike[str] | None, *args: Any, world: int | None = None, **kwargs: Any) -> str:
        """The program's timeline for such tensors by the cost model, as a chart; `path` as for `hostir.timeline`.

        The arguments are those of a call, of which only the shapes count. `world` is the number of ranks; without it that
        of the group.
        """
        values = self._bind(args, kwargs)
        group = self.group_of_call(values)
        if world is None and group is not None:
            world = group.size()
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
        if at is not None and values[at] is None and not self._may_lack_group:
            values[at] = known_group_name(None)
        return tuple(values)

    def _out_arguments(self, out: Any) -> dict[str, Any]:
        if len(self.outputs) == 1:
            return {"out": out}
        return {f"out{index}": value for index, value in enumerate(out)}


def _check_tensor(op: str, name: str, value: Any) -> None:
    """Raises for an argument that is no plain tensor."""
    if not isinstance(value, torch.Tensor):
        _refuse("H0610", f"{op}: `{name}` is of type {type(value).__name__}, but needs a tensor", "pass a `torch.Tensor`")
    if type(value).__name__ == "DTensor":
        note = f"pass the rank's part: `{name}.to_local()`"
        _refuse("H0610", f"{op}: `{name}` is a `DTensor`, but programs take each rank's part", note)


def _check_idle(name: str, verdict: Verdict) -> None:
    """Raises if a program is proved for ranks that it gives nothing to do."""
    if verdict.idle:
        ranks = f"rank{'s' if len(verdict.idle) > 1 else ''} {', '.join(map(str, verdict.idle))}"
        hold = "hold" if len(verdict.idle) > 1 else "holds"
        message = f"{name}: {ranks} of {verdict.ranks} {hold} no part of the program's inputs and outputs"
        _refuse("H0614", message, f"give the program a mesh of {verdict.ranks} ranks, or prove it for fewer (`world=`)")


def _checked_out(made: Op, out: Any) -> Any:
    """The tensor of `out=` if there is one result, else a tuple. Raises unless it has a tensor of its own for each."""
    count = len(made.outputs)
    if isinstance(out, torch.Tensor):
        if count > 1:
            _refuse_out(made, f"is one tensor, but {made.name} has {count} results ({', '.join(made.outputs)})")
        _check_unfollowed(made, out)
        return out
    if not isinstance(out, (tuple, list)):
        _refuse_out(made, f"is of type {type(out).__name__}, but {made.name} writes tensors")
    if len(out) != count:
        results = "result of {} is" if count == 1 else "results of {} are"
        names = ", ".join(made.outputs)
        _refuse_out(made, f"has {len(out)} of {count} tensors: the {results.format(made.name)} {names}")
    for at, one in enumerate(out):
        if not isinstance(one, torch.Tensor):
            _refuse_out(made, f"has a value of type {type(one).__name__}, but {made.name} writes tensors")
        if any(one is other for other in out[:at]):
            _refuse_out(made, f"has one tensor for several results of {made.name}")
        _check_unfollowed(made, one)
    return out[0] if count == 1 else tuple(out)


def _check_unfollowed(made: Op, out: torch.Tensor) -> None:
    """Raises for a tensor that has a gradient, which would be wrong behind the op."""
    if out.requires_grad and torch.is_grad_enabled():
        message = f"`out` requires a gradient, but autograd does not follow what {made.name} writes"
        _refuse("H0610", message, "detach it, or write to it within `torch.no_grad()`")


def _refuse_out(made: Op, what: str) -> NoReturn:
    names = ", ".join(made.outputs)
    is_one = len(made.outputs) == 1
    note = f"give the tensor: `out={names}`" if is_one else f"give each result a tensor of its own: `out=({names})`"
    _refuse("H0610", f"`out` {what}", note)


def _is_followed(values: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def _load_beside(body: Body, path: str | os.PathLike[str]) -> Program:
    if isinstance(path, str) and "\n" in path:
        _refuse("H0610", "`program` is a text of several lines, but needs a path or a program", "read it: `hostir.parse(text)`")
    code = inspect.unwrap(body)
    folder = Path((inspect.getsourcefile(code) if inspect.isfunction(code) else None) or ".").parent
    beside = folder / path
    if not beside.exists() and not Path(path).exists():
        places = " or ".join(dict.fromkeys([str(folder.absolute()), str(Path.cwd())]))
        raise FileNotFoundError(errno.ENOENT, f"no program `{path}` in {places}")
    return load(beside if beside.exists() else path)


def _settings_of(program: Program, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a proof for another program: of sizes and shapes only those that it has, too."""
    known = {"sizes": {*program.sizes, "*"}, "shapes": set(program.inputs)}
    return {
        name: {key: one for key, one in value.items() if key in known[name]} if name in known and value else value
        for name, value in settings.items()
    }


def _output_places(made: Op, program: Program) -> list[int]:
    """For each result the place of the program's output. Raises unless each is another one, with memory of its own."""
    for at, name in enumerate(made.outputs):
        if name in made.outputs[:at]:
            _refuse("H0611", f"{made.name}: `out` names the output {name} twice", "name each output once")
        if name in program.inputs:
            note = f"let the program put it into a tensor of its own: `Y = Set({name})`"
            _refuse("H0611", f"{made.name}: the output {name} is an input of the program, too", note)
    return [_position(made, output, program, "output") for output in made.outputs]


def _group_place(signature: inspect.Signature, tensors: Collection[str]) -> int | None:
    """The place of the process group among the arguments that are no tensors, if the name of one of them ends with `group`."""
    others = [name for name in signature.parameters if name not in tensors]
    found = [at for at, name in enumerate(others) if name.endswith("group")]
    return found[0] if len(found) == 1 else None


def _argument_places(made: Op, args: Mapping[str, str], parameters: list[str], program: Program) -> list[int]:
    """For each input of a program the place of its argument."""
    for argument in args:
        if argument not in parameters:
            _refuse("H0611", f"{made.name}: the function has no argument `{argument}`", f"it has {', '.join(parameters)}")
    taken = [_position(made, name, program, "input") for name in args.values()]
    for index, name in enumerate(program.inputs):
        if taken.count(index) != 1:
            _refuse("H0611", f"{made.name}: the program's input {name} needs one argument", "name it in `args`")
    for name in program._handle.written_inputs:
        note = f"let it write a tensor of its own: `T = Set({name})`"
        _refuse("H0611", f"{made.name}: the program writes its input {name}, which torch takes for unchanged", note)
    places = [parameters.index(argument) for argument in args]
    return [places[taken.index(index)] for index in range(len(program.inputs))]


def _position(made: Op, name: str, program: Program, what: str) -> int:
    position = program.position(name, what)
    if position is None:
        known = program.inputs if what == "input" else program.outputs
        have = f"its {what}s are {', '.join(known)}" if known else f"it has no {what}s"
        _refuse("H0611", f"{made.name}: the program has no {what} `{name}`", have)
    return position


def _refuse(code: str, message: str, note: str | None) -> NoReturn:
    _native.raise_error(code, message, note)
