"""Requirements of ops, their gradients and calls of them. Each refusal names the op, what was found, and the repair."""

from __future__ import annotations

import errno
import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy
import torch

from hostir import _native
from hostir._program import Program, Verdict, load
from hostir.torch._torch_internals import may_overlap

__all__ = [
    "GradientPlaces",
    "check_gradient",
    "check_idle",
    "check_tensor",
    "check_tolerances",
    "check_tuning",
    "checked_out",
    "checked_settings",
    "gradient_places",
    "group_place",
    "input_places",
    "known_settings",
    "load_beside",
    "output_places",
]

Body = Callable[..., Any]


class _Op(Protocol):
    name: str
    args: dict[str, str]
    outputs: tuple[str, ...]
    _signature: inspect.Signature


OP_OF_REGION = re.compile(r"hostir::region_[0-9a-f]{8}")
"""The form in which the names of the ops of `Overlap` begin."""


def checked_settings(name: Any, program: Any, args: Any, out: Any) -> tuple[str, ...]:
    """The outputs as a tuple. Raises for settings of other types, and if they name no tensor."""
    if OP_OF_REGION.match(str(name)):
        _refuse("H0610", f"`{name}` is a name of regions of `Overlap`", "take another name, in a namespace of your own")
    outputs = (out,) if isinstance(out, str) else out
    is_names = isinstance(outputs, Sequence) and all(isinstance(one, str) for one in outputs)
    settings = (
        ("program", program, isinstance(program, (str, os.PathLike, Program)), "a path or a `hostir.Program`"),
        ("args", args, _is_names_by_name(args), 'a dictionary from arguments to inputs, `{"x": "T0"}`'),
        ("out", out, is_names, 'the name of an output, or several: `("C", "D")`'),
    )
    for setting, value, is_right, needed in settings:
        if not is_right:
            _refuse("H0610", f"{name}: `{setting}` is of type {type(value).__name__}", f"give {needed}")
    if not args:
        _refuse("H0611", f"{name}: `args` names no argument, but torch finds ops by their tensors", 'name one: `{"x": "T0"}`')
    if not outputs:
        _refuse("H0611", f"{name}: `out` names no output, but an op gives one or more", 'name one: `out="C"`')
    return tuple(outputs)


def _is_names_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for pair in value.items() for one in pair)


def check_tensor(op: str, name: str, value: Any) -> None:
    """Raises for an argument that is no plain tensor."""
    if not isinstance(value, torch.Tensor):
        _refuse("H0610", f"{op}: `{name}` is of type {type(value).__name__}, but needs a tensor", "pass a `torch.Tensor`")
    if value.layout is not torch.strided:
        _refuse("H0610", f"{op}: `{name}` is sparse, but programs take all elements", f"pass `{name}.to_dense()`")
    if type(value).__name__ == "DTensor":
        note = f"pass the rank's part: `{name}.to_local()`"
        _refuse("H0610", f"{op}: `{name}` is a `DTensor`, but programs take each rank's part", note)


def check_tuning(op: str, tuning: Any) -> None:
    """Raises for a way to tune that there is not."""
    if tuning not in ("quick", "sustained", "kernels"):
        _refuse("H0610", f"{op}: `tuning` is {tuning!r}", 'write `"quick"`, `"sustained"` or `"kernels"`')


