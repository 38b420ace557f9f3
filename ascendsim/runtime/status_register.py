"""The register in which cores of the first generation note an overflow (`ops.training.float_status`).

Where float16 saturates, gradients never show that one of them left its type: only the register does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.runtime.device_memory import DeviceMemory


def with_register(node: Node, results: Mapping[Tensor, Array], memory: DeviceMemory) -> dict[Tensor, Array]:
    """Results of a node that clears the register of a run, or reads it; those of others as they are."""
    if node.domain == "ascend" and node.op_type == "NPUClearFloatStatus":
        memory.overflowed = False
    elif node.domain == "ascend" and node.op_type == "NPUGetFloatStatus" and memory.overflowed:
        return {tensor: _set(array) for tensor, array in results.items()}
    return dict(results)


def _set(status: Array) -> Array:
    made = np.array(status)
    made[0] = 1
    return made
