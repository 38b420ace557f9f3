"""The program of all that a host ran, on random pieces in random order: memory byte by byte, order, looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from random import Random

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Constant, Graph, Tensor
from ascendsim.isa.program import (
    Access,
    Block,
    BlockGroup,
    MemoryPlan,
    Program,
    ProgramInfo,
    Region,
    Task,
    TaskKind,
    owner_of,
)
from ascendsim.runtime.host_program import _Timeline, _weight, timeline
from ascendsim.runtime.host_run import Step, _result_homes
from ascendsim.runtime.pieces import Piece

BLOCK = 512
CONSTANTS = [np.full(4, value, np.float32) for value in (1, 2, 3)]


@dataclass(frozen=True)
class Compiled:
    """A piece as the host has it."""

    graph: Graph
    program: Program


def blocks(size: int) -> int:
    """Blocks of 512 bytes that so many bytes take."""
    return -(-size // BLOCK)


def random_piece(random: Random, prefix: str) -> Piece:
    """A few tensors: inputs and outputs with addresses of their own, some outputs over an input; what is
    inside at any place between them; views and slices of all; constants behind, which pieces share."""
    graph = Graph("piece")
    inputs = [graph.add_input(f"x{number}", DType.FLOAT32, (4,)) for number in range(random.randint(1, 3))]
    weights = [
        graph.add_constant(f"w{number}", array)
        for number, array in enumerate(random.sample(CONSTANTS, random.randint(0, 2)))
    ]
    nodes = [
        graph.add_node("Add", random.choices([*inputs, *weights], k=2), [f"t{number}"], name=f"n{number}")
        for number in range(random.randint(2, 5))
    ]
    for node in nodes:
        node.output.dtype, node.output.shape = DType.FLOAT32, (4,)
        node.attributes["mark"] = prefix
        node.origin["source_names"] = (node.name,)
    made = [node.output for node in nodes]
    graph.outputs += random.sample(made, random.randint(1, 2))
    over = {graph.outputs[0].name: "x0"} if random.random() < 0.4 else {}
    sizes = {tensor.name: random.randint(1, 1600) for tensor in (*inputs, *made)}
    sizes["x1"] = sizes["x0"]
    if over:
        sizes[graph.outputs[0].name] = sizes["x0"]
    own = [name for name in (tensor.name for tensor in (*inputs, *graph.outputs)) if name not in over]
    inside = [tensor.name for tensor in made if tensor not in graph.outputs]
    order = [*own, "inside 0", "inside 1"]
    random.shuffle(order)
    regions: dict[str, Region] = {}
    at = BLOCK * random.randint(0, 1)
    stretches: list[int] = []  # where regions of the inside may lie, over each other
    for name in order:
        if name.startswith("inside"):
            stretches.append(at)
            at += 4 * BLOCK
        else:
            kind = "input" if name.startswith("x") else "output"
            regions[name] = Region(name, at, sizes[name], kind, last=3)
            at += BLOCK * blocks(sizes[name])
    for name in inside:
        place = random.choice(stretches) + BLOCK * random.randint(0, 4 - blocks(sizes[name]))
        regions[name] = Region(name, place, sizes[name], random.choice(["activation", "workspace"]))
    for name, owner in over.items():
        regions[name] = Region(name, regions[owner].offset, sizes[name], "output", alias_of=owner)
    for number, owner in enumerate(random.choices([*own, *inside], k=3)):
        whole = regions[owner]
        shift = random.randint(0, whole.bytes - 1) if number else 0
        regions[f"view{number}"] = Region(
            f"view{number}", whole.offset + shift, whole.bytes - shift, "activation", alias_of=owner,
            cut=(0, shift) if number else None,
        )  # fmt: skip
    for tensor in weights:
        regions[tensor.name] = Region(tensor.name, at, 600, "weight")
        regions[f"{tensor.name} view"] = Region(
            f"{tensor.name} view", at, 600, "weight", alias_of=tensor.name
        )
        at += 2 * BLOCK
    shuffled = dict(random.sample(sorted(regions.items()), len(regions)))
    return Piece(Compiled(graph, program_of(random, graph, shuffled)), prefix)


def program_of(random: Random, graph: Graph, regions: Mapping[str, Region]) -> Program:
    """Two nodes a task at most, on several streams; every task names all regions."""
    accesses = tuple(
        Access(name, number, 2 * number, bool(number % 2)) for number, name in enumerate([*regions, "lost"])
    )
    names = [node.name for node in graph.nodes]
    tasks: list[Task] = []
    while names:
        own, names = names[:2], names[2:]
        tasks.append(
            Task(
                10 + 3 * len(tasks),
                own[0] if len(own) == 1 else "+".join(own),
                TaskKind.AI_CORE,
                stream=random.randrange(3),
                groups=(BlockGroup(Block(()), 2),),
                accesses=accesses,
                waits_for=tuple(task.id for task in tasks if random.random() < 0.5),
                fused=tuple(own) if len(own) > 1 else (),
            )
        )
    inner = [name for name, region in regions.items() if region.kind != "weight"]
    info = ProgramInfo(
        engines={node.name: node.name for node in graph.nodes} | {"gone": "none"},
        l2_placed=tuple(random.sample(inner, 1)),
        l2_kept=tuple(name for name, region in regions.items() if region.kind == "weight"),
    )
    return Program(tuple(tasks), MemoryPlan(regions, 0, 0), info=info)


def random_steps(random: Random) -> list[Step]:
    """Pieces that take what earlier ones have given, or the model's inputs."""
    pieces = [random_piece(random, f"p{number}/") for number in range(3)]
    homes = ["a", "b", "c"]
    steps: list[Step] = []
    for _ in range(7):
        piece = random.choice(pieces)
        sources = tuple(random.sample(homes[-4:], len(piece.compiled.graph.inputs)))
        if random.random() < 0.3:
            sources = (*sources[:1] * 2, *sources[2:])[: len(sources)]  # one value twice
        results = _result_homes(piece, sources)
        homes = [*dict.fromkeys([*homes, *results])]
        steps.append(Step(piece, sources, results, random.randint(0, 2), random.randint(0, 2)))
    return steps


