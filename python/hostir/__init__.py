"""Host programs that drive several devices: read, checked, changed by passes, and run.

`import hostir` needs neither torch nor CUDA. `hostir.torch` has programs as ops of torch.
"""

from hostir._errors import Diagnostic, Edit, Fix, HostIrError, Label, MessagePart, apply_fixes
from hostir._native import RULES_VERSION, VERSION as __version__, Tensor
from hostir._program import Program, Verdict, check, load, parse, parse_all, run, run_passes, verify
from hostir._timeline import timeline

__all__ = [
    "RULES_VERSION",
    "Diagnostic",
    "Edit",
    "Fix",
    "HostIrError",
    "Label",
    "MessagePart",
    "Program",
    "Tensor",
    "Verdict",
    "__version__",
    "apply_fixes",
    "check",
    "load",
    "parse",
    "parse_all",
    "run",
    "run_passes",
    "timeline",
    "verify",
]
