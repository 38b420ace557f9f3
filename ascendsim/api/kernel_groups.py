"""Streams of cores as groups of blocks: which kind of core each needs, and which start together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ascendsim.asc.meeting import Role
from ascendsim.core.errors import KernelError, suggest
from ascendsim.isa.forms import Form
from ascendsim.isa.hard_events import events_of
from ascendsim.isa.instructions import Buffer
from ascendsim.isa.program import BlockGroup, CoreKind, TaskKind
from ascendsim.soc.spec import SocSpec
from ascendsim.tile.blocks import block_of
from ascendsim.tile.reroll import Leaf, Node

_OF_VECTOR = frozenset({Buffer.UB})
_OF_CUBE = frozenset({Buffer.L1, Buffer.L0A, Buffer.L0B, Buffer.L0C, Buffer.BT})
_KINDS = {CoreKind.CUBE: TaskKind.AI_CORE, CoreKind.VECTOR: TaskKind.AI_VECTOR_CORE}


Part = tuple[BlockGroup, tuple[Node, ...]]  # a group, and the stream that its block was made of


class Stream(NamedTuple):
    """What a core recorded.

    Attributes:
        signature: Equal for streams that share a block.
        nodes: The re-rolled stream.
    """

    signature: bytes
    nodes: tuple[Node, ...]


def grouped(
    streams: Mapping[Role, Stream], forms: Sequence[Form], soc: SocSpec
) -> tuple[TaskKind, tuple[Part, ...]]:
    """The kind of task that runs streams, and its groups with the stream of each.

    Raises:
        KernelError: Cores are asked for what another kind of core does.
    """
    if not soc.split_cores:
        return TaskKind.AI_CORE, tuple(_plain(list(streams.values()), CoreKind.AI, forms, soc))
    cubes = [stream for role, stream in streams.items() if role.kind == "aic" and stream.nodes]
    vectors = [stream for role, stream in streams.items() if role.kind == "aiv" and stream.nodes]
    for stream in cubes:
        _check(stream, forms, CoreKind.CUBE, soc)
    for stream in vectors:
        _check(stream, forms, CoreKind.VECTOR, soc)
    # vector cores of a team meet each other only where they start together, whatever the cube core does
    pairs = any(
        form.flag is not None and form.flag.mode == 1 for one in vectors for form in _forms(one, forms)
    )
    if (cubes and vectors) or pairs:
        return TaskKind.MIX_AIC, tuple(_teams(streams, forms, soc))
    rest = cubes or vectors or list(streams.values())
    kind = CoreKind.CUBE if cubes else CoreKind.VECTOR
    if not cubes and not vectors:
        kind = CoreKind.CUBE if any(_first(stream, forms, _OF_CUBE) for stream in rest) else CoreKind.VECTOR
        for stream in rest:
            _check(stream, forms, kind, soc)
    return _KINDS[kind], tuple(_plain(rest, kind, forms, soc))


def _plain(streams: Sequence[Stream], kind: CoreKind, forms: Sequence[Form], soc: SocSpec) -> list[Part]:
    number: dict[bytes, int] = {}
    first: dict[bytes, Stream] = {}
    for stream in streams:
        number[stream.signature] = number.get(stream.signature, 0) + 1
        first.setdefault(stream.signature, stream)
    return [
        (BlockGroup(block_of(first[key].nodes, forms, soc, kind), count), first[key].nodes)
        for key, count in number.items()
    ]


def _teams(streams: Mapping[Role, Stream], forms: Sequence[Form], soc: SocSpec) -> list[Part]:
    """A cube core and its vector cores are a team; equal teams make groups."""
    members: dict[int, list[Stream]] = {}
    for role, stream in streams.items():
        members.setdefault(role.block, []).append(stream)
    number: dict[tuple[bytes, ...], int] = {}
    first: dict[tuple[bytes, ...], list[Stream]] = {}
    for inside in members.values():
        key = tuple([stream.signature for stream in inside])
        number[key] = number.get(key, 0) + 1
        first.setdefault(key, inside)
    groups = []
    for team, (key, count) in enumerate(number.items()):
        cube, *vectors = first[key]
        groups.append((BlockGroup(block_of(cube.nodes, forms, soc, CoreKind.CUBE), count, team), cube.nodes))
        alike = len({stream.signature for stream in vectors}) == 1
        for stream in vectors[:1] if alike else vectors:
            block = block_of(stream.nodes, forms, soc, CoreKind.VECTOR)
            number_of = count * len(vectors) if alike else count
            groups.append((BlockGroup(block, number_of, team), stream.nodes))
    return groups


def _check(stream: Stream, forms: Sequence[Form], kind: CoreKind, soc: SocSpec) -> None:
    """Refuses instructions on buffers, and flags between pipes, of the other kind of core."""
    here, there = ("cube", "vector") if kind is CoreKind.CUBE else ("vector", "cube")
    elsewhere = f"put it under `if asc.ascend_is_{'aiv' if there == 'vector' else 'aic'}():`"
    other = _first(stream, forms, _OF_VECTOR if kind is CoreKind.CUBE else _OF_CUBE)
    if other is not None:
        mine = _first(stream, forms, _OF_CUBE if kind is CoreKind.CUBE else _OF_VECTOR)
        beside = f", and {mine.site} on the {here} core" if mine is not None else ""
        rule = f"works on the {there} core of {soc.name}{beside}"
        raise KernelError(str(other.site), rule, remedy=elsewhere)
    pairs = events_of(kind)
    for form in _forms(stream, forms):
        pair = _pair(form)
        if pair and pair not in pairs:
            known = events_of(CoreKind.VECTOR if kind is CoreKind.CUBE else CoreKind.CUBE)
            raise KernelError(
                str(form.site),
                f"names {pair}, a pair of pipes that the {here} core of {soc.name} lacks",
                remedy=elsewhere if pair in known else suggest(pair, pairs),
            )


def _pair(form: Form) -> str:
    """The two pipes of the chip's own flag that a form sets or waits for, "" if it is none."""
    use = form.flag
    if use is None or use.event is None or use.mode is not None:
        return ""
    return f"{use.source.value}_{use.target.value}"


def _first(stream: Stream, forms: Sequence[Form], buffers: frozenset[Buffer]) -> Form | None:
    """The first form of a stream, in the order of its text, that touches one of some buffers."""
    for form in _forms(stream, forms):
        if form.effect is not None and any(box.buffer in buffers for box in form.effect.boxes):
            return form
    return None


def _forms(stream: Stream, forms: Sequence[Form]) -> Iterator[Form]:
    """Forms of a stream in the order of its text."""
    waiting: list[Node] = list(stream.nodes)[::-1]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Leaf):
            yield forms[node.form]
        else:
            waiting.extend(node.body[::-1])
