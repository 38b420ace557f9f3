"""Element types, formats and levers on small graphs and on all graphs that differ from these in one thing.

Laws: values in the model's own types stay, to the bit where nothing but types and formats changes; the
interface stays; the graph stays valid. Where each operator ends up is a golden text
(tests/golden/passes_near_misses). A legitimate reason to renew one is an operator that is meant to have
another type or format, or a lever that is meant to act elsewhere; read every change that moves between
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.graph.scopes import SCOPE, SECOND_STAGE
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.l1 import find_pairs, join_pair
from ascendsim.passes.layout import assign_formats
from ascendsim.passes.levers import (
    AlignChannels,
    IdentityConv,
    Lever,
    LeverContext,
    NarrowTypes,
    PowToMul,
    ResizeSizes,
    apply_lever,
    find_sites,
)
from ascendsim.passes.precision.assign import apply_precision
from tests.support.evaluate import Known
from tests.support.fusing import answers, apart, build, difference, random
from tests.support.near_misses import (
    Edit,
    has_values,
    near_misses,
    operators_changed,
    port_edits,
    size_edits,
    sorted_outcomes,
    structure_edits,
)
from tests.unit.test_levers_maps import conv, mirror, resize
from tests.unit.test_levers_replacement import power

Golden = Callable[[str, str], None]
Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
OPSET = default_opset()


def edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    yield from structure_edits(graph)
    yield from port_edits(graph)
    yield from size_edits(graph)


# ------------------------------------------------------------------------------------------------------------


def residual(b: GraphBuilder) -> list[Tensor]:
    """Convolutions, a branch that adds, the way into a product and a softmax."""
    first = b.op("Relu", conv(b, b.input("x", (1, 3, 6, 6)), 16))
    second = b.op("Add", conv(b, first, 16, 1), first)
    flat = b.op("Flatten", b.op("Mul", second, random(16, 1, 1)))
    return [b.op("Softmax", b.op("MatMul", flat, random(576, 32))), b.op("Exp", second)]


def products(b: GraphBuilder) -> Tensor:
    """Products with what lies between them in a transformer."""
    x = b.input("x", (32, 48))
    hidden = b.op("Gelu", b.op("Add", b.op("MatMul", x, random(48, 64)), random(64)))
    scores = b.op("Softmax", b.op("Mul", b.op("MatMul", hidden, b.input("keys", (64, 32))), 0.125), axis=-1)
    return b.op("LayerNormalization", b.op("MatMul", scores, random(32, 48)), random(48), random(48), axis=-1)


def pooled(b: GraphBuilder) -> list[Tensor]:
    """Maps of one pixel, gates, a scalar and a constant of two values."""
    x = conv(b, b.input("x", (2, 4, 6, 6)), 32)
    gate = b.op("Sigmoid", conv(b, b.op("GlobalAveragePool", x), 32, 1))
    y = b.op("Mul", x, gate)
    return [
        b.op("Concat", y, b.op("MaxPool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1)), axis=1),
        b.op("Add", gate, 1.5),
    ]


def recurrent(b: GraphBuilder) -> Tensor:
    x = b.op("Tanh", b.input("x", (3, 2, 16)))
    return b.op("Relu", b.op("GRU", x, random(1, 48, 16), random(1, 48, 16, seed=1), hidden_size=16))


def batches(b: GraphBuilder, products: int = 50, rows: int = 32) -> Tensor:
    """Many products of few rows with one matrix."""
    return b.op("Relu", b.op("MatMul", b.op("Abs", b.input("x", (products, rows, 16))), random(16, 32)))


def parameters(b: GraphBuilder) -> Tensor:
    """Inputs that steer an operator beside those that are data."""
    x = b.op(
        "Cast",
        b.op("DequantizeLinear", b.op("QuantizeLinear", b.input("x", (1, 2, 4, 4)), 0.25), 0.25),
        to=DType.FLOAT32,
    )
    half = b.op("Cast", b.op("Cast", x, to=DType.FLOAT16), to=DType.FLOAT32)
    return b.op(
        "Resize", half, None, b.constant(np.array([1, 1, 2, 2], np.float32), "scales"), mode="nearest"
    )


NETWORKS: dict[str, Body] = {
    f.__name__: f for f in (residual, products, pooled, recurrent, batches, parameters)
}


def placed(graph: Graph) -> str:
    """Operators in execution order with what they give, constants that they read besides."""

    def shown(tensor: Tensor) -> str:
        format = "" if tensor.format is Format.ND else f"@{tensor.format.value}"
        return f"{tensor.element_type.value}{format}"

    words = []
    for node in graph.topological():
        held = [
            shown(tensor)
            for tensor in node.inputs
            if tensor is not None and tensor.is_constant and tensor.element_type.is_float
        ]
        words.append(
            f"{node.op_type}:{','.join(map(shown, node.outputs))}{f'({chr(32).join(held)})' if held else ''}"
        )
    return " ".join(words)


@dataclass(frozen=True)
class Variant:
    """A network, or one that differs from it in one thing; passes run on copies.

    Attributes:
        label: What is different.
        graph: As it was built.
        results: Its outputs on random inputs; None if values are unknown.
    """

    label: str
    graph: Graph
    results: list[Array] | None


@cache
def variants(name: str, edits: Callable[[Graph], Iterator[tuple[str, Edit]]]) -> tuple[Variant, ...]:
    """Made and computed once for all modes and formats."""
    known = Known()
    return tuple(
        Variant(label, graph, answers(graph, graph, known=known) if has_values(graph) else None)
        for label, graph in near_misses(build(NETWORKS[name]), edits, known)
    )


def check(variant: Variant, after: Graph) -> str:
    before = variant.graph
    verify(after)
    for old, new in zip((*before.inputs, *before.outputs), (*after.inputs, *after.outputs), strict=True):
        assert (old.name, old.dtype, old.shape, old.format) == (new.name, new.dtype, new.shape, new.format)
    if variant.results is not None:
        assert apart(variant.results, answers(after, before)) <= (
            1e-6 if any(node.op_type == "MatMul" for node in before.nodes) else 0
        )
    return placed(after)


# ---------------------------------------------------------------------------------------------------- types a


@pytest.mark.parametrize(
    "mode", ["force_fp16", "allow_fp32_to_fp16", "cube_fp16in_fp32out", "allow_mix_precision"]
)
@pytest.mark.parametrize("name", NETWORKS)
def test_element_types(golden: Golden, name: str, mode: str) -> None:
    outcomes = []
    for variant in variants(name, structure_edits):
        for types in (frozenset({"float16"}), frozenset({"float16", "float32"}))[
            : 2 if mode == "allow_fp32_to_fp16" else 1
        ]:
            after = copy_graph(variant.graph)
            apply_precision(after, default_opset(), mode, cube_types=types, cube_in_half=False)
            label = variant.label if len(types) == 1 else f"{variant.label}, with a Cube for float32"
            outcomes.append((label, check(variant, after)))
    golden(f"passes_near_misses/types_{name}_{mode}.txt", sorted_outcomes(outcomes))


@pytest.mark.parametrize(
    ("matmul", "reach"), [(Format.FRACTAL_NZ, 0), (Format.ND, 0), (Format.FRACTAL_NZ, 1)]
)
@pytest.mark.parametrize("name", NETWORKS)
def test_formats(golden: Golden, name: str, matmul: Format, reach: int) -> None:
    outcomes = []
    for variant in variants(name, edits):
        after = copy_graph(variant.graph)
        assign_formats(after, OPSET, matmul, reach)
        outcomes.append((variant.label, check(variant, after)))
    golden(
        f"passes_near_misses/formats_{name}_{matmul.value}{f'_reach_{reach}' if reach else ''}.txt",
        sorted_outcomes(outcomes),
    )


# ------------------------------------------------------------------------------------------------------------


def wide_sum(b: GraphBuilder) -> Tensor:
    wide = b.op("Cast", b.input("x", (6,)), to=DType.INT64)
    total = b.op("Add", b.op("Reshape", wide, [2, 3]), np.array(7, np.int64))
    return b.op("Where", b.op("Less", total, np.array(9, np.int64)), total, b.op("Neg", total))


def lookup(b: GraphBuilder) -> Tensor:
    rows = b.op(
        "Gather", np.arange(12, dtype=np.int64), b.op("Squeeze", b.input("ids", (2, 1), "int64"), [1])
    )
    return b.op("Gather", random(12, 4), rows)


def chained_maps(b: GraphBuilder) -> Tensor:
    x = b.op("Relu", conv(b, b.input("x", (1, 3, 7, 7)), 24))
    return b.op("GlobalAveragePool", conv(b, b.op("MaxPool", x, kernel_shape=(2, 2)), 40))


def parameters_of_channels(b: GraphBuilder) -> Tensor:
    x = conv(b, b.input("x", (2, 3, 6, 6)), 20)
    x = b.op("BatchNormalization", x, *(random(20, seed=n, positive=True) for n in range(4)))
    x = b.op(
        "Mul",
        b.op("PRelu", x, random(20, 1, 1)),
        b.op("Sigmoid", conv(b, b.op("GlobalAveragePool", x), 20, 1)),
    )
    x = b.op("Add", b.op("Mul", conv(b, x, 20, group=20), random(1, 20, 1, 1)), 1.5)
    x = b.op("Resize", x, None, None, np.array([2, 20, 9, 9]), mode="nearest")
    return conv(b, b.op("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect"), 16)


def joined_maps(b: GraphBuilder) -> list[Tensor]:
    x = b.input("x", (1, 16, 5, 5))
    joined = b.op("Concat", conv(b, x, 8), conv(b, x, 24, 1), x, axis=1)
    return [conv(b, joined, 5), b.op("Softmax", joined, axis=1)]


def averaged_maps(b: GraphBuilder) -> Tensor:
    return conv(
        b, b.op("ReduceMean", conv(b, b.input("x", (1, 16, 5, 5)), 8), b.constant([2, 3], "axes")), 16, 1
    )


def grown(b: GraphBuilder) -> Tensor:
    return b.op(
        "Add", resize(b.op("Relu", b.input("x", (1, 2, 7, 7))), b, 14), b.input("other", (1, 2, 14, 14))
    )


SITES: dict[str, tuple[Lever, Callable[[], Graph]]] = {
    "integers": (NarrowTypes(), lambda: build(wide_sum)),
    "places": (NarrowTypes(), lambda: build(lookup)),
    "a_third_power": (PowToMul(), lambda: power(3.0)),
    "a_root": (PowToMul(), lambda: power(-1.5)),
    "a_power_of_positive_numbers": (PowToMul(), lambda: power(0.3, before="Sigmoid")),
    "a_power_of_numbers_from_zero": (PowToMul(), lambda: power(0.3, before="Abs")),
    "maps_in_a_chain": (AlignChannels(), lambda: build(chained_maps)),
    "parameters_of_channels": (AlignChannels(), lambda: build(parameters_of_channels)),
    "joined_maps": (AlignChannels(), lambda: build(joined_maps)),
    "averaged_maps": (AlignChannels(), lambda: build(averaged_maps)),
    "a_resize_inside": (ResizeSizes(), lambda: build(grown)),
    "a_resize_of_an_input": (
        ResizeSizes(),
        lambda: build(lambda b: resize(b.input("x", (1, 2, 7, 7)), b, 14)),
    ),
    "a_mirror": (IdentityConv(), lambda: build(mirror)),
}


def pulled(lever: Lever, graph: Graph, known: Known) -> str:
    """What a lever finds and does, in words; asserts the laws."""
    around = LeverContext(OPSET, frozenset(node.name for node in graph.nodes))
    sites = find_sites(graph, lever, around)
    words = [f"{site.relation.value if site.relation else 'not'}: {site.reason}" for site in sites]
    after = apply_lever(graph, lever, around).graph
    verify(after)
    assert [tensor.name for tensor in after.outputs] == [tensor.name for tensor in graph.outputs]
    if has_values(graph) and not isinstance(lever, (NarrowTypes, ResizeSizes)):
        coarse = any(tensor.dtype is DType.FLOAT16 for tensor in graph.tensors.values())
        assert difference(graph, after, known=known) < (1e-2 if coarse else 1e-4)
    if any(site.possible for site in sites):
        words.append(
            f"{operators_changed(graph, after)}: {placed(after)}"
            if has_values(graph)
            else operators_changed(graph, after)
        )
    return "; ".join(words) or "no site"


@pytest.mark.parametrize("name", SITES)
def test_where_a_lever_can_be_pulled(golden: Golden, name: str) -> None:
    (lever, make), known = SITES[name], Known()
    golden(
        f"passes_near_misses/{lever.name}_{name}.txt",
        sorted_outcomes((label, pulled(lever, v, known)) for label, v in near_misses(make(), known=known)),
    )


# ------------------------------------------------------------------------------------------------------------


def two_convolutions(b: GraphBuilder) -> Tensor:
    return b.op("Relu", conv(b, b.op("Relu", conv(b, b.input("x", (1, 16, 8, 8)), 16)), 32, 1))


def gated_pair(b: GraphBuilder) -> Tensor:
    first = conv(b, b.input("x", (1, 16, 8, 8)), 16)
    return b.op("Add", conv(b, b.op("Mul", first, b.op("Sigmoid", first)), 16), b.input("y", (1, 16, 8, 8)))


@pytest.mark.parametrize("body", [two_convolutions, gated_pair])
def test_which_convolutions_may_be_one_task(golden: Golden, body: Body) -> None:
    """With what UB fusion put behind them."""
    outcomes = []
    for label, variant in near_misses(build(body), edits):
        number = -1
        for node in variant.topological():
            if node.op_type == "Conv":
                number += 1
            if number >= 0 and node.op_type in ("Conv", "Relu", "Sigmoid", "Mul", "Add"):
                node.origin[SCOPE] = number
        try:
            pairs = find_pairs(variant)
        except GraphError as error:
            outcomes.append((label, str(error)))
            continue
        words = [
            " + ".join(",".join(node.op_type for node in unit) for unit in (pair.first, pair.second))
            for pair in pairs
        ]
        assert all(pair.between.producer is pair.first[-1] for pair in pairs)
        assert all(pair.second[0].input(0) is pair.between for pair in pairs)
        outcomes.append((label, "; ".join(words) or "none"))
    golden(f"passes_near_misses/pairs_{body.__name__}.txt", sorted_outcomes(outcomes))


def test_a_joined_pair_is_one_scope_behind_all_others() -> None:
    graph = build(two_convolutions)
    first, relu, second, last = graph.topological()
    first.origin[SCOPE] = relu.origin[SCOPE] = 4
    (pair,) = find_pairs(graph)
    assert (pair.first, pair.second) == ((first, relu), (second,))
    assert join_pair(graph, pair) == (first, relu, second)
    assert [node.origin.get(SCOPE) for node in (first, relu, second, last)] == [5, 5, 5, None]
    assert [SECOND_STAGE in node.origin for node in (first, relu, second, last)] == [
        False,
        False,
        True,
        False,
    ]
