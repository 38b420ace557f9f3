"""Parameter change: float16 results at the network's end (ATC's --output_type FP16).

... -> Resize (float16) -> Cast(float32) -> TransData -> y
becomes ... -> Resize (float16) -> TransData -> y

With precision_mode force_fp16 the device holds y in float16 and widens it for the model's sake: a Cast, and a
TransData that moves four bytes an element instead of two. The numbers are the same; whoever reads them must
take float16. The model's file stays as it is.
"""

from __future__ import annotations

from types import MappingProxyType

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site


class HalfOutputs(Lever):
    """Hands out float32 outputs in float16: an option of the compiler, no change of the graph."""

    name = "float16-outputs"
    title = "hand out results in float16"
    settings = MappingProxyType({"output_type": "FP16"})

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every float32 output of the network that a node makes."""
        return tuple(
            _site(tensor)
            for tensor in dict.fromkeys(graph.outputs)
            if tensor.dtype is DType.FLOAT32 and tensor.producer
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Nothing: `settings` do it."""


def _site(tensor: Tensor) -> Site:
    assert tensor.producer is not None
    reason = (
        f"output {tensor.name} is computed in float16 and widened for the model's sake only; compile "
        f"with output_type FP16"
    )
    return Site((tensor.producer.name,), reason, Relation.EXACT)
