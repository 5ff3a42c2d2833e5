"""Runs on the CPU: numpy arrays, DLPack, generated inputs. Expected numbers are numpy's."""

import ctypes
import pickle
import threading
from copy import copy as shallow_copy, deepcopy

import numpy
import pytest

import hostir


def relu(dtype: str, n: str = "n") -> hostir.Program:
    return hostir.parse(f"hir 2\nf(x: {dtype}[{n}]) -> (y: {dtype}[{n}]):\n  y = relu(x)\n")


def copy(dtype: str, shape: str = "n") -> hostir.Program:
    return hostir.parse(f"hir 2\nf(x: {dtype}[{shape}]) -> (y: {dtype}[{shape}]):\n  y = Set(x)\n")


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_a_ring_is_a_matmul(tutorial, ranks):
    random = numpy.random.default_rng(0)
    a = random.standard_normal((ranks, 16, 24)).astype(numpy.float32)
    b = random.standard_normal((24, 8)).astype(numpy.float32)
    ring = hostir.load(tutorial / "6_ring.hir")
    outputs = hostir.run(ring, {"A": a, "B": b}, devices=ranks, sizes={"m": 16, "k": 24, "n": 8})
    numpy.testing.assert_allclose(outputs["C"], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("key", ["x", "T0", "0", 0])
def test_inputs_by_name_number_and_position(key):
    x = numpy.array([1, -2, 3], numpy.float32)
    assert relu("f32").run({key: x})["y"].tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        (numpy.float64, "f64"),
        (numpy.float32, "f32"),
        (numpy.float16, "f16"),
        (numpy.int64, "i64"),
        (numpy.int32, "i32"),
        (numpy.bool_, "bool"),
    ],
)
def test_element_types(dtype, word):
    x = numpy.array([0, 1, 1, 0, 1]).astype(dtype)
    y = copy(word).run({"x": x})["y"]
    assert y.dtype == dtype
    assert y.tolist() == x.tolist()


def test_layouts_of_numpy():
    program = copy("f32", "m, n")
    x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    readonly = x.copy()
    readonly.flags.writeable = False
    for view in [x, x.T, x[::-1], x[:, ::2], readonly, x.astype(">f4"), numpy.broadcast_to(x[:1], (3, 4))]:
        y = program.run({"x": view})["y"]
        numpy.testing.assert_array_equal(y, view)
        assert y.flags.writeable and y.flags.c_contiguous


def test_empty_and_scalar_tensors():
    assert copy("f32", "m, n").run({"x": numpy.zeros((0, 3), numpy.float32)})["y"].shape == (0, 3)
    program = hostir.parse("hir 2\nf(x: f32[]) -> (y: f32[]):\n  y = relu(x)\n")
    assert program.run({"x": numpy.float32(2)})["y"] == 2


class Exporter:
    """An array that speaks DLPack only, in the form of before version 1."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self):
        return self.array.__dlpack__()


def test_indices():
    """The type of indices is one of 64 bits, of numpy's `int64`, in and out."""
    program = hostir.parse(
        "hir 2\nf(E: f32[v, h], I: index[n]) -> (Y: f32[n, h], J: index[n]):\n  Y = indexSelect(E, dim=0, I)\n  J = Set(I)\n"
    )
    table, places = numpy.arange(12, dtype=numpy.float32).reshape(4, 3), numpy.array([3, 0, 3])
    for given in (places, places.astype(">i8")):
        found = program.run({"E": table, "I": given})
        assert numpy.array_equal(found["Y"], table[places]) and numpy.array_equal(found["J"], places)
    with pytest.raises(hostir.HostIrError, match="I is int64, but the array is int32"):
        program.run({"E": table, "I": places.astype(numpy.int32)})


def test_inputs_that_are_no_arrays():
    program = hostir.parse("hir 2\nf(A: f32[n]) -> (B: f32[n]):\n  B = relu(A)\n")
    for value, message in [(None, "`A` is None"), (numpy.ma.masked_array(numpy.ones(3, "f4"), [0, 1, 0]), "is masked")]:
        with pytest.raises(hostir.HostIrError, match=message) as caught:
            program.run({"A": value}, sizes={"n": 3})
        assert caught.value.code == "H0610"


