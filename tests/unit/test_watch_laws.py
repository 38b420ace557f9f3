"""What a run says of its numbers, on random graphs of small operators, against plain numpy: every result once
in float16 and once in float32, and a search through the graph for what infinity reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.ops.shared.magnitudes import Magnitudes, magnitudes
from ascendsim.passes.infer import infer
from ascendsim.runtime.numerics import Finding, Numerics
from ascendsim.runtime.watch import Watch

Array = NDArray[Any]
HALF = np.dtype(np.float16)
OPERATORS = {
    "Mul": np.multiply,
    "Add": np.add,
    "Sub": np.subtract,
    "Abs": np.abs,
    "Exp": np.exp,
    "Reciprocal": np.reciprocal,
    "Neg": np.negative,
    "Min": np.minimum,
}
SHAPE = (4, 40)


def random_graph(random: Random) -> Graph:
    """A dozen operators; the last one and two others are outputs."""
    b = GraphBuilder("random")
    tensors = [b.input(name, SHAPE, DType.FLOAT16) for name in ("p", "q", "r")]
    for number in range(12):
        kind = random.choice(list(OPERATORS))
        operands = random.sample(tensors[-6:], 2 if OPERATORS[kind].nin == 2 else 1)
        tensors.append(b.op(kind, *operands, name=f"n{number}"))
    for number, tensor in enumerate((tensors[-1], tensors[-3], tensors[-5])):
        b.output(tensor, f"y{number}")
    graph = b.build()
    infer(graph, default_opset())
    return graph


def random_inputs(seed: int) -> dict[str, Array]:
    """Of sizes whose squares are 0, numbers or infinity; one row of zeros, infinities in some."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in ("p", "q", "r"):
        sizes = 10.0 ** rng.choice([-4, -3, 0] if seed % 2 else [-3, 0, 2, 4], SHAPE)
        found[name] = (rng.standard_normal(SHAPE) * sizes).clip(-65504, 65504).astype(HALF)
    found["q"][1] = 0
    if seed % 5 == 0:
        found["r"][2, 3] = np.inf
    return found


def computed(graph: Graph, arrays: Mapping[str, Array]) -> dict[Tensor, Array]:
    """Every tensor by the operators themselves, one rounding each."""
    opset = default_opset()
    values = {tensor: arrays[tensor.name] for tensor in graph.inputs}
    with np.errstate(all="ignore"):
        for node in graph.topological():
            given = [values[node.required(port)] for port in range(len(node.inputs))]
            values[node.output] = np.asarray(opset.get(node).compute(node, given, [HALF])[0])
    return values


def dtype_of(_: Tensor) -> np.dtype[Any]:
    return HALF


def watched(graph: Graph, values: Mapping[Tensor, Array], arrays: Mapping[str, Array]) -> Numerics:
    """Operator by operator."""
    watch = Watch(default_opset())
    watch.begin(graph, arrays, dtype_of)
    for node in graph.topological():
        watch.node(
            node, [values[node.required(port)] for port in range(len(node.inputs))], [values[node.output]]
        )
    return ended(watch, graph, values)


def ended(watch: Watch, graph: Graph, values: Mapping[Tensor, Array]) -> Numerics:
    outputs = {tensor.name: values[tensor] for tensor in graph.outputs}
    watch.end(outputs, {tensor.name: tensor for tensor in graph.outputs})
    return watch.report()


