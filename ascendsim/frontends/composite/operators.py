"""AKG's operators in the operators of the graph.

Most have an ONNX operator of the same meaning under another name; the others are made of several nodes here.
Matrices and tensors in FRACTAL_NZ keep their stored shape: an operand in row-major form that meets one is
brought into that shape first (`Rows.tiled_like`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import FRACTAL_ROWS, Format
from ascendsim.frontends.composite.reading import OperatorRecord
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.ops.fused.composite_members import DOMAIN

TILED = Format.FRACTAL_NZ.value

# Operators with the same operands in ONNX; two names for one operator come from two generations of MindSpore
PLAIN: Mapping[str, str] = {
    "Add": "Add",
    "TensorAdd": "Add",
    "Sub": "Sub",
    "Mul": "Mul",
    "RealDiv": "Div",
    "Div": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "AddN": "Sum",
    "Pow": "Pow",
    "Mod": "Mod",
    "FloorMod": "Mod",
    "Abs": "Abs",
    "Neg": "Neg",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Reciprocal": "Reciprocal",
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "Erf": "Erf",
    "Round": "Round",
    "Floor": "Floor",
    "Ceil": "Ceil",
    "Sin": "Sin",
    "Cos": "Cos",
    "Asin": "Asin",
    "ACos": "Acos",
    "Acos": "Acos",
    "Atan": "Atan",
    "Sign": "Sign",
    "ReLU": "Relu",
    "Relu": "Relu",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalNot": "Not",
    "IsNan": "IsNaN",
    "IsInf": "IsInf",
    "Select": "Where",
}
CHIP: Mapping[str, str] = {"Rsqrt": "Rsqrt", "Square": "Square"}  # operators of domain "ascend"
REDUCTIONS: Mapping[str, str] = {
    "ReduceSum": "ReduceSum",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceMean": "ReduceMean",
    "ReduceProd": "ReduceProd",
    "ReduceAll": "ReduceMin",
    "ReduceAny": "ReduceMax",
}
SHAPES = frozenset({"Reshape", "ExpandDims", "Squeeze", "Flatten"})
MATMULS = frozenset({"MatMul", "BatchMatMul"})


class Translator:
    """Adds the nodes of one operator after the other.

    Args:
        builder: Where they go.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.updated: list[Tensor] = []  # new values of inputs that the kernel overwrites
        self._special: dict[str, Callable[[OperatorRecord, list[Tensor]], Tensor]] = {
            "Cast": self._cast,
            "BroadcastTo": self._broadcast,
            "Tile": self._broadcast,
            "Transpose": self._transpose,
            "Concat": self._concat,
            "NotEqual": self._not_equal,
            "FloorDiv": self._floor_div,
            "OneHot": self._one_hot,
            "Assign": self._assign,
            "InplaceAssign": self._inplace_assign,
            "ElemAny": self._elem_any,
            "Conv2D": self._conv,
        }

    def knows(self, name: str) -> bool:
        """Whether there is a translation for an operator."""
        tables = (PLAIN, CHIP, REDUCTIONS, SHAPES, MATMULS, self._special)
        return any(name in table for table in tables)

    def result(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        """The operator's output; its shape may still differ from the file's in axes of size 1.

        Args:
            record: The operator; its output's shape with all dynamic dimensions bound.
            inputs: Its operands.

        Raises:
            GraphError: If a rule of an operator is broken.
        """
        name = record.name
        if name in SHAPES:
            return self.reshaped(inputs[0], self._target(record, inputs[0]))
        if name in MATMULS:
            return self._matmul(record, inputs)
        if name in REDUCTIONS:
            return self._reduction(record, inputs)
        if name in self._special:
            return self._special[name](record, inputs)
        if record.outputs[0].format == TILED:
            inputs = [
                self.tiled_like(t, record.outputs[0].shape, one.format)
                for t, one in zip(inputs, record.inputs, strict=True)
            ]
        op = PLAIN.get(name)
        if op is None:
            return self.builder.op(CHIP[name], *inputs, domain=DOMAIN)
        if op == "Add" and len(inputs) != 2:
            op = "Sum"
        return self.builder.op(op, *inputs)

    def reshaped(self, tensor: Tensor, shape: Sequence[Any]) -> Tensor:
        """The tensor in another shape."""
        if tensor.shape == tuple(shape):
            return tensor
        return self.builder.op("Reshape", tensor, [int(dim) for dim in shape])

    def tiled_like(self, tensor: Tensor, shape: Sequence[Any], format: str) -> Tensor:
        """A row-major operand [.., M, N] in the tiled form [.., N1, M1, M0, N0] of the tensor that it meets.

        Where M or N is 1 the elements keep their order; else they are transposed.
        """
        own = tensor.static_shape
        if format == TILED or tensor.elements == 1 or len(own) == len(shape):
            return tensor  # of the same rank: the result of a reduction, which is tiled already
        *batch, m, n = (1, 1, *own) if len(own) < 2 else own
        if any(dim != 1 and dim % FRACTAL_ROWS for dim in (m, n)):
            raise GraphError(
                f"tensor {tensor.name!r}",
                f"needs whole fractals of {FRACTAL_ROWS} to meet a tensor in {TILED}",
                list(own),
            )
        m1, m0 = (m // FRACTAL_ROWS, FRACTAL_ROWS) if m > 1 else (1, 1)
        n1, n0 = (n // FRACTAL_ROWS, FRACTAL_ROWS) if n > 1 else (1, 1)
        if m == 1 or n == 1:
            return self.reshaped(tensor, (*batch, n1, m1, m0, n0))
        split = self.reshaped(tensor, (*batch, m1, m0, n1, n0))
        axes = [*range(len(batch)), *(len(batch) + axis for axis in (2, 0, 1, 3))]
        return self.builder.op("Transpose", split, perm=axes)

    def _target(self, record: OperatorRecord, source: Tensor) -> tuple[int, ...]:
        """The output's shape; what the file leaves open is taken from the attribute `shape` or from the
        size.
        """
        declared = record.outputs[0].shape
        if all(isinstance(dim, int) for dim in declared):
            return declared  # type: ignore[return-value]
        given = record.attributes.get("shape")
        dims = (
            [int(dim) for dim in given]
            if isinstance(given, list)
            else [dim if isinstance(dim, int) else -1 for dim in declared]
        )
        if dims.count(-1) > 1:
            raise GraphError(
                f"operator {record.name}", "needs a shape with one open dimension at most", list(declared)
            )
        known = math.prod(dim for dim in dims if dim != -1)
        return tuple(dim if dim != -1 else source.elements // max(1, known) for dim in dims)

    def _cast(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        return self.builder.op("Cast", inputs[0], to=record.outputs[0].dtype)

    def _reduction(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        axis = _steering(record, "axis")
        axes = None if axis is None else [int(one) for one in (axis if isinstance(axis, list) else [axis])]
        source = inputs[0]
        if source.dtype is DType.BOOL:  # all and any are the least and the greatest of 0 and 1
            source = self.builder.op("Cast", source, to=DType.FLOAT16)
        keep = int(bool(record.attributes.get("keep_dims", False)))
        result = self.builder.op(REDUCTIONS[record.name], source, axes or None, keepdims=keep)
        return result if inputs[0].dtype is not DType.BOOL else self.builder.op("Cast", result, to=DType.BOOL)

    def _broadcast(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        """BroadcastTo, which stands for Tile as well."""
        source = inputs[0]
        target = self._target(record, source)
        own = (1,) * (len(target) - len(source.static_shape)) + source.static_shape
        if len(own) != len(target) or any(new % max(1, old) for new, old in zip(target, own, strict=True)):
            raise GraphError(
                f"operator {record.name}", f"needs an output that repeats its input {list(own)}", list(target)
            )
        if all(old in (1, new) for new, old in zip(target, own, strict=True)):
            return self.builder.op("Expand", source, list(target))
        return self.builder.op(
            "Tile", self.reshaped(source, own), [new // old for new, old in zip(target, own, strict=True)]
        )

    def _transpose(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        perm = _steering(record, "perm")
        return self.builder.op(
            "Transpose", inputs[0], perm=[int(axis) for axis in perm] if isinstance(perm, list) else None
        )

    def _concat(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        return self.builder.op("Concat", *inputs, axis=int(record.attributes.get("axis", 0)))

    def _not_equal(self, _record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        return self.builder.op("Not", self.builder.op("Equal", *inputs))

    def _floor_div(self, _record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        return self.builder.op("Floor", self.builder.op("Div", *inputs))

    def _elem_any(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        """1 if any element is positive, else 0, in the result's type (AKG, composite_topi: `elem_any`)."""
        source = inputs[0]
        if source.dtype is not DType.BOOL:
            zero = self.builder.constant(np.zeros((), source.element_type.numpy), "elem_any_zero")
            source = self.builder.op("Greater", source, zero)
        found = self.builder.op(
            "ReduceMax", self.builder.op("Cast", source, to=DType.FLOAT16), None, keepdims=0
        )
        return self.builder.op("Cast", found, to=record.outputs[0].dtype)

    def _conv(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        """A convolution of images [N, H, W, C] and filters [O, KH, KW, I], as AKG's kernel takes them, or in
        NCHW where the file says so.

        AKG's kernel does not pad: where the result has the size that follows without, an operator before has
        padded, whatever `pad_list` says.
        """
        image, filters, *others = inputs
        if others or any(len(tensor.static_shape) != 4 for tensor in inputs):
            shapes = [list(tensor.static_shape) for tensor in inputs]
            raise GraphError(f"operator {record.name}", "needs an image and filters of four axes", shapes)
        last = "NCHW" not in (record.inputs[0].format, record.attributes.get("data_format"))
        if last:
            image, filters = (self.builder.op("Transpose", tensor, perm=[0, 3, 1, 2]) for tensor in inputs)
        strides, dilations = (
            [int(one) for one in record.attributes.get(name, (1, 1))][-2:] for name in ("stride", "dilation")
        )
        sizes = [
            (size - (taps - 1) * dilation - 1) // stride + 1
            for size, taps, dilation, stride in zip(
                image.static_shape[2:], filters.static_shape[2:], dilations, strides, strict=True
            )
        ]
        top, bottom, left, right = (int(one) for one in record.attributes.get("pad_list", (0,) * 4))
        wanted = [*record.outputs[0].shape[1:3]] if last else [*record.outputs[0].shape[2:4]]
        result = self.builder.op(
            "Conv",
            image,
            filters,
            strides=strides,
            dilations=dilations,
            pads=[0] * 4 if wanted == sizes else [top, left, bottom, right],
            group=int(record.attributes.get("group", 1)),
        )
        if result.dtype is not record.outputs[0].dtype:
            result = self.builder.op("Cast", result, to=record.outputs[0].dtype)
        return self.builder.op("Transpose", result, perm=[0, 2, 3, 1]) if last else result

    def _one_hot(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        indices, on, off = inputs
        values = self.builder.op("Concat", self.reshaped(off, (1,)), self.reshaped(on, (1,)), axis=0)
        if on.constant is not None and off.constant is not None:
            values = self.builder.constant(
                np.concatenate([off.constant.array().reshape(1), on.constant.array().reshape(1)]),
                "one_hot_values",
            )
        depth = self.builder.constant(np.asarray(int(record.attributes["depth"]), np.int64), "one_hot_depth")
        return self.builder.op("OneHot", indices, depth, values, axis=int(record.attributes.get("axis", -1)))

    def _assign(self, _record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        target, value = inputs
        return self.builder.op("Assign", target, self.reshaped(value, target.static_shape), domain=DOMAIN)

    def _inplace_assign(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        """The first operand is overwritten by the second; the result carries the third.

        With `fake_output` the result has no memory of its own, so it is the overwritten tensor where both
        hold the same value.
        """
        target, value, carried = inputs
        new = self.builder.op("Assign", target, self.reshaped(value, target.static_shape), domain=DOMAIN)
        if carried is value and record.attributes.get("fake_output"):
            return self.builder.op("Identity", self.reshaped(new, record.outputs[0].shape))
        self.updated.append(new)
        return self.builder.op("Identity", carried)

    def _matmul(self, record: OperatorRecord, inputs: list[Tensor]) -> Tensor:
        flags = record.attributes
        transposes = [
            bool(flags.get(a, flags.get(b, False)))
            for a, b in (("transpose_a", "transpose_x1"), ("transpose_b", "transpose_x2"))
        ]
        formats = [TILED if one.format == TILED else "ND" for one in (*record.inputs[:2], record.outputs[0])]
        product = self.builder.op(
            "CompositeMatMul",
            *inputs[:2],
            domain=DOMAIN,
            format_a=formats[0],
            format_b=formats[1],
            format_out=formats[2],
            transpose_a=int(transposes[0]),
            transpose_b=int(transposes[1]),
            to=record.outputs[0].dtype,
        )
        if len(inputs) == 2:
            return product
        bias = inputs[2]
        if formats[2] == TILED:
            bias = self.tiled_like(bias, product.static_shape, record.inputs[2].format)
        return self.builder.op("Add", product, bias)


def _steering(record: OperatorRecord, name: str) -> Any:
    """An attribute of an operator, which MindSpore 2 has as a constant second input; None without it."""
    if name in record.attributes or len(record.inputs) < 2:
        return record.attributes.get(name)
    given = record.inputs[1]
    if given.value is None:
        raise GraphError(f"operator {record.name}", f"needs a constant {name}", f"the input {given.name}")
    return given.value
