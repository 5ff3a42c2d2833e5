"""The extension module; `hostir` has the functions and types to use."""

from collections.abc import Sequence
from typing import Any, NoReturn, TypedDict, final, type_check_only

__all__ = [
    "RULES_VERSION",
    "VERSION",
    "ControlPlane",
    "Dispatcher",
    "NativeProgram",
    "Session",
    "Tensor",
    "check",
    "check_parts",
    "count_devices",
    "hir_opt",
    "hir_run",
    "parse",
    "raise_error",
    "run",
    "run_ranks",
    "set_symmetric_ranges",
    "sizes_of_parts",
]

VERSION: str
RULES_VERSION: int

@final
class NativeProgram:
    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def is_hir2(self) -> bool: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def written_inputs(self) -> list[str]: ...
    @property
    def sizes(self) -> list[str]: ...
    @property
    def untold_scalars(self) -> list[str]: ...
    def position(self, name: str, output: bool) -> int | None: ...
    def to_printed(self, short: bool) -> str: ...
    def to_hir2(self) -> str: ...
    def verify(self) -> str: ...
    def run_passes(self, pipeline: str, machine: str | None) -> tuple[NativeProgram, str]: ...

@final
class Tensor:
    """A dense row-major tensor in host memory, of any element type that programs have."""

    @staticmethod
    def from_bytes(dtype: str, shape: Sequence[int], data: bytes) -> Tensor:
        """A tensor of these bytes."""
    @staticmethod
    def from_dlpack(array: Any) -> Tensor:
        """A copy of another library's tensor in host memory."""
    @property
    def shape(self) -> list[int]:
        """Extents, outermost first."""
    @property
    def dtype(self) -> str:
        """The element type: `float32`, `bfloat16`."""
    def __reduce__(self) -> tuple[Any, tuple[str, list[int], bytes]]: ...
    def tobytes(self) -> bytes:
        """The elements, row by row, in the machine's byte order."""
    def bits(self) -> TensorBits:
        """The same elements as unsigned integers of their size, for libraries that lack the element type."""
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

@final
@type_check_only
class TensorBits:
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(self, **options: Any) -> Any: ...

@type_check_only
class CheckResult(TypedDict):
    outcome: str
    sizes: dict[str, int]
    ranks: int
    streams: list[int]
    rules: int
    idle: list[int]
    is_plain: bool
    errors: str
    text: str
    warnings: str

@final
class ControlPlane:
    def __new__(cls, rank: int, world: int, host: str, gather: Any, report: Any) -> ControlPlane: ...
    def note_failure(self, rank: int, why: str) -> None: ...
    def note_loss(self, rank: int, how: str) -> None: ...

@final
class Session:
    def __new__(
        cls,
        program: NativeProgram,
        inputs: list[tuple[str, list[int], list[int]]],
        outputs: list[tuple[int, tuple[str, list[int], list[int]]]],
        control_plane: ControlPlane | None,
        settings: dict[str, Any],
        session: dict[str, Any],
    ) -> Session: ...
    def run(self, stream: int, addresses: list[int]) -> None: ...
    def is_complete(self) -> bool | None: ...
    def wait(self) -> None: ...
    def runs(self) -> int:
        """The number of runs that were enqueued, those of recorded graphs not counted."""
    def is_recorded(self) -> bool: ...
    def symmetric(self) -> list[tuple[bool, int]]:
        """The tensors that peers address in symmetric memory: true for an output, and its position."""
    def platform(self) -> str: ...
    def phases(self) -> list[tuple[str, float]]: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...

@final
class Dispatcher:
    """The prepared calls of an op, by the layouts of their tensors and their other arguments."""

    def __new__(cls, torch: dict[str, Any], places: list[int]) -> Dispatcher: ...
    @property
    def has_exchange_api(self) -> bool:
        """True if tensors are read by DLPack's exchange API."""
    def call(self, values: tuple[Any, ...]) -> Any:
        """The results of a call that is prepared and that torch's dispatcher need not see; else None."""
    def call_into(self, values: tuple[Any, ...], out: Any) -> Any:
        """As `call`, with the results in `out`, which is returned."""
    def run(self, inputs: Sequence[Any], others: tuple[Any, ...]) -> list[Any] | None:
        """The results for the tensors of the program's inputs; None if nothing is prepared for them."""
    def run_into(self, inputs: Sequence[Any], others: tuple[Any, ...], out: Sequence[Any]) -> bool:
        """As `run`, with the results in `out`. False if nothing is prepared, or `out` has another layout."""
    def insert(
        self,
        inputs: Sequence[Any],
        others: tuple[Any, ...],
        prepared: Any,
        results: list[tuple[tuple[int, ...], tuple[int, ...], Any]],
        fixed: dict[int, int] | None = None,
        out: Sequence[Any] | None = None,
    ) -> None:
        """Adds an object with an attribute `session` for such calls; results are shapes, strides, element types.

        Inputs and results are counted together: those in `fixed` are at this address. Of the others, those that are in
        symmetric memory of the call's group now, among the inputs and `out`, may be anywhere, and the rest anywhere else.
        """
    def prepared(self) -> list[Any]:
        """What was inserted, the least recently used first."""
    def remove(self, prepared: Any) -> None:
        """Takes it out."""

def count_devices() -> int: ...
def set_symmetric_ranges(ranges: list[tuple[int, int, list[str]]]) -> None:
    """Sets the ranges of the process's symmetric memory: first addresses, bytes, and names of groups."""

def parse(text: str, name: str, which: str | None) -> list[NativeProgram]: ...
def check(program: NativeProgram, settings: dict[str, Any]) -> CheckResult: ...
def run(
    program: NativeProgram, inputs: dict[str, Tensor | str], settings: dict[str, Any], run: dict[str, Any]
) -> list[tuple[str, Tensor]]: ...
def run_ranks(
    program: NativeProgram, inputs: dict[str, list[Tensor]], settings: dict[str, Any]
) -> list[list[tuple[str, Tensor | None, list[str]]]]:
    """By rank the outputs: name, part, and the element types to which values are rounded on the way."""

def sizes_of_parts(program: NativeProgram, shapes: list[list[int]]) -> dict[str, int]: ...
def check_parts(program: NativeProgram, parts: list[tuple[str, list[int] | None]]) -> None:
    """Raises `hostir.HostIrError` unless the inputs can be parts of these element types, and of these shapes if all are known."""

def raise_error(code: str, message: str, note: str | None) -> NoReturn: ...
def hir_opt(args: list[str]) -> int: ...
def hir_run(args: list[str]) -> int: ...