def check_tolerances(op: str, rtol: Any, atol: Any) -> None:
    """Raises for a tolerance that is no number, or below 0; None is that of the element type."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        is_number = isinstance(tolerance, (int, float)) and 0 <= tolerance < math.inf
        if tolerance is not None and not is_number:
            _refuse("H0610", f"{op}: `{name}` is {tolerance!r}, which is no tolerance", "give a number, not below 0")


def check_idle(name: str, verdict: Verdict) -> None:
    """Raises if a program is proved for ranks that it gives nothing to do."""
    if verdict.idle:
        ranks = f"rank{'s' if len(verdict.idle) > 1 else ''} {', '.join(map(str, verdict.idle))}"
        hold = "hold" if len(verdict.idle) > 1 else "holds"
        message = f"{name}: {ranks} of {verdict.ranks} {hold} no part of the program's inputs and outputs"
        _refuse("H0614", message, f"give the program a mesh of {verdict.ranks} ranks, or prove it for fewer (`world=`)")


def checked_out(made: _Op, out: Any, given: Iterable[Any]) -> Any:
    """The tensor of `out=` if there is one result, else a tuple. Raises unless it has a tensor of its own for each, which is none
    of the arguments that are given.
    """
    count = len(made.outputs)
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    if isinstance(out, torch.Tensor):
        if count > 1:
            _refuse_out(made, f"is one tensor, but {made.name} has {count} results ({', '.join(made.outputs)})")
        _check_target(made, out, tensors)
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
        if any(one is other or _overlap(one, other) for other in out[:at]):
            _refuse_out(made, f"has tensors that share memory for several results of {made.name}")
        _check_target(made, one, tensors)
    return out[0] if count == 1 else tuple(out)


# The most elements of which it is counted in how many places they are.
MOST_COUNTED = 1 << 16


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """True if elements of a tensor are in the same place."""
    axes = sorted((stride, extent) for extent, stride in zip(tensor.shape, tensor.stride()) if extent > 1)
    span = 1 + sum(stride * (extent - 1) for stride, extent in axes)
    if tensor.numel() > span:
        return True
    reach = 0
    for stride, extent in axes:
        if stride <= reach:
            break
        reach += stride * (extent - 1)
    else:
        return False
    # Axes that reach over each other, as nobody's views do but those of `as_strided`.
    if tensor.numel() > MOST_COUNTED:
        return False
    offsets = numpy.zeros((), dtype=numpy.int64)
    for stride, extent in axes:
        offsets = offsets[..., None] + stride * numpy.arange(extent)
    return bool(numpy.unique(offsets).size != offsets.size)


class _Memory:
    """The place of a tensor's elements, wherever it is, as numpy understands it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * size for stride in tensor.stride()),
            "typestr": f"|V{size}",
        }


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if tensors share elements. Compilers see no memory."""
    has_memory = not (torch.compiler.is_compiling() or one.is_meta or type(one).__name__ == "FakeTensor")
    if not has_memory or one.device != other.device or not may_overlap(one, other):
        return False
    # That is true of all parts of one memory.
    return numpy.shares_memory(numpy.asarray(_Memory(one)), numpy.asarray(_Memory(other)))


def _check_target(made: _Op, out: torch.Tensor, given: Sequence[torch.Tensor]) -> None:
    """Raises for a tensor that has a gradient, which would be wrong after the op, or whose elements share memory, also with what
    the program reads.
    """
    if out.layout is not torch.strided:
        _refuse_out(made, f"is sparse, but {made.name} writes all elements")
    if any(_overlap(out, one) for one in given):
        _refuse_out(made, f"shares memory with an argument, which {made.name} may still read when it writes")
    if out.requires_grad and torch.is_grad_enabled():
        message = f"`out` requires a gradient, but autograd does not follow what {made.name} writes"
        _refuse("H0610", message, "detach it, or write to it within `torch.no_grad()`")
    if not torch.compiler.is_compiling() and not out.is_contiguous() and _overlaps_itself(out):
        _refuse_out(made, f"has elements that share memory, but {made.name} writes each of them")


def _refuse_out(made: _Op, what: str) -> NoReturn:
    names = ", ".join(made.outputs)
    is_one = len(made.outputs) == 1
    note = f"give the tensor: `out={names}`" if is_one else f"give each result a tensor of its own: `out=({names})`"
    _refuse("H0610", f"`out` {what}", note)


def load_beside(body: Body, path: str | os.PathLike[str]) -> Program:
    if isinstance(path, str) and "\n" in path:
        _refuse("H0610", "`program` is a text of several lines, but needs a path or a program", "read it: `hostir.parse(text)`")
    code = inspect.unwrap(body)
    folder = Path((inspect.getsourcefile(code) if inspect.isfunction(code) else None) or ".").parent
    beside = folder / path
    if not beside.exists() and not Path(path).exists():
        places = " or ".join(dict.fromkeys([str(folder.absolute()), str(Path.cwd())]))
        raise FileNotFoundError(errno.ENOENT, f"no program `{path}` in {places}")
    return load(beside if beside.exists() else path)


def known_settings(
    program: Program, other: Program | None, settings: Mapping[str, Any], *, is_gradient: bool = False
) -> dict[str, Any]:
    """The settings of a proof for one of an op's two programs: sizes and shapes that only the other one has are left out."""
    if other is None:
        return dict(settings)
    is_others: dict[str, Callable[[Any], bool]] = {
        "sizes": lambda key: key in other.sizes and key not in program.sizes,
        # Numbers are those of the op's program, whose names come first.
        "shapes": lambda key: (
            key not in program.inputs and (key in other.inputs or (is_gradient and other.position(key) is not None))
        ),
    }
    return {
        name: {key: one for key, one in value.items() if not is_others[name](key)} if name in is_others and value else value
        for name, value in settings.items()
    }


