"""Plans of device memory against lives that are computed another way: by walking along the edges between
tasks.

Random graphs with names of one piece of memory, slices, results in place, inputs and outputs, on one stream
and on several; and networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import MemoryPlan, Program, Region, owner_of
from ascendsim.lower.memory import MemoryOptions, Takeover, TaskOrder, plan_memory
from ascendsim.lower.streams import needed_waits

MODELS = Path(__file__).parent.parent / "data" / "models"
SEEDS = 25


def before_each(streams: Sequence[int], waits: Sequence[Sequence[int]]) -> list[set[int]]:
    """By task: all tasks that have ended for sure when it starts."""
    last: dict[int, int] = {}
    before: list[set[int]] = []
    for task, (stream, awaited) in enumerate(zip(streams, waits, strict=True)):
        direct = [*awaited, *([last[stream]] if stream in last else [])]
        before.append(set(direct).union(*(before[other] for other in direct)))
        last[stream] = task
    return before


def overlaps(plan: MemoryPlan, users: dict[str, set[int]], before: list[set[int]]) -> list[str]:
    """Pieces of memory that share bytes although no order of tasks keeps them apart, and lives that leave a
    use out."""
    breaches = []
    owners = {name: region for name, region in plan.regions.items() if owner_of(plan.regions, name) == name}

    def apart(one: str, other: str) -> bool:
        """Whether all uses of a region end before any of another one begins; the task in which this one takes
        over uses both."""
        return all(
            a in before[b] or (a == b and plan.regions[other].in_place_of == one)
            for a in users[one]
            for b in users[other]
        )

    for one, other in combinations(sorted(owners), 2):
        a, b = owners[one], owners[other]
        together = a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
        whole = {a.kind, b.kind} & {"input", "output", "weight"}
        if together and (whole or not (apart(one, other) or apart(other, one))):
            breaches.append(f"{one} and {other} share bytes")
    for name, region in owners.items():
        if users[name] and not (region.first <= min(users[name]) and max(users[name]) <= region.last):
            breaches.append(f"{name} is used outside of its life")
        if region.kind in ("input", "output", "weight") and (region.first, region.last) != (
            0,
            len(before) - 1,
        ):
            breaches.append(f"{name} must live for the whole run")
    return breaches


@dataclass(frozen=True)
class Case:
    """What `plan_memory` gets, and what comes of it."""

    graph: Graph
    uses: list[list[str]]
    aliases: dict[str, str]
    streams: list[int]
    waits: list[list[int]]
    takeovers: list[Takeover]
    kinds: dict[str, str]

    def plan(self, **options: bool) -> MemoryPlan:
        order = TaskOrder(self.streams, self.waits)
        scratch = {"scratch": 700}
        return plan_memory(
            self.graph,
            self.uses,
            self.aliases,
            scratch,
            order=order,
            takeovers=self.takeovers,
            options=MemoryOptions(**options),
        )

    def users(self, plan: MemoryPlan) -> dict[str, set[int]]:
        """By owner of memory: tasks that use it under any name."""
        users: dict[str, set[int]] = {name: set() for name in plan.regions}
        for task, names in enumerate(self.uses):
            for name in names:
                users[owner_of(plan.regions, name)].add(task)
        return users


def random_case(seed: int) -> Case:
    """Tasks that read what earlier ones made; some results are other names of what a task reads, some lie in
    its place."""
    random, graph = Random(seed), Graph("random")
    tensors = [
        graph.add_input("x", DType.FLOAT16, (256 * random.randint(1, 4),)),
        graph.add_constant("w", np.zeros(600, np.float16)),
    ]
    uses: list[list[str]] = []
    aliases: dict[str, str] = {}
    takeovers: list[Takeover] = []
    count, wide = random.randint(2, 10), random.choice((1, 1, 2, 3))
    streams = [0, *(random.randrange(wide) for _ in range(count - 1))]
    streams = [sorted(set(streams)).index(stream) for stream in streams]
    made_by: dict[str, int] = {}
    waits: list[list[int]] = []
    for task in range(count):
        read = random.sample(tensors, min(len(tensors), random.randint(1, 3)))
        size = 256 * random.randint(1, 4)
        node = graph.add_node("Sum", read, [f"t{task}"], name=f"n{task}")
        node.output.shape, node.output.dtype, node.output.origin_dtype = (size,), DType.FLOAT16, DType.FLOAT16
        waits.append(sorted({made_by[tensor.name] for tensor in read if tensor.name in made_by}))
        made_by[node.output.name] = task
        takeovers += [
            Takeover(task, node.output.name, tensor.name)
            for tensor in read
            if tensor.shape == node.output.shape
        ]
        tensors.append(node.output)
        uses.append([tensor.name for tensor in (*read, node.output)])
        if random.random() < 0.25:  # the same memory under another name, made by a node that runs nothing
            other = graph.add_node("Identity", [node.output], [f"a{task}"], name=f"m{task}").output
            other.shape, other.dtype, other.origin_dtype = (size,), DType.FLOAT16, DType.FLOAT16
            aliases[other.name], made_by[other.name] = node.output.name, task
            tensors.append(other)
    uses[random.randrange(count)].append("scratch")
    graph.outputs.append(tensors[-1])
    return Case(graph, uses, aliases, streams, waits, takeovers, {})


@pytest.mark.parametrize("options", [{}, {"online": True}, {"reuse": False}])
def test_nothing_that_may_be_alive_together_shares_a_byte(options: dict[str, bool]) -> None:
    taken = 0
    for seed in range(SEEDS):
        case = random_case(seed)
        plan = case.plan(**options)
        assert overlaps(plan, case.users(plan), before_each(case.streams, case.waits)) == [], seed
        ends = [region.offset + region.bytes for region in plan.regions.values()]
        weights = [region for region in plan.regions.values() if region.kind == "weight"]
        assert all(region.offset % 512 == 0 for region in plan.regions.values())
        assert max(ends) <= plan.peak_bytes + plan.weight_bytes < max(ends) + 512
        assert all(region.offset >= plan.peak_bytes for region in weights)
        for name, region in plan.regions.items():
            if region.alias_of is not None:
                assert region.offset == plan.regions[region.alias_of].offset
                assert region.bytes <= plan.regions[owner_of(plan.regions, name)].bytes
        taken += sum(region.in_place_of is not None for region in plan.regions.values())
    assert (taken > 4) == (options == {})


def test_a_result_takes_over_wherever_nothing_speaks_against_it() -> None:
    """That is: one of the two is the caller's or a weight, somebody reads the source later, or another result
    has taken it."""
    for seed in range(SEEDS):
        case = random_case(seed)
        plan = case.plan()
        before, users = before_each(case.streams, case.waits), case.users(plan)
        for item in case.takeovers:
            source, result = owner_of(plan.regions, item.source), owner_of(plan.regions, item.result)
            kinds = {plan.regions[source].kind, plan.regions[result].kind}
            ends = all(task == item.task or task in before[item.task] for task in users[source])
            begins = all(task == item.task or item.task in before[task] for task in users[result])
            free = not any(region.in_place_of == source for region in plan.regions.values())
            if kinds == {"activation"} and ends and begins and free and source != result:
                assert plan.regions[result].in_place_of is not None, (seed, item)


def test_memory_of_a_result_that_an_earlier_task_writes_into_is_not_taken_over() -> None:
    """Part of b is made before b itself: it must not lie where a still is."""
    graph = Graph("parts")
    x = graph.add_input("x", DType.FLOAT16, (256,))
    for name in ("a", "part", "b"):
        node = graph.add_node("Abs", [x], [name], name=f"make {name}")
        node.output.shape, node.output.dtype, node.output.origin_dtype = (256,), DType.FLOAT16, DType.FLOAT16
    graph.outputs.append(graph.add_node("Neg", [graph.tensors["b"]], ["y"], name="last").output)
    y = graph.tensors["y"]
    y.shape, y.dtype, y.origin_dtype = (256,), DType.FLOAT16, DType.FLOAT16
    uses = [["x", "a"], ["x", "part"], ["a", "b"], ["b", "y"]]
    offer = [Takeover(2, "b", "a")]
    assert plan_memory(graph, uses, {}, {}, takeovers=offer).regions["b"].in_place_of == "a"
    assert plan_memory(graph, uses, {"part": "b"}, {}, takeovers=offer).regions["b"].in_place_of is None


def touched(program: Program, graph: Graph) -> dict[str, set[int]]:
    """By owner of memory: tasks whose programs move bytes of it, and those of nodes that have it as an
    operand."""
    regions = program.memory.regions
    users: dict[str, set[int]] = {name: set() for name in regions}
    for task in program.tasks:
        tensors = [
            tensor for name in task.nodes for tensor in (*graph.node(name).inputs, *graph.node(name).outputs)
        ]
        for name in {access.region for access in task.accesses} | {
            tensor.name for tensor in tensors if tensor is not None
        }:
            if name in regions:
                users[owner_of(regions, name)].add(task.id)
    return users


def check_slices(regions: dict[str, Region]) -> None:
    """Slices lie inside of what they were cut from."""
    for region in regions.values():
        if region.alias_of is not None:
            whole = regions[region.alias_of]
            assert whole.offset <= region.offset
            assert region.offset + region.bytes <= whole.offset + max(whole.bytes, region.bytes)


MODES = ("", "MainStream:3", "cv")
PROGRAMS = [
    ("squeezenet1_1", "Ascend310", ""),
    ("bert_tiny_s64", "Ascend310P3", "MainStream:3"),
    ("lstm_lm", "Ascend910B1", ""),
]
MORE = [(path.stem, "Ascend910B1", mode) for path in sorted(MODELS.glob("*.onnx")) for mode in MODES]


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize(
    ("name", "chip", "mode"), [*PROGRAMS, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_plans_of_networks(name: str, chip: str, mode: str) -> None:
    model = asim.compile(asim.load(MODELS / f"{name}.onnx"), chip, multi_stream_parallel_mode=mode)
    program, before = (
        model.program,
        before_each(
            [task.stream for task in model.program.tasks], [task.waits_for for task in model.program.tasks]
        ),
    )
    assert overlaps(program.memory, touched(program, model.graph), before) == []
    check_slices(dict(program.memory.regions))


def unordered(before: list[set[int]], needs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Needs that nothing makes sure of."""
    return [
        (task, other) for task, needed in enumerate(needs) for other in needed if other not in before[task]
    ]


