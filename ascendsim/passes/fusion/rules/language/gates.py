"""The gate of a feed-forward network.

    a, b = Split(x);  a sigmoid(a) b      =>      SwiGlu(x)      (with Swish, or SwiGLU of the halves, too)

    a = x Wa, b = x Wb;  a sigmoid(a) b     =>      SwiGlu(x [Wa Wb])

The kernel takes gate and partner side by side in one tensor. Where a model makes them by two products, their
weights are joined to one matrix first, as frameworks for language models do when they load them. float32
results agree to a few units in the last place. Passes of this project: frameworks call the kernel by name.
"""

from __future__ import annotations

import numpy as np

from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.fusion.checks import known_values, not_static, read_outside
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.fusion.rules.language.checks import no_kernel, no_real
from ascendsim.passes.rewriting.pattern import Any, Const, Match, Op, Term
from ascendsim.passes.rewriting.replace import replace_root


def _half(number: int) -> Op:
    return Op("Split", Any("x"), name="halves", output=number)


_WEIGHTS = ("gate_weight", "up_weight")


def _product(name: str) -> Op:
    return Op("MatMul", Any("x"), Const(f"{name}_weight"), name=name, shared=True)


def _mul(left: Term, right: Term, name: str) -> Op:
    return Op("Mul", left, right, commutative=True, name=name)


class SwiGluFusionPass(FusionRule):
    """Halves of one tensor, of which the first gates."""

    name = "SwiGluFusionPass"
    patterns = {
        "SwiGluFusionPass": _mul(
            _mul(_half(0), Op("Sigmoid", _half(0), name="sigmoid"), "swish"), _half(1), "root"
        ),
        "SwiGluFusionPassSwish": _mul(Op("Swish", _half(0), name="swish"), _half(1), "root"),
        "SwiGluFusionPassGLU": Op("SwiGLU", _half(0), _half(1), name="root"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, halves = match.tensors["x"], match.nodes["halves"]
        swish = match.nodes.get("swish", match.root)
        if swish.op_type != "Mul" and float(swish.attr("alpha", 1.0)) != 1:
            return "the gate has a factor"
        return (
            no_kernel(context)
            or not_static([x, match.root.output])
            or no_real(x)
            or _split_refusal(halves)
            or read_outside(match)
        )

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, halves = match.root, match.nodes["halves"]
        axis = int(halves.attr("axis", 0))
        made = context.add(
            graph,
            "SwiGlu",
            [match.tensors["x"]],
            name=f"{root.name}_SwiGlu",
            like=root,
            domain="ascend",
            dim=axis,
        )
        replace_root(graph, root, made.output)


def _split_refusal(split: Node) -> str | None:
    if len(split.outputs) != 2 or split.outputs[0].shape != split.outputs[1].shape:
        return "the parts are not two halves"
    sizes = split.input(1)
    return (
        "the sizes of the parts are not known" if sizes is not None and known_values(sizes) is None else None
    )


class GateUpSwiGluFusionPass(FusionRule):
    """Two products of one tensor, of which the first gates."""

    name = "GateUpSwiGluFusionPass"
    patterns = {
        "GateUpSwiGluFusionPass": _mul(
            _mul(_product("gate"), Op("Sigmoid", _product("gate"), name="sigmoid"), "swish"),
            _product("up"),
            "root",
        ),
        "GateUpSwiGluFusionPassSwish": _mul(
            Op("Swish", _product("gate"), name="swish"), _product("up"), "root"
        ),
        "GateUpSwiGluFusionPassGLU": Op("SwiGLU", _product("gate"), _product("up"), name="root"),
    }

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, weights = match.tensors["x"], [match.tensors[name] for name in _WEIGHTS]
        swish = match.nodes.get("swish", match.root)
        if swish.op_type != "Mul" and float(swish.attr("alpha", 1.0)) != 1:
            return "the gate has a factor"
        reason = no_kernel(context) or not_static([x, *weights]) or no_real(x, *weights)
        if reason is not None:
            return reason
        if any(len(weight.static_shape) != 2 for weight in weights) or len(x.static_shape) < 2:
            return "the weights are no matrices"
        if weights[0].shape != weights[1].shape:
            return "the products have different widths"
        return read_outside(match)

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        root, weights = match.root, [match.tensors[name] for name in _WEIGHTS]
        rows, columns = weights[0].static_shape
        joined = lazy_constant(
            graph,
            f"{root.name}_gate_up",
            weights[0].element_type,
            (rows, 2 * columns),
            weights,
            lambda gate, up: np.concatenate([gate, up], axis=1),
        )
        both = context.add(
            graph,
            "MatMul",
            [match.tensors["x"], joined],
            name=f"{root.name}_MatMul",
            like=match.nodes["gate"],
        )
        made = context.add(
            graph, "SwiGlu", [both.output], name=f"{root.name}_SwiGlu", like=root, domain="ascend", dim=-1
        )
        replace_root(graph, root, made.output)


RULES = (SwiGluFusionPass(), GateUpSwiGluFusionPass())
