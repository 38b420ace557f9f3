"""Runs blocks of built-in operators whose instructions carry notes (`isa.notes`), one after the other.

Instructions run in program order at the addresses of the block's own allocations and slots. What they touch
on the chip has to lie in the slots that their operands name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import SimulationError
from ascendsim.isa.forms import Form, Site
from ascendsim.isa.instructions import Allocation, Buffer, Instruction, Mmad, Move, Operand, Scalar
from ascendsim.isa.listing import instruction_name
from ascendsim.isa.notes import Arrays, Call, Carry, Frame, Item, Kernel, Origin, Row, works
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order
from ascendsim.soc.spec import SocSpec
from ascendsim.tile.evaluate import CoreMemory, Evaluator, GlobalMemory
from ascendsim.tile.findings import Findings
from ascendsim_kernels.half import saturate

Compute: TypeAlias = Callable[[Kernel, Arrays], NDArray[Any]]
Carrier: TypeAlias = Callable[[Carry], Sequence[Row | Call]]


@dataclass(frozen=True, slots=True)
class _Place:
    """An operand on the chip: its first byte, and the slot that it lies in."""

    address: int
    slot: tuple[int, int]


class NotedTask:
    """Runs the blocks of one task.

    Args:
        soc: The chip.
        regions: Global memory.
        compute: The operators' kernels.
        carry: Says how elements are carried.
        saturates: Whether float16 saturates in this run.

    Attributes:
        timed, moved: Bytes between global memory and the chip, as instructions are timed and as they are
            moved.
    """

    def __init__(
        self,
        soc: SocSpec,
        regions: GlobalMemory,
        compute: Compute,
        carry: Carrier,
        saturates: bool = False,
    ) -> None:
        self._soc, self._regions, self._compute, self._carry = soc, regions, compute, carry
        self._saturates = saturates
        self.timed = self.moved = 0
        self._forms: list[Form] = []
        self._known: dict[int, Form] = {}  # by the effect's identity; forms keep effects alive
        self._blocks = 0

    def run(self, block: Block, origin: Origin) -> None:
        """One block.

        Args:
            block: Its program.
            origin: Where its share begins.

        Raises:
            SimulationError: It touches bytes outside of a tensor or a slot, or takes what nothing has
                written.
        """
        findings = Findings()
        memory = CoreMemory(self._soc, self._regions, self._saturates)
        evaluator = Evaluator(memory, self._forms, self._blocks, findings)
        places = {allocation.name: allocation for allocation in block.allocations}
        rows: list[int] = []
        values: list[int] = []

        def flush() -> None:
            if rows:
                evaluator.run(np.array(rows, np.int32), np.array(values, np.int64))
                rows.clear()
                values.clear()

        for instruction, variables in in_order(block.body, dict(origin)):
            if not works(instruction):
                continue
            target, sources = _operands(instruction)
            to = _place(target, places, variables)
            of = [_place(source, places, variables) for source in sources]
            frame = Frame(variables, to.address, tuple([one.address for one in of]))
            outside = False
            if isinstance(instruction, Move) and Buffer.GM in (
                instruction.dst.buffer,
                instruction.src.buffer,
            ):
                outside = True
                self.timed += instruction.bytes
            for item in self._items(instruction.effect(frame)):  # type: ignore[union-attr, operator]
                if isinstance(item, Row):
                    form = self._form(item, instruction)
                    _check(instruction, form, item.addresses, [to, *of])
                    rows.append(form.number)
                    self.moved += _outside(form) if outside else 0
                    values += item.addresses
                    continue
                flush()
                self._call(memory, item, instruction)
        flush()
        self._blocks += 1
        for finding in findings.listed:
            raise SimulationError(f"block {self._blocks - 1}", str(finding), remedy="please report this")

    def _items(self, items: Sequence[Item]) -> Iterator[Row | Call | Kernel]:
        for item in items:
            if isinstance(item, Carry):
                yield from self._carry(item)
            else:
                yield item

    def _form(self, row: Row, instruction: Instruction) -> Form:
        form = self._known.get(id(row.effect))
        if form is None:
            site = Site("", 0, "", instruction_name(instruction))
            form = Form(len(self._forms), row.effect, instruction.pipe, site)
            self._forms.append(form)
            self._known[id(row.effect)] = form
        return form

    def _call(self, memory: CoreMemory, item: Call | Kernel, instruction: Instruction) -> None:
        reads = item.reads if isinstance(item, Call) else [part.box for part in item.sources]
        for box in reads:
            if not memory.defined(box):
                rule = f"reads bytes of {box.buffer.value} that nothing has written"
                raise SimulationError(instruction_name(instruction), rule, box.offset.base)
        arrays = [memory.array(box) for box in reads]
        if isinstance(item, Call):
            made, writes = item.function(arrays), item.writes
        else:
            made, writes = [self._compute(item, arrays)], (item.target.box,)
        for box, array in zip(writes, made, strict=True):
            memory.array(box)[...] = (
                saturate(array) if memory.saturates and array.dtype == np.float16 else array
            )
            memory.define(box)


def _outside(form: Form) -> int:
    """Bytes of global memory that a row reads or writes."""
    assert form.effect is not None
    return sum(box.bytes for box in form.effect.boxes if box.buffer is Buffer.GM)


def _operands(instruction: Instruction) -> tuple[Operand | None, Sequence[Operand]]:
    """What an instruction writes and what it reads."""
    if isinstance(instruction, Mmad):
        table = () if instruction.bias is None else (instruction.bias,)
        return instruction.dst, (instruction.a, instruction.b, *table)
    if isinstance(instruction, Scalar):
        return instruction.dsts[0] if instruction.dsts else None, instruction.srcs
    sources = getattr(instruction, "srcs", None)
    return instruction.dst, (instruction.src,) if sources is None else sources  # type: ignore[union-attr]


def _place(operand: Operand | None, places: Mapping[str, Allocation], variables: Mapping[str, int]) -> _Place:
    if operand is None or operand.buffer is Buffer.GM:
        return _Place(0, (0, 1 << 62))
    held = places[operand.name]
    start = held.offset + operand.slot.at(variables) % held.slots * held.slot_bytes
    return _Place(start + operand.offset.at(variables), (start, start + held.slot_bytes))


def _check(instruction: Instruction, form: Form, addresses: Sequence[int], places: Sequence[_Place]) -> None:
    """Makes sure that a row stays in the slots of the instruction."""
    for address, end, place in zip(addresses, form.ends, places, strict=False):
        if address < place.slot[0] or address + end > place.slot[1]:
            rule = f"must stay in its slot, bytes {place.slot[0]} to {place.slot[1]}"
            raise SimulationError(
                f"{instruction.pipe.value} instruction {instruction_name(instruction)!r}",
                rule,
                f"{address} to {address + end}",
            )