def test_copies_and_pickles_of_tensors():
    program = hostir.parse("hir 2\nf(A: bf16[2, n]) -> (B: bf16[2, n]):\n  B = relu(A)\n")
    tensor = program.run(sizes={"n": 3})["B"]
    for other in (deepcopy(tensor), shallow_copy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert (other.dtype, other.shape, other.tobytes()) == ("bfloat16", [2, 3], tensor.tobytes())


def test_arrays_by_dlpack():
    program = copy("f32", "m, n")
    x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    for view in [x, x.T, x[::-1, ::2], x[1:, 1:]]:
        numpy.testing.assert_array_equal(program.run({"x": Exporter(view)})["y"], view)
        numpy.testing.assert_array_equal(numpy.asarray(hostir.Tensor.from_dlpack(view)), view)


def test_tensors_of_devices_are_refused():
    class OnGpu(Exporter):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="not in host memory"):
        copy("f32").run({"x": OnGpu(numpy.zeros(3, numpy.float32))})


def test_something_else_than_a_capsule_is_refused():
    class Wrong(Exporter):
        def __dlpack__(self):
            return ctypes.pythonapi

    with pytest.raises(TypeError, match="no capsule"):
        copy("f32").run({"x": Wrong(numpy.zeros(3, numpy.float32))})


def test_bfloat16_goes_through_tensors():
    # 1, -2, 3 in bfloat16.
    bits = numpy.array([0x3F80, 0xC000, 0x4040], numpy.uint16)
    x = hostir.Tensor.from_bytes("bfloat16", [3], bits.tobytes())
    y = relu("bf16").run({"x": x})["y"]
    assert isinstance(y, hostir.Tensor)
    assert numpy.frombuffer(y.tobytes(), numpy.uint16).tolist() == [0x3F80, 0, 0x4040]


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numpy.array([1, -2, 3], ml_dtypes.bfloat16)
    y = numpy.asarray(relu("bf16").run({"x": x})["y"])
    assert y.dtype == ml_dtypes.bfloat16
    assert y.tolist() == [1, 0, 3]


def test_exports_are_copies():
    tensor = hostir.Tensor.from_bytes("float32", [2], numpy.array([1, 2], numpy.float32).tobytes())
    array, other = numpy.from_dlpack(tensor), numpy.from_dlpack(tensor)
    assert array.tolist() == other.tolist() == [1, 2]
    assert not numpy.shares_memory(array, other)
    # Capsules that nobody takes are freed with what they hold.
    for version in [None, (1, 0)]:
        del array
        array = tensor.__dlpack__(max_version=version)  # noqa: F841 - held until the next turn
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=False)
    assert repr(tensor) == "hostir.Tensor(shape=[2], dtype=float32)"


def test_generated_inputs_repeat():
    program = copy("f64")
    one = program.run(sizes={"n": 1000}, seed=3)["y"]
    assert one.tolist() == program.run(sizes={"n": 1000}, seed=3)["y"].tolist()
    assert one.tolist() != program.run(sizes={"n": 1000}, seed=4)["y"].tolist()
    assert abs(one.mean()) < 0.1 and abs(one.std() - 1) < 0.1
    assert program.run({"x": "iota"}, sizes={"n": 4})["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("inputs", "settings", "code"),
    [
        ({"q": "ones"}, {}, "H0611"),
        ({"x": "one"}, {}, "H0610"),
        ({"x": numpy.zeros(3)}, {}, "H0606"),
        ({"x": numpy.zeros((3, 1), numpy.float32)}, {}, "H0403"),
        ({"x": "ones", "T0": "ones"}, {}, "H0613"),
        ({}, {}, "H0401"),
        ({"x": numpy.zeros(3, numpy.float32)}, {"sizes": {"n": 4}}, "H0402"),
    ],
)
def test_wrong_inputs(inputs, settings, code):
    with pytest.raises(hostir.HostIrError) as caught:
        relu("f32").run(inputs, **settings)
    assert caught.value.code == code


