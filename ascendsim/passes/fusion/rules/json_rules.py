"""CANN's JSON rules: optimizer steps, clipping, sums of squares and gradients of layer normalisation from
their exact edges.

    ten operators of an Adam step                =>      AdamApplyOne(g, v, m, w, rate, constants) -> v', m',
                                                         w'
    Minimum, Maximum                             =>      ClipByValue
    Square, ReduceSumD                           =>      SquareSumV1

`data/json_rules.csv` holds the edges; this file says what takes their place: the operator's inputs by the
names that the edges use, and what must hold besides the edges. Names that differ in a suffix `_sw0`, `_sw1`
are separate constants of one value.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar, cast

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.fusion.checks import (
    closes_cycle,
    known_values,
    not_float,
    not_static,
    read_outside,
    scalar,
)
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.rules.edges import EdgePattern, parse_edges, pattern_of_edges
from ascendsim.passes.rewriting.pattern import Match
from ascendsim.passes.rewriting.replace import replace

_COPY = re.compile(r"_sw\d+$")


def _nothing(_match: Match) -> str | None:
    return None


def _same_results(match: Match) -> str | None:
    """An elementwise step: all results have one shape, which its inputs do not broadcast further."""
    shapes = {tensor.shape for tensor in _results(match)}
    if len(shapes) > 1:
        return "the results differ in shape"
    largest = max((tensor.elements for tensor in match.tensors.values()), default=0)
    return None if largest <= _results(match)[0].elements else "an input is larger than the results"


def _clip_refusal(match: Match) -> str | None:
    low, high = scalar(match.tensors["input2"]), scalar(match.tensors["input1"])
    if low is None or high is None:
        return "a bound is not one known number"
    if low > high:
        return f"the lower bound {low:g} is above the upper one {high:g}"
    return (
        None if match.root.output.shape == match.tensors["input0"].shape else "a bound broadcasts the result"
    )


def _layer_norm_refusal(match: Match) -> str | None:
    x, gamma, inverse, product = (match.tensors[name] for name in ("Input1", "Input4", "Input2", "Mul_1"))
    rank, inner = len(x.static_shape), len(gamma.static_shape)
    rows, columns = tuple(range(rank - inner)), tuple(range(rank - inner, rank))
    if x.static_shape[rank - inner :] != gamma.static_shape:
        return "gamma is not one value for each normalised element"
    for name, axes in (
        ("ReduceSumD0", columns),
        ("ReduceSumD1", columns),
        ("ReduceSumD2", rows),
        ("ReduceSumD3", rows),
    ):
        if _folded(match.nodes[name]) != axes:
            return f"{name} is not over axes {list(axes)}"
    if any(match.nodes[name].output.shape != x.shape for name in ("Tile0", "Tile1")):
        return "the sums are not tiled to the input's shape"
    if (
        scalar(match.tensors["RealDiv_1"]) != math.prod(gamma.static_shape)
        or scalar(match.tensors["Scaler"]) != 2
    ):
        return "the sums are not divided by the number of normalised elements, or not doubled"
    maker = product.producer
    if maker is None or maker.op_type != "Mul" or set(maker.inputs) != {inverse, gamma}:
        return "Mul_1 is not the product of gamma and the inverse deviation"
    if any(match.nodes[name].output.shape != gamma.shape for name in ("ReduceSumD2", "ReduceSumD3")):
        return "the gradients of gamma and beta have another shape"
    return None if _results(match)[0].shape == x.shape else "a constant broadcasts the result"


def _folded(node: Node) -> tuple[int, ...]:
    rank, axes = len(node.required(0).static_shape), known_values(node.input(1))
    return tuple(range(rank)) if axes is None else tuple(sorted(int(axis) % rank for axis in axes.ravel()))


@dataclass(frozen=True, slots=True)
class Target:
    """What takes the place of the edges.

    Attributes:
        inputs: Names of the edges' inputs, in the order of the operator's ports.
        op_type: Operator here, if it has another name.
        domain: Of the operator.
        check: What must hold besides the edges.
        like: Id of a node whose further inputs and attributes the operator takes over.
        plus: Name of an input that an Add behind the operator adds to its first result.
    """

    inputs: tuple[str, ...]
    op_type: str = ""
    domain: str = "ascend"
    check: Callable[[Match], str | None] = field(default=_same_results)
    like: str = ""
    plus: str = ""


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"Input{number}" for number in range(count))


_ADAM = ("Mul0_x", "Mul1_x", "Mul2_x", "Mul3_x")
_LAMB = (*_numbered(7), "Mul0_x", "Mul1_sub", "Mul2_x", "Mul3_sub1", "Mul4_x", "Add2_y")
TARGETS: Mapping[str, Target] = {
    "AdamApplyOne": Target((*_numbered(5), *_ADAM, "Add2_y")),
    "AdamApplyOneWithDecay": Target((*_numbered(5), *_ADAM, "Mul4_x", "Add2_y")),
    "LambNextMV": Target(_LAMB),
    "LambNextMVWithDecay": Target(_LAMB),
    "LambNextRight": Target((*_numbered(2), "Mul2_x", "Mul3_x", "TrueDiv1_recip", "Add2_y")),
    "LambUpdateWithLr": Target((*_numbered(6), "Greater_y", "Select_e", "Minimum_y")),
    "LambUpdateWithLrV2": Target((*_numbered(5), "Greater_y", "Select_e")),
    "ClipByNormNoDivSum": Target(("Input0", "Greater0", "Select0", "Maximum0")),
    "ClipByValue": Target(("input0", "input2", "input1"), "Clip", "", _clip_refusal),
    "SquareSumV1": Target(("Input0",), "ReduceSumSquare", "", _nothing, "Sum0"),
    "LayerNormGrad": Target(_numbered(5), check=_layer_norm_refusal),
    "LayerNormGrad,Add": Target(_numbered(5), "LayerNormGrad", check=_layer_norm_refusal, plus="AddN_Out"),
}


class JsonRule(FusionRule):
    """One rule of the table. Subclasses, made by `json_rules`, name it.

    Attributes:
        operator: CANN's operator type that the rule makes.
        edges: What it replaces.
    """

    operator: ClassVar[str]
    edges: ClassVar[EdgePattern]

    def check(self, match: Match, context: FusionContext) -> str | None:
        results = _results(match)
        reason = (
            not_static((*match.tensors.values(), *results))
            or not_float(match.root.output)
            or _copies_refusal(match)
        )
        reason = reason or TARGETS[self.operator].check(match) or read_outside(match, results)
        return reason or closes_cycle(match, match.tensors.values())

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        target, results = TARGETS[self.operator], _results(match)
        by_name = {_canonical(name): tensor for name, tensor in match.tensors.items()}
        inputs: list[Tensor | None] = [by_name[name] for name in target.inputs]
        attributes: dict[str, Any] = {}
        if target.like:
            inputs += match.nodes[target.like].inputs[1:]
            attributes = dict(match.nodes[target.like].attributes)
        kind = target.op_type or self.operator
        name = f"{match.root.name}_{kind}"
        made = context.add(
            graph, kind, inputs, len(results), name=name, like=match.root, domain=target.domain, **attributes
        )
        outputs = list(made.outputs)
        if target.plus:
            outputs[0] = context.add(
                graph, "Add", [by_name[target.plus], outputs[0]], name=f"{name}_add", like=match.root
            ).output
        replace(graph, match.all_nodes, list(zip(results, outputs, strict=True)))


def _results(match: Match) -> tuple[Tensor, ...]:
    """Old tensors of the results, in the order of the rule."""
    return tuple(node.output for node in match.lists["results"])


def _canonical(name: str) -> str:
    return _COPY.sub("", name.removeprefix("Constant"))


def _copies_refusal(match: Match) -> str | None:
    """Constants that a rule has several times must have one value."""
    groups: dict[str, list[Tensor]] = {}
    for name, tensor in match.tensors.items():
        groups.setdefault(_canonical(name), []).append(tensor)
    for name, tensors in groups.items():
        if len(tensors) > 1 and (
            len({scalar(tensor) for tensor in tensors}) > 1 or scalar(tensors[0]) is None
        ):
            return f"the constants {name} differ"
    return None


@cache
def json_rules() -> tuple[FusionRule, ...]:
    """All rules of the table, in its order."""
    text = files("ascendsim.passes.fusion").joinpath("data", "json_rules.csv").read_text(encoding="utf-8")
    rows: Sequence[dict[str, str]] = list(
        csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    )
    return tuple(_rule(row["name"], row["operator"], row["edges"]) for row in rows)


def _rule(name: str, operator: str, edges: str) -> FusionRule:
    parsed = parse_edges(edges)
    content = {
        "name": name,
        "operator": operator,
        "edges": parsed,
        "patterns": {name: pattern_of_edges(parsed)},
    }
    return cast(
        FusionRule, type(name, (JsonRule,), {"__doc__": f"JSON rule {name}: makes {operator}.", **content})()
    )


RULES = json_rules()
