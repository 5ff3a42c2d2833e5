"""Arrays of other libraries as tensors of programs, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostir._native import Tensor

if TYPE_CHECKING:
    import numpy

__all__ = ["as_array", "as_input", "as_output"]


def as_input(value: Any) -> Tensor | str:
    """An input for a run: a tensor, or the word of a generator."""
    if isinstance(value, (Tensor, str)):
        return value
    # A tensor of torch that autograd follows gives itself away only when it is detached.
    if getattr(value, "requires_grad", False):
        value = value.detach()
    numpy_dtype = getattr(getattr(value, "dtype", None), "isbuiltin", None)
    if numpy_dtype is None and hasattr(value, "__dlpack__"):
        return Tensor.from_dlpack(value)
    return _from_numpy(value)


def _from_numpy(value: Any) -> Tensor:
    import numpy

    array = numpy.asarray(value)
    # Types of ml_dtypes carry the names that we use; numpy's own are in the machine's byte order.
    array = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return Tensor.from_bytes(array.dtype.name, list(array.shape), array.tobytes())


def as_output(tensor: Tensor) -> numpy.ndarray[Any, Any] | Tensor:
    """A numpy array; the tensor itself where neither numpy nor ml_dtypes has its element type."""
    import numpy

    try:
        dtype = numpy.dtype(tensor.dtype)
    except TypeError:
        dtype = _foreign_dtype(tensor.dtype)
        if dtype is None:
            return tensor
        return _owned(numpy.from_dlpack(tensor.bits())).view(dtype)
    return _owned(numpy.from_dlpack(tensor)).astype(dtype, copy=False)


def as_array(tensor: Tensor, dtype: Any = None) -> numpy.ndarray[Any, Any]:
    """A numpy array, of `dtype` if one is given."""
    array = as_output(tensor)
    if isinstance(array, Tensor):
        raise TypeError(f"numpy has no type {tensor.dtype}: install ml_dtypes, or use torch.from_dlpack")
    return array if dtype is None else array.astype(dtype, copy=False)


def _owned(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    # numpy before 2.1 takes over DLPack's memory as read-only.
    return array if array.flags.writeable else array.copy()


def _foreign_dtype(name: str) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        return None
    import numpy

    return numpy.dtype(scalar)