def by_hand(node: Node, values: Mapping[Tensor, Array]) -> Finding | None:
    """What a node does to finite inputs."""
    given = [values[node.required(port)] for port in range(len(node.inputs))]
    result = values[node.output]
    if not all(np.isfinite(array).all() for array in given):
        return None
    with np.errstate(all="ignore"):
        exact = OPERATORS[node.op_type](*(array.astype(np.float32) for array in given))
    plain = {"name": node.name, "op_type": node.op_type, "dtype": "float16", "elements": result.size}
    lost = ~np.isfinite(result)
    if lost.any():
        beyond = [float(abs(item)) for item in exact[lost] if np.isfinite(item)]
        largest = max(beyond, default=0.0)
        kind = "overflow" if largest > 65504 else "infinite"
        return Finding(kind=kind, largest=largest or np.inf, limit=65504.0, count=int(lost.sum()), **plain)
    zeros = (result == 0) & (exact != 0)
    small = ((result != 0) & (abs(result) < 2.0**-14)).sum()
    if not zeros.any():
        return None
    if small * 128 < result.size and result.any():
        return None  # too few small ones beside it to look
    largest = float(abs(exact[zeros]).max())
    return Finding(kind="flushed", largest=largest, limit=2.0**-24, count=int(zeros.sum()), **plain)


def expected(graph: Graph, values: Mapping[Tensor, Array]) -> dict[str, Finding]:
    """Findings by name, with what infinity reached on ways that are infinite all along."""
    found = {node.name: item for node in graph.nodes if (item := by_hand(node, values))}
    for name, item in list(found.items()):
        reached = {next(node for node in graph.nodes if node.name == name).output}
        after: list[str] = []
        for node in graph.topological():
            bad = not np.isfinite(values[node.output]).all()
            if bad and any(tensor in reached for tensor in node.inputs) and item.kind != "flushed":
                reached.add(node.output)
                after.append(node.name)
        outputs = tuple(
            tensor.name for tensor in graph.outputs if tensor in reached and item.kind != "flushed"
        )
        found[name] = replace(item, after=tuple(after), outputs=outputs)
    return found


@cache
def stories() -> list[tuple[Graph, dict[str, Array], dict[Tensor, Array]]]:
    made = []
    for seed in range(40):
        graph, arrays = random_graph(Random(seed)), random_inputs(seed)
        made.append((graph, arrays, computed(graph, arrays)))
    return made


def test_findings_are_those_of_plain_numpy() -> None:
    kinds = set()
    for graph, arrays, values in stories():
        found = watched(graph, values, arrays)
        wanted = expected(graph, values)
        assert {item.name for item in found.findings} == set(wanted)
        for item in found.findings:  # numpy's own exp ends in other bits
            assert item.largest == pytest.approx(wanted[item.name].largest, rel=1e-5)
            assert replace(item, sources=(), largest=0) == replace(wanted[item.name], largest=0)
        kinds |= {(item.kind, bool(item.after), bool(item.outputs)) for item in found.findings}
        for item in found.ranges:
            tensor = next(node.output for node in graph.nodes if node.name == item.name)
            np.testing.assert_equal(item.largest, float(np.max(abs(values[tensor]))))
    assert {("overflow", True, True), ("overflow", True, False), ("infinite", True, True)} <= kinds
    assert ("flushed", False, False) in kinds


def test_operators_that_are_computed_together_are_told_apart() -> None:
    """A chain that is computed block by block, whose inner results nobody has at the end."""
    for graph, arrays, values in stories():
        nodes, watch = list(graph.topological()), Watch(default_opset())
        seen = {node: held for node in nodes if (held := magnitudes(values[node.output])) is not None}
        results = {tensor: values[tensor] for tensor in graph.outputs}
        inner = {node: held for node, held in seen.items() if node.output not in results}
        watch.begin(graph, arrays, dtype_of)
        watch.chain(nodes, {tensor: values[tensor] for tensor in graph.inputs}, inner, results, dtype_of)
        assert str(ended(watch, graph, values)) == str(watched(graph, values, arrays))  # NaN is not NaN


