"""Programs on torch's tensors of GPUs: one session for each layout of the tensors, on torch's current stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import torch
import torch.distributed as dist
from torch.profiler import record_function

from hostir import _native
from hostir._errors import HostIrError
from hostir._program import Program, _settings
from hostir.torch._direct import make_dispatcher
from hostir.torch._exchange import GroupExchange, are_limits_off, describe_trouble, exchange_of
from hostir.torch._group import communicator_of, group_among
from hostir.torch._libraries import preload_libraries
from hostir.torch._monitor import forget_session, watch_session
from hostir.torch._session_vote import SessionRefused, SessionVote, error_line
from hostir.torch._symmetric import SymmetricPart, symmetric_part

__all__ = ["ProgramSessions", "ResultLayout", "Tuning", "check_device", "check_out"]

ResultLayout = tuple[torch.Size, torch.dtype]
"""Shape and element type of a result."""

Tuning = Literal["quick", "sustained", "kernels"]
"""The effort that is made to choose algorithms of GEMMs."""

_TIMEOUT = 60.0
# A number that a limit can have, and nobody lives to see.
_NO_TIMEOUT = 1e9

# Communicators are split off torch's, which takes less time than to connect anew.
_SPLITS = os.environ.get("HOSTIR_NCCL_SPLIT") == "1"


class _Prepared:
    """A session, the group whose ranks share it, and the symmetric memory that it was prepared for."""

    __slots__ = ("exchange", "kept", "session")

    def __init__(self, session: _native.Session, exchange: GroupExchange | None, kept: Sequence[SymmetricPart] = ()) -> None:
        self.session = session
        self.exchange = exchange
        # An address is the same memory as long as there is a session for it.
        self.kept = tuple(kept)


class ProgramSessions:
    """The sessions of a program, by the layouts of its tensors and the group; the least recently used one goes.

    `inputs` are tensors in the order of the program's inputs, `outputs` positions of the program's outputs, `places` those
    of the inputs among the arguments of a call, `group_at` that of the process group among those that are no tensors, and
    `tuning` is that of `hir.op`. With `fallback_sites`, the kinds of collectives that the program has taken the place of, all ranks
    of the group vote on a session before its first run: `SessionRefused` is raised on all of them where one has none.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        outputs: Sequence[int],
        places: Sequence[int] = (),
        group_at: int | None = None,
        tuning: Tuning = "quick",
        limit: int = 32,
        fallback_sites: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.program = program
        self.outputs = tuple(outputs)
        self.limit = limit
        self.group_at = group_at
        self.tuning = tuning
        self.dispatcher = make_dispatcher(places)
        self._fallback_sites = fallback_sites
        self._refused: dict[Any, str] = {}
        """The calls for which no rank uses a session, and why."""

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
        found = self._run_prepared(inputs, others)
        if found is None:
            with record_function(f"hostir::prepare {self.name}"):
                self._prepare_by_vote(inputs, others, results)
            found = self._run_prepared(inputs, others)
            assert found is not None
        return found

    def _run_prepared(self, inputs: Sequence[torch.Tensor], others: tuple[Any, ...]) -> list[torch.Tensor] | None:
        """The results of a call that is prepared. An error tells the op, the rank and the run: others may be in the same run."""
        try:
            return self.dispatcher.run(inputs, others)
        except HostIrError as error:
            group, sessions = group_among(others, self.group_at), self.sessions()
            rank = "" if group is None else f" on rank {dist.get_rank(group)}"
            run = f", run {sessions[-1].runs()}" if sessions and hasattr(sessions[-1], "runs") else ""
            raise HostIrError(f"{error}\n = in {self.name}{rank}{run}", *error.args[1:]) from error

    def run_into(
        self,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
        out: Sequence[torch.Tensor],
    ) -> None:
        """As `run`, and leaves the results in `out`: at once where it is dense, else by a copy."""
        if self.dispatcher.run_into(inputs, others, out):
            return
        if self._are_in_place(others, results, out):
            self._prepare_by_vote(inputs, others, results, out)
            if self.dispatcher.run_into(inputs, others, out):
                return
        made = self.run(inputs, others, results)
        check_out(self.name, out, made)
        for target, result in zip(out, made, strict=True):
            target.copy_(result)

    def sessions(self) -> list[_native.Session]:
        """The sessions, the least recently used one first."""
        return [prepared.session for prepared in self.dispatcher.prepared()]

    def _prepare_by_vote(
        self,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
        out: Sequence[torch.Tensor] = (),
    ) -> None:
        """Prepares a session; where others can do without, all ranks have it or none.

        A rank that has had a session for such calls may have peers that still use theirs: it raises if they do not come.
        """
        if self._fallback_sites is None:
            self._prepare(inputs, others, results, out)
            return
        call = _call_key(inputs, others)
        if call in self._refused:
            raise SessionRefused(self._refused[call])
        before, failure, vote = set(map(id, self.dispatcher.prepared())), None, None
        try:
            group = group_among(others, self.group_at)
            if group is not None and dist.get_world_size(group) > 1:
                vote = SessionVote(group, self.name, call, self._fallback_sites)
                vote.begin(exchange_of(group, _TIMEOUT))
            self._prepare(inputs, others, results, out)
        except SessionRefused as refused:
            self._refuse_call(call, str(refused))
        except Exception as error:  # noqa: BLE001 - whatever it is, the op's own function does the same
            failure = error
        reason = (None if failure is None else error_line(failure)) if vote is None else vote.close(failure)
        if reason is None:
            return
        for prepared in self.dispatcher.prepared():
            if id(prepared) not in before:
                self.dispatcher.remove(prepared)
                _give_up(prepared.session)
        if vote is not None and vote.number > 1 and failure is not None:
            raise failure
        self._refuse_call(call, reason)

    def _refuse_call(self, call: Any, reason: str) -> NoReturn:
        self._refused[call] = reason
        raise SessionRefused(reason)

    def _prepare(
        self,
        inputs: Sequence[torch.Tensor],
        others: tuple[Any, ...],
        results: Callable[[], Sequence[ResultLayout]],
        out: Sequence[torch.Tensor] = (),
    ) -> None:
        device = self._device_of(inputs)
        if torch.cuda.is_current_stream_capturing():
            self._refuse("is not ready for tensors of these shapes", "call it once before the capture")
        group = group_among(others, self.group_at)
        parent = communicator_of(group, device) if group is not None and _SPLITS else None
        preload_libraries()
        exchange = exchange_of(group, _TIMEOUT) if group is not None and dist.get_world_size(group) > 1 else None
        if parent is not None:
            # To split a communicator, nothing may be under way on it.
            torch.cuda.synchronize(device)
        self._drop_least_used()
        layouts = list(results())
        world = 1 if exchange is None else exchange.world
        symmetric = _SymmetricTensors(inputs, self.outputs, out, None if exchange is None else group)
        session = _native.Session(
            self.program._handle,
            [_layout(tensor.dtype, tensor.shape, tensor.stride()) for tensor in inputs],
            [
                (position, _layout(dtype, shape, _dense_strides(shape)))
                for position, (shape, dtype) in zip(self.outputs, layouts, strict=True)
            ],
            None if exchange is None else exchange.control_plane,
            _settings(world, None, None, None, False, None),
            {
                "device": device.index,
                "copies": self._shares_devices(exchange, device),
                "timeout": _NO_TIMEOUT if are_limits_off() else _TIMEOUT,
                "parent": parent,
                "tunes_sustained": self.tuning != "quick",
                "gemm_kernels": self.tuning == "kernels",
                "symmetric": symmetric.named_addresses(),
            },
        )
        try:
            if exchange is not None:
                watch_session(session, exchange, self.name)
            recipes = [(tuple(shape), _dense_strides(shape), dtype) for shape, dtype in layouts]
            fixed, kept = symmetric.fixed_addresses(session.symmetric() if symmetric.found else [])
            self.dispatcher.insert(inputs, others, _Prepared(session, exchange, kept), recipes, fixed, out)
        except BaseException:
            _give_up(session)
            raise

    def _are_in_place(
        self, others: tuple[Any, ...], results: Callable[[], Sequence[ResultLayout]], out: Sequence[torch.Tensor]
    ) -> bool:
        """Returns true if results can be written where the caller wants them, some of it in symmetric memory."""
        group = group_among(others, self.group_at)
        if not any(symmetric_part(tensor, group) is not None for tensor in out):
            return False
        wanted = [(shape, _dense_strides(shape), dtype) for shape, dtype in results()]
        return [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in out] == wanted

    def _device_of(self, inputs: Sequence[torch.Tensor]) -> torch.device:
        devices = {tensor.device for tensor in inputs}
        if len(devices) != 1:
            found = ", ".join(sorted(map(str, devices))) or "none"
            self._refuse("needs its tensors on one GPU", f"they are on {found}")
        (device,) = devices
        return device

    def _shares_devices(self, exchange: GroupExchange | None, device: torch.device) -> bool:
        """True if two ranks have the same GPU, so that NCCL cannot connect them. A step that all ranks take part in."""
        if exchange is None:
            return False
        own = str(torch.cuda.get_device_properties(device).uuid)
        messages, trouble = exchange.gather(f"prepare {self.name}", own.encode())
        if trouble is not None:
            self._refuse("cannot be prepared on all ranks", describe_trouble(trouble))
        return len(set(messages)) < len(messages)

    def _drop_least_used(self) -> None:
        while len(known := self.dispatcher.prepared()) >= self.limit:
            idle = [prepared for prepared in known if not prepared.session.is_recorded()]
            if not idle:
                return
            self._drop(idle[0])

    def drop_all(self) -> None:
        """Drops all sessions but those that a graph holds."""
        self._refused.clear()
        for prepared in self.dispatcher.prepared():
            if not prepared.session.is_recorded():
                self._drop(prepared)

    def _drop(self, dropped: _Prepared) -> None:
        self.dispatcher.remove(dropped)
        dropped.session.wait()
        if dropped.exchange is not None and dropped.exchange.gather("drop", b"")[1] is not None:
            dropped.session.abandon()
        dropped.session.close()

    def _refuse(self, what: str, note: str) -> NoReturn:
        _native.raise_error("H0528", f"{self.name} {what}", note)


