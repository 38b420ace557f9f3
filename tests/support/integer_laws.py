"""What laws of operators on bytes share: exact rounding, random bytes, instructions of a piece of work."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ascendsim.ops import default_opset
from ascendsim.opset.work import CubeWork
from tests.support.operator_cases import context_of
from tests.support.single_node import make_node

RNG = np.random.default_rng(5)


def nearest(exact: Any, low: int = -128, high: int = 127) -> list[int]:
    """Integers by Python's own rounding, ties to even, cut to a range."""
    return [min(max(round(float(number)), low), high) for number in np.asarray(exact).reshape(-1)]


def whole(kind: Any, *shape: int) -> Any:
    """Random integers over the whole range of a type."""
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def bytes_of(*shape: int) -> Any:
    """Random int8."""
    return whole(np.int8, *shape)


def lowered(name: str, *inputs: Any, domain: str = "ascend", known: bool = True, **attributes: Any) -> Any:
    """The work of an operator on Ascend910B1; its inputs are constants, or are not known."""
    node = make_node(name, inputs, domain=domain, known=known, **attributes)
    lower = default_opset().get(node).lower
    assert lower is not None
    return lower(node, context_of("Ascend910B1"))


def counts(work: Any) -> Counter[str]:
    """How many instructions of each kind run on each element."""
    found: Counter[str] = Counter()
    for step in work.epilogue if isinstance(work, CubeWork) else work.steps:
        found[step.op] += step.count
    return found
