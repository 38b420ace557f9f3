"""Float operators between DequantizeLinear and QuantizeLinear become operators of integers.

    DequantizeLinear ... -> Conv [-> Relu | Clip] -> QuantizeLinear      =>      QLinearConv

That is what onnxruntime makes of such a model as well, so values are the same. It decides what the values are
and is done whatever fusion is asked for. Relu and Clip become bounds of the result's integers: rounding keeps
order, so it makes no difference which comes first. What cannot be joined stays in floating point between its
pairs; the records say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, AttributeValue, Graph, Node, Tensor
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.fusion.checks import known_values, scalar
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.quant.pairs import (
    Quantised,
    RefusedError,
    activation,
    bias_of,
    dequantised,
    integers,
    only_reader,
    quantised_by,
)
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.passes.rewriting.report import PatternRecord

NAME = "QuantizedOperators"
MICROSOFT = "com.microsoft"
NO_ATTRIBUTES: Mapping[str, AttributeValue] = MappingProxyType({})
# what only moves, repeats or picks elements of its first input
MOVES = frozenset(
    [
        "MaxPool",
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Slice",
        "Gather",
        "Split",
        "Expand",
        "Tile",
        "DepthToSpace",
        "SpaceToDepth",
        "Identity",
    ]
)


# those whose result has just the elements of the input
PLACES = frozenset(
    ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "DepthToSpace", "SpaceToDepth")
)


@dataclass(frozen=True, slots=True)
class _Site:
    """A float operator, what of it is bounds, and the quantisation behind it.

    Attributes:
        node: The operator.
        tail: Relu or Clip behind it, if any, and QuantizeLinear; empty if the result stays in floating point.
        result: What QuantizeLinear makes.
    """

    graph: Graph
    opset: OpSet
    node: Node
    tail: tuple[Node, ...] = ()
    result: Quantised | None = None

    @property
    def quantised(self) -> Quantised:
        """The result.

        Raises:
            RefusedError: If it stays in floating point.
        """
        if self.result is None:
            raise RefusedError("the result is not quantised, or has other readers")
        return self.result

    def bounds(self) -> dict[str, AttributeValue]:
        """Bounds of the result's integers that are narrower than its type."""
        result = self.quantised
        low, high = -np.inf, np.inf
        for node in self.tail[:-1]:
            clip = (0.0, np.inf) if node.op_type == "Relu" else _clip(node)
            low, high = np.clip(low, *clip), np.clip(high, *clip)
        limits = np.iinfo(result.kind.numpy)
        found: dict[str, AttributeValue] = {}
        for name, bound, limit in (("low", low, limits.min), ("high", high, limits.max)):
            if np.isfinite(bound):
                whole = int(np.clip(np.rint(np.float32(bound) / result.number) + result.shift, -999, 999))
                if (whole - limit) * (1 if name == "low" else -1) > 0:
                    found[name] = whole
        return found

    def make(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, AttributeValue] = NO_ATTRIBUTES,
    ) -> Tensor:
        """A node in the place of the operator, of ONNX where that has the type; its one result."""
        domain = next(
            item for item in ("", MICROSOFT, "ascend") if self.opset.find(op_type, item) is not None
        )
        name = self.graph.fresh(f"{self.node.name}_int8")
        made = self.graph.add_node(op_type, inputs, 1, name=name, domain=domain)
        self.graph.place_before(made, self.node)  # ties of the execution order fall as in the file
        made.attributes.update(attributes)
        made.origin.update(self.node.origin)
        self.opset.get(made).infer(InferContext(made))
        return made.output

    def put(self, tensor: Tensor) -> None:
        """Lets a tensor stand for the result."""
        replace_root(self.graph, self.tail[-1] if self.tail else self.node, tensor)


def _clip(node: Node) -> tuple[float, float]:
    ends = []
    for port, otherwise in ((1, -np.inf), (2, np.inf)):
        tensor = node.input(port)
        value = otherwise if tensor is None else scalar(tensor)
        if value is None:
            raise RefusedError("the bounds behind it are not known")
        ends.append(value)
    return ends[0], ends[1]


def _conv(site: _Site) -> None:
    _convolve(site, "QLinearConv", 0)


def _conv_transpose(site: _Site) -> None:
    if int(site.node.attr("group", 1)) != 1:
        raise RefusedError("it has groups")
    _convolve(site, "QuantConvTranspose", 1)


