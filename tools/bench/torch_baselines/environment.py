"""What processes of torch have in their environment."""

from __future__ import annotations

import os

# Multicast stays off: it may not be available, and one of its failures takes the whole machine down.
WITHOUT_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}


def set_environment() -> None:
    """Sets this process's environment, before it uses a GPU; processes that it starts have it too."""
    os.environ.update(WITHOUT_MULTICAST)
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
