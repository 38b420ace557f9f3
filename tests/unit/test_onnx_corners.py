"""Corners of the ONNX front end: AMCT's attributes at their limits, products of 4-bit weights that miss one
condition, bodies of operators, and graphs as they are written back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError, UnsupportedOperatorError, UnsupportedTypeError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.frontends.onnx.bodies import body_attributes, call_attributes, schema_body
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.frontends.onnx.frames import constant_array
from ascendsim.frontends.onnx.upgrade import Draft
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.opset import OpSet
from tests.support.fusing import new_builder
from tests.support.onnx_models import model, node, run, value
from tests.unit.test_amct_networks import conv, quant, written
from tests.unit.test_onnx_four_bits import stored

OPSET = default_opset()
RANDOM = np.random.default_rng(7)


def loaded(proto: Any) -> Graph:
    return load_onnx(proto, opset=OPSET)


# ---- AMCT


@pytest.mark.parametrize(("offset", "fits"), [(-129, False), (-128, True), (127, True), (128, False)])
def test_offsets_are_bytes(offset: int, fits: bool) -> None:
    proto = written(quant(offset=float(offset)), *conv())
    if fits:
        (node_,) = (item for item in loaded(proto).nodes if item.op_type == "QuantConv")
        assert node_.attr("offset_x") == offset
        return
    with pytest.raises(GraphError, match=f"must be a whole number from -128 to 127, not {offset}"):
        loaded(proto)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_scales_are_numbers_above_0(scale: float) -> None:
    with pytest.raises(GraphError, match="attribute scale of .* must be a number above 0"):
        loaded(written(quant(scale=scale), *conv()))


@pytest.mark.parametrize(("root", "scale"), [(0, 5.0), (1, 25.0)])
def test_a_scale_may_be_given_by_its_root(root: int, scale: float) -> None:
    graph = loaded(written(quant(scale=5.0, sqrt_mode=root), *conv()))
    (made,) = (item for item in graph.nodes if item.op_type == "AscendQuant")
    assert made.attr("scale") == scale
    assert "sqrt_mode" not in made.attributes


def test_what_is_left_out_has_amcts_defaults() -> None:
    bare = node("AscendQuant", "x", "q", dst_type="INT8")
    graph = loaded(written(bare, node("Conv", "q w", "sums"), node("AscendDequant", "sums s", "y")))
    kinds = {item.op_type: item for item in graph.nodes}
    assert kinds["QuantConv"].attr("offset_x") == 0
    assert kinds["AscendDequant"].attr("dtype") is DType.FLOAT32


@pytest.mark.parametrize(
    "between",
    [
        [node("MaxPool", "q", "r", kernel_shape=[2, 2])],
        [node("Transpose", "q", "p", perm=[0, 1, 3, 2]), node("Pad", "p pads zero", "r")],
        [node("Slice", "q starts ends", "r")],
    ],
    ids=["pool", "moved and padded", "cut"],
)
def test_bytes_keep_their_offset_where_they_are_carried(between: list[Any]) -> None:
    proto = written(
        quant(offset=-7.0), *between, node("Conv", "r w", "sums"), node("AscendDequant", "sums s", "y"),
        pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]), zero=np.int8(-7), starts=np.array([0]), ends=np.array([1]),
    )  # fmt: skip
    (made,) = (item for item in loaded(proto).nodes if item.op_type == "QuantConv")
    assert made.attr("offset_x") == -7


def test_bytes_of_the_network_have_no_offset() -> None:
    proto = written(node("Conv", "x w", "sums"), node("AscendDequant", "sums s", "y"))
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT8
    (made,) = (item for item in loaded(proto).nodes if item.op_type == "QuantConv")
    assert made.attr("offset_x") == 0


def test_operators_of_the_same_name_in_another_domain_are_not_amcts() -> None:
    proto = written(quant(), *conv())
    proto.graph.node[0].domain = "my.ops"
    proto.opset_import.append(helper.make_opsetid("my.ops", 1))
    with pytest.raises(UnsupportedOperatorError, match="my.ops::AscendQuant"):
        loaded(proto)


@pytest.mark.parametrize(
    ("factors", "fits"),
    [({}, True), ({"alpha": 1.0, "beta": 1.0}, True), ({"alpha": 2.0}, False), ({"beta": 0.5}, False)],
)
def test_products_of_bytes_have_no_factors(factors: dict[str, float], fits: bool) -> None:
    weights = RANDOM.integers(-9, 9, (8, 4)).astype(np.int8)
    proto = written(
        quant(), node("Gemm", "q m c", "sums", **factors), node("AscendDequant", "sums t", "y"),
        shape=(3, 8), m=weights, c=np.zeros(4, np.int32), t=np.full(1, 1 << 20, np.uint64),
    )  # fmt: skip
    if fits:
        assert "QuantMatMul" in {item.op_type for item in loaded(proto).nodes}
        return
    with pytest.raises(GraphError, match="has no factors alpha and beta where it multiplies bytes"):
        loaded(proto)


@pytest.mark.parametrize("kind", ["INT4", "FP8"])
def test_weights_of_other_types_are_refused(kind: str) -> None:
    proto = written(
        quant(), node("AscendWeightQuant", "w o", "v", dst_type=kind), node("Conv", "q v", "sums"),
        node("AscendDequant", "sums s", "y"), o=np.int8(3),
    )  # fmt: skip
    with pytest.raises(GraphError, match=f"holds weights in INT8, not {kind}; quantise the model to 8 bits"):
        loaded(proto)


# ---- products of 4-bit weights

K, N = 32, 16
COLUMNS, BLOCKS = (N,), (K // 16, N)


def four_bits(
    scale: tuple[int, ...] = COLUMNS,
    shape: tuple[int, ...] = (K, N),
    axis: int = 1,
    block: int = 0,
    bias: tuple[int, ...] = (),
    known: bool = True,
    zero: bool = False,
) -> set[str]:
    """Kinds of operators of a product of such weights."""
    held = [stored("w", RANDOM.integers(-8, 8, shape))]
    inputs = [value("x", (3, shape[-2]))]
    more = {"block_size": block} if block else {}
    table = (RANDOM.random(scale) + 0.1).astype(np.float32)
    if known:
        held.append(numpy_helper.from_array(np.asarray(table), "s"))
    else:
        inputs.append(value("s", scale))
    names = "w s"
    if zero:
        held.append(stored("z", RANDOM.integers(-8, 8, scale)))
        names = "w s z"
    nodes = [node("DequantizeLinear", names, "f", axis=axis, **more)]
    if bias:
        held.append(numpy_helper.from_array(RANDOM.random(bias).astype(np.float32), "b"))
        nodes.append(node("Gemm", "x f b", "y"))
    else:
        nodes.append(node("MatMul", "x f", "y"))
    proto = model(nodes, inputs, ["y"], opset=21)
    proto.graph.initializer.extend(held)
    return {item.op_type for item in loaded(proto).nodes}


@pytest.mark.parametrize(
    ("form", "packed"),
    [
        ({}, True),
        ({"scale": ()}, True),
        ({"scale": BLOCKS, "axis": 0, "block": 16}, True),
        ({"bias": (N,)}, True),
        ({"zero": True}, True),
        ({"axis": -1}, True),
        ({"known": False}, False),
        ({"shape": (2, K, N), "axis": 2}, False),
        ({"shape": (K, 12), "scale": (12,)}, False),
        ({"bias": (1,)}, False),
        ({"bias": (3, N)}, False),
        ({"axis": 0, "scale": (K,)}, False),
        ({"axis": -2, "scale": (K,)}, False),
        ({"scale": (K, N // 8), "axis": 1, "block": 8}, False),
    ],
    ids=str,
)
def test_what_a_product_of_packed_weights_asks_for(form: dict[str, Any], packed: bool) -> None:
    assert ("WeightQuantBatchMatmulV2" in four_bits(**form)) is packed


# ---- bodies of operators


def draft(op_type: str, shape: tuple[int, ...] = (2, 3), **attributes: Any) -> Draft:
    return Draft(op_type, "", "n", [Tensor("x", DType.FLOAT32, shape)], ["y"], attributes, 21)


def test_a_body_is_taken_if_its_operators_are_known() -> None:
    """Celu has a body; MeanVarianceNormalization one of operators that have to be known."""
    for name in ("Celu", "MeanVarianceNormalization", "Softplus", "LogSoftmax"):
        body = schema_body(draft(name), OPSET)
        assert body is not None, name
        assert schema_body(draft(name), OpSet(())) is None, name
    assert schema_body(draft("Conv"), OPSET) is None
    assert schema_body(draft("NoSuchOperator"), OPSET) is None


def test_attributes_of_a_call_are_protos() -> None:
    b = GraphBuilder()
    b.output(b.op("Relu", b.input("x", (1,))))
    given = {
        "kind": DType.INT8, "array": np.arange(3), "empty": (), "some": (1, 2), "text": "a", "share": 0.5,
        "body": b.build(), "bodies": (b.graph,),
    }  # fmt: skip
    made = call_attributes(given)
    assert sorted(made) == ["array", "empty", "kind", "share", "some", "text"]
    assert made["kind"].i == TensorProto.INT8
    assert made["empty"].type == onnx.AttributeProto.INTS
    assert list(made["some"].ints) == [1, 2]
    assert made["text"].s == b"a"
    assert numpy_helper.to_array(made["array"].t).tolist() == [0, 1, 2]


def test_values_of_references_are_the_calls_before_the_schemas() -> None:
    function = onnx.FunctionProto(name="f")
    function.attribute_proto.extend([helper.make_attribute("alpha", 3.0), helper.make_attribute("own", 1)])
    found = body_attributes(function, call_attributes({"own": 2}), "", "Celu")
    assert found["alpha"].f == 1.0  # the schema's default
    assert found["own"].i == 2
    none = body_attributes(function, {}, "", "NoSuchOperator")
    assert (none["alpha"].f, none["own"].i) == (3.0, 1)


# ---- written back


def built(write: Any) -> Graph:
    b = new_builder()
    b.output(write(b), "out")
    return b.build()


def exported(graph: Graph, **options: Any) -> onnx.ModelProto:
    return onnx.load_from_string(export_onnx(graph, **options))


@pytest.mark.parametrize(
    ("write", "version"),
    [
        (lambda b: b.op("Relu", b.input("x", (2, 3))), 18),
        (lambda b: b.op("RMSNormalization", b.input("x", (2, 3)), b.constant(np.ones(3, np.float32))), 23),
        (
            lambda b: b.op(
                "GroupNormalization",
                b.input("x", (2, 4, 3)),
                *(b.constant(np.ones(4, np.float32)) for _ in range(2)),
                num_groups=2,
            ),
            21,
        ),
    ],
)
def test_the_operator_set_is_the_usual_one_or_the_first_that_has_it(write: Any, version: int) -> None:
    proto = exported(built(write))
    assert [(item.domain, item.version) for item in proto.opset_import] == [("", version)]
    onnx.checker.check_model(proto)


@pytest.mark.parametrize(("usual", "version"), [(17, 21), (21, 21), (22, 22)])
def test_operators_of_a_new_meaning_need_its_version(usual: int, version: int) -> None:
    graph = built(
        lambda b: b.op(
            "GroupNormalization",
            b.input("x", (2, 4, 3)),
            *(b.constant(np.ones(4, np.float32)) for _ in range(2)),
            num_groups=2,
        )
    )
    assert exported(graph, version=usual).opset_import[0].version == version


def test_ports_and_attributes_that_came_later_need_their_version() -> None:
    """Inputs of ReduceMax instead of attributes are of 18, sizes of Split's parts of 13."""
    graph = built(lambda b: b.op("ReduceMax", b.input("x", (2, 3)), b.constant(np.array([1]))))
    assert exported(graph, version=17).opset_import[0].version == 18
    assert exported(graph, version=19).opset_import[0].version == 19
    graph = built(lambda b: b.op("Cast", b.input("x", (2, 3)), to=DType.FLOAT16, saturate=1))
    assert exported(graph, version=18).opset_import[0].version == 19