def test_inner_results_may_be_seen_before_they_are_rounded() -> None:
    """Blocks hold float32: what rounds to infinity is beyond 65504 there, and finite."""
    beyond = 0
    for graph, arrays, values in stories():
        nodes, watch = list(graph.topological()), Watch(default_opset())
        inner = {}
        for node in nodes:
            held = magnitudes(values[node.output])
            assert held is not None
            with np.errstate(all="ignore"):
                exact = OPERATORS[node.op_type](
                    *(values[item].astype(np.float32) for item in node.inputs if item)
                )
            largest = float(np.max(abs(exact)))
            beyond += 65520 <= largest < np.inf
            if node.output not in graph.outputs:
                inner[node] = replace(held, largest=largest)
        watch.begin(graph, arrays, dtype_of)
        results = {tensor: values[tensor] for tensor in graph.outputs}
        watch.chain(nodes, {tensor: values[tensor] for tensor in graph.inputs}, inner, results, dtype_of)
        assert ended(watch, graph, values).findings == watched(graph, values, arrays).findings
    assert beyond > 10


def test_results_over_their_inputs_leave_names_and_ways() -> None:
    """Where inputs are gone, findings are known by what was seen, with 1 for at least one."""
    for graph, arrays, values in stories():
        nodes, watch, plain = (
            list(graph.topological()),
            Watch(default_opset()),
            watched(graph, values, arrays),
        )
        seen = {node: held for node in nodes if (held := magnitudes(values[node.output])) is not None}
        watch.begin(graph, arrays, dtype_of)
        last = graph.outputs[0]
        shared = {tensor: values[tensor] for tensor in graph.inputs} | {last: values[last]}
        watch.chain(nodes, shared, seen, {last: values[last]}, dtype_of)
        kept = [item for item in plain.findings if item.kind != "flushed"]
        found = ended(watch, graph, values)
        if not any(not held.finite or held.suspicious for held in seen.values()):
            assert str(found) == str(plain)
            continue
        assert [item.name for item in found.findings] == [item.name for item in kept]
        for item, wanted in zip(found.findings, kept, strict=True):
            assert (item.after, item.outputs, item.elements) == (
                wanted.after,
                wanted.outputs,
                wanted.elements,
            )
            assert (item.count, item.limit, item.dtype) == (1, 65504.0, "float16")
            assert item.kind == "infinite"  # nobody knows any more what the number would have been
        assert str(found.ranges) == str(plain.ranges)


def test_zeros_that_were_counted_as_they_were_rounded_are_found_where_inputs_are_gone() -> None:
    """The kernel of a task has counted them: so many, of which nobody knows how large they were."""
    b = GraphBuilder("small")
    source = b.input("p", SHAPE, DType.FLOAT16)
    b.output(b.op("Sqrt", b.op("Mul", source, source, name="square"), name="root"), "y")
    graph = b.build()
    infer(graph, default_opset())
    square, root = graph.topological()
    arrays = {"p": np.zeros(SHAPE, np.float16)}
    for count in (0, 3):
        watch = Watch(default_opset())
        watch.begin(graph, arrays, dtype_of)
        results = {root.output: arrays["p"]}
        seen = {square: Magnitudes(0.5, flushed=count), root: Magnitudes(0.75, suspicious=True)}
        watch.chain([square, root], {graph.inputs[0]: arrays["p"]}, seen, results, dtype_of)
        found = [
            (item.name, item.kind, item.count, item.elements, item.largest, item.limit)
            for item in watch.report().findings
        ]
        size = SHAPE[0] * SHAPE[1]
        assert found == [("square", "flushed", 3, size, 0.0, 2.0**-24)] * (count > 0)


def test_numbers_that_float32_holds_are_no_overflow_where_inputs_are_gone() -> None:
    b = GraphBuilder("wide")
    source = b.input("p", SHAPE, DType.FLOAT32)
    for number, kind in enumerate(("Exp", "Abs")):  # infinite, and beyond float16 alone
        b.output(b.op(kind, source, name=kind), f"y{number}")
    graph = b.build()
    infer(graph, default_opset())
    arrays = {"p": np.full(SHAPE, 1e9, np.float32)}
    values = {graph.inputs[0]: arrays["p"]}
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            values[node.output] = OPERATORS[node.op_type](arrays["p"])
    seen = {node: held for node in graph.nodes if (held := magnitudes(values[node.output])) is not None}
    watch = Watch(default_opset())
    watch.begin(graph, arrays, lambda _: np.dtype(np.float32))
    last = graph.outputs[0]
    results = {last: values[last]}
    watch.chain(graph.nodes, values | results, seen, results, lambda _: np.dtype(np.float32))
    (finding,) = watch.report().findings
    assert (finding.name, finding.kind, finding.dtype) == ("Exp", "infinite", "float32")


