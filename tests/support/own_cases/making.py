"""Arrays and lists of cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.operator_cases import Case

Array = Any


def some(*shape: int, dtype: Any = np.float32, positive: bool = False, seed: int = 0) -> Array:
    """Seeded numbers: normally distributed, or (positive) from 0.5 to 1.5, or small integers."""
    generator = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0 if np.dtype(dtype).kind == "u" or positive else -9, 10, shape).astype(
            dtype
        )
    if dtype is bool:
        return generator.random(shape) < 0.5
    return (generator.random(shape) + 0.5 if positive else generator.standard_normal(shape)).astype(dtype)


def ints(*values: int) -> Array:
    """An int64 vector."""
    return np.array(values, np.int64)


def one(value: float, dtype: Any = np.float32) -> Array:
    """A scalar."""
    return np.array(value, dtype)


class Cases(list[Case]):
    """A list of cases with what makes them."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def add(
        self, op_type: str, *inputs: Array | None, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> None:
        self.append(
            Case(f"{self.prefix}_{op_type}_{len(self)}", op_type, inputs, outputs, domain, attributes)
        )

    def ascend(self, op_type: str, *inputs: Array | None, outputs: int = 1, **attributes: Any) -> None:
        self.add(op_type, *inputs, outputs=outputs, domain="ascend", **attributes)