@pytest.mark.parametrize(
    ("op", "shapes", "more", "version"),
    [
        ("ReduceMax", [(2, 3)], {}, 18),
        ("ReduceMax", [(2, 3)], {"dtype": DType.BOOL}, 20),
        ("Pad", [(2, 3), [0, 1, 0, 1]], {}, 18),
        ("Pad", [(2, 3), [0, 1, 0, 1]], {"mode": "wrap"}, 19),
        ("GridSample", [(1, 1, 4, 4), (1, 2, 2, 2)], {"mode": "linear"}, 20),
        ("Gelu", [(2, 3)], {}, 20),
        ("AveragePool", [(1, 1, 4, 4)], {"kernel_shape": (2, 2)}, 18),
        ("AveragePool", [(1, 1, 4, 4)], {"kernel_shape": (2, 2), "dilations": (2, 2)}, 19),
    ],
)
def test_files_have_a_version_that_atc_takes_where_one_says_the_same(
    op: str, shapes: list[Any], more: dict[str, Any], version: int
) -> None:
    """What is written with an older stamp is read back as the same graph."""
    given, dtype = dict(more), more.get("dtype", DType.FLOAT32)
    given.pop("dtype", None)

    def write(b: Any) -> Tensor:
        inputs = [
            b.input(f"x{i}", shape, dtype) if isinstance(shape, tuple) else b.constant(np.array(shape))
            for i, shape in enumerate(shapes)
        ]
        result: Tensor = b.op(op, *inputs, **given)
        return result

    graph = built(write)
    proto = exported(graph)
    assert proto.opset_import[0].version == version
    (node,) = asim.load(proto).nodes
    assert node.attributes.items() >= graph.nodes[0].attributes.items()
    assert (atc_opset(proto) == "E16002") == (version > 18)