class _SymmetricTensors:
    """The tensors of a call that lie in symmetric memory: inputs by number, and results after them."""

    def __init__(self, inputs: Sequence[torch.Tensor], outputs: Sequence[int], out: Sequence[torch.Tensor], group: Any) -> None:
        slots = [(False, position) for position in range(len(inputs))] + [(True, position) for position in outputs]
        self.found: dict[int, tuple[tuple[bool, int], torch.Tensor, SymmetricPart]] = {}
        for index, (slot, tensor) in enumerate(zip(slots, [*inputs, *out], strict=False)):
            part = symmetric_part(tensor, group)
            if part is not None:
                self.found[index] = (slot, tensor, part)

    def named_addresses(self) -> list[dict[str, Any]]:
        """For a session: inputs and outputs with the addresses of all ranks' parts."""
        return [
            {"output": output, "position": position, "addresses": part.addresses_of(tensor)}
            for (output, position), tensor, part in self.found.values()
        ]

    def fixed_addresses(self, used: Sequence[tuple[bool, int]]) -> tuple[dict[int, int], list[SymmetricPart]]:
        """Of a session that uses these in place: the addresses to which it is bound, and what keeps the memory there."""
        in_place = {index: found for index, found in self.found.items() if found[0] in used}
        fixed = {index: tensor.data_ptr() for index, (_, tensor, _) in in_place.items()}
        return fixed, [part for _, _, part in in_place.values()]


