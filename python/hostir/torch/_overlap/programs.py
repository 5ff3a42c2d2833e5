"""Programs of regions: lowered, proved, and made ops of torch. Users may put their own in the place of one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hostir import _native
from hostir._errors import HostIrError
from hostir._program import Program, load, parse
from hostir.torch._op import Op
from hostir.torch._overlap.bodies import RegionBody
from hostir.torch._overlap.emit import Argument, Written
from hostir.torch._overlap.forms import from_program, to_program
from hostir.torch._overlap.nodes import ELEMENT_TYPES, FACTOR_TYPES, REGION, Node
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.sizes import bind_graph
from hostir.torch._session import Tuning
from hostir.torch._torch_internals import op_schema

__all__ = [
    "RegionOp",
    "RegionProgram",
    "body_of_region",
    "default_passes",
    "is_region_op",
    "kind_of",
    "made_region",
    "op_of_region",
    "override",
    "region_program",
    "restored_op",
    "unused_overrides",
]

# Of a program, not of its kernels: from its name to the colon.
HEAD = re.compile(r"^\w+(\(.*?)(?: on \w+)?:$", re.MULTILINE | re.DOTALL)
ORDER = re.compile(r"\[([^\]]*)\] order\(([^)]*)\)")
COLLECTIVE = re.compile(r"\b(allgather|reduce_scatter|allreduce|all_to_all)\(")


@dataclass
class RegionProgram:
    """A region's program, in plain math and lowered."""

    name: str
    plain: Program
    lowered: Program
    """The program that runs: that after the passes, or the user's."""
    passes: str
    ranks: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Values of its sizes, for which it is proved; those of a call are proved when it comes."""
    is_override: bool = False
    generated: Program = field(init=False)
    """The program after the passes, also while the user's runs."""

    def __post_init__(self) -> None:
        self.generated = self.lowered


@dataclass(frozen=True)
class RegionOp:
    """An op of torch that is a region."""

    op: Op
    group: str
    """The name of the group whose ranks call it."""
    written: Written

    def check(self, rtol: float | None, atol: float | None) -> None:
        """Compares the program with the region's own nodes; all ranks of the group call it."""
        sizes = self.written.sizes
        with contextlib.nullcontext() if sizes is None else sizes.bound():
            arguments = _random_arguments(self.written)
        hints = [] if sizes is None else [sizes.hint(symbol) for symbol in self.written.symbols]
        self.op.check(*arguments, self.group, *hints, rtol=rtol, atol=atol)


def _random_arguments(written: Written) -> list[torch.Tensor]:
    """Random numbers for the arguments: the same ones for a tensor of the graph that is several of them, in other forms."""
    first: dict[tuple[Node, ...], tuple[Argument, torch.Tensor]] = {}
    made = []
    for argument in written.arguments:
        if argument.nodes in first:
            made.append(_in_other_form(written, *first[argument.nodes], argument))
            continue
        made.append(_random_argument(written, argument))
        first[argument.nodes] = (argument, made[-1])
    return made


def _in_other_form(written: Written, given: Argument, numbers: torch.Tensor, wanted: Argument) -> torch.Tensor:
    graph = torch.fx.Graph()
    if written.sizes is not None:
        bind_graph(graph, {symbol: written.sizes.hint(symbol) for symbol in written.symbols})
    tensor = from_program(graph, graph.placeholder("numbers"), given.form, given.shape)
    graph.output(to_program(graph, tensor, wanted.form))
    found: torch.Tensor = torch.fx.GraphModule(torch.nn.Module(), graph)(numbers)
    return found


def _random_argument(written: Written, argument: Argument) -> torch.Tensor:
    """Random numbers for an argument. Sums of products of them are of the order of 1, whatever their length."""
    kinds = {**ELEMENT_TYPES, **FACTOR_TYPES}
    kind = next(kind for kind, element in kinds.items() if element == argument.element)
    shape = argument.form.shape if written.sizes is None else [written.sizes.hint_of(extent) for extent in argument.form.shape]
    made = (torch.randn(shape) / max(1, shape[-1]) ** 0.5).to(kind)
    # A right factor of 8-bit floats lies column by column; torch takes no other.
    strides = argument.nodes[0].meta["val"].stride()
    is_turned = len(strides) == 2 and strides[0] == 1 and argument.element in FACTOR_TYPES.values()
    return made.mT.contiguous().mT if is_turned else made


