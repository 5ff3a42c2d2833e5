"""vLLM's ring of pushes without an exit barrier: one call is right, two are a race, and the barrier repairs them."""

from pathlib import Path

import numpy
import pytest

import hostir

PROGRAMS = Path(__file__).parent / "programs"
BARRIER = """    stream 1:
      // The exit barrier: room for the next call's rows is given behind the last matmul.
      sync 0
"""


def test_one_call_is_the_product():
    program = hostir.load(PROGRAMS / "push_gather_matmul.hir")
    verdict = program.check()
    assert (verdict.outcome, verdict.ranks) == ("proved", 4)
    generator = numpy.random.default_rng(0)
    a = generator.integers(-3, 4, (4, 8, 6)).astype("float32")
    b = generator.integers(-3, 4, (6, 5)).astype("float32")
    numpy.testing.assert_array_equal(program.run({"A": a, "B": b})["C"], a @ b)


def test_two_calls_are_right_with_the_barrier():
    program = hostir.load(PROGRAMS / "push_twice.hir")
    assert program.check().ok
    generator = numpy.random.default_rng(1)
    a = generator.integers(-3, 4, (2, 4, 8, 6)).astype("float32")
    b = generator.integers(-3, 4, (6, 5)).astype("float32")
    numpy.testing.assert_array_equal(program.run({"A": a, "B": b})["C"], a @ b)


def test_two_calls_race_without_it():
    text = (PROGRAMS / "push_twice.hir").read_text()
    assert text.count(BARRIER) == 1
    program = hostir.parse(text.replace(BARRIER, ""))
    with pytest.raises(hostir.HostIrError) as caught:
        program.check().raise_if_wrong()
    error = caught.value
    assert error.code == "H0701"
    assert error.message == "race on G: `recv(G[s])` may write it while `C[call, at] = matmul` reads it"
    places = ["writes G on Stream 1 at call=1, s=0", "reads G on the caller's stream at call=0, s=0"]
    assert [label.text for label in error.labels] == places
    # The proposed fix gives each call rows of its own.
    repaired = hostir.parse(hostir.apply_fixes(program.source, error))
    assert "      G: f32[3, m, k] = alloc\n" in repaired.source and repaired.check().ok
    # The barrier is a repair, too: room is given after the matmuls of the call before.
    barrier = hostir.parse(program.source.replace("        h = recv", "        sync 0\n        h = recv"))
    assert barrier.check().ok


def test_the_page_has_the_programs_error(tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    text = (PROGRAMS / "push_twice.hir").read_text().replace(BARRIER, "")
    lines = hostir.parse(text).check().text.splitlines()
    for line in lines:
        if line.startswith("error") or "writes G" in line or "reads G" in line or "= both" in line or "= help" in line:
            assert line.rstrip() in page
