"""Triton kernels on the simulated chip: compiled by the vendor's own compilers, timed and evaluated as the
instructions that come out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascendsim.triton.launch import run_triton
    from ascendsim.triton.scripts import provide, simulated

__all__ = ["provide", "run_triton", "simulated"]

_HOMES = {"provide": "scripts", "simulated": "scripts", "run_triton": "launch"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
