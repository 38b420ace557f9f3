"""Every operator of a composite file by itself against numpy, with attributes that are given and left out;
what a file must not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError, InputError
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.fusing import random
from tests.unit.test_caffe_layers import correlated
from tests.unit.test_composite_loading import X, Y, composite, load, op, tensor

Array = Any
A, B = random(3, 4), random(3, 4, seed=1)
POSITIVE, WHOLE = np.abs(A) + np.float32(0.1), np.arange(12, dtype=np.int32).reshape(3, 4) - 5
TRUE, OTHER = A > 0, B > 0
DEEP = random(2, 3, 4)
IMAGE, TAPS = random(2, 6, 7, 4), random(6, 3, 2, 2)
TILED = random(2, 3, 16, 16)


@dataclass(frozen=True)
class One:
    """One operator: operands, what it makes of them, attributes, formats of operands and result."""

    name: str
    given: list[Any]
    wanted: Callable[..., Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    formats: tuple[str, ...] = ()


UNARY: dict[str, tuple[Callable[..., Array], Array]] = {
    "Abs": (np.abs, A), "Neg": (np.negative, A), "Exp": (np.exp, A), "Log": (np.log, POSITIVE),
    "Sqrt": (np.sqrt, POSITIVE), "Reciprocal": (lambda x: 1 / x, POSITIVE), "Tanh": (np.tanh, A),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), A), "Erf": (np.vectorize(math.erf, [float]), A),
    "Round": (np.rint, A * 3), "Floor": (np.floor, A * 3), "Ceil": (np.ceil, A * 3), "Sin": (np.sin, A),
    "Cos": (np.cos, A), "Asin": (np.arcsin, A / 9), "ACos": (np.arccos, A / 9), "Acos": (np.arccos, A / 9),
    "Atan": (np.arctan, A), "Sign": (np.sign, A), "ReLU": (lambda x: np.maximum(x, 0), A),
    "Relu": (lambda x: np.maximum(x, 0), A), "LogicalNot": (np.logical_not, TRUE), "IsNan": (np.isnan, A),
    "IsInf": (np.isinf, A), "Rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE), "Square": (np.square, A),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[..., Array], Array, Array]] = {
    "Add": (np.add, A, B), "TensorAdd": (np.add, A, B), "Sub": (np.subtract, A, B),
    "Mul": (np.multiply, A, B), "RealDiv": (np.divide, A, POSITIVE), "Div": (np.divide, A, POSITIVE),
    "Maximum": (np.maximum, A, B), "Minimum": (np.minimum, A, B), "AddN": (np.add, A, B),
    "Pow": (np.power, POSITIVE, B), "Mod": (np.mod, WHOLE, WHOLE * 0 + 3),
    "FloorMod": (np.mod, WHOLE, WHOLE * 0 + 3), "Equal": (np.equal, WHOLE, -WHOLE),
    "NotEqual": (np.not_equal, WHOLE, -WHOLE), "Greater": (np.greater, A, B),
    "GreaterEqual": (np.greater_equal, A, B), "Less": (np.less, A, B), "LessEqual": (np.less_equal, A, B),
    "LogicalAnd": (np.logical_and, TRUE, OTHER), "LogicalOr": (np.logical_or, TRUE, OTHER),
    "FloorDiv": (lambda x, y: np.floor(x / y), A, POSITIVE),
}  # fmt: skip


def images(x: Array) -> Array:
    return x.transpose(0, 3, 1, 2)


def convolved(x: Array, w: Array, stride: int = 1, dilation: int = 1, pad: int = 0, group: int = 1) -> Array:
    """Of images whose channels come last."""
    padded = np.pad(images(x), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    made = correlated(padded, images(w), group, ((stride, 0, dilation),) * 2)
    return made.transpose(0, 2, 3, 1)


def untiled(x: Array) -> Array:
    """A matrix as it lies in fractals."""
    return x.reshape(3, 16, 2, 16).transpose(2, 0, 1, 3)


CASES: dict[str, One] = {
    **{name: One(name, [x], wanted) for name, (wanted, x) in UNARY.items()},
    **{name: One(name, [x, y], wanted) for name, (wanted, x, y) in BINARY.items()},
    "AddN of three": One("AddN", [A, B, POSITIVE], lambda x, y, z: x + y + z),
    "Add of three": One("Add", [A, B, POSITIVE], lambda x, y, z: x + y + z),
    "AddN of one": One("AddN", [A], lambda x: x),
    "Select": One("Select", [TRUE, A, B], np.where),
    "ElemAny": One("ElemAny", [A], lambda x: np.float32([x.max() > 0])),
    "ElemAny of bits": One("ElemAny", [TRUE], lambda x: np.array([x.any()])),
    "Cast": One("Cast", [A * 3], lambda x: x.astype(np.int32)),
    "ReduceSum": One("ReduceSum", [DEEP], lambda x: x.sum((0, 2)), {"axis": [0, 2]}),
    "ReduceMax": One("ReduceMax", [DEEP], lambda x: x.max(1, keepdims=True), {"axis": 1, "keep_dims": True}),
    "ReduceMin": One("ReduceMin", [DEEP], lambda x: x.min(-1), {"axis": -1, "keep_dims": False}),
    "ReduceMean": One("ReduceMean", [DEEP], lambda x: np.float32([x.mean()])),
    "ReduceProd": One("ReduceProd", [DEEP], lambda x: x.prod(2), {"axis": [2]}),
    "ReduceAll": One("ReduceAll", [TRUE], lambda x: x.all(0), {"axis": [0]}),
    "ReduceAny": One(
        "ReduceAny", [TRUE], lambda x: x.any(1, keepdims=True), {"axis": [1], "keep_dims": True}
    ),
    "Reshape": One("Reshape", [DEEP], lambda x: x.reshape(4, 6)),
    "ExpandDims": One("ExpandDims", [A], lambda x: x[:, None], {"axis": 1}),
    "Squeeze": One("Squeeze", [A[None]], lambda x: x[0], {"axis": 0}),
    "Flatten": One("Flatten", [DEEP], lambda x: x.reshape(2, 12)),
    "BroadcastTo": One("BroadcastTo", [A], lambda x: np.broadcast_to(x, (2, 3, 4)), {"shape": [2, 3, 4]}),
    "Tile": One("Tile", [A], lambda x: np.tile(x, (2, 3)), {"multiples": [2, 3]}),
    "Tile of a new axis": One("Tile", [A], lambda x: np.tile(x, (2, 1, 2))),
    "Transpose": One("Transpose", [DEEP], lambda x: x.transpose(1, 2, 0), {"perm": [1, 2, 0]}),
    "Transpose of all": One("Transpose", [DEEP], lambda x: x.T),
    "Concat": One("Concat", [A, B], lambda x, y: np.concatenate([x, y], 1), {"axis": 1}),
    "Concat as it is": One("Concat", [A, B], lambda x, y: np.concatenate([x, y])),
    "OneHot": One(
        "OneHot",
        [np.array([2, 0, 1], np.int32), np.float32([5.0]), np.float32([-1.0])],
        lambda i, on, off: np.where(i[:, None] == np.arange(4), on, off),
        {"depth": 4},
    ),
    "OneHot in front": One(
        "OneHot",
        [np.array([2, 0, 1], np.int32), np.float32([5.0]), np.float32([-1.0])],
        lambda i, on, off: np.where(i == np.arange(4)[:, None], on, off),
        {"depth": 4, "axis": 0},
    ),
    "MatMul": One("MatMul", [A, B], lambda x, y: x.T @ y, {"transpose_a": True}),
    "MatMul turned": One("MatMul", [A, B], lambda x, y: x @ y.T, {"transpose_b": True, "transpose_a": False}),
    "MatMul of newer files": One("MatMul", [A, B], lambda x, y: x.T @ y, {"transpose_x1": True}),
    "MatMul of newer files turned": One("MatMul", [A, B], lambda x, y: x @ y.T, {"transpose_x2": True}),
    "MatMul with a bias": One("MatMul", [A, random(4, 5), random(5)], lambda x, y, b: x @ y + b),
    "BatchMatMul": One("BatchMatMul", [DEEP, random(2, 4, 5)], np.matmul),
    "Conv2D as it is": One("Conv2D", [IMAGE, random(6, 3, 2, 4)], convolved),
    "Conv2D": One(
        "Conv2D",
        [IMAGE, TAPS],
        lambda x, w: convolved(x, w, 2, 1, 1, 2),
        {"stride": [1, 1, 2, 2], "pad_list": [1, 1, 1, 1], "group": 2},
    ),
    "Conv2D dilated": One(
        "Conv2D", [IMAGE, random(6, 2, 2, 4)], lambda x, w: convolved(x, w, 1, 3), {"dilation": [1, 1, 3, 3]}
    ),
    "Conv2D of maps": One(
        "Conv2D",
        [images(IMAGE).copy(), images(TAPS).copy()],
        lambda x, w: correlated(x, w, 2, ((1, 0, 1), (1, 0, 1))),
        {"data_format": "NCHW", "group": 2},
    ),
    "a row meets fractals": One(
        "Add",
        [TILED, random(1, 32)],
        lambda x, y: x + y.reshape(2, 1, 1, 16),
        {},
        ("FRACTAL_NZ", "ND", "FRACTAL_NZ"),
    ),
    "a vector meets fractals": One(
        "Add",
        [TILED, random(32)],
        lambda x, y: x + y.reshape(2, 1, 1, 16),
        {},
        ("FRACTAL_NZ", "ND", "FRACTAL_NZ"),
    ),
    "a column meets fractals": One(
        "Add",
        [TILED, random(48, 1)],
        lambda x, y: x + y.reshape(1, 3, 16, 1),
        {},
        ("FRACTAL_NZ", "ND", "FRACTAL_NZ"),
    ),
    "a number meets fractals": One(
        "Add", [TILED, random(1)], lambda x, y: x + y, {}, ("FRACTAL_NZ", "ND", "FRACTAL_NZ")
    ),
    "a matrix meets fractals": One(
        "Add", [TILED, random(48, 32)], lambda x, y: x + untiled(y), {}, ("FRACTAL_NZ", "ND", "FRACTAL_NZ")
    ),
    "a batch meets fractals": One(
        "Mul",
        [np.stack([TILED, TILED * 2]), random(2, 1, 32)],
        lambda x, y: x * y.reshape(2, 2, 1, 1, 16),
        {},
        ("FRACTAL_NZ", "ND", "FRACTAL_NZ"),
    ),
}


def file_of(case: One, result: Array) -> dict[str, Any]:
    formats = case.formats or ("DefaultFormat",) * (len(case.given) + 1)
    records = [
        tensor(f"in{place}", list(array.shape), str(array.dtype), format=form)
        for place, (array, form) in enumerate(zip(case.given, formats, strict=False))
    ]
    out = tensor("out", list(result.shape), str(result.dtype), format=formats[-1])
    grouped = [records] if case.name in ("AddN", "Concat") else [[record] for record in records]
    return composite([op(case.name, grouped, out, **case.attributes)], records, [out])


@pytest.mark.parametrize("name", CASES)
def test_an_operator_makes_what_numpy_makes(name: str) -> None:
    case = CASES[name]
    wanted = np.asarray(case.wanted(*case.given))
    wanted = wanted.astype(np.float32) if wanted.dtype == np.float64 else wanted
    graph = load(file_of(case, wanted))
    arrays = {f"in{place}": array for place, array in enumerate(case.given)}
    (found,) = evaluate(
        graph, default_opset(), {tensor_.name: arrays[tensor_.name] for tensor_ in graph.inputs}
    )
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["a row meets fractals", "a column meets fractals"])
def test_what_keeps_its_order_is_not_transposed(name: str) -> None:
    case = CASES[name]
    kinds = [node.op_type for node in load(file_of(case, case.wanted(*case.given))).nodes]
    assert kinds == ["Reshape", "Add"]


HALF = tensor("y", [2, 3], "float16")


@pytest.mark.parametrize(
    ("ops", "inputs", "outputs", "message"),
    [
        ([op("Abs", [[X]], X)], [X], [X], "tensor 'x' must be defined once; composite files are in single"),
        ([op("Abs", [[X]], Y), op("Neg", [[X]], Y)], [X], [Y], "tensor 'y' must be defined once"),
        (
            [op("Abs", [[X]], HALF)],
            [X],
            [HALF],
            "tensor 'y' must be of type float16 as the file says, not float32",
        ),
        ([op("Abs", [[tensor("z", [2, 3])]], Y)], [X], [Y], "tensor 'z' is used by Abs before it is defined"),
        ([op("Abs", [[X]], Y)], [X], [tensor("w", [2, 3])], "output 'w' is not defined by any operator"),
        (
            [op("Abs", [[X]], tensor("y", [2, 4]))],
            [X],
            [tensor("y", [2, 4])],
            r"must have shape \[2, 4\] as the file",
        ),
        ([op("OneHot", [[X]], Y)], [X], [Y], "operator OneHot of 'y' is malformed: ValueError"),
        (
            [op("BroadcastTo", [[X]], tensor("y", [2, 4]))],
            [X],
            [tensor("y", [2, 4])],
            "needs an output that repeats",
        ),
        (
            [op("BroadcastTo", [[X]], tensor("y", [3]))],
            [X],
            [tensor("y", [3])],
            "needs an output that repeats",
        ),
        (
            [op("Add", [[X], [tensor("c", [2, 3], value=[1.0, 2.0])]], Y)],
            [X],
            [Y],
            r"constant 'c' must have as many values as its shape \[2, 3\], not 2",
        ),
        (
            [op("Add", [[X], [tensor("c", [-1, 3], value=1.0)]], Y)],
            [X],
            [Y],
            r"constant 'c' must have as many values as its shape \[-1, 3\], not 1",
        ),
        (
            [op("Add", [[X], [tensor("x", [1], value=1.0)]], Y)],
            [X],
            [Y],
            "tensor 'x' must be defined once, it is a",
        ),
        ([op("Conv2D", [[X], [X]], Y)], [X], [Y], "operator Conv2D needs an image and filters of four axes"),
    ],
)
def test_what_a_file_must_not_hold(ops: Any, inputs: Any, outputs: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load(composite(ops, inputs, outputs))


def test_two_results_are_one_too_many() -> None:
    two = op("Abs", [[X]], Y)
    two["output_desc"] = [Y, tensor("z", [2, 3])]
    with pytest.raises(GraphError, match="operator Abs of 'y' must have one output, not 2"):
        load(composite([two], [X], [Y]))


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        ([-1, 3], {"x": (4, 3)}, None),
        ([-1, 3], {}, r"input 'x' has a dynamic shape, not \[-1, 3\]; say it: --input_shape x:DIMS"),
        ([-1, 3], {"x": (4, 2)}, r"option shapes: 'x' must fit \[-1, 3\] of the file, not \[4, 2\]"),
        ([-1, 3], {"x": (4, 3, 1)}, "must fit"),
        ([-1, 3], {"x": (4,)}, "must fit"),
        ([-1, 3], {"x": (0, 3)}, "must fit"),
        ([-1, 3], {"z": (4, 3)}, "option shapes: 'z' is not an input of the composite"),
        ([2, 3], {"x": (2, 3)}, None),
    ],
)
def test_open_sizes_are_bound(declared: Any, given: Any, message: str | None) -> None:
    x, y = tensor("x", declared), tensor("y", declared)
    data = composite([op("Abs", [[x]], y)], [x], [y])
    if message is None:
        assert load(data, shapes=given).outputs[0].shape == given["x"]
        return
    with pytest.raises(InputError, match=message):
        load(data, shapes=given)


def test_results_that_are_what_they_were_made_of_are_named() -> None:
    """A Reshape to the same shape makes a tensor of its own; a constant may be written twice."""
    same, one = op("Reshape", [[X]], Y), tensor("c", [1], value=2.0)
    z, w = tensor("z", [2, 3]), tensor("w", [2, 3])
    ops = [same, op("Mul", [[Y], [one]], z), op("Add", [[z], [one]], w)]
    graph = load(composite(ops, [X], [Y, w, Y]))
    assert [item.name for item in graph.outputs] == ["y", "w"]
    assert [item.op_type for item in graph.nodes] == ["Identity", "Mul", "Add"]
    (held,) = graph.constants
    assert held.constant is not None
    assert held.constant.array().tolist() == [2.0]


def test_what_nobody_reads_is_left_out() -> None:
    unread = op("Add", [[X], [tensor("c", [1], value=2.0)]], tensor("z", [2, 3]))
    graph = load(composite([unread, op("Abs", [[X]], Y)], [X], [Y]))
    assert [item.op_type for item in graph.nodes] == ["Abs"]
    assert list(graph.constants) == []
