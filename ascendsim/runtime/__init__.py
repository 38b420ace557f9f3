"""Program + order of tasks -> values, in the planned device memory."""

from ascendsim.runtime.device_memory import DeviceMemory
from ascendsim.runtime.evaluate import checked_inputs, evaluate, random_inputs

__all__ = ["DeviceMemory", "checked_inputs", "evaluate", "random_inputs"]
