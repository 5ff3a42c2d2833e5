"""`Overlap`: a pass over graphs of torch that turns collectives and the matmuls beside them into programs.

The modules in the order in which data goes through them: `nodes`, `layouts` and `functions` say what nodes are; `gathers`, `sums`
and `joins` find what belongs together, as `regions`, and `exchanges` and `experts` find experts, with the `row_orders` of their
tensors; `emit` writes it as text, in the forms of `forms`, and `emit_experts` that of experts; `bodies` keeps the nodes as a
function; `programs` lowers, proves and registers; `measure` compares, and `choices` keeps its times; `rewrite` changes the
graph; `kept_regions` keeps regions, and `restore` makes ops of them in later processes; `report` tells, in the forms of
`report_forms`; `explain` shows a program beside its nodes. `overlap` calls them.
"""

from hostir.torch._overlap.overlap import Overlap
from hostir.torch._overlap.programs import override
from hostir.torch._overlap.reasons import Reason
from hostir.torch._overlap.report import Line, Report

__all__ = ["Line", "Overlap", "Reason", "Report", "override"]
