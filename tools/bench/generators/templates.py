"""Texts in `hir 2` that are made of a template, with its section repeated. `benches/text.rs` reads the same templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TextIO

TEXTS = Path(__file__).with_name("texts")
NAMES = ("mixed", "flat")


def write_program(out: TextIO, name: str, ops: int) -> None:
    """Writes the template of this name with about so many ops."""
    template = (TEXTS / f"{name}.txt").read_text()
    head, count, section, _, end = re.split(r"^---(?: (\d+) ops)?\n", template, flags=re.MULTILINE)
    out.write(head)
    out.write("".join(section.replace("#", str(at)) for at in range(-(-ops // int(count)))))
    out.write(end)
