"""Registered symmetric memory without a GPU: what is refused, and which sessions calls find. torch's handles are stand-ins."""

import re
from types import SimpleNamespace

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hostir  # noqa: E402
import hostir.torch as hir  # noqa: E402
from hostir import _native  # noqa: E402
from hostir.torch import _symmetric  # noqa: E402
from hostir.torch._direct import make_dispatcher  # noqa: E402
from hostir.torch._session import _SymmetricTensors  # noqa: E402

PEER = 1 << 40
pytestmark = pytest.mark.usefixtures("streams_of_no_gpu")


@pytest.fixture(autouse=True)
def nothing_stays_registered():
    yield
    _symmetric._parts.clear()
    _symmetric._publish()


@pytest.fixture
def group(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


# The other arguments of calls: the group's name.
OTHERS = ("pair",)


def register(tensor, name="pair", size=None):
    """Registers memory of the CPU, as if `rendezvous` had found it to be symmetric and a peer's part far away."""
    size = tensor.numel() * tensor.element_size() if size is None else size
    _symmetric._add_part(tensor, name, 0, handle_of(tensor, size))
    return tensor


def handle_of(tensor, size):
    return SimpleNamespace(buffer_ptrs=[tensor.data_ptr(), PEER], buffer_size=size)


def refused(call, *arguments):
    with pytest.raises(hostir.HostIrError) as caught:
        call(*arguments)
    assert caught.value.code == "H0536"
    return str(caught.value)


def freed():
    # Not to be printed: torch reads the elements.
    tensor = torch.zeros(4)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.zeros(4), "a tensor on cpu is not symmetric memory"),
        (lambda: torch.zeros(4, device="meta"), "a tensor on meta is not symmetric memory"),
        (lambda: torch.zeros(4, 6)[:, :3], "a tensor with gaps cannot be registered"),
        (lambda: torch.zeros(4, 6).t(), "a tensor with gaps cannot be registered"),
        (lambda: torch.zeros(0, 6), "a tensor without elements"),
        (freed, "the memory of a tensor has been freed"),
    ],
)
def test_tensors_that_are_refused(group, make, text):
    assert text in refused(hir.register_symmetric, make(), group)
    assert not _symmetric._parts


@pytest.mark.parametrize("value", [3, None, [torch.zeros(4)]])
def test_what_is_no_tensor(group, value):
    with pytest.raises(TypeError, match="takes a tensor"):
        hir.register_symmetric(value, group)
    with pytest.raises(TypeError, match="takes a process group"):
        hir.register_symmetric(torch.zeros(4), value)


def test_groups_that_are_refused(group, monkeypatch):
    monkeypatch.setattr(_symmetric, "_check_tensor", lambda tensor: None)
    assert "no process group named 'elsewhere'" in refused(hir.register_symmetric, torch.zeros(4), "elsewhere")
    monkeypatch.setattr(dist, "get_rank", lambda group: -1)
    assert "is no rank of the group" in refused(hir.register_symmetric, torch.zeros(4), group)


def test_torchs_own_answer_for_a_tensor_is_an_error(group, monkeypatch):
    monkeypatch.setattr(_symmetric, "_check_tensor", lambda tensor: None)
    with pytest.raises(RuntimeError, match="device type cpu"):
        hir.register_symmetric(torch.zeros(4), group)


def test_handles_that_are_refused():
    tensor = torch.zeros(4)
    assert "is not symmetric memory of torch" in refused(_symmetric._add_part, tensor, "pair", 0, None)
    handle = SimpleNamespace(buffer_ptrs=[tensor.data_ptr(), 0, PEER, 0], buffer_size=16)
    assert "of rank 1, 3 is not mapped" in refused(_symmetric._add_part, tensor, "pair", 0, handle)
    # Smaller than the tensor, or elsewhere.
    assert "does not fit" in refused(register, tensor, "pair", 12)
    handle = SimpleNamespace(buffer_ptrs=[tensor.data_ptr() + 16, PEER], buffer_size=1024)
    assert "does not fit" in refused(_symmetric._add_part, tensor, "pair", 0, handle)
    assert not _symmetric._parts


def test_a_tensor_and_its_views_have_addresses_on_all_ranks():
    tensor = register(torch.zeros(4, 6))
    pair = SimpleNamespace(group_name="pair")
    part = _symmetric.symmetric_part(tensor[1:], pair)
    assert part.addresses_of(tensor[1:]) == [tensor[1:].data_ptr(), PEER + 24]
    for other in [tensor[:, :3], tensor[:0], torch.zeros(4)]:
        assert _symmetric.symmetric_part(other, pair) is None
    assert _symmetric.symmetric_part(tensor, SimpleNamespace(group_name="other")) is None
    assert _symmetric.symmetric_part(tensor, None) is None
    # Once more is the same registration; a second group has its own.
    register(tensor)
    register(tensor, "other")
    assert [part.group for part in _symmetric._parts] == ["pair", "other"]
    hir.unregister_symmetric(tensor[2:])
    assert not _symmetric._parts


def test_a_registration_keeps_the_memory():
    tensor = torch.zeros(4)
    start = tensor.data_ptr()
    register(tensor)
    del tensor
    assert _symmetric._parts[0].kept[0].data_ptr() == start


def test_what_a_session_is_told():
    x, w, y = register(torch.zeros(4)), torch.zeros(4), register(torch.zeros(4))
    found = _SymmetricTensors([w, x], [2], [y], SimpleNamespace(group_name="pair"))
    assert found.named_addresses() == [
        {"output": False, "position": 1, "addresses": [x.data_ptr(), PEER]},
        {"output": True, "position": 2, "addresses": [y.data_ptr(), PEER]},
    ]
    # The session says which of them peers address.
    fixed, kept = found.fixed_addresses([(True, 2)])
    assert fixed == {2: y.data_ptr()} and [part.start for part in kept] == [y.data_ptr()]
    assert _SymmetricTensors([w, x], [2], [], None).named_addresses() == []


