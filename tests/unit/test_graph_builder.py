"""GraphBuilder."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.text import to_text


def test_a_small_network():
    b = GraphBuilder("tiny", infer=lambda node: setattr(node.output, "shape", (1, 4, 8, 8)))
    x = b.input("x", (1, 3, 8, 8))
    w = b.weight("w", (4, 3, 1, 1))
    with b.scope("block"):
        y = b.op("Conv", x, w, None, strides=(1, 1), pads=[0, 0, 0, 0], group=None)
        y = b.op("Add", y, 2.0, name="plus")
    b.output(b.op("Relu", y), "out")
    assert (
        to_text(b.build())
        == """\
graph tiny {
  input %x: float32[1,3,8,8]
  const %w: float32[4,3,1,1] = absent "built without values"
  const %block/Add_constant: float32[] = [2.0]
  block/Conv: %block/Conv_out: ?[1,4,8,8] = Conv(%x, %w, _) {pads = [0, 0, 0, 0], strides = [1, 1]}
  block/plus: %block/plus_out: ?[1,4,8,8] = Add(%block/Conv_out, %block/Add_constant)
  Relu: %out: ?[1,4,8,8] = Relu(%block/plus_out)
  output %out
}
"""
    )


def test_plain_values_become_constants_of_fitting_types():
    b = GraphBuilder(dtype=DType.FLOAT16)
    x = b.input("x", ("n", 4))
    tokens = b.input("tokens", (1,), "int32")
    shape = b.op("Reshape", x, [2, -1])
    assert shape.producer.inputs[1].dtype is DType.INT64
    assert b.op("Mul", x, 0.5).producer.inputs[1].dtype is DType.FLOAT16
    assert b.op("Gather", x, 0).producer.inputs[1].dtype is DType.INT64
    assert b.op("Add", tokens, 1).producer.inputs[1].dtype is DType.INT32
    assert b.op("Where", True, x, x).producer.inputs[0].dtype is DType.BOOL
    assert b.op("Add", x, np.ones(4, np.float32)).producer.inputs[1].dtype is DType.FLOAT32
    assert b.constant([1.5, 2.5], dtype="float64").dtype is DType.FLOAT64


def test_several_outputs():
    b = GraphBuilder()
    values, indices = b.ops("TopK", b.input("x", (8,)), [3], outputs=["values", "indices"])
    assert (values.name, indices.name) == ("values", "indices")
    assert [tensor.index for tensor in (values, indices)] == [0, 1]
    assert len(b.ops("Split", values, outputs=2)) == 2


def test_lazy_weights():
    b = GraphBuilder()
    w = b.weight("w", (2,), lambda: np.array([1.0, 2.0], np.float32))
    np.testing.assert_array_equal(w.constant.array(), [1, 2])


def test_an_input_cannot_be_renamed_to_an_output():
    b = GraphBuilder()
    with pytest.raises(GraphError, match="cannot be renamed to output 'y'; pass it through an Identity node"):
        b.output(b.input("x", (1,)), "y")


def test_build_verifies():
    b = GraphBuilder("empty")
    b.input("x", (1,))
    with pytest.raises(GraphError, match="graph 'empty' must have an output"):
        b.build()


def test_an_output_keeps_its_name_unless_it_is_given_another() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    made = [b.op("Neg", x, name="minus"), b.op("Abs", x)]
    named = b.output(made[0]), b.output(made[1], "y"), b.output(x, "x")
    assert [tensor.name for tensor in named] == ["minus_out", "y", "x"]
    assert b.graph.outputs == list(named)