def tasks_by_step(steps: Sequence[Step], program: Program) -> list[tuple[Task, ...]]:
    numbers = count()
    return [tuple(program.tasks[next(numbers)] for _ in step.piece.compiled.program.tasks) for step in steps]


def names_of(step: Step, task: Task) -> dict[str, str]:
    """What the regions of a piece are called in the whole program."""
    own = step.piece.compiled.program.tasks[0].accesses
    return {old.region: new.region for old, new in zip(own, task.accesses, strict=True)}


SEEDS = range(24)


@pytest.mark.parametrize("mode", ["sink", "host"])
def test_every_task_comes_as_often_as_it_ran_behind_all_that_ran_before(mode: str) -> None:
    for seed in SEEDS:
        steps = random_steps(Random(seed))
        graph, program = timeline(steps, "model", "chip", mode, {})
        assert [task.id for task in program.tasks] == list(range(len(program.tasks)))
        assert (program.mode, program.info.soc, program.info.graph) == (mode, "chip", "model")
        last: dict[int, int] = {}
        behind: list[set[int]] = []  # tasks that have ended when a task starts
        done = 0
        for step, tasks in zip(steps, tasks_by_step(steps, program), strict=True):
            piece = step.piece
            own = piece.compiled.program.tasks
            known = names_of(step, tasks[0])
            for number, (task, old) in enumerate(zip(tasks, own, strict=True)):
                waits = {*task.waits_for, *([last[task.stream]] if task.stream in last else [])}
                behind.append(waits.union(*(behind[other] for other in waits)))
                last[task.stream] = task.id
                assert set(range(done)) <= behind[-1]
                ids = {other.id: done + place for place, other in enumerate(own)}
                assert {ids[other] for other in old.waits_for} <= set(task.waits_for)
                apart = [place for place, other in enumerate(own[:number]) if not reaches(own, place, number)]
                assert not {done + place for place in apart} & behind[-1]
                paid = (step.looks, 0) if mode == "host" else (0, step.decisions)
                assert (task.read_backs, task.decisions) == (paid if number == 0 else (0, 0))
                assert (task.stream, task.kind) == (old.stream, old.kind)
                assert [node.removeprefix(piece.prefix) for node in task.nodes] == list(old.nodes)
                assert all(graph.node(node).op_type == "Add" for node in task.nodes)
                for group in task.groups:
                    assert group.count == 2
                    assert {name: group.block.region(name) for name in known} == known
                pairs = zip(task.accesses, old.accesses, strict=True)
                assert all(
                    (new.unique_bytes, new.moved_bytes, new.write)
                    == (access.unique_bytes, access.moved_bytes, access.write)
                    for new, access in pairs
                )
                assert task.accesses[-1].region == "lost"  # names that the plan lacks stay
            done += len(tasks)


