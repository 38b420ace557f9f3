"""Vector steps as the chip can issue them: what it lacks is built from what it has.

Which intrinsic exists for which type comes from the chip's description. The replacements follow from the
arithmetic: a / b = a * (1/b) with Newton refinement of the reciprocal, sqrt(x) = 1 / rsqrt(x); types that an
intrinsic lacks are converted on the way in and out (vconv). What has no vector form goes through the scalar
unit, element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, suggest
from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.instructions import Operand, Pipe, Scalar, Vector
from ascendsim.isa.program import CoreKind
from ascendsim.lower.emit import BlockBuilder, Ring
from ascendsim.opset.steps import REGISTER, SCALAR, Step
from ascendsim.soc.spec import SocSpec

# One Newton step for 1/b: r' = r * (2 - b * r). One step brings the table's 8 to 12 bits to float16's 11, two
# to float32's 24.
_NEWTON = ("vmul", "vmuls", "vadds", "vmul")
REPLACEMENTS: dict[str, tuple[str, ...]] = {
    "vdiv": ("vrec", *_NEWTON, "vmul"),
    "vsqrt": ("vrsqrt", "vrec"),
    "vmaxs": ("vmax",),  # the scalar is duplicated once, outside the loop
    "vmins": ("vmin",),
    "vlrelu": ("vmuls", "vmax"),
    "vaddrelu": ("vadd", "vrelu"),
    "vrelu": ("vmax",),
    "vmulconv": ("vmul", "vconv"),
    "vmla": ("vmul", "vadd"),
    "vmadd": ("vmul", "vadd"),
    "vaxpy": ("vmuls", "vadd"),
    "vabs": ("vmuls", "vmax"),
    "vcopy": ("vadds",),
    "vbrcb": ("vadds",),
    "vreducev2": ("vreduce",),
    "vreduce": (SCALAR,),
    "vgather": (SCALAR,),
    "vgatherb": (SCALAR,),
    "vbitsort32": (SCALAR,),
    "vmrgsort4": (SCALAR,),
    # of two boxes: sides that they share, their product; the sum of their areas; of one box: its area
    "viou": ("vmax", "vmax", "vmin", "vmin", "vsub", "vsub", "vrelu", "vrelu", "vmul"),
    "vaadd": ("vadd",),
    "vrpac": ("vsub", "vsub", "vmul"),
    "vshl": ("vmuls",),
    "vshr": ("vmuls",),
}
_WALKS = frozenset({SCALAR, REGISTER})
_WIDE = {
    DType.INT64: DType.INT32,
    DType.UINT64: DType.INT32,
    DType.FLOAT64: DType.FLOAT32,
    DType.UINT32: DType.INT32,
}
_ALIKE = {DType.BOOL: DType.INT8, DType.BFLOAT16: DType.FLOAT32}
_FALLBACK = (DType.FLOAT16, DType.FLOAT32, DType.INT32, DType.INT16)
_WIDE_PARTS = 4  # a 64-bit operation as 32-bit ones with carry: assumed


class Expansion:
    """Expands steps for one chip, each distinct step once.

    Args:
        soc: The chip.
        noted: Whether instructions say what they do (`isa.notes`).
    """

    def __init__(self, soc: SocSpec, noted: bool = False) -> None:
        self._soc, self.noted = soc, noted
        self._known: dict[Step, tuple[Step, ...]] = {}

    def builder(self, core: CoreKind) -> BlockBuilder:
        """What a block is written with."""
        return BlockBuilder(self._soc, core, self.noted)

    def supports(self, op: str, dtype: DType) -> bool:
        """Whether the chip has a vector instruction for a type."""
        return dtype.value in self._soc.vector.intrinsics.get(op, ())

    def expand(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Returns steps that the chip has (or that are marked `SCALAR`).

        Raises:
            CompileError: If an intrinsic is unknown on this chip and has no replacement.
        """
        result: list[Step] = []
        for step in steps:
            known = self._known.get(step)
            if known is None:
                known = self._known[step] = self._one(step)
            result.extend(known)
        return tuple(result)

    def _one(self, step: Step) -> tuple[Step, ...]:
        if step.op in _WALKS or self.supports(step.op, step.dtype):
            return (step,)
        if step.dtype in _WIDE:
            return self._one(replace(step, dtype=_WIDE[step.dtype], count=step.count * _WIDE_PARTS))
        if step.dtype in _ALIKE:
            return self._one(replace(step, dtype=_ALIKE[step.dtype]))
        if step.op not in self._soc.vector.intrinsics or not self._soc.vector.intrinsics[step.op]:
            parts = REPLACEMENTS.get(step.op)
            if parts is None:
                raise CompileError(
                    f"intrinsic {step.op!r}",
                    f"does not exist on {self._soc.name}",
                    remedy=suggest(step.op, self._soc.vector.intrinsics),
                )
            return tuple(part for op in parts for part in self._one(replace(step, op=op)))
        for dtype in _FALLBACK:
            if self.supports(step.op, dtype):
                wide = dtype if dtype.itemsize >= step.dtype.itemsize else step.dtype
                convert = self._conversion(wide, step)
                return (*convert, replace(step, dtype=dtype), *convert)
        return (replace(step, op=SCALAR),)

    def _conversion(self, dtype: DType, step: Step) -> tuple[Step, ...]:
        """The vconv next to a step whose type the chip lacks; counted in the wider of the two types."""
        if not self._soc.vector.intrinsics.get("vconv"):
            return ()
        chosen = (
            dtype
            if self.supports("vconv", dtype)
            else DType.FLOAT32
            if self.supports("vconv", DType.FLOAT32)
            else DType.FLOAT16
        )
        return (Step("vconv", chosen, step.over),)


