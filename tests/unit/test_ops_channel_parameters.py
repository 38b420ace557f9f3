"""Parameters of one value a channel: another number of them is refused when a model is loaded, before a
kernel reads beyond their end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ascendsim as asim
from ascendsim.core.errors import GraphError
from tests.support.fusing import new_builder

CHANNELS = 4
OPERATORS = {  # with the number of inputs
    "BatchNormalization": ("", 5),
    "BNInference": ("ascend", 5),
    "BNInferenceD": ("ascend", 3),
    "Scale": ("ascend", 3),
    "BNTrainingUpdate": ("ascend", 7),
}


def model(sizes: list[tuple[int, ...]]) -> onnx.ModelProto:
    names = ["scale", "bias", "mean", "variance"]
    graph = helper.make_graph(
        [helper.make_node("BatchNormalization", ["x", *names], ["y"], name="norm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, CHANNELS, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.ones(size, np.float32), name)
            for name, size in zip(names, sizes, strict=True)
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])


@pytest.mark.parametrize("port", range(4))
@pytest.mark.parametrize("size", [(CHANNELS - 1,), (CHANNELS + 1,), (1,), (), (1, CHANNELS)])
def test_a_model_with_another_number_of_parameters_is_refused(port: int, size: tuple[int, ...]) -> None:
    sizes: list[tuple[int, ...]] = [(CHANNELS,)] * 4
    assert asim.load(model(sizes)).outputs[0].shape == (2, CHANNELS, 3, 3)
    sizes[port] = size
    with pytest.raises(
        GraphError,
        match=r"node 'norm' \(BatchNormalization\) needs one value a channel, shape \[4\], in input",
    ):
        asim.load(model(sizes))


@pytest.mark.parametrize("op_type", OPERATORS)
def test_the_chips_own_forms_ask_the_same(op_type: str) -> None:
    domain, count = OPERATORS[op_type]
    for wrong in range(count):
        b = new_builder()
        x = b.input("x", (2, CHANNELS, 3))
        parameters = [np.ones(CHANNELS + (port == wrong), np.float32) for port in range(1, count)]
        if wrong:
            with pytest.raises(GraphError, match="one value a channel"):
                b.op(op_type, x, *parameters, domain=domain)
        else:
            assert b.op(op_type, x, *parameters, domain=domain).shape == (2, CHANNELS, 3)


def test_a_normalisation_needs_channels_and_takes_open_ones() -> None:
    b = new_builder()
    with pytest.raises(GraphError, match="needs an input of rank 2 or more"):
        b.op("BatchNormalization", b.input("x", (CHANNELS,)), *[np.ones(CHANNELS, np.float32)] * 4)
    for shape in (("n", "c", 3), (2, None)):
        b = new_builder()
        assert (
            b.op("BatchNormalization", b.input("x", shape), *[np.ones(CHANNELS, np.float32)] * 4).shape
            == shape
        )
