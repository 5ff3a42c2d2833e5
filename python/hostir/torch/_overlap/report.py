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
from hostir.torch._overlap.times import Times

__all__ = ["Line", "Report", "source_line"]

HEADS = ("graph", "collective", "where", "verdict", "serial ms", "measured ms")
TIMES = ("serial ms", "measured ms")


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

    @property
    def is_fused(self) -> bool:
        """True if a program has taken its place."""
        return self.region is not None

    @property
    def verdict(self) -> str:
        """Fused into what, or kept for which reason."""
        if self.region is not None:
            earlier = ", by times of an earlier process" if self.times is not None and self.times.is_earlier else ""
            return f"fused: {self.region}{earlier}"
        assert self.reason is not None
        return f"kept: {Kept(self.reason, self.detail)}"


@dataclass
class Report:
    """The collectives of all graphs that a pass has seen. `str()` is a table."""

    lines: list[Line] = field(default_factory=list)
    programs: dict[str, RegionProgram] = field(default_factory=dict)
    """The regions' programs by name, also of regions that were not faster."""
    ops: dict[tuple[str, str], RegionOp] = field(default_factory=dict)
    """Their ops, by the op's name and the group's: regions whose own nodes differ may be one program."""

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
        rows = [HEADS, *(_cells(line) for line in self.lines)]
        if len({line.graph for line in self.lines}) < 2:
            rows = [row[1:] for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows)]
        table = [_join(row, widths) for row in rows]
        table.append(f"{len(self.lines)} collectives: {len(self.fused)} fused, {len(self.kept)} kept")
        table.extend(f"override of {name}: no graph has this region so far" for name in unused_overrides())
        return "\n".join(table)

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


def _with_notes(text: str, notes: str) -> str:
    """Comments after the first line, which says what the text is."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{notes}{rest}"


def _cells(line: Line) -> tuple[str, ...]:
    times = ("", "") if line.times is None else (f"{line.times.serial:.3f}", f"{line.times.measured:.3f}")
    return (str(line.graph), f"{line.collective} ({line.group})", line.where, line.verdict, *times)


def _join(row: tuple[str, ...], widths: list[int]) -> str:
    texts = len(row) - len(TIMES)
    cells = [cell.ljust(width) if at < texts else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))]
    return "  ".join(cells).rstrip()


def source_line(end: Collective) -> str:
    """The line of the user's code that a collective comes from: of itself, of what it sends, or of what reads it."""
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
    outside = [f"{os.path.basename(path)}:{line}" for path, line in frames if not path.startswith(own)]
    return outside[-1] if outside else None
