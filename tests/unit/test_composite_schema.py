"""Composite files field by field: what each may be at its limits, and that a refusal names the place."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError
from ascendsim.frontends.composite.reading import is_composite, read_composite
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.unit.test_composite_loading import add, composite, load, op, tensor

GOOD = composite([add("x", "z")], [tensor("x", [2, 3]), tensor("z", [2, 3])], [tensor("y", [2, 3])])


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The good file with something else in one place; `None` takes a field away."""
    data: Any = deepcopy(GOOD)
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data  # type: ignore[no-any-return]


def test_every_field_is_read() -> None:
    found = read_composite(GOOD)
    assert (found.name, [item.name for item in found.inputs]) == ("Fused_test", ["x", "z"])
    assert [item.name for item in found.outputs] == ["y"]
    (operator,) = found.operators
    assert (operator.name, [item.name for item in operator.inputs], operator.attributes) == (
        "TensorAdd",
        ["x", "z"],
        {},
    )
    assert found.header == {"composite": True, "platform": "AKG"}
    first = found.inputs[0]
    assert (first.dtype, first.shape, first.format, first.value) == (
        DType.FLOAT32,
        (2, 3),
        "DefaultFormat",
        None,
    )


TENSORS: tuple[tuple[Any, ...], ...] = (
    ("input_desc", 1, 0),
    ("output_desc", 0),
    ("op_desc", 0, "input_desc", 1, 0),
    ("op_desc", 0, "output_desc", 0),
)


@pytest.mark.parametrize("path", TENSORS)
def test_a_tensor_is_checked_wherever_it_stands(path: tuple[Any, ...]) -> None:
    place = rf"{path[-2]}\[.*0\]" if path[-2] != 1 else r"input_desc\[1\]\[0\]"
    for value, message in ((5, "must be a tensor"), ([], "must be a tensor")):
        with pytest.raises(InputError, match=f"{place} {message}"):
            read_composite(changed(path, value))
    for field, value, message in (
        ("tensor_name", None, "tensor_name must be a name"),
        ("tensor_name", "", "tensor_name must be a name"),
        ("tensor_name", 3, "tensor_name must be a name"),
        ("data_type", None, "has the element type None, which no operator here has"),
        ("data_type", "complex64", "has the element type 'complex64', which no operator here has"),
        ("shape", None, "shape must be a list of at most 16 dimensions"),
        ("shape", "23", "shape must be a list of at most 16 dimensions"),
        ("shape", [1] * 17, "shape must be a list of at most 16 dimensions"),
        ("shape", [True], "shape must hold sizes or symbols"),
        ("shape", [""], "shape must hold sizes or symbols"),
        ("shape", [1.0], "shape must hold sizes or symbols"),
        ("shape", [1 << 40], "shape must hold sizes or symbols"),
        ("format", 4, "format must be a name"),
        ("value", "1", "value must be a number or lists of numbers"),
        ("value", [1, ["2"]], "value must be a number or lists of numbers"),
    ):
        with pytest.raises(InputError, match=message):
            read_composite(changed((*path, field), value))


def test_shapes() -> None:
    for shape, read in (
        ([], (1,)),
        ([1], (1,)),
        ([-1, "n", 0, (1 << 40) - 1], (None, "n", 0, (1 << 40) - 1)),
        ([1] * 16, (1,) * 16),
    ):
        assert read_composite(changed(("input_desc", 0, 0, "shape"), shape)).inputs[0].shape == read
    assert read_composite(changed(("input_desc", 0, 0, "format"), None)).inputs[0].format == "DefaultFormat"


