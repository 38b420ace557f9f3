"""InferShapePass: types and shapes of a node's outputs from what is known of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Node, Shape, Tensor
from ascendsim.passes.engine.node_pass import Site
from ascendsim.passes.infer import Inference


@dataclass(frozen=True, slots=True)
class InferShapePass:
    """Applies the operator's shape rule; what was known before (from the file, say) and the rule cannot tell
    stays.

    Readers of an output whose type or shape became another one are visited again. Nodes whose outputs are all
    static are passed over: nothing more can be known of them.
    """

    name: str = "InferShapePass"
    op_types: None = None

    def run(self, node: Node, site: Site) -> bool:
        for tensor in node.outputs:
            if tensor.origin_dtype is None or not tensor.is_static:
                break
        else:
            return False
        definition = site.opset.find(node.op_type, node.domain)
        if definition is None:
            return False
        before = [(tensor.dtype, tensor.origin_dtype, tensor.shape) for tensor in node.outputs]
        if not Inference(site.opset).apply_rule(node, definition):
            return False
        changed = False
        for tensor, (dtype, origin, shape) in zip(node.outputs, before, strict=True):
            if tensor.origin_dtype is origin:
                tensor.dtype = dtype  # a device type that was assigned stays
            tensor.shape = _merged(tensor.shape, shape)
            if (tensor.origin_dtype, tensor.shape) != (origin, shape):
                changed = True
                self._changed(tensor, site)
        return changed

    def _changed(self, tensor: Tensor, site: Site) -> None:
        site.tally.count("inferred tensors")
        for reader in tensor.consumers:
            site.again(reader)


def _merged(new: Shape | None, old: Shape | None) -> Shape | None:
    """The new shape, with what only the old one knows filled in."""
    if new is None or old is None:
        return old if new is None else new
    if len(new) != len(old):
        return new
    return tuple(
        before if dim is None or (isinstance(dim, str) and isinstance(before, int)) else dim
        for dim, before in zip(new, old, strict=True)
    )
