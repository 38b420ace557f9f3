"""Values of constants, held lazily, and the words in which shapes are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import GraphError

Dim = Union[int, str, None]  # a number, a symbol ("batch"), or unknown
Shape = tuple[Dim, ...]
Array = NDArray[Any]


class Constant:
    """The value of a constant tensor, held lazily: an array, a loader, or shape only.

    Shape-only constants (weights that a file names but does not hold) are enough for timing; asking for their
    values raises.

    Attributes:
        absent_because: Why there are no values.
        computed: Whether the loader computes the values (random weights, folded ones) instead of reading them
            from where they are.
    """

    __slots__ = ("__weakref__", "_array", "_forms", "_loader", "absent_because", "computed")

    def __init__(
        self,
        array: Array | None = None,
        loader: Callable[[], Array] | None = None,
        absent_because: str = "",
        computed: bool = False,
    ) -> None:
        self._array, self._loader, self.absent_because, self.computed = (
            array,
            loader,
            absent_because,
            computed,
        )
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
                    "a constant",
                    f"has no values ({self.absent_because})",
                    remedy='load with weights="random" or give the weight file',
                )
            self._array, self._loader = self._loader(), None
        return self._array

    def in_type(self, dtype: np.dtype[Any], convert: Callable[[Array], Array]) -> Array:
        """The values in another type, converted on first use and kept for the next run; do not write to
        them.
        """
        values = self.array()
        if values.dtype == dtype:
            return values
        if dtype not in self._forms:
            self._forms[dtype] = convert(values)
        return self._forms[dtype]


def shape_text(shape: Shape | None) -> str:
    """A shape as GE writes it: -1 for an open dimension, -2 for an unknown rank.

    >>> shape_text((2, None, "N")), shape_text(None)
    ('[2, -1, -1 (N)]', '[-2]')
    """
    if shape is None:
        return "[-2]"
    sizes = (str(dim) if isinstance(dim, int) else "-1" if dim is None else f"-1 ({dim})" for dim in shape)
    return "[" + ", ".join(sizes) + "]"
