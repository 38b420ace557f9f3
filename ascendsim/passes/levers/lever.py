"""What a lever is: it finds the sites where it could be pulled, says why or why not, and rewrites the chosen
ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.opset import InferContext, OpSet
from ascendsim.opset.work import LowerContext
from ascendsim.passes.infer import infer
from ascendsim.passes.rewriting.replace import replacing
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import rewrite_found


class Relation(Enum):
    """How the outputs of the changed model relate to those of the model as it was; the value is how reports
    say it.

    EXACT is the same function of the inputs: results agree bit for bit or within the rounding of the
    operators that changed. APPROXIMATE computes nearly the same, or the same only within bounds that the
    reason names. RETRAIN is another model of the same kind.
    """

    EXACT = "exact"
    APPROXIMATE = "approximates"
    RETRAIN = "retrain needed"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the graph where a lever could be pulled.

    Attributes:
        nodes: All operators concerned; the first one names the site.
        reason: Why it pays there, or why it cannot be done.
        relation: What becomes of the values; None = cannot be done.
    """

    nodes: tuple[str, ...]
    reason: str
    relation: Relation | None = None

    @property
    def node(self) -> str:
        """The operator that names the site."""
        return self.nodes[0]

    @property
    def possible(self) -> bool:
        return self.relation is not None

    @property
    def place(self) -> str:
        """What names the site in reports."""
        return self.node

    @property
    def names(self) -> tuple[str, ...]:
        """All operators concerned."""
        return self.nodes


@dataclass(frozen=True, slots=True)
class LeverContext:
    """What a lever may ask.

    Attributes:
        opset: Operators, to infer what a rewrite creates.
        ai_cpu: Names of the user's nodes that run on the AI CPU of the chip.
        element_by_element: Operators of the chip that move single elements for want of a better kernel, with
            the shapes that they turn.
        forced: What forces TransData on the chip: operators by name, ends of the graph by that of the tensor,
            and their kind (`passes.layout.causes`).
        chip: What the chip's AI Cores have, to ask where an operator of other types would run.
        half: Whether the precision mode makes float32 float16.
    """

    opset: OpSet
    ai_cpu: frozenset[str] = frozenset()
    element_by_element: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    forced: Mapping[str, str] = field(default_factory=dict)
    chip: LowerContext = field(default_factory=LowerContext)
    half: bool = False

    def add(
        self, graph: Graph, op_type: str, *inputs: Tensor | None, stem: str, **attributes: object
    ) -> Tensor:
        """Adds a node of one output with inferred type and shape, and returns the output."""
        node = graph.add_node(op_type, inputs, name=graph.fresh(stem))
        node.attributes.update(attributes)  # type: ignore[arg-type]
        self.opset.get(node).infer(InferContext(node))
        return node.output


class Lever(ABC):
    """A change of the model that a person decides on.

    Attributes:
        name: What commands call it.
        title: One line for a table.
        settings: Options of the compiler that belong to it; a lever that is nothing but options leaves the
            graph as it is. Profile options stand under "options".
    """

    name: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Where it could be pulled and where it could not, in execution order; changes nothing."""

    @abstractmethod
    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Pulls it at one site, in place. The site is one of `sites(graph)` that is possible.

        Tensors that are graph outputs keep their names (`rewriting.replace`).
        """


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph after a lever.

    Attributes:
        graph: The changed copy.
        sites: Where the lever was pulled.
    """

    graph: Graph
    sites: tuple[Site, ...]


def find_sites(graph: Graph, lever: Lever, context: LeverContext) -> tuple[Site, ...]:
    """Where a lever could be pulled in a graph, and where it cannot be and why."""
    return lever.sites(graph, context)


def apply_lever(
    graph: Graph, lever: Lever, context: LeverContext, nodes: Collection[str] | None = None
) -> Rewritten:
    """Pulls a lever on a copy of a graph; shapes are inferred again.

    Args:
        graph: The user's graph; stays as it is.
        lever: Which.
        context: Operators and chip.
        nodes: Names of the sites (`Site.node`) to change; all possible ones by default.

    Raises:
        PassError: If the changed graph is not valid.
    """
    changed = copy_graph(graph)
    done: list[Site] = []
    sites = [site for site in lever.sites(graph, context) if nodes is None or site.node in nodes]

    def rewrite(site: Site) -> None:
        with replacing(changed, [changed.node(name) for name in site.nodes], sources=False):
            lever.rewrite(changed, site, context)
        done.append(site)

    record = PatternRecord("lever", lever.name, lever.title)
    try:
        rewrite_found(record, sites, lambda site: None if site.possible else site.reason, rewrite)
        infer(changed, context.opset)
        verify(changed, context.opset)
    except AscendSimError as error:
        raise PassError(
            f"lever {lever.name}", f"failed on {graph.name!r}: {error}", remedy="leave this lever out"
        ) from error
    return Rewritten(changed, tuple(done))
