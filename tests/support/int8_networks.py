"""Networks of tests/data/models in int8: seeded weights, quantised by onnxruntime's static quantiser."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.weights import random_weight, roles

MODELS = Path(__file__).resolve().parents[1] / "data" / "models"
Form = Literal["QDQ", "QOperator"]
FORMS: tuple[Form, ...] = ("QDQ", "QOperator")


def inputs_of(network: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """Seeded inputs: standard normal floats, small whole numbers; a mask that hides nothing."""
    random = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    constants = {item.name for item in network.graph.initializer}
    for item in network.graph.input:
        if item.name in constants:
            continue
        shape = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type))
        if kind.kind == "f":
            arrays[item.name] = random.standard_normal(shape).astype(kind)
        elif "mask" in item.name:
            arrays[item.name] = np.ones(shape, kind)
        else:
            arrays[item.name] = random.integers(0, 2, shape).astype(kind)
    return arrays


def with_weights(name: str) -> onnx.ModelProto:
    """A network with the seeded weights that `asim.load(..., weights="random")` gives it."""
    network = onnx.load(MODELS / f"{name}.onnx", load_external_data=False)
    readers = roles(network.graph)
    for proto in network.graph.initializer:
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            filled = random_weight(0, proto.name, DType.FLOAT32, tuple(proto.dims), readers.get(proto.name))
            proto.CopyFrom(numpy_helper.from_array(filled, proto.name))
    return network


def quantised_network(name: str, form: Form, folder: Path | None = None) -> onnx.ModelProto:
    """What onnxruntime's quantiser makes of a network as its guide asks: prepared first (BatchNormalization
    folded), then calibrated.

    Args:
        name: Of the file in tests/data/models.
        form: "QDQ" has int8 activations and a weights' scale a channel; "QOperator" uint8 and one a tensor.
        folder: Where files are kept, and found again.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if folder is not None and (folder / f"{name}_{form}.onnx").is_file():
        return onnx.load(folder / f"{name}_{form}.onnx")

    class Reader(CalibrationDataReader):
        def __init__(self, network: onnx.ModelProto) -> None:
            self.left = [inputs_of(network, seed) for seed in (1, 2)]

        def get_next(self) -> dict[str, Any] | None:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as kept:
        place = folder or Path(kept)
        prepared, made = place / f"{name}_prepared.onnx", place / f"{name}_{form}.onnx"
        if not prepared.is_file():
            given = Path(kept) / "given.onnx"
            onnx.save(with_weights(name), given)
            quant_pre_process(given, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            made,
            Reader(onnx.load(prepared)),
            quant_format=QuantFormat[form],
            activation_type=QuantType.QInt8 if form == "QDQ" else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=form == "QDQ",
        )
        return onnx.load(made)
