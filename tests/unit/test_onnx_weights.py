"""Tensors of a model file: inline, external, missing, too large to be true; seeded values for missing
ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, GraphError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.frontends.onnx.weights import random_weight
from ascendsim.ops import default_opset
from tests.support.onnx_models import model, node, run, value

OPS = default_opset()


def external(tensor: onnx.TensorProto, location: str, **entries: int | str) -> None:
    """Turns a tensor into one whose values lie in a file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, item in [("location", location), *entries.items()]:
        tensor.external_data.add(key=key, value=str(item))


def with_weight(shape=(3, 4), kind=TensorProto.FLOAT) -> onnx.ModelProto:
    proto = model([node("MatMul", "x w", "y", name="mm")], [value("x", (2, shape[0]))], ["y"])
    proto.graph.initializer.append(TensorProto(name="w", dims=shape, data_type=kind))
    return proto


def save(tmp_path, proto, content: bytes | None, location="w.bin", **entries):
    if content is not None:
        (tmp_path / "w.bin").write_bytes(content)
    external(proto.graph.initializer[0], location, **entries)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refused(source, **options) -> str:
    with pytest.raises(AscendSimError) as caught:
        load_onnx(source, opset=OPS, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_external_data_is_read_when_asked_for(tmp_path):
    path = save(tmp_path, with_weight(), bytes(8) + WEIGHTS.tobytes(), offset=8, length=48)
    graph = load_onnx(path, opset=OPS)
    constant = graph.tensors["w"].constant
    assert constant._array is None
    np.testing.assert_array_equal(constant.array(), WEIGHTS)
    (tmp_path / "w.bin").unlink()
    np.testing.assert_array_equal(run(graph, np.ones((2, 3), np.float32))[0], [WEIGHTS.sum(0)] * 2)


def test_a_file_that_goes_away_is_an_error_with_its_name(tmp_path):
    graph = load_onnx(save(tmp_path, with_weight(), WEIGHTS.tobytes()), opset=OPS)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(AscendSimError, match=r"file 'w\.bin' cannot be read"):
        graph.tensors["w"].constant.array()


def test_missing_external_data_leaves_shape_and_type(tmp_path):
    graph = load_onnx(save(tmp_path, with_weight(), None), opset=OPS)
    weight = graph.tensors["w"]
    assert (weight.shape, weight.dtype) == ((3, 4), DType.FLOAT32)
    assert not weight.constant.available
    assert graph.outputs[0].shape == (2, 4)
    with pytest.raises(GraphError, match=r"file w\.bin is missing.*weights="):
        weight.constant.array()


def test_models_without_a_file_have_no_external_data():
    proto = with_weight()
    external(proto.graph.initializer[0], "w.bin")
    for source in (proto, proto.SerializeToString()):
        constant = load_onnx(source, opset=OPS).tensors["w"].constant
        assert constant.absent_because == "file w.bin is not at hand"


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "n" * 5000, "a\0b"]
)
def test_external_data_stays_inside_the_models_folder(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    assert "must have its external data inside the model's folder" in refused(
        save(folder, with_weight(), None, location)
    )


def test_links_out_of_the_models_folder_are_not_followed(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    assert "inside the model's folder" in refused(save(folder, with_weight(), None, "link.bin"))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 1}, "must find bytes 1 to 49 in w.bin, not a file of 48 bytes; it is truncated"),
        ({"length": 40}, "must have 48 bytes of external data, not 40"),
        ({"offset": -4}, "must have a number as offset of its external data, not '-4'"),
        ({"offset": "0x10"}, "must have a number as offset"),
        ({"offset": 10**30}, "must have a number as offset"),
    ],
)
def test_external_data_that_cannot_be(tmp_path, entries, message):
    assert message in refused(save(tmp_path, with_weight(), WEIGHTS.tobytes(), **entries))


@pytest.mark.parametrize(("digits", "fits"), [(1, True), (18, True), (19, False)])
def test_numbers_of_external_data_have_18_digits_at_most(tmp_path, digits, fits):
    path = save(tmp_path, with_weight(), WEIGHTS.tobytes(), offset="0" * digits)
    if fits:
        load_onnx(path, opset=OPS)
    else:
        assert "must have a number as offset" in refused(path)


def test_external_data_without_a_file_name():
    proto = with_weight()
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
    assert "names no file for its external data" in refused(proto)


