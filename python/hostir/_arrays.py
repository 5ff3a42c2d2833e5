"""Arrays of other libraries as tensors of programs, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostir import _native
from hostir._native import Tensor

if TYPE_CHECKING:
    import numpy

__all__ = ["as_array", "as_input", "as_output", "copy_tensor"]


def as_input(value: Any) -> Tensor | str:
    """An input for a run: a tensor, or the word of a generator."""
    if isinstance(value, (Tensor, str)):
        return value
    # A tensor of torch that autograd follows gives itself away only when it is detached.
    if getattr(value, "requires_grad", False):
        value = value.detach()
    numpy_dtype = getattr(getattr(value, "dtype", None), "isbuiltin", None)
    if numpy_dtype is None and hasattr(value, "__dlpack__"):
        return copy_tensor(value)
    return _from_numpy(value)


def copy_tensor(value: Any) -> Tensor:
    """A copy of a tensor of another library. Older versions of torch export no floats of 8 bits; their bits they do."""
    if type(value).__name__ == "FakeTensor":
        _native.raise_error("H0610", "a tensor is a `FakeTensor`, which has no numbers", "pass an ordinary tensor")
    if getattr(value, "is_meta", False):
        _native.raise_error("H0610", "a tensor is of the meta device, so it has no numbers", "pass an ordinary tensor")
    # DLPack says nothing of signs and conjugates that torch has yet to apply.
    value = value.resolve_conj().resolve_neg() if hasattr(value, "resolve_neg") else value
    try:
        return Tensor.from_dlpack(value)
    except BufferError:
        module, _, name = str(getattr(value, "dtype", "")).partition(".")
        if module != "torch" or not name.startswith("float8"):
            raise
        import torch

        bits = Tensor.from_dlpack(value.contiguous().view(torch.uint8))
        return Tensor.from_bytes(name, bits.shape, bits.tobytes())


def _from_numpy(value: Any) -> Tensor:
    import numpy

    if isinstance(value, numpy.ma.MaskedArray):
        _native.raise_error("H0610", "an array is masked, but a program has all elements", "fill it: `array.filled(0)`")
    try:
        array = numpy.asarray(value)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        message = f"an input is no array: {' '.join(str(error).split())}"
        _native.raise_error("H0610", message, "give rows of the same length")
    # Types of ml_dtypes carry the names that we use; numpy's own are in the machine's byte order.
    array = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return Tensor.from_bytes(array.dtype.name, list(array.shape), array.tobytes())


def as_output(tensor: Tensor) -> numpy.ndarray[Any, Any] | Tensor:
    """A numpy array; the tensor itself where numpy does not have its element type."""
    return as_array(tensor) if _is_of_numpy(tensor.dtype) else tensor


def as_array(tensor: Tensor, dtype: Any = None) -> numpy.ndarray[Any, Any]:
    """A numpy array, of `dtype` if one is given; of a type of ml_dtypes where numpy has none."""
    import numpy

    array: numpy.ndarray[Any, Any]
    if _is_of_numpy(tensor.dtype):
        array = _owned(numpy.from_dlpack(tensor))
    else:
        array = _owned(numpy.from_dlpack(tensor.bits())).view(_foreign_dtype(tensor.dtype))
    return array if dtype is None else array.astype(dtype, copy=False)


def _owned(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    # numpy before 2.1 takes over DLPack's memory as read-only.
    return array if array.flags.writeable else array.copy()


def _is_of_numpy(name: str) -> bool:
    import numpy

    try:
        # Once ml_dtypes is imported, numpy knows the names of its types, but its DLPack does not.
        return numpy.dtype(name).isbuiltin == 1
    except TypeError:
        return False


def _foreign_dtype(name: str) -> Any:
    import numpy

    try:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(f"numpy has no type {name}: install ml_dtypes, or use torch.from_dlpack") from None