# Ops of torch have one definition in a process, so what they were made of belongs to the process, too.
_PROGRAMS: dict[tuple[str, str], RegionProgram] = {}
_OPS: dict[str, tuple[Op, RegionProgram]] = {}
_BODIES: dict[str, RegionBody] = {}
_MAKING: set[str] = set()
_OVERRIDES: dict[str, Program] = {}


def default_passes(written: Written) -> str:
    """The passes that lower a region. Other ranks cannot write to torch's memory: gathered rows that are a result are copied there,
    the rank's own ones by copy engines. Products beside a sum over ranks are multiplied while it travels.
    """
    if written.has_exchanges:
        return "alltoall-matmul"
    if written.returns_rows:
        return "overlap-lower{gather_into=buffer,own_part=return}"
    return "overlap-lower{independent_products=inside}" if written.has_products_beside else "overlap-lower"


def kind_of(name: str, program: RegionProgram) -> str:
    """A digest that regions share which differ from the one of a name in sizes alone."""
    text = re.sub(r"\d+", "#", str(program.plain).replace(name, ""))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def region_program(written: Written, ranks: int, passes: str) -> RegionProgram:
    """The lowered and proved program of a region. Raises `Kept` if it cannot be had, or does not overlap."""
    found = _PROGRAMS.get((written.name, passes))
    if found is not None:
        return found
    try:
        plain = parse(written.text, written.name)
        plain.verify()
        lowered = plain.run_passes(passes)
        _check_runs(lowered, ranks, written.values)
    except HostIrError as error:
        raise Kept(Reason.NOT_PROVED, f"{error.code}: {error.message}") from error
    made = RegionProgram(written.name, plain, lowered, passes, ranks, written.values)
    if written.name in _OVERRIDES:
        _replace_program(made, _OVERRIDES[written.name])
    left = COLLECTIVE.search(str(made.lowered))
    if left is not None and not made.is_override:
        raise Kept(Reason.COLLECTIVE_REMAINS, left.group(1))
    _PROGRAMS[(written.name, passes)] = made
    return made


def region_op(written: Written, program: RegionProgram, body: RegionBody, tuning: Tuning, sites: Sequence[str] = ()) -> Op:
    """The op of torch that is a region: its program, and its own nodes as the specification, and where ranks have no session.

    `sites` are the kinds of its collectives.
    """
    variant = hashlib.sha256(f"{body.code}\n{program.passes}\n{tuning}".encode()).hexdigest()[:6]
    name = f"{written.name}_{variant}"
    if name not in _OPS:
        args = {argument.name.lower(): argument.name for argument in written.arguments}
        outputs = tuple(result.name for result in written.results)
        _make_op(name, program, body, args, outputs, tuning, sites)
    return _OPS[name][0]


def restored_op(
    name: str,
    program: RegionProgram,
    body: RegionBody,
    args: Mapping[str, str],
    outputs: Sequence[str],
    tuning: Tuning,
    sites: Sequence[str],
) -> None:
    """Makes the op of a region that an earlier process has proved, with the user's program in its place if there is one."""
    if program.name in _OVERRIDES:
        _replace_program(program, _OVERRIDES[program.name])
    _PROGRAMS.setdefault((program.name, program.passes), program)
    _make_op(name, program, body, args, tuple(outputs), tuning, sites)


def _make_op(
    name: str,
    program: RegionProgram,
    body: RegionBody,
    args: Mapping[str, str],
    outputs: tuple[str, ...],
    tuning: Tuning,
    sites: Sequence[str],
) -> None:
    _MAKING.add(name)
    try:
        made = Op(f"hostir::{name}", body.function, program.lowered, args, outputs, tuning, tuple(sites))
    finally:
        _MAKING.discard(name)
    _OPS[name] = (made, program)
    _BODIES[name] = body


def is_region_op(name: str) -> bool:
    """True if this process has the op of a region, or makes it."""
    return name in _OPS or name in _MAKING


def made_region(name: str) -> tuple[Op, RegionProgram, RegionBody]:
    """The op of a region, with its program and its nodes."""
    return (*_OPS[name], _BODIES[name])


