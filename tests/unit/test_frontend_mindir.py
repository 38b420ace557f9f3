"""MindIR of MindSpore 2.10.0 against what MindSpore computes (tests/data/mindir), and wrong files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.errors import AscendSimError, InputError, UnsupportedOperatorError
from ascendsim.frontends.mindir.messages import model_class
from ascendsim.frontends.mindir.values import data_type

FOLDER = Path("tests/data/mindir")


def expected(name: str, kind: str) -> list[Any]:
    with np.load(FOLDER / "outputs.npz") as held:
        count = sum(key.startswith(f"{name}.{kind}") for key in held)
        return [held[f"{name}.{kind}{number}"] for number in range(count)]


def changed(tmp_path: Path, name: str, change: Callable[[Any], Any]) -> Path:
    """One of the files with a change."""
    model = model_class()()
    model.ParseFromString((FOLDER / f"{name}.mindir").read_bytes())
    change(model)
    path = tmp_path / "net.mindir"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("name", ["lenet", "attention", "layers", "arithmetic"])
def test_values_are_mindspores(name: str) -> None:
    graph = asim.load(FOLDER / f"{name}.mindir")
    inputs = dict(zip((t.name for t in graph.inputs), expected(name, "input"), strict=True))
    made = list(asim.run(asim.compile(graph), inputs, values="float32").outputs.values())
    wanted = expected(name, "output")
    assert len(made) == len(wanted)
    for number, (one, other) in enumerate(zip(made, wanted, strict=True)):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), number
        # its tanh on a CPU saturates early: 1 where the function has 0.99992
        coarse = 2e-3 if other.dtype == np.float16 else 1e-4 if (name, number) == ("attention", 1) else 2e-5
        np.testing.assert_allclose(one, other, rtol=coarse, atol=coarse, err_msg=str(number))


def test_names_and_origin_are_mindspores() -> None:
    graph = asim.load(FOLDER / "lenet.mindir")
    assert graph.nodes[0].name == "conv1-Conv2d/Conv2D-op0"
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert "dense1.weight" in {tensor.name for tensor in graph.constants}
    assert {node.origin["framework"] for node in graph.nodes} == {"mindspore"}
    assert graph.metadata["format"] == "mindir"


def test_layers_and_their_bias_are_one_task() -> None:
    model = asim.compile(asim.load(FOLDER / "lenet.mindir"), soc="Ascend310P3")
    assert model.fusion.totals("graph")["ConvBatchnormFusionPass"][1] == 1
    kinds = [node.op_type for node in model.graph.nodes]
    assert not {"Add", "BatchNormalization"} & set(kinds)


def test_another_batch() -> None:
    graph = asim.load(FOLDER / "lenet.mindir", batch=3)
    x = np.repeat(expected("lenet", "input")[0], 3, 0)
    (made,) = asim.run(asim.compile(graph), {"x": x}, values="float32").outputs.values()
    np.testing.assert_allclose(made, np.repeat(expected("lenet", "output")[0], 3, 0), atol=2e-5)


DATA = "net_variables/data_0"
HEADER = bytes([1]) + bytes(63)  # of a data file: the byte order, and room


def _move(model: Any) -> bytes:
    """Parameters go into a file beside the network, one after the other; what this file holds."""
    held = bytearray(HEADER)
    for parameter in model.graph.parameter:
        beside = parameter.external_data
        beside.location, beside.offset, beside.length = DATA, len(held), len(parameter.raw_data)
        held += parameter.raw_data
        parameter.ClearField("raw_data")
    return bytes(held)


def test_weights_beside_the_file_are_read(tmp_path: Path) -> None:
    held: list[bytes] = []
    path = changed(tmp_path, "lenet", lambda model: held.append(_move(model)))
    (tmp_path / DATA).parent.mkdir()
    (tmp_path / DATA).write_bytes(held[0])
    x, y = expected("lenet", "input")[0], expected("lenet", "output")[0]
    (made,) = asim.run(asim.compile(asim.load(path)), {"x": x}, values="float32").outputs.values()
    np.testing.assert_allclose(made, y, rtol=2e-5, atol=2e-5)
    (tmp_path / DATA).write_bytes(held[0][:-1])
    with pytest.raises(AscendSimError, match=f"must find bytes .* in {DATA}, not a file of"):
        asim.load(path)


def test_weights_whose_file_is_missing_have_shapes_alone(tmp_path: Path) -> None:
    graph = asim.load(changed(tmp_path, "lenet", _move))
    assert not any(t.constant.available for t in graph.constants if t.constant and t.name.endswith("weight"))
    assert asim.simulate(asim.compile(graph)).duration_us > 0


def test_weights_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    def away(model: Any) -> None:
        _move(model)
        model.graph.parameter[0].external_data.location = "../../etc/passwd"

    with pytest.raises(AscendSimError, match="external data inside the model's folder"):
        asim.load(changed(tmp_path, "lenet", away))


@pytest.mark.parametrize(("kind", "named"), [("Switch", "Switch"), ("REF::branch", "call")])
def test_control_flow_is_refused_by_name(tmp_path: Path, kind: str, named: str) -> None:
    def branch(model: Any) -> None:
        _last(model).op_type = kind

    message = rf"node '.*' \({named}\) is control flow .* not read from MindIR; export the part"
    with pytest.raises(InputError, match=message):
        asim.load(changed(tmp_path, "lenet", branch))


def test_all_unknown_primitives_are_named(tmp_path: Path) -> None:
    def rename(model: Any) -> None:
        for primitive in model.primitives:
            if primitive.op_type in ("ReLU", "Flatten"):
                primitive.op_type = f"My{primitive.op_type}"

    with pytest.raises(UnsupportedOperatorError) as caught:
        asim.load(changed(tmp_path, "lenet", rename))
    found = [operator for operator, _ in caught.value.operators]
    assert (found.count("mindspore::MyReLU"), found.count("mindspore::MyFlatten"), len(found)) == (3, 1, 4)


def _cut(model: Any) -> None:
    model.graph.parameter[0].raw_data = model.graph.parameter[0].raw_data[:-4]


def _huge(model: Any) -> None:
    model.graph.parameter[0].dims[0] = 1 << 62


def _endian(model: Any) -> None:
    model.little_endian = False


def _compressed(model: Any) -> None:
    model.graph.parameter[0].compression_type = 1


def _training(model: Any) -> None:
    for node in model.graph.node:
        if "BatchNorm:" in node.op_type:
            flag = next(item for item in model.graph.node if item.output[0] == node.input[5])
            flag.attribute[0].i = 1


def _last(model: Any) -> Any:
    return next(node for node in model.graph.node if "Softmax:" in node.op_type)


def _unread(model: Any) -> None:
    _last(model).input[0] = "nobody"


def _no_axis(model: Any) -> None:
    del _last(model).input[1]
    _last(model).attribute.add(name="axis", type=8, s=b"last")


def _text(model: Any) -> None:
    model.graph.input[0].attr_info.type = 20


def _channels_last(model: Any) -> None:
    for primitive in model.primitives:
        for item in primitive.attribute:
            if item.name == "format":
                item.s = b"NHWC"


def _strides(*values: int) -> Callable[[Any], None]:
    """Gives a convolution other strides."""

    def change(model: Any) -> None:
        primitive = next(item for item in model.primitives if item.op_type == "Conv2D")
        (held,) = (item for item in primitive.attribute if item.name == "stride")
        for one, value in zip(held.values, values, strict=True):
            one.ints[0] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_strides(2, 1, 1, 1), "needs a stride of two positive numbers"),
        (_strides(1, 2, 1, 1), "needs a stride of two positive numbers"),
        (_strides(1, 1, 0, 1), "needs a stride of two positive numbers"),
        (_strides(1, 1, 1, -1), "needs a stride of two positive numbers"),
        (_cut, "'conv1.weight'.* needs 400 bytes of values, not 396"),
        (_huge, "needs .* bytes of values"),
        (_endian, "has the byte order of another machine"),
        (_compressed, "is compressed"),
        (_training, "must not be in training"),
        (_unread, "reads what no node before it makes, not nobody"),
        (_no_axis, "needs integers as axis"),
        (_text, "input 'x' must be a tensor"),
        (_channels_last, "must have the format NCHW, not NHWC"),
        (lambda model: model.graph.ClearField("output"), "computes nothing"),
        (lambda model: model.ClearField("graph"), "is no MindIR"),
    ],
)
def test_wrong_files(tmp_path: Path, change: Callable[[Any], None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.load(changed(tmp_path, "lenet", change))


def _damage(model: Any, rng: Any) -> None:
    """One thing of one node or constant becomes another."""
    nodes = model.graph.node
    node, other = (nodes[int(rng.integers(len(nodes)))] for _ in range(2))
    match int(rng.integers(5)):
        case 0 if node.input:
            del node.input[int(rng.integers(len(node.input)))]
        case 1 if node.input and other.input:
            node.input[int(rng.integers(len(node.input)))] = other.input[0]
        case 2 if node.attribute and other.attribute:
            node.attribute[0].CopyFrom(other.attribute[0])
        case 3 if node.attribute:
            node.attribute[0].i, node.attribute[0].type = int(rng.integers(-9, 9)), int(rng.integers(1, 22))
        case _ if model.primitives:
            one, two = (model.primitives[int(rng.integers(len(model.primitives)))] for _ in range(2))
            one.op_type = two.op_type


@pytest.mark.parametrize("name", ["arithmetic", "attention", "layers"])
def test_damage_is_one_line(tmp_path: Path, name: str) -> None:
    """Bytes that change or are missing, and files that are whole but make no sense."""
    rng, refused, content = np.random.default_rng(8), [], (FOLDER / f"{name}.mindir").read_bytes()
    for turn in range(40):
        path = changed(tmp_path, name, lambda model: _damage(model, rng))
        if turn % 4 == 0:
            held = bytearray(content[: int(rng.integers(1, len(content)))] if turn % 8 else content)
            held[int(rng.integers(len(held)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(held)
        try:
            asim.load(path)
        except AscendSimError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert not any("\n" in message for message in refused)


def test_atcs_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["compile", "--model", str(FOLDER / "lenet.mindir"), "--soc_version", "Ascend310"]
    assert main([*line, "--framework", "1"]) == 0
    assert "dense2" in capsys.readouterr().out
    assert main([*line, "--framework", "5"]) == 2
    assert "must be mindspore for a file .mindir" in capsys.readouterr().err
    assert main(["compile", str(tmp_path / "missing.mindir")]) == 2
    assert "cannot be opened" in capsys.readouterr().err


def test_padding_is_told_side_by_side(tmp_path: Path) -> None:
    """MindSpore's sides are front, back, top, bottom, left, right; ONNX has all beginnings first."""

    def change(model: Any) -> None:
        (held,) = (
            item
            for primitive in model.primitives
            if primitive.op_type == "AvgPool3D"
            for item in primitive.attribute
            if item.name == "pad_list"
        )
        for one, side in zip(held.values, (0, 0, 2, 0, 0, 2), strict=True):
            one.ints[0] = side

    graph = asim.load(changed(tmp_path, "layers", change))
    (pool,) = (node for node in graph.nodes if node.name.startswith("padded") and "Pool" in node.op_type)
    assert pool.attr("pads") == (2, 0, 0, 2)


