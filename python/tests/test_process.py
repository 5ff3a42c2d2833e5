"""The package as part of a process: commands, signals, what importing it brings."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import hostir

SCRIPTS = Path(sysconfig.get_path("scripts"))


def command(name: str, *args: object, **options: object) -> "subprocess.CompletedProcess[str]":
    path = SCRIPTS / name
    if not path.exists():
        pytest.skip(f"the command {name} is not installed: pip install ./python")
    return subprocess.run([path, *map(str, args)], capture_output=True, text=True, **options)


def test_hir_opt_is_a_command(examples):
    done = command("hir-opt", examples / "ag_matmul.hir", "--pass-pipeline=host-ir-lower")
    assert done.returncode == 0, done.stderr
    assert done.stdout == str(hostir.load(examples / "ag_matmul.hir").run_passes("host-ir-lower"))


def test_exit_statuses(examples):
    assert command("hir-opt", "--no-such-option").returncode == 2
    assert command("hir-opt", "missing.hir").returncode == 3
    assert command("hir-run", examples / "deadlock.hir", "--check-only").returncode == 5


def test_hir_run_is_a_command(tutorial):
    done = command("hir-run", tutorial / "6_ring.hir", "--backend=cpu", "--reference=:plain")
    assert done.returncode == 0, done.stderr
    assert "equal to the reference" in done.stdout


def test_hir_run_starts_processes_of_itself(tutorial):
    done = command("hir-run", tutorial / "6_ring.hir", "--backend=null", "--processes", "--devices=4")
    assert done.returncode == 0, done.stderr


def test_a_command_reads_standard_input(tutorial):
    text = (tutorial / "race.hir").read_text()
    done = command("hir-run", "-", "--check-only", "--error-format=json", input=text)
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[-1])["code"] == "H0701"


def test_generated_inputs_are_hir_runs(tutorial, tmp_path):
    path = tmp_path / "c.npy"
    done = command("hir-run", tutorial / "6_ring.hir", "--backend=cpu", "--seed=7", f"--output=C={path}")
    assert done.returncode == 0, done.stderr
    import numpy

    numpy.testing.assert_array_equal(numpy.load(path), hostir.load(tutorial / "6_ring.hir").run(seed=7)["C"])


def python(code: str, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


def test_import_brings_neither_torch_nor_numpy_nor_cuda():
    done = python(
        "import hostir, sys\n"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))\n"
        "print(sum('libcuda' in line or 'libtorch' in line for line in open('/proc/self/maps')))"
    )
    assert done.stdout.split() == ["[]", "0"], done.stderr


def test_nothing_is_written():
    done = python(
        "import hostir\n"
        "for text in ['x', 'hir 2\\nf(x: f32[n]) -> (y: f32[n]):\\n  y = relu(x)\\n']:\n"
        "    try:\n"
        "        hostir.parse(text).run(sizes={'n': 4})\n"
        "    except hostir.HostIrError as error:\n"
        "        pass\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_forked_processes_have_threads_of_their_own(tutorial):
    """A fork has none of the threads that its parent has started for work on several ranks."""
    code = (
        "import hostir, hostir._tools, os, sys\n"
        "p = hostir.load(sys.argv[1])\n"
        "p.check(); p.to_hir2(); p.run()\n"
        "child = os.fork()\n"
        "p.verify(); p.check(); p.run(); p.to_hir2(); p.run_passes('canonicalize')\n"
        "if child == 0:\n"
        "    grandchild = os.fork()\n"
        "    p.check(); p.run()\n"
        "    if grandchild != 0:\n"
        "        os.waitpid(grandchild, 0)\n"
        "    sys.argv = ['hir-run', sys.argv[1], '--check-only', '--quiet']\n"
        "    print('done', hostir._tools.hir_run(), flush=True); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", code, str(tutorial / "6_ring.hir")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert done.communicate(timeout=60)[0] == "done 0\ndone 0\n"
    finally:
        if done.returncode is None:
            os.killpg(done.pid, signal.SIGKILL)


@pytest.mark.parametrize("threads", [1, 2, 3, 200])
def test_few_threads_are_enough_or_an_error(tutorial, threads):
    """Where the system starts no more threads a call raises; it does not panic."""
    code = (
        "import hostir, hostir._tools, numpy, os, resource, sys\n"
        "text, threads = open(sys.argv[1]).read(), int(sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))\n"
        # Limits are those of a user, and root has none.
        "if os.getuid() == 0:\n"
        "    os.setgroups([]), os.setgid(54321), os.setuid(54321)\n"
        "def ran():\n"
        "    hostir.parse(text).run()\n"
        "def proved():\n"
        "    assert hostir.parse(text).check()\n"
        "for call in ran, proved, ran:\n"
        "    try:\n"
        "        call()\n"
        "        print('done')\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
    )
    arguments = [sys.executable, "-c", code, str(tutorial / "6_ring.hir"), str(threads)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines), done.stderr) == (0, 3, "")
    failures = [line for line in lines if line != "done"]
    assert all(line.startswith("cannot start a thread: ") for line in failures)
    if os.getuid() == 0 and threads in (1, 200):
        assert len(failures) == (3 if threads == 1 else 0)


def test_control_c_interrupts_a_run():
    # Whoever starts the tests may ignore the signal.
    code = (
        "import hostir, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "p = hostir.parse('hir 2\\nf(x: f64[n, n]) -> (y: f64[n, n]):\\n  y = matmul(x, x)\\n')\n"
        "try:\n"
        "    print('begin', flush=True)\n"
        "    p.run({'x': 'ones'}, sizes={'n': 6000})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "    import os; os._exit(0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begin\n"
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert time.monotonic() - began < 2
    process.wait()


def test_the_package_is_typed():
    folder = Path(hostir.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()
    stub = (folder / "_native.pyi").read_text()
    for name in dir(hostir._native):
        if not name.startswith("_"):
            assert name in stub, f"{name} is not in the stub"
    assert os.access(hostir._native.__file__, os.R_OK)


def test_a_mapped_library_is_found_by_its_name():
    torch = pytest.importorskip("torch")
    from hostir.torch._libraries import mapped_library

    assert mapped_library("libtorch_cpu.so") == str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")
    assert mapped_library("libnothing.so") is None
