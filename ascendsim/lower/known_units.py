"""Lowered units that are kept, by what decides how they are lowered (`unit_key`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ascendsim.core.errors import CompileError, Named
from ascendsim.core.keys import forget_oldest
from ascendsim.graph.ir import Node
from ascendsim.isa.program import Task
from ascendsim.lower.fused import FusedScope, scope_name
from ascendsim.lower.unit_key import Key, operators_of
from ascendsim.opset.work import CubeWork, MoveWork, NoTask, VectorWork

# what is not decided by comparing tasks that follow each other
_PLAIN_ENGINES = ("cube", "vector", "movement", "scalar")
_PLAIN_WORK = (CubeWork, VectorWork, MoveWork)


@dataclass(frozen=True, slots=True)
class LoweredUnit:
    """What a unit runs.

    Attributes:
        engine: What runs it, as in `ProgramInfo`.
        tasks: Numbered from 0.
        nothing: Where its outputs lie if it runs nothing.
        internal: Names of tensors that never leave the core.
        workspaces: Bytes of its scratch regions.
        option: Which tiling its Cube task has, as `Stage.option`.
    """

    engine: str
    tasks: tuple[Task, ...] = ()
    nothing: NoTask | None = None
    internal: frozenset[str] = frozenset()
    workspaces: Mapping[str, int] = field(default_factory=dict)
    option: int = -1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a scope has no program.

    Attributes:
        error: As the first such scope has it.
        named: All that an error may name of the first scope.
    """

    error: CompileError
    named: tuple[Named, ...]

    @property
    def can_be_shared(self) -> bool:
        """Whether the error says all that it names, so that it can be told of an equal scope."""
        about = self.error.about
        return about is not None and set(about.named) <= set(self.named)

    def without_trace(self) -> Refusal:
        """The same, with an error that keeps nothing of where it was raised alive."""
        error = self.error
        return Refusal(
            CompileError(error.about or error.subject, error.rule, error.actual, error.remedy), self.named
        )

    def of(self, named: Sequence[Named]) -> CompileError:
        """The same refusal of an equal scope."""
        error = self.error
        assert error.about is not None
        subject = error.about.with_names(dict(zip(self.named, named, strict=True)))
        return CompileError(subject, error.rule, error.actual, error.remedy)


def named_in(nodes: Sequence[Node], tensors: Sequence[str]) -> tuple[Named, ...]:
    """All that an error may name of a scope, in an order that equal scopes share."""
    names = [("tensor", name) for name in tensors]
    names += [("scope", scope_name(nodes)), *(("node", node.name) for node in nodes)]
    return tuple([Named(kind, name) for kind, name in names])


@dataclass(slots=True)
class KnownUnits:
    """Units of one compilation, or of all of a process, by key, each with the names of its tensors; for one
    chip, one opset and one set of options.

    Attributes:
        nodes: Single nodes.
        scopes: Scopes of several nodes with the closed form's tiling, or why they have no program.
        settled: Scopes with the tiling that they keep.
        engines: What runs single nodes.
        plain: Those that are alike on all chips whose single tasks run alike (`SocSpec.task_figures`): one
            piece of work for the Cube, the vector unit or the DMA, of operators whose kernels are the same in
            all versions of CANN. None = they stand with the others.
        versioned: Operators whose kernels are not.
    """

    nodes: dict[Hashable, tuple[tuple[str, ...], LoweredUnit]] = field(default_factory=dict)
    scopes: dict[Hashable, tuple[tuple[str, ...], FusedScope | Refusal]] = field(default_factory=dict)
    settled: dict[Hashable, tuple[tuple[str, ...], FusedScope]] = field(default_factory=dict)
    engines: dict[Hashable, str] = field(default_factory=dict)
    plain: KnownUnits | None = None
    versioned: Set[str] = frozenset()

    def node(self, key: Hashable) -> tuple[tuple[str, ...], LoweredUnit] | None:
        """A node, if it is known."""
        return self.nodes.get(key) or (self.plain.nodes.get(key) if self.plain is not None else None)

    def scope(self, key: Hashable) -> tuple[tuple[str, ...], FusedScope | Refusal] | None:
        """What became of a scope, if it is known."""
        return self.scopes.get(key) or (self.plain.scopes.get(key) if self.plain is not None else None)

    def settled_scope(self, key: Hashable) -> tuple[tuple[str, ...], FusedScope] | None:
        """A scope with the tiling that it keeps, if it is known."""
        return self.settled.get(key) or (self.plain.settled.get(key) if self.plain is not None else None)

    def keep_node(self, key: Key, names: tuple[str, ...], unit: LoweredUnit) -> None:
        """Keeps a node for other compilations."""
        self._of(key, unit.engine in _PLAIN_ENGINES).nodes[key] = names, unit

    def keep_scope(self, key: Key, names: tuple[str, ...], outcome: FusedScope | Refusal) -> None:
        """Keeps what became of a scope for other compilations, without its graph."""
        if isinstance(outcome, FusedScope):
            self._of(key, isinstance(outcome.work, _PLAIN_WORK)).scopes[key] = names, outcome.without_graph()
        elif outcome.can_be_shared:
            self.scopes[key] = names, outcome.without_trace()

    def keep_settled(self, key: Key, names: tuple[str, ...], scope: FusedScope) -> None:
        """Keeps a scope with its tiling for other compilations, without its graph."""
        self._of(key, isinstance(scope.work, _PLAIN_WORK)).settled[key] = names, scope.without_graph()

    def make_room(self, most: int) -> None:
        """Forgets the first of the units of each kind if there are more than so many."""
        for known in (self.nodes, self.scopes, self.settled, self.engines):
            forget_oldest(known, most)

    def _of(self, key: Key, single: bool) -> KnownUnits:
        if self.plain is None or not single or self.versioned & operators_of(key):
            return self
        return self.plain
