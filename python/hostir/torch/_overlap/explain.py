"""A region's program beside the nodes of torch that it replaces."""

from __future__ import annotations

import itertools
import re

from hostir.torch._overlap.bodies import RegionBody
from hostir.torch._overlap.programs import RegionProgram

__all__ = ["explain_region"]

# The text that torch's printer adds for the interpreter: `;  mm = None`.
DELETION = re.compile(r";\s+(\w+ = )+None\s*$")
GAP = "  |  "


def explain_region(program: RegionProgram, body: RegionBody | None) -> str:
    """The nodes and the program in plain math, line beside line, and then the program that runs."""
    plain = program.plain.to_hir2().rstrip().splitlines()
    nodes = [] if body is None else _lines_of_nodes(body)
    width = max(map(len, ["torch's nodes", *nodes]))
    pairs = itertools.zip_longest(["torch's nodes", *nodes], ["the program in plain math", *plain], fillvalue="")
    beside = [f"{left.ljust(width)}{GAP}{right}".rstrip() for left, right in pairs]
    how = "the user's program" if program.is_override else f"after {program.passes}"
    return "\n".join(
        [f"{program.name} on {program.ranks} ranks", "", *beside, "", f"{how}:", "", program.lowered.to_hir2().rstrip()]
    )


def _lines_of_nodes(body: RegionBody) -> list[str]:
    lines = [DELETION.sub("", line.strip()) for line in body.code.splitlines()]
    return [line.replace("torch.ops.", "").replace(".default(", "(") for line in lines if line and not line.startswith("def ")]
