"""`tools/benchmark` and the programs of its generators."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest

from bench import cli
from bench.generators import annotated, flat, pipelined, templates
from bench.overlap.hir_tools import HirTools


@pytest.mark.parametrize("name", cli.BENCHMARKS)
def test_benchmark_has_a_module(name: str) -> None:
    assert find_spec(cli.BENCHMARKS[name].module) is not None


def test_unknown_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["speed"]) == 2
    assert "there is no benchmark `speed`; there are cpu, gpu" in capsys.readouterr().err


def test_generated_programs_are_valid(tools: HirTools) -> None:
    """hir-opt reads and verifies them; programs are as long as asked for."""
    out = io.StringIO()
    size = pipelined.write_program(out, ops=100)
    assert 100 <= size.ops < 100 + pipelined.OPS_PER_LOOP
    texts = {"pipelined": out.getvalue()}
    texts |= {f"annotated-{kind}": write(40) for kind, write in annotated.KINDS.items()}
    texts |= {"flat": flat.host_program(40, short=False), "short": flat.host_program(40, short=True)}
    for name in templates.NAMES:
        out = io.StringIO()
        templates.write_program(out, name, 1000)
        texts[f"template-{name}"] = out.getvalue()
    for name, text in texts.items():
        tools.call([tools.opt, tools.write(name, text), "-o", "/dev/null"])
