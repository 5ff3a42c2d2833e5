"""Programs on torch's tensors of GPUs: one session for each layout of the tensors, on torch's current stream."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from hostir import _native
from hostir._program import Program, _settings
from hostir.torch._exchange import GroupExchange, describe_trouble, exchange_of
from hostir.torch._group import group_among
from hostir.torch._libraries import preload_libraries
from hostir.torch._monitor import watch_session

__all__ = ["ProgramSessions", "ResultLayout"]

ResultLayout = tuple[torch.Size, torch.dtype]
"""Shape and element type of a result."""

_TIMEOUT = 60.0


class _Prepared:
    """A session with what a call needs beside it."""

    __slots__ = ("device", "exchange", "results", "session")

    def __init__(
        self,
        session: _native.Session,
        device: torch.device,
        results: Sequence[ResultLayout],
        exchange: GroupExchange | None,
    ) -> None:
        self.session = session
        self.device = device
        self.results = tuple(results)
        self.exchange = exchange


class ProgramSessions:
    """The sessions of a program, by the layouts of its tensors and the group; the least recently used one goes.

    `inputs` are tensors in the order of the program's inputs, `outputs` positions of the program's outputs.
    """

    def __init__(self, name: str, program: Program, outputs: Sequence[int], limit: int = 32) -> None:
        self.name = name
        self.program = program
        self.outputs = tuple(outputs)
        self.limit = limit
        self._prepared: OrderedDict[Any, _Prepared] = OrderedDict()

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
    ) -> list[torch.Tensor]:
        """Enqueues a run on torch's current stream, and gives the results.

        `others` are the call's other arguments, of which one may name a group; `results()` says what the results for
        these arguments look like.
        """
        prepared = self._prepared_for(inputs, others, results)
        device = prepared.device
        written = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in prepared.results]
        self._enqueue(prepared, inputs, written)
        return written

    def run_into(
        self,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
        out: Sequence[torch.Tensor],
    ) -> None:
        """As `run`, and leaves the results in `out`: at once where it is dense, else by a copy."""
        prepared = self._prepared_for(inputs, others, results)
        layouts = [(target.shape, target.dtype) for target in out]
        if layouts == list(prepared.results) and all(target.is_contiguous() for target in out):
            self._enqueue(prepared, inputs, out)
            return
        for target, result in zip(out, self.run(inputs, others, results), strict=True):
            target.copy_(result)

    def _prepared_for(
        self, inputs: Sequence[torch.Tensor], others: tuple[Any, ...], results: Callable[[], Sequence[ResultLayout]]
    ) -> _Prepared:
        key = (others, *[(tensor.shape, tensor.stride(), tensor.dtype, tensor.device) for tensor in inputs])
        prepared = self._prepared.get(key)
        if prepared is None:
            return self._prepare(key, inputs, others, results)
        self._prepared.move_to_end(key)
        return prepared

    @staticmethod
    def _enqueue(prepared: _Prepared, inputs: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        addresses = [tensor.data_ptr() for tensor in inputs]
        addresses += [tensor.data_ptr() for tensor in written]
        prepared.session.run(torch._C._cuda_getCurrentRawStream(prepared.device.index), addresses)

    def sessions(self) -> list[_native.Session]:
        """The sessions, the least recently used one first."""
        return [prepared.session for prepared in self._prepared.values()]

    def _prepare(
        self,
        key: Any,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
    ) -> _Prepared:
        device = self._device_of(inputs)
        if torch.cuda.is_current_stream_capturing():
            self._refuse("is not ready for tensors of these shapes", "call it once before the capture")
        preload_libraries()
        group = group_among(others)
        exchange = exchange_of(group, _TIMEOUT) if group is not None and dist.get_world_size(group) > 1 else None
        self._drop_least_used()
        layouts = list(results())
        world = 1 if exchange is None else exchange.world
        session = _native.Session(
            self.program._handle,
            [_layout(tensor.dtype, tensor.shape, tensor.stride()) for tensor in inputs],
            [
                (position, _layout(dtype, shape, torch.empty(shape, device="meta").stride()))
                for position, (shape, dtype) in zip(self.outputs, layouts, strict=True)
            ],
            None if exchange is None else exchange.control_plane,
            _settings(world, None, None, None, False, None),
            {"device": device.index, "copies": self._shares_devices(exchange, device), "timeout": _TIMEOUT},
        )
        if exchange is not None:
            watch_session(session, exchange)
        made = _Prepared(session, device, layouts, exchange)
        self._prepared[key] = made
        return made

    def _device_of(self, inputs: Sequence[torch.Tensor]) -> torch.device:
        devices = {tensor.device for tensor in inputs}
        if len(devices) != 1:
            found = ", ".join(sorted(map(str, devices))) or "none"
            self._refuse("needs its tensors on one GPU", f"they are on {found}")
        (device,) = devices
        return device

    def _shares_devices(self, exchange: GroupExchange | None, device: torch.device) -> bool:
        """Whether two ranks have the same GPU, so that NCCL cannot connect them. A step that all ranks take part in."""
        if exchange is None:
            return False
        own = str(torch.cuda.get_device_properties(device).uuid)
        messages, trouble = exchange.gather(f"prepare {self.name}", own.encode())
        if trouble is not None:
            self._refuse("cannot be prepared on all ranks", describe_trouble(trouble))
        return len(set(messages)) < len(messages)

    def _drop_least_used(self) -> None:
        while len(self._prepared) >= self.limit:
            idle = [key for key, prepared in self._prepared.items() if not prepared.session.is_recorded()]
            if not idle:
                return
            dropped = self._prepared.pop(idle[0])
            dropped.session.wait()
            if dropped.exchange is not None and dropped.exchange.gather("drop", b"")[1] is not None:
                dropped.session.abandon()
            dropped.session.close()

    def _refuse(self, what: str, note: str) -> NoReturn:
        _native.raise_error("H0528", f"{self.name} {what}", note)


def _layout(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> tuple[str, list[int], list[int]]:
    return str(dtype).removeprefix("torch."), list(shape), list(strides)