def _convolve(site: _Site, name: str, axis: int) -> None:
    """A convolution whose filters lie along an axis of the weights; its result may stay in floating point."""
    x = activation(site.node.input(0), "the data")
    weight, bias = _weights(site, x, axis)
    inputs = [*x.inputs, *weight.inputs, *_result(site), bias]
    _fill_zeros(site, inputs, ((2, x.kind), (5, DType.INT8)))
    bounds = {} if site.result is None else site.bounds()
    site.put(site.make(name, inputs, {**site.node.attributes, **bounds}))


def _result(site: _Site) -> tuple[Tensor | None, Tensor | None]:
    """Scale and zero point of the result; none if it stays in floating point."""
    y = site.result
    return (None, None) if y is None else (y.scale, y.zero or _zero(site, y.kind))


def _gemm(site: _Site) -> None:
    node = site.node
    if node.input(2) is not None and float(node.attr("beta", 1.0)) != 1.0:
        raise RefusedError("the bias has a factor")
    if float(node.attr("alpha", 1.0)) != 1.0 and node.input(2) is not None:
        raise RefusedError("the product has a factor and a bias")
    x = activation(node.input(0), "the data")
    weight, bias = _weights(site, x, 0 if node.attr("transB", 0) else 1)
    kept: dict[str, AttributeValue] = {name: int(node.attr(name, 0)) for name in ("transA", "transB")}
    kept["alpha"] = float(node.attr("alpha", 1.0))
    inputs = [*x.inputs, *weight.inputs, bias]
    _fill_zeros(site, inputs, ((2, x.kind), (5, DType.INT8)))
    if site.result is not None:
        y = site.result
        inputs += [y.scale, y.zero or _zero(site, y.kind)]
        kept |= site.bounds()
    site.put(site.make("QGemm", inputs, kept))


def _matmul(site: _Site) -> None:
    node = site.node
    a, found = activation(node.input(0), "the left matrix"), dequantised(node.input(1))
    if found is not None and found.tensor.is_constant:
        rank = len(found.tensor.static_shape)
        b = integers(site.graph, found, (rank - 1,), "the right matrix")
    else:
        b = activation(node.input(1), "the right matrix")
    inputs = [*a.inputs, *b.inputs, *_result(site)]
    _fill_zeros(site, inputs, ((2, a.kind), (5, b.kind)))
    site.put(site.make("QLinearMatMul", inputs, {} if site.result is None else site.bounds()))


def _weights(site: _Site, x: Quantised, axis: int) -> tuple[Quantised, Tensor | None]:
    """Weights as the Cube takes them, whose columns lie along an axis, and the bias."""
    found = dequantised(site.node.input(1))
    if found is None:
        raise RefusedError("the weights are not quantised")
    weight = integers(site.graph, found, (axis,), "the weights")
    columns = weight.tensor.static_shape[axis]
    shifted = site.result is not None and site.result.shift != (0 if site.result.kind is DType.INT8 else 128)
    return weight, bias_of(site.graph, site.node.input(2), x, weight, columns, shifted)


def _pairwise(name: str) -> Callable[[_Site], None]:
    def join(site: _Site) -> None:
        node, y = site.node, site.quantised
        if node.input_count != 2:
            raise RefusedError("it has not two operands")
        operands = [activation(tensor, "an operand") for tensor in node.inputs]
        _one_type([*operands, y])
        inputs = [tensor for item in operands for tensor in _plain(site, item)]
        site.put(site.make(name, [*inputs, y.scale, y.zero], site.bounds()))

    return join


def _unary(name: str, *attributes: str) -> Callable[[_Site], None]:
    def join(site: _Site) -> None:
        node, y = site.node, site.quantised
        x = activation(node.input(0), "the data")
        _one_type([x, y])
        kept = {key: node.attributes[key] for key in attributes if key in node.attributes}
        site.put(site.make(name, [*x.inputs, y.scale, y.zero], {**kept, **site.bounds()}))

    return join


def _pool(name: str) -> Callable[[_Site], None]:
    keys = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")
    return _unary(name, *keys)


def _concat(site: _Site) -> None:
    node, y = site.node, site.quantised
    parts = [activation(tensor, "a part") for tensor in node.inputs]
    _one_type([*parts, y])
    axis = int(node.attr("axis", 0))
    if all(part.equals(y) for part in parts) and not site.bounds():
        site.put(site.make("Concat", [part.tensor for part in parts], {"axis": axis}))
        return
    if site.bounds():
        raise RefusedError("there are bounds behind it")
    inputs: list[Tensor | None] = [y.scale, y.zero or _zero(site, y.kind)]
    inputs += [tensor for part in parts for tensor in _plain(site, part)]
    site.put(site.make("QLinearConcat", inputs, {"axis": axis}))


