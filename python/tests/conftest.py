"""What the tests share: the repository's examples."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def examples() -> Path:
    """The folder of example programs."""
    return ROOT / "docs" / "examples"


@pytest.fixture
def tutorial() -> Path:
    """The folder of the tutorial's programs."""
    return ROOT / "docs" / "tutorial"
