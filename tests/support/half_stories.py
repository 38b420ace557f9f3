"""Networks whose numbers leave float16, as real ones do: seeded, small, each with inputs that show it."""

from __future__ import annotations

import numpy as np

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Tensor

Story = tuple[Graph, dict[str, Array]]


def written_out_norm(width: int = 256, size: float = 21.0) -> Story:
    """A classifier of bytes whose LayerNorm is written out with a sum of squares: width * size^2 > 65,504."""
    random = np.random.default_rng(5)
    b = asim.GraphBuilder("byte_classifier")
    x = b.input("x", (4, width))

    def layer(name: str, data: Tensor, wide: int) -> Tensor:
        weight = (random.standard_normal((width, wide)) / np.sqrt(width)).astype(np.float32)
        return b.op("MatMul", data, weight, name=f"{name}/MatMul")

    hidden = layer("Dense_0", x, width)
    axis = np.array([-1], np.int64)
    mean = b.op("ReduceMean", hidden, axis, keepdims=1, name="LayerNorm_1/Mean")
    centred = b.op("Sub", hidden, mean, name="LayerNorm_1/Sub")
    squares = b.op("Mul", centred, centred, name="LayerNorm_1/Square")
    total = b.op("ReduceSum", squares, axis, keepdims=1, name="LayerNorm_1/Sum_1")
    variance = b.op("Mul", total, np.float32(1 / width), name="LayerNorm_1/Scale")
    deviation = b.op("Sqrt", b.op("Add", variance, np.float32(1e-5), name="LayerNorm_1/Add"),
                     name="LayerNorm_1/Sqrt")  # fmt: skip
    normal = b.op("Div", centred, deviation, name="LayerNorm_1/Div")
    logits = layer("Dense_2", b.op("Relu", normal, name="Relu_1"), 10)
    b.output(b.op("Softmax", logits, axis=-1, name="Softmax_3"), "y")
    return b.build(), {"x": (size * random.standard_normal((4, width))).astype(np.float32)}


def loud_voice() -> Story:
    """A voice detector that multiplies the power spectrum by 2^20 before its logarithm."""
    random = np.random.default_rng(6)
    b = asim.GraphBuilder("voice_detector")
    x = b.input("x", (8, 512))
    basis = (random.standard_normal((512, 64)) / 23).astype(np.float32)
    spectrum = b.op("MatMul", x, basis, name="stft/MatMul")
    power = b.op("Mul", spectrum, spectrum, name="stft/Power")
    loud = b.op("Mul", power, np.float32(2**20), name="features/Gain")
    level = b.op("Log", b.op("Add", loud, np.float32(1.0), name="features/Floor"), name="features/Log")
    mean = b.op("ReduceMean", level, np.array([-1], np.int64), keepdims=1, name="features/Mean")
    centred = b.op("Sub", level, mean, name="features/Sub")
    head = (random.standard_normal((64, 2)) / 8).astype(np.float32)
    b.output(b.op("Sigmoid", b.op("MatMul", centred, head, name="head/MatMul"), name="head/Sigmoid"), "y")
    return b.build(), {"x": random.standard_normal((8, 512)).astype(np.float32)}


def quantised_block(channels: int = 32) -> Story:
    """Two dynamically quantised convolutions with a skip connection, as onnxruntime writes them."""
    random = np.random.default_rng(7)
    b = asim.GraphBuilder("quantised_unet")
    x = b.input("x", (1, channels, 24, 24))

    def layer(name: str, data: Tensor) -> Tensor:
        quantised, scale, zero = b.ops("DynamicQuantizeLinear", data, outputs=3, name=f"{name}_quant")
        weight = random.integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8)
        total = b.op("ConvInteger", quantised, weight, zero, np.int8(0), pads=(1, 1, 1, 1),
                     name=f"{name}_integer")  # fmt: skip
        scales = b.op("Mul", scale, np.float32(2e-4), name=f"{name}_scales")
        wide = b.op("Cast", total, to=DType.FLOAT32, name=f"{name}_cast")
        result = b.op("Mul", wide, scales, name=f"{name}_dequant")
        bias = random.standard_normal((1, channels, 1, 1)).astype(np.float32)
        return b.op("Add", result, bias, name=f"{name}_bias")

    first = b.op("Relu", layer("down", x), name="relu")
    b.output(b.op("Add", layer("up", first), x, name="skip"), "y")
    return b.build(), {"x": random.standard_normal((1, channels, 24, 24)).astype(np.float32)}
