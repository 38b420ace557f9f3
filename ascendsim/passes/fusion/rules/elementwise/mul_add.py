"""A product and a sum in one operator: the product stays in the Unified Buffer and is rounded once together
with the sum.

    Add(Mul(a, b), c)         =>      FusedMulAdd(a, b, c)
    AddN(Mul(a, s), c)        =>      FusedMulAddN(a, c, s)        s one number

float32 values are those of the unfused operators. CANN restricts MulAddFusionPass to BERT by name: the
multiplication must have "bert" in its name, and neither "adam" nor "lamb"; hence 17 matches and no effect on
YOLOv5s. The option `mul_add_names` "any" lifts that. Its two patterns take the product at any port, and at
the second port.
"""

from __future__ import annotations

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.fusion.checks import not_float, not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

_MUL = Op("Mul", name="mul", shared=True)


class MulAddFusionPass(FusionRule):
    """Mul and Add of a BERT network."""

    name = "MulAddFusionPass"
    patterns = {
        "MulAddFusionPass": Op("Add", _MUL, Any("summand"), commutative=True, name="add"),
        "MulAddFusionPassExt": Op("Add", Any("summand"), _MUL, name="add"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        name = match.nodes["mul"].name
        if context.options.get("mul_add_names", "bert") == "bert" and (
            "bert" not in name or "adam" in name or "lamb" in name
        ):
            return "the multiplication is not one of a BERT network by its name"
        if len(match.nodes["mul"].output.uses) > 1:
            return "the product has more than one reader"
        producer = match.tensors["summand"].producer
        if producer is not None and len(producer.outputs) > 1:
            return "the summand is one of several results of its operator"
        return read_outside(match) or not_float(match.root.output)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        mul = match.nodes["mul"]
        inputs = [*mul.inputs, match.tensors["summand"]]
        made = context.add(
            graph, "FusedMulAdd", inputs, name=f"{mul.name}_FusedMulAdd", like=mul, domain="ascend"
        )
        replace_root(graph, match.root, made.output)


class MulAddNPass(FusionRule):
    """Mul by one number as the first of two summands of AddN (ONNX Sum)."""

    name = "MulAddNPass"
    patterns = {"MulAddNPass": Op("Sum", _MUL, name="addn")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        if match.root.input_count != 2:
            return "AddN has not two inputs"
        data, factor = _operands(match)
        if not factor.is_constant or factor.shape not in ((), (1,)):
            return "no factor is one constant number"
        if data.shape != match.root.output.shape or match.root.required(1).shape != data.shape:
            return "the summands differ in shape"
        if len(match.nodes["mul"].output.uses) > 1:
            return "the product has more than one reader"
        return read_outside(match) or not_static([data]) or not_float(data)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        data, factor = _operands(match)
        root = match.root
        made = context.add(
            graph,
            "FusedMulAddN",
            [data, root.input(1), factor],
            name=f"{root.name}_FusedMulAddN",
            like=root,
            domain="ascend",
        )
        replace_root(graph, root, made.output)


def _operands(match: Match) -> tuple[Tensor, Tensor]:
    """Data and factor of the multiplication; the factor is the first constant."""
    left, right = match.nodes["mul"].required(0), match.nodes["mul"].required(1)
    return (right, left) if left.is_constant else (left, right)


RULES = (MulAddFusionPass(), MulAddNPass())
