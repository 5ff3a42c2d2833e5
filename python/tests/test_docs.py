"""The examples of the pages about Python run, and print what the pages say.

A page's blocks of Python run in the order of the page. A block of `text` after one is what it prints. With HIR_BLESS=1 the
pages get what was printed; read the difference.
"""

import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import ROOT
from page_runner import MARK

DOCS = ROOT / "docs"
PAGE = (DOCS / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
# A block of Python, and what it prints if the page says so.
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
RUNNER = Path(__file__).with_name("page_runner.py")

# Names of regions are hashes of programs, and these of graphs, which differ between versions of torch.
needs_new_torch = pytest.mark.skipif(
    find_spec("torch") is None or version("torch").startswith("2.9."), reason="pages show what newer versions of torch make"
)
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


def run_blocks(blocks, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {"__name__": "page"}
    for block in blocks:
        # Ops read annotations and the place of a function from its source.
        exec(compile(block, os.path.join(ROOT, "page.py"), "exec"), names)
    return names


def test_examples_without_torch(monkeypatch, capsys):
    blocks = [block for block in BLOCKS if "torch" not in block]
    assert len(blocks) == 3
    names = run_blocks(blocks, monkeypatch)
    printed = capsys.readouterr().out
    assert "race on G" in printed and str(names["lowered"]) in printed


@needs_torch
def test_examples_with_torch(monkeypatch):
    # Others go on from them, on a GPU, or stand for a user's model.
    blocks = [block for block in BLOCKS if "import torch" in block]
    assert len(blocks) == 1
    run_blocks(blocks, monkeypatch)


def printed_blocks(path, folder, ranks):
    """The output of each block of a page on rank 0, of so many processes that torchrun starts."""
    blocks = [code for code, _ in EXAMPLE.findall(path.read_text())]
    script = folder / "block.py"
    script.write_text("".join(blocks))
    ends = [sum(block.count("\n") for block in blocks[: at + 1]) for at in range(len(blocks))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "", "ROOT": str(ROOT)}
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}", "--standalone"] if ranks > 1 else []
    command = [sys.executable, *launcher, str(RUNNER), str(script), *map(str, ends)]
    printed = run_bounded(command, folder, environment).split(f"{MARK}\n")
    assert len(printed) == len(blocks) + 1
    return printed[:-1]


def run_bounded(command, folder, environment):
    """The output of a command; everything that it started ends with it."""
    files = [folder / name for name in ("stdout", "stderr")]
    with files[0].open("w") as out, files[1].open("w") as err:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True)
    try:
        status = process.wait(240)
    except subprocess.TimeoutExpired:
        status = "no end"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    printed, said = (file.read_text() for file in files)
    assert status == 0, f"{status}\n{printed}\n{said[-6000:]}"
    return printed


def with_outputs(page, printed):
    """The page with what was printed in the place of what it says."""
    outputs = iter(printed)

    def replace(found):
        text = next(outputs)
        told = found.group(2)
        if told is None:
            assert not text.strip(), f"a block prints what the page does not show:\n{text}"
            return found.group(0)
        return found.group(0).replace(f"```text\n{told}```", f"```text\n{text.strip()}\n```")

    return EXAMPLE.sub(replace, page)


@needs_new_torch
@pytest.mark.parametrize(("name", "ranks"), [("torch_tutorial.md", 2), ("kernels.md", 1)])
def test_pages_show_what_their_blocks_print(name, ranks, tmp_path):
    path = DOCS / name
    page = path.read_text()
    made = with_outputs(page, printed_blocks(path, tmp_path, ranks))
    if os.environ.get("HIR_BLESS"):
        path.write_text(made)
    else:
        assert made == page


def test_the_readme_shows_what_the_tutorial_prints():
    report = re.search(r"^```text\n(graph 0: .*?)```", (DOCS / "torch_tutorial.md").read_text(), re.DOTALL | re.MULTILINE)
    # README has the first graph.
    first = report.group(1).partition("graph 1:")[0]
    assert f"```\n{first}```" in (ROOT / "README.md").read_text()


@needs_torch
def test_the_page_has_every_reason():
    from hostir.torch import Reason

    table = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert table == [(reason.name, reason.value) for reason in Reason]


def test_the_pipeline_of_the_page_runs():
    import hostir

    pipeline = re.search(r'`hir-opt --pass-pipeline`: `"(.*?)"`', PAGE).group(1)
    plain = hostir.load(ROOT / "docs/examples/ag_matmul.hir")
    assert "chunk" in pipeline and "view(x)" in str(plain.run_passes(pipeline))


def test_the_page_tells_which_functions_are_methods():
    import hostir

    table = re.search(r"^\| function \| does \|\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE).group(1)
    names = set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE))
    assert names - {"parse", "parse_all", "load", "apply_fixes"} == names & set(dir(hostir.Program)) != set()


def test_the_page_names_every_function():
    import hostir

    for name in hostir.__all__:
        if not name.startswith("__") and name not in {"Edit", "Label", "Diagnostic", "RULES_VERSION"}:
            assert f"`{name}" in PAGE or f"hostir.{name}" in PAGE, f"docs/python.md does not name {name}"
