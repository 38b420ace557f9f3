"""IdentityPass and its kin: operators that only hand their input on when a trained model is run.

GE has one pass for each of these markers; they differ in nothing but the operator. A mask that Dropout gives
is all true then; where somebody reads it the node stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Node
from ascendsim.passes.engine.edits import is_standard, same_type, small_value
from ascendsim.passes.engine.node_pass import Site, replace_by


@dataclass(frozen=True, slots=True)
class RemoveForwarding:
    """Removes nodes of one operator type whose first output is their first input.

    Attributes:
        name: GE's name of the pass.
        op_type: The operator.
        domain: Its domain.
    """

    name: str
    op_type: str
    domain: str = ""

    @property
    def op_types(self) -> frozenset[tuple[str, str]]:
        """The operator."""
        return frozenset({(self.domain, self.op_type)})

    def run(self, node: Node, site: Site) -> bool:
        if not _forwards(node) or not node.outputs:
            return False
        source = node.required(0)
        if not same_type(source, node.output):
            return False
        return replace_by(node, source, site)


def _forwards(node: Node) -> bool:
    """Whether the node hands its input on: a Dropout does unless training mode may be on."""
    if node.input(0) is None:
        return False
    if not is_standard(node, "Dropout") or node.input(2) is None:
        return True
    training = small_value(node.input(2), 1)
    return training is not None and not training.any()


IDENTITY = RemoveForwarding("IdentityPass", "Identity")
DROPOUT = RemoveForwarding("DropOutPass", "Dropout")
MARKERS = tuple(
    RemoveForwarding(name, op_type, "ascend")
    for name, op_type in (
        ("PrintOpPass", "Print"),
        ("StopGradientPass", "StopGradient"),
        ("PreventGradientPass", "PreventGradient"),
        ("PlaceholderWithDefaultPass", "PlaceholderWithDefault"),
        ("SnapshotPass", "Snapshot"),
        ("GuaranteeConstPass", "GuaranteeConst"),
    )
)
