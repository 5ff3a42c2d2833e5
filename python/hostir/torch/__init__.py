"""Host programs as ops of torch.

```python
import torch
import torch.distributed._functional_collectives as fc
import hostir.torch as hir

@hir.op("mylib::gather_matmul", program="gather_matmul.hir", args={"x": "A", "w": "B"}, out="C")
def gather_matmul(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    return fc.all_gather_tensor(x, 0, group) @ w
```

The body in plain torch is the specification: what the op computes on the CPU, the shapes of its results, what its gradient is, and
what the program is compared with. The program is the schedule.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hostir.torch._op import Op, op
from hostir.torch._symmetric import register_symmetric, unregister_symmetric

if TYPE_CHECKING:
    from hostir.torch import linear as linear, tp_gemm_backend as tp_gemm_backend
    from hostir.torch._overlap import Overlap, Reason, override
    from hostir.torch._styles import ColwiseParallel, RowwiseParallel

__all__ = [
    "ColwiseParallel",
    "Op",
    "Overlap",
    "Reason",
    "RowwiseParallel",
    "linear",
    "op",
    "override",
    "register_symmetric",
    "tp_gemm_backend",
    "unregister_symmetric",
]

# Modules that need torch's compiler or DTensor, whose import takes seconds: on first use.
_LATER = {
    "ColwiseParallel": "_styles",
    "Overlap": "_overlap",
    "Reason": "_overlap",
    "RowwiseParallel": "_styles",
    "linear": "linear",
    "override": "_overlap",
    "tp_gemm_backend": "tp_gemm_backend",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_LATER[name]}")
    return module if _LATER[name] == name else getattr(module, name)
