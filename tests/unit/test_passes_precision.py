"""Precision modes: types, casts, constants, values."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.compiling import compile_until
from ascendsim.compiler.options import CompileOptions
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.precision.assign import ApplyPrecision, apply_precision
from ascendsim.passes.rewriting.passes import run_passes

HALF, SINGLE = DType.FLOAT16, DType.FLOAT32


def typed(graph: Graph, name: str, shape: tuple[int, ...], dtype: DType = SINGLE) -> Tensor:
    tensor = graph.tensors[name]
    tensor.shape, tensor.dtype, tensor.origin_dtype = shape, dtype, dtype
    return tensor


def network() -> Graph:
    """y = Softmax(Relu(x @ w) + b); z = Shape(x)."""
    graph = Graph("net")
    x = graph.add_input("x", SINGLE, (4, 8))
    w = graph.add_constant("w", np.ones((8, 8), np.float32))
    b = graph.add_constant("b", np.ones(8, np.float32))
    product = graph.add_node("MatMul", [x, w], ["p"], name="matmul")
    relu = graph.add_node("Relu", [product.output], ["r"], name="relu")
    total = graph.add_node("Add", [relu.output, b], ["s"], name="add")
    graph.add_node("Softmax", [total.output], ["y"], name="softmax", axis=-1)
    graph.add_node("Shape", [x], ["z"], name="shape")
    for name in ("p", "r", "s", "y"):
        typed(graph, name, (4, 8))
    typed(graph, "z", (2,), DType.INT64)
    graph.outputs.extend([graph.tensors["y"], graph.tensors["z"]])
    return graph


def casts(graph: Graph) -> list[tuple[str, str]]:
    return [
        (node.required(0).element_type.value, node.output.element_type.value)
        for node in graph.nodes
        if node.op_type == "Cast"
    ]


def test_force_fp16_turns_everything_but_the_borders() -> None:
    graph = network()
    result = apply_precision(graph, default_opset())
    verify(graph)
    assert graph.tensors["x"].dtype is SINGLE
    assert all(graph.tensors[name].dtype is HALF for name in ("p", "r", "s", "w", "b"))
    assert all(graph.tensors[name].origin_dtype is SINGLE for name in ("p", "r", "s", "w", "b"))
    assert graph.outputs[0].name == "y"
    assert graph.outputs[0].dtype is SINGLE
    assert graph.outputs[1].dtype is DType.INT64
    assert casts(graph) == [("float32", "float16"), ("float16", "float32")]
    assert all(node.origin["inserted"] == "precision" for node in graph.nodes if node.op_type == "Cast")
    assert result.counts["inserted Cast"] == 2


def test_one_cast_serves_all_readers_of_an_input() -> None:
    graph = network()
    second = graph.add_node("Relu", [graph.tensors["x"]], ["q"], name="second")
    typed(graph, "q", (4, 8))
    graph.outputs.append(second.output)
    apply_precision(graph, default_opset())
    assert graph.node("second").required(0) is graph.node("matmul").required(0)


def test_must_keep_origin_dtype_changes_nothing() -> None:
    graph = network()
    assert not apply_precision(graph, default_opset(), "must_keep_origin_dtype").changed
    assert casts(graph) == []


@pytest.mark.parametrize("mode", ["force_fp32", "cube_fp16in_fp32out"])
def test_cube_operators_take_halves_and_give_floats(mode: str) -> None:
    graph = network()
    apply_precision(graph, default_opset(), mode)
    assert graph.node("matmul").required(0).dtype is HALF
    assert graph.tensors["w"].dtype is HALF
    assert [graph.tensors[name].dtype for name in ("p", "r", "s", "y", "b")] == [SINGLE] * 5
    assert casts(graph) == [("float32", "float16")]


def test_allow_fp32_to_fp16_asks_what_the_cube_multiplies() -> None:
    without, with_single, newest = network(), network(), network()
    apply_precision(without, default_opset(), "allow_fp32_to_fp16", cube_in_half=False)
    wide = frozenset({"float16", "float32"})
    apply_precision(with_single, default_opset(), "allow_fp32_to_fp16", cube_types=wide, cube_in_half=False)
    apply_precision(newest, default_opset(), "allow_fp32_to_fp16", cube_types=wide)
    assert casts(newest) == casts(without)
    assert without.tensors["p"].dtype is HALF
    assert without.node("relu").required(0).dtype is SINGLE
    assert casts(without) == [("float32", "float16"), ("float16", "float32")]
    assert casts(with_single) == []


def test_mixed_precision_keeps_sensitive_operators_wide() -> None:
    graph = network()
    apply_precision(graph, default_opset(), "allow_mix_precision")
    assert [graph.tensors[name].dtype for name in ("p", "r", "s")] == [
        HALF
    ] * 3  # Relu and Add follow the MatMul
    assert graph.node("softmax").required(0).dtype is SINGLE
    assert graph.tensors["y"].dtype is SINGLE


def test_a_constant_with_readers_of_both_types_is_split() -> None:
    graph = network()
    graph.add_node("Exp", [graph.tensors["w"]], ["e"], name="exp")
    typed(graph, "e", (8, 8))
    graph.outputs.append(graph.tensors["e"])
    apply_precision(graph, default_opset(), "allow_mix_precision")
    assert graph.node("matmul").required(1).dtype is HALF
    assert graph.node("exp").required(0).dtype is SINGLE
    assert graph.node("exp").required(0).constant is graph.node("matmul").required(1).constant


def test_numbers_that_steer_an_operator_keep_their_type() -> None:
    graph = Graph("resize")
    x = graph.add_input("x", SINGLE, (1, 1, 4, 4))
    scales = graph.add_constant("scales", np.array([1, 1, 4 / 3, 4 / 3], np.float32))
    graph.add_node("Resize", [x, None, scales], ["y"], name="resize")
    graph.outputs.append(typed(graph, "y", (1, 1, 5, 5)))
    apply_precision(graph, default_opset())
    assert scales.dtype is SINGLE
    assert graph.node("resize").required(2) is scales


def test_float64_and_integers_stay() -> None:
    graph = Graph("wide")
    x = graph.add_input("x", DType.FLOAT64, (4,))
    i = graph.add_input("i", DType.INT64, (4,))
    graph.add_node("Abs", [x], ["y"], name="a")
    graph.add_node("Abs", [i], ["j"], name="b")
    graph.outputs += [typed(graph, "y", (4,), DType.FLOAT64), typed(graph, "j", (4,), DType.INT64)]
    assert not apply_precision(graph, default_opset()).changed


def test_an_unknown_mode_is_suggested_against() -> None:
    with pytest.raises(
        InputError,
        match="option precision_mode must be a mode of ATC, not 'force_fp61'; did you mean force_fp16",
    ):
        apply_precision(network(), default_opset(), "force_fp61")


def test_runs_under_the_pass_manager() -> None:
    graph = network()
    ((name, result),) = run_passes(graph, (ApplyPrecision(default_opset()),))
    assert name == "precision"
    assert result.changed


def test_an_output_that_others_read_in_float32_is_cast_once() -> None:
    """A gradient is handed out and updates a weight."""
    graph = network()
    graph.outputs[:] = [graph.tensors["p"], graph.tensors["y"]]
    graph.remove_node(graph.node("shape"))
    total = graph.add_node("ReduceSum", [graph.tensors["p"]], ["t"], name="total", keepdims=0)
    typed(graph, "t", ())
    graph.outputs.append(total.output)
    apply_precision(graph, default_opset(), "allow_mix_precision")
    verify(graph)
    shared = graph.outputs[0]
    assert (shared.name, shared.dtype) == ("p", SINGLE)
    assert total.required(0) is shared
    readers = [node.op_type for node, _ in graph.node("matmul").output.uses]
    assert sorted(readers) == ["Cast", "Relu"]


def products() -> Graph:
    """One operator of the Cube each, with a vector operator behind it."""
    b = asim.GraphBuilder("products")
    image, rows = b.input("image", (1, 16, 6, 6)), b.input("rows", (32, 16))
    filters, matrix = np.ones((16, 16, 3, 3), np.float32), np.ones((16, 16), np.float32)
    for name, x, w in (
        ("Conv", image, filters),
        ("ConvTranspose", image, filters),
        ("MatMul", rows, matrix),
        ("Gemm", rows, matrix),
    ):
        b.output(b.op("Exp", b.op(name, x, w), name=f"{name}_behind"), name.lower())
    return b.build()


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend910B3"])
@pytest.mark.parametrize(
    ("cann", "newer"),
    [(None, True), ("9.0", True), ("8.0.RC1", True), ("7.0.0", False), ("6.0.1", False), ("5.1.RC2", False)],
)
def test_products_lose_float32_with_the_version_of_cann(chip: str, cann: str | None, newer: bool) -> None:
    options = CompileOptions(chip, precision_mode="allow_fp32_to_fp16", fusion="off", cann=cann)
    work = compile_until(products(), options, "types-and-formats")
    wide = "float32" in work.settings.soc.cube.cycles_per_block and not newer
    cube = [node for node in work.graph.nodes if work.opset.get(node).facts.precision.on_cube]
    assert len(cube) == 4
    for node in cube:
        assert node.required(0).dtype is node.required(1).dtype is (SINGLE if wide else HALF), node.name
    for name in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        assert work.graph.node(f"{name}_behind").required(0).dtype is SINGLE


def test_operators_that_are_kept_stay_in_float32_with_every_version() -> None:
    options = CompileOptions(
        "Ascend910B3", precision_mode="allow_fp32_to_fp16", keep_dtype=["OpType::MatMul"]
    )
    graph = compile_until(products(), options, "types-and-formats").graph
    kept = [node for node in graph.nodes if node.op_type == "MatMul"]
    assert kept
    assert all(node.required(0).dtype is SINGLE for node in kept)
