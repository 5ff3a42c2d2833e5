"""The summary of a step's kernels, of traces as torch's profiler writes them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
from bench.torch_baselines import step_kernels


def event(start: float, duration: float, name: str, category: str = "kernel") -> dict[str, Any]:
    return {"ph": "X", "cat": category, "ts": start, "dur": duration, "name": name, "args": {"stream": 7}}


STEP = [
    event(100, 10, "nvjet_sm90_tst_128x256"),
    event(112, 20, "Memcpy PtoP (Device -> Device)", "gpu_memcpy"),
    event(125, 5, "hir"),
    event(128, 40, "cudnn_generated_fort_native_sdpa_sm90_flash_fprop"),
    event(168, 2, "Memset (Unknown)", "gpu_memset"),
    event(180, 20, "triton_poi_fused_add_0"),
    event(205, 1, "at::native::roll_cuda_kernel"),
]
TRACE = [
    event(0, 50, "nvjet_of_the_step_before"),
    event(95, 1, "at::cuda::spin_kernel(long)"),
    {"ph": "X", "cat": "cpu_op", "ts": 100, "dur": 1, "name": "aten::mm"},
    *reversed(STEP),
]


def test_the_last_step_is_what_stands_behind_the_last_mark() -> None:
    found = step_kernels.last_step(TRACE)
    assert [kernel.name for kernel in found] == [event["name"] for event in STEP]
    assert [kernel.kind for kernel in found] == [
        "GEMMs",
        "copies between GPUs",
        "programs' kernels",
        "attention",
        "copies",
        "functions",
        "other",
    ]


def test_gaps_are_where_no_kernel_runs() -> None:
    assert step_kernels.gaps_of(step_kernels.last_step(TRACE)) == [15, 10, 5]
    assert step_kernels.gaps_of([]) == []


def test_a_summary_is_in_milliseconds() -> None:
    found = step_kernels.summary_of(step_kernels.last_step(TRACE))
    assert found["step"] == pytest.approx(0.106) and found["gaps"] == pytest.approx(0.030)
    assert found["gaps above 8 us"] == pytest.approx(0.025) and found["attention"] == pytest.approx(0.040)
    assert step_kernels.summary_of([]) == {}
    table = step_kernels.table_of_summaries({"programs graph": [found, {}]}).splitlines()
    head, first, second = (line.split("  ") for line in table)
    assert "".join(head).startswith("by the profiler, ms") and [len(line) for line in table] == [len(table[0])] * 3
    assert "programs graph" in first and "0.11" in table[1] and "0.00" in second[-1] and "0.11" not in table[2]
