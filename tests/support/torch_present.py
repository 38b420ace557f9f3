"""`torch`, or the test module is skipped."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def torch_or_skip() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own modules
        return pytest.importorskip("torch", reason="PyTorch is absent: see tests/requirements-torch.txt")
