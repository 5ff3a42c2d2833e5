"""A session in a process whose CUDA libraries are stand-ins (`test/fakes`): prints the results of `relu` or the warnings.

usage: python fake_gpu.py, with the stand-ins in LD_LIBRARY_PATH
"""

from __future__ import annotations

import ctypes
import struct
import warnings

import hostir
from hostir import _native
from hostir._program import _settings

PROGRAM = "hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n"
NUMBERS = [1.0, -2.0, 3.0, -4.0]


class Device:
    """Memory and a stream of a device."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, 0)

    def call(self, name: str, *arguments: object) -> None:
        """A function of the driver."""
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            raise OSError(f"{name} returns {status}")

    def put(self, numbers: list[float]) -> int:
        """New memory with these numbers."""
        address, data = ctypes.c_uint64(), struct.pack(f"{len(numbers)}f", *numbers)
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def get(self, address: int, count: int) -> list[float]:
        """The numbers there, after what the stream has to do."""
        data = ctypes.create_string_buffer(4 * count)
        self.call("cuStreamSynchronize", self.stream)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(4 * count))
        return list(struct.unpack(f"{count}f", data.raw))


Layout = tuple[str, list[int], list[int]]


def make_session(layout: Layout, symmetric: list[dict[str, object]]) -> _native.Session:
    """A session on tensors of this layout."""
    return _native.Session(
        hostir.parse(PROGRAM)._handle,
        [layout],
        [(0, layout)],
        None,
        _settings(1, None, None, None, False, None),
        {
            "device": 0,
            "copies": False,
            "timeout": 10.0,
            "parent": None,
            "tunes_sustained": False,
            "gemm_kernels": False,
            "symmetric": symmetric,
        },
    )


def check_symmetric(layout: Layout) -> None:
    """Symmetric memory has an address for each rank of a tensor of the program's."""
    for position, addresses in [(0, [4096, 8192]), (1, [4096])]:
        try:
            make_session(layout, [{"output": False, "position": position, "addresses": addresses}])
        except hostir.HostIrError as error:
            assert error.code == "H0528", error
        else:
            raise AssertionError(f"input {position} at {addresses} is taken")


def main() -> None:
    device = Device()
    layout = ("float32", [len(NUMBERS)], [1])
    check_symmetric(layout)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = make_session(layout, [])
    x, results = device.put(NUMBERS), [device.put([0.0] * len(NUMBERS)) for _ in range(2)]
    # The same layout at other addresses, in turn.
    for at in [0, 1, 0]:
        session.run(device.stream.value, [x, results[at]])
        assert device.get(results[at], len(NUMBERS)) == device.get(results[0], len(NUMBERS))
    session.wait()
    print(device.get(results[1], len(NUMBERS)))
    for warning in caught:
        print(warning.message)


if __name__ == "__main__":
    main()
