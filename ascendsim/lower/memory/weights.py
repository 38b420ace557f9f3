"""Weight layout: constants with equal bytes on the device share one address.

This is the second of two stages. The first merges constant nodes of the graph (RemoveSameConst); here only
storage is merged, so it also catches constants whose shapes differ or whose nodes must stay apart (GE
ModelBuilder::ReuseWeightMem compares all of equal size).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Tensor
from ascendsim.graph.same_values import same_values

_PLAIN = (Format.ND, Format.NCHW)  # row-major: the shape does not matter


def equal_weights(constants: Iterable[Tensor]) -> dict[str, str]:
    """Constants that are equal on the device to one before them: its name by theirs.

    Constants without values, and those whose values are only computed on demand (random ones, say), are left
    alone.
    """
    groups = same_values((tensor for tensor in constants if _at_hand(tensor)), _form)
    return {tensor.name: first.name for first, *others in groups for tensor in others}


def _at_hand(tensor: Tensor) -> bool:
    constant = tensor.constant
    return constant is not None and constant.available and not constant.computed and tensor.is_static


def _form(tensor: Tensor) -> Hashable:
    """All but the values that decides the bytes on the device."""
    place = None if tensor.format in _PLAIN else (tensor.format, tensor.storage_shape, tensor.static_shape)
    return tensor.element_type, tensor.origin_dtype, tensor.elements, tensor.storage_bytes, place
