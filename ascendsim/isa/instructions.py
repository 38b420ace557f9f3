"""What a core executes: instructions with operands, loops, flags.

A block program is a nest of `Loop`s over instructions in program order. The scalar unit walks it and puts
every instruction into the queue of its pipe; pipes run in order and are ordered among each other by counting
flags only. Operands name buffer, allocation, slot and offset, so capacity and hazards can be checked on the
same text that is timed.

Instructions that work on data may carry an `effect`: what they read, write and compute to the byte, for those
who compute values by them. Times never depend on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Union

from ascendsim.core.formats import BLOCK_BYTES, FRACTAL_BYTES
from ascendsim.core.records import quickly_made


class Pipe(Enum):
    """In-order units of a core."""

    S = "S"  # scalar: flow control, issue
    M = "M"  # cube
    V = "V"  # vector
    MTE1 = "MTE1"  # L1 -> L0A, L0B (and L1 -> UB)
    MTE2 = "MTE2"  # GM -> L1, UB
    MTE3 = "MTE3"  # UB -> GM, L1
    FIX = "FIX"  # L0C -> GM, L1 (split cores)

    __hash__ = object.__hash__  # as in `DType`


class Buffer(Enum):
    """Where an operand lies."""

    GM = "GM"
    L1 = "L1"
    L0A = "L0A"
    L0B = "L0B"
    L0C = "L0C"
    UB = "UB"
    BT = "BT"  # bias table (split cores)

    __hash__ = object.__hash__  # as in `DType`


# Start addresses of allocations: whole fractals in L0, blocks of 32 B in L1 and UB (Ascend C, alignment
# rules).
ALIGNMENT = {
    Buffer.L1: BLOCK_BYTES,
    Buffer.UB: BLOCK_BYTES,
    Buffer.L0A: FRACTAL_BYTES,
    Buffer.L0B: FRACTAL_BYTES,
    Buffer.L0C: 64,
    Buffer.BT: 64,
}


@quickly_made
@dataclass(frozen=True, slots=True)
class Affine:
    """base + sum(coefficient * loop variable).

    >>> Affine(4, (("i", 2),)).at({"i": 3})
    10
    """

    base: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def at(self, variables: Mapping[str, int]) -> int:
        value = self.base
        for name, step in self.terms:  # a loop: this is asked a hundred thousand times a compilation
            value += step * variables[name]
        return value

    def __str__(self) -> str:
        parts = [str(self.base)] if self.base or not self.terms else []
        parts += [name if step == 1 else f"{step}*{name}" for name, step in self.terms]
        return " + ".join(parts)


ZERO = Affine()


@quickly_made
@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of an on-chip buffer, cut in equal slots (2 = double buffer).

    Attributes:
        offset: Byte offset of slot 0 in the buffer.
        slot_bytes: Bytes of one slot.
        part: Which of the parts of a block it serves that run one after the other; those of different parts
            may share bytes.
    """

    name: str
    buffer: Buffer
    offset: int
    slot_bytes: int
    slots: int = 1
    part: int = 0

    @property
    def bytes(self) -> int:
        return self.slot_bytes * self.slots


@quickly_made
@dataclass(frozen=True, slots=True)
class Operand:
    """Bytes that an instruction reads or writes.

    Attributes:
        buffer: GM or an on-chip buffer.
        name: The allocation (on chip) or the memory region (GM: a tensor or workspace name of the program).
        bytes: Footprint in bytes.
        offset: Byte offset in the slot (on chip) or in the region (GM).
        slot: Number of the slot, taken modulo the allocation's slot count; always 0 in GM.
    """

    buffer: Buffer
    name: str
    bytes: int
    offset: Affine = ZERO
    slot: Affine = ZERO


@quickly_made
@dataclass(frozen=True, slots=True)
class Move:
    """DMA: `bursts` pieces of `burst_bytes` each, between GM and a buffer or between two buffers.

    Attributes:
        kind: "copy", "nd2nz" (layout change on the way in), "load2d" (fractals L1 -> L0), "fixpipe" (L0C
            out), "bias", "aipp" (images converted on the way into L1; the target gets more bytes than the
            bursts hold).
        src_stride, dst_stride: Bytes from the start of one burst to the next (0 = contiguous).
        aligned: Whether every burst starts on a GM transaction boundary (512 B).
        cached: Whether a read goes through L2 (Ascend C: a tensor whose L2 cache hint is CACHE_MODE_DISABLE
            does not).
        atomic: "add", "max" or "min": what becomes of the bytes in GM and those that arrive; "" = these
            replace them.
    """

    pipe: Pipe
    dst: Operand
    src: Operand
    bursts: int
    burst_bytes: int
    kind: str = "copy"
    src_stride: int = 0
    dst_stride: int = 0
    aligned: bool = True
    cached: bool = True
    atomic: str = ""
    effect: Hashable | None = None

    @property
    def bytes(self) -> int:
        return self.bursts * self.burst_bytes


LOAD3D_STRIDES = (1, 2, 4, 8)  # that load3d has a rate for; others come at its least one (vendor's table)


