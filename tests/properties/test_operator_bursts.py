"""Pieces by which operators say that the DMA brings and stores: none is longer than what lies together.

Where the elements of a result come from is not read off the operators' own words: their kernels say it, given
places in place of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset.work import Copy, MoveWork
from ascendsim.runtime.tile_moves import Way, is_carried, ways
from tests.support.operator_cases import Case, all_operator_cases, blocked, settled, work_of
from tests.support.single_node import make_node


class Given:
    """The inputs of a case where `ways` asks device memory for them."""

    def __init__(self, case: Case, node: Node) -> None:
        pairs = zip(node.inputs, case.inputs, strict=True)
        self._arrays = {tensor.name: np.asarray(array) for tensor, array in pairs if tensor is not None}

    def read(self, tensor: Any) -> Any:
        return self._arrays[tensor.name]


def longest(places: Any) -> int:
    """Elements of the longest stretch without a gap."""
    apart = np.flatnonzero(np.diff(np.unique(places)) != 1)
    edges = np.concatenate([[-1], apart, [np.unique(places).size - 1]])
    return int(np.diff(edges).max())


def carried(case: Case) -> Iterator[tuple[Copy, Way]]:
    """The copies of a case, row-major and blocked, whose elements keep their values."""
    opset = default_opset()
    for node in (settled(case), blocked(case)):
        work = None if node is None else work_of(node, "Ascend910B1")
        if node is None or not isinstance(work, MoveWork) or not is_carried(node, work, opset):
            continue
        try:
            found = ways(node, work.copies, opset, Given(case, node))  # type: ignore[arg-type]
        except TypeError:  # a kernel that takes numbers of one type only
            continue
        for copy in work.copies:
            if copy.bytes and (copy.src.region, copy.dst.region) in found:
                way = found[copy.src.region, copy.dst.region]
                if way.of.size:
                    yield copy, way


def too_long(copy: Copy, way: Way) -> str:
    """What is wrong with the pieces of a copy; "" if nothing is.

    A whole tensor, or more of it than is wanted, comes in pieces of any length: UB is where they are taken
    apart. So leaves a whole result that is filled up.
    """
    size = copy.src.dtype.itemsize
    wanted, made = way.of.size * size, way.to.size * size
    if copy.bytes <= wanted and copy.bytes < copy.src.bytes and copy.read_burst > longest(way.of) * size:
        return f"reads pieces of {copy.read_burst} bytes, of which {longest(way.of) * size} lie together"
    if copy.written <= made and copy.write_burst > longest(way.to) * size:
        return f"writes pieces of {copy.write_burst} bytes, of which {longest(way.to) * size} lie together"
    return ""


def test_pieces_are_there() -> None:
    seen: dict[str, int] = {}
    wrong = []
    for case in all_operator_cases():
        for copy, way in carried(case):
            seen[case.op_type] = seen.get(case.op_type, 0) + 1
            text = too_long(copy, way)
            wrong += [f"{case.name} {text}"] if text else []
    assert not wrong, "\n".join(wrong)
    assert {"Concat", "DepthToSpace", "Expand", "Gather", "Pad", "Slice", "Split", "Tile", "TransData"} < set(
        seen
    )


@pytest.mark.parametrize(("axis", "piece"), [(0, 4 * 6 * 8), (1, 6 * 8), (2, 8)])
def test_a_step_along_an_outer_axis_leaves_the_pieces_behind_it(axis: int, piece: int) -> None:
    """Every other index along an axis of [4, 4, 6, 8]: what lies behind one index stays together."""
    ends = [np.array(value, np.int64) for value in ([0], [1000], [axis], [2])]
    node = make_node("Slice", [np.zeros((4, 4, 6, 8), np.float32), *ends])
    work = default_opset().get(node).lower(node, _context())  # type: ignore[misc]
    assert isinstance(work, MoveWork)
    assert work.copies[0].read_burst == 4 * piece


def _context() -> Any:
    from tests.support.operator_cases import context_of

    return context_of("Ascend910B1")
