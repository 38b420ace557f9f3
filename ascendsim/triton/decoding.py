"""Instructions of a recorded stream taken apart: operands, strides and repeats out of their packed words.

Fields are those of CCE's registers for dav-c220: strides of vector instructions count blocks of 32 bytes
within a repeat and from repeat to repeat, repeats stand in bits 56 to 63, and are ignored in count mode (bit
56 of the control register), where the mask register holds the number of elements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from ascendsim.core.errors import KernelError

COUNT_MODE = 56  # bit of the control register
REPEAT_BYTES, BLOCK = 256, 32
BINARY = {"VADD", "VSUB", "VMUL", "VDIV", "VMAX", "VMIN", "VAND", "VOR", "VSEL"}
WITH_SCALAR = {"VADDS", "VMULS", "VMAXS", "VMINS", "VSHL", "VSHR"}
UNARY = {"VEXP", "VLN", "VSQRT", "VRSQRT", "VABS", "VNOT", "VREC", "VRELU", "VCOPY", "VCONV"}
FOLDING = {"VCADD", "VCMAX", "VCMIN", "VCGADD", "VCGMAX", "VCGMIN", "VCPADD"}
KINDS = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "s32": 4,
    "u32": 4,
    "s16": 2,
    "u16": 2,
    "b16": 2,
    "b32": 4,
    "b8": 1,
    "s64": 8,
    "s8": 1,
    "u8": 1,
}
_CONVERTED = re.compile(r"(bf16|f32|f16|s32|s16|s64|s8|u8)2(bf16|f32|f16|s32|s16|s64|s8|u8)([raofcz]?)$")


class Side(NamedTuple):
    """An operand in UB.

    Attributes:
        address: First byte.
        block: Blocks of 32 bytes from one block of a repeat to the next.
        repeat: Blocks of 32 bytes from one repeat to the next.
        kind: Element type, such as "f32".
    """

    address: int
    block: int
    repeat: int
    kind: str

    @property
    def itemsize(self) -> int:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Vector:
    """A vector instruction.

    Attributes:
        op: Mnemonic, "VADD".
        kind: Element type that its lanes are counted in: the widest.
        dst, srcs: Operands.
        repeats: As the instruction says; see `lanes` for what counts.
        scalar: Bits of a scalar operand.
        detail: Relation of a comparison, rounding of a conversion.
        mode: Mode of a selection, order of a reduction.
    """

    op: str
    kind: str
    dst: Side
    srcs: tuple[Side, ...]
    repeats: int
    scalar: int = 0
    detail: str = ""
    mode: int = 0


@dataclass
class Registers:
    """What instructions set for later ones.

    Attributes:
        extreme: What GET.MAX.MIN.CNT reads: bits of the last largest or smallest value, and from bit 32 on
            the number of its lane over all repeats.
        addresses: Of the eight address registers eight addresses each, for transposing moves.
    """

    mask: list[int]
    control: int = 0
    pad: int = 0
    compare: int = 0
    image: int = 0
    image_b: int = 0
    nd: int = 1
    extreme: int = 0
    addresses: list[list[int]] = field(default_factory=lambda: [[0] * 8 for _ in range(8)])

    @classmethod
    def fresh(cls) -> Registers:
        return cls([(1 << 64) - 1, (1 << 64) - 1])

    @property
    def counting(self) -> bool:
        return bool(self.control >> COUNT_MODE & 1)

    @property
    def atomic(self) -> tuple[str, str]:
        """Element type and operation ("add", "max", "min") by which stores go to global memory; ("", "") if
        they replace what is there. Bits 6 to 8, and 9 and 10, as the library's stores of each type set them.
        """
        kind = _ATOMIC_KINDS.get(self.control >> 6 & 7)
        if kind is None:
            return "", ""
        operation = self.control >> 9 & 3
        if operation > 2:
            raise KernelError("atomic operation of the compiled kernel", "cannot be run yet", operation)
        return kind, ("add", "max", "min")[operation]

    def take(self, name: str, words: tuple[int, ...]) -> bool:
        """Follows an instruction that sets a register; False if it is none."""
        if name == "MOVEMASK":
            self.mask[words[0] & 1] = words[1]
        elif name == "MOVEVA":
            register, place, *pair = words
            self.addresses[register & 7][place & 6 : (place & 6) + 2] = pair
        elif name == "set_mask_norm":
            self.mask, self.control = [(1 << 64) - 1] * 2, self.control & ~(1 << COUNT_MODE)
        elif name in _SETS:
            setattr(self, _SETS[name], words[0])
        else:
            return name in QUIET or name.startswith("sync_block_")
        return True

    def elements(self, repeats: int, kind: str) -> int:
        """Lanes of a vector instruction that work, over all of its repeats."""
        if self.counting:
            return self.mask[0]
        lanes = REPEAT_BYTES // max(2, KINDS[kind])
        whole = self.mask[0] | self.mask[1] << 64
        return repeats * (whole & ((1 << lanes) - 1)).bit_count()


_ATOMIC_KINDS = {1: "f32", 2: "f16", 3: "s16", 4: "s32", 5: "s8", 6: "bf16"}
_SETS = {
    "SET.CTRL": "control",
    "SET.MOV.PAD.VAL": "pad",
    "SET.CMPMASK": "compare",
    "SET.FMATRIX": "image",
    "SET.FMATRIX.B": "image_b",
    "SET.ND.PARA": "nd",
}
# of no consequence for values: order, and registers that only the instructions left out read
QUIET = {
    "BARRIER", "SET.FLAG.IMM", "WAIT.FLAG.IMM", "SET.FLAG.REG", "WAIT.FLAG.REG", "GET.MAX.MIN.CNT",
    "GET.BLOCK.IDX", "loop", "branch", "s.alu", "s.ld", "s.st", "S.LOAD", "S.STORE", "DCCI",
    "set_ffts_base_addr", "SET.PADDING",
}  # fmt: skip


def vector(name: str, words: tuple[int, ...]) -> Vector | None:
    """A vector instruction's operands; None if it is none that is known here."""
    parts = name.split(".")
    op = parts[0]
    if op == "VCONV":
        return _conversion(parts[1], words)
    if op in ("VCMPV", "VCMPVS"):
        return _comparison(op, parts[1], parts[2], words)
    if op in BINARY:
        word, kind = words[3], parts[1]
        return Vector(op, kind, *_three(words, kind, word), _top(word), mode=word >> 48 & 255)
    if op in WITH_SCALAR:
        dst, src = _two(words[0], words[1], words[3], parts[1], parts[1])
        return Vector(op, parts[1], dst, (src,), _top(words[3]), scalar=words[2])
    if op in UNARY:
        dst, src = _two(words[0], words[1], words[2], parts[1], parts[1])
        return Vector(op, parts[1], dst, (src,), _top(words[2]))
    if op == "MOVEV":
        word, kind = words[2], parts[1]
        return Vector(
            op, kind, Side(words[0], word & 0xFFFF, word >> 32 & 255, kind), (), _top(word), words[1]
        )
    if op in FOLDING:
        word, kind = words[2], parts[1]
        source = Side(words[1], word >> 16 & 0xFFFF, word >> 32 & 0xFFFF, kind)
        order = words[3] if len(words) > 3 else 0
        return Vector(op, kind, Side(words[0], 0, word & 0xFFFF, kind), (source,), _top(word), mode=order)
    if op == "VBRCB":
        word, kind = words[2], parts[1]
        target = Side(words[0], word & 0xFFFF, word >> 32 & 0xFFFF, kind)
        return Vector(op, kind, target, (Side(words[1], 1, 1, kind),), _top(word))
    return None


