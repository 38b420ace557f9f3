"""Blocks that say what they do to the byte, run on arrays, with arithmetic that the tests give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendsim.isa.instructions import Buffer, Mmad, Move
from ascendsim.isa.notes import Carry, Frame, Kernel, Row, without_notes, works
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.stage import Stage
from ascendsim.soc import SocSpec
from ascendsim.tile.evaluate import GlobalMemory
from ascendsim.tile.noted import NotedTask

Array = NDArray[Any]
Compute = Callable[[Kernel, Sequence[Array]], Array]


def tells_all(stage: Stage) -> bool:
    """Whether every instruction of every block says what it does, and every block where its share begins."""
    return all(
        len(group.origins) == group.count and not list(without_notes(group.block.body))
        for group in stage.groups
    )


def run(
    stage: Stage, soc: SocSpec, given: Mapping[str, Array], made: Mapping[str, Array], compute: Compute
) -> None:
    """Runs all blocks of a stage; what a block reads of `made` before something was stored there is an error.

    Args:
        stage: Blocks with notes.
        soc: The chip.
        given: Regions that are read, as their formats store them.
        made: Those that are written; they come back with what the blocks have stored, and -1 elsewhere.
        compute: What the vector unit makes of the arrays in the boxes of a kernel's parts.
    """
    memory = GlobalMemory([*given.items(), *made.items()])
    for name, array, defined in zip(memory.names, memory.arrays, memory.defined, strict=True):
        if name in made:
            array[...] = -1
            defined[:] = 0
    runner = NotedTask(soc, memory, compute, _nothing_is_carried)
    for group in stage.groups:
        for origin in group.origins:
            runner.run(group.block, origin)
    assert runner.timed > 0


def _nothing_is_carried(carry: Carry) -> Sequence[Any]:
    raise AssertionError(carry)


class Transfer(NamedTuple):
    """Bytes of a region that an instruction moves: as it is timed, and as its effect says."""

    region: str
    write: bool
    timed: tuple[int, int]
    told: tuple[int, int]


def transfers_of(stage: Stage) -> Iterator[Transfer]:
    """Of a stage of one block, whose offsets are those of the tensors; none of others."""
    if sum(group.count for group in stage.groups) > 1:
        return
    (group,) = stage.groups
    for one, variables in in_order(group.block.body, dict(group.origins[0])):
        if not works(one):
            continue
        reads = 3 if isinstance(one, Mmad) else len(getattr(one, "srcs", (0,)))
        items = one.effect(Frame(variables, 0, (0,) * reads))  # type: ignore[union-attr, operator]
        if not isinstance(one, Move):
            continue
        for item in items:
            for box, address in (
                zip(item.effect.boxes, item.addresses, strict=True) if isinstance(item, Row) else ()
            ):
                if box.buffer is Buffer.GM:
                    write = one.dst.buffer is Buffer.GM
                    side, stride = (one.dst, one.dst_stride) if write else (one.src, one.src_stride)
                    start, low, high = side.offset.at(variables), *box.span
                    end = start + (one.bursts - 1) * (stride or one.burst_bytes) + one.burst_bytes
                    yield Transfer(box.name, write, (start, end), (address + low, address + high))


def matrix_of(array: Array) -> Array:
    """Rows and columns of a tile: of blocks of columns, or of rows as they are."""
    if array.ndim < 3:
        return array
    blocks, _, columns = array.shape
    return np.stack([array[column // columns, :, column % columns] for column in range(blocks * columns)], 1)


def like_box(matrix: Array, kernel: Kernel) -> Array:
    """A matrix as the box of the kernel's target has it."""
    counts = [count for count, _ in kernel.target.box.dims]
    if len(counts) < 3:
        return matrix.reshape(counts)
    blocks, _, columns = counts
    return np.stack([matrix[:, block * columns : (block + 1) * columns] for block in range(blocks)])
