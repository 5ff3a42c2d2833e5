"""Programs: read, verified, changed by passes, proved, run on the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hostir import _native
from hostir._arrays import as_input, as_output
from hostir._errors import Diagnostic, HostIrError, read_diagnostics
from hostir._settings import (
    MOST_RANKS,
    MOST_SEED,
    read_machine,
    read_mapping,
    read_number,
    read_shapes,
    read_sizes,
    read_timeout,
)

if TYPE_CHECKING:
    import numpy
    from typing_extensions import TypedDict, Unpack

    class _SizeSettings(TypedDict, total=False):
        devices: int | None
        sizes: Mapping[str, int | float] | None
        shapes: Mapping[str, Sequence[int]] | None
        streams: int | None

    class _ProofSettings(_SizeSettings, total=False):
        timeout: float | None

    class _TimelineSettings(_SizeSettings, total=False):
        machine: str | os.PathLike[str] | None

    class _CheckSettings(_ProofSettings, total=False):
        strict: bool
        machine: str | os.PathLike[str] | None

    class _RunSettings(_ProofSettings, total=False):
        seed: int
        check: bool


__all__ = ["Program", "Verdict", "check", "load", "parse", "parse_all", "run", "run_passes", "verify"]


class Program:
    """A host program. It never changes: passes give new ones."""

    __slots__ = ("_handle", "pass_warnings")

    _handle: _native.NativeProgram
    pass_warnings: tuple[Diagnostic, ...]
    """The warnings of the passes that made this program."""

    def __init__(self, native: _native.NativeProgram, pass_warnings: tuple[Diagnostic, ...] = ()) -> None:
        if not isinstance(native, _native.NativeProgram):
            what = f"`Program` is no constructor for a value of type {type(native).__name__}"
            _native.raise_error("H0610", what, "read a text by `hostir.parse(text)`, or a file by `hostir.load(path)`")
        self._handle = native
        self.pass_warnings = pass_warnings

    @property
    def name(self) -> str:
        """The name of the text in messages."""
        return self._handle.name

    @property
    def source(self) -> str:
        """The text that the program, or the one that passes started from, was read from."""
        return self._handle.source

    @property
    def inputs(self) -> list[str]:
        """The names of the tensor inputs, in order."""
        return self._handle.inputs

    @property
    def outputs(self) -> list[str]:
        """The names of the tensor outputs, in order."""
        return self._handle.outputs

    @property
    def sizes(self) -> list[str]:
        """The names of the sizes and scalar inputs that `sizes=` may set."""
        return self._handle.sizes

    def position(self, name: str, kind: str = "input") -> int | None:
        """The position of an input, or with `kind="output"` of an output, by name or number (`"T0"`)."""
        return self._handle.position(name, kind == "output")

    def to_hir2(self) -> str:
        """The text in `hir 2`."""
        return self._handle.to_hir2()

    def to_printed(self, *, short: bool = False) -> str:
        """The text as nvFuser prints it; with `short` each tensor in full only once."""
        return self._handle.to_printed(short)

    def __str__(self) -> str:
        """The text in the notation that the program was read in."""
        return self.to_hir2() if self._handle.is_hir2 else self.to_printed()

    def __repr__(self) -> str:
        return f"<hostir.Program {self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return (parse, (str(self), self.name))

    def verify(self) -> list[Diagnostic]:
        """Verifies the program; see `hostir.verify`."""
        return list(read_diagnostics(self._handle.verify()))

    def run_passes(self, pipeline: str, *, machine: str | os.PathLike[str] | None = None) -> Program:
        """The program after passes; see `hostir.run_passes`."""
        _check_text("pipeline", pipeline, 'write the passes in one text: `"host-ir-lower,dce"`')
        made, warnings = self._handle.run_passes(pipeline, read_machine(machine))
        return Program(made, self.pass_warnings + read_diagnostics(warnings))

    def check(self, **settings: Unpack[_CheckSettings]) -> Verdict:
        """Proves the program; see `hostir.check`."""
        return check(self, **settings)

    def run(self, inputs: Mapping[str, Any] | None = None, **settings: Unpack[_RunSettings]) -> dict[str, Any]:
        """Runs the program on the CPU; see `hostir.run`."""
        return run(self, inputs, **settings)

    def timeline(self, path: str | os.PathLike[str] | None = None, **settings: Unpack[_TimelineSettings]) -> str:
        """The program's timeline by the cost model, as a chart in text; see `hostir.timeline`."""
        from hostir._timeline import timeline

        return timeline(self, path, **settings)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a proof, with the sizes, ranks and streams that it holds for."""

    outcome: str
    """`"proved"`, `"refused"` or `"hangs"`."""
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]
    sizes: dict[str, int]
    ranks: int
    streams: tuple[int, ...]
    """The numbers of streams that were checked, the given one first."""
    rules: int
    """The version of the rules of the proof."""
    idle: tuple[int, ...]
    """The ranks that hold no part of any input or output."""
    is_plain: bool
    """True for plain math on whole tensors, which ranks run only after a pass that lowers it."""
    text: str
    """The errors as the tools print them."""
    source: str
    """The text that the places of errors and warnings are in."""
    lines: str
    """The errors as JSON, one object a line."""

    @property
    def ok(self) -> bool:
        """True if the program is proved right."""
        return self.outcome == "proved"

    def __bool__(self) -> bool:
        return self.ok

    def raise_if_wrong(self) -> Verdict:
        """Raises `HostIrError` with the errors, if there are any; else gives the verdict."""
        if self.ok:
            return self
        raise HostIrError(self.text, self.lines, self.source)


def parse(text: str, name: str = "<string>", *, program: str | int | None = None) -> Program:
    """Reads a program in either notation.

    Of a text with several programs, `program` is the one meant, by name or number (from 1). Without it a text in `hir 2`
    means its first, and a printed text with several is an error.

    Raises `HostIrError` for errors of syntax and names; `verify` finds the rest.
    """
    _check_source(text, name)
    if program is not None:
        return Program(_native.parse(text, name, str(program))[0])
    found = _native.parse(text, name, None)
    if not found or (len(found) > 1 and not found[0].is_hir2):
        what = f"{len(found)} programs, and none is selected" if found else "no program"
        note = f"select one with `program=N`, from 1 to {len(found)}" if found else None
        _native.raise_error("H0632", f"`{name}` contains {what}", note)
    return Program(found[0])


def parse_all(text: str, name: str = "<string>") -> list[Program]:
    """Reads all programs of a text."""
    _check_source(text, name)
    return [Program(found) for found in _native.parse(text, name, None)]


def load(path: str | os.PathLike[str], *, program: str | int | None = None) -> Program:
    """Reads a program from a file; see `parse`. Raises `OSError` if there is none.

    Raises `HostIrError` for a text in its place (`H0610`), and for a file that is not UTF-8 (`H0019`).
    """
    if not isinstance(path, (str, os.PathLike)):
        what = f"`path` is of type {type(path).__name__}"
        _native.raise_error("H0610", what, "give the path of a file, as `str` or `pathlib.Path`")
    if isinstance(path, str) and "\n" in path:
        _native.raise_error("H0610", "`path` is a text of several lines, but names a file", "read it: `hostir.parse(text)`")
    name = os.fsdecode(path)
    with open(path, "rb") as file:
        found = file.read()
    try:
        text = found.decode()
    except UnicodeDecodeError as error:
        message = f"{name} is not valid UTF-8, from byte {error.start} on"
        _native.raise_error("H0019", message, "save the file as UTF-8")
    return parse(text, name, program=program)


def _check_source(text: Any, name: Any) -> None:
    """Raises unless a text and its name are texts that can be written as UTF-8."""
    note = "read a file by `hostir.load(path)`" if isinstance(text, os.PathLike) else "decode it: `text.decode()`"
    _check_text("text", text, note if isinstance(text, (os.PathLike, bytes)) else "give the program's text")
    _check_text("name", name, "give the text's name in messages")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"{name} has a surrogate at character {error.start}, which is no character"
        _native.raise_error("H0019", message, "read the text as UTF-8")


def _check_text(argument: str, value: Any, note: str) -> None:
    if not isinstance(value, str):
        _native.raise_error("H0610", f"`{argument}` is of type {type(value).__name__}, but needs a `str`", note)


def _checked_program(program: Any) -> Program:
    """The program. Raises for what is none, as a path or a text."""
    if not isinstance(program, Program):
        what = f"`program` is of type {type(program).__name__}, but needs a `hostir.Program`"
        _native.raise_error("H0610", what, "read it: `hostir.load(path)`, or of a text `hostir.parse(text)`")
    return program


def verify(program: Program) -> list[Diagnostic]:
    """Verifies types, shapes and scopes. Gives the warnings, and raises `HostIrError` with all errors."""
    return _checked_program(program).verify()


def run_passes(program: Program, pipeline: str, *, machine: str | os.PathLike[str] | None = None) -> Program:
    """The program after a pipeline of passes, `"host-ir-lower,dce"` or `"pass{option=value}"`.

    `machine` is the one for which `overlap-lower{choose=model}` chooses, as for `check`.

    Raises `HostIrError` for a malformed pipeline, for a program that is invalid, and if a pass rejects it.
    """
    return _checked_program(program).run_passes(pipeline, machine=machine)


def check(
    program: Program,
    *,
    devices: int | None = None,
    sizes: Mapping[str, int | float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    streams: int | None = None,
    strict: bool = False,
    timeout: float | None = None,
    machine: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Proves that a program is free of races, deadlocks and reads of what nothing has written, without running it.

    - `devices`: the number of ranks; without it as many as the program's meshes need.
    - `sizes`: extents and scalar inputs by name; `"*"` is for every extent that nothing else determines.
    - `shapes`: shapes of whole inputs by name.
    - `streams`: the number of streams; without it the one that the text proposes, else 4.
    - `strict`: warnings count as errors.
    - `timeout`: seconds for planning.
    - `machine`: the machine for which times are modelled, on which warnings about waste and the order of fixes depend:
      a built-in one by its name, `"h100x4"`, or the path of a file. Without it `"h200x4"`.

    Raises `HostIrError` if there is nothing to prove: the program is invalid, or sizes are open or contradict each
    other. What the proof finds is in the verdict.
    """
    settings = _settings(devices, sizes, shapes, streams, strict, timeout)
    settings["machine"] = read_machine(machine)
    found = _native.check(_checked_program(program)._handle, settings)
    return Verdict(
        outcome=found["outcome"],
        errors=read_diagnostics(found["errors"]),
        warnings=read_diagnostics(found["warnings"]),
        sizes=found["sizes"],
        ranks=found["ranks"],
        streams=tuple(found["streams"]),
        rules=found["rules"],
        idle=tuple(found["idle"]),
        is_plain=found["is_plain"],
        text=found["text"],
        source=program.source,
        lines=found["errors"],
    )


