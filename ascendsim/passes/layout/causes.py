"""Why a TransData is there: noted on the node when formats are assigned, for the reports."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Node

TRANSDATA = "TransData"
GRAPH_INPUT, GRAPH_OUTPUT = "the graph's input", "the graph's output"
# keys of Node.origin; plain texts, which saved models keep
_KIND, _NAMES = "forced_by", "forced_at"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """What forces a change of format.

    Attributes:
        kind: Type of the operator that has no blocked format ("Reshape"), or an end of the graph.
        names: The user's operators that it stands for; the tensor, for an end.
    """

    kind: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """What reports call it: the first few operators."""
        return "+".join(self.names[:_SHOWN]) + ("+..." if len(self.names) > _SHOWN else "")

    def note(self, node: Node) -> None:
        """Writes it down on a TransData."""
        node.origin[_KIND], node.origin[_NAMES] = self.kind, self.names

    @classmethod
    def of(cls, node: Node) -> Cause | None:
        """What forces a TransData; None for one that the model itself has."""
        kind, names = node.origin.get(_KIND), node.origin.get(_NAMES)
        return cls(kind, tuple(names)) if isinstance(kind, str) and names else None