def emit_steps(
    b: BlockBuilder,
    steps: Sequence[Step],
    counts: Mapping[str, tuple[int, int]],
    target: Operand,
    sources: tuple[Operand, ...],
    scratch: Ring | None = None,
) -> None:
    """Emits expanded steps in order: the first one reads the sources, later ones what the one before it
    wrote.

    Args:
        b: The builder.
        steps: From `Expansion.expand`.
        counts: By `over`: elements of one call, and calls.
        target: Where the result goes.
        sources: What the program reads.
        scratch: Room for values in between.
    """
    for number, step in enumerate(steps):
        elements, calls = counts[step.over]
        if step.run and step.over == "all":
            total = elements * calls
            calls = max(calls, ceil_div(total, step.run))
            lanes = b.soc.vector.repeat_bytes // step.dtype.itemsize if step.overruns else 1
            elements = align(ceil_div(total, calls), lanes)
        into = (
            target
            if scratch is None or number == len(steps) - 1
            else b.target(scratch, min(elements * calls * step.dtype.itemsize, scratch.slot_bytes))
        )
        read = (
            sources
            if number == 0 or scratch is None
            else (
                b.source(scratch, min(elements * calls * step.dtype.itemsize, scratch.slot_bytes)),
                *sources[1:],
            )
        )
        if step.op not in _WALKS:
            b.emit(Vector(step.op, step.dtype.value, elements, into, read, calls * step.count))
            continue
        if number == 0 or steps[number - 1].op not in _WALKS:
            b.order(Pipe.V, Pipe.S, "scalar")
        each = b.soc.issue.scalar_element_cycles if step.op == SCALAR else b.soc.kernels.register_move_cycles
        cycles = round(elements * calls * step.count * each)
        b.emit(Scalar(cycles, "element by element", dsts=(into,), srcs=read))
        if number == len(steps) - 1 or steps[number + 1].op not in _WALKS:
            b.order(Pipe.S, Pipe.V, "scalar")


def least_cycles(soc: SocSpec) -> float:
    """Cycles of a vector instruction at least."""
    start = soc.issue.instruction_start_ns * soc.vector_frequency_mhz / 1000
    return max(soc.vector.minimum_cycles, start)


def broadcast_calls(rows: int, cols: int, lanes: int, blocked: bool, soc: SocSpec) -> tuple[int, int]:
    """Elements and calls of a step with a broadcast operand: strips of one repeat's width, one call each with
    a repeat a row; or one call a row, if rows are fewer. In blocked formats a strip is a channel block.

    A row that ends within a repeat needs a mask in each call, a strip only in the last one.
    """
    strips = ceil_div(cols, lanes)
    if cols % lanes == 0 or strips == 1 or blocked:
        calls = min(rows, strips)
        return ceil_div(rows * cols, calls), calls
    least = least_cycles(soc)
    by_row = rows * max(strips + soc.vector.mask_cycles, least)
    return (cols, rows) if by_row < strips * max(rows, least) else (rows * lanes, strips)
