"""The table of expected results of pointwise functions, test/library/pointwise/table.txt, on a GPU.

make.py beside the table says what its lines mean; nothing but the standard library is needed here.
"""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.paths import ROOT
from gpu_suite.suite import Suite

TABLE = ROOT / "test/library/pointwise/table.txt"
FLAGS = ("--backend=cuda",)
SIZES = {
    "double": 8,
    "float": 4,
    "__half": 2,
    "__bfloat": 2,
    "__e4m3": 1,
    "__e5m2": 1,
    "__e8m0": 1,
    "int64_t": 8,
    "int": 4,
    "bool": 1,
}
NAMES = {
    "double": "F64",
    "float": "F32",
    "__half": "F16",
    "__bfloat": "BF16",
    "__e4m3": "F8_E4M3",
    "__e5m2": "F8_E5M2",
    "__e8m0": "F8_E8M0",
    "int64_t": "I64",
    "int": "I32",
    "bool": "BOOL",
}
# Bits of a float's mantissa, and whether all ones in the exponent are infinities and NaNs.
MANTISSA = {"double": 52, "float": 23, "__half": 10, "__bfloat": 7, "__e4m3": 3, "__e5m2": 2}
NANS = {"double": 0x7FF8 << 48, "float": 0x7FC0 << 16, "__half": 0x7E00, "__bfloat": 0x7FC0, "__e8m0": 0xFF}


class Operand(NamedTuple):
    """The elements of an operand, as words of the table."""

    dtype: str
    words: list[str]


class Row(NamedTuple):
    """A function's results; `limit` is how many places of its type a result may be away."""

    expression: str
    dtype: str
    limit: int
    words: list[str]


class Group(NamedTuple):
    """Functions of the same operands."""

    operands: list[Operand]
    rows: list[Row]


def groups() -> dict[str, Group]:
    """The groups of the table by name."""
    found: dict[str, Group] = {}
    for line in TABLE.read_text().splitlines():
        words = line.split(" ")
        if words[0] == "#":
            continue
        if words[0] == "in":
            found.setdefault(words[1], Group([], [])).operands.append(Operand(words[3], words[4:]))
        else:
            limit = 0 if words[2] == "exact" else int(words[2].split("/")[1])
            found[words[3]].rows.append(Row(words[0], words[1], limit, words[4:]))
    return found


def program_of(group: Group) -> str:
    """A program that computes all functions of a group."""
    count, first = len(group.operands[0].words), len(group.operands)

    def tensor(number: int, dtype: str) -> str:
        return f"T{number}_g_{dtype}[iS{number}{{{count}}}]"

    inputs = ", ".join(tensor(k, operand.dtype) for k, operand in enumerate(group.operands))
    outputs = ", ".join(tensor(first + k, row.dtype) for k, row in enumerate(group.rows))
    text = f"%HostIrContainer {{ ({inputs}) -> ({outputs}) :\n"
    names = [f"T{number}" for number in range(first)]
    for k, row in enumerate(group.rows):
        text += f"  T{first + k}\n     = {row.expression.format(*names)};\n"
    return text + "} // %HostIrContainer\n"


def write_operands(path: Path, operands: Sequence[Operand]) -> None:
    """The operands as a safetensors file."""
    header, data = {}, b""
    for number, (dtype, words) in enumerate(operands):
        nan = NANS.get(dtype, 0x7F)
        part = b"".join((nan if word == "nan" else int(word, 16)).to_bytes(SIZES[dtype], "little") for word in words)
        offsets = [len(data), len(data) + len(part)]
        header[f"T{number}"] = {"dtype": NAMES[dtype], "shape": [len(words)], "data_offsets": offsets}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_results(path: Path) -> dict[str, list[int]]:
    """The tensors of a safetensors file: lists of bits."""
    raw = path.read_bytes()
    length = struct.unpack_from("<Q", raw)[0]
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    sizes = {NAMES[dtype]: size for dtype, size in SIZES.items()}
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            (start, end), size = entry["data_offsets"], sizes[entry["dtype"]]
            found[name] = [int.from_bytes(data[at : at + size], "little") for at in range(start, end, size)]
    return found


def is_nan(bits: int, dtype: str) -> bool:
    """True for a NaN of this type."""
    magnitude = bits & ((1 << (8 * SIZES[dtype] - 1)) - 1)
    if dtype == "__e8m0":
        return bits == 0xFF
    if dtype == "__e4m3":
        return magnitude == 0x7F
    return dtype in MANTISSA and magnitude > (((1 << (8 * SIZES[dtype] - 1)) - 1) >> MANTISSA[dtype]) << MANTISSA[dtype]


def place_of(bits: int, dtype: str) -> int:
    """The place of a float among all of its type; zeros have one."""
    sign = 1 << (8 * SIZES[dtype] - 1)
    return -(bits & (sign - 1)) if bits & sign else bits


def is_right(bits: int, word: str, dtype: str, limit: int) -> bool:
    """True if a result is what the table says."""
    if word == "*":
        return True
    if word == "nan":
        return is_nan(bits, dtype)
    if word == "zero":
        return place_of(bits, dtype) == 0
    if limit == 0:
        return bits == int(word, 16)
    return not is_nan(bits, dtype) and abs(place_of(bits, dtype) - place_of(int(word, 16), dtype)) <= limit


def results_of(suite: Suite, name: str, group: Group, folder: Path) -> dict[str, list[int]] | None:
    """The results of a group's program; None where the run failed."""
    source, inputs, outputs = (folder / f"{name}{end}" for end in (".hir", ".in.safetensors", ".out.safetensors"))
    source.write_text(program_of(group))
    write_operands(inputs, group.operands)
    first = len(group.operands)
    command = [str(suite.tool), str(source), *FLAGS, "-q"]
    for k in range(first):
        command += ["--input", f"T{k}={inputs}:T{k}"]
    for k in range(len(group.rows)):
        command += ["--output", f"T{first + k}={outputs}:T{first + k}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 0:
        return read_results(outputs)
    print(f"FAILED pointwise {name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return None


def wrong_elements(group: Group, row: Row, found: Sequence[int]) -> list[str]:
    """A line for each element of a function that is not what the table says."""
    wrong = []
    for at, (bits, word) in enumerate(zip(found, row.words, strict=False)):
        if not is_right(bits, word, row.dtype, row.limit):
            of = ", ".join(operand.words[at] for operand in group.operands)
            wrong.append(f"  {row.expression} of ({of}): {bits:x}, not {word} (limit {row.limit})")
    return wrong


def run(suite: Suite) -> None:
    """Each group is a case."""
    elements = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, group in groups().items():
            got = results_of(suite, name, group, Path(folder))
            wrong = []
            for k, row in enumerate(group.rows if got else []):
                found = (got or {})[f"T{len(group.operands) + k}"]
                elements += len(found)
                wrong += wrong_elements(group, row, found)
            if wrong or got is None:
                suite.failed.append(f"pointwise {name}")
                print("\n".join([f"FAILED pointwise {name}: {len(wrong)} elements", *wrong[:20]]))
            else:
                suite.passed += 1
    print(f"pointwise: {elements} elements", flush=True)