def atc_opset(proto: onnx.ModelProto) -> str:
    """What ATC says of the operator set."""
    said = asim.compile(asim.load(proto), "Ascend310P3").fusion.warnings
    return "E16002" if any("E16002" in text for text in said) else ""


def test_what_is_left_out_at_the_end_is_not_written() -> None:
    b = new_builder()
    x = b.input("x", (1, 2, 4, 4))
    y = b.op("Clip", b.ops("MaxPool", x, outputs=2, kernel_shape=(2, 2))[0], None, 3.0)
    b.output(b.op("Dropout", y, None, None), "out")
    pool, clip, drop = exported(b.build()).graph.node
    assert [len(item.input) for item in (pool, clip, drop)] == [1, 3, 1]
    assert list(clip.input)[1] == ""
    assert len(pool.output) == 1
    b = new_builder()
    first, second = b.ops("MaxPool", b.input("x", (1, 2, 4, 4)), outputs=2, kernel_shape=(2, 2))
    b.output(second, "places")
    (pool,) = exported(b.build()).graph.node
    assert list(pool.output) == [first.name, "places"]
    b = new_builder()
    first, second = b.ops("MaxPool", b.input("x", (1, 2, 4, 4)), outputs=2, kernel_shape=(2, 2))
    b.output(b.op("Neg", second), "places")
    pool, _ = exported(b.build()).graph.node
    assert list(pool.output) == [first.name, second.name]


