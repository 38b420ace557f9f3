"""What a run says of its numbers: stories of real networks, and each kind of finding worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array
from ascendsim.runtime.numerics import Finding, Numerics
from ascendsim_kernels.watch import scan
from tests.support.half_stories import loud_voice, written_out_norm

pytestmark = pytest.mark.usefixtures("untimed_tiles")

FUSIONS = ("off", "all")
CHIP = "Ascend910B4"  # float16 as IEEE 754 has it; chips that saturate: test_saturation.py


def seen(graph: asim.Graph, inputs: dict[str, Array], **options: object) -> Numerics:
    return asim.run(asim.compile(graph, CHIP, **options), inputs).numerics  # type: ignore[arg-type]


def single(op: str, *inputs: Array, fusion: str = "off", **attributes: object) -> Numerics:
    b = asim.GraphBuilder("one")
    tensors = [b.input(f"x{n}", array.shape, DType.of(array.dtype)) for n, array in enumerate(inputs)]
    b.output(b.op(op, *tensors, name="node", **attributes), "y")  # type: ignore[arg-type]
    return seen(b.build(), {f"x{n}": array for n, array in enumerate(inputs)}, fusion=fusion)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_sum_of_squares_overflows_where_no_output_shows_it(fusion: str) -> None:
    graph, inputs = written_out_norm()
    result = asim.run(asim.compile(graph, CHIP, fusion=fusion), inputs)
    (first,) = result.numerics.overflows
    assert "LayerNorm_1/Sum_1" in first.sources
    assert first.kind == "overflow"
    assert first.limit == 65504 < first.largest < 200_000
    assert np.isfinite(result.outputs["y"]).all()
    assert first.outputs == ()
    assert len(first.after) == 3  # times 1 / width, plus epsilon, root; a division by infinity gives zero
    assert (
        asim.run(asim.compile(graph, CHIP, fusion=fusion), inputs, values="float32").numerics.findings == ()
    )


@pytest.mark.parametrize("fusion", FUSIONS)
def test_infinity_is_followed_to_the_output(fusion: str) -> None:
    graph, inputs = loud_voice()
    found = seen(graph, inputs, fusion=fusion)
    (first,) = found.overflows
    assert (first.name, first.outputs) == ("features/Gain", ("y",))
    assert {"features/Log", "features/Sub", "head/Sigmoid"} <= set(first.after)
    assert "Power" not in "".join(first.after)
    constant = next(item for item in found.findings if item.kind == "saturated")
    assert (constant.largest, constant.count) == (2.0**20, 1)
    row = next(row for row in found.table.records() if row["Name"] == "features/Gain")
    assert (row["Finding"], row["Reaches output"], row["Count"]) == ("overflow", "yes", first.count)


def test_the_number_that_did_not_fit_and_how_many_there_were() -> None:
    x = np.array([300, -300, 2, 255], np.float32)
    (found,) = single("Mul", x, x).overflows
    assert (found.largest, found.count, found.elements) == (90_000, 2, 4)
    assert str(found) == "Mul node overflows float16 (90,000 > 65,504)"


@pytest.mark.parametrize(("count", "rest"), [(1, ""), (2, "; 1 more overflows"), (3, "; 2 more overflow")])
def test_the_line_counts_other_overflows(count: int, rest: str) -> None:
    b = asim.GraphBuilder("several")
    names = [f"x{number}" for number in range(count)]
    for name in names:
        x = b.input(name, (4,))
        b.output(b.op("Mul", x, x, name=f"square_{name}"), f"y_{name}")
    found = seen(b.build(), {name: np.full(4, 300, np.float32) for name in names})
    assert str(found) == f"Square square_x0_Square overflows float16 (90,000 > 65,504){rest}"


@pytest.mark.parametrize("fusion", FUSIONS)
def test_infinities_that_float32_has_too_are_told_apart(fusion: str) -> None:
    b = asim.GraphBuilder("logarithm")
    x = b.input("x", (4,))
    b.output(b.op("Abs", b.op("Log", x, name="log"), name="abs"), "y")
    found = seen(b.build(), {"x": np.array([1, 0, 2, -1], np.float32)}, fusion=fusion)
    (first,) = found.findings
    assert (first.name, first.kind, first.count, first.after) == ("log", "infinite", 2, ("abs",))


def test_infinite_inputs_are_nobodys_overflow() -> None:
    assert single("Exp", np.array([np.inf, 1], np.float32)).findings == ()


@pytest.mark.parametrize(
    ("value", "expected"), [(65519, 0), (65520, 1)]
)  # half a step above the largest number is the first that rounds to infinity
def test_the_edge_of_float16(value: float, expected: int) -> None:
    for fusion in FUSIONS:  # alone, and in front of a second operator in one task
        b = asim.GraphBuilder("edge")
        x = b.input("x", (1, 2))
        half = b.op("Mul", x, np.float32(0.5), name="half")
        b.output(b.op("Relu", b.op("Add", half, half, name="twice"), name="relu"), "y")
        found = seen(b.build(), {"x": np.array([[value, 1]], np.float32)}, fusion=fusion)
        assert len(found.overflows) == expected


@pytest.mark.parametrize("fusion", FUSIONS)
def test_zeros_that_were_numbers(fusion: str) -> None:
    b = asim.GraphBuilder("small")
    x = b.input("x", (4, 64))
    b.output(b.op("Relu", b.op("Mul", x, x, name="square"), name="relu"), "y")
    values = np.full((4, 64), 1e-3, np.float32)
    values[0, :3] = [1e-4, 1.5e-4, 0]  # squares of 1e-8, 2.25e-8 and a true zero
    (found,) = seen(b.build(), {"x": values}, fusion=fusion).findings
    assert (found.sources, found.kind, found.count) == (("square",), "flushed", 2)


def test_zeros_of_zeros_are_no_finding() -> None:
    assert single("Mul", np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32)).findings == ()


def test_whole_numbers_beyond_2048() -> None:
    (found,) = single("Cast", np.array([2047, 2048, 2049, 4098, 4100], np.int32), to=DType.FLOAT32).findings
    assert (found.kind, found.count, found.largest) == ("digits", 2, 4100)


def test_float32_holds_what_float16_does_not() -> None:
    """Only what is converted to float16 is looked at: 2**24 + 1 is beyond both."""
    b = asim.GraphBuilder("wide")
    x = b.input("x", (3,), DType.INT32)
    b.output(b.op("Cast", x, to=DType.FLOAT32, name="wide"), "y")
    values = {"x": np.array([2049, 4097, (1 << 24) + 1], np.int32)}
    assert seen(b.build(), values, precision_mode="must_keep_origin_dtype").findings == ()
    assert "digits" in {item.kind for item in seen(b.build(), values, precision_mode="force_fp16").findings}


@pytest.mark.parametrize(("op", "found"), [("Add", 1), ("MatMul", 0)])
def test_constants_that_are_added_saturate_and_weights_of_the_cube_are_not_judged(
    op: str, found: int
) -> None:
    b = asim.GraphBuilder("weights")
    x = b.input("x", (4, 4))
    b.output(b.op(op, x, np.full((4, 4), 1e5, np.float32), name="node"), "y")
    kinds = [item.kind for item in seen(b.build(), {"x": np.zeros((4, 4), np.float32)}).findings]
    assert kinds == ["saturated"] * found


def test_the_line_counts_what_is_alike_beyond_the_first() -> None:
    b = asim.GraphBuilder("constants")
    tensor = b.input("x", (4, 4))
    lines = []
    for number in range(3):
        b.output(b.op("Add", tensor, np.full((4, 4), 1e5 + number, np.float32), name=f"add{number}"))
        lines.append(str(seen(b.build(), {"x": np.zeros((4, 4), np.float32)})))
    assert "more such" not in lines[0]
    assert ["(1 more such)" in lines[1], "(2 more such)" in lines[2]] == [True, True]


def test_bfloat16_overflows_beyond_the_range_of_float32() -> None:
    bfloat16 = DType.BFLOAT16.numpy
    b = asim.GraphBuilder("brain")
    x = b.input("x", (2,), DType.BFLOAT16)
    b.output(b.op("Mul", x, x, name="square"), "y")
    model = asim.compile(b.build(), "Ascend910B1", fusion="off")
    (found,) = asim.run(model, {"x": np.array([3e38, 1], bfloat16)}).numerics.findings
    assert (found.kind, found.dtype, found.count, found.elements) == ("infinite", "bfloat16", 1, 2)


def test_casts_that_saturate() -> None:
    (found,) = single("Cast", np.array([1, 127.9, 128, -128.5, -129], np.float32), to=DType.INT8).findings
    assert (found.kind, found.count) == ("saturated", 2)


def test_a_run_without_values_has_no_numerics() -> None:
    graph, _ = loud_voice()
    result = asim.simulate(asim.compile(graph))
    assert result.numerics_line() == ""
    with pytest.raises(asim.InputError, match="no numerics"):
        _ = result.numerics


def test_the_line_names_a_remedy_with_its_price() -> None:
    graph, inputs = written_out_norm()
    result = asim.run(asim.compile(graph, CHIP, fusion="off"), inputs)
    mixed = asim.simulate(asim.compile(graph, CHIP, fusion="off", precision_mode="allow_mix_precision"))
    price = 100 * (mixed.duration_us / result.duration_us - 1)
    line = result.numerics_line()
    assert line.startswith("ReduceSum LayerNorm_1/Sum_1 overflows float16 (")
    assert line.endswith(
        f"keep it in float32: --keep_dtype, or --precision_mode allow_mix_precision ({price:+.0f} %)"
    )
    assert line.replace(">", "&gt;") in result._repr_html_()


def test_mixed_precision_is_no_remedy_for_a_product_that_it_keeps_in_float16() -> None:
    b = asim.GraphBuilder("product")
    b.output(b.op("MatMul", b.input("a", (16, 16)), b.input("b", (16, 16)), name="Product"), "y")
    loud = np.full((16, 16), 100, np.float32)  # sums of 160,000
    result = asim.run(asim.compile(b.build(), CHIP), {"a": loud, "b": loud})
    line = result.numerics_line()
    assert line.startswith("MatMul Product overflows float16 (160,000 > 65,504)")
    assert line.endswith("keep it in float32: --keep_dtype")


def test_loops_and_branches_are_watched() -> None:
    body = asim.GraphBuilder("body")
    number, go, held = (
        body.input("n", (), DType.INT64),
        body.input("go", (), DType.BOOL),
        body.input("v", (2,)),
    )
    body.output(body.op("Identity", go), "still")
    body.output(body.op("Mul", held, np.float32(16), name="grow"), "next")
    del number
    b = asim.GraphBuilder("loop")
    x = b.input("x", (2,))
    b.output(b.op("Loop", np.array(6, np.int64), np.array(True), x, body=body.graph, name="loop"), "y")
    found = seen(b.build(), {"x": np.array([1, 0.5], np.float32)})
    (first,) = found.overflows
    assert first.name.endswith("grow")
    assert first.outputs == ("y",)


def test_large_results_that_lie_over_their_inputs() -> None:
    """Groups of more than a bounded room are computed in slices, straight into device memory."""
    b = asim.GraphBuilder("large")
    x = b.input("x", (3, 2048, 2816))
    grown = b.op("Mul", b.op("Add", x, np.float32(1), name="add"), np.float32(300), name="grow")
    b.output(b.op("ReduceMax", b.op("Relu", grown, name="relu"), np.array([0, 1, 2]), keepdims=0), "y")
    values = np.zeros((3, 2048, 2816), np.float32)
    values[2, 2047, 2815] = 300
    (first,) = seen(b.build(), {"x": values}, fusion="all").overflows
    assert (first.name, first.largest, first.outputs) == ("grow", 301 * 300, ("y",))
    assert first.count == 1  # for at least one: counts are not known then


def test_composites_are_looked_into() -> None:
    graph, inputs = written_out_norm()
    model = asim.compile(graph, CHIP, fusion="graph-kernel")
    (first,) = asim.run(model, inputs).numerics.overflows
    assert first.op_type == "Cast"  # sums are float32 inside, and leave as float16
    assert 150_000 < first.largest < 160_000
    assert first.name not in {node.name for node in model.graph.nodes}  # it is inside of one


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("values", [[1, -3, 0], [np.inf, -np.nan], [0.5, -np.inf], [], [-0.0, 6e-8]])
def test_the_kernel_agrees_with_numpy(dtype: type, values: Sequence[float]) -> None:
    array = np.array(values, dtype)
    largest, zeros, small = scan(array)
    expected = float(np.max(np.abs(array), initial=0))
    assert largest == expected or (math.isnan(largest) and math.isnan(expected))
    if dtype is np.float16:
        assert zeros == np.count_nonzero(array == 0)
        assert small == np.count_nonzero((array != 0) & (np.abs(array) < 2.0**-14))


def test_a_table_orders_what_was_found() -> None:
    first = Finding("a", "Mul", "overflow", "float16", 7e4, 65504.0, 1, 4, ("b",), ("y",), ("a",))
    other = Finding("q", "Cast", "saturated", "int8", 300.0, 127.0, 2, 4)
    numbers = Numerics((), (first, other))
    assert [row[0] for row in numbers.table] == ["a", "q"]
    assert str(numbers) == "Mul a overflows float16 (70,000 > 65,504), 1 operator after it is not finite"
    assert "every result fits" in str(Numerics())
    assert all(word in numbers._repr_html_() for word in ("saturated", "overflow"))  # a notebook's cell
    assert repr(numbers) == f"Numerics(0 operators, 1 overflows: {numbers})"
