"""Program + order of tasks -> values, in the planned device memory."""

from ascendsim.runtime.evaluate import checked_inputs, evaluate, random_inputs
from ascendsim.runtime.memory import DeviceMemory

__all__ = ["DeviceMemory", "checked_inputs", "evaluate", "random_inputs"]
