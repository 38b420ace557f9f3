"""Effects as rows of parameters for the evaluator: one function a kind.

A form's row holds all that is the same in every call; addresses and scalars come with each call, in the order
of `Effect.boxes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, suggest
from ascendsim.isa.derived import bursts
from ascendsim.isa.effects import Box, Effect
from ascendsim.isa.instructions import Buffer
from ascendsim_kernels import tile_atomic as a
from ascendsim_kernels import tile_copy as c
from ascendsim_kernels import tile_cube as u
from ascendsim_kernels import tile_fixpipe as f
from ascendsim_kernels import tile_lanes as v
from ascendsim_kernels import tile_load as d
from ascendsim_kernels import tile_reduce as x
from ascendsim_kernels.tile_cast import Rounding
from ascendsim_kernels.tile_compare import Relation
from ascendsim_kernels.tile_memory import Type
from ascendsim_kernels.tile_run import FORM, Code

Row = NDArray[np.int64]
TYPES = {dtype: int(Type[dtype.name]) for dtype in DType if dtype.name in Type.__members__}
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Where boxes lie and which types their elements have.

    Attributes:
        number: Of the memory that a box lies in.
        types: Codes of element types.
    """

    number: Callable[[Box], int]
    types: Mapping[DType, int]

    def __call__(self, box: Box) -> int:
        return self.number(box)


def encode(effect: Effect | None, number: Callable[[Box], int], saturates: bool = False) -> Row:
    """The parameters of a form; None is one without an effect on memory.

    Args:
        effect: What it does.
        number: Finds the memory of a box.
        saturates: Whether float16 saturates.

    Raises:
        CompileError: The evaluator does not know its kind.
    """
    row = np.zeros(FORM, np.int64)
    if effect is None:
        return row
    write = ENCODERS.get(effect.kind)
    if write is None:
        raise CompileError(
            f"effect of kind {effect.kind!r}", "has no values", remedy=suggest(effect.kind, ENCODERS)
        )
    types = {**TYPES, DType.FLOAT16: int(Type.SATURATING_FLOAT16)} if saturates else TYPES
    write(effect, row, Memory(number, types))
    return row


def _signed(bits: int) -> int:
    """64 bits as the int64 that has them."""
    return bits - (1 << 64) if bits >> 63 else bits


def _copy(effect: Effect, row: Row, memory: Memory) -> None:
    target, source = effect.writes[0], effect.reads[0]
    row[0] = Code.COPY
    row[c.TARGET], row[c.SOURCE] = memory(target), memory(source)
    row[c.PIECES], row[c.LENGTH], row[c.TARGET_STEP], row[c.SOURCE_STEP] = bursts(effect)
    row[c.LEAVES] = target.buffer is Buffer.GM
    row[c.LEFT], row[c.RIGHT] = effect.parameter("left"), effect.parameter("right")
    row[c.PAD], row[c.PAD_BYTES] = _signed(effect.parameter("pad")), effect.parameter("pad_bytes")
    if effect.parameter("atomic"):
        row[0] = Code.MERGE
        row[a.TYPE], row[a.OP] = memory.types[target.dtype], effect.parameter("atomic")


def _nd2nz(effect: Effect, row: Row, memory: Memory) -> None:
    target, source = effect.writes[0], effect.reads[0]
    row[0] = Code.ND2NZ
    row[d.TARGET], row[d.SOURCE], row[d.ELEMENT] = memory(target), memory(source), source.dtype.itemsize
    (row[d.MATRICES], row[d.FROM_MATRIX]), (row[d.ROWS], row[d.FROM_ROW]), (row[d.COLUMNS], _) = source.dims
    (_, row[d.TO_MATRIX]), (_, row[d.TO_BLOCK]), (_, row[d.TO_ROW]), _ = target.dims


def _load2d(effect: Effect, row: Row, memory: Memory) -> None:
    target, source = effect.writes[0], effect.reads[0]
    row[0] = Code.LOAD2D
    row[d.TARGET], row[d.SOURCE], row[d.ELEMENT] = memory(target), memory(source), source.dtype.itemsize
    row[d.REPEATS], row[d.FROM_STEP] = source.dims[0]
    row[d.TO_STEP], row[d.TRANSPOSED] = target.dims[0][1], effect.parameter("transposed")
    if len(source.dims) == 3:
        row[d.FROM_FRACTAL], row[d.TO_FRACTAL] = source.dims[1][1], target.dims[1][1]


def _load3d(effect: Effect, row: Row, memory: Memory) -> None:
    target, source = effect.writes[0], effect.reads[0]
    row[0] = Code.LOAD3D
    row[d.TARGET], row[d.SOURCE], row[d.ELEMENT] = memory(target), memory(source), source.dtype.itemsize
    for name, value in effect.parameters:
        if name != "output_width":
            row[getattr(d, name.upper())] = value
    row[d.ORDER] = {"plain": d.PLAIN, "rows_turned": d.PLAIN_ROWS_TURNED, "turned": d.TURNED}[effect.op]


