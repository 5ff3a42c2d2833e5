"""The harm that other users, other folders and odd texts can do to a process that uses the package."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hostir
from hostir import _native

DOUBLE = "hir 2\ndouble(x: f32[4, 6]) -> (y: f32[4, 6]):\n  y = x + x\n"


@pytest.mark.parametrize("name", ["hostir", "signal", "subprocess", "importlib"])
def test_a_timeline_runs_no_module_of_the_current_folder(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{name}.py").write_text("raise SystemExit('code of the current folder')\n")
    script = tmp_path / "script.py"
    script.write_text(f"import hostir\nprint(hostir.timeline(hostir.parse({DOUBLE!r})))\n")
    done = subprocess.run([sys.executable, script], cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "rank" in done.stdout and "current folder" not in done.stdout, done.stderr


def test_a_timeline_joins_no_run_of_a_launcher(tmp_path, monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "HIR_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "HIR_WORLD"):
        monkeypatch.setenv(name, "2")
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29511")):
        monkeypatch.setenv(name, value)
    began = time.monotonic()
    picture = tmp_path / "picture.svg"
    assert "rank" in hostir.timeline(hostir.parse(DOUBLE), picture)
    assert picture.read_text().startswith("<svg") or "<svg" in picture.read_text()
    assert time.monotonic() - began < 30


def test_axes_of_one_element_are_split_in_no_time():
    """There are many ways to give so many axes of extent 1 to half as many."""
    ones = ", ".join(["1"] * 40)
    program = hostir.parse(f"hir 2\np(x: f32[{ones}]) -> (y: f32[{ones}]):\n  y = x + x\n")
    began = time.monotonic()
    with pytest.raises(hostir.HostIrError, match="has the axes"):
        _native.sizes_of_parts(program._handle, [[1] * 20 + [2]])
    assert time.monotonic() - began < 5
    assert _native.sizes_of_parts(program._handle, [[1] * 20]) == {}


def test_axes_that_are_one_of_the_callers():
    program = hostir.parse("hir 2\np(x: f32[2, 1, 3, m, k]) -> (y: f32[2, 1, 3, m, k]):\n  y = x + x\n")
    for shape, sizes in {
        (2, 1, 3, 4, 5): {"m": 4, "k": 5},
        (24, 5): {"m": 4, "k": 5},
        (2, 12, 5): {"m": 4, "k": 5},
        (6, 4, 5): {"m": 4, "k": 5},
    }.items():
        assert _native.sizes_of_parts(program._handle, [list(shape)]) == sizes, shape
    for wrong in [(25, 5), (2, 13, 5), (24,), (2, 1, 3, 4, 5, 6)]:
        with pytest.raises(hostir.HostIrError, match="has the axes"):
            _native.sizes_of_parts(program._handle, [list(wrong)])


def test_extents_whose_product_is_no_number():
    large = 1 << 62
    empty = hostir.Tensor.from_bytes("float32", [0, large, large], b"")
    assert empty.shape == [0, large, large]
    empty.__dlpack__()
    empty.__dlpack__(max_version=(1, 0))
    program = hostir.parse("hir 2\np(x: f32[a, b, c]) -> (y: f32[a, b, c]):\n  y = x + x\n")
    assert _native.sizes_of_parts(program._handle, [[0, large, large]]) == {"a": 0, "b": large, "c": large}


def test_a_text_is_written_from_a_small_stack():
    """A thread may have 64 KiB, a tenth of which Python takes; a text may be as deep as the language permits."""
    loops = "".join(f"{'  ' * (at + 1)}for i{at} in 1:\n" for at in range(100))
    text = f"hir 2\np(x: f32[4]) -> (y: f32[4]):\n  y = alloc\n{loops}{'  ' * 101}y = x + x\n"
    deep = "(" * 60 + "n" + " + 1)" * 60
    programs = [hostir.parse(text), hostir.parse(f"hir 2\nsizes n=4\np(x: f32[{deep}]) -> (y: f32[{deep}]):\n  y = x + x\n")]
    wanted = [(program.to_hir2(), program.to_printed()) for program in programs]
    found = []
    before = threading.stack_size(64 << 10)
    try:
        writer = threading.Thread(target=lambda: found.extend((one.to_hir2(), one.to_printed()) for one in programs))
        writer.start()
        writer.join()
    finally:
        threading.stack_size(before)
    assert found == wanted


@pytest.mark.parametrize("wrong", [True, False])
def test_true_is_no_number(wrong):
    program = hostir.parse(DOUBLE)
    for call in (
        lambda: program.check(devices=wrong),
        lambda: program.check(streams=wrong),
        lambda: program.run(seed=wrong),
        lambda: program.check(timeout=wrong),
        lambda: program.check(shapes={"x": (4, wrong)}),
    ):
        with pytest.raises(hostir.HostIrError, match=str(wrong)) as caught:
            call()
        assert caught.value.code == "H0610"


def test_saved_programs_follow_no_link(tmp_path):
    pytest.importorskip("torch")
    from hostir.torch._overlap.report import Report

    class Made:
        plain = lowered = hostir.parse(DOUBLE)

    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in ("region_3f2a91c0.hir", "region_3f2a91c0.lowered.hir"):
        (folder / name).symlink_to(victim)
    report = Report(programs={"region_3f2a91c0": Made})
    for _ in range(2):
        written = report.save(folder)
        assert victim.read_text() == "precious\n"
        assert [path.is_symlink() for path in written] == [False, False]
        assert all(hostir.load(path).to_hir2() == Made.plain.to_hir2() for path in written)
        assert sorted(folder.iterdir()) == sorted(written)


def test_folders_of_kept_times_are_the_users_alone(tmp_path):
    pytest.importorskip("torch")
    from hostir.torch._overlap.choices import ChoiceStore
    from hostir.torch._overlap.times import Times

    before = os.umask(0)
    try:
        store = ChoiceStore(tmp_path / "cache" / "hostir" / "choices")
        store.write("key", Times.of_ranks([[[2.0] * 5, [1.0] * 5]]))
    finally:
        os.umask(before)
    assert store.read("key") is not None
    for folder in (store.folder, store.folder.parent, store.folder.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700, folder


def test_the_wheel_says_under_which_licences_what_it_links_is():
    import shutil

    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import third_party_notices as tool

    packages = tool.linked_packages(
        tool.read_metadata("x86_64-unknown-linux-gnu", Path(__file__).resolve().parents[1] / "Cargo.toml")
    )
    names = {package["name"] for package in packages}
    # Linked; a macro, a build script's helper, and this repository's own are not.
    assert {"pyo3", "rayon", "snow", "libmimalloc-sys"} <= names
    assert not names & {"syn", "pyo3-macros", "cc", "hostir", "hostir-run"}
    text = tool.notices(packages)
    for package in packages:
        assert f"\n{package['name']} {package['version']}: {package['license']}\n" in text
    assert "Microsoft Corporation" in text, "of mimalloc's C code"
