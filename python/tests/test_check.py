"""Proofs, and fixes as data."""

import json
from pathlib import Path

import numpy
import pytest

import hostir


def test_a_right_program_is_proved(tutorial):
    verdict = hostir.check(hostir.load(tutorial / "6_ring.hir"))
    assert verdict.ok and bool(verdict)
    assert (verdict.outcome, verdict.errors, verdict.ranks) == ("proved", (), 4)
    assert verdict.sizes == {"p": 4, "m": 64, "k": 128, "n": 32}
    assert verdict.rules == hostir.RULES_VERSION
    assert verdict.raise_if_wrong() is verdict


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_one_text_is_proved_for_any_number_of_ranks(tutorial, ranks):
    ring = hostir.load(tutorial / "6_ring.hir")
    for verdict in [ring.check(devices=ranks), ring.check(sizes={"p": ranks})]:
        assert (verdict.outcome, verdict.ranks, verdict.sizes["p"]) == ("proved", ranks, ranks)
    assert "mesh d = 0..p" in str(ring)
    assert f"mesh d = 0..{ranks}" in str(ring.run_passes(f"resize-mesh{{devices={ranks}}}"))


def test_a_size_of_the_mesh_without_a_value(tutorial):
    ring = hostir.parse((tutorial / "6_ring.hir").read_text().replace("p=4, ", ""))
    assert ring.check(devices=2).ok
    with pytest.raises(hostir.HostIrError) as caught:
        ring.check()
    assert caught.value.code == "H0146" and "`devices=4`" in caught.value.notes[0]
    with pytest.raises(hostir.HostIrError) as caught:
        ring.run_passes("dce")
    assert caught.value.code == "H0146"


def test_a_race_is_refused_and_repaired(tutorial):
    program = hostir.load(tutorial / "race.hir")
    verdict = program.check()
    assert (verdict.ok, verdict.outcome) == (False, "refused")
    error = verdict.errors[0]
    assert (error.code, error.line) == ("H0701", 12)
    assert error.labels[0].line == 12
    with pytest.raises(hostir.HostIrError, match="race on G") as caught:
        verdict.raise_if_wrong()
    assert caught.value.fixes[0].is_machine_applicable
    repaired = hostir.apply_fixes(program.source, caught.value)
    assert repaired != program.source
    assert hostir.parse(repaired).check().ok
    assert hostir.apply_fixes(program.source, verdict.errors) == repaired
    # The same with other ends of lines.
    text = program.source.replace("\n", "\r\n")
    errors = hostir.parse(text).check().errors
    assert hostir.apply_fixes(text, errors) == repaired.replace("\n", "\r\n")


def test_a_deadlock_hangs(examples):
    verdict = hostir.load(examples / "deadlock.hir").check()
    assert verdict.outcome == "hangs"
    assert verdict.errors[0].code == "H0510"


def test_sizes_ranks_and_streams():
    program = hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n")
    with pytest.raises(hostir.HostIrError) as caught:
        program.check()
    assert caught.value.code == "H0401"
    verdict = program.check(sizes={"n": 6}, streams=2)
    assert (verdict.sizes, verdict.streams[0]) == ({"n": 6}, 2)
    assert program.check(shapes={"x": [3]}).sizes == {"n": 3}
    assert program.check(sizes={"*": 5}, devices=3).sizes == {"n": 5}
    assert program.check(sizes={"*": 5}, devices=3).ranks == 3


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"sizes": {"m": 1}}, "H0612"),
        ({"shapes": {"w": [1]}}, "H0611"),
        ({"sizes": {"n": 2}, "shapes": {"x": [3]}}, "H0402"),
    ],
)
def test_wrong_settings(settings, code):
    program = hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n")
    with pytest.raises(hostir.HostIrError) as caught:
        program.check(**settings)
    assert caught.value.code == code


