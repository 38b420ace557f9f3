"""Forms: CANN often has several operators for one of ONNX: one that reads what steers it as tensors (Tile),
one that has it as attributes (TileD), one with a kernel for any shape. Passes change between them.

Here such an operator is one operator whatever its form, so values and work stay. A form rule notes what CANN
makes of it: the operator's name in CANN (`Node.origin["form"]`), and which inputs have become attributes
(`Node.origin["attribute_ports"]`): reports do not list those among the inputs of the task any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.checks import known_values, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Match, Op, Pattern

FORM = "form"
ATTRIBUTE_PORTS = "attribute_ports"


def form_of(node: Node) -> str:
    """The operator's name in CANN as far as form rules have noted it, else the empty text."""
    return str(node.origin.get(FORM, ""))


class FormRule(FusionRule):
    """One operator gets another form.

    Args:
        name: Of the pass.
        pattern: CANN's name of its pattern.
        types: Operators that it looks at, joined by "|".
        form: What they become; with several types, one for each.
        steering: Whether the inputs that steer it must be constants and become attributes.
        frameworks: Where the operator must come from; empty = anywhere.
    """

    def __init__(
        self,
        name: str,
        pattern: str,
        types: str,
        form: str | Mapping[str, str],
        *,
        steering: bool = True,
        frameworks: Iterable[str] = (),
    ) -> None:
        self.name = name  # type: ignore[misc]  # one class serves many passes
        self.patterns: Mapping[str, Op | Pattern] = {pattern: Op(types, name="node")}  # type: ignore[misc]
        self._form, self._steering, self._frameworks = form, steering, frozenset(frameworks)

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Operators of the frameworks that the pass serves."""
        return (
            match
            for match in super().find(graph, pattern)
            if not self._frameworks or match.root.origin.get("framework", "") in self._frameworks
        )

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses open shapes, steering values that are not known, and what has the form."""
        node = match.root
        form = self._form_for(node)
        if not form:
            return "the operator takes what steers it as inputs"
        if form_of(node) == form:
            return f"the operator is {form} already"
        reason = not_static([*node.inputs, *node.outputs])
        if reason is not None or not self._steering:
            return reason
        ports = steering_ports(node, context)
        if any(known_values(node.input(port)) is None for port in ports):
            return "what steers the operator is not known"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Notes the form."""
        node = match.root
        node.origin[FORM] = self._form_for(node)
        ports = steering_ports(node, context) if self._steering else ()
        if ports:
            node.origin[ATTRIBUTE_PORTS] = ports

    def _form_for(self, node: Node) -> str:
        return self._form if isinstance(self._form, str) else self._form.get(node.op_type, "")


def steering_ports(node: Node, context: FusionContext) -> tuple[int, ...]:
    """Ports of the inputs that steer an operator and that it has."""
    ports = context.opset.get(node).facts.parameters
    return tuple(port for port in range(node.input_count) if port in ports and node.input(port) is not None)
