"""What FIXPIPE does as the Cube's result is stored, besides what `conv/fixpipe_conv.py` has it do.

    ConvCastFusionPass          Cast(Conv(x), float32)           =>  Conv(x) of float32, not rounded
    CubeTransFixpipeFusionPass  TransData(product, ND)           =>  product, stored by rows
    ARefreshCubeC0FusionPass    Conv of int8 or float32          =>  the same, noted with 32 or 8 channels a
                                                                     block (`Node.origin["c0"]`) instead of 16

Patterns are not public (msprof's advisor names the first's operators). The counts of published compilations
say that the third looks at every convolution of the chips behind Ascend 310, and that float16 does not need
it. FIXPIPE stores rows (NZ to ND), not planes, so maps keep their TransData.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, c0
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.fixpipe_conv import WITH_FIXPIPE
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

_CONVOLUTIONS = "Conv|QuantConv|FullyConnection"
_PRODUCTS = "MatMul|BatchMatMul|FullyConnection"
USUAL_BLOCK = 16  # channels of float16 in one block of 32 bytes
OLD = "v100"


class ConvCastFusionPass(FusionRule):
    """A cast to float32 behind a convolution."""

    name = "ConvCastFusionPass"
    patterns = {
        "ConvCastFusionPass": Op("Cast", Op("Conv|FullyConnection", name="conv", shared=True), name="cast")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses chips without the stage, other types, other readers."""
        conv, cast = match.nodes["conv"], match.root
        if context.generation not in WITH_FIXPIPE:
            return "the chip has no FIXPIPE"
        if (conv.output.dtype, cast.output.dtype) != (DType.FLOAT16, DType.FLOAT32):
            return "the cast is not one from float16 to float32"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Lets the convolution give the wide type."""
        result, taken = match.nodes["conv"].output, match.root.output
        result.dtype, result.origin_dtype = taken.dtype, taken.origin_dtype
        replace_root(graph, match.root, result)


class CubeTransFixpipeFusionPass(FusionRule):
    """A conversion to rows behind a product."""

    name = "CubeTransFixpipeFusionPass"
    patterns = {
        "CubeTransFixpipeFusionPass": Op(
            "TransData", Op(f"{_PRODUCTS}|Conv|QuantConv", name="cube", shared=True), name="transdata"
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses chips without the stage, maps, other readers."""
        cube, result = match.nodes["cube"], match.root.output
        if context.generation not in WITH_FIXPIPE:
            return "the chip has no FIXPIPE"
        if (cube.output.format, result.format) != (Format.FRACTAL_NZ, Format.ND):
            return "FIXPIPE stores rows, no planes"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Lets the product store by rows."""
        result = match.nodes["cube"].output
        result.format = match.root.output.format
        replace_root(graph, match.root, result)


class ARefreshCubeC0FusionPass(FusionRule):
    """Channels a block of what the Cube reads."""

    name = "ARefreshCubeC0FusionPass"
    patterns = {"ARefreshCubeC0FusionPass": Op(_CONVOLUTIONS, Any("x"), name="conv")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses old chips and the usual block."""
        if context.generation == OLD:
            return "the chip's Cube has one block for all types"
        block = c0(match.tensors["x"].element_type)
        if block == USUAL_BLOCK:
            return f"the block has {USUAL_BLOCK} channels"
        return "the block is noted already" if match.root.origin.get("c0") == block else None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        """Notes the block."""
        match.root.origin["c0"] = c0(match.tensors["x"].element_type)


RULES = (ConvCastFusionPass(), CubeTransFixpipeFusionPass(), ARefreshCubeC0FusionPass())