def test_constants_hold_a_mebi_of_numbers_at_most() -> None:
    for count, fits in ((1 << 20, True), ((1 << 20) + 1, False)):
        data = changed(("input_desc", 0, 0, "value"), [[0] * (count - 3), [1, [2, 3.5]]])
        if fits:
            assert read_composite(data).inputs[0].value is not None
        else:
            with pytest.raises(InputError, match="value must have at most 1048576 elements"):
                read_composite(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("composite",), False, '"composite": true'),
        (("composite",), 1, '"composite": true'),
        (("op",), None, "op must be a name"),
        (("op_desc",), {}, "op_desc must be a list"),
        (("op_desc", 0), "Add", r"op_desc\[0\] must be an object"),
        (("op_desc", 0, "name"), "", "name must be a name"),
        (("op_desc", 0, "output_desc"), [], r"op_desc\[0\] \(TensorAdd\) must have an output"),
        (("op_desc", 0, "attr"), {}, "attr must be null or a list"),
        (("op_desc", 0, "attr"), [3], "attr must be null or a list"),
        (("op_desc", 0, "attr"), [{"name": 3}], "attr must be null or a list"),
        (("op_desc", 0, "input_desc"), {}, "must be null or a list of lists"),
        (("input_desc",), [[], {}], "must be null or a list of lists"),
        (("output_desc",), None, "output_desc must be a list"),
    ],
)
def test_everything_else_is_checked_too(path: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_composite(changed(path, value))


def test_attributes_may_have_no_value_and_names_only() -> None:
    given = [{"name": "a", "value": 3, "data_type": "int"}, {"name": "b"}]
    assert read_composite(changed(("op_desc", 0, "attr"), given)).operators[0].attributes == {
        "a": 3,
        "b": None,
    }


def test_there_are_1_to_20000_operators() -> None:
    (one,) = GOOD["op_desc"]
    assert len(read_composite(changed(("op_desc",), [one] * 20_000)).operators) == 20_000
    for count in (0, 20_001):
        with pytest.raises(InputError, match="op_desc must hold 1 to 20000 operators"):
            read_composite(changed(("op_desc",), [one] * count))


def test_files_hold_32_mib_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ascendsim.frontends.composite import reading

    content = json.dumps(GOOD).encode()
    path = tmp_path / "kernel.info"
    path.write_bytes(content)
    assert reading.MAX_FILE_BYTES == 32 << 20
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", len(content))
    assert read_composite(path) == read_composite(content) == read_composite(GOOD)
    monkeypatch.setattr(reading, "MAX_FILE_BYTES", len(content) - 1)
    for source, name in ((path, "composite 'kernel.info'"), (content, "composite")):
        with pytest.raises(InputError, match=f"{name} must have at most {len(content) - 1} bytes"):
            read_composite(source)
    with pytest.raises(InputError, match="'missing' cannot be read: .*; check the path"):
        read_composite(tmp_path / "missing")


def test_what_is_no_json_object() -> None:
    with pytest.raises(InputError, match="must hold a JSON object, not int"):
        read_composite(b"3")
    for content in (b"[" * 100_000, b'{"composite"'):
        with pytest.raises(InputError, match="is no valid JSON"):
            read_composite(content)


def test_what_looks_like_a_composite() -> None:
    content = json.dumps(GOOD).encode()
    assert is_composite(content)
    assert is_composite(b" " * 511 + content)
    assert not is_composite(b" " * 512 + content)
    assert not is_composite(b"[" + content + b"]")
    assert not is_composite(content.replace(b"op_desc", b"op_list"))


# ------------------------------------------------------------------------------------------------------------


def run(data: dict[str, Any], **inputs: np.ndarray) -> np.ndarray:
    (result,) = evaluate(load(data), default_opset(), inputs)
    return result


def single(
    name: str, shapes: list[list[int]], out: list[int], dtype: str = "float32", **attributes: Any
) -> dict[str, Any]:
    """A file of one operator."""
    inputs = [tensor(f"x{number}", shape) for number, shape in enumerate(shapes)]
    output = tensor("y", out, dtype)
    return composite([op(name, [[item] for item in inputs], output, **attributes)], inputs, [output])


def test_reductions_take_one_axis_or_several_or_all() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis, keep, out in ((1, False, [2, 4]), ([0, -1], False, [3]), ([1], True, [2, 1, 4])):
        found = run(single("ReduceSum", [[2, 3, 4]], out, axis=axis, keep_dims=keep), x0=x)
        assert np.array_equal(found, x.sum(tuple(np.atleast_1d(axis)), keepdims=keep))
    assert run(single("ReduceMax", [[2, 3, 4]], [1]), x0=x).tolist() == [23]
    assert np.array_equal(run(single("ReduceMin", [[2, 3, 4]], [2, 3], axis=-1), x0=x), x.min(-1))


def test_shapes_of_broadcasts_are_repeated_or_stretched() -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    assert np.array_equal(run(single("BroadcastTo", [[1, 6]], [4, 6]), x0=x), np.repeat(x, 4, 0))
    assert np.array_equal(run(single("Tile", [[1, 6]], [2, 12]), x0=x), np.tile(x, (2, 2)))
    assert np.array_equal(run(single("Tile", [[6]], [3, 12]), x0=x[0]), np.tile(x, (3, 2)))
    for out in ([4, 7], [6, 1, 1], [3]):
        with pytest.raises(GraphError, match="needs an output that repeats its input"):
            load(single("BroadcastTo", [[1, 6]], out))


def test_operators_that_are_made_of_several() -> None:
    x, z = np.array([3.5, -7, 2, 0], np.float32), np.array([2, 2, -2, 2], np.float32)
    assert run(single("FloorDiv", [[4], [4]], [4]), x0=x, x1=z).tolist() == [1, -4, -1, 0]
    assert run(single("NotEqual", [[4], [4]], [4], "bool"), x0=x, x1=z).tolist() == [1, 1, 1, 1]
    assert run(single("NotEqual", [[4], [4]], [4], "bool"), x0=x, x1=x).tolist() == [0, 0, 0, 0]
    assert run(single("AddN", [[4], [4], [4]], [4]), x0=x, x1=z, x2=z).tolist() == (x + 2 * z).tolist()
    assert run(single("Add", [[4]], [4]), x0=x).tolist() == x.tolist()
    turned = run(single("Transpose", [[2, 2]], [2, 2], perm=[1, 0]), x0=x.reshape(2, 2))
    assert turned.tolist() == [[3.5, 2], [-7, 0]]
    left, right = x.reshape(2, 2), z[:2, None]
    joined = run(single("Concat", [[2, 2], [2, 1]], [2, 3], axis=1), x0=left, x1=right)
    assert joined.tolist() == [[3.5, -7, 2], [2, 0, 2]]


def test_a_product_is_of_what_it_is_given() -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(run(single("MatMul", [[2, 3], [3, 2]], [2, 2]), x0=a, x1=b), a @ b)


@pytest.mark.parametrize("sides", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("spelling", ["transpose_a transpose_b", "transpose_x1 transpose_x2"])
def test_each_side_of_a_product_may_be_transposed(sides: tuple[bool, bool], spelling: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((32, 48)).astype(np.float32), rng.standard_normal((48, 16)).astype(np.float32)
    shapes = [list((a.T if sides[0] else a).shape), list((b.T if sides[1] else b).shape)]
    flags = dict(zip(spelling.split(), sides, strict=True))
    found = run(
        single("MatMul", shapes, [32, 16], **flags), x0=a.T if sides[0] else a, x1=b.T if sides[1] else b
    )
    assert np.allclose(found, a @ b, rtol=1e-3, atol=1e-3)
    biased = single("MatMul", [*shapes, [16]], [32, 16], **flags)
    bias = np.arange(16, dtype=np.float32)
    found = run(biased, x0=a.T if sides[0] else a, x1=b.T if sides[1] else b, x2=bias)
    assert np.allclose(found, a @ b + bias, rtol=1e-3, atol=1e-3)


def test_a_one_hot_of_two_constants_has_one_table_and_nothing_else_stays() -> None:
    indices = tensor("x0", [2], "int32")
    values = [[tensor("on", [1], value=5.0)], [tensor("off", [1], value=1.0)]]
    operator = op("OneHot", [[indices], *values], tensor("y", [2, 4]), depth=4, axis=-1)
    data = composite([operator], [indices], [tensor("y", [2, 4])])
    assert run(data, x0=np.array([0, 2], np.int32)).tolist() == [[5, 1, 1, 1], [1, 1, 5, 1]]
    graph = load(data)
    assert all(constant.uses for constant in graph.constants)
    assert not {"on", "off"} & set(graph.tensors)


@pytest.mark.parametrize("given", ["on", "off"])
def test_a_one_hot_of_a_constant_and_an_input_joins_them_when_it_runs(given: str) -> None:
    indices, other = tensor("x0", [2], "int32"), tensor(given, [1])
    values = {"on": tensor("on", [1], value=5.0), "off": tensor("off", [1], value=1.0)} | {given: other}
    operator = op(
        "OneHot", [[indices], [values["on"]], [values["off"]]], tensor("y", [2, 4]), depth=4, axis=-1
    )
    data = composite([operator], [indices, other], [tensor("y", [2, 4])])
    on, off = (7.0, 1.0) if given == "on" else (5.0, 7.0)
    made = run(data, x0=np.array([0, 2], np.int32), **{given: np.array([7], np.float32)})
    assert made.tolist() == [[on, off, off, off], [off, off, on, off]]


@pytest.mark.parametrize(
    ("declared", "attribute", "shape"),
    [
        ([-1], [-1], (12,)),
        ([-1, 3], [-1, 3], (4, 3)),
        ([-1, 3], None, (4, 3)),
        (["m", -1], [6, -1], (6, 2)),
        ([-1, -1], [-1, -1], None),
        ([-1, -1], None, None),
    ],
)
def test_one_open_dimension_of_a_reshape_follows_from_the_others(
    declared: list[Any], attribute: list[int] | None, shape: tuple[int, ...] | None
) -> None:
    x, y = tensor("x", ["n", 6]), tensor("y", declared)
    more = {} if attribute is None else {"shape": attribute}
    data = composite([op("Reshape", [[x]], y, **more)], [x], [y])
    if shape is None:
        with pytest.raises(GraphError, match="needs a shape with one open dimension at most"):
            load(data, shapes={"x": (2, 6)})
    else:
        assert load(data, shapes={"x": (2, 6)}).outputs[0].shape == shape


def test_an_open_dimension_beside_one_of_no_elements_holds_none() -> None:
    x, y = tensor("x", [0, 6]), tensor("y", [0, "m"])
    data = composite([op("Reshape", [[x]], y, shape=[0, -1])], [x], [y])
    assert load(data).outputs[0].elements == 0


@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_an_overwritten_tensor_is_the_result_only_where_it_may_be_and_holds_the_same(
    same: bool, fake: bool
) -> None:
    """A result without memory of its own that carries what was written; else there are two results."""
    names = {name: tensor(name, [2]) for name in ("a", "new", "other")}
    carried = names["new" if same else "other"]
    operands = [[names["a"]], [names["new"]], [carried]]
    data = composite(
        [op("InplaceAssign", operands, tensor("y", [2]), fake_output=fake)],
        list(names.values()),
        [tensor("y", [2])],
    )
    inputs = {name: np.full(2, number, np.float32) for number, name in enumerate(names)}
    results = evaluate(load(data), default_opset(), inputs)
    assert [list(result) for result in results[:1]] == [list(inputs[carried["tensor_name"]])]
    assert len(results) == (1 if same and fake else 2)


def test_results_of_more_elements_than_can_be_meant_are_refused() -> None:
    assert load(single("BroadcastTo", [[1, 1]], [1 << 20, 1 << 20])).outputs[0].elements == 1 << 40
    with pytest.raises(GraphError, match="must give a static shape of at most"):
        load(single("BroadcastTo", [[1, 1]], [1 << 20, 1 << 21]))
