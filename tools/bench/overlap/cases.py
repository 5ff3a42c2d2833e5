"""The programs of a row of tools/overlap-bench as files: its ways, and its product and its communication alone."""

from __future__ import annotations

from pathlib import Path

from bench.overlap import blocks, programs, rows
from bench.overlap.hir_tools import HirTools
from bench.overlap.rows import Row, Way


def whole_text(row: Row, devices: int, way: Way) -> str:
    """A row's program for one of its ways, in front of the lowering."""
    streams = devices if way.each else 2
    sizes = (row.m, row.k, row.n)
    if row.kind == "ag":
        return programs.allgather_matmul(devices, row.dtype, *sizes, way.parts)
    if row.kind == "rs":
        return programs.matmul_reduce_scatter(devices, row.dtype, *sizes, way.parts)
    if row.kind.startswith("scaled"):
        scaled = blocks.scaled_allgather if row.kind == "scaled-ag" else blocks.scaled_reduce_scatter
        return scaled(devices, *sizes, streams)
    if row.kind == "training":
        variant = "serial" if way.lowering == "host-ir-lower" else "parts"
        return blocks.training(devices, row.dtype, *sizes, streams, variant)
    make = {"ar": blocks.matmul_allreduce, "mlp": blocks.mlp}[row.kind]
    return make(devices, row.dtype, *sizes, streams)


def plain_text(row: Row, devices: int, text: str) -> str:
    """A row's program as plain math; `text` is the program in front of its lowering."""
    if row.kind == "training":
        return blocks.training(devices, row.dtype, row.m, row.k, row.n, variant="plain")
    return text


def alone_texts(row: Row, devices: int) -> dict[str, str]:
    """The references of a row: the product, whole and in parts, and the communication over NCCL."""
    m, k, n = row.m, row.k, row.n
    sharded = row.kind not in ("ag", "scaled-ag")
    if row.kind in ("mlp", "training"):
        times = 2 if row.kind == "training" else 1
        return {
            "gemm": blocks.block_products(devices, row.dtype, m, k, n, False, times == 2),
            "gemm-parts": blocks.block_products(devices, row.dtype, m, k, n, True, times == 2),
            "comm": blocks.block_communication(devices, row.dtype, m, k, times),
        }
    if row.kind.startswith("scaled"):
        found = {"gemm": False, "gemm-parts": True}
        texts = {name: blocks.scaled_products(devices, m, k, n, sharded, parts) for name, parts in found.items()}
        return {**texts, "comm": blocks.scaled_communication(devices, m, k, n, sharded)}
    moved = {"ag": programs.allgather, "rs": programs.reduce_scatter, "ar": programs.allreduce}[row.kind]
    shape = {"ag": [m // devices, k], "rs": [m // devices, n], "ar": [m, n]}[row.kind]
    return {
        "gemm": programs.gemm(devices, row.dtype, m, k, n, sharded),
        "gemm-parts": blocks.product_parts(devices, row.dtype, m, k, n, sharded),
        "comm": moved(devices, row.dtype, shape, "NCCL"),
    }


def build(tools: HirTools, name: str, devices: int, more: bool) -> dict[str, Path]:
    """The files of a row's programs, by way: ours first, then the product and the communication alone."""
    row = rows.ROWS[name]
    files: dict[str, Path] = {}
    for way, how in rows.ways(row.kind, more).items():
        files[way] = tools.lowered(f"{name}-{devices}/{way}", whole_text(row, devices, how), how.lowering)
    for way, text in alone_texts(row, devices).items():
        files[way] = tools.write(f"{name}-{devices}/{way}", text)
    return files


def inputs(kind: str) -> list[str]:
    """Data of a row's programs: the left factor uniform, and scales, which are positive."""
    uniform = ["0", "2", "3"] if kind.startswith("scaled") else ["0"]
    return [word for place in uniform for word in ("--input", f"{place}=uniform")]
