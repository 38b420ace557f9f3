"""The composite JSON front end: what real files do, and every error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError, UnsupportedOperatorError
from ascendsim.core.formats import Format
from ascendsim.frontends.composite import load_composite
from ascendsim.ops import default_opset
from tests.support.akg import DATA, FILES, SHAPES, read
from tests.support.evaluate import evaluate
from tests.support.gate import in_one


def tensor(name: str, shape: list[Any], dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"tensor_name": name, "shape": shape, "data_type": dtype, "format": "DefaultFormat", **more}


def composite(
    ops: list[dict[str, Any]], inputs: list[dict[str, Any]] | None, outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    groups = None if inputs is None else [[item] for item in inputs]
    return {
        "composite": True,
        "op": "Fused_test",
        "platform": "AKG",
        "input_desc": groups,
        "op_desc": ops,
        "output_desc": outputs,
    }


def op(
    name: str, inputs: list[list[dict[str, Any]]] | None, output: dict[str, Any], **attributes: Any
) -> dict[str, Any]:
    attr = [{"name": key, "value": value} for key, value in attributes.items()] or None
    return {
        "name": name,
        "attr": attr,
        "input_desc": inputs,
        "output_desc": [output],
        "impl_path": "/never/read",
    }


def load(data: Any, **options: Any) -> asim.Graph:
    return load_composite(data, opset=default_opset(), **options)


def add(a: str = "x", b: str = "x", out: str = "y") -> dict[str, Any]:
    return op("TensorAdd", [[tensor(a, [2, 3])], [tensor(b, [2, 3])]], tensor(out, [2, 3]))


X, Y = tensor("x", [2, 3]), tensor("y", [2, 3])


@in_one("name", FILES)
def test_every_file_loads_with_its_outputs(name: str) -> None:
    data = read(name)
    graph = load(DATA / f"{name}.json", shapes=SHAPES.get(name))
    names = list(dict.fromkeys(item["tensor_name"] for item in data["output_desc"]))
    assert [t.name for t in graph.outputs][: len(names)] == names
    assert [t.name for t in graph.inputs] == list(
        dict.fromkeys(item["tensor_name"] for group in data["input_desc"] for item in group)
    )
    assert all(t.is_static for t in graph.tensors.values())
    assert graph.metadata["composite"] == data["op"]


def test_load_tells_the_formats_apart_by_content(tmp_path: Path) -> None:
    path = tmp_path / "kernel.info"
    path.write_text(json.dumps(composite([add()], [X], [Y])))
    assert asim.load(path).metadata["format"] == "composite"
    assert asim.load(path.read_bytes()).name == "Fused_test"
    with pytest.raises(InputError, match="batch"):
        asim.load(path, batch=2)


def test_a_group_may_hold_several_tensors() -> None:
    data = composite([op("AddN", [[X, tensor("b", [2, 3]), X]], Y)], [X, tensor("b", [2, 3])], [Y])
    ones = np.ones((2, 3), np.float32)
    assert np.array_equal(evaluate(load(data), default_opset(), {"x": ones, "b": 5 * ones})[0], 7 * ones)


def test_all_operands_may_be_constants() -> None:
    one = tensor("c", [1], value=2.0)
    data = composite([op("BroadcastTo", [[one]], Y, shape=[2, 3])], None, [Y])
    graph = load(data)
    assert not graph.inputs
    assert np.array_equal(evaluate(graph, default_opset(), {})[0], np.full((2, 3), 2, np.float32))


def test_scalars_are_one_shape_whether_written_with_or_without_a_dimension() -> None:
    ops = [
        op("Sqrt", [[tensor("x", [1])]], tensor("r", [])),
        op("Mul", [[tensor("r", [1])], [tensor("x", [1])]], tensor("y", [1])),
    ]
    graph = load(composite(ops, [tensor("x", [])], [tensor("y", [])]))
    assert graph.inputs[0].shape == (1,)
    assert graph.outputs[0].shape == (1,)
    assert all(node.op_type != "Reshape" for node in graph.nodes)


def test_a_missing_format_is_row_major() -> None:
    bare = {key: value for key, value in X.items() if key != "format"}
    assert load(composite([op("Abs", [[bare]], Y)], [bare], [Y])).inputs[0].format is Format.ND


def test_a_row_major_matrix_meets_a_tiled_one_transposed() -> None:
    tiled, plain = tensor("t", [2, 3, 16, 16], format="FRACTAL_NZ"), tensor("p", [48, 32])
    out = tensor("y", [2, 3, 16, 16], format="FRACTAL_NZ")
    graph = load(composite([op("Add", [[tiled], [plain]], out)], [tiled, plain], [out]))
    matrix = np.arange(48 * 32, dtype=np.float32).reshape(48, 32)
    result = evaluate(graph, default_opset(), {"t": np.zeros((2, 3, 16, 16), np.float32), "p": matrix})[0]
    assert np.array_equal(result, matrix.reshape(3, 16, 2, 16).transpose(2, 0, 1, 3))


@pytest.mark.parametrize("rows", [1, 40, 48])
def test_a_row_major_matrix_needs_whole_fractals_or_one_row_to_meet_a_tiled_one(rows: int) -> None:
    tiled, plain = tensor("t", [2, 3, 16, 16], format="FRACTAL_NZ"), tensor("p", [rows, 32])
    out = tensor("y", [2, 3, 16, 16], format="FRACTAL_NZ")
    text = composite([op("Add", [[tiled], [plain]], out)], [tiled, plain], [out])
    if rows == 40:
        with pytest.raises(GraphError, match=r"tensor 'p' needs whole fractals of 16 .*, not \[40, 32\]"):
            load(text)
    else:
        assert load(text).nodes


def test_matmul_of_row_major_matrices_with_transposes_and_its_own_output_type() -> None:
    a, b, y = tensor("a", [4, 8], "float16"), tensor("b", [16, 4], "float16"), tensor("y", [8, 16])
    graph = load(
        composite(
            [op("MatMul", [[a], [b]], y, transpose_a=True, transpose_x2=True, dst_type="float32")],
            [a, b],
            [y],
        )
    )
    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal(shape).astype(np.float16) for shape in ((4, 8), (16, 4)))
    result = evaluate(graph, default_opset(), {"a": left, "b": right})[0]
    assert result.dtype == np.float32
    assert np.allclose(result, left.T.astype(np.float64) @ right.T.astype(np.float64), atol=1e-5)


def test_what_an_inplace_assign_overwrites_is_an_output_too() -> None:
    ops = [add(out="s"), op("InplaceAssign", [[X], [tensor("s", [2, 3])], [X]], Y, fake_output=False)]
    graph = load(composite(ops, [X], [Y]))
    assert [t.name for t in graph.outputs] == ["y", "x_updated"]
    ones = np.ones((2, 3), np.float32)
    carried, new = evaluate(graph, default_opset(), {"x": ones})
    assert np.array_equal(carried, ones)
    assert np.array_equal(new, 2 * ones)


def test_dynamic_shapes_are_bound_by_name() -> None:
    dynamic = tensor("x", [-1, 3])
    data = composite([op("Exp", [[dynamic]], tensor("y", ["n", 3]))], [dynamic], [tensor("y", [-1, 3])])
    assert load(data, shapes={"x": (7, 3)}).outputs[0].shape == (7, 3)
    with pytest.raises(
        InputError, match=r"input 'x' has a dynamic shape, not \[-1, 3\]; say it: --input_shape x:DIMS"
    ):
        load(data)
    with pytest.raises(InputError, match="must fit"):
        load(data, shapes={"x": (7, 4)})
    with pytest.raises(InputError, match="is not an input of the composite; did you mean x"):
        load(data, shapes={"x_": (7, 3)})


def test_names_are_defined_before_use_and_once() -> None:
    with pytest.raises(GraphError, match="tensor 'z' is used by TensorAdd before it is defined"):
        load(composite([add("x", "z"), add(out="z")], [X], [Y]))
    with pytest.raises(GraphError, match="tensor 'y' must be defined once"):
        load(composite([add(), add()], [X], [Y]))
    with pytest.raises(GraphError, match="output 'q' is not defined"):
        load(composite([add()], [X], [tensor("q", [2, 3])]))


def test_shapes_and_types_must_be_those_that_the_file_says() -> None:
    with pytest.raises(GraphError, match=r"must have shape \[2, 4\] as the file says, not \[2, 3\]"):
        load(composite([op("Abs", [[X]], tensor("y", [2, 4]))], [X], [Y]))
    with pytest.raises(GraphError, match="must be of type float16 as the file says, not float32"):
        load(composite([op("Abs", [[X]], tensor("y", [2, 3], "float16"))], [X], [Y]))
    with pytest.raises(GraphError, match="needs inputs that broadcast"):
        load(composite([op("Add", [[X], [tensor("b", [2, 2])]], Y)], [X, tensor("b", [2, 2])], [Y]))


def test_unknown_operators_are_listed_together() -> None:
    with pytest.raises(UnsupportedOperatorError, match="AKG Foo .*AKG Gaa") as caught:
        load(composite([op("Foo", [[X]], tensor("f", [2, 3])), op("Gaa", [[X]], Y)], [X], [Y]))
    assert len(caught.value.operators) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must hold a JSON object"),
        ({"op": "x"}, '"composite": true'),
        ({"composite": True, "op_desc": 5}, "op_desc must be a list"),
        ({"composite": True, "op": "x", "op_desc": []}, "must hold 1 to"),
        (composite([{"name": "Add"}], [X], [Y]), "output_desc must be a list"),
        (composite([add()], [{"tensor_name": "x"}], [Y]), r"\(x\) has the element type None"),
        (
            composite([add()], [tensor("x", [2, 3], "complex64")], [Y]),
            r"input_desc\[0\]\[0\] \(x\) has the element type 'complex64', which no operator.*float32",
        ),
        (composite([add()], [tensor("x", [2, 1.5])], [Y]), "must hold sizes or symbols"),
        (composite([add()], [tensor("x", [1] * 40)], [Y]), "at most 16 dimensions"),
        ({**composite([add()], [X], [Y]), "input_desc": [X]}, "list of lists"),
        (composite([op("Add", [[X], [tensor("c", [1], value="0")]], Y)], [X], [Y]), "must be a number"),
        (composite([{**add(), "attr": "none"}], [X], [Y]), "attr must be null or a list"),
    ],
)
def test_malformed_files_name_the_place(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(json.dumps(data).encode())


def test_files_that_are_no_json_and_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no valid JSON"):
        load(b'{"composite": ')
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "missing.info")


def outputs_of(data: dict[str, Any], arrays: dict[str, Any], fusion: str) -> dict[str, Any]:
    graph = asim.load(json.dumps(data).encode())
    model = asim.compile(graph, "Ascend910A", fusion=fusion, precision_mode="must_keep_origin_dtype")
    return dict(asim.run(model, arrays).outputs)


@pytest.mark.parametrize("fusion", ["graph-kernel", "off"])
@pytest.mark.parametrize(
    ("kind", "result"), [("float32", "float32"), ("float16", "bool"), ("int32", "int32")]
)
def test_elem_any_tells_whether_an_element_is_positive(kind: str, result: str, fusion: str) -> None:
    data = composite(
        [op("ElemAny", [[tensor("x", [40, 50], kind)]], tensor("y", [1], result))],
        [tensor("x", [40, 50], kind)],
        [tensor("y", [1], result)],
    )
    x = np.full((40, 50), -1).astype(kind)
    x[3] = 0
    assert not outputs_of(data, {"x": x}, fusion)["y"].any()
    x[17, 31] = 2
    (found,) = outputs_of(data, {"x": x}, fusion)["y"]
    assert found == 1
    assert found.dtype == result


@pytest.mark.parametrize("fusion", ["graph-kernel", "off"])
@pytest.mark.parametrize(
    ("layout", "pad", "stride"),
    [("NHWC", False, 1), ("NHWC", True, 2), ("NCHW", True, 1), ("DefaultFormat", False, 2)],
)
def test_conv2d_is_the_sum_over_its_windows(layout: str, pad: bool, stride: int, fusion: str) -> None:
    """With what is behind it, in the layout of the file; what an operator before has padded is not padded
    again."""
    batch, height, width, channels, filters = 2, 7, 6, 16, 32
    top, bottom, left, right = (1, 0, 2, 1) if pad else (0, 0, 0, 0)
    rows, columns = (height + top + bottom - 3) // stride + 1, (width + left + right - 2) // stride + 1
    shapes = [(batch, height, width, channels), (filters, 3, 2, channels), (batch, rows, columns, filters)]
    if layout == "NCHW":
        shapes = [(a, d, b, c) for a, b, c, d in shapes]
    x, w, y, z = (
        tensor(name, list(shape), "float16") | {"format": layout}
        for name, shape in zip("xwyz", (*shapes, shapes[-1]), strict=True)
    )
    given = [top, bottom, left, right] if pad else [1, 1, 1, 1]
    conv = op("Conv2D", [[x], [w]], y, stride=[1, 1, stride, stride], dilation=[1, 1, 1, 1], pad_list=given)
    data = composite([conv, op("Neg", [[y]], z)], [x, w], [z])
    generator = np.random.default_rng(0)
    arrays = {
        name: generator.integers(-3, 4, shape).astype(np.float16)
        for name, shape in zip("xw", shapes, strict=False)
    }
    image, taps = (
        array.transpose(0, 2, 3, 1) if layout == "NCHW" else array for array in (arrays["x"], arrays["w"])
    )
    padded = np.pad(image.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    expected = np.zeros((batch, rows, columns, filters))
    for row in range(rows):
        for column in range(columns):
            window = padded[:, row * stride : row * stride + 3, column * stride : column * stride + 2]
            expected[:, row, column] = -np.einsum("nhwc,ohwc->no", window, taps.astype(np.float64))
    found = outputs_of(data, arrays, fusion)["z"]
    found = found.transpose(0, 2, 3, 1) if layout == "NCHW" else found
    assert np.array_equal(found, expected.astype(np.float16))


def test_conv2d_in_blocked_layout_is_refused() -> None:
    x, w, y = (tensor(name, [1, 2, 7, 7, 16], "float16") for name in "xwy")
    with pytest.raises(GraphError, match="Conv2D needs an image and filters of four axes"):
        load(composite([op("Conv2D", [[x], [w]], y)], [x, w], [y]))