@quickly_made
@dataclass(frozen=True, slots=True)
class Img2Col:
    """load3d on MTE1: unfolds a feature-map tile of L1 into fractals of L0A (or L0B).

    Attributes:
        bytes: Bytes produced in L0.
        stride_w: Stride of the convolution along W.
        input_rows: Input rows that one fractal (16 output positions) spans.
    """

    dst: Operand
    src: Operand
    bytes: int
    stride_w: int = 1
    input_rows: int = 1
    pipe: Pipe = Pipe.MTE1
    effect: Hashable | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class Mmad:
    """c[m, n] (+)= a[m, k] @ b[k, n] on the Cube; sizes are the useful ones, the unit rounds up to whole
    blocks.

    Attributes:
        accumulate: Whether it adds to what is in `dst`.
        fresh_at: Loop variables; while all of them are 0 it starts anew in spite of `accumulate` (the first
            step of k).
        bias: Columns of the bias table that it takes when it starts anew.
        hf32: Whether float32 operands are cut to HF32 (Ascend C: SetHF32).
    """

    dst: Operand  # L0C
    a: Operand  # L0A
    b: Operand  # L0B
    m: int
    k: int
    n: int
    dtype: str = "float16"
    accumulate: bool = True
    pipe: Pipe = Pipe.M
    fresh_at: tuple[str, ...] = ()
    bias: Operand | None = None
    effect: Hashable | None = None
    hf32: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class Vector:
    """One vector instruction over `elements` elements (or the L0C -> UB move of coupled cores).

    Attributes:
        op: Intrinsic name: "vadd", "vexp", "vconv", "vcadd", "vnchwconv", "l0c_to_ub" ...
        dtype: Name of the widest operand's element type.
        elements: Elements of one call.
        bank_conflict: Further turns of a repeat because blocks lie in the same bank groups of UB
            (`isa.banks`).
        write_conflict: Whether a repeat reads and writes the same bank.
        calls: Number of instructions of this kind that the item stands for (a short inner loop that is issued
            in one go, for example rows of a reduction); each pays its own repeat rounding.
    """

    op: str
    dtype: str
    elements: int
    dst: Operand
    srcs: tuple[Operand, ...]
    calls: int = 1
    bank_conflict: int = 0
    pipe: Pipe = Pipe.V
    write_conflict: bool = False
    effect: Hashable | None = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """Work of the scalar unit itself, for example address computation or an element-by-element path.

    Attributes:
        dsts, srcs: What it writes and reads in UB, if anything.
    """

    cycles: int
    what: str = ""
    pipe: Pipe = Pipe.S
    dsts: tuple[Operand, ...] = ()
    srcs: tuple[Operand, ...] = ()
    effect: Hashable | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class SetFlag:
    """Adds one to a flag when everything before it in `pipe` is complete. Does not hold the pipe up.

    Attributes:
        unit_flag: Ascend C's UnitFlag, from mmad to FIXPIPE on split cores: FIXPIPE follows the last mmad
            unit by unit of 512 B, so the flag is there as soon as FIXPIPE, which stores at its own rate, will
            not overtake it.
    """

    pipe: Pipe
    flag: str
    unit_flag: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class WaitFlag:
    """Holds `pipe` until the flag is above zero, then takes one away."""

    pipe: Pipe
    flag: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Holds the later instructions of `pipe` until the results of its earlier ones are there.

    The scalar unit issues for all pipes, so that a barrier in S holds all of them: Ascend C's PIPE_ALL.
    """

    pipe: Pipe


@quickly_made
@dataclass(frozen=True, slots=True)
class Flag:
    """A counting flag from one pipe to another; `initial` > 0 stands for free buffer slots.

    `limit` is the largest count that makes sense (slots of the buffer); exceeding it is a program error.
    A `shared` flag is a barrier: it fires in all blocks of a task when every one of them has set its own flag
    of this name as often. Such a task starts when all its blocks have a core.
    `event` makes it one of the chip's own flags, which are binary: its number among those of the two pipes.
    """

    name: str
    source: Pipe
    target: Pipe
    initial: int = 0
    limit: int = 16
    shared: bool = False
    event: int | None = None

    @property
    def text(self) -> str:
        """What people call it.

        >>> Flag("full", Pipe.MTE2, Pipe.V).text, Flag("f", Pipe.MTE2, Pipe.V, event=3).text
        ("flag 'full'", 'MTE2_V 3')
        """
        if self.event is None:
            return f"flag {self.name!r}"
        return f"{self.source.value}_{self.target.value} {self.event}"


@dataclass(frozen=True, slots=True)
class CrossFlag:
    """A counter of split chips by which cores tell one another how far they are; any pipe sets it, any waits.

    Attributes:
        name: What `SetFlag` and `WaitFlag` call it.
        mode: 0: it counts when all blocks of the task on this kind of core have set it; 1: when all vector
            cores of the team have; 2: the cube core of a team sets it for the vector cores, and these, all of
            them, for the cube core.
        id: Its number on the chip.
    """

    name: str
    mode: int
    id: int

    @property
    def text(self) -> str:
        """What people call it."""
        return f"cross-core flag {self.id}"


@quickly_made
@dataclass(frozen=True, slots=True)
class Loop:
    """`body` repeated for variable = 0 .. trips - 1. Never unrolled."""

    variable: str
    trips: int
    body: tuple[Statement, ...]


Instruction = Union[Move, Img2Col, Mmad, Vector, Scalar, SetFlag, WaitFlag, Barrier]
Statement = Union[Instruction, Loop]