def output_places(made: _Op, program: Program, outputs: Sequence[str], of: str = "") -> list[int]:
    """For each result the place of the program's output. Raises unless each is another one, with memory of its own."""
    places = [_position(made, output, program, "output") for output in outputs]
    for at, name in enumerate(outputs):
        if places[at] in places[:at]:
            first = outputs[places.index(places[at])]
            names = f"{name} twice" if first == name else f"{first} twice, also as {name}"
            note = f"name each output once; the program can copy one: `{name}2 = Set({name})`"
            _refuse("H0611", f"{made.name}: `out`{of} names the output {names}", note)
        if name in program.inputs:
            note = f"let the program put it into a tensor of its own: `Y = Set({name})`"
            _refuse("H0611", f"{made.name}: the output {name} is an input of the program, too", note)
    return places


def group_place(signature: inspect.Signature, tensors: Collection[str]) -> int | None:
    """The place of the process group among the arguments that are no tensors, if the name of one of them ends with `group`."""
    others = [name for name in signature.parameters if name not in tensors]
    found = [at for at, name in enumerate(others) if name.endswith("group")]
    return found[0] if len(found) == 1 else None


def input_places(made: _Op, args: Mapping[str, str], parameters: list[str], program: Program) -> list[int]:
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
    for name in program._handle.untold_scalars:
        message = f"{made.name}: the program has the scalar input {name}, but ops give programs tensors only"
        _refuse("H0611", message, f"write its value in the program, or make it an extent of an input: `x: f32[{name}]`")
    places = [parameters.index(argument) for argument in args]
    return [places[taken.index(index)] for index in range(len(program.inputs))]


@dataclass(frozen=True)
class GradientPlaces:
    """The inputs and outputs of the program of a gradient."""

    inputs: list[int]
    """For each input of the program its place among the gradients of results and the op's arguments."""
    outputs: list[int]
    """The places of the program's outputs that are gradients."""
    tensors: list[int]
    """For each of them the place of the tensor argument, among these, whose gradient it is."""


def gradient_places(made: _Op, function: Body, program: Program, args: Any, out: Any) -> GradientPlaces:
    """The places of what the program of a gradient takes and gives. Raises unless all of it is tensors of the op."""
    for setting, value, example in (("args", args, '{"dy": "T0"}'), ("out", out, '{"x": "T2"}')):
        if not _is_names_by_name(value):
            what = f"{made.name}: `{setting}` of `backward` is of type {type(value).__name__}"
            _refuse("H0610", what, f"give a dictionary between names, `{example}`")
    if not out:
        note = 'name one: `out={"x": "T2"}`'
        _refuse("H0611", f"{made.name}: `out` of `backward` names no gradient, so all would be zero on GPUs", note)
    arguments = list(made._signature.parameters)
    tensors = [name for name in arguments if name in made.args]
    for argument in out:
        if argument not in tensors:
            _refuse("H0611", f"{made.name}: `{argument}` is no tensor argument", f"they are {', '.join(tensors)}")
    parameters = list(inspect.signature(function).parameters)
    inputs = input_places(made, args, parameters, program)
    for place in inputs:
        at = place - len(made.outputs)
        if at >= 0 and (at >= len(arguments) or arguments[at] not in tensors):
            message = f"{made.name}: `{parameters[place]}` of `backward` is no tensor, but an input of its program"
            _refuse("H0611", message, f"the tensors are the gradients of results, and {', '.join(tensors)}")
    return GradientPlaces(
        inputs, output_places(made, program, list(out.values()), " of `backward`"), [tensors.index(name) for name in out]
    )


def check_gradient(made: _Op, function: Any, program: Any) -> None:
    """Raises unless a function can be the gradient of an op, and a program is one."""
    if not isinstance(program, (str, os.PathLike, Program)):
        what = f"{made.name}: `program` of `backward` is of type {type(program).__name__}"
        _refuse("H0610", what, "give a path or a `hostir.Program`")
    if not callable(function):
        what = f"{made.name}: `backward` decorates a function, not a value of type {type(function).__name__}"
        _refuse("H0610", what, None)
    count = len(made.outputs) + len(made._signature.parameters)
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:
        # Functions of C say nothing of their arguments.
        return
    except TypeError as error:
        message = f"{made.name}: the function of `backward` does not take {count} arguments: {error}"
        names = ", ".join(made._signature.parameters)
        _refuse("H0611", message, f"they are the gradients of the results ({', '.join(made.outputs)}), then {names}")


def _position(made: _Op, name: str, program: Program, what: str) -> int:
    position = program.position(name, what)
    if position is None:
        known = program.inputs if what == "input" else program.outputs
        have = f"its {what}s are {', '.join(known)}" if known else f"it has no {what}s"
        _refuse("H0611", f"{made.name}: the program has no {what} `{name}`", have)
    return position


def _refuse(code: str, message: str, note: str | None) -> NoReturn:
    _native.raise_error(code, message, note)
