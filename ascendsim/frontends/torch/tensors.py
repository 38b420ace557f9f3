"""Tensors of PyTorch as the graph has them: types, and values without copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array

_CAST = "cast it to float32, float16, bfloat16 or an integer type"
_KNOWN = {kind.value: kind for kind in DType if kind is not DType.FLOAT64}


def dtype_of(dtype: Any, subject: str) -> DType:
    """The element type of a `torch.dtype`.

    Raises:
        InputError: If the chip has no such type (float64, complex, quantised, float8); names the subject.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _KNOWN:
        raise InputError(subject, "must be of a type that the chip has", name, _CAST)
    return _KNOWN[name]


def check_tensor(tensor: Any, subject: str) -> None:
    """Refuses what has no plain memory on the host.

    Raises:
        InputError: If the tensor is sparse, quantised, on another device, or of a type that the chip lacks.
    """
    if str(tensor.layout) != "torch.strided":
        raise InputError(subject, "must be dense", str(tensor.layout), "call .to_dense()")
    if getattr(tensor, "is_quantized", False):
        raise InputError(subject, "must not be quantised", str(tensor.dtype), "call .dequantize()")
    if tensor.device.type not in ("cpu", "meta"):
        remedy = "the simulator is the device; call .cpu() on module and inputs"
        raise InputError(subject, "must be on the CPU", str(tensor.device), remedy)
    dtype_of(tensor.dtype, subject)


def array_of(tensor: Any) -> Array:
    """The values of a tensor on the CPU, in its own memory wherever NumPy can read that.

    Raises:
        InputError: If it is on the meta device, and has none.
    """
    if tensor.device.type == "meta":
        shape = list(tensor.shape)
        remedy = 'put the module on the CPU, or time it alone with options={"values": "off"}'
        raise InputError(
            f"a tensor of shape {shape}", "has no values, it is on the meta device", remedy=remedy
        )
    tensor = tensor.detach().resolve_neg()
    if str(tensor.dtype) == "torch.bfloat16":
        import torch

        return np.asarray(tensor.view(torch.uint16).numpy().view(DType.BFLOAT16.numpy))
    return np.asarray(tensor.numpy())


def tensor_of(array: Array) -> Any:
    """A tensor with the values of an array, in the array's memory."""
    import torch

    array = np.require(array, requirements=("C", "W"))
    if array.dtype == DType.BFLOAT16.numpy:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)