N = numpy.int64(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": "2"}, "`devices` is '2', but needs a whole number from 0 to 4294967295"),
        ({"devices": -1}, "`devices` is -1, but"),
        ({"streams": 1.5}, "`streams` is 1.5, but"),
        ({"streams": 2**32}, "`streams` is 4294967296, but"),
        ({"sizes": [("n", 1)]}, "`sizes` is of type list, but needs a mapping by name"),
        ({"sizes": {"n": "8"}}, "`sizes[\"n\"]` is '8', but needs a number"),
        ({"sizes": {"n": None}}, '`sizes["n"]` is None, but needs a number'),
        ({"sizes": {"n": 2**63}}, '`sizes["n"]` is 9223372036854775808, but needs an integer of 64 bits'),
        ({"sizes": {"s": -(2**63) - 1}}, '`sizes["s"]` is -9223372036854775809, but needs an integer of 64 bits'),
        ({"sizes": {"*": 8.0}}, '`sizes["*"]` is 8.0, but an extent is an integer that is not negative'),
        ({"sizes": {"*": -1}}, '`sizes["*"]` is -1, but an extent is an integer that is not negative'),
        ({"shapes": [3]}, "`shapes` is of type list, but needs a mapping by name"),
        ({"shapes": {"x": 3}}, '`shapes["x"]` is 3, but needs a sequence of extents'),
        ({"shapes": {"x": "3"}}, "`shapes[\"x\"]` is '3', but needs a sequence of extents"),
        ({"shapes": {"x": (3.0,)}}, '`shapes["x"]` is (3.0,), of which axis 0 is no extent'),
        ({"shapes": {"x": (-3,)}}, '`shapes["x"]` is (-3,), of which axis 0 is no extent'),
        ({"timeout": -1}, "`timeout` is -1, but needs a number of seconds that is not negative"),
        ({"timeout": float("nan")}, "`timeout` is nan, but"),
        ({"timeout": "1"}, "`timeout` is '1', but"),
    ],
)
def test_malformed_settings(settings, message):
    program = hostir.parse("hir 2\nf(x: f32[n], s) -> (y: f32[n]):\n  y = x * s\n")
    with pytest.raises(hostir.HostIrError) as caught:
        program.check(**settings)
    assert caught.value.code == "H0610" and caught.value.message.startswith(message) and caught.value.notes


@pytest.mark.parametrize(
    "settings",
    [
        {"sizes": {"n": N}, "streams": N, "devices": numpy.uint8(1)},
        {"shapes": {"x": numpy.array([3])}, "timeout": float("inf")},
        {"shapes": {"x": (N,)}, "timeout": numpy.float32(9), "strict": numpy.bool_(True)},
    ],
)
def test_numbers_of_numpy_are_numbers(settings):
    program = hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n")
    assert program.check(**settings).sizes == {"n": 3}


def test_a_real_extent_is_shown_as_one():
    program = hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n")
    with pytest.raises(hostir.HostIrError) as caught:
        program.check(sizes={"n": 8.0})
    assert caught.value.message == '`sizes={"n": 8.0}`: an extent must be an integer'


def test_the_repair_of_an_open_shape_is_a_tuple():
    program = hostir.parse("hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  y = relu(x)\n")
    with pytest.raises(hostir.HostIrError) as caught:
        program.check()
    notes = " ".join(caught.value.notes)
    assert 'shapes={"x": (8,)}' in notes, notes


def test_a_size_for_all_comes_behind_those_of_the_text(tutorial):
    program = hostir.load(tutorial / "6_ring.hir")
    proposed = program.check().sizes
    assert program.check(sizes={"*": 2}).sizes == proposed
    assert program.check(sizes={"*": 2, "m": 4}).sizes == {**proposed, "m": 4}
    plain = hostir.parse("hir 2\nf(x: f32[m, n]) -> (y: f32[m, n]):\n  y = relu(x)\n")
    assert plain.check(sizes={"*": 2}).sizes == {"m": 2, "n": 2}


def test_strict_makes_warnings_errors():
    text = """\
%HostIrContainer { (T0_g_float[iS0{8}]) -> (T1_g_float[iS1{8}]) :
  GetCurrentStream into Stream 0
  SetCurrentStream to Stream 1
  T1_g_float[iS1{8}] = Set( T0_g_float[iS0{8}], cache_op=Streaming )
  SetCurrentStream to Stream 0
  Synchronize Stream 1
  Synchronize Stream 1
} // %HostIrContainer
"""
    program = hostir.parse(text)
    loose = program.check()
    assert loose.ok and len(loose.warnings) == 1
    strict = program.check(strict=True)
    assert not strict.ok and len(strict.errors) == 1 and strict.warnings == ()


