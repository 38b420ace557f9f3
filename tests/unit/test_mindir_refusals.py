"""What primitives and files of MindIR cannot be, each said with its subject, and what hands values on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError, UnsupportedOperatorError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.fusing import random
from tests.support.mindir_nets import constant, network, node, put
from tests.unit.test_mindir_primitives import (
    DEEP,
    FILTERS,
    NORM,
    OTHER,
    ROWS,
    WHOLE,
    Primitive,
    X,
    arrays_of,
    loaded,
)

POOL = {"kernel_size": 2, "strides": 2}
NORMS = [X, *NORM]
REFUSED: list[tuple[str, Sequence[Any], dict[str, Any], str]] = [
    ("Conv2D", [X, FILTERS], {"pad_mode": "full"}, "has a pad_mode that is not known, not full"),
    ("Conv2D", [X, FILTERS], {"pad_mode": 3}, "has a pad_mode that is not known, not 3"),
    ("Conv2D", [X, FILTERS], {"format": "NHWC"}, "must have the format NCHW, not NHWC"),
    ("Conv2D", [X, FILTERS], {"pad_mode": "pad", "pad": (1, 1, 1)}, "needs four paddings"),
    ("Conv2D", [X, FILTERS], {"pad_mode": "pad", "pad": (1, 1, 1, -1)}, "needs four paddings"),
    ("Conv2D", [X[0], FILTERS], {}, "needs tensors of four axes"),
    ("Conv2D", [X, FILTERS[0]], {}, "needs tensors of four axes"),
    ("MaxPool", [X, 2, 2, "pad"], {}, "must pool with pad_mode same or valid, not pad"),
    ("MaxPool", [X, (2, 0), 2], {}, "needs a kernel_size of two positive numbers"),
    ("MaxPool", [X, 2, 2, "valid", 1], {}, "must have the format NCHW, not 1"),
    ("AvgPool3D", [X], POOL, "must pool a depth of 1"),
    ("AvgPool3D", [X[:, None]], POOL, "must pool a depth of 1"),
    ("AvgPool3D", [DEEP], {**POOL, "format": "NDHWC"}, "must have the format NCHW, not NDHWC"),
    ("AvgPool3D", [DEEP], {**POOL, "pad_list": (1, 0, 0)}, "needs paddings of height and width"),
    ("AvgPool3D", [DEEP], {**POOL, "pad_list": (0, 1, 0, 0, 0, 0)}, "needs paddings of height and width"),
    ("AvgPool3D", [DEEP], {**POOL, "pad_list": (0, 0, 1, 0, 0, -1)}, "needs paddings of height and width"),
    ("AvgPool3D", [DEEP], {**POOL, "pad_list": (0, 0)}, "needs paddings of height and width"),
    ("AvgPool3D", [DEEP], {**POOL, "divisor_override": 3}, "must not override its divisor"),
    ("BatchNorm", [*NORMS, True], {}, "must not be in training"),
    ("BatchNorm", [*NORMS, False, 0.1, 0.9, "NHWC"], {}, "must have the format NCHW"),
    ("LayerNorm", [X, FILTERS[0, 0], FILTERS[0, 0], 4], {}, "must scale the axes that it normalises, not 4"),
    (
        "LayerNorm",
        [X, FILTERS[0, 0], FILTERS[0, 0], -5],
        {},
        "must scale the axes that it normalises, not -5",
    ),
    ("LayerNorm", [X, NORM[0], NORM[0], 2], {}, "must scale the axes that it normalises, not 2"),
    ("GroupNorm", [X, None, NORM[0], NORM[0]], {}, "needs integers as num_groups"),
    ("Gather", [ROWS, np.zeros(2, np.int32), 0, 1], {}, "must not have batch_dims, not 1"),
    ("StridedSlice", [X, (0,), (1,), (1,), 0, 0, 1], {}, "must have no ellipsis_mask and no new_axis_mask"),
    (
        "StridedSlice",
        [X, (0,), (1,), (1,), 0, 0, 0, 1],
        {},
        "must have no ellipsis_mask and no new_axis_mask",
    ),
    ("StridedSlice", [X, (0,), (1,), (0,)], {}, "needs a begin, an end and a stride for each axis"),
    ("StridedSlice", [X, (0, 0), (1,), (1,)], {}, "needs a begin, an end and a stride for each axis"),
    ("StridedSlice", [X, (0,), (1,), (1, 1)], {}, "needs a begin, an end and a stride for each axis"),
    ("StridedSlice", [X, (0,) * 5, (1,) * 5, (1,) * 5], {}, "needs a begin, an end and a stride for"),
    ("Slice", [X, (0, 0), (1,)], {}, "needs a begin and a size for each axis"),
    ("Pad", [ROWS], {"paddings": 1}, "needs paddings of each axis"),
    ("Pad", [ROWS], {"paddings": ((1, 2), 3)}, "needs paddings of each axis"),
    ("Pad", [ROWS], {"paddings": ((1, 2), (3, 0, 0))}, "needs paddings of each axis"),
    ("Pad", [ROWS], {"paddings": ((1, 2), (3, "x"))}, "needs paddings of each axis"),
    ("ResizeBilinearV2", [X, (3, 3, 3), False, True], {}, "needs a tensor of four axes and a size of two"),
    ("ResizeBilinearV2", [ROWS, (3, 3), False, True], {}, "needs a tensor of four axes and a size of two"),
    ("Add", [WHOLE.astype(np.int8), 300], {}, "has a number that its type cannot hold, not 300"),
    ("Add", [ROWS, "x"], {}, "needs a tensor as input 1"),
    ("Add", [ROWS], {}, "needs a tensor as input 1"),
    ("Softmax", [ROWS, np.zeros((), np.int64)], {}, "needs a constant as axis, not in1"),
    ("Softmax", [ROWS, (0, 1)], {}, "needs one integer as axis"),
    ("Softmax", [ROWS, 1.5], {}, "needs integers as axis"),
    ("Elu", [ROWS, "x"], {}, "needs a number as alpha, not x"),
    ("Concat", [ROWS], {}, "needs tensors as input 0"),
    ("Concat", [()], {}, "needs tensors as input 0"),
    ("Concat", [(ROWS, 1)], {}, "needs tensors as input 0"),
    ("Concat", [], {}, "needs tensors as input 0"),
    ("Split", [ROWS, 0, 2], {}, "does not say what it makes"),
    ("ArgMaxWithValue", [ROWS], {}, "does not say what it makes"),
]


@pytest.mark.parametrize(("kind", "given", "attributes", "message"), REFUSED)
def test_what_a_primitive_cannot_be_is_said(
    tmp_path: Path, kind: str, given: Sequence[Any], attributes: Mapping[str, Any], message: str
) -> None:
    case = Primitive(kind, given, np.add, attributes)
    with pytest.raises(InputError, match=rf"node 'layer-op0' \({kind}\) {message}"):
        loaded(tmp_path, case, [*arrays_of(given), X][:1])


def test_a_transposed_convolution_needs_to_know_what_it_makes(tmp_path: Path) -> None:
    """Of an open size no padding follows."""
    for dims in ((2, 3, 5, -1), (2, 3, 5)):
        model = network("Conv2DTranspose", [X, random(4, 3, 1, 1)], [X], {"stride": 1})
        (shape,) = (item for node in model.graph.node for item in node.attribute if item.name == "shape")
        shape.tensors[0].dims[:] = dims
        with pytest.raises(InputError, match="needs known sizes"):
            read(tmp_path, model)


def read(folder: Path, model: Any) -> Graph:
    path = folder / "net.mindir"
    path.write_bytes(model.SerializeToString())
    return asim.load(path)


def _two_outputs(model: Any) -> None:
    model.graph.node[-1].output.append("more")


def _no_value(model: Any) -> None:
    del _constant(model).attribute[:]


def _two_values(model: Any) -> None:
    held = _constant(model).attribute
    held.add().CopyFrom(held[0])


def _constant(model: Any) -> Any:
    return next(node for node in model.graph.node if node.op_type == "Constant")


def _open_rank(model: Any) -> None:
    model.graph.input[0].tensor[0].dims[:] = [-2]


def _two_tensors(model: Any) -> None:
    model.graph.input[0].tensor.add()


def _item(place: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        node(model.graph, "MakeTuple", "pair", ["net:made"])
        node(model.graph, "TupleGetItem", "item", ["pair", constant(model.graph, "place", place)])

    return change


def _item_of_a_tensor(model: Any) -> None:
    node(model.graph, "TupleGetItem", "item", ["net:made", _constant(model).output[0]])


def _item_of_nothing(model: Any) -> None:
    node(model.graph, "TupleGetItem", "item", ["net:made"])


def _output_of_a_number(model: Any) -> None:
    model.graph.output.add(name=_constant(model).output[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_two_outputs, "must have one output, not 2"),
        (_no_value, "has no value, or one of an older form"),
        (_two_values, "has no value, or one of an older form"),
        (_open_rank, "input 'in0' has an open rank"),
        (_two_tensors, "input 'in0' must be a tensor"),
        (_item(1), "reads an item that nothing makes, not 1"),
        (_item(-1), "reads an item that nothing makes, not -1"),
        (_item("x"), "reads an item that nothing makes, not x"),
        (_item_of_a_tensor, "reads an item that nothing makes, not 1"),
        (_item_of_nothing, "reads an item that nothing makes, not None"),
        (_output_of_a_number, "has an output that is no tensor"),
    ],
)
def test_what_a_file_cannot_hold_is_said(tmp_path: Path, change: Callable[[Any], None], message: str) -> None:
    model = network("Softmax", [ROWS, 1], [ROWS])
    change(model)
    with pytest.raises(InputError, match=message):
        read(tmp_path, model)


def test_items_orders_and_tensors_that_are_constants(tmp_path: Path) -> None:
    """What hands a value on is no operator; a tensor of the file is a constant with its values."""
    model = network("Add", [ROWS, 1.0], [ROWS])
    graph = model.graph
    put(_constant(model).attribute[0], "value", OTHER)
    for kind, name, inputs in (
        ("UpdateState", "state", ["net:made"]),
        ("Depend", "kept", ["net:made", "state"]),
        ("Load", "loaded", ["kept", "state"]),
        ("MakeTuple", "inner", ["loaded", "net:in0"]),
        ("MakeList", "outer", ["inner", "net:made"]),
    ):
        node(graph, kind, name, inputs)
    graph.output[0].name = "outer"
    read_again = read(tmp_path, model)
    assert [item.op_type for item in read_again.nodes] == ["Add", "Identity", "Identity"]
    assert [tensor.name for tensor in read_again.outputs] == ["layer-op0", "in0_output", "layer-op0_output"]
    made = evaluate(read_again, default_opset(), {"in0": ROWS})
    for one, other in zip(made, (ROWS + OTHER, ROWS, ROWS + OTHER), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_that_are_open_stay_open(tmp_path: Path) -> None:
    model = network("Neg", [ROWS], [ROWS])
    for proto in (model.graph.input[0].tensor[0], model.graph.node[-1].attribute[0].tensors[0]):
        proto.dims[0] = -1
    graph = read(tmp_path, model)
    assert [(tensor.shape or ())[1:] for tensor in (*graph.inputs, *graph.outputs)] == [(4,), (4,)]
    assert not any(tensor.is_static for tensor in (*graph.inputs, *graph.outputs))


@pytest.mark.parametrize("scope", ["Default/layer-op0", ""])
def test_unknown_primitives_are_named_by_their_place(tmp_path: Path, scope: str) -> None:
    model = network("NobodyKnows", [ROWS], [ROWS])
    model.graph.node[-1].domain = scope
    with pytest.raises(UnsupportedOperatorError) as caught:
        read(tmp_path, model)
    assert list(caught.value.operators) == [("mindspore::NobodyKnows", scope or "net:made")]