def _move(site: _Site) -> None:
    """What only moves elements moves integers; another scale behind it is a step of its own."""
    node = site.node
    x = activation(node.input(0), "the data")
    if len([tensor for tensor in node.outputs if tensor.uses]) != 1 or is_output(site.graph, node.output):
        raise RefusedError("it has several results")
    y = site.quantised
    made = site.make(node.op_type, [x.tensor, *node.inputs[1:]], node.attributes)
    if not x.equals(y) or site.bounds():
        _one_type([x, y])
        inputs = [made, x.scale, x.zero, y.scale, y.zero]
        made = site.make("QLinearLeakyRelu", inputs, {"alpha": 1.0, **site.bounds()})
    site.put(made)


def _resize(site: _Site) -> None:
    if site.node.attr("mode", "nearest") not in ("nearest", b"nearest"):
        raise RefusedError("it interpolates, which the chip does in floating point")
    _move(site)


RULES: dict[str, Callable[[_Site], None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _pairwise("QLinearAdd"),
    "Mul": _pairwise("QLinearMul"),
    "Sigmoid": _unary("QLinearSigmoid"),
    "Softmax": _unary("QLinearSoftmax", "axis"),
    "LeakyRelu": _unary("QLinearLeakyRelu", "alpha"),
    "AveragePool": _pool("QLinearAveragePool"),
    "GlobalAveragePool": _pool("QLinearGlobalAveragePool"),
    "Concat": _concat,
    "Resize": _resize,
} | dict.fromkeys(MOVES, _move)
BOUNDS = ("Relu", "Clip")
RECURRENT = ("LSTM", "GRU", "RNN")


def join_quantised(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Rewrites every operator that has quantised operands; one record a type of operator.

    Args:
        graph: Changed in place; types and shapes known as far as they can be.
        opset: Operators.
    """
    if not any(node.op_type == "DequantizeLinear" and not node.domain for node in graph.nodes):
        return []
    records: dict[str, PatternRecord] = {}
    for node in graph.topological():
        if node.graph is not graph or node.domain:
            continue
        if not any(map(dequantised, node.inputs)):
            _quantise_earlier(_site(graph, opset, node))
            continue
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        record = records.setdefault(node.op_type, PatternRecord("graph", NAME, node.op_type))
        record.matched += 1
        site = _site(graph, opset, node)
        nodes = (node, *site.tail)
        names = [item.name for item in nodes]
        sources = [tensor.producer for tensor in node.inputs if tensor is not None]
        rule = RULES.get(node.op_type, _bounds_alone if node.op_type in BOUNDS else _unknown)
        try:
            if any(item.control for item in nodes):
                raise RefusedError("a control edge holds it")
            with replacing(graph, nodes[::-1]):
                rule(site)
        except RefusedError as error:
            record.refuse(node.name, str(error))
            continue
        record.effect(names)
        remove_dead_from(*(source for source in sources if source is not None))
    for node in graph.nodes:
        if node.op_type == "DequantizeLinear" and not node.domain and node.required(0).is_constant:
            _to_floats(node, opset)
    return list(records.values())


def _quantise_earlier(site: _Site) -> None:
    """Quantises before elements change places, where what made them can do so on its way out, and constants
    among which Where chooses.
    """
    node = site.node
    if site.result is None or len(site.tail) > 1 or not node.input_count or node.control:
        return
    if node.op_type == "Where":
        _choose_bytes(site)
        return
    source, y = node.required(0), site.result
    if node.op_type not in PLACES or source.producer is None:
        return
    early = next((use.node.output for use in source.uses if _makes(use.node, source, y)), None)
    if early is None and (len(source.uses) != 1 or is_output(site.graph, source)):
        return
    with replacing(site.graph, (site.tail[-1], node)):
        if early is None:
            early = site.make("QuantizeLinear", [source, y.scale, y.zero], site.tail[-1].attributes)
        site.put(site.make(node.op_type, [early, *node.inputs[1:]], node.attributes))


def _makes(node: Node, source: Tensor, wanted: Quantised) -> bool:
    """Whether a node quantises a tensor just so."""
    if node.op_type != "QuantizeLinear" or node.domain or node.required(0) is not source:
        return False
    made = quantised_by(node)
    return made.single and made.equals(wanted)


def _choose_bytes(site: _Site) -> None:
    node, y = site.node, site.quantised
    choices = [node.required(1), node.required(2)]
    if not all(tensor.is_constant for tensor in choices):
        return
    with replacing(site.graph, (site.tail[-1], node)):
        bytes_ = [
            _constant_bytes(site, Quantised(tensor, y.scale, y.zero, y.axis, floats=True))
            for tensor in choices
        ]
        site.put(site.make("Where", [node.required(0), *bytes_]))


def _to_floats(node: Node, opset: OpSet) -> None:
    """A constant that stays in floating point needs no operator."""
    graph, result, definition = node.graph, node.output, opset.get(node)
    assert graph is not None
    sources = [tensor for tensor in node.inputs if tensor is not None]
    if not result.is_static or not all(source.is_constant for source in sources):
        return

    def values(*arrays: Array) -> Array:
        return np.asarray(definition.compute(node, arrays, [result.element_type.numpy])[0])

    kind, shape = result.element_type, result.static_shape
    replace_root(graph, node, lazy_constant(graph, f"{result.name}_floats", kind, shape, sources, values))


def _site(graph: Graph, opset: OpSet, node: Node) -> _Site:
    tail: list[Node] = []
    reader = only_reader(node.output)
    if reader is not None and reader.op_type in BOUNDS and not reader.domain:
        tail.append(reader)
        reader = only_reader(reader.output)
    if reader is None or reader.op_type != "QuantizeLinear" or reader.domain:
        return _Site(graph, opset, node)
    made = quantised_by(reader)
    if not made.single or made.kind not in (DType.INT8, DType.UINT8):
        return _Site(graph, opset, node)
    return _Site(graph, opset, node, (*tail, reader), made)


def _bounds_alone(site: _Site) -> None:
    """Relu or Clip between pairs: the identity with bounds."""
    x, y = activation(site.node.input(0), "the data"), site.quantised
    _one_type([x, y])
    whole = _Site(site.graph, site.opset, site.node, (site.node, *site.tail), y)
    inputs = [*x.inputs, y.scale, y.zero]
    site.put(site.make("QLinearLeakyRelu", inputs, {"alpha": 1.0, **whole.bounds()}))


def _unknown(site: _Site) -> None:
    if site.node.op_type in RECURRENT:
        raise RefusedError("recurrent layers have a form in float16 only")
    raise RefusedError("the chip has no such operator of integers")


def _one_type(items: Sequence[Quantised]) -> None:
    kinds = {item.kind for item in items}
    if len(kinds) > 1:
        raise RefusedError(f"its tensors are {' and '.join(sorted(kind.value for kind in kinds))}")


def _plain(site: _Site, item: Quantised) -> tuple[Tensor, Tensor, Tensor | None]:
    """Integers, scale and zero point of an operand; a constant is quantised now."""
    if not item.floats:
        return item.inputs
    return _constant_bytes(site, item), item.scale, item.zero


def _constant_bytes(site: _Site, item: Quantised) -> Tensor:
    """A constant of floats as the integers that QuantizeLinear makes of it."""
    tensor, scales = item.tensor, known_values(item.scale)
    zeros = np.zeros(1, np.int64) if item.zero is None else known_values(item.zero)
    if scales is None or zeros is None:
        raise RefusedError(f"scale and zero point of {tensor.name} are not known")
    limits, rank = np.iinfo(item.kind.numpy), len(tensor.static_shape)
    along = (-1,) + (1,) * (rank - item.axis % rank - 1) if scales.size > 1 else ()

    def values(array: Array) -> Array:
        whole = np.rint(array.astype(np.float32) / scales.reshape(along)) + zeros.reshape(
            along if zeros.size > 1 else ()
        )
        return np.asarray(np.clip(whole, limits.min, limits.max))

    shape = tensor.static_shape
    return lazy_constant(site.graph, f"{tensor.name}_bytes", item.kind, shape, [tensor], values)


def _zero(site: _Site, kind: DType) -> Tensor:
    """A zero point that the model left out."""
    return site.graph.add_constant(site.graph.fresh(f"{site.node.name}_zero"), np.zeros((), kind.numpy))


def _fill_zeros(site: _Site, inputs: list[Tensor | None], places: Sequence[tuple[int, DType]]) -> None:
    for place, kind in places:
        if inputs[place] is None:
            inputs[place] = _zero(site, kind)
