"""AMCT's deployed form: int8 operators between AscendQuant and AscendDequant, as ATC reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.passes.quant.early import NAME as EARLY
from ascendsim.passes.quant.products import NAME as PRODUCTS
from tests.support.amct_networks import deployed, packed
from tests.support.gate import every
from tests.support.onnx_models import model, node, value
from tests.support.quantised import by_onnxruntime, feed, float_network, quantised_by_onnxruntime

pytest.importorskip("onnxruntime")
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")
random = np.random.default_rng(0)
WEIGHTS = random.integers(-127, 128, (16, 32, 3, 3)).astype(np.int8)
BIAS = random.integers(-900, 900, 16).astype(np.int32)
STEPS = (random.random(16) * 1e-3 + 5e-4).astype(np.float32)


def written(*nodes: onnx.NodeProto, shape: tuple[int, ...] = (1, 32, 6, 6), **constants: Any) -> Any:
    held = {"w": WEIGHTS, "b": BIAS, "s": packed(STEPS), **constants}
    read = {name for item in nodes for name in item.input}
    made = model(
        nodes, [value("x", shape)], ["y"], {name: held[name] for name in held if name in read}, opset=13
    )
    made.graph.output[0].type.Clear()
    made.ir_version = 8
    return made


def quant(scale: float = 40.0, offset: float = -7.0, **more: Any) -> onnx.NodeProto:
    return node("AscendQuant", "x", "q", **{"scale": scale, "offset": offset, "dst_type": "INT8", **more})


def conv(**more: Any) -> list[onnx.NodeProto]:
    return [
        node("Conv", "q w b", "sums", pads=[1, 1, 1, 1], name="conv"),
        node("AscendDequant", "sums s", "y", **{"dtype": 0, **more}),
    ]


def bytes_of(x: Any, scale: float, offset: float) -> Any:
    return np.clip(np.rint(x * scale + offset), -128, 127)


def by_hand(x: Any) -> Any:
    """The convolution of conv() in float64; padding stands for 0."""
    shifted = np.pad(bytes_of(x, 40.0, -7.0) + 7, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(shifted, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, WEIGHTS.astype(float))
    return (sums + BIAS.reshape(-1, 1, 1)) * STEPS.reshape(-1, 1, 1)


def got(network: onnx.ModelProto, chip: str = "Ascend310", **options: Any) -> Any:
    compiled = asim.compile(asim.load(network), chip, **options)
    return asim.run(compiled, feed(network)).outputs["y"]


@pytest.mark.parametrize("fusion", ["off", "all"])
@pytest.mark.parametrize("chip", CHIPS)
def test_an_offset_holds_at_the_borders_too(chip: str, fusion: str) -> None:
    network = written(quant(), *conv())
    np.testing.assert_allclose(
        got(network, chip, fusion=fusion), by_hand(feed(network)["x"]), rtol=1e-3, atol=1e-2
    )


@pytest.mark.parametrize("domain", ["amct.customop", "amct.customop.extint8"])
def test_domains_of_the_accuracy_simulation_are_known(domain: str) -> None:
    network = written(quant(), *conv())
    for item in network.graph.node:
        if item.op_type.startswith("Ascend"):
            item.domain = domain
    network.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    np.testing.assert_array_equal(got(network), got(written(quant(), *conv())))


@pytest.mark.parametrize("behind", ["Gemm", "MatMul"])
def test_products_take_offset_and_bias(behind: str) -> None:
    weights, steps = random.integers(-99, 99, (64, 10)).astype(np.int8), np.float32([2e-4])
    inputs = {"Gemm": "q m c", "MatMul": "q m"}[behind]
    network = written(
        quant(), node(behind, inputs, "sums"), node("AscendDequant", "sums t", "y", dtype=0),
        shape=(5, 64), m=weights, c=BIAS[:10], t=packed(steps),
    )  # fmt: skip
    compiled = asim.compile(asim.load(network), "Ascend310")
    (record,) = (record for record in compiled.fusion.records if record.name == PRODUCTS)
    assert (record.matched, record.effected) == (1, 1)
    x = feed(network)["x"]
    sums = (bytes_of(x, 40.0, -7.0) + 7) @ weights.astype(float) + (BIAS[:10] if behind == "Gemm" else 0)
    np.testing.assert_allclose(asim.run(compiled, {"x": x}).outputs["y"], sums * steps, rtol=1e-3, atol=1e-3)


def test_weights_with_an_offset_and_bytes_back_to_floats() -> None:
    network = written(
        quant(offset=0.0), node("AscendWeightQuant", "w o", "v"), node("Conv", "q v", "sums", name="conv"),
        node("AscendDequant", "sums s", "y", dtype=1), o=np.int8(3),
    )  # fmt: skip
    x = bytes_of(feed(network)["x"], 40.0, 0.0)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    shifted = np.clip(WEIGHTS.astype(float) - 3, -128, 127)
    wanted = np.einsum("nchwij,ocij->nohw", windows, shifted) * STEPS.reshape(-1, 1, 1)
    np.testing.assert_allclose(got(network), wanted, rtol=2e-3, atol=1e-2)
    back = written(quant(), node("AscendAntiQuant", "q", "y", scale=0.025, offset=7.0))
    given = feed(back)["x"]
    np.testing.assert_allclose(got(back), (bytes_of(given, 40.0, -7.0) + 7) * 0.025, rtol=1e-3)


@pytest.mark.parametrize("chip", every(3, CHIPS))
def test_a_deployed_network_is_quicker_than_float16(chip: str, tmp_path: Path) -> None:
    given = float_network(128, 112)
    network = deployed(quantised_by_onnxruntime(given, tmp_path, "QDQ", keep=True))
    plain, result = (asim.simulate(asim.compile(asim.load(item), chip)) for item in (given, network))
    assert result.duration_us < plain.duration_us
    assert len(result.model.program.tasks) <= len(plain.model.program.tasks) + 2


@pytest.mark.parametrize("chip", CHIPS)
def test_values_of_a_deployed_network_are_near_float32(chip: str, tmp_path: Path) -> None:
    given = float_network(16, 24)
    network = deployed(quantised_by_onnxruntime(given, tmp_path, "QDQ", keep=True))
    arrays = feed(given)
    (wanted,) = by_onnxruntime(given, arrays).values()
    (made,) = asim.run(asim.compile(asim.load(network), chip), arrays).outputs.values()
    assert np.abs(made - wanted).max() < 0.05 * np.abs(wanted).max()


def tasks(network: onnx.ModelProto, chip: str) -> list[tuple[str, ...]]:
    """The operators of each task that has several."""
    report = asim.compile(asim.load(network), chip).fusion
    by_name = {node.name: node.op_type for node in asim.load(network).nodes}
    return sorted(
        tuple(by_name.get(name.split("_requant")[0], name) for name in scope.nodes) for scope in report.scopes
    )


@pytest.mark.parametrize(
    ("chip", "wanted"),
    [
        ("Ascend310", ("QuantConv", "AscendDequant", "Relu", "AscendQuant")),
        ("Ascend310P3", ("QuantConv", "AscendDequant")),  # the two are AscendRequant
    ],
)
def test_a_depthwise_convolution_scales_cuts_and_quantises(chip: str, wanted: tuple[str, ...]) -> None:
    """One task; what is behind it shows that the bytes are read."""
    network = written(
        quant(), node("Conv", "q d b", "sums", group=16, name="conv"), node("AscendDequant", "sums s", "e"),
        node("Relu", "e", "f"), node("AscendQuant", "f", "g", scale=9.0, offset=0.0),
        node("Conv", "g h b", "k"), node("AscendDequant", "k s", "y"),
        shape=(1, 16, 20, 20), d=WEIGHTS[:, :1].copy(), h=WEIGHTS[:, :16, :1, :1].copy(),
    )  # fmt: skip
    assert wanted in tasks(network, chip)


def test_floats_that_others_read_are_stored_beside_the_bytes() -> None:
    network = written(
        quant(), *conv(), node("Relu", "y", "f"), node("AscendQuant", "f", "g", scale=9.0, offset=0.0),
        node("Conv", "g h b", "k"), node("AscendDequant", "k s", "l"), node("Add", "f l", "z"),
        h=WEIGHTS[:, :16, :1, :1].copy(),
    )  # fmt: skip
    network.graph.output[0].name = "z"
    assert ("QuantConv", "AscendDequant", "Relu", "AscendQuant") in tasks(network, "Ascend310")
    x = feed(network)["x"]
    floats = np.maximum(by_hand(x), 0)
    sums = np.einsum("nchw,oc->nohw", bytes_of(floats, 9.0, 0.0), WEIGHTS[:, :16, 0, 0].astype(float))
    wanted = floats + (sums + BIAS.reshape(-1, 1, 1)) * STEPS.reshape(-1, 1, 1)
    compiled = asim.compile(asim.load(network), "Ascend310")
    made = asim.run(compiled, {"x": x}).outputs["z"]
    assert np.abs(made - wanted).max() < 0.02 * np.abs(wanted).max()


def classifier(*more: onnx.NodeProto, **attributes: float) -> onnx.ModelProto:
    """A map's mean by channels, quantised behind the Flatten, in front of a fully connected layer."""
    made = written(
        node("Relu", "x", "r"), node("GlobalAveragePool", "r", "m"), node("Flatten", "m", "f"),
        node("AscendQuant", "f", "q", **{"scale": 90.0, "offset": -4.0, **attributes}),
        node("Gemm", "q v", "sums", transB=1), node("AscendDequant", "sums t", "y", dtype=0), *more,
        shape=(3, 64, 9, 9), v=np.tile(WEIGHTS.reshape(-1, 64)[:10], 1), t=packed(STEPS[:10]),
    )  # fmt: skip
    made.graph.output[0].name = more[-1].output[0] if more else "y"
    return made


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_quantised_behind_a_flatten_is_so_in_the_task_before_it(chip: str) -> None:
    network = classifier()
    compiled = asim.compile(asim.load(network), chip)
    (early,) = (item for item in compiled.graph.nodes if item.op_type == "AscendQuant")
    (mean,) = (item for item in compiled.graph.nodes if item is early.required(0).producer)
    assert mean.op_type == "ReduceMean"
    assert compiled.tasks_of(early.name) == compiled.tasks_of(mean.name)
    x = feed(network)["x"]
    means = np.maximum(x, 0).astype(np.float64).mean((2, 3))
    sums = (bytes_of(means, 90.0, -4.0) + 4) @ WEIGHTS.reshape(-1, 64)[:10].astype(float).T
    (made,) = asim.run(compiled, {"x": x}).outputs.values()
    close = np.abs(made - sums * STEPS[:10]) < 127 * 3 * STEPS[:10]  # a mean near a border rounds either way
    assert close.all()
    unmoved = asim.run(asim.compile(asim.load(network), chip, fusion="off"), {"x": x}).outputs
    for result in unmoved.values():
        np.testing.assert_allclose(made, result, atol=127 * 3 * STEPS.max())


