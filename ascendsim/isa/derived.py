"""Instructions with their cost fields, worked out from effects: one function a kind.

Operands name pieces of on-chip memory that `Place` finds for them; the machine orders results of vector
instructions by these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, suggest
from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES
from ascendsim.isa.banks import Blocks, Conflicts, conflicts
from ascendsim.isa.derived_cube import ATOMICS, CUBE
from ascendsim.isa.effects import REPEAT_BLOCKS, Box, Effect
from ascendsim.isa.instructions import Buffer, Instruction, Move, Operand, Pipe, Scalar, Vector
from ascendsim.soc.spec import SocSpec


class Place(Protocol):
    """Finds the operand that stands for a box."""

    def __call__(self, box: Box) -> Operand: ...


@dataclass(frozen=True, slots=True)
class Chip:
    """What derivations need of a chip.

    Attributes:
        soc: The chip.
    """

    soc: SocSpec


Derivation = Callable[[Effect, Pipe, Place, Chip], Instruction]


def instruction(effect: Effect, pipe: Pipe, place: Place, chip: Chip) -> Instruction:
    """The instruction that has an effect, with every field that its cost depends on.

    Raises:
        CompileError: No derivation is known for its kind.
    """
    cube = CUBE.get(effect.kind)
    if cube is not None:
        return cube(effect, pipe, place)
    derive = DERIVED.get(effect.kind)
    if derive is None:
        raise CompileError(
            f"effect of kind {effect.kind!r}",
            "has no instruction",
            remedy=suggest(effect.kind, [*DERIVED, *CUBE]),
        )
    return derive(effect, pipe, place, chip)


def pieces(box: Box) -> tuple[int, int, int]:
    """A box as bursts of a transfer: how many, bytes of each, bytes from one to the next.

    >>> pieces(Box(Buffer.GM, "x", DType.FLOAT16, ((4, 64), (16, 2))))
    (4, 32, 64)
    >>> pieces(Box(Buffer.GM, "x", DType.FLOAT16, ((4, 32), (16, 2))))
    (1, 128, 128)
    """
    length, rest = box.dtype.itemsize, list(box.dims)
    while rest and (rest[-1][0] == 1 or rest[-1][1] == length):
        length *= rest.pop()[0]
    if not rest:
        return 1, length, length
    count, step = rest[-1]
    for more, distance in reversed(rest[:-1]):
        if distance != step * count and more > 1:
            raise CompileError(
                "a transfer", "takes pieces at equal distances", box.dims, "make several transfers of it"
            )
        count *= more
    return count, length, step


def bursts(effect: Effect) -> tuple[int, int, int, int]:
    """A transfer as equal pieces: how many, bytes of each, and bytes from one to the next in the target and
    in the source. With the parameter "padded" the rows of its boxes stay apart.
    """
    target, source = effect.writes[0], effect.reads[0]
    if effect.parameter("padded"):
        (number, of_step), (length, size) = source.dims
        return number, length * size, target.dims[0][1], of_step
    to, of = pieces(target), pieces(source)
    number = max(to[0], of[0])
    if number % to[0] or number % of[0] or to[0] * to[1] != of[0] * of[1]:
        raise CompileError(
            "a transfer", "takes as many bytes as it gives", f"{of[0] * of[1]} and {to[0] * to[1]}"
        )
    length = to[0] * to[1] // number
    return number, length, to[2] if to[0] == number else length, of[2] if of[0] == number else length


def _copy(effect: Effect, pipe: Pipe, place: Place, chip: Chip) -> Move:
    target, source = effect.writes[0], effect.reads[0]
    number, length, to_step, of_step = bursts(effect)
    return Move(
        pipe,
        place(target),
        place(source),
        number,
        length,
        src_stride=of_step if number > 1 else 0,
        dst_stride=to_step if number > 1 else 0,
        aligned=all(_on_boundary(box) for box in (target, source) if box.buffer is Buffer.GM),
        cached=not effect.parameter("uncached"),
        atomic=ATOMICS[effect.parameter("atomic")],
        effect=effect,
    )


def _on_boundary(box: Box) -> bool:
    """Whether every burst starts on a boundary of a transaction of global memory, in every trip."""
    number, _, step = pieces(box)
    starts = (box.offset.base, *(distance for _, distance in box.offset.terms), step if number > 1 else 0)
    return not any(start % TRANSACTION_BYTES for start in starts)


def _vector(effect: Effect, pipe: Pipe, place: Place, chip: Chip) -> Vector:
    """Elements so that they make as many repeats as the effect has; a mask costs nothing."""
    boxes = effect.boxes
    widest = max(boxes, key=lambda box: (box.elements * box.dtype.itemsize > 0, box.dtype.itemsize))
    if effect.kind in _BY_SOURCE:
        widest = effect.reads[effect.parameter("by")]
    elements = effect.parameter("elements")
    if not elements:
        elements = widest.elements
        if len(widest.dims) == 3:
            elements = widest.dims[0][0] * chip.soc.vector.repeat_bytes // widest.dtype.itemsize
    turns, read_write = _bank_conflicts(effect, chip.soc.vector.bank_groups)
    return Vector(
        effect.intrinsic,
        _costed(widest.dtype).value,
        elements,
        place(effect.writes[0]),
        tuple([place(box) for box in effect.reads]),
        pipe=pipe,
        bank_conflict=turns,
        write_conflict=read_write,
        effect=effect,
    )


def _bank_conflicts(effect: Effect, groups: int | None) -> Conflicts:
    """Conflicts of one repeat, in the first trip of all loops (large tiles move by whole turns of the
    groups).
    """
    if groups is None:
        return Conflicts(0, False)
    reads = [_blocks(box) for box in effect.reads if box.buffer is Buffer.UB]
    return conflicts(reads, _blocks(effect.writes[0]), groups)


def _blocks(box: Box) -> Blocks:
    """The blocks of an operand in one repeat; those without repeats lie in a row."""
    if len(box.dims) == 3:
        return Blocks(box.offset.base, box.dims[1][1] // BLOCK_BYTES, box.dims[1][0])
    count = min(REPEAT_BLOCKS, -(-box.bytes // BLOCK_BYTES))
    return Blocks(box.offset.base, 1, count)


def _costed(dtype: DType) -> DType:
    """The type by which the chip's tables of intrinsics go: bfloat16 is moved and converted as float16."""
    return DType.FLOAT16 if dtype is DType.BFLOAT16 else dtype


def _scalar(effect: Effect, pipe: Pipe, place: Place, chip: Chip) -> Scalar:
    """One access of the scalar unit to memory."""
    on_chip = [[box for box in boxes if box.buffer is Buffer.UB] for boxes in (effect.writes, effect.reads)]
    dsts, srcs = (tuple([place(box) for box in boxes]) for boxes in on_chip)
    return Scalar(
        chip.soc.issue.scalar_element_cycles,
        effect.op.lower(),
        pipe=pipe,
        dsts=dsts,
        srcs=srcs,
        effect=effect,
    )


_BY_SOURCE = {"reduce", "compare"}  # what counts is how much they read
DERIVED: Mapping[str, Derivation] = {
    "copy": _copy,
    "vector": _vector,
    "cast": _vector,
    "reduce": _vector,
    "compare": _vector,
    "select": _vector,
    "broadcast": _vector,
    "gather": _vector,
    "transpose": _vector,
    "permute": _vector,
    "scalar": _scalar,
}
