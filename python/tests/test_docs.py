"""The examples of docs/python.md run, in the order of the page."""

import os
import re
from importlib.util import find_spec

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


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


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_examples_with_torch(monkeypatch):
    blocks = [block for block in BLOCKS if "torch" in block]
    assert len(blocks) == 1
    run_blocks(blocks, monkeypatch)


def test_the_page_names_every_function():
    import hostir

    for name in hostir.__all__:
        if not name.startswith("__") and name not in {"Edit", "Label", "Diagnostic", "RULES_VERSION"}:
            assert f"`{name}" in PAGE or f"hostir.{name}" in PAGE, f"docs/python.md does not name {name}"