def run(
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    devices: int | None = None,
    sizes: Mapping[str, int | float] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    streams: int | None = None,
    seed: int = 0,
    check: bool = True,
    timeout: float | None = None,
) -> dict[str, numpy.ndarray[Any, Any] | _native.Tensor]:
    """Runs all ranks of a program on the CPU, and gives its outputs as whole tensors by name.

    - `inputs`: whole tensors by name (`"x"`), number (`"T0"`) or position (`"0"`): numpy arrays, everything with
      `__dlpack__` in host memory (so tensors of torch, bfloat16 included), `hostir.Tensor`, or the word of a generator:
      `"randn"`, `"uniform"`, `"ones"`, `"zeros"`, `"iota"`. What is not given is `"randn"`. Element types and shapes
      must be the program's; nothing is converted.
    - `seed`: for generated inputs; `hir-run --seed` gives the same numbers.
    - `check`: proves the program first.
    - `devices`, `sizes`, `shapes`, `streams`: as for `check`. `timeout`: seconds for planning, and for the run,
      which ends after the instruction that is under way then.

    Outputs are numpy arrays. Where numpy lacks the element type (bfloat16, FP8) they are `hostir.Tensor`, which torch
    reads, `torch.from_dlpack(output)`, and of which `numpy.asarray` makes an array if `ml_dtypes` is installed.

    Raises `HostIrError` for everything that is wrong.
    """
    settings = _settings(devices, sizes, shapes, streams, False, timeout)
    arrays = read_mapping("inputs", inputs, '{"x": array}')
    for name, value in arrays.items():
        if value is None:
            _native.raise_error("H0610", f"inputs: `{name}` is None", 'leave it out, or name a generator: `"randn"`')
    given = {name: as_input(value) for name, value in arrays.items()}
    options = {"seed": read_number("seed", seed, MOST_SEED), "check": bool(check)}
    found = _native.run(_checked_program(program)._handle, given, settings, options)
    return {name: as_output(tensor) for name, tensor in found}


def _settings(
    devices: int | None,
    sizes: Mapping[str, int | float] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    streams: int | None,
    strict: bool,
    timeout: float | None,
) -> dict[str, Any]:
    return {
        "devices": None if devices is None else read_number("devices", devices, MOST_RANKS),
        "sizes": read_sizes(sizes),
        "shapes": read_shapes(shapes),
        "streams": None if streams is None else read_number("streams", streams, MOST_RANKS),
        "strict": bool(strict),
        "timeout": read_timeout(timeout),
        "unlimited": False,
    }
