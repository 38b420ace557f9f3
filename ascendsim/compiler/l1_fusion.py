"""L1 fusion as `compile` does it: consecutive convolutions become one task where the simulated chip says that
it pays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ascendsim.core.errors import CompileError
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.scopes import SECOND_STAGE
from ascendsim.isa.program import MemoryPlan, Program, ProgramInfo, Task
from ascendsim.lower import LowerOptions, scope_lowering
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.fused import FusedScope, moved_bytes
from ascendsim.machine import run as run_machine
from ascendsim.opset import OpSet
from ascendsim.passes.l1 import Pair, find_pairs, join_pair
from ascendsim.soc import SocSpec


@dataclass(frozen=True, slots=True)
class L1Pair:
    """Two convolutions in one task.

    Attributes:
        nodes: Names in execution order.
        saved_bytes: Bytes to and from global memory of what is between them, which are gone.
        operand_bytes: Bytes of maps and weights that move more often than in two tasks (negative: less
            often).
        pair_us, apart_us: Time of the one task, and of the two.
    """

    nodes: tuple[str, ...]
    saved_bytes: int
    operand_bytes: int
    pair_us: float
    apart_us: float


@dataclass(frozen=True, slots=True)
class L1Report:
    """What L1 fusion did.

    Attributes:
        pairs: Joined.
        refused: Pairs that stay apart, by the names of the convolutions, with the reason.
    """

    pairs: tuple[L1Pair, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def fuse_l1(graph: Graph, soc: SocSpec, opset: OpSet, lowering: LowerOptions) -> L1Report:
    """Joins pairs of convolutions, in place; those that gain most first.

    Args:
        graph: The device graph, scopes of UB fusion marked.
        soc: The chip.
        opset: Operators.
        lowering: How the graph is lowered afterwards.
    """
    maker = scope_lowering(soc, opset, lowering)
    refused: dict[str, str] = {}
    gains: list[tuple[float, int, Pair, L1Pair]] = []
    for number, pair in enumerate(find_pairs(graph)):
        name = f"{pair.first[0].name} + {pair.second[0].name}"
        try:
            apart = [maker.settled(pair.first), maker.settled(pair.second)]
            pair.second[0].origin[SECOND_STAGE] = True
            joined = maker.settled((*pair.first, *pair.second))
        except CompileError as error:
            refused[name] = str(error)
            continue
        finally:
            pair.second[0].origin.pop(SECOND_STAGE, None)
        inside = pair.between.name
        one, two = _time([joined], soc, inside), _time(apart, soc, inside)
        if one >= two:
            refused[name] = f"one task takes {one:.1f} us, two take {two:.1f} us"
            continue
        names = tuple(node.name for node in (*pair.first, *pair.second))
        before, after = moved_bytes(scope.stage for scope in apart), moved_bytes([joined.stage])
        saved = before[inside, True] + before[inside, False]
        gains.append(
            (two - one, number, pair, L1Pair(names, saved, after.total() - before.total() + saved, one, two))
        )
    taken: set[Node] = set()
    pairs = []
    for _, _, pair, made in sorted(gains, key=lambda item: (-item[0], item[1])):
        if taken.isdisjoint((*pair.first, *pair.second)):
            taken.update(join_pair(graph, pair))
            pairs.append(made)
        else:
            refused[f"{pair.first[0].name} + {pair.second[0].name}"] = "one of the two is in another pair"
    return L1Report(tuple(pairs), refused)


def _time(scopes: list[FusedScope], soc: SocSpec, between: str) -> float:
    """Microseconds of some tasks one after the other; what is between them lies in a software-managed L2 if
    it fits.
    """
    tasks, sizes = [], dict[str, int]()
    for number, scope in enumerate(scopes):
        stage = scope.stage
        tasks.append(
            Task(
                number,
                scope.name,
                stage.kind,
                groups=stage.groups,
                accesses=accesses_of(stage.groups, stage.sizes),
            )
        )
        for name, size in stage.sizes.items():
            sizes.setdefault(name, size)
    fits = between in sizes and 2 * sizes[between] <= (soc.l2.size or 0)
    program = Program(
        tuple(tasks), MemoryPlan.in_a_row(sizes), info=ProgramInfo(l2_placed=(between,) if fits else ())
    )
    return run_machine(program, soc).duration_us
