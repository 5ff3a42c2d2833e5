"""Ops that are copied, and ops that are pickled: for the same process, and for one that has to import them."""

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import hostir.torch as hir  # noqa: E402
import picklable  # noqa: E402


@pytest.mark.parametrize("made", [picklable.matmul, picklable.Held.product, picklable.other_name])
def test_an_op_is_pickled_by_where_it_is(made):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) is made
    assert copy.copy(made) is made and copy.deepcopy([made])[0] is made


def test_modules_with_ops():
    layer, x = picklable.Layer(), torch.ones(3, 4)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]:
        assert other.product is picklable.matmul and other.weight is not layer.weight
        assert torch.equal(other(x), layer(x))


def test_another_process():
    code = "import pickle, sys, torch; op = pickle.load(sys.stdin.buffer); print(op(torch.ones(3, 4), torch.ones(4, 5)).sum())"
    paths = [str(Path(hir.__file__).parents[2]), str(Path(__file__).parent)]
    code = f"import sys; sys.path[:0] = {paths}; {code}"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(picklable.matmul), capture_output=True, check=True)
    assert done.stdout == b"tensor(60.)\n"


def make_local():
    @hir.op("hostir_picklable::local", program=picklable.matmul.program, args={"x": "x", "w": "w"}, out="y")
    def local(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    return local


def test_an_op_that_no_import_finds():
    local = make_local()
    assert copy.deepcopy(local) is local
    with pytest.raises(pickle.PicklingError, match="hostir_picklable::local cannot be pickled.*level of a module"):
        pickle.dumps(local)


@pytest.mark.parametrize("gone", ["nothing", "plain"])
def test_an_op_that_is_gone(monkeypatch, gone):
    data = pickle.dumps(picklable.matmul)
    if gone == "nothing":
        monkeypatch.delattr(picklable, "matmul")
    else:
        monkeypatch.setattr(picklable, "matmul", picklable.plain)
    with pytest.raises(pickle.UnpicklingError, match="hostir_picklable::matmul is not in `picklable.matmul`"):
        pickle.loads(data)


def test_a_module_that_is_gone(monkeypatch):
    data = pickle.dumps(picklable.matmul)
    monkeypatch.delitem(sys.modules, "picklable")
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(pickle.UnpicklingError, match="hostir_picklable::matmul is not in `picklable.matmul`.*No module named"):
        pickle.loads(data)
