"""Keys of units hold all that lowering reads, and renamed blocks are the blocks that lowering would have
made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, CompileError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Constant, Graph, Node
from ascendsim.graph.scopes import SECOND_STAGE
from ascendsim.isa.instructions import Affine, Buffer, Loop, Move, Operand, Pipe, Scalar
from ascendsim.isa.listing import listing
from ascendsim.isa.program import Block, RenamedBlock
from ascendsim.lower import LowerOptions, lower_graph, scope_lowering
from ascendsim.lower.fused import ScopeLowering
from ascendsim.lower.unit_key import unit_key
from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext
from ascendsim.soc import load
from tests.support.node_suite import all_cases

MODELS = Path(__file__).parents[1] / "data" / "models"
UB = Operand(Buffer.UB, "tile", 64)


def memory(name: str) -> Operand:
    return Operand(Buffer.GM, name, 64, Affine(0, (("i", 64),)))


def copying(source: str, target: str) -> Block:
    """A block that copies a region in a loop."""
    moves = (
        Move(Pipe.MTE2, UB, memory(source), 1, 64),
        Scalar(3),
        Move(Pipe.MTE3, memory(target), UB, 1, 64),
    )
    return Block((Loop("i", 4, moves),))


def test_a_renamed_block_is_the_block_with_other_names() -> None:
    template = copying("x", "y")
    renamed = RenamedBlock(template, {"x": "a", "y": "x"})
    assert renamed == copying("a", "x") == renamed
    assert renamed != template
    assert hash(renamed) == hash(copying("a", "x"))
    assert listing(renamed) == listing(copying("a", "x"))
    assert (renamed.template, renamed.region("y"), renamed.region("z")) == (template, "x", "z")
    assert template.template is template
    assert RenamedBlock(template, {"x": "b"}) == copying("b", "y")


def test_only_global_memory_is_renamed() -> None:
    """A tensor may be called as the template calls a buffer."""
    assert RenamedBlock(copying(UB.name, "y"), {UB.name: "a", "y": "b"}) == copying("a", "b")


def chain() -> Graph:
    """y = Softmax(Clip(x + w)), and a second reader of the sum."""
    b = asim.GraphBuilder("chain", dtype=DType.FLOAT16)
    total = b.op("Add", b.input("x", (4, 32)), b.weight("w", (4, 32)), name="add")
    b.output(b.op("Softmax", b.op("Clip", total, 0.0, 6.0, name="clip"), axis=-1, name="softmax"), "y")
    b.output(b.op("Abs", total, name="abs"), "z")
    return b.build()


def nodes_of(graph: Graph) -> tuple[Node, ...]:
    return tuple(graph.node(name) for name in ("add", "clip", "softmax"))


def test_names_do_not_count() -> None:
    one, other = chain(), chain()
    for tensor in tuple(other.tensors.values()):
        other.rename_tensor(tensor, f"other/{tensor.name}")
    first, second = unit_key(nodes_of(one)), unit_key(nodes_of(other))
    assert first is not None
    assert second is not None
    assert first[0] == second[0]
    assert second[1] == tuple(f"other/{name}" for name in first[1])


def _set(graph: Graph, name: str, **changes: object) -> None:
    for key, value in changes.items():
        setattr(graph.tensors[name], key, value)


CHANGES: dict[str, Callable[[Graph], object]] = {
    "shape": lambda graph: _set(graph, "x", shape=(32, 4)),
    "type": lambda graph: _set(graph, "x", dtype=DType.FLOAT32),
    "user's type": lambda graph: _set(graph, "x", origin_dtype=DType.FLOAT32),
    "format": lambda graph: _set(graph, "x", format=Format.FRACTAL_NZ),
    "constant": lambda graph: _set(graph, "w", constant=None),
    "values": lambda graph: _set(
        graph, graph.node("clip").required(2).name, constant=Constant(np.array(5, np.float16))
    ),
    "values that are there": lambda graph: _set(graph, "w", constant=Constant(np.zeros((4, 32), np.float16))),
    "attribute": lambda graph: graph.node("softmax").attributes.update(axis=0),
    "type of an attribute": lambda graph: graph.node("softmax").attributes.update(axis=-1.0),
    "operator": lambda graph: setattr(graph.node("softmax"), "op_type", "LogSoftmax"),
    "domain": lambda graph: setattr(graph.node("softmax"), "domain", "ascend"),
    "port": lambda graph: graph.node("add").set_input(1, graph.tensors["x"]),
    "left out": lambda graph: graph.node("clip").set_input(1, None),
    "reader": lambda graph: graph.node("abs").set_input(0, graph.tensors["x"]),
    "reader inside": lambda graph: graph.node("softmax").set_input(0, graph.node("add").output),
    "graph output": lambda graph: graph.outputs.append(graph.node("add").output),
    "producer": lambda graph: graph.node("clip").set_input(
        2, graph.add_node("Exp", [graph.node("clip").required(2)]).output
    ),
    "control edge": lambda graph: graph.node("add").add_control(graph.node("abs")),
    "second stage": lambda graph: graph.node("softmax").origin.update({SECOND_STAGE: True}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_everything_else_counts(change: str) -> None:
    graph = chain()
    before = unit_key(nodes_of(graph))
    CHANGES[change](graph)
    after = unit_key(nodes_of(graph))
    assert before is not None
    assert after is not None
    assert before[0] != after[0]


@pytest.mark.parametrize(
    ("kind", "count", "counts"), [(np.float16, 16, True), (np.float16, 17, False), (np.int64, 17, True)]
)
def test_values_count_up_to_sixteen_and_always_if_they_are_indices(
    kind: type, count: int, counts: bool
) -> None:
    keys = []
    for last in (0, 1):
        b = asim.GraphBuilder("list", dtype=DType.FLOAT16)
        values = np.zeros(count, kind)
        values[-1] = last
        b.output(
            b.op("Add", b.input("x", (count,), DType.of(kind)), b.constant(values, "list"), name="add"), "y"
        )
        key = unit_key((b.build().node("add"),))
        assert key is not None
        keys.append(key[0])
    assert (keys[0] != keys[1]) == counts


def test_the_operator_that_makes_an_input_counts() -> None:
    keys = []
    for maker in ("Abs", "Exp"):
        b = asim.GraphBuilder("made", dtype=DType.FLOAT16)
        b.output(b.op("Softmax", b.op(maker, b.input("x", (4, 32))), name="softmax"), "y")
        key = unit_key((b.build().node("softmax"),))
        assert key is not None
        keys.append(key[0])
    assert keys[0] != keys[1]


def test_units_with_subgraphs_have_no_key() -> None:
    graph = chain()
    graph.node("abs").attributes["body"] = chain()
    assert unit_key((graph.node("abs"),)) is None


def suite_cases() -> Iterator[Graph]:
    """Cases of the ONNX backend suite that hold constants and that can be loaded."""
    for case in all_cases():
        if case.model is not None and (
            case.model.graph.initializer or any(node.op_type == "Constant" for node in case.model.graph.node)
        ):
            with suppress(AscendSimError):
                yield asim.load(case.model)


def networks() -> Iterator[Graph]:
    """Networks with slices, pads, resizing, loops over time and reductions."""
    for name in ("bert_tiny_s64_traced", "yolov5s", "lstm_lm", "squeezenet1_1"):
        yield asim.load(MODELS / f"{name}.onnx", fold=False)


@pytest.mark.parametrize("graphs", [networks, pytest.param(suite_cases, marks=pytest.mark.slow)])
def test_values_that_lowering_asks_for_are_in_the_key(
    graphs: Callable[[], Iterator[Graph]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values of a constant that was asked for make another key."""
    asked: list[Constant] = []
    plain = Constant.array

    def watched(constant: Constant) -> object:
        asked.append(constant)
        return plain(constant)

    opset, checked = default_opset(), 0
    soc = load("Ascend910B1")
    context = LowerContext.of(soc)
    for graph in graphs():
        for node in graph.nodes:
            lower = opset.get(node).lower
            if lower is None:
                continue
            asked.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Constant, "array", watched)
                try:
                    lower(node, context)
                except AscendSimError:
                    continue
            before = unit_key((node,))
            for tensor in node.inputs:
                if before is not None and tensor is not None and tensor.constant in asked and tensor.elements:
                    kept, values = tensor.constant, tensor.constant.array()
                    tensor.constant = Constant(
                        np.logical_not(values) if values.dtype == np.bool_ else values + values.dtype.type(1)
                    )
                    after = unit_key((node,))
                    tensor.constant = kept
                    assert after is not None
                    assert after[0] != before[0], f"{graph.name}: {node} asks for {tensor}"
                    checked += 1
    assert checked > 20


