"""What notes tell of the instructions of a block, as text: each instruction the first and the last time that
it runs, with the operands' addresses as `out`, `in0`, `in1` and so on."""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.isa.effects import Box
from ascendsim.isa.instructions import Buffer, Mmad
from ascendsim.isa.notes import Call, Carry, Frame, Item, Kernel, Part, Row, works
from ascendsim.isa.program import Block, BlockGroup
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.stage import Stage

FAR = 1 << 40  # between the operands' addresses


def notes_of(stage: Stage) -> str:
    """All groups that say where their blocks begin, the first and the last block of each."""
    lines: list[str] = []
    for group in stage.groups:
        lines += _of_group(group)
    return "\n".join([*lines, ""])


def _of_group(group: BlockGroup) -> Iterator[str]:
    if not group.origins:
        yield f"{group.count} blocks say nothing"
        return
    for origin in dict.fromkeys((group.origins[0], group.origins[-1])):
        yield f"one of {group.count} at {' '.join(f'{name[1:]} {first}' for name, first in origin) or '0'}"
        yield from _of_block(group.block, dict(origin))


def _of_block(block: Block, origin: dict[str, int]) -> Iterator[str]:
    told: dict[int, list[str]] = {}
    for one, variables in in_order(block.body, origin):
        if not works(one):
            continue
        found = told.setdefault(id(one), [])
        effect = getattr(one, "effect", None)
        if effect is None:
            found.append("    says nothing")
            continue
        reads = 3 if isinstance(one, Mmad) else len(getattr(one, "srcs", (0,)))
        frame = Frame(variables, FAR, tuple([(number + 2) * FAR for number in range(reads)]))
        text = "; ".join(map(_item, effect(frame))) or "nothing"
        found.append(f"    {one.pipe.value} {text}")
    for found in told.values():
        yield from found[:1]
        if len(found) > 1:
            yield f"      last of {len(found)}: {found[-1].strip()}"


def _item(item: Item) -> str:
    match item:
        case Row():
            effect = item.effect
            boxes = [_box(box, address) for box, address in zip(effect.boxes, item.addresses, strict=True)]
            more = "".join(f" {name}={value}" for name, value in effect.parameters)
            name = " ".join(filter(None, (effect.kind, effect.op, effect.intrinsic)))
            split = len(effect.writes)
            return f"{name}{more} {' '.join(boxes[:split])} <- {' '.join(boxes[split:])}"
        case Call():
            return f"call {' '.join(map(_box, item.writes))} <- {' '.join(map(_box, item.reads))}"
        case Kernel():
            more = " whole rows" * item.whole_rows + f" under {item.under}" * bool(item.under)
            size = f"{item.rows}x{item.columns} at {item.first[0]},{item.first[1]}"
            sources = " ".join(map(_part, item.sources))
            return f"kernel {size}{more} {_part(item.target)} <- {sources}"
        case Carry():
            part = f"{item.first}..{item.end} of {item.total}"
            places = " ".join(map(_address, item.addresses))
            turned = " turned" * item.turned
            return f"{item.phase}{turned} {part} {item.source}->{item.target} {places}"


def _part(part: Part) -> str:
    count = f"[{part.count}]" * bool(part.count)
    return f"{part.region or 'product'}:{part.over}{count} {_box(part.box)}"


def _box(box: Box, address: int | None = None) -> str:
    place = box.offset.at({}) if address is None else address + box.offset.at({})
    name = box.name if box.buffer is Buffer.GM else box.buffer.value
    dims = "x".join(f"{count}/{step}" for count, step in box.dims)
    return f"{name}({dims} {box.dtype.value} {_address(place)})"


def _address(address: int) -> str:
    operand, rest = divmod(address, FAR)
    where = "" if operand == 0 else "out" if operand == 1 else f"in{operand - 2}"
    return f"{where}+{rest}" if where else str(rest)
