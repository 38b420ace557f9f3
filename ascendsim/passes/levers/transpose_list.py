"""Kernel change: transposes that go element by element, put on the white list of the quick kernel.

CANN has two kernels behind TransposeD. Which one a static shape gets is decided by a list of shapes in
opp/op_impl/built-in/ai_core/tbe/impl/dynamic/transpose.py (`white_list_shape` of
`_by_dynamic_static_union_version`), to which users of the 310 add their own: a pixel shuffle of RDN takes
10.1 ms instead of 934. Here the profile option transpose_white_list says whether shapes are on it.
"""

from __future__ import annotations

from types import MappingProxyType

from ascendsim.graph.ir import Graph
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site

FILE = "impl/dynamic/transpose.py"


class TransposeList(Lever):
    """Puts shapes on the white list: an option of the compiler, no change of the graph."""

    name = "transpose-white-list"
    title = f"put shapes of transposes on the white list of {FILE}"
    settings = MappingProxyType({"options": MappingProxyType({"transpose_white_list": True})})

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every operator that runs element by element."""
        return tuple(
            Site(
                (name,),
                f"goes element by element; add {list(shape)} to white_list_shape in {FILE}",
                Relation.EXACT,
            )
            for name, shape in context.element_by_element.items()
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Nothing: `settings` do it."""
