"""What a run of a model with open shapes is given: accepted where it fits, refused in words that name it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.dynamic_inputs import (
    checked_choices,
    input_values,
    shapes_of_arrays,
    shapes_only,
    user_arrays,
)
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, InputWarning
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.unit.test_runtime_control_flow import halving_loop, two_branches

OPSET = default_opset()


def graph_of(**shapes: tuple[int | str | None, ...] | None) -> Graph:
    graph = Graph("g")
    for name, shape in shapes.items():
        graph.add_input(name, DType.FLOAT32, shape)
    return graph


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_shapes_are_those_of_the_model_or_the_users() -> None:
    graph = graph_of(x=(2, "n"), y=(3,))
    found = shapes_only(graph, OPSET, {"x": [2, 7]})
    assert {name: (value.dtype, value.shape, value.array) for name, value in found.items()} == {
        "x": (np.dtype(np.float32), (2, 7), None),
        "y": (np.dtype(np.float32), (3,), None),
    }
    assert shapes_only(graph_of(s=()), OPSET, {"s": ()})["s"].shape == ()
    assert shapes_only(graph_of(s=None), OPSET, {"s": (4, 5)})["s"].shape == (4, 5)


def test_arrays_say_the_shapes_of_open_inputs_and_of_those_with_the_same_names() -> None:
    graph = graph_of(x=("n", 3, "h", None), y=("n", "h"), z=("n", "m"), s=(4, 5), t=())
    found = shapes_of_arrays(graph, {"x": ones(2, 3, 8, 9), "s": ones(1), "t": ones()})
    assert found == {"x": (2, 3, 8, 9), "y": (2, 8)}  # not z, whose m nothing says; fixed ones need nothing
    assert shapes_of_arrays(graph, {"z": ones(2, 7)}) == {"z": (2, 7)}
    assert shapes_of_arrays(graph, {}) == {}
    assert shapes_of_arrays(graph_of(x=("n",)), {"x": ones(2, 3)}) == {"x": (2, 3)}  # refused by the run


def test_types_are_the_users_not_the_devices() -> None:
    graph = graph_of(x=(2,))
    graph.inputs[0].origin_dtype = DType.INT64
    assert shapes_only(graph, OPSET, {})["x"].dtype == np.int64
    assert input_values(graph, {"x": np.ones(2, np.int64)})["x"].dtype == np.int64
    with pytest.raises(InputError, match=r"input 'x' must be of type int64, not float32"):
        input_values(graph, {"x": ones(2)})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"input 'x' has the open shape \[2, n, \?\]; say which"),
        ({"z": (1,)}, r"input 'z' is not an input of the model"),
        ({"x": (2, 3)}, r"must have shape \[2, n, \?\], not \[2, 3\]"),
        ({"x": (3, 3, 3)}, r"must have shape \[2, n, \?\]"),
        ({"x": (2, 0, 3)}, r"must have shape"),
        ({"x": "234"}, "must be a sequence of whole numbers"),
        ({"x": b"\2\3\4"}, "must be a sequence of whole numbers"),
        ({"x": 2}, "must be a sequence of whole numbers"),
        ({"x": [2, 1.0, 3]}, "must be a sequence of whole numbers"),
        ({"x": [2, True, 3]}, "must be a sequence of whole numbers"),
        ({"x": []}, "must be a sequence of whole numbers"),
    ],
)
def test_shapes_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shapes_only(graph_of(x=(2, "n", None)), OPSET, given)
    assert shapes_only(graph_of(x=(2, "n", None)), OPSET, {"x": (2, 1, 1)})["x"].shape == (2, 1, 1)


def test_shapes_of_numpy_numbers_are_plain_numbers() -> None:
    shape = shapes_only(graph_of(x=("n",)), OPSET, {"x": [np.int64(3)]})["x"].shape
    assert shape == (3,)
    assert type(shape[0]) is int


def test_arrays_are_checked_against_the_inputs() -> None:
    graph = graph_of(x=("n", 2), y=("n",))
    found = input_values(graph, {"x": ones(3, 2), "y": ones(3)})
    assert found["x"].array is not None
    assert found["x"].array.tolist() == [[1, 1]] * 3
    assert (found["y"].shape, found["y"].dtype) == ((3,), np.float32)
    assert input_values(graph, {"x": ones(0, 2), "y": ones(0)})["x"].shape == (0, 2)  # an array may be empty
    for inputs, message in (
        ({"x": ones(3, 2)}, r"input 'y' is missing; the model wants float32\[n\]; pass {'y': array}"),
        ({"x": ones(3, 2), "y": ones(3), "z": ones(1)}, "input 'z' is not an input of the model"),
        ({"x": ones(3, 3), "y": ones(3)}, r"input 'x' must have shape \[n, 2\], not \[3, 3\]"),
        ({"x": ones(3, 2), "y": np.ones(3)}, r"must be of type float32, not float64; convert it with"),
    ):
        with pytest.raises(InputError, match=message):
            input_values(graph, inputs)


def test_named_open_dimensions_that_differ_are_a_warning() -> None:
    with pytest.warns(InputWarning, match="input 'y': n is 4, and 3 in input 'x', though the model says"):
        found = input_values(graph_of(x=("n", 2), y=("n",)), {"x": ones(3, 2), "y": ones(4)})
    assert [value.shape for value in found.values()] == [(3, 2), (4,)]


def test_unnamed_open_dimensions_need_not_agree() -> None:
    found = input_values(
        graph_of(x=(None,), y=(None,), z=None), {"x": ones(3), "y": ones(4), "z": ones(1, 2)}
    )
    assert [value.shape for value in found.values()] == [(3,), (4,), (1, 2)]


def test_what_is_no_array_of_numbers() -> None:
    taken = user_arrays({"a": [1, 2], "b": 3.5, "c": np.float16(1), "d": [True]})
    assert [array.dtype.kind for array in taken.values()] == ["i", "f", "f", "b"]
    for given in ("text", [object()], [[1], [1, 2]], None, np.datetime64("2024-01-01"), [b"x"]):
        with pytest.raises(InputError, match="input 'x' must be an array of numbers"):
            user_arrays({"x": given})


def test_choices_name_nodes_that_have_something_to_choose() -> None:
    loop, both = asim.load(halving_loop(None)), asim.load(two_branches(("n", 8)))
    (repeated,) = [node.name for node in loop.nodes if node.op_type in ("Loop", "While")]
    (forked,) = [node.name for node in both.nodes if node.op_type == "If"]
    for count in (0, 1, 5):
        assert checked_choices(loop, None, {repeated: count}).trips == {repeated: count}
    for wrong in (-1, True, 1.0, "3", 10**12):
        with pytest.raises(InputError, match=f"option trips: node '{repeated}' must be a number from 0 to"):
            checked_choices(loop, None, {repeated: wrong})  # type: ignore[dict-item]
    assert checked_choices(both, {forked: "then_branch"}, None).branches == {forked: "then_branch"}
    for graph, branches, trips, message in (
        (both, {"no": 1}, None, "option branches: node 'no' must be one of the model's If or Case nodes"),
        (both, None, {forked: 1}, "option trips: node .* the model has no Loop or While"),
        (loop, {repeated: 1}, None, "option branches: node .* the model has no If or Case"),
    ):
        with pytest.raises(InputError, match=message):
            checked_choices(graph, branches, trips)
    empty = checked_choices(both, None, None)
    assert (empty.branches, empty.trips) == ({}, {})
