"""Networks of tests/data/models in int8: seeded weights, quantised by onnxruntime's static quantiser."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import numpy_helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.weights import random_weight, roles
from ascendsim.passes.quant.roundings import NAME as ROUNDINGS
from tests.support.quantised import by_onnxruntime

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


def quantised_network(
    name: str, form: Form, folder: Path | None = None, keep: bool = False
) -> onnx.ModelProto:
    """What onnxruntime's quantiser makes of a network as its guide asks: prepared first (BatchNormalization
    folded), then calibrated.

    Args:
        name: Of the file in tests/data/models.
        form: "QDQ" has int8 activations and a weights' scale a channel; "QOperator" uint8 and one a tensor.
        folder: Where files are kept, and found again.
        keep: Whether Relu and Clip stay operators (QDQ) and do not go up in the range of bytes.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    file = f"{name}_{form}{'_all' if keep else ''}.onnx"
    if folder is not None and (folder / file).is_file():
        return onnx.load(folder / file)

    class Reader(CalibrationDataReader):
        def __init__(self, network: onnx.ModelProto) -> None:
            self.left = [inputs_of(network, seed) for seed in (1, 2)]

        def get_next(self) -> dict[str, Any] | None:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as kept:
        place = folder or Path(kept)
        prepared, made = place / f"{name}_prepared.onnx", place / file
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
            extra_options={"QDQKeepRemovableActivations": keep},
        )
        return onnx.load(made)


def byte_tensors(network: onnx.ModelProto) -> list[str]:
    """Names of the tensors of int8 or uint8 that nodes make from data."""
    constants = {item.name for item in network.graph.initializer}
    found: dict[str, None] = {}
    for node in network.graph.node:
        if node.op_type == "QuantizeLinear":
            makes = node.input[0] not in constants
        elif node.op_type == "QGemm":
            makes = len(node.input) > 7 and bool(node.input[7])
        else:
            moved = node.op_type != "DequantizeLinear" and bool(node.input) and node.input[0] in found
            makes = node.op_type.startswith("QLinear") or moved
        if makes:
            found |= dict.fromkeys(node.output)
    return list(found)


def cut(network: onnx.ModelProto, arrays: Mapping[str, Any], whole: Collection[str] = ()) -> onnx.ModelProto:
    """The network with every reader of a tensor of bytes reading an input "<tensor>_given" instead, and all
    of these tensors as outputs: so every operator can be fed with what onnxruntime feeds it.

    Args:
        network: Quantised.
        arrays: Values of its tensors of bytes, for types and shapes.
        whole: Tensors that stay between their maker and their readers.
    """
    made = onnx.ModelProto()
    made.CopyFrom(network)
    wanted = [name for name in byte_tensors(network) if name not in whole]
    for node in made.graph.node:
        for place, name in enumerate(node.input):
            if name in wanted:
                node.input[place] = f"{name}_given"
    read = {name for node in made.graph.node for name in node.input}
    del made.graph.output[:]
    for name in wanted:
        made.graph.output.append(onnx.ValueInfoProto(name=name))
        if f"{name}_given" in read:
            kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[name].dtype)
            shape = arrays[name].shape
            made.graph.input.append(onnx.helper.make_tensor_value_info(f"{name}_given", kind, shape))
    del made.graph.value_info[:]
    return made


def steps_apart(network: onnx.ModelProto, chip: str, joined: bool = False) -> dict[str, Any]:
    """By tensor of bytes: steps between our values and onnxruntime's, every operator by itself, fed with
    onnxruntime's own inputs.

    Args:
        network: Quantised.
        chip: Computes.
        joined: Operators that the compiler makes one of stay together, as they do in the network.
    """
    shown = onnx.ModelProto()
    shown.CopyFrom(network)
    names, outputs = byte_tensors(network), {item.name for item in network.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    fed = inputs_of(network, seed=5)
    wanted = by_onnxruntime(shown, fed)
    whole = joined_tensors(network, chip) if joined else set()
    parts = cut(network, wanted, whole)
    given = {item.name: item.name.removesuffix("_given") for item in parts.graph.input}
    arrays = {name: fed[name] if name in fed else wanted[source] for name, source in given.items()}
    got = asim.run(asim.compile(asim.load(parts), chip), arrays).outputs
    return {
        item.name: np.abs(got[item.name].astype(np.int16) - wanted[item.name]) for item in parts.graph.output
    }


def joined_tensors(network: onnx.ModelProto, chip: str) -> set[str]:
    """Tensors of bytes that are gone where two operators became one."""
    records = asim.compile(asim.load(network), chip).fusion.records
    names = {
        first.removesuffix("_int8")
        for record in records
        if record.name == ROUNDINGS
        for first, _ in record.fused
    }
    made = {name for node in network.graph.node if node.name in names for name in node.output}
    later = {
        node.output[0]
        for node in network.graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] in made
    }
    return made | later
