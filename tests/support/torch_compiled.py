"""torch.compile on a simulated chip, for tests; needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ascendsim as asim


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing that was compiled outlives a test of a module that imports this."""
    yield
    torch._dynamo.reset()
    asim.torch.clear_runs()


def compiled(module: Any, **options: Any) -> Any:
    """The module or function, compiled by ascendsim."""
    return torch.compile(module, backend=asim.torch.backend, options=options)
