"""Which of CANN's operators stands for one of ONNX, where several do: recurrent layers, splits, joins,
convolutions and the kernel of transposes.

    GRUFusionPass               GRU                              =>  DynamicGRUV2
    CommonLSTMFusionPass        LSTM                             =>  DynamicRNN
    ADepthwiseFusionPass        Conv of one channel a group      =>  DepthwiseConv2D, its filter in that form
    DeconvWeightTransFusionPass ConvTranspose                    =>  Conv2DTransposeD, its filter turned
    ZSplitVFusionPass           Split with sizes                 =>  SplitVD
    ZSplitFusionPass            Split in equal parts             =>  SplitVD       (of ONNX and TensorFlow)
    ZSplitDFusionPass           Split in equal parts             =>  SplitVD       (of other sources)
    ZConcatFusionPass           Concat of TensorFlow             =>  ConcatD
    UnpackFusionPass            Split whose parts are squeezed   =>  Unpack
    TransposedUpdateFusionPass  TransposeD                       =>  Transpose, the kernel for any shape

The last one acts where the kernel's list of shapes holds the shape: profile option `transpose_white_list`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import known_values
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_folding import conv_kind
from ascendsim.passes.fusion.rules.forms.constants import TENSORFLOW
from ascendsim.passes.fusion.rules.forms.form import FormRule
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Match

FILES_WITH_SPLIT = ("onnx", *TENSORFLOW)
OTHERS = ("", "torch", "caffe", "mindspore")


class DepthwiseRule(FormRule):
    """Convolutions with one input channel a group."""

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Depthwise convolutions alone."""
        return (match for match in super().find(graph, pattern) if conv_kind(match.root) == "DepthwiseConv2D")


class SplitRule(FormRule):
    """Splits, of equal parts or of stated sizes.

    Args:
        name, pattern, form, frameworks: As for every form rule.
        sized: Whether those with an input of sizes.
    """

    def __init__(
        self, name: str, pattern: str, form: str, *, sized: bool, frameworks: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, pattern, "Split", form, frameworks=frameworks)
        self._sized = sized

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Those whose parts are stated this way."""
        return (
            match
            for match in super().find(graph, pattern)
            if (match.root.input(1) is not None) is self._sized
        )


class UnpackFusionPass(FormRule):
    """Parts of size 1 that lose their axis."""

    def __init__(self) -> None:
        super().__init__("UnpackFusionPass", "UnpackFusionPass", "Split", "Unpack")

    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        """Splits of which every part goes to one operator that drops its axis."""
        return (match for match in super().find(graph, pattern) if _drops_the_axis(match))


class TransposedUpdateFusionPass(FormRule):
    """The kernel for any shape."""

    def __init__(self) -> None:
        super().__init__(
            "TransposedUpdateFusionPass", "TransposedUpdatePattern", "Transpose", "Transpose", steering=False
        )

    def check(self, match: Match, context: FusionContext) -> str | None:
        """Refuses shapes that the kernel's list does not hold."""
        if context.options.get("transpose_white_list") is False:
            return "the shape is not on the white list of impl/dynamic/transpose.py"
        return super().check(match, context)


def _drops_the_axis(match: Match) -> bool:
    split = match.root
    shape = split.required(0).shape
    if shape is None:
        return False
    axis = int(split.attr("axis", 0)) % max(1, len(shape))
    for part in split.outputs:
        readers = part.consumers
        if len(readers) != 1 or is_output(split.graph, part) or readers[0].op_type != "Squeeze":
            return False
        axes = known_values(readers[0].input(1))
        if axes is None or [int(item) % len(shape) for item in axes.ravel()] != [axis]:
            return False
    return True


RULES = (
    FormRule("GRUFusionPass", "GRUFusionPass", "GRU", "DynamicGRUV2", steering=False),
    FormRule("CommonLSTMFusionPass", "CommonLSTMFusionPass", "LSTM", "DynamicRNN", steering=False),
    DepthwiseRule("ADepthwiseFusionPass", "ADepthwiseConv2D", "Conv", "DepthwiseConv2D", steering=False),
    FormRule(
        "DeconvWeightTransFusionPass",
        "DeconvWeightTransFusionPass",
        "ConvTranspose",
        "Conv2DTransposeD",
        steering=False,
    ),
    SplitRule("ZSplitVFusionPass", "SplitVFusionPass", "SplitVD", sized=True),
    SplitRule("ZSplitFusionPass", "SplitFusionPass", "SplitVD", sized=False, frameworks=FILES_WITH_SPLIT),
    SplitRule("ZSplitDFusionPass", "SplitDFusionPass", "SplitVD", sized=False, frameworks=OTHERS),
    FormRule(
        "ZConcatFusionPass", "ConcatFusionPass", "Concat", "ConcatD", steering=False, frameworks=TENSORFLOW
    ),
    UnpackFusionPass(),
    TransposedUpdateFusionPass(),
)
