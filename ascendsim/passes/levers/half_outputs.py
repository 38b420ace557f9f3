"""Parameter change: float16 results at the network's end.

... -> Add -> y (float32)   becomes   ... -> Add -> Cast(float16) -> y (float16)

With precision_mode force_fp16 the device holds y in float16 and widens it for the model's sake: a Cast task, and a TransData that moves
four bytes an element instead of two. The numbers are the same; whoever reads them must take float16. ATC's option --output_type FP16
(`compile(output_type="FP16")`) does it without a change of the model.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site, hand_out


class HalfOutputs(Lever):
    """Hands out float32 outputs in float16."""

    name = "float16-outputs"
    title = "hand out results in float16"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every float32 output of the network that a node makes."""
        return tuple(self._site(tensor) for tensor in dict.fromkeys(graph.outputs) if tensor.dtype is DType.FLOAT32 and tensor.producer)

    def _site(self, tensor: Tensor) -> Site:
        assert tensor.producer is not None
        reason = f"output {tensor.name} is computed in float16 and widened to float32 for the model's sake only"
        return Site(tensor.producer.name, (tensor.producer.name,), reason, Relation.EXACT)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Puts a Cast before the outputs of one node; other readers go on reading float32."""
        for tensor in graph.node(site.node).outputs:
            if tensor.dtype is DType.FLOAT32 and any(item is tensor for item in graph.outputs):
                hand_out(graph, tensor, context.add(graph, "Cast", tensor, stem=f"{tensor.name}_float16", to=DType.FLOAT16))