@pytest.mark.parametrize("more", [0, 1])
def test_pools_of_three_axes_have_their_dilation(tmp_path: Path, more: int) -> None:
    """Pools of maxima with padding are such; three taps two apart reach one more on either side."""

    def change(model: Any) -> None:
        (primitive,) = (item for item in model.primitives if item.op_type.startswith("MaxPool3D"))
        for item in primitive.attribute:
            if item.name in ("dilation", "pads"):
                for one in item.values[-2:]:
                    one.ints[0] += more

    graph = asim.load(changed(tmp_path, "layers", change))
    dilated = [node.attr("pads") for node in graph.nodes if node.attr("dilations") == (2, 2)]
    assert dilated.count((2, 2, 2, 2)) == more


# mind_ir.proto of MindSpore, TensorProto.DataType
NUMBERS = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 9: "BOOL",
    10: "FLOAT16", 11: "DOUBLE", 12: "UINT32", 13: "UINT64", 16: "BFLOAT16", 17: "DOUBLE",
}  # fmt: skip


def test_types_are_those_of_the_same_name() -> None:
    import onnx

    for number in range(-1, 30):
        if number in NUMBERS:
            assert onnx.TensorProto.DataType.Name(data_type(number, "x")) == NUMBERS[number]
        else:
            with pytest.raises(InputError, match="has a type that is not known"):
                data_type(number, "x")