def _top(word: int) -> int:
    return word >> 56 & 255


def _two(dst: int, src: int, word: int, kind: str, source: str) -> tuple[Side, Side]:
    return (
        Side(dst, word & 0xFFFF, word >> 32 & 255, kind),
        Side(src, word >> 16 & 0xFFFF, word >> 40 & 255, source),
    )


def _three(words: tuple[int, ...], kind: str, word: int) -> tuple[Side, tuple[Side, Side]]:
    sides = [
        Side(address, word >> 8 * at & 255, word >> (24 + 8 * at) & 255, kind)
        for at, address in enumerate(words[:3])
    ]
    return sides[0], (sides[1], sides[2])


def _conversion(name: str, words: tuple[int, ...]) -> Vector | None:
    found = _CONVERTED.match(name)
    if found is None:
        return None
    source, target = found[1], found[2]
    wide = source if KINDS[source] >= KINDS[target] else target
    dst, src = _two(words[0], words[1], words[2], target, source)
    return Vector("VCONV", wide, dst, (src,), _top(words[2]), detail=found[3])


def _comparison(op: str, relation: str, kind: str, words: tuple[int, ...]) -> Vector:
    word = words[3]
    if op == "VCMPV":
        target, sources = _three(words, kind, word)
        return Vector(op, kind, target, sources, _top(word), detail=relation)
    dst, src = _two(words[0], words[1], word, kind, kind)
    return Vector(op, kind, dst, (src,), _top(word), scalar=words[2], detail=relation)


