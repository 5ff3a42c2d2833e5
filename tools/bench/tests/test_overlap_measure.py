"""The tool that measures, with hir-run on the CPU or on stand-ins for GPUs, and with a stand-in for torch."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from bench.overlap import bars, cases, paired_ratios as paired, rows
from bench.overlap.hir_tools import HirTools
from bench.overlap.measure import OverlapBench
from bench.overlap.options import Options
from bench.overlap.processes import Clock
from bench.overlap.rows import Row
from bench.overlap.torch_side import TorchProcesses
from bench.paths import target_folder
from bench.tests.simulation import TORCH_STAND_IN

LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnccl.so.2")


def options_of(hir_run: str, **changes: object) -> Options:
    """Three turns of two runs, as calls on the CPU."""
    options = Options(hir_run=hir_run, backend="cpu", graphs=False, alternations=3, iters=2, warmup=1, python=sys.executable)
    vars(options).update(changes)
    return options


def bench_of(options: Options, folder: Path, devices: int = 2) -> OverlapBench:
    """The tool, with a stand-in for torch."""
    clock = Clock(120)
    bench = OverlapBench(options, HirTools(options, folder, clock), clock, devices)
    script = folder / "stand_in.py"
    script.write_text(TORCH_STAND_IN)
    bench.torch = TorchProcesses(options, folder, clock, devices, [str(script)])
    return bench


def test_ways_that_fail_leave_the_others(hir_run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is measured as on GPUs: turns of both sides, ways that fail by themselves or take torch with them."""
    bench = bench_of(options_of(hir_run, json=str(tmp_path / "out.json")), tmp_path)
    monkeypatch.setitem(rows.ROWS, "tiny", Row("rs", "bfloat", 8, 8, 8))
    bad = bench.tools.write("tiny/broken", "hir 2\n\nno program\n")
    bench.files["tiny"] = {**cases.build(bench.tools, "tiny", 2, False), "broken": bad}
    try:
        bench.all(["tiny"])
    finally:
        bench.torch.stop()
    row = json.loads((tmp_path / "out.json").read_text())["rows"]["tiny"]
    (series,) = row["series"]
    ours = ["p2p", "p2p-cuda", "accumulate", "direct", "serial", "gemm", "gemm-parts", "comm"]
    assert sorted(series["turns"]) == sorted([*ours, "torch-serial"])
    assert all([len(runs) for runs in turns] == [2, 2, 2] for turns in series["turns"].values())
    assert series["turns"]["torch-serial"] == [[1.5, 1.5]] * 3
    assert sorted(note.split(":")[0] for note in row["notes"]) == ["broken", "ends", "flashinfer"]
    assert len(paired.ratios(row, ["torch-serial"], ["serial"])) == 3
    # A peer that nobody asked for is left out without being a failure.
    assert len(bench.report["failed"]) == 2


def test_what_was_measured_stays_when_the_time_is_up(hir_run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(options_of(hir_run, torch=False, alternations=100000), tmp_path)
    monkeypatch.setitem(rows.ROWS, "brief", Row("ag", "bfloat", 8, 8, 8))
    bench.files["brief"] = cases.build(bench.tools, "brief", 2, False)
    # A step needs 5 seconds that are left.
    bench.clock.end = bench.tools.clock.end = time.monotonic() + 6.5
    bench.round("brief")
    row = bench.report["rows"]["brief"]
    assert row["series"][0]["turns"]["serial"]
    assert any("the time was up" in note for note in row["notes"])


@pytest.mark.parametrize("kind", rows.KINDS)
@pytest.mark.parametrize(("devices", "share"), [(2, None), (3, 3)], ids=["a GPU each", "one GPU"])
def test_all_ways_run_on_stand_ins_for_gpus(
    hir_run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, devices: int, share: int | None
) -> None:
    """Every way of a small row runs on the CUDA backend: as calls and, with a GPU for each rank, as a graph."""
    library = target_folder() / "debug/deps/libhostir_fakes.so"
    if not library.exists():
        pytest.skip("test/fakes is not built: cargo test -p hostir-test --no-run")
    for name in LIBRARIES:
        (tmp_path / name).symlink_to(library)
    options = options_of(hir_run, backend="cuda", share=share, graphs=not share, torch=False)
    bench = bench_of(options, tmp_path, devices)
    bench.tools.environment.update({"LD_LIBRARY_PATH": str(tmp_path), "HIR_FAKE_DEVICES": str(1 if share else devices)})
    edge = 16 * devices
    monkeypatch.setitem(rows.ROWS, "small", Row(kind, "e4m3" if kind.startswith("scaled") else "bfloat", edge, edge, edge))
    files = bench.files["small"] = cases.build(bench.tools, "small", devices, False)
    bench.round("small")
    assert bench.report["failed"] == []
    row = bench.report["rows"]["small"]
    suffixes = ("",) if share else ("", "-graph")
    assert [list(series["turns"]) for series in row["series"]] == [[way + suffix for way in files] for suffix in suffixes]
    for way in paired.ways(row):
        assert len(paired.runs(row, way)) == options.alternations * options.iters
        assert way in row["issue_us"]
    ours = bars.best(paired.medians(row), bars.is_ours)
    assert ours is not None
    assert bars.gap(row, ours) is not None
