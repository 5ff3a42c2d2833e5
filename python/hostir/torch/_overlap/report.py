"""The outcome for each collective, as data and as a table."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import torch

import hostir
from hostir.torch._overlap.nodes import Collective, Node
from hostir.torch._overlap.programs import RegionOp, RegionProgram, unused_overrides
from hostir.torch._overlap.reasons import Kept, Reason
from hostir.torch._overlap.report_forms import html_of_report, json_of_report, text_of_report
from hostir.torch._overlap.restore import RestoredRegion
from hostir.torch._overlap.times import Times

__all__ = ["GraphShape", "Line", "Report", "Trial", "shape_of_graph", "source_line"]


@dataclass(frozen=True)
class GraphShape:
    """A graph that the pass has seen."""

    number: int
    nodes: int
    inputs: tuple[str, ...]
    """Element types and shapes: `float32[4, 8]`."""


@dataclass(frozen=True)
class Trial:
    """A program that was tried for a collective, and lost."""

    region: str
    outcome: str
    """The reason."""
    times: Times | None = None


@dataclass
class Line:
    """One collective of one graph."""

    graph: int
    """Number of the graph, from 0, in the order in which the pass saw them."""
    collective: str
    """`all_gather`, `reduce_scatter`, `all_reduce` or the name of the op."""
    group: str
    where: str
    """`model.py:212`, or the name of the node where the graph does not say it."""
    region: str | None = None
    """The region that it was fused into."""
    reason: Reason | None = None
    """The reason that it was kept."""
    detail: str = ""
    times: Times | None = None
    """Of the region, if it was measured; also of one that was not faster."""
    path: str = ""
    """`/data/train/model.py:212`: the line with its file's full path; empty where the graph does not say it."""
    lost: list[Trial] = field(default_factory=list)
    """The programs that were tried for it and not taken."""
    fallback: str = ""
    """The reason why torch's nodes run in the place of the program, on all ranks: one of them had no session."""

    @property
    def is_fused(self) -> bool:
        """True if a program has taken its place."""
        return self.region is not None

    @property
    def verdict(self) -> str:
        """Fused into what, or kept for which reason."""
        if self.region is not None:
            earlier = ", by times of an earlier process" if self.times is not None and self.times.is_earlier else ""
            instead = f", but runs torch's nodes: {self.fallback}" if self.fallback else ""
            return f"fused: {self.region}{earlier}{instead}"
        assert self.reason is not None
        return f"kept: {Kept(self.reason, self.detail)}"


@dataclass
class Report:
    """The collectives of all graphs that a pass has seen. `str()` is a table, and notebooks show a page."""

    lines: list[Line] = field(default_factory=list)
    programs: dict[str, RegionProgram] = field(default_factory=dict)
    """The regions' programs by name, also of regions that were not faster."""
    ops: dict[tuple[str, str], RegionOp] = field(default_factory=dict)
    """Their ops, by the op's name and the group's: regions whose own nodes differ may be one program."""
    graphs: list[GraphShape] = field(default_factory=list)
    """The graphs, in the order in which the pass saw them."""
    restored: list[RestoredRegion] = field(default_factory=list)
    """The regions of graphs that an earlier process has compiled, and that Inductor has kept."""

    def ops_of(self, region: str) -> list[RegionOp]:
        """The ops of a region."""
        return [made for made in self.ops.values() if made.written.name == region]

    @property
    def fused(self) -> list[Line]:
        """The collectives that programs do now."""
        return [line for line in self.lines if line.is_fused]

    @property
    def kept(self) -> list[Line]:
        """The collectives that stay as torch has them."""
        return [line for line in self.lines if not line.is_fused]

    def __str__(self) -> str:
        return text_of_report(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """A page that needs no other file."""
        return html_of_report(self)

    def to_json(self) -> str:
        """An object of JSON, with all that the lines have."""
        return json_of_report(self)

    def notes(self) -> list[str]:
        """Sentences about regions of kept graphs, and about overrides that no graph has used."""
        unused = [f"override of {name}: no graph has this region so far" for name in unused_overrides()]
        return [*map(_restored_text, self.restored), *unused]

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes each region's program in plain math and lowered: `region_3f2a.hir` and `region_3f2a.lowered.hir`.

        A file appears whole, in the place of what has its name: what a link there leads to stays as it is.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name, program in sorted(self.programs.items()):
            notes = "".join(f"// {line.collective} at {line.where}\n" for line in self.lines if line.region == name)
            for suffix, text in ((".hir", program.plain.to_hir2()), (".lowered.hir", program.lowered.to_hir2())):
                path, beside = target / f"{name}{suffix}", target / f".{name}{suffix}.{os.urandom(8).hex()}.tmp"
                try:
                    # A new file, whoever else may write to the folder; its mode follows the umask.
                    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
                        file.write(_with_notes(text, notes))
                    os.replace(beside, path)
                finally:
                    beside.unlink(missing_ok=True)
                written.append(path)
        return written


def _restored_text(found: RestoredRegion) -> str:
    places = ", ".join(f"{kind} at {where}" for kind, _, where in found.collectives)
    return f"{found.program.name}, of a graph that an earlier process compiled: {places}"


def _with_notes(text: str, notes: str) -> str:
    """Comments after the first line, which says what the text is."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{notes}{rest}"


def shape_of_graph(graph: torch.fx.Graph, number: int) -> GraphShape:
    """The number of its nodes, and its inputs that are tensors or sizes; others are objects of torch's own, such as groups."""
    inputs = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    known = [value for value in inputs if isinstance(value, (torch.Tensor, torch.SymInt, int))]
    texts = [_tensor_text(value) if isinstance(value, torch.Tensor) else str(value) for value in known]
    return GraphShape(number, len(graph.nodes), tuple(texts))


def _tensor_text(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def source_line(end: Collective) -> str:
    """The line of the user's code that a collective comes from, `/data/train/model.py:212`: of itself, of what it sends, or of what
    reads it. The name of its node where the graph does not say it.
    """
    result = end.result
    near = [end.node, result, *end.node.all_input_nodes, *result.users]
    for node in near:
        found = _line_of(node)
        if found is not None:
            return found
    return end.node.name


def _line_of(node: Node) -> str | None:
    """The innermost frame of a node's stack outside of torch and of this package."""
    own = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(hostir.__file__) + os.sep)
    frames = []
    for text in str(node.meta.get("stack_trace") or "").splitlines():
        parts = text.strip().split('"')
        if text.strip().startswith("File ") and len(parts) >= 3:
            frames.append((parts[1], parts[2].partition("line ")[2].partition(",")[0]))
    outside = [f"{path}:{line}" for path, line in frames if not path.startswith(own)]
    return outside[-1] if outside else None