def test_operators_that_onnx_lacks_are_named_or_allowed() -> None:
    graph = built(lambda b: b.op("Rsqrt", b.input("x", (2,)), domain="ascend"))
    with pytest.raises(UnsupportedOperatorError, match="ascend::Rsqrt"):
        export_onnx(graph)
    with pytest.raises(UnsupportedOperatorError, match="ascend::Rsqrt"):
        export_onnx(graph, others=["Rsqrt"])
    b = GraphBuilder()
    y = b.op("AscendThing", b.input("x", (2,)))
    y.dtype, y.shape = DType.FLOAT32, (2,)
    b.output(y, "out")
    with pytest.raises(UnsupportedOperatorError, match="AscendThing"):
        export_onnx(b.graph)
    (made,) = exported(b.graph, others=["AscendThing"]).graph.node
    assert (made.op_type, made.domain) == ("AscendThing", "")


def test_attributes_of_every_kind_come_back() -> None:
    b = new_builder()
    x = b.input("x", (2, 3))
    y = b.op("Cast", x, to=DType.FLOAT16)
    z = b.op("ConstantOfShape", b.constant(np.array([2, 3])), value=np.array([2], np.float16))
    b.output(b.op("Transpose", b.op("Add", y, z), perm=(1, 0)), "out")
    again = loaded(exported(b.build()))
    x_ = RANDOM.standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(again, x_)[0], (x_.astype(np.float16) + np.float16(2)).T)


