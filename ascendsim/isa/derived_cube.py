"""The Cube's instructions with their cost fields, worked out from effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ascendsim.core.formats import FRACTAL_BYTES, L0C_ELEMENT_BYTES, TRANSACTION_BYTES, align
from ascendsim.isa.effects import Box, Effect
from ascendsim.isa.instructions import Buffer, Img2Col, Mmad, Move, Operand, Pipe, Vector

Place = Callable[[Box], Operand]
FRACTAL_ROWS = 16
ATOMICS = ("", "add", "max", "min")  # what the parameter "atomic" of an effect counts


def on_boundary(box: Box) -> bool:
    """Whether every row of a box of global memory starts on a boundary of a transaction, in every trip."""
    starts = [box.offset.base, *[distance for _, distance in box.offset.terms]]
    starts += [step for count, step in box.dims[:-1] if count > 1]
    return not any(start % TRANSACTION_BYTES for start in starts)


def nd2nz(effect: Effect, pipe: Pipe, place: Place) -> Move:
    """Rows of a matrix, each a burst."""
    source, target = effect.reads[0], effect.writes[0]
    (matrices, _), (rows, step), (columns, size) = source.dims
    return Move(
        pipe,
        place(target),
        place(source),
        matrices * rows,
        columns * size,
        kind="nd2nz",
        src_stride=step if rows > 1 else 0,
        aligned=source.buffer is not Buffer.GM or on_boundary(source),
        cached=not effect.parameter("uncached"),
        effect=effect,
    )


def load2d(effect: Effect, pipe: Pipe, place: Place) -> Move:
    """Fractals, each a burst."""
    source, target = effect.reads[0], effect.writes[0]
    number = source.bytes // FRACTAL_BYTES
    return Move(
        pipe,
        place(target),
        place(source),
        number,
        FRACTAL_BYTES,
        kind="load2d" if source.buffer is Buffer.L1 else "copy",
        src_stride=source.dims[0][1] if number > 1 else 0,
        dst_stride=target.dims[0][1] if number > 1 else 0,
        aligned=source.buffer is not Buffer.GM or on_boundary(source),
        effect=effect,
    )


def load3d(effect: Effect, pipe: Pipe, place: Place) -> Img2Col:
    """Bytes produced, and how many rows of the output the positions of one fractal reach over at most."""
    width, start = effect.parameter("output_width"), effect.parameter("m_start")
    rows = 1
    for first in range(start, start + effect.parameter("m_count"), FRACTAL_ROWS):
        rows = max(rows, (first + FRACTAL_ROWS - 1) // width - first // width + 1)
    return Img2Col(
        place(effect.writes[0]),
        place(effect.reads[0]),
        effect.writes[0].bytes,
        effect.parameter("stride_w"),
        rows,
        pipe,
        effect,
    )


def mmad(effect: Effect, pipe: Pipe, place: Place) -> Mmad:
    """Sizes of the product."""
    fresh = bool(effect.parameter("fresh"))
    left, right = effect.reads[:2]
    return Mmad(
        place(effect.writes[0]),
        place(left),
        place(right),
        effect.parameter("m"),
        effect.parameter("k"),
        effect.parameter("n"),
        left.dtype.value,
        not fresh,
        pipe,
        bias=place(effect.reads[2]) if len(effect.reads) > 2 else None,
        effect=effect,
    )


def fixpipe(effect: Effect, pipe: Pipe, place: Place) -> Move | Vector:
    """Rows of the target, each a burst; the vector unit of coupled cores moves elements instead."""
    target, source = effect.writes[0], effect.reads[0]
    if effect.intrinsic:
        return Vector(
            effect.intrinsic,
            "float32",
            source.elements,
            place(target),
            (place(source),),
            pipe=pipe,
            effect=effect,
        )
    matrices, rows, columns = effect.reads[0].dims[0][0], effect.parameter("m"), effect.parameter("n")
    taken = align(columns, FRACTAL_ROWS) * rows * matrices * L0C_ELEMENT_BYTES
    size = target.dtype.itemsize
    if effect.parameter("rows"):
        number, length, step = matrices * rows, columns * size, target.dims[1][1]
    else:
        number, length, step = target.dims[1][0], target.bytes // target.dims[1][0], target.dims[1][1]
    return Move(
        pipe,
        place(target),
        # the footprint is what is taken, not what lies between: by it FIXPIPE's time goes
        replace(place(source), bytes=taken),
        number,
        length,
        kind="fixpipe",
        dst_stride=step if number > 1 else 0,
        # rows of a block of columns follow one another without gaps: only where the block begins counts
        aligned=target.buffer is not Buffer.GM
        or on_boundary(replace(target, dims=(*target.dims[:2], target.dims[-1]))),
        atomic=ATOMICS[effect.parameter("atomic")],
        effect=effect,
    )


CUBE: Mapping[str, Callable[[Effect, Pipe, Place], Move | Img2Col | Mmad | Vector]] = {
    "nd2nz": nd2nz,
    "load2d": load2d,
    "load3d": load3d,
    "mmad": mmad,
    "fixpipe": fixpipe,
}
