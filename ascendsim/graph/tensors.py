"""Tensors: values with shape, type and format, their use lists, and constants that are held lazily."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format, storage_bytes, storage_shape

if TYPE_CHECKING:
    from ascendsim.graph.ir import Node

Dim = Union[int, str, None]  # a number, a symbol ("batch"), or unknown
Shape = tuple[Dim, ...]
Array = NDArray[Any]


class Constant:
    """The value of a constant tensor, held lazily: an array, a loader, or shape only.

    Shape-only constants (weights that a file names but does not hold) are enough for timing; asking for their values raises.

    Attributes:
        absent_because: Why there are no values.
        computed: Whether the loader computes the values (random weights, folded ones) instead of reading them from where they are.
    """

    __slots__ = ("_array", "_forms", "_loader", "absent_because", "computed")

    def __init__(
        self, array: Array | None = None, loader: Callable[[], Array] | None = None, absent_because: str = "", computed: bool = False
    ) -> None:
        self._array, self._loader, self.absent_because, self.computed = array, loader, absent_because, computed
        self._forms: dict[np.dtype[Any], Array] = {}

    @property
    def loaded(self) -> bool:
        """Whether the values are in memory."""
        return self._array is not None

    @property
    def available(self) -> bool:
        return self._array is not None or self._loader is not None

    def array(self) -> Array:
        """The values.

        Raises:
            GraphError: If this is a shape-only constant.
        """
        if self._array is None:
            if self._loader is None:
                raise GraphError(
                    "a constant", f"has no values ({self.absent_because})", remedy='load with weights="random" or give the weight file'
                )
            self._array, self._loader = self._loader(), None
        return self._array

    def in_type(self, dtype: np.dtype[Any], convert: Callable[[Array], Array]) -> Array:
        """The values in another type, converted on first use and kept for the next run; do not write to them."""
        values = self.array()
        if values.dtype == dtype:
            return values
        if dtype not in self._forms:
            self._forms[dtype] = convert(values)
        return self._forms[dtype]


class Use(NamedTuple):
    """One edge end: `node.inputs[index]` is the tensor."""

    node: Node
    index: int  # type: ignore[assignment]  # hides a method of tuples


class Tensor:
    """A value of the graph: produced by one node output, or a graph input, or a constant.

    Attributes:
        name: Unique in its graph.
        shape: Logical shape, ONNX axis order; None if even the rank is unknown.
        dtype: Element type on the device (passes may change it, see `origin_dtype`).
        origin_dtype: Element type of the user's model; `values="float32"` computes in it.
        format: Layout in global memory.
        constant: The value if this is a constant, else None.
        producer, index: The node output that makes it, else (None, 0).
        uses: Every (node, input port) that reads it, in insertion order.
    """

    __slots__ = ("_uses", "constant", "dtype", "format", "index", "name", "origin_dtype", "producer", "shape")

    def __init__(
        self,
        name: str,
        dtype: DType | None = None,
        shape: Shape | None = None,
        format: Format = Format.ND,
        constant: Constant | None = None,
    ) -> None:
        self.name, self.shape, self.format, self.constant = name, shape, format, constant
        self.dtype = dtype
        self.origin_dtype = dtype
        self.producer: Node | None = None
        self.index = 0
        self._uses: dict[tuple[Node, int], None] = {}  # the keys are uses

    @property
    def uses(self) -> tuple[Use, ...]:
        return tuple(self._uses)  # type: ignore[arg-type]

    @property
    def consumers(self) -> tuple[Node, ...]:
        """The distinct nodes that read it."""
        if len(self._uses) == 1:
            return tuple([reader for reader, _ in self._uses])
        return tuple(dict.fromkeys([reader for reader, _ in self._uses]))

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        if self.shape is None:
            return False
        for dim in self.shape:  # noqa: SIM110 - a loop, since this is asked for all the time
            if type(dim) is not int:
                return False
        return True

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape, all numbers.

        Raises:
            GraphError: If a dimension is unknown.
        """
        if not self.is_static:
            raise GraphError(f"tensor {self.name!r}", "needs a static shape", self.shape, 'give input shapes with shapes={"name": (...)}')
        return self.shape  # type: ignore[return-value]

    @property
    def element_type(self) -> DType:
        """The dtype.

        Raises:
            GraphError: If it is not known yet.
        """
        if self.dtype is None:
            raise GraphError(f"tensor {self.name!r}", "has no element type", remedy="run shape inference first")
        return self.dtype

    @property
    def elements(self) -> int:
        """Logical element count."""
        return math.prod(self.static_shape)

    @property
    def logical_bytes(self) -> int:
        return self.elements * self.element_type.itemsize

    @property
    def storage_shape(self) -> tuple[int, ...]:
        return storage_shape(self.static_shape, self.format, self.element_type)

    @property
    def storage_bytes(self) -> int:
        """Bytes in global memory, padding of the format included."""
        return storage_bytes(self.static_shape, self.format, self.element_type)

    def __repr__(self) -> str:
        dims = "?" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        return f"%{self.name}: {self.dtype.value if self.dtype else '?'}[{dims}]"
