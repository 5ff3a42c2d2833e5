"""A module with ops that other processes find by import."""

import torch

import hostir.torch as hir


@hir.op("hostir_picklable::matmul", program="programs/matmul.hir", args={"x": "x", "w": "w"}, out="y")
def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product."""
    return x @ w


class Held:
    @staticmethod
    @hir.op("hostir_picklable::held", program="programs/matmul.hir", args={"x": "x", "w": "w"}, out="y")
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """An op in a class."""
        return x @ w


def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """No op, but the function of one."""
    return x @ w


other_name = hir.op("hostir_picklable::other_name", program=matmul.program, args={"x": "x", "w": "w"}, out="y")(plain)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 5))
        self.product = matmul

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, self.weight)
