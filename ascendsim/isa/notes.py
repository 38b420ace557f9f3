"""Notes: what an instruction of a built-in operator's block does, worked out when it runs.

Blocks of one group share a program; where a block's share begins, and how much of a tile at the border of a
tensor there is, is known only when it runs. So a note is a function: of the loop variables and the place of
the block to rows, each an effect with the addresses of its operands, or to calls of array functions. Lowering
leaves notes out unless it is asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ascendsim.isa.effects import Box, Effect
from ascendsim.isa.instructions import Affine, Barrier, Instruction, Scalar, SetFlag, Statement, WaitFlag
from ascendsim.isa.walk import static

Origin: TypeAlias = tuple[tuple[str, int], ...]  # by `origin`'s name of an axis: first index of a share
Arrays: TypeAlias = Sequence[NDArray[Any]]


def origin(axis: str) -> Affine:
    """The first index of a block's share along an axis, to be added to indices in the share."""
    return Affine(0, ((f"@{axis}", 1),))


@dataclass(frozen=True, slots=True)
class Frame:
    """Where an instruction stands at one moment.

    Attributes:
        variables: Of the loops around it, and the first indices of the block's share (`origin`).
        target: First byte of what it writes on the chip, in its buffer; 0 for global memory.
        sources: The same of what it reads, in order.
    """

    variables: Mapping[str, int]
    target: int
    sources: tuple[int, ...]

    def at(self, index: Affine) -> int:
        """The value of an index."""
        return index.at(self.variables)

    def first(self, axis: str) -> int:
        """The first index of the block's share along an axis."""
        return self.variables[f"@{axis}"]


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction of the chip.

    Attributes:
        effect: What it does, operands at 0. Rows of one kind share the object.
        addresses: Of its operands, in the order of `Effect.boxes`.
    """

    effect: Effect
    addresses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the arrays that boxes on the chip hold, for arithmetic that has no effect of its own yet.

    Attributes:
        writes, reads: Boxes; their arrays have the counts of the boxes as shape.
        function: Gives the arrays that are written, from those that are read.
    """

    writes: tuple[Box, ...]
    reads: tuple[Box, ...]
    function: Callable[[Arrays], Arrays]


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor's part that arithmetic works on: rows x columns of the iteration space, or what of these the
    tensor has.

    Attributes:
        region: The tensor; "" = what the Cube has made.
        over: "all", "row", "col" or "one".
        box: Where it lies: in three dims blocks of columns, rows, columns of a block; in two rows, columns;
            in one, values.
        count: Of values in one dim: how many of them there are; the rest reads as zeros.
    """

    region: str
    over: str
    box: Box
    count: int = 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """The operators' own kernels on one tile: a part of the output from parts of inputs.

    Attributes:
        target: What is made.
        sources: What it is made of.
        rows, columns: Sizes of the tile.
        first: First row and column of the tile in the whole iteration space.
        whole_rows: Whether rows are reduced or normalised: columns are all of a row.
        under: Of windows over rows of maps: rows of the first source that are there, the first and the one
            behind the last; () of all others.
    """

    target: Part
    sources: tuple[Part, ...]
    rows: int
    columns: int
    first: tuple[int, int] = (0, 0)
    whole_rows: bool = False
    under: tuple[int, int] | tuple[()] = ()


@dataclass(frozen=True, slots=True)
class Carry:
    """Elements that an operator moves from one tensor to another, by way of UB.

    Which element goes where follows from the operator. They are counted in the order in which they lie in the
    target, padding left out, and tiles are parts of the whole.

    Attributes:
        source, target: Tensors.
        phase: "in" = they come to UB, packed in the order of the source if `turned`, else as they lie in the
            target; "turn" = the vector unit brings them in the order of the target; "out" = they leave.
        first, end, total: Where the tile begins and ends, and what stands for all elements.
        turned: Whether the vector unit turns them.
        addresses: First byte of what is written and of what is read in UB.
    """

    source: str
    target: str
    phase: str
    first: int
    end: int
    total: int
    turned: bool
    addresses: tuple[int, int]


Item: TypeAlias = Row | Call | Kernel | Carry
Note: TypeAlias = Callable[[Frame], Sequence[Item]]


class Chain:
    """Notes of several instructions that compute one thing in steps: all of it is done at the last one, from
    what the first one reads.

    Args:
        make: Gives the work, of a frame with the sources of the first and the target of the last.
    """

    def __init__(self, make: Note) -> None:
        self._make = make
        self._sources: tuple[int, ...] = ()

    def part(self, number: int, of: int) -> Note:
        """The note of instruction `number`."""
        if of == 1:
            return self._make
        return self._first if number == 0 else self._last if number == of - 1 else nothing

    def _first(self, frame: Frame) -> Sequence[Item]:
        self._sources = frame.sources
        return ()

    def _last(self, frame: Frame) -> Sequence[Item]:
        return self._make(replace(frame, sources=self._sources))


def nothing(frame: Frame) -> Sequence[Item]:
    """The note of an instruction whose work is told by another one's."""
    return ()


def as_matrix(array: NDArray[Any]) -> NDArray[Any]:
    """Blocks of columns, rows, columns of a block as rows and columns; other arrays as they are."""
    return array.transpose(1, 0, 2).reshape(array.shape[1], -1) if array.ndim == 3 else array


def from_matrix(array: NDArray[Any], box: Box) -> NDArray[Any]:
    """A matrix as a box has it."""
    if len(box.dims) < 3:
        return array.reshape([count for count, _ in box.dims])
    (blocks, _), (rows, _), (columns, _) = box.dims
    return array.reshape(rows, blocks, columns).transpose(1, 0, 2)


def works(instruction: Instruction) -> bool:
    """Whether an instruction does something to data."""
    if isinstance(instruction, Scalar):
        return bool(instruction.dsts or instruction.srcs)
    return not isinstance(instruction, SetFlag | WaitFlag | Barrier)


def without_notes(body: Iterable[Statement]) -> Iterator[Instruction]:
    """Instructions of a block's text that work on data and do not say how."""
    for instruction, _ in static(body):
        if works(instruction) and not callable(getattr(instruction, "effect", None)):
            yield instruction
