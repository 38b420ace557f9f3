"""What the rules of this room ask alike."""

from __future__ import annotations

from collections.abc import Collection

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.rewriting.outputs import is_output

# Whose documents list the kernels: Atlas A2 and A3, Ascend 310P; c310 is what comes after them
GENERATIONS = frozenset({"c220", "c310", "m200"})
SPLIT = GENERATIONS - {"m200"}
FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def no_kernel(context: FusionContext, generations: Collection[str] = GENERATIONS) -> str | None:
    """Why a chip has none of these kernels."""
    return None if context.generation in generations else "CANN has no such kernel on this chip"


def no_real(*tensors: Tensor) -> str | None:
    """Why tensors are not all floats of one type that the kernels take."""
    first = tensors[0]
    if first.dtype not in FLOATS:
        return f"{first.name} is no float32, float16 or bfloat16 tensor"
    other = next((tensor for tensor in tensors if tensor.dtype is not first.dtype), None)
    return None if other is None else f"{other.name} has another type than {first.name}"


def needed_outside(tensor: Tensor, readers: int = 1) -> str | None:
    """Why a result cannot stay inside a kernel: it is handed out, or read by more than the match reads."""
    graph = None if tensor.producer is None else tensor.producer.graph
    if is_output(graph, tensor):
        return f"{tensor.name} is a graph output"
    return f"{tensor.name} has a reader outside" if len(tensor.uses) > readers else None
