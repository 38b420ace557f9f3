"""Language models from a config file alone: what a token costs.

    model = asim.llm.model("config.json", dtype="bf16", cards=4)
    model.step("Ascend910B3", batch=8, context=4096).duration_us
    model.memory("Ascend910B3").largest_batch(4096)
    asim.llm.serve(model, "requests.json", "Ascend910B3").table()

Graphs are built of CANN's kernels, as inference stacks call them; compiling, timing and values are those of
all other graphs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascendsim.llm.architecture import Architecture
    from ascendsim.llm.config import architecture, shipped
    from ascendsim.llm.memory import Memory
    from ascendsim.llm.model import LanguageModel, model
    from ascendsim.llm.requests import Request, poisson
    from ascendsim.llm.serve import Serving, serve

_HOMES = {
    "Architecture": "architecture",
    "architecture": "config",
    "shipped": "config",
    "Memory": "memory",
    "LanguageModel": "model",
    "model": "model",
    "Request": "requests",
    "poisson": "requests",
    "Serving": "serve",
    "serve": "serve",
}

__all__ = [
    "Architecture",
    "LanguageModel",
    "Memory",
    "Request",
    "Serving",
    "architecture",
    "model",
    "poisson",
    "serve",
    "shipped",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ascendsim.llm' has no attribute {name!r}")
    value = getattr(import_module(f"ascendsim.llm.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