def test_floats_behind_a_flatten_that_others_read_stay() -> None:
    network = classifier(node("Gemm", "f u", "z0"), node("Add", "y z0", "z"))
    network.graph.initializer.append(
        onnx.numpy_helper.from_array(random.standard_normal((64, 10)).astype(np.float32), "u")
    )
    compiled = asim.compile(asim.load(network), "Ascend310")
    (record,) = (record for record in compiled.fusion.records if record.name == EARLY)
    assert [refusal.reason for refusal in record.refusals] == ["the floats are read by others too"]


def test_a_sum_its_relu_and_its_bytes_are_one_task() -> None:
    network = written(
        node("Add", "x x", "f"), node("Relu", "f", "g"), node("AscendQuant", "g", "q", scale=9.0, offset=0.0),
        *conv(),
    )  # fmt: skip
    assert ("Add", "Relu", "AscendQuant") in tasks(network, "Ascend910B1")


def test_fixpipe_stores_bytes() -> None:
    """On split cores no vector core has to see what goes from one convolution to the next."""
    second = [
        node("Clip", "y low high", "r"), node("AscendQuant", "r", "q2", scale=30.0, offset=3.0),
        node("Conv", "q2 w2 b", "sums2"), node("AscendDequant", "sums2 s", "z", dtype=0),
    ]  # fmt: skip
    for high, stages in ((6.0, "dequant+relu+quant"), (2.0, "dequant")):
        network = written(
            quant(), *conv(), *second, low=np.float32(0), high=np.float32(high), w2=WEIGHTS[:, :16].copy()
        )
        network.graph.output[0].name = "z"
        compiled = asim.compile(asim.load(network), "Ascend910B1")
        first = next(item for item in compiled.graph.topological() if item.op_type == "QuantConv")
        assert first.attr("fixpipe") == stages
        arrays = feed(network)
        cut = bytes_of(np.clip(by_hand(arrays["x"]), 0, high), 30.0, 3.0) - 3
        windows = np.lib.stride_tricks.sliding_window_view(cut, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, WEIGHTS[:, :16].astype(float)) + BIAS.reshape(-1, 1, 1)
        wanted = sums * STEPS.reshape(-1, 1, 1)
        made = asim.run(compiled, arrays).outputs["z"]
        assert np.abs(made - wanted).max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([quant(scale=0.0), *conv()], "must be a number above 0, not 0.0"),
        ([quant(scale=-2.0), *conv()], "must be a number above 0, not -2.0"),
        ([quant(offset=300.0), *conv()], "must be a whole number from -128 to 127, not 300.0"),
        ([quant(offset=0.5), *conv()], "must be a whole number from -128 to 127, not 0.5"),
        ([quant(dst_type="INT4"), *conv()], "quantises to INT8, not INT4"),
        ([quant(round_mode="Floor"), *conv()], "rounds to the nearest number"),
        ([quant(), *conv(dtype=3)], r"must be 0 \(float32\) or 1 \(float16\), not 3"),
        ([quant(), *conv(sqrt_mode=1)], "takes its scale as it is"),
        ([quant(), node("AveragePool", "q", "y", kernel_shape=[2, 2])], "no form in int8 here"),
        ([quant(), node("Gemm", "q w b", "y", alpha=0.5)], "has no factors alpha and beta"),
    ],
)
def test_bad_input_is_refused(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(asim.AscendSimError, match=message):
        asim.load(written(*nodes))
