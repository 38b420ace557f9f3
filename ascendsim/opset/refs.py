"""Tensors as lowering sees them: regions of global memory with a size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, Format, c0, ceil_div
from ascendsim.graph.ir import Tensor

WORKSPACE = (
    "<workspace>"  # region of a Ref that lies in the task's own scratch memory (SequenceWork.workspace_bytes)
)


def workspace_of(tensor: str) -> str:
    """Region of a Ref that is scratch memory for one tensor alone.

    >>> workspace_of("mean")
    '<workspace>/mean'
    """
    return f"{WORKSPACE}/{tensor}"


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor as lowering sees it: a GM region with a size.

    Attributes:
        region: Where it lies in global memory.
        shape, format: Of the tensor; of a mask, those of the data that it tells about.
        dtype: Of what is stored.
        bytes: Storage bytes, padding included.
        constant: Whether it is a constant.
        bits_of: Type of the data, if this is a mask with one bit for each of its stored elements.
    """

    region: str
    shape: tuple[int, ...]
    dtype: DType
    format: Format
    bytes: int
    constant: bool = False
    bits_of: DType | None = None

    @classmethod
    def of(cls, tensor: Tensor) -> Ref:
        return cls(
            tensor.name,
            tensor.static_shape,
            tensor.element_type,
            tensor.format,
            tensor.storage_bytes,
            tensor.is_constant,
        )

    @property
    def block(self) -> tuple[int, int]:
        """Elements and bytes that one position has in a channel block.

        >>> Ref("y", (1, 16, 2, 2), DType.FLOAT16, Format.NC1HWC0, 128).block
        (16, 32)
        >>> Ref("mask", (1, 16, 2, 2), DType.UINT8, Format.NC1HWC0, 8, bits_of=DType.FLOAT16).block
        (16, 2)
        """
        if self.bits_of is None:
            return c0(self.dtype), BLOCK_BYTES
        return c0(self.bits_of), ceil_div(c0(self.bits_of), 8)

    def matrices(self, of: Ref) -> tuple[int, int] | None:
        """How the matrices (last two axes) of another tensor use those of this one, of which each serves
        several: matrix p of the other goes with matrix p // each % count of this one.

        Returns:
            `each` and `count`; None if broadcasting this tensor is anything else.

        >>> mask, bias, scores = (
        ...     Ref("x", shape, DType.FLOAT16, Format.FRACTAL_NZ, 0)
        ...     for shape in ((8, 1, 16, 32), (1, 12, 16, 32), (8, 12, 16, 32))
        ... )
        >>> mask.matrices(scores), bias.matrices(scores), scores.matrices(scores)
        ((12, 8), (1, 12), (1, 96))
        """
        mine, other = self.shape, of.shape
        if len(other) < 2 or len(mine) > len(other) or mine[-2:] != other[-2:]:
            return None
        lead = (1,) * (len(other) - len(mine)) + mine[:-2]
        own = [axis for axis, size in enumerate(lead) if size > 1]
        first, end = (own[0], own[-1] + 1) if own else (0, 0)
        if lead[first:end] != other[first:end]:
            return None
        return math.prod(other[end:-2]), math.prod(lead)

    def period(self, of: Ref) -> int | None:
        """After how many matrices of another tensor those of this one change or begin again; None if each
        has its own or all have one.
        """
        found = self.matrices(of)
        if self.shape == of.shape or found is None or found[1] == 1:
            return None
        return found[0] if found[0] > 1 else found[1]

    def stored(self, elements: int) -> int:
        """Bytes of so many elements."""
        return elements * self.dtype.itemsize if self.bits_of is None else ceil_div(elements, 8)
