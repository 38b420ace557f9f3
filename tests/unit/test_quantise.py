"""`quantize`: what it writes, that onnxruntime computes the same from it, and what it says of each layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Graph
from tests.support.quantised import by_onnxruntime, float_network, louder, with_bytes

pytestmark = pytest.mark.usefixtures("untimed_tiles")

RANDOM = np.random.default_rng(11)


def weights(*shape: int) -> Any:
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def samples(graph: Graph, count: int = 6, seed: int = 5) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        tensor.name: random.standard_normal(
            (count * tensor.static_shape[0], *tensor.static_shape[1:])
        ).astype(np.float32)
        for tensor in graph.inputs
    }


def residual() -> Graph:
    return asim.load(float_network())


def branches() -> Graph:
    """Batch norm, groups, a Concat of three, a transposed convolution, an average."""
    b = asim.GraphBuilder("branches")
    x = b.input("x", (1, 4, 8, 8))
    y = b.op("Conv", x, weights(8, 2, 3, 3), pads=[1, 1, 1, 1], group=2, name="grouped")
    numbers = [
        np.linspace(low, high, 8, dtype=np.float32)
        for low, high in ((0.5, 2), (-1, 1), (-0.3, 0.3), (0.5, 3))
    ]
    y = b.op("Relu", b.op("BatchNormalization", y, *numbers, name="norm"), name="relu")
    left = b.op(
        "LeakyRelu", b.op("Conv", y, weights(4, 8, 1, 1), weights(4), name="left"), alpha=0.1, name="leaky"
    )
    pooled = b.op("MaxPool", y, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], name="pool")
    z = b.op("Concat", left, pooled, y, axis=1, name="concat")
    z = b.op("ConvTranspose", z, weights(20, 6, 2, 2), strides=[2, 2], name="up")
    z = b.op("AveragePool", z, kernel_shape=[2, 2], strides=[2, 2], name="mean")
    b.output(b.op("Conv", z, weights(5, 6, 3, 3), weights(5), name="last"), "y")
    return b.build()


def tokens() -> Graph:
    """Products of rows of vectors with something in float between them."""
    b = asim.GraphBuilder("tokens")
    x = b.input("x", (2, 5, 12))
    y = b.op("Add", b.op("MatMul", x, weights(12, 16), name="first"), weights(16), name="bias")
    y = b.op("Softmax", y, axis=-1, name="softmax")
    b.output(b.op("MatMul", y, weights(16, 6), name="second"), "y")
    return b.build()


NETWORKS = {"residual": residual, "branches": branches, "tokens": tokens}


def types(graph: Graph) -> list[str]:
    return [node.op_type for node in asim.compile(graph, fusion="off").graph.nodes]


# ---- what is written


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("optimised", [False, True])
def test_onnxruntime_computes_the_same_from_the_file(
    make: Callable[[], Graph], optimised: bool, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    graph = make()
    result = asim.quantize(graph, samples(graph))
    shown = with_bytes(onnx.load(result.save(tmp_path / "q.onnx")))
    arrays = samples(graph, 1, seed=8)
    theirs = by_onnxruntime(shown, arrays, optimised)
    ours = asim.run(asim.compile(asim.load(shown)), arrays, values="float32").outputs
    integers = {name: array for name, array in theirs.items() if array.dtype == np.int8}
    assert len(integers) >= 2
    for name, array in integers.items():
        steps = np.abs(ours[name].astype(int) - array.astype(int))
        assert steps.max() <= 1, name
        assert np.mean(steps == 0) > 0.99, name
    for tensor in graph.outputs:
        largest = np.abs(theirs[tensor.name]).max()
        np.testing.assert_allclose(ours[tensor.name], theirs[tensor.name], atol=0.02 * largest)


def test_everything_between_layers_is_integer() -> None:
    ran = types(asim.quantize(residual(), samples(residual())).graph)
    assert not {"Conv", "Gemm", "Add", "GlobalAveragePool", "Relu", "DequantizeLinear"} & set(ran)
    assert ran.count("QuantizeLinear") == 1  # of the input
    ran = types(asim.quantize(branches(), samples(branches())).graph)
    assert not {"BatchNormalization", "LeakyRelu", "QLinearConcat", "AveragePool"} & set(ran)
    assert "Concat" in ran  # parts of one scale need no operator of integers


def test_what_is_between_a_layer_and_floats_stays_in_floats() -> None:
    result = asim.quantize(tokens(), samples(tokens()))
    assert {"Add", "Softmax"} <= set(types(result.graph))
    assert result.plan.between == ()


def test_outputs_and_inputs_keep_names_and_types() -> None:
    for make in NETWORKS.values():
        graph = make()
        made = asim.quantize(graph, samples(graph)).graph
        for one, other in ((graph.inputs, made.inputs), (graph.outputs, made.outputs)):
            assert [(t.name, t.dtype, t.shape) for t in one] == [(t.name, t.dtype, t.shape) for t in other]


def test_the_graph_that_is_given_stays_as_it_is() -> None:
    graph = branches()
    before = export_onnx(graph)
    asim.quantize(graph, samples(graph))
    assert export_onnx(graph) == before


def test_weights_fill_int8_and_do_not_saturate() -> None:
    graph = residual()
    for option, scales in (("max", 8), ("max-per-tensor", 1)):
        made = asim.quantize(graph, samples(graph), weights=option).graph  # type: ignore[arg-type]
        given = np.asarray(graph.node("conv1").required(1).constant.array())  # type: ignore[union-attr]
        source = made.node("conv1").required(1).producer
        assert source is not None
        integers, scale = (source.required(port).constant.array() for port in (0, 1))  # type: ignore[union-attr]
        assert scale.size == scales
        largest = np.abs(integers.astype(int)).reshape(8, -1).max(axis=1)
        assert (largest == 127).sum() == scales
        back = integers * scale.reshape(-1, 1, 1, 1)
        assert np.abs(back - given).max() <= 0.5001 * scale.max()


def test_a_channel_of_tiny_weights_keeps_its_bias() -> None:
    b = asim.GraphBuilder("tiny")
    x = b.input("x", (1, 4, 4, 4))
    filters, bias = weights(3, 4, 1, 1), np.array([0.5, 100.0, -2.0], np.float32)
    filters[1] *= 1e-9  # its step times that of the data: the bias would be 10^14 of them
    filters[2] = 0
    b.output(b.op("GlobalAveragePool", b.op("Conv", x, filters, bias, name="conv")), "y")
    graph = b.build()
    result = asim.quantize(graph, samples(graph), activation="max")
    got = asim.run(asim.compile(result.graph), samples(graph, 1)).outputs["y"].reshape(-1)
    np.testing.assert_allclose(got[1:], [100.0, -2.0], atol=1.0)


def test_the_same_data_in_any_form_gives_the_same_file(tmp_path: Path) -> None:
    graph = residual()
    array = samples(graph)["x"]
    np.savez(tmp_path / "x.npz", x=array)
    forms: list[Any] = [
        {"x": array},
        array,
        tmp_path / "x.npz",
        str(tmp_path / "x.npz"),
        (array[at : at + 2] for at in (4, 0, 2)),
        [{"x": one[None].astype(np.float64)} for one in array[::-1]],
    ]
    files = {export_onnx(asim.quantize(graph, form).graph) for form in forms}
    assert len(files) == 1


# ---- what is said of layers


def test_rows_say_what_numpy_finds() -> None:
    graph = residual()
    data = samples(graph, 20)["x"]
    for method in ("kl", "mse", "max", "percentile"):
        result = asim.quantize(graph, data, activation=method)  # type: ignore[arg-type]
        row = result.layers[0]
        assert (row.name, row.operator, row.tensor) == ("conv0", "Conv", "x")
        assert row.scale == pytest.approx(row.threshold / 127)
        assert row.clipped == pytest.approx(np.mean(np.abs(data) > row.threshold), abs=1e-4)
        if method == "max":
            assert row.threshold == np.abs(data).max()


def test_noise_is_that_of_the_two_networks() -> None:
    graph = branches()
    data = samples(graph, 3)["x"]
    result = asim.quantize(graph, data)
    float32 = [asim.run(asim.compile(graph), {"x": one[None]}, values="float32").outputs["y"] for one in data]
    int8 = [
        asim.run(asim.compile(result.graph), {"x": one[None]}, values="float32").outputs["y"] for one in data
    ]
    wanted, got = np.stack(float32), np.stack(int8)
    assert result.snr_db == pytest.approx(
        10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum()), abs=0.5
    )
    assert result.layers[-1].snr_db == pytest.approx(result.snr_db, abs=1)


def test_the_table_has_times_of_the_chip_that_is_named() -> None:
    graph = asim.load(float_network(64, 56))
    result = asim.quantize(graph, samples(graph, 1))
    table = result.table("Ascend310")
    assert table.column("Layer") == ("conv0", "conv1", "conv2", "head")
    before, after = result.times("Ascend310")
    assert after < before
    for float16, int8 in list(zip(table.column("Float16(us)"), table.column("Int8(us)"), strict=True))[1:3]:
        assert 0 < int8 < float16 < before
    assert result.times("Ascend910B1")[1] < after
    assert result.to_dataframe()["T"].tolist() == list(table.column("T"))


def test_a_picture_shows_the_threshold() -> None:
    graph = residual()
    picture = asim.quantize(graph, samples(graph, 20), activation="percentile", percentile=99.0).plot("conv0")
    assert picture.counts.sum() + picture.zeros == 20 * 3 * 12 * 12
    (line,) = [line for line in picture.ax_.lines if len(set(line.get_xdata())) == 1]
    assert line.get_xdata()[0] == picture.threshold
    assert "% beyond" in picture.ax_.texts[0].get_text()
    with pytest.raises(asim.InputError, match="layer 'conv9' is not in int8; did you mean"):
        asim.quantize(graph, samples(graph)).plot("conv9")


def test_the_layer_with_outliers_is_the_most_sensitive_and_can_be_left_out() -> None:
    graph = residual()
    louder(graph, "conv1", "conv2", 0, 1024.0)
    data = samples(graph)
    result = asim.quantize(graph, data, activation="max")
    ranked = result.sensitivity()
    assert ranked.column("Layer")[0] == "conv2"
    noises = ranked.column("SNR(dB)")
    assert noises[0] + 10 < noises[1]
    better = asim.quantize(graph, data, activation="max", skip=["conv2"])
    assert better.plan.kept == {"conv2": "left out by skip"}
    assert [layer.name for layer in better.layers] == ["conv0", "conv1", "head"]
    assert better.snr_db > result.snr_db + 3
    assert better.graph.node("conv2").required(0).producer.op_type == "Relu"  # nothing rounds its data
    assert better.graph.node("conv2").required(1).is_constant


def test_skip_takes_patterns() -> None:
    graph = residual()
    result = asim.quantize(graph, samples(graph), skip=["conv[12]", "head"])
    assert [layer.name for layer in result.layers] == ["conv0"]


# ---- CANN's operators


@pytest.mark.parametrize("make", [residual, tokens])
def test_cann_form_computes_what_pairs_do(make: Callable[[], Graph], tmp_path: Path) -> None:
    graph = make()
    data, seen = samples(graph), samples(graph, 1, seed=8)
    result = asim.quantize(graph, data, form="ascend")
    operators = [node.op_type for node in result.graph.nodes]
    assert operators.count("AscendQuant") == operators.count("AscendDequant") == len(result.layers)
    assert not {"Conv", "Gemm", "MatMul"} & set(operators)
    path = result.save(tmp_path / "q.onnx")
    file = onnx.load(path)
    assert {item.domain for item in file.graph.node} == {""}  # as AMCT writes it
    layers = [item for item in file.graph.node if item.op_type in ("Conv", "Gemm", "MatMul")]
    kinds = {item.name: item.data_type for item in file.graph.initializer}
    assert len(layers) == len(result.layers)
    assert {kinds[item.input[1]] for item in layers} == {onnx.TensorProto.INT8}
    back = asim.load(path)
    for chip in ("Ascend310", "Ascend310P3"):
        got = asim.run(asim.compile(back, chip), seen).outputs["y"]
        wanted = asim.run(asim.compile(graph, chip), seen, values="float32").outputs["y"]
        assert 20 * np.log10(np.linalg.norm(wanted) / np.linalg.norm(got - wanted)) > 25


def test_cann_form_leaves_what_it_has_no_operator_for() -> None:
    graph = branches()
    result = asim.quantize(graph, samples(graph), form="ascend")
    assert result.plan.kept == {"up": "CANN's form has no ConvTranspose of integers"}
    assert "ConvTranspose" in {node.op_type for node in result.graph.nodes}


# ---- on the chip


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B1"])
def test_convolutions_of_one_step_write_into_the_concat_behind_them(chip: str) -> None:
    b = asim.GraphBuilder("fire")
    x = b.op("Relu", b.op("Conv", b.input("x", (1, 3, 8, 8)), weights(32, 3, 1, 1), name="squeeze"))
    parts = [
        b.op("Relu", b.op("Conv", x, weights(32, 32, size, size), pads=[size // 2] * 4, name=f"expand{size}"))
        for size in (1, 3)
    ]
    y = b.op("Concat", *parts, axis=1, name="concat")
    b.output(b.op("Conv", y, weights(8, 64, 1, 1), name="last"), "y")
    graph = b.build()
    made = asim.quantize(graph, samples(graph)).graph
    seen = samples(graph, 1)
    fused, plain = (asim.run(asim.compile(made, chip, fusion=level), seen) for level in ("all", "off"))
    assert "ConcatD" in plain.op_summary().column("OP Type")
    assert "ConcatD" not in fused.op_summary().column("OP Type")
    np.testing.assert_array_equal(fused.outputs["y"], plain.outputs["y"])