def reaches(tasks: Sequence[Task], first: int, second: int) -> bool:
    """Whether a task has ended when a later one of the same piece starts."""
    ids = {task.id: place for place, task in enumerate(tasks)}
    waits = {ids[other] for other in tasks[second].waits_for}
    waits |= {place for place in range(second) if tasks[place].stream == tasks[second].stream}
    return first in waits or any(reaches(tasks, first, place) for place in waits)


def test_bytes_are_shared_as_they_were_in_the_piece_and_in_no_other_way() -> None:
    """Inputs and outputs lie in the buffers that the steps name, which have room for them."""
    for seed in SEEDS:
        steps = random_steps(Random(seed))
        ends = {"a": "input", steps[-1].results[0]: "output"}
        _, program = timeline(steps, "model", "chip", "sink", ends)
        found = program.memory.regions
        buffers: dict[str, set[str]] = {}  # regions in each
        for step, tasks in zip(steps, tasks_by_step(steps, program), strict=True):
            names, piece = names_of(step, tasks[0]), step.piece.compiled
            old = piece.program.memory.regions
            held = held_by(step)
            assert names_of(step, tasks[-1]) == names
            assert len(set(names.values())) == len(names)
            for name, region in old.items():
                new, root = found[names[name]], owner_of(old, name)
                assert new.name == names[name]
                assert (new.bytes >= region.bytes) if name in held else (new.bytes == region.bytes)
                assert new.cut == region.cut
                assert new.offset - found[names[root]].offset == region.offset - old[root].offset
                if root != name:
                    assert owner_of(found, new.name) == owner_of(found, names[root])
                if root in held:
                    buffers.setdefault(held[root], set()).add(new.name)
            plain = [name for name in old if old[name].kind != "weight" and owner_of(old, name) not in held]
            for one, two in combinations(plain, 2):
                if inside(old, one, held) == inside(old, two, held):
                    assert found[names[one]].offset - found[names[two]].offset == (
                        old[one].offset - old[two].offset
                    )
                assert overlap(found[names[one]], found[names[two]]) == overlap(old[one], old[two])
        for home, names_there in buffers.items():
            kinds = {found[name].kind for name in names_there if found[name].alias_of is None}
            assert ends.get(home, "activation") in kinds
            for name, other in found.items():
                assert name in names_there or not any(overlap(found[own], other) for own in names_there)


def held_by(step: Step) -> dict[str, str]:
    """Buffers by the regions of a piece that lie in them; of an output over an input the input's."""
    graph, regions = step.piece.compiled.graph, step.piece.compiled.program.memory.regions
    pairs = [*zip(graph.outputs, step.results, strict=True), *zip(graph.inputs, step.sources, strict=True)]
    return {owner_of(regions, tensor.name): home for tensor, home in pairs}


def inside(regions: Mapping[str, Region], name: str, held: Mapping[str, str]) -> int:
    """How many inputs and outputs lie before a region."""
    return sum(regions[other].offset < regions[name].offset for other in held)


def overlap(one: Region, two: Region) -> bool:
    return one.offset < two.offset + two.bytes and two.offset < one.offset + one.bytes