@pytest.mark.parametrize(("surplus", "fits"), [(0, True), (1, False)])
def test_weights_of_2_gib_do_not_fit_one_file(surplus: int, fits: bool) -> None:
    b = new_builder()
    weight = b.weight("w", (2**31 - 1 + surplus,), dtype=DType.INT8)
    b.output(b.op("Neg", weight), "out")
    error = GraphError if fits else InputError  # the values are missing, which is seen behind
    with pytest.raises(error) as caught:
        export_onnx(b.build())
    assert ("must have less than 2 GiB" in str(caught.value)) is not fits
    assert isinstance(caught.value, asim.AscendSimError)


# ---- functions of a file


def clipped(call: str, *, extra: int = 0) -> onnx.ModelProto:
    """A function with parameters that a call may leave out, behind one that hands them on."""
    names = ["a", "low", "high"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    inner = helper.make_function("local", "Inner", names, ["b"], [node("Clip", "a low high", "b")], opsets)
    outer = helper.make_function(
        "local",
        "Outer",
        names,
        ["d"],
        [node("Inner", "a low high", "c", domain="local"), node("Neg", "c", "d")],
        opsets,
    )
    held = {"l": np.float32(-0.5), "h": np.float32(0.25), "e": np.float32(0)}
    nodes = [
        helper.make_node("Outer", [*call.split(","), *["e"] * extra], ["y"], domain="local", name="call")
    ]
    return model(nodes, [value("x", (7,))], ["y"], held, functions=[inner, outer], domains=[("local", 1)])


@pytest.mark.parametrize(
    ("call", "low", "high"),
    [
        ("x,l,h", -0.5, 0.25),
        ("x,l", -0.5, np.inf),
        ("x,,h", -np.inf, 0.25),
        ("x,,", -np.inf, np.inf),
        ("x", -np.inf, np.inf),
    ],
)
def test_parameters_that_a_call_leaves_out_are_left_out_inside(call: str, low: float, high: float) -> None:
    graph = loaded(clipped(call))
    x = np.linspace(-1, 1, 7, dtype=np.float32)
    np.testing.assert_array_equal(run(graph, x)[0], -np.clip(x, low, high))
    assert not any(node_.domain for node_ in graph.nodes)


def test_a_call_has_no_more_inputs_than_its_function() -> None:
    with pytest.raises(
        GraphError, match="node 'call' .* takes at most the 3 of its function as inputs, not 4"
    ):
        loaded(clipped("x,l,h", extra=1))


@pytest.mark.parametrize(
    ("attribute", "wanted"),
    [
        (helper.make_attribute("value_int", 3), np.array(3)),
        (helper.make_attribute("value_ints", [3, 4]), np.array([3, 4])),
        (helper.make_attribute("value_float", 0.5), np.array(0.5, np.float32)),
        (helper.make_attribute("value_floats", [0.5, 2.0]), np.array([0.5, 2], np.float32)),
        (helper.make_attribute("value_string", "x"), "holds a text value"),
        (helper.make_attribute("value_strings", ["x"]), "holds a text value"),
        (onnx.AttributeProto(name="sparse_value"), "holds a sparse value"),
        (onnx.AttributeProto(name="value_other"), "holds a 'value_other' value"),
    ],
)
def test_constants_that_are_no_tensors(attribute: Any, wanted: Any) -> None:
    if isinstance(wanted, str):
        with pytest.raises(
            UnsupportedTypeError, match=f"node 'c' {wanted}; store it as a dense numeric tensor"
        ):
            constant_array(attribute, "node 'c'")
    else:
        np.testing.assert_array_equal(constant_array(attribute, "node 'c'"), wanted, strict=True)
