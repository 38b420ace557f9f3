"""Programs as text that a person can read: nested loops, operands, flags.

loop i < 4
  MTE2.wait  l1_free
  MTE2.copy  L1.a[slot i%2] <- GM.x+32768*i   16 x 2048 B
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.isa.instructions import (
    ZERO,
    Allocation,
    Barrier,
    Buffer,
    Flag,
    Img2Col,
    Instruction,
    Loop,
    Mmad,
    Move,
    Operand,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.program import Block, Task


def listing(block: Block) -> str:
    """A block's allocations, flags and loop nest as text."""
    slots = {allocation.name: allocation.slots for allocation in block.allocations}
    lines = [f"block on {block.core.value} core"]
    lines += [f"  alloc {_allocation(allocation)}" for allocation in block.allocations]
    lines += [f"  flag  {_flag(flag)}" for flag in block.flags]
    lines += [f"  cross {flag.name}, id {flag.id}, mode {flag.mode}" for flag in block.cross]
    lines += _body(block.body, slots, "  ")
    return "\n".join(lines) + "\n"


def task_listing(task: Task) -> str:
    """A task's header and the listing of each group of its blocks."""
    header = f"task {task.id} {task.name} {task.kind.value} stream {task.stream} blocks {task.block_dim}"
    waits = f" after {', '.join(map(str, task.waits_for))}" if task.waits_for else ""
    if not task.groups:
        return f"{header}{waits} cpu {task.cpu_us:g} us\n"
    teams = ["" if group.team is None else f"team {group.team}: " for group in task.groups]
    return f"{header}{waits}\n" + "".join(
        f"{team}{group.count} x {listing(group.block)}"
        for team, group in zip(teams, task.groups, strict=True)
    )


def instruction_name(instruction: Instruction) -> str:
    """A short name for traces.

    >>> from ascendsim.isa.instructions import WaitFlag, Pipe
    >>> instruction_name(WaitFlag(Pipe.M, "full"))
    'wait full'
    """
    match instruction:
        case Mmad():
            return f"mmad {instruction.m}x{instruction.k}x{instruction.n}"
        case Vector():
            times = f" x{instruction.calls}" if instruction.calls > 1 else ""
            return f"{instruction.op} {instruction.elements} {instruction.dtype}{times}"
        case Move():
            return (
                f"{instruction.kind} {instruction.src.buffer.value}->{instruction.dst.buffer.value} "
                f"{instruction.bytes} B"
            )
        case Img2Col():
            return f"load3d {instruction.dst.buffer.value} {instruction.bytes} B"
        case Scalar():
            return instruction.what or "scalar"
        case SetFlag():
            return f"set {instruction.flag}"
        case WaitFlag():
            return f"wait {instruction.flag}"
        case Barrier():
            return "barrier"


def moved_bytes(instruction: Instruction) -> int:
    """Bytes that an instruction moves, 0 if it computes."""
    return instruction.bytes if isinstance(instruction, (Move, Img2Col)) else 0


def operand_text(operand: Operand, slots: int) -> str:
    """An operand as `BUFFER.name[slot s]+offset`.

    >>> from ascendsim.isa.instructions import Affine
    >>> operand_text(Operand(Buffer.L1, "a", 512, Affine(64), Affine(0, (("i", 1),))), slots=2)
    'L1.a[slot i%2]+64'
    """
    text = f"{operand.buffer.value}.{operand.name}"
    if operand.buffer is not Buffer.GM and slots > 1:
        slot = str(operand.slot)
        text += (
            f"[slot {slot}]"
            if not operand.slot.terms
            else f"[slot {slot}%{slots}]"
            if " " not in slot
            else f"[slot ({slot})%{slots}]"
        )
    if operand.offset != ZERO:
        text += f"+{str(operand.offset).replace(' ', '')}"
    return text


def _allocation(allocation: Allocation) -> str:
    end = allocation.offset + allocation.bytes
    place = f"{allocation.buffer.value}.{allocation.name}"
    return f"{place:16s} {allocation.slots} x {allocation.slot_bytes} B at {allocation.offset}..{end}"


def _flag(flag: Flag) -> str:
    initial = f", {flag.initial} set at the start" if flag.initial else ""
    shared = ", shared by all blocks" if flag.shared else ""
    event = "" if flag.event is None else f", event {flag.event}"
    return f"{flag.name} {flag.source.value} -> {flag.target.value}{initial}{shared}{event}"


def _body(body: tuple[Statement, ...], slots: dict[str, int], indent: str) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Loop):
            yield f"{indent}loop {statement.variable} < {statement.trips}"
            yield from _body(statement.body, slots, indent + "  ")
        else:
            yield f"{indent}{_line(statement, slots)}".rstrip()


def _line(instruction: Instruction, slots: dict[str, int]) -> str:
    def text(operand: Operand) -> str:
        return operand_text(operand, slots.get(operand.name, 1))

    pipe = instruction.pipe.value
    match instruction:
        case Move():
            strides = "".join(
                f" {side} stride {stride}"
                for side, stride in (("src", instruction.src_stride), ("dst", instruction.dst_stride))
                if stride
            )
            unaligned = "" if instruction.aligned else " unaligned"
            around = "" if instruction.cached else " uncached"
            atomic = f" atomic {instruction.atomic}" if instruction.atomic else ""
            size = f"{instruction.bursts} x {instruction.burst_bytes} B{strides}{unaligned}{around}{atomic}"
            return (
                f"{pipe + '.' + instruction.kind:12s} {text(instruction.dst)} <- {text(instruction.src)} "
                f"  {size}"
            )
        case Img2Col():
            detail = (
                f"{instruction.bytes} B, stride {instruction.stride_w}, {instruction.input_rows} input rows"
            )
            return f"{pipe + '.load3d':12s} {text(instruction.dst)} <- {text(instruction.src)}   {detail}"
        case Mmad():
            sign = "+=" if instruction.accumulate else "="
            fresh = (
                f", anew at {', '.join(f'{name}=0' for name in instruction.fresh_at)}"
                if instruction.fresh_at
                else ""
            )
            sizes = f"{instruction.m}x{instruction.k}x{instruction.n} {instruction.dtype}{fresh}"
            bias = "" if instruction.bias is None else f" + {text(instruction.bias)}"
            return (
                f"{pipe + '.mmad':12s} {text(instruction.dst)} {sign} {text(instruction.a)} @ "
                f"{text(instruction.b)}{bias}   {sizes}"
            )
        case Vector():
            sources = ", ".join(text(source) for source in instruction.srcs)
            times = f" x {instruction.calls}" if instruction.calls > 1 else ""
            turns = f" x {instruction.bank_conflict}" if instruction.bank_conflict > 1 else ""
            conflict = f" bank conflict{turns}" if instruction.bank_conflict else ""
            conflict += " read-write conflict" if instruction.write_conflict else ""
            size = f"{instruction.elements}{times} {instruction.dtype}{conflict}"
            return f"{pipe + '.' + instruction.op:12s} {text(instruction.dst)} <- {sources}   {size}"
        case Scalar():
            sides = [
                ", ".join(text(operand) for operand in side) for side in (instruction.dsts, instruction.srcs)
            ]
            operands = f"   {' <- '.join(sides)}".rstrip() if any(sides) else ""
            return f"{pipe + '.scalar':12s} {instruction.cycles} cycles {instruction.what}{operands}"
        case SetFlag():
            return f"{pipe + '.set':12s} {instruction.flag}"
        case WaitFlag():
            return f"{pipe + '.wait':12s} {instruction.flag}"
        case Barrier():
            return f"{pipe}.barrier"
