"""What tasks do to global memory, read off their programs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from ascendsim.isa.instructions import Buffer, Loop, Move, Statement
from ascendsim.isa.program import Access, BlockGroup, Task, TaskKind
from ascendsim.lower.templates.stage import Stage, sizes_of
from ascendsim.opset.work import AiCpuWork, LinkWork, Ref
from ascendsim.soc.spec import SocSpec


def task_of(stage: Stage, number: int, name: str, soc: SocSpec) -> Task:
    """A stage as a task."""
    if stage.link is not None:
        accesses = _whole(stage.link.inputs, False) + _whole(stage.link.outputs, True)
        link = stage.link
        return Task(number, name, stage.kind, accesses=accesses, known_us=link.us, host_waits=link.host_waits)
    if stage.cpu is None:
        accesses = accesses_of(stage.groups, stage.sizes, stage.inside)
        return Task(number, name, stage.kind, groups=stage.groups, accesses=accesses)
    cores = max(1, soc.ai_cpu.cores) if stage.cpu.spread else 1
    micros = stage.cpu.elements * stage.cpu.operations / (soc.ai_cpu.elements_per_us * cores)
    accesses = _whole(stage.cpu.inputs, False) + _whole(stage.cpu.outputs, True)
    return Task(number, name, TaskKind.AI_CPU, accesses=accesses, cpu_us=micros)


def ai_cpu_stage(work: AiCpuWork) -> Stage:
    """Work of the AI CPU."""
    return Stage((), TaskKind.AI_CPU, sizes_of(*work.inputs, *work.outputs), cpu=work)


def link_stage(work: LinkWork) -> Stage:
    """A collective, or a copy out of the host's memory."""
    kind = TaskKind.MEMCPY_ASYNC if work.from_host else TaskKind.COMMUNICATION
    return Stage((), kind, sizes_of(*work.inputs, *work.outputs), link=work)


def _whole(refs: Iterable[Ref], write: bool) -> tuple[Access, ...]:
    sizes = {ref.region: ref.bytes for ref in refs if ref.bytes}
    return tuple(Access(region, bytes, bytes, write) for region, bytes in sizes.items())


def gm_moves(body: Iterable[Statement], times: int = 1) -> Iterator[tuple[Move, int]]:
    """Every Move between global memory and the chip, with the number of times it runs."""
    for item in body:
        if isinstance(item, Loop):
            yield from gm_moves(item.body, times * item.trips)
        elif isinstance(item, Move) and Buffer.GM in (item.src.buffer, item.dst.buffer):
            yield item, times


def accesses_of(
    groups: Iterable[BlockGroup], sizes: Mapping[str, int], inside: Container[str] = ()
) -> tuple[Access, ...]:
    """Bytes that the blocks move, by region and direction.

    Args:
        groups: The blocks of a task.
        sizes: Bytes of each region that the task can touch at all (for example the part of a tensor that a
            slice reads).
        inside: Regions of which nothing is read but what the blocks have written.
    """
    moved: dict[tuple[str, bool], int] = {}
    for group in groups:
        block = group.block
        for move, times in gm_moves(block.template.body, group.count):
            write = move.dst.buffer is Buffer.GM
            key = (block.region(move.dst.name if write else move.src.name), write)
            moved[key] = moved.get(key, 0) + move.bytes * times
    return tuple(
        Access(
            region,
            0 if region in inside and not write else min(total, sizes.get(region, total)),
            total,
            write,
        )
        for (region, write), total in moved.items()
    )
