"""Data parallel training: the all-reduces of the gradients in the program of one device.

Every device runs the same tasks on a batch of its own. A gradient that is ready joins a bucket; the bucket's
all-reduce runs on a stream of its own beside the tasks that follow, and what updates with the gradient waits
for it. Tasks that depend on an all-reduce go behind those that do not: a stream is served in order, and an
update in the middle of the backward tasks would hold them up. Casts and conversions of a gradient follow what
makes it.

Tasks stay as they were compiled for one device. Where fusion joined the end of a gradient (a cast) and its
update in one task, the all-reduce stands before that task, as it cannot stand inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ascendsim.core.errors import InputError
from ascendsim.graph.carried import GRAD
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import Program, Task, TaskKind
from ascendsim.lower.streams.dependencies import task_dependencies
from ascendsim.soc.collectives import BUCKET_BYTES, all_reduce_us
from ascendsim.soc.servers import ServerSpec
from ascendsim.training import scopes

CONVERSIONS = ("Cast", "TransData")


@dataclass(frozen=True, slots=True)
class _Gradient:
    """Bytes, tasks after which it is ready, tasks that wait for its sum, and casts and conversions before."""

    size: int
    ready: frozenset[int]
    waiting: frozenset[int]
    conversions: frozenset[int] = frozenset()


def with_all_reduces(
    graph: Graph, program: Program, server: ServerSpec, devices: int, bucket_bytes: int = BUCKET_BYTES
) -> Program:
    """The program of one of several devices.

    Args:
        graph: The device graph of a training step.
        program: Of one device alone.
        server: Links.
        devices: That train together, more than one.
        bucket_bytes: Gradients that are reduced together, at most; a larger one goes alone.

    Raises:
        InputError: If the graph has no gradients.
    """
    tasks = _Tasks(graph, program)
    found = [tasks.gradient(tensor) for tensor in graph.outputs if tensor.name.endswith(GRAD)]
    gradients = [one for one in found if one.ready]
    if not gradients:
        rule = "is no training step: no output of it is a gradient"
        raise InputError(f"model {graph.name!r}", rule, remedy="asim.training_step makes one; or devices=1")
    rank = tasks.ranks(frozenset[int]().union(*(one.conversions for one in gradients)))
    gradients.sort(key=lambda one: max(rank[task] for task in one.ready))
    stream = max(task.stream for task in program.tasks) + 1
    number = max(task.id for task in program.tasks) + 1
    behind: dict[int, list[Task]] = {}  # by the last task that a collective waits for
    waits: dict[int, set[int]] = {}
    for count, bucket in enumerate(_buckets(gradients, bucket_bytes)):
        ready = frozenset[int]().union(*(one.ready for one in bucket))
        collective = Task(
            number + count,
            f"HcomAllReduce_{count}",
            TaskKind.COMMUNICATION,
            stream,
            waits_for=tuple(sorted(ready)),
            known_us=all_reduce_us(server, devices, sum(one.size for one in bucket)),
        )
        for task in frozenset[int]().union(*(one.waiting for one in bucket)):
            waits.setdefault(task, set()).add(collective.id)
        behind.setdefault(max(ready, key=rank.__getitem__), []).append(collective)
    return replace(program, tasks=tasks.ordered(rank, behind, waits))


def _buckets(gradients: Iterable[_Gradient], most: int) -> list[list[_Gradient]]:
    """Gradients that are reduced together, as they become ready."""
    buckets: list[list[_Gradient]] = []
    left = 0
    for one in gradients:
        if not buckets or one.size > left:
            buckets.append([])
            left = most
        buckets[-1].append(one)
        left -= one.size
    return buckets


class _Tasks:
    """What depends on what in the program of one device."""

    def __init__(self, graph: Graph, program: Program) -> None:
        self._tasks, self._tasks_of = program.tasks, program.info.tasks_of
        self._needs = task_dependencies(graph, program.tasks, program.info.tasks_of)
        self._backward = {
            task for node in graph.nodes if _is_backward(node) for task in self._tasks_of.get(node.name, ())
        }
        # What backward tasks need: were one to wait for an all-reduce, gradients would wait for gradients.
        self._awaited: set[int] = set()
        for task, needs in reversed(list(enumerate(self._needs))):
            if task in self._backward or task in self._awaited:
                self._awaited.update(needs)

    def gradient(self, output: Tensor) -> _Gradient:
        """What is known of the gradient behind an output, before loss scale and clipping, which need the
        sum.
        """
        tensor = output
        while tensor.producer is not None and not _is_backward(tensor.producer):
            same = [
                source
                for source in tensor.producer.inputs
                if source is not None and source.producer is not None and source.elements == output.elements
            ]
            if not same:
                break
            tensor = same[0]
        makers = self._makers(tensor)
        waiting, conversions = self._takers(tensor)
        if not waiting:
            return _Gradient(output.logical_bytes, frozenset(self._makers(output)), frozenset())
        ready = (makers | conversions) - waiting
        for maker in makers & waiting:
            needs = set(self._needs[maker])
            ready |= needs & self._backward or needs
        early = frozenset(conversions - waiting)
        return _Gradient(output.logical_bytes, frozenset(ready), frozenset(waiting), early)

    def ranks(self, conversions: frozenset[int]) -> dict[int, int]:
        """Places of the tasks when casts and conversions of gradients follow what they take, so that the
        all-reduce need not wait for the end of the backward tasks, where one device may do them.
        """
        base = list(range(len(self._tasks)))
        for task in sorted(conversions):
            base[task] = max((base[other] for other in self._needs[task]), default=task)
        order = sorted(range(len(base)), key=lambda task: (base[task], task))
        return {task: place for place, task in enumerate(order)}

    def ordered(
        self, rank: dict[int, int], behind: dict[int, list[Task]], waits: dict[int, set[int]]
    ) -> tuple[Task, ...]:
        """First what does not depend on an all-reduce, with the all-reduces, then the rest; both in the order
        of their ranks. Waits are written out: the order in a stream no longer implies the old ones.
        """
        late: set[int] = set()
        early: list[Task] = []
        last: list[Task] = []
        for place in sorted(rank, key=rank.__getitem__):
            task, needs = self._tasks[place], self._needs[place]
            others = {other for other in needs if self._tasks[other].stream != task.stream}
            after = tuple(sorted({*task.waits_for, *others, *waits.get(task.id, ())}))
            if task.id in waits or late & set(needs):
                late.add(task.id)
            part = last if task.id in late else early
            part += [replace(task, waits_for=after), *behind.get(task.id, ())]
        return (*early, *last)

    def _makers(self, tensor: Tensor | None) -> set[int]:
        """Tasks after which a tensor is there; a node without a task hands on those of its inputs."""
        if tensor is None or tensor.producer is None:
            return set()
        own = self._tasks_of.get(tensor.producer.name, ())
        if own:
            return {own[-1]}
        return set[int]().union(*(self._makers(source) for source in tensor.producer.inputs))

    def _takers(self, tensor: Tensor) -> tuple[set[int], set[int]]:
        """Tasks that update with a gradient, and those that bring it there: casts and conversions. Backward
        nodes (of batch normalisation) take the device's own gradient.
        """
        found: set[int] = set()
        way: set[int] = set()
        for node in tensor.consumers:
            own = set(self._tasks_of.get(node.name, ()))
            if node.op_type in CONVERSIONS or not own - self._awaited:
                if _is_backward(node):
                    continue
                behind = [self._takers(made) for made in node.outputs]
                taken = set[int]().union(*(takers for takers, _ in behind))
                found |= taken
                way |= set[int]().union(own if taken else (), *(others for _, others in behind))
            elif not _is_backward(node):
                found |= own - self._awaited
        return found, way


def _is_backward(node: Node) -> bool:
    """Whether a node computes a gradient; casts and conversions only carry one."""
    names = node.origin.get("source_names", (node.name,))
    scope = next(iter(names), node.name).partition("/")[0]
    return scope == scopes.GRADIENTS and node.op_type not in CONVERSIONS
