"""Program + order of tasks -> values, in the planned device memory."""

from ascendsim.runtime.evaluate import evaluate, random_inputs
from ascendsim.runtime.memory import DeviceMemory

__all__ = ["DeviceMemory", "evaluate", "random_inputs"]
