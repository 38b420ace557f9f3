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
    from ascendsim.llm.config import architecture, shipped
    from ascendsim.llm.language_model import LanguageModel, model
    from ascendsim.llm.memory import Memory
    from ascendsim.llm.requests import Request, Workload, poisson
    from ascendsim.llm.server import serve
    from ascendsim.llm.serving import Serving
    from ascendsim.llm.structure import Architecture
    from ascendsim.llm.sweeping import Sweep, sweep

_HOMES = {
    "Architecture": "structure",
    "architecture": "config",
    "shipped": "config",
    "Memory": "memory",
    "LanguageModel": "language_model",
    "model": "language_model",
    "Request": "requests",
    "Sweep": "sweeping",
    "Workload": "requests",
    "poisson": "requests",
    "sweep": "sweeping",
    "Serving": "serving",
    "serve": "server",
}

__all__ = [
    "Architecture",
    "LanguageModel",
    "Memory",
    "Request",
    "Serving",
    "Sweep",
    "Workload",
    "architecture",
    "model",
    "poisson",
    "serve",
    "shipped",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ascendsim.llm' has no attribute {name!r}")
    value = getattr(import_module(f"ascendsim.llm.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
