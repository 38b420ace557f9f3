"""PyTorch models on a simulated chip.

    torch.compile(model, backend="ascendsim", options={"soc": "Ascend910A"})
    asim.torch.last_runs()

The back end is found by its entry point, so `import ascendsim` is not needed for it; nothing here imports
torch.
"""

from ascendsim.torch.backend import backend
from ascendsim.torch.running import Run, clear_runs, last_runs

__all__ = ["Run", "backend", "clear_runs", "last_runs"]
