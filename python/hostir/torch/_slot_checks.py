"""The demands on arguments of linear slots. Each refusal names the argument, what it needs, and the repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from hostir import _native

__all__ = ["check_biases", "check_kinds", "check_part_rows", "check_rows", "check_types", "check_weights"]

Shape = Sequence[int]

TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_kinds(x: Any, weights: Sequence[Any], biases: Sequence[Any], is_list: bool) -> None:
    """Raises unless all are plain tensors of one device; biases may be None."""
    named = [("x", x)]
    named += [(_name_in_list("w", at, is_list), weight) for at, weight in enumerate(weights)]
    named += [(_name_in_list("bias", at, is_list), bias) for at, bias in enumerate(biases) if bias is not None]
    for name, value in named:
        kind = type(value).__name__
        if not isinstance(value, torch.Tensor):
            _refuse(f"`{name}` is of type {kind}, but needs a tensor", "pass a `torch.Tensor`")
        if value.layout is not torch.strided:
            _refuse(f"`{name}` is sparse, but needs all its elements", f"pass `{name}.to_dense()`")
        if kind == "DTensor":
            _refuse(f"`{name}` is a `DTensor`, but slots take each rank's part", f"pass the rank's part: `{name}.to_local()`")
        if value.device != x.device:
            _refuse(f"`x` is on {x.device}, but `{name}` on {value.device}", "move one of them: `w.to(x.device)`")


def check_rows(x: torch.Tensor, dim: int, setting: str = "dim") -> None:
    """Raises unless `x` has an axis of rows, which is `dim`, and one of features after it; callers have named it by `setting`."""
    axes = x.dim()
    if not hasattr(dim, "__index__") or isinstance(dim, bool):
        _refuse(f"`{setting}` is of type {type(dim).__name__}, but needs a number", "name the axis of the tokens")
    if axes < 2:
        _refuse_axes(axes, "that of the rows and that of the features")
    if not -axes <= dim < axes:
        _refuse(f"`{setting}` is {dim}, but `x` has {axes} axes", "name the axis of the tokens")
    if dim % axes == axes - 1:
        _refuse(f"`{setting}` is {dim}, the axis of the features of `x`", "name the axis of the tokens")


def check_part_rows(x: torch.Tensor, dim: int, ranks: int) -> None:
    """Raises unless the rows divide into one part for each rank."""
    rows, axis = x.shape[dim], dim % x.dim()
    if rows % ranks != 0:
        message = f"axis {axis} of `x` has {rows} rows, which do not divide into one part for each of {ranks} ranks"
        _refuse(message, f"pad them: {ranks - rows % ranks} more")


def check_weights(x: torch.Tensor, weights: Sequence[torch.Tensor], is_list: bool, ranks: int) -> None:
    """Raises unless the weights are `[out, in]`, with the features of `x`."""
    if x.dim() < 1:
        _refuse_axes(0, "that of the features")
    if not weights:
        _refuse("`w` is a list without weights", "give one weight or more")
    for at, weight in enumerate(weights):
        name = _name_in_list("w", at, is_list)
        if weight.dim() != 2:
            _refuse(f"`{name}` has the shape {_shape(weight)}, but needs two axes", "weights are [out, in], as of `nn.Linear`")
        if weight.shape[1] != x.shape[-1]:
            _refuse_features(x.shape[-1], name, weight, ranks)


def check_types(tensors: Sequence[torch.Tensor], weights: int) -> None:
    """Raises unless `x`, so many weights and the biases after them are of one element type, of those that slots take."""
    x, others = tensors[0], tensors[1:]
    if x.dtype not in TYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
        _refuse(f"`x` is {x.dtype}, but slots take {known}", "convert it: `x.to(torch.bfloat16)`")
    for at, tensor in enumerate(others):
        if tensor.dtype != x.dtype:
            of_list = weights > 1
            name = _name_in_list("w", at, of_list) if at < weights else _name_in_list("bias", at - weights, of_list)
            _refuse(f"`x` is {x.dtype}, but `{name}` is {tensor.dtype}", "convert one of them: `x.to(w.dtype)`")


def check_biases(biases: Sequence[Any], weights: Sequence[torch.Tensor], is_list: bool) -> None:
    """Raises unless there is a bias for each weight, or none at all."""
    if biases and len(biases) != len(weights):
        count = f"{len(weights)} weight{'s' if len(weights) > 1 else ''}"
        _refuse(f"`w` has {count}, but `bias` has {len(biases)}", "give a bias for each weight, or `bias=None`")
    for at, (bias, weight) in enumerate(zip(biases, weights)):
        name = _name_in_list("bias", at, is_list)
        if bias is None:
            _refuse(f"`{name}` is None", "give a bias for each weight (zeros where there is none), or `bias=None` for all")
        if bias.dim() != 1 or bias.shape[0] != weight.shape[0]:
            needed = f"`{_name_in_list('w', at, is_list)}` of shape {_shape(weight)} gives {weight.shape[0]} features"
            _refuse(f"`{name}` has the shape {_shape(bias)}, but {needed}", f"give a bias of shape ({weight.shape[0]})")


def _refuse_features(features: int, name: str, weight: torch.Tensor, ranks: int) -> NoReturn:
    message = f"`x` has {features} features, but `{name}` of shape {_shape(weight)} takes {weight.shape[1]}"
    if weight.shape[0] == features:
        _refuse(message, f"weights are [out, in], as of `nn.Linear`: pass its transpose, `{name}.t()`")
    if features * ranks == weight.shape[1] or weight.shape[1] * ranks == features:
        _refuse(message, f"one of the two is whole: each of the {ranks} ranks takes its part of the columns of both")
    _refuse(message, "weights are [out, in], as of `nn.Linear`")


def _refuse_axes(axes: int, needed: str) -> NoReturn:
    found = f"{axes} {'axis' if axes == 1 else 'axes'}"
    _refuse(f"`x` has {found}, but needs {needed}", "give a single row an axis: `x[None]`")


def _refuse(message: str, note: str) -> NoReturn:
    _native.raise_error("H0610", message, note)


def _name_in_list(name: str, at: int, is_list: bool) -> str:
    return f"{name}[{at}]" if is_list else name


def _shape(tensor: torch.Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"
