"""Two small graph-fusion rules, and graphs to try them on.

DropNeutral   Mul(x, 1) -> x, Add(x, 0) -> x       two patterns; refused if the constant is not neutral or has
                                                   more elements than one
JoinRelu      Relu(Relu(x)) -> Relu(x)             exact: relu is idempotent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any as AnyTensor
from ascendsim.passes.rewriting.pattern import Const, Match, Op
from ascendsim.passes.rewriting.replace import replace_root


class DropNeutral(FusionRule):
    name = "DropNeutral"
    patterns: ClassVar[Mapping[str, Op]] = {
        "mulOne": Op("Mul", AnyTensor("x"), Const("c"), commutative=True, name="root"),
        "addZero": Op("Add", AnyTensor("x"), Const("c"), commutative=True, name="root"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        constant = match.tensors["c"].constant
        if constant is None or not constant.available:
            return "the constant has no values"
        if match.tensors["c"].elements != 1:
            return "the constant has more elements than one"
        neutral = 1 if match.pattern == "mulOne" else 0
        return None if constant.array().item() == neutral else f"the constant is not {neutral}"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        replace_root(graph, match.root, match.tensors["x"])


class JoinRelu(FusionRule):
    name = "JoinRelu"
    patterns: ClassVar[Mapping[str, Op]] = {
        "reluRelu": Op("Relu", Op("Relu", AnyTensor("x"), name="inner"), name="outer")
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        made = context.add(graph, "Relu", [match.tensors["x"]], name="joined", like=match.nodes["inner"])
        replace_root(graph, match.root, made.output)


def named(rule: type[FusionRule], name: str, **attributes: Any) -> FusionRule:
    """The rule under another name (one of CANN's, to have its switches and place), with attributes
    changed."""
    renamed: FusionRule = type(name, (rule,), {"name": name, **attributes})()
    return renamed


# compile() options that leave every pass of CANN's off and the two above on.
ONLY_TOYS: dict[str, Any] = {
    "fusion": "graph",
    "oo_level": "O1",
    "optimization_switch": "forbidden_close_pass:off;DropNeutral:on;JoinRelu:on",
}


def toy_context() -> FusionContext:
    return FusionContext(default_opset(), "v100", "Ascend310")


def builder(name: str = "toy") -> GraphBuilder:
    opset = default_opset()
    return GraphBuilder(name, infer=lambda node: opset.get(node).infer(InferContext(node)))


def relu_chain(length: int, shape: tuple[int, ...] = (1, 16, 8, 8)) -> Graph:
    """x -> Abs -> `length` times Relu -> y, so that the chain has neighbours."""
    b = builder("relu_chain")
    x = b.op("Abs", b.input("x", shape), name="abs")
    for number in range(length):
        x = b.op("Relu", x, name=f"relu{number}")
    b.output(x, "y")
    return b.build()


def neutral_graph() -> Graph:
    """y = relu(relu((x * 1 + 0) * 2)): both rules have matches, and one that DropNeutral refuses."""
    b = builder("neutral")
    x = b.input("x", (2, 16))
    y = b.op("Add", b.op("Mul", x, 1.0, name="one"), 0.0, name="zero")
    y = b.op("Relu", b.op("Relu", b.op("Mul", y, 2.0, name="two"), name="first"), name="second")
    b.output(y, "y")
    return b.build()