def _give_up(session: _native.Session) -> None:
    """Leaves a session that no run has used: other ranks may have its memory."""
    forget_session(session)
    session.abandon()


def _call_key(inputs: Sequence[torch.Tensor], others: tuple[Any, ...]) -> tuple[Any, ...]:
    """The call as all ranks have it: without devices' numbers and addresses."""
    layouts = tuple((str(one.dtype), tuple(one.shape), tuple(one.stride())) for one in inputs)
    return layouts, tuple(map(repr, others))


def check_out(name: str, out: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    """Raises unless the tensors of `out` have the shapes, element types and devices of the results."""
    for target, result in zip(out, results, strict=True):
        if target.shape != result.shape or target.dtype != result.dtype:
            found, needed = (f"{one.dtype} of shape {list(one.shape)}" for one in (target, result))
            message = f"a tensor of `out` is {found}, but {name} writes {needed}"
            _native.raise_error("H0610", message, "make one of this shape and type")
        check_device(name, target, result.device)


def check_device(name: str, target: torch.Tensor, device: torch.device) -> None:
    """Raises unless a tensor of `out` is where the results are."""
    if target.device != device:
        message = f"a tensor of `out` is on {target.device}, but the results of {name} are on {device}"
        _native.raise_error("H0610", message, "make one there")


def _dense_strides(shape: torch.Size) -> tuple[int, ...]:
    return torch.empty(shape, device="meta").stride()


def _layout(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> tuple[str, list[int], list[int]]:
    return str(dtype).removeprefix("torch."), list(shape), list(strides)