def test_zeros_are_found_beside_an_input_that_is_nothing_but_zeros() -> None:
    """Products of 1e-5 and 1e-4, sixteen each, with a bias of zeros: 1.6e-8 is zero in float16."""
    b = GraphBuilder("biased")
    shapes = {"a": (4, 16), "w": (16, 40), "c": (40,)}
    given = [b.input(name, shape, DType.FLOAT16) for name, shape in shapes.items()]
    b.output(b.op("Gemm", *given, name="product"), "y")
    graph = b.build()
    (node,) = graph.nodes
    arrays = {name: np.full(shape, 1e-4, HALF) for name, shape in shapes.items()}
    arrays["a"][:2], arrays["c"] = 1e-5, np.zeros(40, HALF)
    values = [arrays[name] for name in shapes]
    watch = Watch(default_opset())
    watch.begin(graph, arrays, dtype_of)
    watch.node(node, values, default_opset().get(node).compute(node, values, [HALF]))
    (finding,) = watch.report().findings
    assert (finding.name, finding.kind, finding.count, finding.elements) == ("product", "flushed", 80, 160)
    assert finding.largest == pytest.approx(1.6e-8, rel=0.01)


def test_numbers_without_trouble_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros beside plain numbers, and what is large in a type that holds it, are no reason to do it again."""

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is suspicious")

    for name in ("_in_float32", "_one_by_one"):
        monkeypatch.setattr(Watch, name, refuse)
    half = np.array([[0, 1, -2, 65504], [2.0**-14, 0, 0, 3]], HALF)
    for kind in ("Abs", "Neg"):
        assert not one_node(kind, half).findings
        assert not one_node(kind, np.array([[1e6, 0, 1e38]], np.float32)).findings
    b = GraphBuilder("large")
    first = b.op("Abs", b.input("p", SHAPE, DType.FLOAT32), name="first")
    b.output(b.op("Neg", first, name="second"), "y")
    graph = b.build()
    infer(graph, default_opset())
    nodes, single = list(graph.topological()), np.dtype(np.float32)
    array = np.full(SHAPE, 65520, np.float32)
    watch = Watch(default_opset())
    watch.begin(graph, {"p": array}, lambda _: single)
    seen = {nodes[0]: Magnitudes(65520.0)}
    watch.chain(nodes, {graph.inputs[0]: array}, seen, {nodes[1].output: -array}, lambda _: single)
    assert [item.largest for item in watch.report().ranges] == [65520.0, 65520.0]
    narrow = {nodes[1].output: np.ones(SHAPE, HALF)}  # where 65520 is infinite it is looked into
    with pytest.raises(AssertionError, match="nothing is suspicious"):
        watch.chain(nodes, {graph.inputs[0]: array}, seen, narrow, dtype_of)
    seen = {nodes[0]: Magnitudes(65519.0)}
    watch.chain(nodes, {graph.inputs[0]: array}, seen, narrow, dtype_of)


@pytest.mark.parametrize("turns", [1, 3])
def test_turns_of_a_loop_add_up(turns: int) -> None:
    for graph, arrays, values in stories()[:10]:
        once, watch = watched(graph, values, arrays), Watch(default_opset())
        for _ in range(turns):
            watch.begin(graph, arrays, dtype_of, "body/")
            for node in graph.topological():
                given = [values[node.required(port)] for port in range(len(node.inputs))]
                watch.node(node, given, [values[node.output]])
        found = watch.report().findings
        assert [item.name for item in found] == [f"body/{item.name}" for item in once.findings]
        for item, single in zip(found, once.findings, strict=True):
            assert (item.count, item.elements) == (turns * single.count, turns * single.elements)
            assert item.largest == single.largest


def one_node(kind: str, array: Array, result: Array | None = None, **attributes: Any) -> Numerics:
    """An operator on one array, by itself; with its result, or with what it computes."""
    b = GraphBuilder("one")
    x = b.input("x", array.shape, DType.of(array.dtype))
    b.output(b.op(kind, x, name="n", **attributes), "y")
    graph = b.build()
    (node,) = graph.nodes
    if result is None:
        wanted = attributes["to"].numpy if "to" in attributes else array.dtype
        with np.errstate(all="ignore"):
            result = np.asarray(default_opset().get(node).compute(node, [array], [wanted])[0])
    watch = Watch(default_opset())
    watch.begin(graph, {"x": array}, lambda tensor: tensor.dtype.numpy)
    watch.node(node, [array], [result])
    return watch.report()


@pytest.mark.parametrize("to", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.UINT16])
def test_numbers_that_an_integer_type_cannot_hold_are_counted(to: DType) -> None:
    limits = np.iinfo(to.numpy)
    for value in (0, -0.5, -1, 1.5, 100, 127, 127.9, 128, -128.9, -129, 255, 256, -32769, 40000, 65000):
        array = np.array([1, value, 2, value], np.float16)
        short = int(float(array[1]))  # what is behind the point is left out
        wanted = 0 if limits.min <= short <= limits.max else 2
        found = one_node("Cast", array, to=to).findings
        assert [(item.kind, item.count, item.elements) for item in found] == (
            [("saturated", 2, 4)] if wanted else []
        )
        for item in found:
            assert (item.largest, item.limit) == (abs(float(array[1])) if abs(value) > 2 else 2, limits.max)


def test_whole_numbers_that_float16_cannot_tell_apart_are_counted() -> None:
    for value in range(2040, 4200, 3):
        array = np.array([value, 7, -value], np.int32)
        found = one_node("Cast", array, to=DType.FLOAT16).findings
        lost = int(np.float16(value)) != value
        assert [(item.kind, item.count) for item in found] == ([("digits", 2)] if lost else [])
        for item in found:
            assert (item.largest, item.limit) == (value, 2048)


def test_what_only_moves_numbers_has_no_range_and_no_finding() -> None:
    huge = np.array([[6e4, 1e-7], [3, np.inf]], np.float16)
    for kind, more in (("Transpose", {"perm": [1, 0]}), ("Flatten", {}), ("Identity", {})):
        assert one_node(kind, huge, **more) == Numerics()
    assert one_node("Shape", huge, np.array([2, 2], np.int64)) == Numerics()


def test_constants_are_judged_where_they_are_numbers_to_reckon_with() -> None:
    """Not where they are looked up, and not if nobody has their values."""

    def found(kind: str, table: Array | None) -> list[tuple[str, str, int, float]]:
        b = GraphBuilder("constant")
        ids = b.input("ids", (2, 2), DType.INT64 if kind == "Gather" else DType.FLOAT16)
        held = b.weight("t", (2, 2)) if table is None else b.constant(table, "t")
        b.output(b.op(kind, held, ids, name="n"), "y")
        watch = Watch(default_opset())
        watch.begin(b.build(), {}, dtype_of)
        return [(item.name, item.kind, item.count, item.largest) for item in watch.report().findings]

    beyond = np.array([[1e5, 2], [-7e4, 65504]], np.float32)
    assert found("Add", beyond) == [("t", "saturated", 2, 1e5)]
    assert found("Add", beyond.clip(-65504, 65504)) == []
    assert found("Gather", beyond) == []
    assert found("Add", None) == []