def test_a_program_is_the_same_without_reuse() -> None:
    graph, soc = chain(), load("Ascend310")
    reused = lower_graph(graph, soc, default_opset(), options=LowerOptions())
    assert reused == lower_graph(graph, soc, default_opset(), options=LowerOptions(known=None))


def two_matmuls() -> Graph:
    """Two equal products, each with one value a row added: no scope."""
    b = asim.GraphBuilder("twice", dtype=DType.FLOAT16)
    for name in ("one", "two"):
        product = b.op("MatMul", b.input(f"{name}/x", (64, 64)), b.weight(f"{name}/w", (64, 64)), name=name)
        b.output(b.op("Add", product, b.input(f"{name}/rows", (64, 1)), name=f"{name}/add"), f"{name}/y")
    return b.build()


def refusals(lowered: list[str], monkeypatch: pytest.MonkeyPatch, options: LowerOptions) -> list[str]:
    """Why the two scopes have no program; notes which ones were looked at."""
    graph, plain = two_matmuls(), ScopeLowering.lower

    def watched(self: ScopeLowering, nodes: Sequence[Node]) -> object:
        lowered.append(nodes[0].name)
        return plain(self, nodes)

    monkeypatch.setattr(ScopeLowering, "lower", watched)
    units, found = scope_lowering(load("Ascend310"), default_opset(), options), []
    for name in ("one", "two"):
        with pytest.raises(CompileError) as error:
            units.lower((graph.node(name), graph.node(f"{name}/add")))
        found.append(str(error.value))
    return found


def test_an_equal_scope_is_refused_at_once_by_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    first, second = refusals(lowered, monkeypatch, LowerOptions())
    assert lowered == ["one"]
    assert first.startswith("operand 'one/rows' of node 'one/add' (Add) must be")
    assert second == first.replace("one/", "two/")


def test_an_error_that_does_not_say_what_it_names_is_not_told_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def joined(self: ScopeLowering, nodes: Sequence[Node], *_: object) -> object:
        raise CompileError(f"node {nodes[0].name!r}", "does not like it")

    monkeypatch.setattr(ScopeLowering, "_joined", joined)
    lowered: list[str] = []
    assert refusals(lowered, monkeypatch, LowerOptions()) == [
        "node 'one' does not like it",
        "node 'two' does not like it",
    ]
    assert lowered == ["one", "two"]
