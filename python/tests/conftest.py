"""Shared parts of the tests: the repository's examples, and streams where there is no GPU.

`rank_pool.py` keeps processes that are the ranks of groups, `*_ranks.py` have what they run, `page_runner.py` runs the blocks of
pages, and `gpu/` has what `tools/gpu-suite torch` runs on GPUs.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What a test keeps for later processes is in a folder of its own. Workers of `rank_pool` get it, too.
os.environ["HOSTIR_CACHE"] = "0"

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def examples() -> Path:
    """The folder of example programs."""
    return ROOT / "docs" / "examples"


@pytest.fixture
def tutorial() -> Path:
    """The folder of the tutorial's programs."""
    return ROOT / "docs" / "tutorial"


@pytest.fixture(scope="module")
def streams_of_no_gpu() -> Iterator[None]:
    """No GPU is asked for the stream of tensors of the CPU, also by versions of torch without the exchange API."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
        yield


@pytest.fixture
def fake_group() -> Iterator[Any]:
    """A group of two ranks that exists for shapes only."""
    import torch._dynamo
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch._dynamo.reset()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield dist.group.WORLD
    dist.destroy_process_group()