def test_passes_before_a_check(examples):
    made = hostir.load(examples / "ag_matmul.hir").run_passes("host-ir-lower,check-program{devices=4}")
    assert made.pass_warnings == () or all(found.severity == "warning" for found in made.pass_warnings)


def test_timelines_need_no_gpu(tutorial, tmp_path):
    program = hostir.load(tutorial / "6_ring.hir")
    chart = hostir.timeline(program, tmp_path / "ring.json", devices=4, sizes={"m": 32})
    assert chart.startswith("timeline of 4 ranks") and "worked out by the model of h200x4" in chart
    names = {event.get("name") for event in json.loads((tmp_path / "ring.json").read_text())["traceEvents"]}
    assert any("matmul" in str(name) for name in names)
    assert hostir.timeline(program, streams=2) != chart
    assert program.timeline(devices=4, sizes={"m": 32}) == chart
    assert program.timeline(tmp_path / "ring.svg", shapes={"A": (4, 32, 128)}) == chart
    assert (tmp_path / "ring.svg").read_text().startswith("<svg")
    assert program.timeline(tmp_path / "ring.html", devices=4, sizes={"m": 32}) == chart
    assert (tmp_path / "ring.html").read_text().startswith("<!doctype html>")


def test_timelines_that_cannot_be(tutorial, tmp_path):
    program = hostir.load(tutorial / "6_ring.hir")
    with pytest.raises(hostir.HostIrError, match="a picture"):
        hostir.timeline(program, tmp_path / "ring.png")
    with pytest.raises(FileNotFoundError):
        hostir.timeline(program, tmp_path / "missing" / "ring.svg")
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.timeline(hostir.load(tutorial / "race.hir"))
    assert caught.value.code == "H0701"


def test_parts_that_contradict_each_other():
    """The shapes that `Op.timeline` takes the sizes from."""
    program = hostir.parse("hir 2\nf(A: f32[m, k], B: f32[k, n]) -> (C: f32[m, n]):\n  C = matmul(A, B)\n")
    assert hostir._native.sizes_of_parts(program._handle, [[3, 4], [4, 5]]) == {"m": 3, "k": 4, "n": 5}
    with pytest.raises(hostir.HostIrError) as caught:
        hostir._native.sizes_of_parts(program._handle, [[3, 4], [9, 5]])
    assert (caught.value.code, caught.value.message) == ("H0605", "args: the extent k is 4 in A, but 9 in B")


def test_too_few_devices_are_told_in_words_of_python(tutorial):
    text = (tutorial / "6_ring.hir").read_text().replace("0..p", "0..4")
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse(text).check(devices=2).raise_if_wrong()
    assert caught.value.code == "H0405" and caught.value.message.endswith(", but `devices` is 2")
    assert caught.value.notes == ("use `devices=4`",) and "--" not in str(caught.value)


STEP = """hir 2
mesh d = 0..2

step(x: f32[1000000]) -> (y: f32[1000000], z: f32[1000000]) on d:
  y = alloc
  z = alloc
  h = { send(x, to=1 - rank); recv(y, from=1 - rank) }
  wait h
  z = relu(x)
"""


def test_machines(tmp_path):
    round_figures = Path(__file__).parents[2] / "test" / "machines" / "round.toml"
    step = hostir.parse(STEP)
    # 4e6 bytes at 360 a nanosecond after 10 us, then 3 us and 8e6 bytes at 4e3 a nanosecond.
    assert "26.11 us" in step.timeline(machine=round_figures)
    assert "h100x2" in step.timeline(machine="h100x2")
    assert step.check(machine=round_figures).ok
    for wrong in ["h100", tmp_path / "none.toml"]:
        with pytest.raises(hostir.HostIrError):
            step.check(machine=wrong)
        with pytest.raises(hostir.HostIrError):
            step.run_passes("dce", machine=wrong)
    with pytest.raises(hostir.HostIrError, match="machine"):
        step.check(machine=4)
