"""A bias behind a matrix product becomes the product's third input; float32 sums in L0C start with it and no
vector task is left.

    Add(MatMul(a, b), c)                    =>      Gemm(a, b, c)  or, with batch axes, BatchMatMul(a, b, c)
    Add(Reshape(MatMul(a, b)), c)           =>      Reshape(Gemm(a, b, c))

c has one value a column. Float16 results are rounded once instead of twice. The rule reference 9.0 lists the
passes for A2, A3 and 350 and says nothing of older chips; the code of 2021, the time of Ascend 310 and 910,
asks for no chip. So they run on every chip, unless the option `matmul_bias_chips` is "listed".
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

LISTED = frozenset({"Ascend910B", "Ascend910_93", "Ascend910_95"})  # A2, A3, 350


def chip_refusal(context: FusionContext) -> str | None:
    """Why the passes do not run on this chip."""
    if context.options.get("matmul_bias_chips", "all") == "listed" and context.soc not in LISTED:
        return f"the reference does not list {context.soc}"
    return None


class MatMulBiasAddFusionPass(FusionRule):
    """Matrix product and bias."""

    name = "MatMulBiasAddFusionPass"
    patterns = {
        "MatMulBiasAddFusion": Op(
            "Add",
            Op("MatMul|Gemm|BatchMatMul", name="matmul", shared=True),
            Any("bias"),
            commutative=True,
            name="add",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        matmul, bias = match.nodes["matmul"], match.tensors["bias"]
        reason = chip_refusal(context) or not_static([matmul.output, *matmul.inputs, bias])
        return reason or _product_refusal(matmul, bias) or read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        made = with_bias(graph, match.nodes["matmul"], match.tensors["bias"], context)
        replace_root(graph, match.root, made.output)


class MatMulReshapeBiasAddFusionPass(FusionRule):
    """Matrix product and bias with a Reshape in between that keeps the columns."""

    name = "MatMulReshapeBiasAddFusionPass"
    patterns = {
        "MatMulReshapeBiasAddFusionPass": Op(
            "Add",
            Op(
                "Reshape",
                Op("MatMul|Gemm", name="matmul", shared=True),
                Any("shape"),
                name="reshape",
                shared=True,
            ),
            Any("bias"),
            commutative=True,
            name="add",
        )
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        matmul, bias, reshaped = match.nodes["matmul"], match.tensors["bias"], match.nodes["reshape"].output
        reason = chip_refusal(context) or not_static([matmul.output, *matmul.inputs, bias, reshaped])
        reason = reason or _product_refusal(matmul, bias)
        if reason is not None:
            return reason
        if len(matmul.output.static_shape) != 2:
            return "the product has batch axes"
        if reshaped.static_shape[-1:] != matmul.output.static_shape[-1:]:
            return "the Reshape does not keep the last axis"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        reshape = match.nodes["reshape"]
        made = with_bias(graph, match.nodes["matmul"], match.tensors["bias"], context)
        sources, allow = [made.output, match.tensors["shape"]], int(reshape.attr("allowzero", 0))
        again = context.add(
            graph, "Reshape", sources, name=f"{reshape.name}_bias", like=reshape, allowzero=allow
        )
        replace_root(graph, match.root, again.output)


def with_bias(graph: Graph, matmul: Node, bias: Tensor, context: FusionContext) -> Node:
    """A new product with a bias."""
    operands = [matmul.required(0), matmul.required(1), bias]
    return make_product(graph, matmul, operands, transposed(matmul), context, f"{matmul.name}_bias")


def transposed(matmul: Node) -> tuple[bool, bool]:
    """Whether a product transposes its operands."""
    names = ("adj_x1", "adj_x2") if matmul.op_type == "BatchMatMul" else ("transA", "transB")
    return bool(matmul.attr(names[0], 0)), bool(matmul.attr(names[1], 0))


def make_product(
    graph: Graph,
    like: Node,
    operands: Sequence[Tensor | None],
    turned: tuple[bool, bool],
    context: FusionContext,
    name: str,
) -> Node:
    """A new product: Gemm for two matrices, else BatchMatMul.

    Args:
        graph: Receives it.
        like: The product that it stands for.
        operands: Left, right, and perhaps a bias.
        turned: Whether the operands are transposed in their last two axes.
        context: To infer its type.
        name: Of the node.
    """
    left, right = int(turned[0]), int(turned[1])
    if all(operand is not None and len(operand.static_shape) == 2 for operand in operands[:2]):
        made = context.add(graph, "Gemm", operands, name=name, like=like, transA=left, transB=right)
    else:
        made = context.add(
            graph, "BatchMatMul", operands, name=name, like=like, domain="ascend", adj_x1=left, adj_x2=right
        )
    give_type_of(like, made)
    return made


def give_type_of(old: Node, new: Node) -> None:
    """Lets a product give the type that another gives: one that was cast may be wider than its operands."""
    new.output.dtype, new.output.origin_dtype = old.output.dtype, old.output.origin_dtype


def _product_refusal(matmul: Node, bias: Tensor) -> str | None:
    ranks = [len(matmul.required(port).static_shape) for port in (0, 1)]
    if min(ranks) < 2:
        return "an operand is a vector"
    if matmul.input(2) is not None:
        return "the product has a bias already"
    if float(matmul.attr("alpha", 1.0)) != 1:
        return "the product is scaled"
    if len(bias.static_shape) != 1:
        return "the summand is not one-dimensional"
    if bias.dtype is not matmul.required(0).dtype:
        return "the summand has another type than the operands"
    return (
        None
        if bias.static_shape == matmul.output.static_shape[-1:]
        else "the summand is not one value a column"
    )


RULES = (MatMulBiasAddFusionPass(), MatMulReshapeBiasAddFusionPass())
