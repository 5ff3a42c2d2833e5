"""Sessions whose runs do not end: no thread of Python's stands still for them, and no fork touches them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Sessions on a caller's stream ask for this besides: the context of device 0. Weak, should the driver have it some day.
MORE = "__attribute__((weak)) int cuStreamGetCtx(void *stream, void **context) { (void)stream; *context = (void *)1; return 0; }"
DRIVER = Path(__file__).resolve().parents[2] / "tools" / "run" / "tests" / "needs" / "driver.c"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler: cc")


@pytest.mark.parametrize("case", ["ask", "drop", "abandon", "fork"])
def test_a_run_that_does_not_end(tmp_path, case):
    library = tmp_path / "libcuda.so.1"
    (tmp_path / "more.c").write_text(MORE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, DRIVER, tmp_path / "more.c"], check=True)
    shutil.copy(library, tmp_path / "libnvrtc.so.13")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOSTIR_CACHE": "0"}
    env |= {"LD_LIBRARY_PATH": str(tmp_path), "DRIVER_EVENTS": "0", "HOME": str(tmp_path)}
    command = [sys.executable, Path(__file__).parent / "stopped_gpu.py", case]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "right\n", done.stderr