def body_of_region(region: str) -> RegionBody | None:
    """The nodes of a region of this name; None for one without an op, as with `choose="never"`."""
    return next((_BODIES[name] for name, (_, program) in _OPS.items() if program.name == region), None)


def op_of_region(target: Any) -> Op | None:
    """The op that a node of a graph calls, if it is a region."""
    if getattr(target, "namespace", "") != "hostir":
        return None
    found = _OPS.get(str(op_schema(target).name).partition("::")[2])
    return None if found is None else found[0]


def override(name: str, program: str | os.PathLike[str] | Program | None) -> None:
    """Puts a program in the place of the one that a region of `Overlap` has.

    - `name`: the region's, as the report has it: `"region_3f2a91c0"`.
    - `program`: a `hostir.Program`, or the path of a text. It has the inputs and outputs of the region's. None takes an
      override back: the region has its own program again.

    The program is proved first, which says nothing of its numbers: `Overlap.check` compares these with torch's. A region
    that a later graph has gets it, too; until then reports say that none has it.
    Raises `hostir.HostIrError` if the program is wrong (the error's own code), has other inputs or outputs (`H0631`) or is
    plain math that no pass has lowered (`H0614`), and for what is not the name of a region (`H0610`).
    """
    if not isinstance(program, (str, os.PathLike, Program, type(None))):
        what = f"`program` is of type {type(program).__name__}"
        _native.raise_error("H0610", what, "give a path, a `hostir.Program`, or None to take an override back")
    if REGION.fullmatch(str(name)) is None:
        regions = ", ".join(sorted({region for region, _ in _PROGRAMS}))
        note = f"the regions so far are {regions}" if regions else "take it from a report"
        _native.raise_error("H0610", f"`{name}` is not the name of a region, as `region_3f2a91c0` is", note)
    known = [made for (region, _), made in _PROGRAMS.items() if region == name]
    if program is None:
        _OVERRIDES.pop(name, None)
    else:
        found = program if isinstance(program, Program) else load(program)
        for made in known:
            _check_override(made, found)
        _OVERRIDES[name] = found
    for made in known:
        made.lowered, made.is_override = _OVERRIDES.get(name, made.generated), name in _OVERRIDES
    for op, made in _OPS.values():
        if made.name == name and op.program is not made.lowered:
            op.replace_program(made.lowered)


def unused_overrides() -> list[str]:
    """The names for which there is an override, but no region so far."""
    regions = {region for region, _ in _PROGRAMS}
    return sorted(name for name in _OVERRIDES if name not in regions)


def _replace_program(made: RegionProgram, program: Program) -> None:
    _check_override(made, program)
    made.lowered, made.is_override = program, True


def _check_override(made: RegionProgram, program: Program) -> None:
    wanted, got = _head(made.plain), _head(program)
    if wanted != got:
        message = f"{made.name}: the program has other inputs or outputs than the region: {got}"
        _native.raise_error("H0631", message, f"the region has {wanted}")
    program.verify()
    _check_runs(program, made.ranks, made.sizes)


def _check_runs(program: Program, ranks: int, sizes: Mapping[str, int]) -> None:
    """Raises if a program is not proved right, or if ranks cannot run it as it is."""
    verdict = program.check(devices=ranks, sizes=dict(sizes)).raise_if_wrong()
    if verdict.is_plain:
        message = f"`{program.name}` is plain math on whole tensors, which ranks cannot run"
        _native.raise_error("H0614", message, 'lower it: `program.run_passes("overlap-lower")`')


def _head(program: Program) -> str:
    """The inputs and outputs with their types, without what was summed."""
    text = program.to_hir2()
    head = re.sub(r"\s+", " ", HEAD.search(text).group(1))  # type: ignore[union-attr]
    head = ORDER.sub(_without_order, head)
    head = re.sub(r"r\.[^,\]]+, |, r\.[^,\]]+", "", head)
    return head.replace("( ", "(").replace(" )", ")")


def _without_order(found: re.Match[str]) -> str:
    """A type without the order of its axes in memory, if a rank's part has the usual one: it lacks the axes that are summed
    or spread over ranks.
    """
    axes = [axis.strip() for axis in found.group(1).split(",")]
    order = [int(at) for at in found.group(2).split(",")]
    own = [at for at in order if not axes[at].startswith(("r.", "x:"))]
    return f"[{found.group(1)}]" if own == sorted(own) else found.group(0)
