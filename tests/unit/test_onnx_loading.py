"""`load_onnx`: what ends up in the graph, and what is refused how."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import (
    AscendSimError,
    GraphError,
    InputError,
    UnsupportedOperatorError,
    UnsupportedTypeError,
)
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.opset import OpSet
from tests.support.onnx_models import model, node, run, value

OPS = default_opset()


def load(source, **options) -> Graph:
    return load_onnx(source, opset=options.pop("opset", OPS), **options)


def refused(source, error: type[AscendSimError] = GraphError, **options) -> str:
    """The message of an expected error: one line of text."""
    with pytest.raises(error) as caught:
        load(source, **options)
    text = str(caught.value)
    assert text.isprintable()
    return text


X = value("x", (2, 3))


def relu() -> onnx.ModelProto:
    return model([node("Relu", "x", "y", name="r")], [X], ["y"])


# what a graph holds


def test_nodes_tensors_and_origin():
    graph = load(relu())
    assert (
        to_text(graph)
        == "graph test {\n  input %x: float32[2,3]\n  r: %y: float32[2,3] = Relu(%x)\n  output %y\n}\n"
    )
    assert graph.node("r").origin == {"framework": "onnx", "source_names": ("r",)}
    assert graph.metadata == {
        "format": "onnx",
        "opset": 20,
        "producer": "tests 1",
        "inputs": ("x",),
        "file": "test",
    }


def test_a_path_bytes_and_a_proto_give_the_same(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(relu().SerializeToString())
    texts = {to_text(load(source)) for source in (path, str(path), path.read_bytes(), relu())}
    assert len(texts) == 1
    assert load(path).metadata["file"] == "m.onnx"


def test_nameless_nodes_are_named_after_their_output_and_equal_names_are_made_different():
    graph = load(
        model(
            [node("Relu", "x", "a"), node("Relu", "a", "b", name="n"), node("Relu", "b", "y", name="n")],
            [X],
            ["y"],
        )
    )
    assert [item.name for item in graph.nodes] == ["a", "n", "n_1"]


def test_initialisers_are_constants_also_if_listed_as_inputs():
    proto = model([node("Add", "x w", "y")], [X, value("w", (3,))], ["y"], {"w": np.ones(3, np.float32)})
    graph = load(proto)
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert graph.tensors["w"].is_constant


def test_every_form_of_constant():
    nodes = [
        node("Constant", "", "a", value=onnx.numpy_helper.from_array(np.array([1.0, 2.0, 3.0], np.float32))),
        node("Constant", "", "b", value_float=2.0),
        node("Constant", "", "c", value_floats=[1.0, 1.0, 1.0]),
        node("Constant", "", "d", value_int=1),
        node("Constant", "", "e", value_ints=[2, 3]),
        node("Add", "a b", "ab"),
        node("Add", "ab c", "abc"),
        node("Expand", "abc e", "out"),
        node("Add", "out x", "y"),
        node("Identity", "d", "z"),
    ]
    graph = load(model(nodes, [X], ["y", "z"]))
    assert [item.op_type for item in graph.nodes] == ["Add"]
    np.testing.assert_array_equal(run(graph, np.zeros((2, 3), np.float32))[0], [[4, 5, 6]] * 2)
    assert graph.outputs[1].constant.array() == 1


def test_type_attributes_become_dtypes():
    graph = load(model([node("Cast", "x", "y", to=TensorProto.FLOAT16)], [X], ["y"]))
    assert graph.nodes[0].attributes == {"to": DType.FLOAT16}
    assert graph.outputs[0].dtype is DType.FLOAT16


def test_outputs_that_are_inputs_or_constants():
    graph = load(model([], [X], ["x", "c"], {"c": np.ones(2, np.float32)}))
    assert [tensor.name for tensor in graph.outputs] == ["x", "c"]


def test_left_out_inputs_and_outputs():
    nodes = [node("Clip", "x _ high", "c"), helper.make_node("TopK", ["c", "k"], ["", "i"])]
    graph = load(model(nodes, [X], ["i"], {"high": np.float32(1), "k": np.array([1])}))
    clip, top = graph.nodes
    assert clip.inputs[1] is None
    assert len(top.outputs) == 2
    assert top.outputs[1].name == "i"


def test_unsorted_nodes_are_sorted():
    graph = load(
        model([node("Relu", "a", "y", name="second"), node("Relu", "x", "a", name="first")], [X], ["y"])
    )
    assert [item.name for item in graph.nodes] == ["first", "second"]


def test_symbolic_dimensions_stay():
    graph = load(model([node("Relu", "x", "y")], [value("x", ("n", 3))], ["y"]))
    assert graph.outputs[0].shape == ("n", 3)


def test_a_declared_shape_stands_where_inference_knows_no_rank_and_nowhere_else():
    proto = model([node("Squeeze", "x", "s"), node("Relu", "s", "y")], [value("x", ("n", "m"))], ["y"])
    proto.graph.value_info.append(value("s", (7,)))
    assert load(proto).outputs[0].shape == (7,)
    proto = model([node("Relu", "x", "s"), node("Neg", "s", "y")], [value("x", ("n", 3))], ["y"])
    proto.graph.value_info.append(value("s", (7, 3)))
    assert load(proto).outputs[0].shape == ("n", 3)


def test_dead_nodes_and_constants_go():
    graph = load(
        model(
            [node("Relu", "x", "y"), node("Add", "x w", "unused")], [X], ["y"], {"w": np.ones(3, np.float32)}
        )
    )
    assert len(graph) == 1
    assert "w" not in graph.tensors


# functions


def function(name, inputs, outputs, nodes, attributes=(), version=20):
    return helper.make_function(
        "local",
        name,
        inputs,
        outputs,
        nodes,
        [helper.make_opsetid("", version), helper.make_opsetid("local", 1)],
        attributes,
    )


def test_functions_are_inlined_with_their_own_operator_set_and_attributes():
    inner = function(
        "Inner", ["a"], ["b"], [node("Squeeze", "a", "s", axes=[0]), node("Relu", "s", "b")], version=11
    )
    alpha = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    leaky = node("LeakyRelu", "c", "d")
    leaky.attribute.append(alpha)
    outer = function(
        "Outer", ["p", "q"], ["d", "q"], [node("Inner", "p", "c", domain="local"), leaky], ["slope"]
    )
    calls = [node("Outer", "x z", "y w", domain="local", name="call", slope=0.25)]
    proto = model(
        calls,
        [value("x", (1, 3)), value("z", (2,))],
        ["y", "w"],
        functions=[inner, outer],
        domains=[("local", 1)],
    )
    graph = load(proto)
    assert [item.op_type for item in graph.nodes] == ["Squeeze", "Relu", "LeakyRelu", "Identity"]
    assert graph.nodes[2].attributes["alpha"] == 0.25
    assert [(t.name, t.shape) for t in graph.outputs] == [("y", (3,)), ("w", (2,))]
    assert all(item.name.startswith("call/") for item in graph.nodes[:3])


def test_two_calls_of_a_function_do_not_collide():
    twice = function("F", ["a"], ["b"], [node("Relu", "a", "t"), node("Neg", "t", "b")])
    proto = model(
        [node("F", "x", "u", domain="local"), node("F", "u", "y", domain="local")],
        [X],
        ["y"],
        functions=[twice],
        domains=[("local", 1)],
    )
    x = np.array([[1, -2, 3], [0, 1, -1]], np.float32)
    np.testing.assert_array_equal(run(load(proto), x)[0], -np.maximum(-np.maximum(x, 0), 0))


def test_a_function_that_calls_itself_is_refused():
    forever = function("F", ["a"], ["b"], [node("F", "a", "b", domain="local")])
    proto = model(
        [node("F", "x", "y", domain="local")], [X], ["y"], functions=[forever], domains=[("local", 1)]
    )
    assert "must not nest deeper than 32 functions; functions must not call themselves" in refused(proto)


def test_functions_that_multiply_are_bounded(monkeypatch):
    monkeypatch.setattr("ascendsim.frontends.onnx.importer.MAX_NODES", 1000)
    levels = [function("F0", ["a"], ["b"], [node("Relu", "a", "b")])]
    for level in range(1, 20):
        calls = [
            node(f"F{level - 1}", "a", "t", domain="local"),
            node(f"F{level - 1}", "t", "b", domain="local"),
        ]
        levels.append(function(f"F{level}", ["a"], ["b"], calls))
    proto = model(
        [node("F19", "x", "y", domain="local")], [X], ["y"], functions=levels, domains=[("local", 1)]
    )
    assert "must have at most 1000 nodes after inlining its functions" in refused(proto)


def test_operators_with_a_body_in_their_schema_are_expanded():
    names = {"HardSwish", "MeanVarianceNormalization", "GroupNormalization", "LayerNormalization"}
    small = OpSet(definition for definition in OPS if definition.name not in names)
    for proto, shape in [
        (model([node("HardSwish", "x", "y")], [value("x", (2, 3, 4, 4))], ["y"]), (2, 3, 4, 4)),
        (
            model([node("MeanVarianceNormalization", "x", "y")], [value("x", (2, 3, 4, 4))], ["y"]),
            (2, 3, 4, 4),
        ),
        (
            model(
                [node("LayerNormalization", "x w", "y", axis=-1)],
                [value("x", (2, 3))],
                ["y"],
                {"w": np.ones(3, np.float32)},
            ),
            (2, 3),
        ),
    ]:
        graph = load(proto, opset=small)
        assert not names & {item.op_type for item in graph.nodes}
        assert graph.outputs[0].name == "y"
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(run(graph, x)[0], run(load(proto), x)[0], rtol=1e-4, atol=1e-5)


# operators that are not supported


def test_unsupported_operators_are_listed_all_at_once():
    branch = helper.make_graph(
        [node("Mystery", "x", "b", name="deep", domain="far.away")], "branch", [], [value("b", (2, 3))]
    )
    nodes = [
        node("If", "c", "a", name="if1", then_branch=branch, else_branch=branch),
        node("Unheard", "a", "u", name="u1"),
        node("Unheard", "u", "y", name="u2"),
    ]
    proto = model(nodes, [X, value("c", (), TensorProto.BOOL)], ["y"], domains=[("far.away", 1)])
    with pytest.raises(UnsupportedOperatorError) as caught:
        load(proto)
    assert caught.value.operators == [("Unheard", "u1"), ("Unheard", "u2"), ("far.away::Mystery", "deep")]
    assert "Unheard (nodes u1, u2); far.away::Mystery (nodes deep)" in str(caught.value)


def test_unchecked_loading_holds_subgraphs_with_their_captures():
    then = helper.make_graph([node("Relu", "t", "a")], "then", [], [value("a", (2, 3))])
    other = helper.make_graph([], "other", [], [value("x", (2, 3))])
    nodes = [node("Neg", "x", "t"), node("If", "c", "y", then_branch=then, else_branch=other)]
    outputs = [value("y", (2, 3))]
    graph_proto = helper.make_graph(nodes, "g", [X, value("c", (), TensorProto.BOOL)], outputs)
    graph = load(
        helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", 20)]), check_operators=False
    )
    bodies = dict(graph.node("y").subgraphs)
    assert [tensor.name for tensor in bodies["then_branch"].captured()] == ["t"]
    assert bodies["then_branch"].outputs[0].shape == (2, 3)
    assert [item.op_type for item in bodies["else_branch"].nodes] == ["Identity"]
    assert graph.outputs[0].shape == (2, 3)  # from what the file declares


def test_sibling_subgraphs_may_use_the_same_names():
    body = helper.make_graph([node("Relu", "x", "a", name="n")], "b", [], [value("a", (2, 3))])
    nodes = [
        node("If", "c", "p", then_branch=body, else_branch=body),
        node("If", "c", "q", then_branch=body, else_branch=body),
        node("Add", "p q", "y"),
    ]
    graph = load(model(nodes, [X, value("c", (), TensorProto.BOOL)], ["y"]), check_operators=False)
    assert len(graph) == 3


# types


@pytest.mark.parametrize("kind", ["STRING", "FLOAT8E4M3FN", "INT4", "UINT4", "COMPLEX64"])
def test_unsupported_element_types(kind):
    proto = model([node("Identity", "x", "y")], [value("x", (2,), getattr(TensorProto, kind))], ["y"])
    assert f"input 'x' has element type {kind}, which is not supported" in refused(
        proto, UnsupportedTypeError
    )
    cast = model([node("Cast", "x", "y", to=getattr(TensorProto, kind), name="c")], [X], ["y"])
    assert f"attribute to of node 'c' (Cast) has element type {kind}" in refused(cast, UnsupportedTypeError)


def test_unsupported_kinds_of_values():
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    assert "input 'x' is of kind 'sequence'" in refused(
        model([node("Identity", "x", "y")], [sequence], ["y"]), UnsupportedTypeError
    )
    text = model([node("Constant", "", "c", value_string="a"), node("Relu", "x", "y")], [X], ["y"])
    assert "holds a text value" in refused(text, UnsupportedTypeError)
    values = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [0]), [3])
    proto = relu()
    proto.graph.sparse_initializer.append(sparse)
    assert "tensor 'v' is sparse" in refused(proto, UnsupportedTypeError)


# bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello world", "is not an ONNX model, or is truncated"),
        (b"\x08\x07", "has no graph: it is not an ONNX model"),
    ],
)
def test_files_that_are_no_models(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert message in refused(path, InputError)
    assert message in refused(content, InputError)


def test_every_truncation_of_a_model_is_refused_or_loads(models_dir):
    data = (models_dir / "lenet5.onnx").read_bytes()
    for length in range(0, len(data) - 1, 97):
        refused(data[:length], AscendSimError)


def test_paths_that_lead_nowhere(tmp_path):
    assert "does not exist; check the path" in refused(tmp_path / "no.onnx", InputError)
    assert "is a folder" in refused(tmp_path, InputError)
    assert "cannot be read" in refused(str(tmp_path / ("n" * 5000)), InputError)
    assert "must be a path, bytes or an onnx.ModelProto" in refused(42, InputError)


def test_operator_set_versions():
    newest = onnx.defs.onnx_opset_version()
    assert f"uses ONNX operator set {newest + 1}" in refused(
        model([node("Relu", "x", "y")], [X], ["y"], opset=newest + 1), InputError
    )
    assert "must use ONNX operator set 7 or newer, not 6" in refused(
        model([node("Add", "x x", "y")], [X], ["y"], opset=6), InputError
    )
    assert len(load(model([node("Relu", "x", "y")], [X], ["y"], opset=6))) == 1  # Relu did not change since
    unversioned = relu()
    del unversioned.opset_import[:]
    assert "does not say which ONNX operator set" in refused(unversioned, InputError)


def test_cycles_and_dangling_names():
    cycle = model([node("Add", "x b", "a", name="one"), node("Relu", "a", "b", name="two")], [X], ["b"])
    assert "graph 'test' has a cycle through nodes one, two" in refused(cycle)
    assert "node 'r' (Relu) reads 'q', which nothing makes" in refused(
        model([node("Relu", "q", "y", name="r")], [X], ["y"])
    )
    assert "output 'q' of graph 'test' is made by no node" in refused(
        model([node("Relu", "x", "y")], [X], ["q"])
    )


def test_names_defined_twice():
    assert "value 'y' of graph 'test' must be made by one node only" in refused(
        model([node("Relu", "x", "y"), node("Neg", "x", "y")], [X], ["y"])
    )
    assert "has a cycle" in refused(model([node("Relu", "x", "x")], [X], ["x"]))
    twice = relu()
    twice.graph.input.append(twice.graph.input[0])
    assert "value 'x' of graph 'test' must be defined once" in refused(twice)
    constants = model([node("Add", "x w", "y")], [X], ["y"], {"w": np.ones(3, np.float32)})
    constants.graph.initializer.append(constants.graph.initializer[0])
    assert "value 'w' of graph 'test' must be defined once" in refused(constants)


def test_a_graph_without_outputs():
    assert "must have an output" in refused(model([node("Relu", "x", "y")], [X], []))


def test_shapes_that_break_an_operators_rule_name_the_node():
    assert "'m' (MatMul)" in refused(model([node("MatMul", "x x", "y", name="m")], [X], ["y"]))


def test_negative_dimensions():
    assert "must have dimensions that are not negative, not -5" in refused(
        model([node("Relu", "x", "y")], [value("x", (-5, 2))], ["y"])
    )


def test_attributes_of_the_wrong_type():
    proto = model([node("Softmax", "x", "y", name="s", axis=1.5)], [X], ["y"])
    assert "attribute 'axis' of node 's' (Softmax) must be of type INT, not FLOAT" in refused(proto)


def test_text_that_is_no_text():
    data = relu().SerializeToString().replace(b"Relu", b"Re\xff\xfe")
    refused(data, AscendSimError)


def test_a_wrong_weights_option():
    assert 'option weights must be "file" or "random"' in refused(relu(), InputError, weights="none")