def test_memory_has_no_holes_and_constants_of_equal_values_lie_in_it_once() -> None:
    """Buffers, then as much as the largest piece has for itself, then the constants."""
    for seed in SEEDS:
        steps = random_steps(Random(seed))
        _, program = timeline(steps, "model", "chip", "sink", {})
        plan, found = program.memory, program.memory.regions
        ran = {step.piece for step in steps}
        homes: dict[str, int] = {}
        arena = 0
        values: set[float] = set()
        for step in steps:
            graph, old = step.piece.compiled.graph, step.piece.compiled.program.memory.regions
            pairs = [*zip(graph.inputs, step.sources, strict=True)]
            pairs += zip(graph.outputs, step.results, strict=True)
            own = {owner_of(old, tensor.name) for tensor, _ in pairs}
            for tensor, home in pairs:
                homes[home] = max(homes.get(home, 0), blocks(old[owner_of(old, tensor.name)].bytes))
            taken = {
                block
                for name in own
                for block in range(
                    old[name].offset // BLOCK, old[name].offset // BLOCK + blocks(old[name].bytes)
                )
            }
            most = max(
                (
                    block + 1 - sum(other < block for other in taken)
                    for name, region in old.items()
                    if region.kind != "weight" and owner_of(old, name) not in own
                    for block in [(region.offset + region.bytes - 1) // BLOCK]
                ),
                default=0,
            )
            arena = max(arena, most)
            values |= {float(tensor.constant.array()[0]) for tensor in graph.constants if tensor.constant}
        assert plan.peak_bytes == BLOCK * (sum(homes.values()) + arena)
        weights = [region for region in found.values() if region.kind == "weight" and not region.alias_of]
        assert len(weights) == len(values)
        assert sorted(region.offset for region in weights) == [
            plan.peak_bytes + 2 * BLOCK * number for number in range(len(values))
        ]
        assert plan.weight_bytes == 2 * BLOCK * len(values)
        assert all((region.first, region.last) == (0, len(program.tasks) - 1) for region in found.values())
        placed = {
            names_of(step, tasks[0])[name]
            for step, tasks in zip(steps, tasks_by_step(steps, program), strict=True)
            for name in step.piece.compiled.program.info.l2_placed
        }
        assert set(program.info.l2_placed) == placed
        assert len(program.info.l2_placed) == len(placed)
        assert set(program.info.l2_kept) <= found.keys()
        least = plan.peak_bytes + 700
        _, more = timeline(steps, "model", "chip", "sink", {}, least=least)
        assert more.memory.peak_bytes == plan.peak_bytes + 2 * BLOCK
        assert more.memory.weight_bytes == plan.weight_bytes
        assert len(ran) > 1


def test_the_graph_has_every_node_that_ran_once_and_says_which_tasks_ran_it() -> None:
    for seed in SEEDS:
        steps = random_steps(Random(seed))
        graph, program = timeline(steps, "model", "chip", "sink", {})
        pieces = {step.piece.prefix: step.piece for step in steps}
        wanted = {
            f"{prefix}{node.name}" for prefix, piece in pieces.items() for node in piece.compiled.graph.nodes
        }
        assert {node.name for node in graph.nodes} == wanted
        assert len(graph.nodes) == len(wanted)
        for node in graph.nodes:
            prefix, own = node.name.split("/")
            assert node.attributes["mark"] == f"{prefix}/"
            assert node.origin["source_names"] == (own,)
            twin = pieces[f"{prefix}/"].compiled.graph.node(own)
            assert [tensor.name for tensor in node.inputs if tensor] == [
                f"{prefix}/{tensor.name}" for tensor in twin.inputs if tensor
            ]
            assert node.output.shape == twin.output.shape
            ran = [task.id for task in program.tasks if node.name in task.nodes]
            assert list(program.info.tasks_of[node.name]) == ran
            assert program.info.engines[node.name] == own
        assert program.info.engines.keys() == wanted
        assert len(graph.inputs) == sum(len(piece.compiled.graph.inputs) for piece in pieces.values())
        assert len(graph.outputs) == sum(len(piece.compiled.graph.outputs) for piece in pieces.values())


def test_equal_values_lie_once_if_they_lie_alike() -> None:
    """The same numbers in another format, another type or beside more padding are other bytes."""
    made, piece = _Timeline(Graph("g")), Piece(Compiled(Graph("p"), Program((), MemoryPlan({}, 0, 0))), "p/")
    values = np.arange(32, dtype=np.float32).reshape(2, 16)

    def weight(name: str, format: Format = Format.ND, dtype: DType = DType.FLOAT32, size: int = 128) -> str:
        tensor = Tensor(name, dtype, values.shape, format, Constant(values.copy()))
        return _weight(made, piece, tensor, Region(name, 0, size, "weight"))

    names = [
        weight("a"),
        weight("b"),
        weight("c", Format.FRACTAL_NZ),
        weight("d", Format.FRACTAL_NZ),
        weight("e", dtype=DType.FLOAT16),
        weight("f", size=512),
        _weight(made, piece, None, Region("g", 0, 128, "weight")),
    ]
    assert names == ["a", "a", "c", "c", "e", "f", "g"]
    assert made.weights == {"a": 128, "c": 128, "e": 128, "f": 512, "g": 128}
