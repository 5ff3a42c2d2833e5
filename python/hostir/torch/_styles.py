"""Styles for `parallelize_module`: linear layers with sequence parallelism whose collectives go on beside the matmul."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from hostir import _native
from hostir.torch import linear
from hostir.torch._group import check_mesh
from hostir.torch._slot_checks import check_rows

__all__ = ["ColwiseParallel", "RowwiseParallel"]


class _LinearStyle(ParallelStyle):
    """Spreads a linear layer over a mesh of one dimension.

    - `sequence_dim`: the axis of the tokens, of which each rank has a part outside of the pair of layers.
    """

    weight_axis = 0
    bias_placement: Any = Shard(0)

    def __init__(
        self, *, sequence_dim: int = 1, input_layouts: None = None, output_layouts: None = None, use_local_output: None = None
    ) -> None:
        super().__init__()
        of_torch = {"input_layouts": input_layouts, "output_layouts": output_layouts, "use_local_output": use_local_output}
        for name, value in of_torch.items():
            if value is not None:
                message = f"{type(self).__name__} has no `{name}`: tokens are spread along `sequence_dim`, and results are local"
                _refuse(message, "name the axis of the tokens, `sequence_dim=1`, or use torch's style of that name")
        if not hasattr(sequence_dim, "__index__") or isinstance(sequence_dim, bool):
            message = f"{type(self).__name__}: `sequence_dim` is of type {type(sequence_dim).__name__}, but needs a number"
            _refuse(message, "name the axis of the tokens, `sequence_dim=1`")
        self.sequence_dim = sequence_dim

    def _apply(self, module: nn.Module, device_mesh: Any) -> nn.Module:
        _check_linear(type(self).__name__, module)
        check_mesh(device_mesh)
        placements = {"weight": Shard(self.weight_axis), "bias": self.bias_placement}
        for name, parameter in list(module.named_parameters(recurse=False)):
            _check_divides(type(self).__name__, name, parameter, placements[name], device_mesh.size())
            spread = distribute_tensor(parameter, device_mesh, [placements[name]], src_data_rank=self.src_data_rank)
            module.register_parameter(name, nn.Parameter(spread, requires_grad=parameter.requires_grad))
        module.forward = functools.partial(self._forward, module, device_mesh)  # type: ignore[method-assign]
        return module

    def _check_tokens(self, x: Any) -> None:
        """Raises unless `x` has the axis of the tokens; what is no tensor is refused by the function that gets it."""
        if isinstance(x, torch.Tensor):
            check_rows(x, self.sequence_dim, "sequence_dim")

    def _forward(self, module: nn.Linear, mesh: Any, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class ColwiseParallel(_LinearStyle):
    """A rank has some columns: it gathers the tokens of all ranks and gives its columns of them.

    Input: the rank's tokens. Result: all tokens, the rank's columns. Local tensors or `DTensor`s go in, local ones come out.
    """

    def _forward(self, module: nn.Linear, mesh: Any, x: torch.Tensor) -> torch.Tensor:
        self._check_tokens(x)
        weight, bias = _local(module.weight), _local(module.bias)
        return linear.all_gather(_local_part(x, self.sequence_dim), weight, mesh, bias, dim=self.sequence_dim)


class RowwiseParallel(_LinearStyle):
    """A rank has some rows of the weight: it gives its tokens of the sum over all ranks.

    Input: all tokens, the rank's columns. Result: the rank's tokens.
    """

    weight_axis = 1
    bias_placement = Replicate()

    def _forward(self, module: nn.Linear, mesh: Any, x: torch.Tensor) -> torch.Tensor:
        self._check_tokens(x)
        weight, bias = _local(module.weight), _local(module.bias)
        return linear.reduce_scatter(_local_part(x, -1), weight, mesh, bias, dim=self.sequence_dim)


def _check_linear(style: str, module: nn.Module) -> None:
    """Raises unless a module is a linear layer that does what `torch.nn.Linear` does, whose `forward` the style replaces."""
    kind = type(module).__name__
    if not isinstance(module, nn.Linear):
        _refuse(f"{style} is for `nn.Linear`, but a module is `{kind}`", "name the linear layers in it")
    more = {name for name, _ in module.named_parameters()} - {"weight", "bias"}
    if type(module).forward is not nn.Linear.forward or "forward" in vars(module):
        _refuse(f"{style} replaces `forward`, but `{kind}` has one of its own", "use torch's style of that name for it")
    if more:
        listed = ", ".join(sorted(more))
        _refuse(f"{style} knows weight and bias, but `{kind}` has {listed}, too", "use torch's style of that name for it")


def _check_divides(style: str, name: str, parameter: torch.Tensor, placement: Any, ranks: int) -> None:
    """Raises unless all ranks get parts of the same size: programs are the same on all."""
    if isinstance(placement, Shard) and parameter.shape[placement.dim] % ranks != 0:
        extent = parameter.shape[placement.dim]
        message = f"{style}: axis {placement.dim} of `{name}` has {extent} elements, which {ranks} ranks cannot share alike"
        _refuse(message, f"pad it by {-extent % ranks}, or use torch's style of that name")


def _refuse(message: str, note: str) -> NoReturn:
    _native.raise_error("H0610", message, note)


def _local_part(x: torch.Tensor, axis: int) -> torch.Tensor:
    """The rank's part of a `DTensor` along an axis, however it lies; a local tensor is that part."""
    if not isinstance(x, DTensor):
        return x
    extent, ranks = x.shape[axis], x.device_mesh.size()
    if extent % ranks != 0:
        parts = f"which do not divide into one part for each of {ranks} ranks"
        message = f"axis {axis % x.dim()} of the input has {extent} elements, {parts}"
        _refuse(message, f"pad it by {-extent % ranks}")
    return x.redistribute(placements=[Shard(axis % x.dim())]).to_local()


def _local(tensor: Any) -> Any:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
