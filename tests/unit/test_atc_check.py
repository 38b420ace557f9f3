"""What ATC refuses: errors where the chip cannot, one line of warning where only the converter does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.compiler.cann_versions import newest_opset
from ascendsim.core.errors import InputError
from ascendsim.core.refusals import ConversionError, Refusal, some
from ascendsim.frontends.onnx.atc import refusals_of
from ascendsim.soc import load as load_chip

WITHOUT_BFLOAT16 = ("Ascend310", "Ascend310P3", "Ascend910A")


def info(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, Any] | None = None,
    imports: list[tuple[str, int]] | None = None,
    **more: Any,
) -> onnx.ModelProto:
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    opsets = [helper.make_opsetid(*item) for item in (imports or [("", 13)])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def relu(**more: Any) -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    return model([node], [info("x", [1, 16])], [info("y", [1, 16])], **more)


def warnings_of(proto: onnx.ModelProto, soc: str = "Ascend310P3", **options: Any) -> list[str]:
    return [
        text
        for text in asim.compile(asim.load(proto), soc, **options).fusion.warnings
        if text.startswith("ATC would refuse the model: ")
    ]


# --- the file


@pytest.mark.parametrize(
    ("imports", "said"),
    [
        ([("", 13)], ""),
        ([("ai.onnx", 13)], ""),
        ([("", 11), ("ai.onnx.ml", 2)], "has 2 opset domains in opset_import (ai.onnx 11, ai.onnx.ml 2)"),
        ([("", 13), ("com.microsoft", 1), ("ai.onnx.training", 1)], "has 3 opset domains"),
        ([("", 11), ("", 13)], "gives domain ai.onnx 2 opset versions (ai.onnx 11, ai.onnx 13)"),
    ],
)
def test_domains_of_opset_import(imports: list[tuple[str, int]], said: str) -> None:
    found = warnings_of(relu(imports=imports))
    assert [said in text and "(E16005); keep one entry" in text for text in found] == [True] * bool(said)


def test_nodes_that_all_name_their_domain_may_have_two() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    ends = [info("x", [1, 16])], [info("y", [1, 16])]
    assert not refusals_of(model([node], *ends, imports=[("ai.onnx", 13), ("ai.onnx.ml", 2)]), "m")


def test_a_constant_network_has_no_input() -> None:
    node = helper.make_node("Relu", ["c"], ["y"])
    proto = model([node], [], [info("y", [4])], {"c": np.ones(4, np.float32)})
    assert [found.code for found in refusals_of(proto, "m")] == ["E16001"]


def test_names_that_several_nodes_have() -> None:
    chain = ["x", "a", "b", "c", "y"]
    names = ["one", "two", "one", ""]
    nodes = [helper.make_node("Relu", [chain[i]], [chain[i + 1]], name=name) for i, name in enumerate(names)]
    (found,) = refusals_of(model(nodes, [info("x", [4])], [info("y", [4])]), "m")
    assert (found.code, found.rule) == ("E13009", "has several nodes of one name: one")


def test_functions_of_the_file_have_no_parser() -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    own = helper.make_function("own", "twice", ["a"], ["b"], body, [helper.make_opsetid("", 13)])
    node = helper.make_node("twice", ["x"], ["y"], domain="own")
    proto = model(
        [node],
        [info("x", [4])],
        [info("y", [4])],
        imports=[("", 13), ("own", 1)],
        functions=[own],
    )
    assert [found.code for found in refusals_of(proto, "m")] == ["E16002"]


@pytest.mark.parametrize(("cann", "newest"), [(None, 18), ("8.0.RC1", 18), ("7.0", 18), ("6.0.1", 13)])
def test_opsets_without_parsers(cann: str | None, newest: int) -> None:
    assert newest_opset(cann) == newest
    for opset in (newest, newest + 1):
        found = warnings_of(relu(imports=[("", opset)]), cann=cann)
        assert [f"the newest that ATC takes is {newest} (E16002)" in text for text in found] == [True] * (
            opset > newest
        )


# --- quantised forms


def quantised(kind: str = "MatMul", **change: Any) -> onnx.ModelProto:
    """x -> QuantizeLinear -> DequantizeLinear -> product by int8 weights."""
    columns = 4 if change.get("by_column") else 1
    scales = np.full(columns, 0.02, np.float32)
    init: dict[str, Any] = {
        "s": np.float32(0.1),
        "other": np.float32(change.get("other", 0.1)),
        "zero": change.get("zero", np.int8(0)),
        "w": np.ones((8, 4), np.int8),
        "ws": scales if columns > 1 else scales[0],
        "wz": np.full(columns, change.get("shift", 0), np.int8)
        if columns > 1
        else np.int8(change.get("shift", 0)),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"], name="quantise"),
        helper.make_node("DequantizeLinear", ["q", "other", "zero"], ["d"], name="dequantise"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=1, name="weights"),
        helper.make_node(kind, ["d", "v"], ["y"], name="product"),
    ]
    return model(nodes, [info("x", [2, 8])], [info("y", [2, 4])], init)


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (quantised(), ""),
        (quantised("Gemm"), ""),
        (quantised(by_column=True), "one scale a channel of weights in MatMul: product"),
        (quantised("Gemm", by_column=True), "one scale a channel of weights in Gemm: product"),
        (quantised(other=0.2), "a pair with two scales or zero points: dequantise"),
        (quantised(zero=np.uint8(128)), "data in uint8 or with a zero point: product"),
        (quantised(zero=np.int8(3)), "data in uint8 or with a zero point: product"),
        (quantised(shift=1), "weights in uint8 or with a zero point: product"),
    ],
)
def test_forms_of_quantised_products(proto: onnx.ModelProto, said: str) -> None:
    first, *rest = warnings_of(proto)
    assert (
        "3 nodes QuantizeLinear and DequantizeLinear are not converted as they are; convert the file" in first
    )
    assert len(rest) == bool(said)
    assert all(said in text and "AMCT convert_qat_model" in text for text in rest)


def test_convolutions_may_have_a_scale_a_channel() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=0),
        helper.make_node("Conv", ["d", "v"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "s", "zero"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "zero"], ["cd"]),
        helper.make_node("MaxPool", ["cd"], ["y"], kernel_shape=[2, 2], name="pool"),
    ]
    init: dict[str, Any] = {
        "s": np.float32(0.1),
        "zero": np.int8(0),
        "w": np.ones((16, 16, 1, 1), np.int8),
        "ws": np.linspace(0.1, 0.2, 16).astype(np.float32),
        "wz": np.zeros(16, np.int8),
    }
    proto = model(nodes, [info("x", [1, 16, 4, 4])], [info("y", [1, 16, 3, 3])], init)
    _, *rest = warnings_of(proto)
    assert [text.partition(": ")[2].partition(" (")[0] for text in rest] == [
        "MaxPool of quantised data: pool is no form that AMCT takes"
    ]


def concatenated() -> onnx.ModelProto:
    """Two quantised convolutions, one of them depthwise, whose channels are put side by side."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "zero"], ["v"]),
        helper.make_node("DequantizeLinear", ["dw", "s", "zero"], ["dv"]),
        helper.make_node("Conv", ["d", "v"], ["a"]),
        helper.make_node("Conv", ["d", "dv"], ["b"], group=32),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
    ]
    init = {
        "s": np.float32(0.1),
        "zero": np.int8(0),
        "w": np.ones((32, 32, 1, 1), np.int8),
        "dw": np.ones((32, 1, 1, 1), np.int8),
    }
    return model(nodes, [info("x", [1, 32, 4, 4])], [info("y", [1, 64, 4, 4])], init)


