"""Reading, printing, verifying and passes."""

import pickle
import re

import pytest

import hostir

PRINTED = """\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  T1_g_float[iS1{i0}]
     = relu(T0_g_float[iS0{i0}]);
} // %HostIrContainer
"""

PLAIN = """\
hir 2

f(x: f32[n]) -> (y: f32[n]):
  y = relu(x)
"""


def test_printed_text_comes_back_byte_for_byte():
    assert str(hostir.parse(PRINTED)) == PRINTED


def test_both_notations_of_one_program():
    program = hostir.parse(PLAIN)
    assert str(program) == PLAIN
    printed = program.to_printed()
    assert "= relu(" in printed
    assert hostir.parse(printed).to_hir2() == PLAIN
    assert len(hostir.parse(PRINTED).to_printed(short=True)) < len(PRINTED)


def test_names(tutorial):
    program = hostir.load(tutorial / "6_ring.hir")
    assert program.inputs == ["A", "B"]
    assert program.outputs == ["C"]
    assert program.sizes == ["p", "m", "k", "n"]
    assert "6_ring.hir: A, B -> C" in repr(program)


def test_programs_of_a_text(tutorial):
    path = tutorial / "6_ring.hir"
    ring, plain = hostir.parse_all(path.read_text())
    assert ring.sizes == plain.sizes == ["p", "m", "k", "n"]
    assert str(hostir.load(path, program="plain")) == str(plain)
    assert str(hostir.load(path, program=2)) == str(plain)
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.load(path, program="plane")
    assert caught.value.code == "H0632"
    with pytest.raises(hostir.HostIrError, match="contains 2 programs") as caught:
        hostir.parse(PRINTED + PRINTED)
    assert caught.value.code == "H0632"


def test_errors_of_a_text_are_reported_together():
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse("hir 2\nf(x: f32[4]) -> (y: f32[4]):\n  a = rleu(x)\n  y = exq(a)\n", "net.hir")
    error = caught.value
    assert [found.message for found in error.diagnostics if found.code == "H0101"] == [
        "there is no op, kernel or function `rleu`",
        "there is no op, kernel or function `exq`",
    ]
    assert (error.code, error.line, error.column) == ("H0101", 3, 7)
    assert "did you mean `relu`?" in error.notes
    assert "net.hir:3:7" in str(error)
    assert str(error.diagnostics[0]).startswith("net.hir:3:7: error[H0101]: there is no op")


def test_verify_raises_and_warns():
    wrong = hostir.parse("hir 2\nf(x: f32[4], z: f32[5]) -> (y: f32[4]):\n  y = x + z\n")
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.verify(wrong)
    assert caught.value.line == 3
    assert hostir.verify(hostir.parse(PLAIN)) == []


def test_passes_give_a_new_program():
    program = hostir.parse("hir 2\nf(x: f32[4]) -> (y: f32[4]):\n  a = exp(x)\n  y = relu(x)\n")
    smaller = hostir.run_passes(program, "canonicalize,dce")
    assert "exp" in str(program)
    assert "exp" not in str(smaller)
    assert str(program.run_passes("")) == str(program)


@pytest.mark.parametrize("name", ["gelu", "sgn", "fma"])
def test_functions_that_there_are_not_say_what_to_write(name):
    with pytest.raises(hostir.HostIrError, match=f"`{name}`") as caught:
        hostir.parse(PLAIN.replace("relu", name))
    (note,) = caught.value.notes
    assert re.search(r"`erf`|`where\(|`U = A \* B`", note) and not caught.value.fixes, note


@pytest.mark.parametrize("name", ["relo", "rlu", "reelu"])
def test_a_near_function_is_proposed_and_not_applied(name):
    text = PLAIN.replace("relu", name)
    assert text != PLAIN
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse(text)
    assert any("did you mean" in note for note in caught.value.notes)
    assert [fix.applicability for fix in caught.value.fixes] == ["MaybeIncorrect"]
    assert hostir.apply_fixes(text, caught.value) == text


@pytest.mark.parametrize(
    ("wrong", "right", "is_sure"),
    [
        ("f32[n] = Relu(x)", "f32[n] = relu(x)", True),
        ("float32[n] = relu(x)", "f32[n] = relu(x)", True),
        ("bf32[n] = relu(x)", "f32[n] = relu(x)", False),
        ("f32[n] = relu(gamma2)", "f32[n] = relu(gamma1)", False),
    ],
)
def test_other_capitals_make_no_other_word(wrong, right, is_sure):
    text = f"hir 2\nf(x: f32[n], gamma1: f32[n]) -> (y: f32[n]):\n  t: {wrong}\n  y = t + gamma1\n"
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse(text)
    assert hostir.apply_fixes(text, caught.value) == (text.replace(wrong, right) if is_sure else text)


def test_casts_are_told_in_the_form_of_the_text():
    text = "hir 2\nf(x: f32[4, n]) -> (y: f32[n]):\n  y = Set(x[sqrt(1)])\n"
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse(text).verify()
    assert "`i64(x)` converts a real" in caught.value.notes[0]


def test_lowering_is_hir_opts(examples):
    lowered = hostir.load(examples / "ag_matmul.hir").run_passes("host-ir-lower")
    assert "recv(" in str(lowered)
    assert lowered.check().ok


def test_errors_of_a_pipeline_are_about_its_text():
    program = hostir.parse(PLAIN)
    with pytest.raises(hostir.HostIrError) as caught:
        program.run_passes("canonicalize,dcee")
    assert (caught.value.code, caught.value.line, caught.value.column) == ("H0301", 1, 14)
    with pytest.raises(hostir.HostIrError) as caught:
        program.run_passes("resize-mesh{devices=0}")
    assert (caught.value.code, caught.value.column) == ("H0304", 21)
    assert caught.value.source == "resize-mesh{devices=0}"


def test_programs_pickle():
    again = pickle.loads(pickle.dumps(hostir.parse(PLAIN)))
    assert str(again) == PLAIN


def test_a_missing_file_is_pythons_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        hostir.load(tmp_path / "none.hir")


def test_files_that_are_no_texts(tmp_path):
    (tmp_path / "latin.hir").write_bytes("// größer\n".encode("latin-1"))
    with pytest.raises(hostir.HostIrError, match="latin.hir is not valid UTF-8, from byte 5 on") as caught:
        hostir.load(tmp_path / "latin.hir")
    assert caught.value.code == "H0019"
    for path in (b"a.hir", 0, None):
        with pytest.raises(hostir.HostIrError, match="`path` is of type") as caught:
            hostir.load(path)
        assert caught.value.code == "H0610"


def test_an_error_underlines_the_word_that_is_meant():
    text = "hir 2\nf(x: f32[n]) -> (y: f32[n]):\n  h: f32[n]\n  y = x + h\n"
    with pytest.raises(hostir.HostIrError) as caught:
        hostir.parse(text).verify()
    [found] = caught.value.diagnostics
    assert (found.line, found.column, text[found.start : found.end]) == (4, 11, "h")
    assert "\n4 │   y = x + h\n  │           ^\n" in str(caught.value)