@pytest.mark.parametrize("field", ["raw_data", "float_data"])
def test_a_claim_of_2_gb_in_a_small_file_allocates_nothing(field):
    proto = with_weight((1 << 14, 1 << 15))
    if field == "raw_data":
        proto.graph.initializer[0].raw_data = bytes(100)
    else:
        proto.graph.initializer[0].float_data.extend([1.0] * 25)
    data = proto.SerializeToString()
    assert len(data) < 1000
    tracemalloc.start()
    message = refused(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "tensor 'w' of shape [16384, 32768] must hold" in message
    assert "the file is truncated or damaged" in message
    assert peak < 5_000_000


def test_shapes_computed_from_a_claim_allocate_nothing():
    nodes = [
        node("ConstantOfShape", "s", "c"),
        node("ReduceSum", "c", "r", keepdims=0),
        node("Add", "x r", "y"),
    ]
    huge = model(nodes, [value("x", (2,))], ["y"], {"s": np.array([1 << 15, 1 << 15])})
    tracemalloc.start()
    graph = load_onnx(huge, opset=OPS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(graph) == 3
    assert peak < 5_000_000
    absurd = model(nodes, [value("x", (2,))], ["y"], {"s": np.array([1 << 30, 1 << 30])})
    assert "must have at most" in refused(absurd)


def test_negative_dims_of_a_tensor():
    proto = with_weight()
    proto.graph.initializer[0].dims[0] = -3
    assert "tensor 'w' must have dimensions that are not negative, not [-3, 4]" in refused(proto)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int8, np.uint16, np.int32, np.uint32, np.uint64, np.int64, bool]
)
@pytest.mark.parametrize("raw", [True, False])
def test_element_types_of_inline_tensors(dtype, raw):
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = (
        numpy_helper.from_array(array, "c")
        if raw
        else onnx.helper.make_tensor("c", kind, array.shape, array.reshape(-1).tolist())
    )
    proto = model([], [], ["c"])
    proto.graph.initializer.append(tensor)
    constant = load_onnx(proto, opset=OPS).outputs[0]
    assert constant.dtype is DType.of(dtype)
    np.testing.assert_array_equal(constant.constant.array(), array)


# random weights


def test_random_weights_depend_on_seed_name_and_shape_alone(tmp_path):
    proto = model([node("MatMul", "x a", "t"), node("MatMul", "t b", "y")], [value("x", (2, 8))], ["y"])
    for name in "ab":
        tensor = TensorProto(name=name, dims=(8, 8), data_type=TensorProto.FLOAT)
        external(tensor, "w.bin")
        proto.graph.initializer.append(tensor)
    graphs = [load_onnx(proto, opset=OPS, weights="random", seed=seed) for seed in (1, 1, 2)]
    first = {name: graphs[0].tensors[name].constant.array() for name in "ab"}
    again = {name: graphs[1].tensors[name].constant.array() for name in "ba"}
    other = graphs[2].tensors["a"].constant.array()
    np.testing.assert_array_equal(first["a"], again["a"])
    np.testing.assert_array_equal(first["b"], again["b"])
    assert not np.array_equal(first["a"], first["b"])
    assert not np.array_equal(first["a"], other)
    assert 0.5 < first["a"].std() * np.sqrt(8) < 1.5


@pytest.mark.parametrize(
    ("op", "position", "shape", "low", "high"),
    [
        (node("BatchNormalization", "x s b m v", "y"), 1, (1000,), 0.9, 1.1),
        (node("BatchNormalization", "x s b m v", "y"), 4, (1000,), 0.9, 1.1),
        (node("BatchNormalization", "x s b m v", "y"), 2, (1000,), -0.1, 0.1),
        (node("LayerNormalization", "x s b", "y"), 1, (1000,), 0.9, 1.1),
        (node("LayerNormalization", "x s b", "y"), 2, (1000,), -0.1, 0.1),
        (node("Conv", "x w b", "y"), 2, (1000,), -0.1, 0.1),
    ],
)
def test_vectors_by_role(op, position, shape, low, high):
    values = random_weight(0, "w", DType.FLOAT32, shape, (op, position))
    assert low <= values.min() < values.max() <= high
    assert values.max() - values.min() > 0.9 * (high - low)


@pytest.mark.parametrize(
    ("op", "shape", "fan_in"),
    [
        (node("Conv", "x w", "y"), (64, 16, 3, 3), 144),
        (node("ConvTranspose", "x w", "y"), (64, 16, 3, 3), 64),
        (node("Gemm", "x w", "y"), (300, 100), 300),
        (node("Gemm", "x w", "y", transB=1), (300, 100), 100),
        (node("MatMul", "x w", "y"), (300, 100), 300),
        (node("Gather", "w i", "y"), (300, 100), 1),
        (node("LSTM", "x w r", "y"), (1, 256, 64), 64),
        (None, (300, 100), 300),
    ],
)
def test_matrices_by_role(op, shape, fan_in):
    values = random_weight(0, "w", DType.FLOAT32, shape, None if op is None else (op, 1))
    assert values.dtype == np.float32
    assert values.std() * np.sqrt(fan_in) == pytest.approx(1, abs=0.05)
    assert abs(values.mean()) * np.sqrt(fan_in) < 0.05


def test_integers_use_their_whole_range():
    values = random_weight(0, "w", DType.INT8, (10_000,), None)
    assert (values.min(), values.max()) == (-128, 127)
    assert set(np.unique(random_weight(0, "w", DType.BOOL, (100,), None))) == {False, True}


def test_random_values_are_made_when_asked_for():
    proto = with_weight((1 << 14, 1 << 15))
    external(proto.graph.initializer[0], "w.bin")
    tracemalloc.start()
    graph = load_onnx(proto, opset=OPS, weights="random")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.tensors["w"].constant.available
    assert peak < 5_000_000