def _mmad(effect: Effect, row: Row, memory: Memory) -> None:
    row[0] = Code.MMAD
    left, right = effect.reads[:2]
    row[u.TARGET], row[u.A], row[u.B] = memory(effect.writes[0]), memory(left), memory(right)
    row[u.BIAS] = memory(effect.reads[2]) if len(effect.reads) > 2 else -1
    row[u.M], row[u.K], row[u.N] = (effect.parameter(name) for name in "mkn")
    row[u.TYPE], row[u.FRESH] = memory.types[left.dtype], effect.parameter("fresh")


def _fixpipe(effect: Effect, row: Row, memory: Memory) -> None:
    target, source = effect.writes[0], effect.reads[0]
    row[0] = Code.FIXPIPE
    row[f.TARGET], row[f.SOURCE] = memory(target), memory(source)
    row[f.SCALES] = memory(effect.reads[1]) if len(effect.reads) > 1 else -1
    row[f.TO_TYPE], row[f.OF_TYPE] = memory.types[target.dtype], memory.types[source.dtype]
    row[f.ROWS], row[f.COLUMNS], row[f.IN_ROWS] = (effect.parameter(name) for name in ("m", "n", "rows"))
    (row[f.MATRICES], row[f.FROM_MATRIX]), (_, row[f.FROM_BLOCK]) = source.dims[:2]
    (_, row[f.TO_MATRIX]), (_, row[f.TO_STEP]) = target.dims[:2]
    for name in ("scaled", "scale", "relu", "atomic", "split"):
        row[getattr(f, name.upper())] = effect.parameter(name)
    row[f.LEAVES] = target.buffer is Buffer.GM


def _operand(row: Row, number: int, box: Box, memory: Memory) -> None:
    start = v.OPERANDS + number * v.WIDTH
    row[start + v.MEMORY], row[start + v.TYPE] = memory(box), memory.types[box.dtype]
    if len(box.dims) == 3:
        row[start + v.REPEAT_STEP], row[start + v.BLOCK_STEP] = box.dims[0][1], box.dims[1][1]


def _lanes(effect: Effect, row: Row, memory: Memory, op: int, code: Code) -> None:
    """What instructions on lanes have in common: in repeats if their parameters name lanes, else in a row."""
    row[0], row[v.OP] = code, op
    lanes = effect.parameter("lanes")
    row[v.READS] = len(effect.reads)
    for number, box in enumerate(effect.boxes):
        _operand(row, number, box, memory)
    if lanes:
        row[v.REPEATS], row[v.LANES] = effect.parameter("repeats"), lanes
        row[v.MASK_LOW], row[v.MASK_HIGH] = _signed(effect.mask & _WORD), _signed(effect.mask >> 64)
    else:
        row[v.LANES] = effect.writes[0].elements
        row[v.MASK_LOW] = row[v.MASK_HIGH] = -1


def _vector(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, v.Op[effect.op], Code.VECTOR)
    row[v.CONTIGUOUS] = not row[v.REPEATS]


def _cast(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, Rounding[effect.op], Code.CAST)
    row[v.CONTIGUOUS] = not row[v.REPEATS]


def _reduce(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, x.Fold[effect.op], Code.REDUCE)
    if not row[v.REPEATS]:
        row[v.LANES] = effect.reads[0].elements
    row[x.GROUP] = effect.parameter("group")
    row[x.ORDER] = effect.parameter("order")


def _compare(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, Relation[effect.op], Code.COMPARE)
    if not row[v.REPEATS]:
        row[v.LANES] = effect.reads[0].elements


def _select(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, effect.parameter("mode"), Code.SELECT)


def _broadcast(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, 0, Code.BROADCAST)


def _gather(effect: Effect, row: Row, memory: Memory) -> None:
    _lanes(effect, row, memory, 0, Code.GATHER)


def _transpose(effect: Effect, row: Row, memory: Memory) -> None:
    """Rows of the target and of the source move alike: the first of each says how."""
    row[0] = Code.TRANSPOSE
    row[v.REPEATS] = effect.writes[0].dims[0][0]
    for number, box in enumerate((effect.writes[0], effect.reads[0])):
        _operand(row, number, box, memory)


def _permute(effect: Effect, row: Row, memory: Memory) -> None:
    row[0] = Code.PERMUTE
    for number, box in enumerate(effect.boxes):
        _operand(row, number, box, memory)
    for number, (count, step) in enumerate(effect.reads[0].dims):
        row[x.STEPS + 2 * number], row[x.STEPS + 2 * number + 1] = count, step


def _scalar(effect: Effect, row: Row, memory: Memory) -> None:
    """Writing one element is a duplicate of one lane; reading one is done by who asks for it."""
    if effect.writes:
        _lanes(effect, row, memory, v.Op.DUPLICATE, Code.VECTOR)
        row[v.CONTIGUOUS] = 1


ENCODERS: Mapping[str, Callable[[Effect, Row, Memory], Any]] = {
    "copy": _copy,
    "nd2nz": _nd2nz,
    "load2d": _load2d,
    "load3d": _load3d,
    "mmad": _mmad,
    "fixpipe": _fixpipe,
    "vector": _vector,
    "cast": _cast,
    "reduce": _reduce,
    "compare": _compare,
    "select": _select,
    "broadcast": _broadcast,
    "gather": _gather,
    "transpose": _transpose,
    "permute": _permute,
    "scalar": _scalar,
}