def test_a_tensor_that_is_too_large_to_copy():
    """An expanded tensor of torch has memory for one element."""
    torch = pytest.importorskip("torch")
    with pytest.raises(hostir.HostIrError, match=str(2**46)) as caught:
        relu("f32").run({"x": torch.ones(1).expand(2**44)})
    assert caught.value.code == "H0504"
    with pytest.raises(hostir.HostIrError) as caught:
        copy("f32", "m, n").run({"x": torch.ones(1, 1).expand(2**31, 2**31)})
    assert caught.value.code == "H0504"


@pytest.mark.parametrize("word", ["f16", "bf16", "f64"])
def test_element_types_are_called_as_in_numpy(word):
    with pytest.raises(hostir.HostIrError) as caught:
        relu(word).run({"x": numpy.zeros(3, numpy.float32)})
    needed = {"f16": "float16", "bf16": "bfloat16", "f64": "float64"}[word]
    assert caught.value.message == f"inputs: x is {needed}, but the array is float32"


@pytest.mark.parametrize("inputs", [[numpy.zeros(3)], numpy.zeros(3), "x"])
def test_inputs_need_names(inputs):
    with pytest.raises(hostir.HostIrError, match="`inputs` is of type") as caught:
        relu("f32").run(inputs)
    assert caught.value.code == "H0610" and caught.value.notes


@pytest.mark.parametrize("seed", ["1", -1, 2**64, 0.5, None])
def test_wrong_seeds(seed):
    with pytest.raises(hostir.HostIrError, match="`seed` is") as caught:
        relu("f32").run({"x": numpy.zeros(3, numpy.float32)}, seed=seed)
    assert caught.value.code == "H0610"


def test_types_that_no_program_has():
    with pytest.raises(TypeError, match="str"):
        relu("f32").run({"x": numpy.array(["a"])})


def test_a_wrong_program_does_not_run(tutorial):
    race = hostir.load(tutorial / "race.hir")
    with pytest.raises(hostir.HostIrError) as caught:
        race.run()
    assert caught.value.code == "H0701"
    assert caught.value.fixes
    # The run notices, too, what order it happens to take.
    with pytest.raises(hostir.HostIrError) as caught:
        race.run(check=False)
    assert caught.value.code == "H0506"


def test_other_threads_run_meanwhile():
    program = hostir.parse("hir 2\nf(x: f32[n, n]) -> (y: f32[n, n]):\n  y = matmul(x, x)\n")
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    program.run({"x": "ones"}, sizes={"n": 700})
    after = len(counted)
    done.set()
    thread.join()
    assert after > before


def test_threads_run_programs_at_once(tutorial):
    ring = hostir.load(tutorial / "6_ring.hir")
    results = []
    threads = [threading.Thread(target=lambda: results.append(ring.run()["C"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all((result == results[0]).all() for result in results)


def test_roundings_on_the_way_to_parts_of_ranks():
    """The tolerances of the comparison of an op with its function."""
    from hostir import _native
    from hostir._arrays import copy_tensor
    from hostir._program import _settings

    program = hostir.parse(
        "hir 2\n"
        "f(x: f32[n]) -> (y: f32[n], z: f32[n], w: f32[n]):\n"
        "  a = bf16(x)\n"
        "  b = a * a\n"
        "  y = f32(b)\n"
        "  z = Set(x)\n"
        "  w = z * x\n"
    )
    parts = {"x": [copy_tensor(numpy.ones(4, numpy.float32))]}
    [outputs] = _native.run_ranks(program._handle, parts, _settings(1, None, None, None, False, None))
    found = {name: set(roundings) for name, _, roundings in outputs}
    assert "bfloat16" in found["y"]
    assert (found["z"], found["w"]) == (set(), {"float32"})