class Transposition(NamedTuple):
    """A move that turns 16 rows of a block each into columns.

    Attributes:
        dst, src: 16 addresses each.
        dst_step, src_step: Bytes from one repeat to the next.
        repeats: How often.
        itemsize: Bytes of an element.
        dst_half, src_half: Of bytes: which half of the blocks it writes and reads.
    """

    dst: list[int]
    src: list[int]
    dst_step: int
    src_step: int
    repeats: int
    itemsize: int
    dst_half: int = 0
    src_half: int = 0


def transposition(name: str, words: tuple[int, ...], registers: Registers) -> Transposition | None:
    """A transposing move; None if it is something else."""
    if not name.startswith("S.VNCHWCONV.b"):
        return None
    target, source, word = words[:3]
    halves = [one & 1 for one in words[3:5]]
    pairs = [registers.addresses[at & 7] + registers.addresses[(at + 1) & 7] for at in (target, source)]
    steps = (word & 0xFFFF) * BLOCK, (word >> 16 & 0xFFFF) * BLOCK
    itemsize = int(name.removeprefix("S.VNCHWCONV.b")) // 8
    return Transposition(pairs[0], pairs[1], *steps, _top(word), itemsize, *halves)


class Copy(NamedTuple):
    """Bursts from one place to another.

    Attributes:
        dst, src: Addresses.
        bursts, length: Number, and bytes of each.
        dst_step, src_step: Bytes from the start of one burst to that of the next.
        left, right: Padding elements before and behind a burst.
        itemsize: Bytes of an element.
    """

    dst: int
    src: int
    bursts: int
    length: int
    dst_step: int
    src_step: int
    left: int = 0
    right: int = 0
    itemsize: int = 1


_ALIGN = re.compile(r"MOV\.(OUT\.TO\.UB|UB\.TO\.OUT)\.ALIGN\.b(8|16|32)\.V220$")


def copy(name: str, words: tuple[int, ...]) -> Copy | None:
    """A transfer of bursts; None if it is something else."""
    found = _ALIGN.match(name)
    if found is not None:
        dst, src, first, gaps = words
        itemsize = int(found[2]) // 8
        bursts, length = first >> 4 & 0xFFF, first >> 16 & 0x1FFFFF
        left, right = first >> 48 & 63, first >> 54 & 63
        low, high = gaps & 0xFFFFFFFF, gaps >> 32 & 0xFFFFFFFF
        whole = -(-(length + (left + right) * itemsize) // BLOCK) * BLOCK
        if found[1] == "OUT.TO.UB":
            steps = whole + high * BLOCK, length + low
            return Copy(dst, src, bursts, length, *steps, left, right, itemsize)
        return Copy(dst, src, bursts, length, length + high, -(-length // BLOCK) * BLOCK + low * BLOCK)
    if name in ("MOV.UB.TO.UB.v220", "MOV.OUT.TO.L1.v220", "MOV.L1.TO.OUT.V220.CUBE"):
        word = words[2]
        length = (word >> 16 & 0xFFFF) * BLOCK
        target, source = ((word >> shift & 0xFFFF) * BLOCK for shift in (48, 32))
        return Copy(words[0], words[1], word >> 4 & 0xFFF, length, length + target, length + source)
    return None


def unknown(name: str) -> KernelError:
    """An instruction that is not known, by its name."""
    return KernelError(f"instruction {name}", "of the compiled kernel cannot be run yet")