@pytest.mark.parametrize(
    ("chip", "closed", "said"),
    [
        ("Ascend310", {}, []),
        ("Ascend310", {"ConvConcatFusionPass": "off"}, ["ConvConcatFusionPass"]),
        ("Ascend310", {"ALL": "off"}, ["ConvConcatFusionPass", "V100RequantFusionPass"]),
        ("Ascend310P3", {"V200RequantFusionPass": "off"}, ["V200RequantFusionPass"]),
        ("Ascend910B1", {"ConvConcatFusionPass": "off"}, []),
    ],
)
def test_passes_that_quantised_networks_need(
    chip: str, closed: dict[str, str], said: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "switch.json"
    path.write_text(json.dumps({"Switch": {"GraphFusion": closed, "UBFusion": {}}}))
    found = warnings_of(concatenated(), chip, fusion_switch_file=path)
    passes = [text for text in found if ": pass " in text]
    assert [text.partition(": pass ")[2].partition(" is off")[0] for text in passes] == said
    assert all(text.endswith("; leave it on (here it runs all the same)") for text in passes)


# --- what the chip cannot do


def open_relu(*, values: bool = False) -> onnx.ModelProto:
    """An open input, or a shape that depends on values."""
    if values:
        node = helper.make_node("NonZero", ["x"], ["y"], name="where")
        return model([node], [info("x", [4, 4])], [info("y", [2, "n"], TensorProto.INT64)])
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    return model([node], [info("x", ["n", 16])], [info("y", ["n", 16])])


@pytest.mark.parametrize("values", [False, True])
def test_open_shapes_are_of_chips_that_run_them(values: bool) -> None:
    graph = asim.load(open_relu(values=values), shapes=None if values else {"x": (-1, 16)})
    for name in ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"):
        if load_chip(name).launch.open_shapes:
            asim.compile(graph, name)
            continue
        assert name == "Ascend310"
        with pytest.raises(
            ConversionError, match=r"^chip Ascend310 has no dynamic shapes, .*\(EZ3002\)"
        ) as error:
            asim.compile(graph, name)
        assert ("gears" in str(error.value)) is not values
    assert asim.compile(graph, "Ascend310", set={"launch.open_shapes": "true"}).schedule == "host"  # type: ignore[attr-defined]


def test_gears_and_branches_of_fixed_shapes_are_no_open_shapes() -> None:
    graph = asim.load(open_relu(), shapes={"x": (-1, 16)})
    geared = asim.compile(graph, "Ascend310", dynamic_dims=[[1], [4]])
    assert asim.simulate(geared, shapes={"x": (4, 16)}).duration_us > 0
    assert asim.compile(graph, "Ascend310", schedule="eager").schedule == "eager"  # type: ignore[attr-defined]


OPERATORS: dict[str, dict[str, Any]] = {
    "Relu": {},
    "Exp": {},
    "Softmax": {"axis": -1},
    "ReduceMean": {"axes": [3], "keepdims": 1},
    "MaxPool": {"kernel_shape": [1, 1]},
    "Transpose": {"perm": [0, 1, 3, 2]},
    "Add": {},
    "MatMul": {},
    "Cast from": {"to": TensorProto.FLOAT},
    "Cast to": {"to": TensorProto.BFLOAT16},
}


def in_bfloat16(operator: str) -> onnx.ModelProto:
    name, _, way = operator.partition(" ")
    given, made = (TensorProto.FLOAT if way == end else TensorProto.BFLOAT16 for end in ("to", "from"))
    inputs = ["x", "x"] if name in ("Add", "MatMul") else ["x"]
    node = helper.make_node(name, inputs, ["y"], name="node", **OPERATORS[operator])
    shape: list[int | str] = [1, 16, 8, 1 if name == "ReduceMean" else 8]
    imports = [("", 22 if name == "MaxPool" else 13)]  # the first that has it in bfloat16
    return model([node], [info("x", [1, 16, 8, 8], given)], [info("y", shape, made)], imports=imports)


@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_bfloat16_is_of_chips_that_have_it(operator: str, mode: str) -> None:
    graph = asim.load(in_bfloat16(operator))
    for chip in WITHOUT_BFLOAT16:
        assert not load_chip(chip).has_bfloat16
        with pytest.raises(ConversionError, match=rf"^chip {chip} has no bfloat16, which node .*\(EZ3002\)"):
            asim.compile(graph, chip, precision_mode=mode)
    assert asim.compile(graph, "Ascend910B1", precision_mode=mode).program.tasks


# --- the option


def test_check_atc_lists_everything_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = quantised(by_column=True)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    with pytest.raises(ConversionError) as error:
        asim.compile(asim.load(proto), "Ascend310P3", check="atc")
    assert [found.code for found in error.value.refusals] == ["E16005", "", "AMCT convert_qat_model"]
    text = str(error.value)
    assert "\n" not in text
    assert "is refused for 3 reasons: [1] model 'g' has 2 opset domains" in text
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    assert main(["run", str(path), "--soc_version", "Ascend310P3", "--values", "off"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.startswith("ascendsim: warning: ATC would refuse the model: ") for line in said] == [
        True
    ] * 3
    assert main(["compile", str(path), "--soc_version", "Ascend310P3", "--check", "atc"]) == 2
    assert "[3] " in capsys.readouterr().err


def test_a_model_that_atc_takes_passes() -> None:
    assert asim.compile(asim.load(relu()), "Ascend310P3", check="atc").program.tasks
    with pytest.raises(InputError, match="option check must be one of chip, atc"):
        asim.compile(asim.load(relu()), check="act")


def test_streams_and_control_flow() -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], [info("r", [4])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch, name="choice")
    proto = model([node], [info("c", [], TensorProto.BOOL), info("x", [4])], [info("y", [4])])
    assert not warnings_of(proto)
    (said,) = warnings_of(proto, enable_single_stream=True)
    assert "option enable_single_stream does not go with control flow (choice)" in said


def test_one_reason_reads_like_any_error() -> None:
    one = Refusal("E1", "model 'm'", "has no end", "give it one")
    assert str(ConversionError("m", [one])) == "model 'm' has no end (E1); give it one"
    assert (
        one.warning
        == "ATC would refuse the model: model 'm' has no end (E1); give it one (here it runs all the same)"
    )
    assert some(["a", "b"]) == "a, b"
