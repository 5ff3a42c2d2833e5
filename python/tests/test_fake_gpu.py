"""Sessions on stand-ins for a GPU: runs at new addresses, and compiled kernels that are kept between processes."""

import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnccl.so.2"]
RELU, CEIL = "[1.0, 0.0, 3.0, 0.0]", "[1.0, -2.0, 3.0, -4.0]"


def stand_in():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / folder / "libhostir_fakes.so" for folder in ("debug", "debug/deps", "release", "release/deps")]
    return next((file for file in built if file.exists()), None)


pytestmark = pytest.mark.skipif(stand_in() is None, reason="libhostir_fakes.so is not built: cargo build -p hostir-fakes")


@pytest.fixture
def run(tmp_path):
    """Runs the session in a process with these variables, and gives what it prints."""
    libraries = tmp_path / "lib"
    libraries.mkdir()
    for name in NAMES:
        (libraries / name).symlink_to(stand_in())

    def run_process(**variables):
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HIR_FAKE_DEVICES": "1"}
        env |= {"LD_LIBRARY_PATH": str(libraries), "HOME": str(tmp_path)} | variables
        command = [sys.executable, str(Path(__file__).parent / "fake_gpu.py")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_process


def entries(folder):
    return sorted((folder / "kernels").iterdir())


def test_kernels_are_kept_between_processes(run, tmp_path):
    cache = tmp_path / "cache"
    assert run(HOSTIR_CACHE=str(cache)).strip() == RELU
    (entry,) = entries(cache)
    assert (entry.stat().st_mode & 0o777, entry.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    # What is kept is what runs: here, under the same key, a whole entry of another kernel.
    whole = entry.read_bytes()
    image = whole[120:].replace(b" Relu ", b" Ceil ")
    assert image != whole[120:]
    entry.write_bytes(whole[:80] + struct.pack("<Q", len(image)) + hashlib.sha256(image).digest() + image)
    assert run(HOSTIR_CACHE=str(cache)).strip() == CEIL
    assert entries(cache) == [entry]


def test_damaged_entries_are_compiled_again(run, tmp_path):
    cache = tmp_path / "cache"
    run(HOSTIR_CACHE=str(cache))
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    results, *warnings = run(HOSTIR_CACHE=str(cache)).splitlines()
    assert results == RELU and "H0657" in warnings[0] and "it is damaged" in warnings[0]
    assert entry.read_bytes() == whole
    assert run(HOSTIR_CACHE=str(cache)).strip() == RELU


def test_a_folder_that_others_may_write_is_left_alone(run, tmp_path):
    cache = tmp_path / "cache"
    run(HOSTIR_CACHE=str(cache))
    (cache / "kernels").chmod(0o777)
    assert "others may write to it" in run(HOSTIR_CACHE=str(cache))


def test_the_users_folder_and_none(run, tmp_path):
    assert run(HOSTIR_CACHE="0").strip() == RELU
    assert not (tmp_path / ".cache").exists()
    run()
    assert len(entries(tmp_path / ".cache" / "hostir")) == 1
    run(XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert len(entries(tmp_path / "xdg" / "hostir")) == 1
