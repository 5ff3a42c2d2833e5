"""Host programs as ops of torch.

```python
import torch
import torch.distributed._functional_collectives as fc
import hostir.torch as hir

@hir.op("mylib::gather_matmul", program="gather_matmul.hir", args={"x": "A", "w": "B"}, out="C")
def gather_matmul(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    return fc.all_gather_tensor(x, 0, group) @ w
```

The body in plain torch is the specification: what the op computes on the CPU, the shapes of its results, what its gradient is, and what the program is compared with. The program is the schedule.
"""

from hostir.torch._op import Op, op

__all__ = ["Op", "op"]
