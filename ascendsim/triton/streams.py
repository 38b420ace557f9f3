"""A recorded stream as a block of the machine: every instruction in its pipe, with its operands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ascendsim.isa.banks import Blocks, conflicts
from ascendsim.isa.instructions import (
    Affine,
    Allocation,
    Barrier,
    Buffer,
    CrossFlag,
    Flag,
    Img2Col,
    Mmad,
    Move,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.instructions import Vector as VectorInstruction
from ascendsim.isa.program import Block, CoreKind
from ascendsim.soc.spec import SocSpec
from ascendsim.triton.decoding import (
    KINDS,
    QUIET,
    REPEAT_BYTES,
    Copy,
    Registers,
    Side,
    Transposition,
    Vector,
    copy,
    transposition,
    unknown,
    vector,
)

Row = tuple[str, tuple[int, ...]]
WORKSPACE = "workspace"
_PLACE = (1 << 44) - 1
_TRANSACTION = 512
PIPES = {
    0: Pipe.S, 1: Pipe.V, 2: Pipe.M, 3: Pipe.MTE1, 4: Pipe.MTE2, 5: Pipe.MTE3, 6: Pipe.S, 10: Pipe.FIX,
}  # fmt: skip
BUFFERS = {
    1: Buffer.GM, 2: Buffer.L1, 3: Buffer.L0A, 4: Buffer.L0B, 5: Buffer.L0C, 6: Buffer.UB,
}  # fmt: skip
_DTYPES = {
    "f32": "float32", "f16": "float16", "bf16": "float16", "s32": "int32", "u32": "uint32", "s16": "int16",
    "u16": "uint16", "b16": "uint16", "b32": "uint32", "s64": "int64", "s8": "int8", "u8": "uint8",
}  # fmt: skip
_PRODUCTS = {
    "f162f32": ("float16", 2), "bf162f32": ("bfloat16", 2),
    "f322f32": ("float32", 4), "s8": ("int8", 1),
}  # fmt: skip
# Cycles of the scalar unit for an address computation or a register, and for a jump: assumed, as no public
# source has them; an in-order unit takes one an instruction.
SCALAR_CYCLES = 1
JUMP_CYCLES = 2
_CROSS = re.compile(r"sync_block_(set|wait)\.(\w+)\.\w+$")


class Streams:
    """Makes blocks of streams.

    Args:
        soc: The chip.
        regions: Name, first byte and end of each array in global memory.

    Attributes:
        moved: Bytes by region and whether they are written, of the last block.
    """

    def __init__(self, soc: SocSpec, regions: Sequence[tuple[str, int, int]]) -> None:
        self._soc, self._regions = soc, regions
        self.moved: Counter[tuple[str, bool]] = Counter()

    def block(self, rows: Iterable[Row], core: CoreKind) -> Block:
        """The block of a stream.

        Raises:
            KernelError: An instruction is not known.
        """
        self._body: list[Statement] = []
        self._allocations: dict[str, Allocation] = {}
        self._flags: dict[str, Flag] = {}
        self._cross: dict[str, CrossFlag] = {}
        self._registers = Registers.fresh()
        self.moved = Counter()
        for name, words in rows:
            self._row(name, words)
        return Block(
            tuple(self._body),
            tuple(self._allocations.values()),
            tuple(self._flags.values()),
            core,
            tuple(self._cross.values()),
        )

    def _row(self, name: str, words: tuple[int, ...]) -> None:
        if ".FLAG." in name:
            self._flag(name[0] == "S", words)
            return
        if name == "BARRIER":
            self._body.append(Barrier(PIPES[words[0]]))
            return
        crossing = _CROSS.match(name)
        if crossing is not None:
            flag = f"cross {words[0]}"
            self._cross[flag] = CrossFlag(flag, 2, words[0])
            kind: Callable[[Pipe, str], Statement] = SetFlag if crossing[1] == "set" else WaitFlag
            self._body.append(kind(Pipe[crossing[2]], flag))
            return
        if self._registers.take(name, words):
            self._scalar(name, words)
            return
        one = vector(name, words)
        if one is not None:
            self._vector(one)
            return
        turned = transposition(name, words, self._registers)
        if turned is not None:
            self._transpose(turned)
            return
        moved = copy(name, words)
        if moved is not None:
            self._copy(name, moved)
            return
        self._cube(name, words)

    def _operand(self, address: int, length: int) -> Operand:
        space, place = address >> 44, address & _PLACE
        if space == 1:
            for name, start, end in self._regions:
                if start <= place < end:
                    return Operand(Buffer.GM, name, length, Affine(place - start))
            return Operand(Buffer.GM, WORKSPACE, length, Affine(place))
        buffer = BUFFERS[space]
        name = f"{buffer.value} {place:#x}"
        known = self._allocations.get(name)
        if known is None or known.slot_bytes < length:
            self._allocations[name] = Allocation(name, buffer, place, -(-length // 32) * 32)
        return Operand(buffer, name, length)

    def _flag(self, sets: bool, words: tuple[int, ...]) -> None:
        source, target, event = PIPES[words[0]], PIPES[words[1]], words[2]
        name = f"{source.value}_{target.value} {event}"
        self._flags.setdefault(name, Flag(name, source, target))
        self._body.append(SetFlag(source, name) if sets else WaitFlag(target, name))

    def _scalar(self, name: str, words: tuple[int, ...]) -> None:
        cycles = SCALAR_CYCLES
        srcs: tuple[Operand, ...] = ()
        dsts: tuple[Operand, ...] = ()
        if name in ("loop", "branch"):
            cycles = JUMP_CYCLES
        elif name in ("s.ld", "S.LOAD", "s.st", "S.STORE"):
            cycles = self._soc.issue.scalar_element_cycles
            if words[0] >> 44 == 6:
                place = (self._operand(words[0] & ~31, 32),)
                srcs, dsts = (place, ()) if name in ("s.ld", "S.LOAD") else ((), place)
        elif name in QUIET and name not in ("GET.BLOCK.IDX", "GET.MAX.MIN.CNT", "s.alu"):
            return
        self._body.append(Scalar(cycles, name, dsts=dsts, srcs=srcs))

    def _vector(self, one: Vector) -> None:
        op = {"MOVEV": "vectordup"}.get(one.op, one.op.lower())
        if one.op in ("VCMPV", "VCMPVS"):
            op = f"{op}_{one.detail.lower()}"
        width = KINDS[one.kind]
        lanes = REPEAT_BYTES // max(width, 2)
        elements = one.repeats * lanes
        if self._registers.counting:
            elements = self._registers.mask[0]
            if one.op == "VCOPY":  # for each repeat
                elements = one.repeats * -(-elements // lanes) * lanes
        dtype = _DTYPES[one.kind]
        turns = conflicts(
            [_blocks(side) for side in one.srcs], _blocks(one.dst), self._soc.vector.bank_groups or 1
        )
        self._body.append(
            VectorInstruction(
                op,
                dtype,
                max(1, elements),
                self._operand(one.dst.address, _bytes(one.dst, elements, one)),
                tuple([self._operand(side.address, _bytes(side, elements, one)) for side in one.srcs]),
                bank_conflict=turns.turns,
                write_conflict=turns.read_write,
            )
        )

    def _transpose(self, one: Transposition) -> None:
        lengths = [
            max(addresses) - min(addresses) + 32 + (one.repeats - 1) * step
            for addresses, step in ((one.dst, one.dst_step), (one.src, one.src_step))
        ]
        target, source = self._operand(min(one.dst), lengths[0]), self._operand(min(one.src), lengths[1])
        dtype = {1: "uint8", 2: "uint16", 4: "uint32"}[one.itemsize]
        elements = one.repeats * 16 * 32 // one.itemsize
        self._body.append(VectorInstruction("vnchwconv", dtype, elements, target, (source,)))

    def _copy(self, name: str, one: Copy) -> None:
        padded = one.length + (one.left + one.right) * one.itemsize
        spans = [
            (one.bursts - 1) * step + length
            for step, length in ((one.dst_step, padded), (one.src_step, one.length))
        ]
        dst, src = self._operand(one.dst, spans[0]), self._operand(one.src, spans[1])
        pipe = Pipe.V if dst.buffer is src.buffer else Pipe.MTE2 if src.buffer is Buffer.GM else Pipe.MTE3
        outside = one.src if src.buffer is Buffer.GM else one.dst
        step = one.src_step if src.buffer is Buffer.GM else one.dst_step
        aligned = outside % _TRANSACTION == 0 and (one.bursts == 1 or step % _TRANSACTION == 0)
        steps = (0, 0) if one.bursts == 1 else (one.src_step, one.dst_step)
        self._body.append(
            Move(
                pipe,
                dst,
                src,
                one.bursts,
                one.length,
                aligned=aligned,
                atomic=self._registers.atomic[1] if dst.buffer is Buffer.GM else "",
                src_stride=steps[0],
                dst_stride=steps[1],
            )
        )
        self._account(dst, src, one.bursts * one.length)

    def _account(self, dst: Operand, src: Operand, length: int) -> None:
        for operand, written in ((dst, True), (src, False)):
            if operand.buffer is Buffer.GM:
                self.moved[operand.name, written] += length

    def _cube(self, name: str, words: tuple[int, ...]) -> None:
        parts = name.split(".")
        if "ND2NZ" in parts:
            self._nd2nz(parts[-1], words)
        elif "3DV2" in parts:
            self._unfold(parts, words)
        elif "2D" in parts and "TRANSPOSE" not in parts:
            length = (words[2] >> 16 & 255) * 512
            self._body.append(
                Move(
                    Pipe.MTE1,
                    self._l0(parts, words[0], length),
                    self._operand(words[1], length),
                    1,
                    length,
                    "load2d",
                )
            )
        elif parts[0] == "MAD" and parts[1] in _PRODUCTS:
            self._product(parts[1], words)
        elif name.startswith("FIX.L0C.TO.OUT."):
            self._out(parts[-1], words)
        else:
            raise unknown(name)

    def _l0(self, parts: Sequence[str], address: int, length: int) -> Operand:
        space = 3 if "L0A" in parts else 4
        return self._operand(space << 44 | address & _PLACE, length)

    def _nd2nz(self, kind: str, words: tuple[int, ...]) -> None:
        dst, src, first, second = words
        size = KINDS[kind.rstrip("s") if kind.endswith("2s") else kind]
        matrices, rows, columns = first >> 4 & 0xFFF, first >> 16 & 0xFFFF, first >> 32 & 0xFFFF
        step = (second & 0xFFFF) * size
        source = self._operand(src, (rows - 1) * step + columns * size)
        target = self._operand(dst, -(-rows // 16) * 16 * columns * size)
        aligned = src % _TRANSACTION == 0 and step % _TRANSACTION == 0
        self._body.append(
            Move(
                Pipe.MTE2,
                target,
                source,
                matrices * rows,
                columns * size,
                "nd2nz",
                src_stride=step,
                aligned=aligned,
            )
        )
        self._account(target, source, matrices * rows * columns * size)

    def _unfold(self, parts: Sequence[str], words: tuple[int, ...]) -> None:
        size = KINDS[parts[-1]]
        k, m = words[2] & 0xFFFF, words[2] >> 16 & 0xFFFF
        length = k * m * size
        self._body.append(Img2Col(self._l0(parts, words[0], length), self._operand(words[1], length), length))

    def _product(self, kind: str, words: tuple[int, ...]) -> None:
        dtype, size = _PRODUCTS[kind]
        dst, left, right, word = words
        m, k, n = word & 0xFFF, word >> 12 & 0xFFF, word >> 24 & 0xFFF
        a = self._operand(3 << 44 | left & _PLACE, m * k * size)
        b = self._operand(4 << 44 | right & _PLACE, k * n * size)
        self._body.append(
            Mmad(self._operand(dst, m * n * 4), a, b, m, k, n, dtype, accumulate=not word >> 63)
        )

    def _out(self, kind: str, words: tuple[int, ...]) -> None:
        dst, src, first, _ = words
        size = 4 if kind in ("f32", "s32") else 2
        columns, rows, step = first >> 4 & 0xFFF, first >> 16 & 0xFFFF, (first >> 32) * size
        target = self._operand(dst, (rows - 1) * step + columns * size)
        source = self._operand(src, rows * columns * 4)
        aligned = dst % _TRANSACTION == 0 and step % _TRANSACTION == 0
        self._body.append(
            Move(Pipe.FIX, target, source, rows, columns * size, "fixpipe", dst_stride=step, aligned=aligned)
        )
        self._account(target, source, rows * columns * size)


def _blocks(side: Side) -> Blocks:
    return Blocks(side.address & _PLACE, side.block, 8 if side.block else 1)


def _bytes(side: Side, elements: int, one: Vector) -> int:
    """Bytes that an operand covers, from its first to its last block."""
    if one.op in ("VCADD", "VCMAX", "VCMIN") and side is one.dst:
        return max(32, one.repeats * max(1, side.repeat) * side.itemsize)
    repeats = -(-elements * KINDS[one.kind] // REPEAT_BYTES)
    return max(32, (side.block * 7 + 1) * 32 + side.repeat * 32 * max(0, repeats - 1))
