"""Diagnostics as data, and the exception that carries them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Diagnostic", "Edit", "Fix", "HostIrError", "Label", "MessagePart", "apply_fixes"]


@dataclass(frozen=True)
class Label:
    """A place in the text with a message. Lines and columns count from 1; `start` is an offset in bytes of UTF-8."""

    text: str
    line: int
    column: int
    start: int
    end: int


@dataclass(frozen=True)
class MessagePart:
    """Something that a message names: its `kind`, such as `"tensor"`, and its `text`, bytes `start` to `end` of the message."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Edit:
    """The replacement of the bytes `start` to `end` of a text (UTF-8)."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True)
class Fix:
    """A repair as edits of the program's text.

    `applicability` is `"MachineApplicable"` if the text with the edits was tried: the diagnostic is gone and nothing
    else is wrong that was right before. `"MaybeIncorrect"` fixes are proposals.
    """

    message: str
    applicability: str
    edits: tuple[Edit, ...]

    @property
    def is_machine_applicable(self) -> bool:
        """True if tools may apply the fix without asking."""
        return self.applicability == "MachineApplicable"

    def apply_to(self, text: str) -> str:
        """The text with the edits."""
        data = text.encode()
        for edit in sorted(self.edits, key=lambda edit: edit.start, reverse=True):
            data = data[: edit.start] + edit.replacement.encode() + data[edit.end :]
        return data.decode()


@dataclass(frozen=True)
class Diagnostic:
    """One error, warning or remark. `line`, `column`, `start` and `end` are None where it is about no place.

    `parts` has what the message names, `note_parts` the same for each of the notes.
    """

    code: str
    severity: str
    message: str
    file: str
    line: int | None
    column: int | None
    start: int | None
    end: int | None
    labels: tuple[Label, ...]
    notes: tuple[str, ...]
    fixes: tuple[Fix, ...]
    parts: tuple[MessagePart, ...] = ()
    note_parts: tuple[tuple[MessagePart, ...], ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line is not None else ""
        return f"{place}{self.severity}[{self.code}]: {self.message}"


def _place_of(found: Diagnostic) -> Diagnostic | Label:
    return found.labels[0] if found.line is None and found.labels else found


class HostIrError(Exception):
    """A program, an input or an argument is wrong. `str()` is what the tools print.

    `diagnostics` has everything that was found, in the order of the text; the properties `code`, `message`, `line`,
    `column`, `labels`, `notes` and `fixes` are those of the first error.
    """

    diagnostics: tuple[Diagnostic, ...]
    """All that was found."""
    source: str
    """The text that the places are in."""

    def __init__(self, text: str, lines: str = "", source: str = "") -> None:
        super().__init__(text, lines, source)
        self.diagnostics = read_diagnostics(lines)
        self.source = source

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def first(self) -> Diagnostic:
        """The first error."""
        errors = [found for found in self.diagnostics if found.severity == "error"]
        return (errors or list(self.diagnostics))[0]

    @property
    def code(self) -> str:
        """The code of the first error, `H0401`; docs/errors.md explains each."""
        return self.first.code

    @property
    def message(self) -> str:
        """The sentence of the first error."""
        return self.first.message

    @property
    def line(self) -> int | None:
        """The line of the first error, from 1; of one that is about no place in the text, that of its first label."""
        return _place_of(self.first).line

    @property
    def column(self) -> int | None:
        """The column of the first error, from 1, as of `line`."""
        return _place_of(self.first).column

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labelled places of the first error."""
        return self.first.labels

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the first error."""
        return self.first.notes

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The fixes of all diagnostics."""
        return tuple(fix for found in self.diagnostics for fix in found.fixes)


def read_diagnostics(lines: str) -> tuple[Diagnostic, ...]:
    """Diagnostics as the tools write them with `--diagnostics=json`, one object a line."""
    return tuple(_diagnostic(json.loads(line)) for line in lines.splitlines() if line)


def _diagnostic(found: dict[str, Any]) -> Diagnostic:
    labels = (Label(one["text"], one["line"], one["column"], one["start"], one["end"]) for one in found["labels"])
    places = {key: found[key] for key in ("line", "column", "start", "end")}
    parts = found.get("parts", {})
    return Diagnostic(
        code=found["code"],
        severity=found["severity"],
        message=found["message"],
        file=found["file"],
        labels=tuple(labels),
        notes=tuple(found["notes"]),
        fixes=tuple(_fix(fix) for fix in found["fixes"]),
        parts=_parts(parts.get("message", [])),
        note_parts=tuple(_parts(note) for note in parts.get("notes", [])),
        **places,
    )


def _parts(found: list[dict[str, Any]]) -> tuple[MessagePart, ...]:
    return tuple(MessagePart(part["kind"], part["text"], part["start"], part["end"]) for part in found)


def _fix(fix: dict[str, Any]) -> Fix:
    edits = (Edit(edit["start"], edit["end"], edit["replacement"]) for edit in fix["edits"])
    return Fix(fix["message"], fix["applicability"], tuple(edits))


def apply_fixes(text: str, found: HostIrError | Iterable[Diagnostic]) -> str:
    """The text with the machine-applicable fixes of an error, or of diagnostics, about it.

    A fix whose edits overlap those of an earlier one is left out: check the result again and apply what is left.
    """
    diagnostics = found.diagnostics if isinstance(found, HostIrError) else tuple(found)
    taken: list[Edit] = []
    for diagnostic in diagnostics:
        fix = next((fix for fix in diagnostic.fixes if fix.is_machine_applicable), None)
        if fix is not None and not any(_overlap(edit, other) for edit in fix.edits for other in taken):
            taken.extend(fix.edits)
    return Fix("", "MachineApplicable", tuple(taken)).apply_to(text)


def _overlap(one: Edit, other: Edit) -> bool:
    # Two insertions at one place would need an order.
    return one.start <= other.end and other.start <= one.end