class Session:
    def __init__(self):
        self.runs = []

    def run(self, stream, addresses):
        self.runs.append(list(addresses))


def insert(dispatcher, x, *more):
    """A session for such a call, which has a result of the shape of `x`."""
    session = Session()
    recipe = (tuple(x.shape), x.stride(), x.dtype)
    dispatcher.insert((x,), OTHERS, SimpleNamespace(session=session), [recipe], *more)
    return session


def test_a_session_for_an_address_serves_no_other():
    dispatcher = make_dispatcher([0])
    x, other, plain = register(torch.zeros(4)), register(torch.zeros(4)), torch.zeros(4)
    fixed = insert(dispatcher, x, {0: x.data_ptr()})
    assert dispatcher.run((x,), OTHERS) is not None
    assert dispatcher.run((other,), OTHERS) is None and dispatcher.run((plain,), OTHERS) is None
    ordinary = insert(dispatcher, plain)
    # Plain tensors may be anywhere, but for those in symmetric memory there is a session of their own.
    assert dispatcher.run((torch.zeros(4),), OTHERS) is not None
    assert dispatcher.run((other,), OTHERS) is None and dispatcher.run((x,), OTHERS) is not None
    assert [run[0] for run in fixed.runs] == [x.data_ptr()] * 2 and len(ordinary.runs) == 1


def test_symmetric_memory_that_peers_do_not_address_may_be_anywhere():
    dispatcher = make_dispatcher([0])
    # It has gaps, say.
    x = register(torch.zeros(4, 6))[:, :3]
    session = insert(dispatcher, x)
    assert dispatcher.run((x,), OTHERS) is not None
    assert dispatcher.run((torch.zeros(4, 6)[:, :3],), OTHERS) is not None
    assert len(session.runs) == 2


def test_memory_of_another_group_is_ordinary():
    """Its other ranks may have ordinary tensors there: a rank that prepared a session would wait for them."""
    dispatcher = make_dispatcher([0])
    session = insert(dispatcher, torch.zeros(4))
    x = register(torch.zeros(4), "other")
    assert dispatcher.run((x,), OTHERS) is not None and len(session.runs) == 1
    register(x)
    assert dispatcher.run((x,), OTHERS) is None


def test_results_in_symmetric_memory():
    dispatcher = make_dispatcher([0])
    x, y, plain = torch.zeros(4), register(torch.zeros(4)), torch.zeros(4)
    insert(dispatcher, x)
    assert dispatcher.run_into((x,), OTHERS, (plain,)) and not dispatcher.run_into((x,), OTHERS, (y,))
    fixed = insert(dispatcher, x, {1: y.data_ptr()}, (y,))
    assert dispatcher.run_into((x,), OTHERS, (y,)) and fixed.runs == [[x.data_ptr(), y.data_ptr()]]
    # Not for new results, nor for tensors elsewhere.
    assert dispatcher.run((x,), OTHERS) is not None and dispatcher.run_into((x,), OTHERS, (plain,))
    assert len(fixed.runs) == 1
    anywhere = insert(dispatcher, x, {}, (y,))
    assert dispatcher.run_into((x,), OTHERS, (y,)) and dispatcher.run_into((x,), OTHERS, (plain,))
    assert len(anywhere.runs) == 2


def test_a_tensor_that_is_registered_later_gets_a_session():
    dispatcher = make_dispatcher([0])
    x = torch.zeros(4)
    insert(dispatcher, x)
    assert dispatcher.run((x,), OTHERS) is not None
    register(x)
    assert dispatcher.run((x,), OTHERS) is None
    hir.unregister_symmetric(x)
    assert dispatcher.run((x,), OTHERS) is not None


def test_ranges_end_where_they_say():
    dispatcher = make_dispatcher([0])
    memory = torch.zeros(12)
    insert(dispatcher, torch.zeros(4))
    start = memory.data_ptr()
    _native.set_symmetric_ranges([(start + 32, 16, ["other", "pair"]), (start, 16, ["pair"])])
    found = [dispatcher.run((memory[at : at + 4],), OTHERS) is not None for at in (0, 4, 8)]
    assert found == [False, True, False]
    _native.set_symmetric_ranges([])
    assert dispatcher.run((memory[:4],), OTHERS) is not None


def test_the_pages_example(monkeypatch):
    page = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if "register_symmetric" in block]
    import torch.distributed._symmetric_memory as symm_mem

    made = []

    def empty(*shape, dtype, device):
        made.append(torch.zeros(*shape, dtype=dtype))
        return made[-1]

    monkeypatch.setattr(symm_mem, "empty", empty)
    monkeypatch.setattr(symm_mem, "rendezvous", lambda tensor, name: handle_of(tensor, 1024))
    monkeypatch.setattr(_symmetric, "_check_tensor", lambda tensor: None)
    monkeypatch.setattr(_symmetric, "_rank_in", lambda name: 0)
    calls = []
    names = {"torch": torch, "hir": hir, "gather_matmul": lambda *arguments: calls.append(arguments)}
    names |= {"group": "pair", "m": 4, "k": 6, "w": torch.zeros(6, 5)}
    exec(compile(block, "python.md", "exec"), names)
    assert [arguments[0] is made[0] for arguments in calls] == [True] and not _symmetric._parts