def needless(streams: Sequence[int], waits: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Waits that follow from all others."""
    found = []
    for task, awaited in enumerate(waits):
        for other in awaited:
            fewer = [
                [item for item in items if (number, item) != (task, other)]
                for number, items in enumerate(waits)
            ]
            if other in before_each(streams, fewer)[task]:
                found.append((task, other))
    return found


def test_events_are_all_that_is_needed_and_none_follows_from_others() -> None:
    for seed in range(200):
        random = Random(seed)
        streams = [random.randrange(random.choice((1, 2, 4))) for _ in range(random.randint(1, 14))]
        needs = [
            sorted(random.sample(range(task), random.randint(0, min(3, task))))
            for task in range(len(streams))
        ]
        waits = needed_waits(streams, needs)
        assert unordered(before_each(streams, waits), needs) == []
        assert needless(streams, waits) == []
        assert all(streams[other] != streams[task] for task, awaited in enumerate(waits) for other in awaited)


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize("mode", ["MainStream:2", "cv"])
def test_events_of_a_network_are_those_of_its_edges(mode: str) -> None:
    model = asim.compile(
        asim.load(MODELS / "bert_tiny_s64.onnx"), "Ascend310P3", multi_stream_parallel_mode=mode
    )
    tasks = model.program.tasks
    streams, waits = [task.stream for task in tasks], [task.waits_for for task in tasks]
    made: dict[str, set[int]] = {}  # by tensor: tasks that have to run before it is there
    needs: list[set[int]] = [set() for _ in tasks]
    tasks_of = model.program.info.tasks_of
    for node in model.graph.topological():
        before = set().union(*(made.get(tensor.name, set()) for tensor in node.inputs if tensor is not None))
        for task in tasks_of[node.name]:
            needs[task] |= before - {task}
        made.update(
            dict.fromkeys((tensor.name for tensor in node.outputs), set(tasks_of[node.name][-1:]) or before)
        )
    assert len(set(streams)) > 1
    assert unordered(before_each(streams, waits), [sorted(needed) for needed in needs]) == []
    assert needless(streams, waits) == []
