"""Where to cut a batch: blocks of consecutive units that run B/b times with batch b, so that what is between
them stays in L2.

Whether that pays is a matter of bytes: a block saves the DDR traffic of its inner tensors and costs B/b times
the launches and the weights (unless those stay in L2 too), and smaller tiles. The choice is the cheapest way
to cover all units by runs, each with a batch of its own, found by dynamic programming over cut positions;
tasks are priced by the machine or in closed form (`task_cost`). Only positions at which few bytes are alive
come into question as cuts (local minima of the live bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.formats import align
from ascendsim.isa.program import Program, owner_of
from ascendsim.lower.l2_placement import PAGES, PIECES, touched_roots
from ascendsim.lower.task_cost import TaskPrice, closed_form
from ascendsim.soc.spec import SocSpec

MOST_CUTS = 40  # positions that are tried as borders of blocks; bounds the search
PAYS = (
    0.99  # a cut must make a block at least 1 % faster by the estimate: below that the estimate says nothing
)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of units with a batch of its own.

    Attributes:
        first, end: Units, `end` excluded.
        batch: Samples of one pass.
        seconds: Estimated time of all passes.
        whole_seconds: The same with the whole batch at once.
    """

    first: int
    end: int
    batch: int
    seconds: float
    whole_seconds: float


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A piece of memory between units.

    Attributes:
        made, last: Units that make it and read it last.
        between: Whether it is a tensor between tasks (no input, output or weight).
    """

    made: int
    last: int
    between: bool
    weight: bool


@dataclass(frozen=True, slots=True)
class _Cost:
    """A task: its price, the bytes that it moves by region, and all of them."""

    price: TaskPrice
    moved: Mapping[str, int]
    bytes: int


class BatchSearch:
    """The search on one graph and chip.

    Args:
        units: Names of the nodes of each unit, in execution order.
        programs: By batch: the graph lowered at that batch. Holds the whole batch.
        soc: The chip.
        capacity: Bytes of L2.
        legal: Whether units `first` to `end` (excluded) can run in passes.
        prices: By batch and task: what the machine says; closed form by default.
    """

    def __init__(
        self,
        units: Sequence[Sequence[str]],
        programs: Mapping[int, Program],
        soc: SocSpec,
        capacity: int,
        legal: Callable[[int, int], bool],
        prices: Mapping[int, Mapping[int, TaskPrice]] | None = None,
    ) -> None:
        self._count, self._legal = len(units), legal
        self._capacity, self._page = capacity, max(1, capacity // PAGES)
        self._whole = max(programs)
        known = prices or {
            batch: {task.id: closed_form(task, soc) for task in program.tasks}
            for batch, program in programs.items()
        }
        self._costs = {
            batch: _unit_costs(units, program, known[batch]) for batch, program in programs.items()
        }
        self._sizes = {
            batch: {name: region.bytes for name, region in program.memory.regions.items()}
            for batch, program in programs.items()
        }
        self._aligned = {
            batch: {name: align(size, self._page) for name, size in sizes.items()}
            for batch, sizes in self._sizes.items()
        }
        self._tensors = _tensors(units, programs[self._whole])
        weights = {name for name, tensor in self._tensors.items() if tensor.weight}
        self._weights = {
            batch: [
                frozenset([name for cost in unit for name in cost.moved if name in weights]) for unit in costs
            ]
            for batch, costs in self._costs.items()
        }
        between = {name: tensor for name, tensor in self._tensors.items() if tensor.between}
        places = range(self._count)
        self._made = [[name for name, tensor in between.items() if tensor.made == unit] for unit in places]
        self._ended = [[name for name, tensor in between.items() if tensor.last == unit] for unit in places]
        self._alive = [
            [name for name, tensor in between.items() if tensor.made < unit <= tensor.last] for unit in places
        ]

    def run(self) -> list[Block]:
        """Blocks that are worth cutting, in order."""
        cuts = self._cuts()
        best: dict[int, float] = {0: 0.0}
        choice: dict[int, tuple[int, int, float, float]] = {}
        for place, end in enumerate(cuts[1:], 1):
            for first in cuts[:place]:
                whole = self.seconds(first, end, self._whole)
                options = [(whole, self._whole)]
                if self._legal(first, end):
                    options += [
                        (self.seconds(first, end, batch), batch)
                        for batch in self._costs
                        if batch != self._whole
                    ]
                least, batch = min(
                    options,
                    key=lambda item: (item[0] if item[1] == self._whole else item[0] / PAYS, -item[1]),
                )
                if best[first] + least < best.get(end, float("inf")):
                    best[end] = best[first] + least
                    choice[end] = first, batch, least, whole
        blocks = []
        end = self._count
        while end:
            first, batch, least, whole = choice[end]
            if batch != self._whole:
                blocks.append(Block(first, end, batch, least, whole))
            end = first
        return blocks[::-1]

    def seconds(self, first: int, end: int, batch: int) -> float:
        """Estimated time of units `first` to `end` (excluded) in passes of `batch`."""
        passes = self._whole // batch
        near, room = self._placed(first, end, batch)
        weights = self._weights_that_stay(first, end, batch, room) if passes > 1 else frozenset()
        total = 0.0
        for unit in range(first, end):
            for cost in self._costs[batch][unit]:
                close = again = 0
                for name, size in cost.moved.items():
                    if name in near:
                        close += size
                    elif name in weights:
                        again += size
                total += cost.price.seconds(close / cost.bytes) + (passes - 1) * cost.price.seconds(
                    (close + again) / cost.bytes
                )
        return total

    def _weights_that_stay(self, first: int, end: int, batch: int, room: int) -> frozenset[str]:
        """Weights of a run if all of them fit beside its tensors."""
        weights = frozenset().union(*self._weights[batch][first:end])
        bytes = sum([self._aligned[batch][name] for name in weights])
        return weights if bytes <= room and len(weights) <= PIECES // 2 else frozenset()

    def _placed(self, first: int, end: int, batch: int) -> tuple[set[str], int]:
        """Tensors of a run that fit into L2, those inside first, as `plan_l2` has them, and the bytes that
        are always free.
        """
        near: set[str] = set()
        used = most = count = full = 0
        small, whole = self._aligned[batch], self._aligned[self._whole]
        border = list(self._alive[first])
        for unit in range(first, end):
            for name in self._made[unit]:
                if self._tensors[name].last >= end:
                    border.append(name)
                    continue
                size = small[name]
                if used + size <= self._capacity and count < PIECES:
                    near.add(name)
                    used, count = used + size, count + 1
            most, full = max(most, used), max(full, count)
            for name in self._ended[unit]:
                if name in near:
                    used, count = used - small[name], count - 1
        for name in border:  # they live through all passes
            size = whole[name]
            if most + size <= self._capacity and full < PIECES:
                near.add(name)
                most, full = most + size, full + 1
        return near, self._capacity - most

    def _cuts(self) -> list[int]:
        """Positions between units that may be borders of blocks: local minima of the bytes that are alive
        there.
        """
        alive = [0] * (self._count + 1)
        sizes = self._sizes[self._whole]
        for name, tensor in self._tensors.items():
            if tensor.weight:
                continue
            for place in range(tensor.made + 1, tensor.last + 1):
                alive[place] += sizes[name]
        inner = [
            place
            for place in range(1, self._count)
            if alive[place] <= alive[place - 1] and alive[place] <= alive[place + 1]
        ]
        if len(inner) > MOST_CUTS:
            inner = sorted(sorted(inner, key=lambda place: (alive[place], place))[:MOST_CUTS])
        return [0, *inner, self._count]


def _unit_costs(
    units: Sequence[Sequence[str]], program: Program, prices: Mapping[int, TaskPrice]
) -> list[list[_Cost]]:
    """Costs of the tasks of each unit; traffic by the regions that own the memory."""
    by_id = {task.id: task for task in program.tasks}
    result = []
    for names in units:
        costs = []
        for number in dict.fromkeys(number for name in names for number in program.info.tasks_of[name]):
            moved: dict[str, int] = {}
            for access in by_id[number].accesses:
                root = owner_of(program.memory.regions, access.region)
                moved[root] = moved.get(root, 0) + access.moved_bytes
            costs.append(_Cost(prices[number], moved, max(1, sum(moved.values()))))
        result.append(costs)
    return result


def _tensors(units: Sequence[Sequence[str]], program: Program) -> dict[str, _Tensor]:
    unit_of = {
        number: place
        for place, names in enumerate(units)
        for name in names
        for number in program.info.tasks_of[name]
    }
    tensors = {}
    for name, uses in touched_roots(program).items():
        places = [unit_of[task.id] for task, _, _ in uses]
        kind = program.memory.regions[name].kind
        made = -1 if kind == "input" else min(places)
        last = len(units) if kind == "output" else max(places)
        tensors[name] = _Tensor(made, last, kind == "activation", kind == "weight")
    return tensors
