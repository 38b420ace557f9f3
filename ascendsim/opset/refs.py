"""Tensors as lowering sees them: regions of global memory with a size."""

from __future__ import annotations

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

    def stored(self, elements: int) -> int:
        """Bytes of so many elements."""
        return elements * self.dtype.itemsize if self.bits_of is None else ceil_div(elements, 8)
