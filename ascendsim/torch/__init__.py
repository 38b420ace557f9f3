"""PyTorch models on a simulated chip.

    torch.compile(model, backend="ascendsim", options={"soc": "Ascend910A"})
    asim.torch.last_runs()

    with asim.torch.profile() as prof:
        ...
        prof.step()
    prof.step_times()

The back end is found by its entry point, so `import ascendsim` is not needed for it; nothing here imports
torch.
"""

from ascendsim.torch.backend import backend
from ascendsim.torch.config import CompilerConfig, get_npu_backend, set_dim_gears
from ascendsim.torch.profiler import Profiler, profile, tensorboard_trace_handler
from ascendsim.torch.recording import Run
from ascendsim.torch.running import clear_runs, last_runs
from ascendsim.torch.schedule import ProfilerAction, ProfilerActivity, schedule

__all__ = [
    "CompilerConfig",
    "Profiler",
    "ProfilerAction",
    "ProfilerActivity",
    "Run",
    "backend",
    "clear_runs",
    "get_npu_backend",
    "last_runs",
    "profile",
    "schedule",
    "set_dim_gears",
    "tensorboard_trace_handler",
]
