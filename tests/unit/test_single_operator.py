"""`asim.op` and `ascendsim op`: one operator by its type and the shapes of its inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.single_operator import operator_graph
from ascendsim.cli.main import main
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.ops import default_opset

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.mark.parametrize("shapes", [((64, 96), (96, 32)), ("64x96", "96x32"), ("64,96", "96X32:float16")])
def test_shapes_are_written_in_several_ways(shapes):
    graph = operator_graph("MatMul", shapes)
    assert [tensor.shape for tensor in (*graph.inputs, *graph.outputs)] == [(64, 96), (96, 32), (64, 32)]
    assert {tensor.dtype for tensor in (*graph.inputs, *graph.outputs)} == {DType.FLOAT16}


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend910B1"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_no_cast_stands_around_an_operator_of_its_own_type(soc, dtype):
    result = asim.op("Add", (64, 1024), (64, 1024), soc=soc, dtype=dtype)
    assert [view.nodes[0].op_type for view in result.profile.tasks] == ["Add"]
    forced = asim.op("Add", (64, 1024), (64, 1024), soc=soc, dtype="float32", precision_mode="force_fp16")
    types = [node.op_type for view in forced.profile.tasks for node in view.nodes]
    assert types.count("Cast") == 3
    assert forced.duration_us > asim.op("Add", (64, 1024), (64, 1024), soc=soc).duration_us


def test_it_is_the_network_of_that_operator():
    b = asim.GraphBuilder("Conv", dtype=DType.FLOAT16)
    b.output(
        b.op("Conv", b.input("x", (1, 16, 28, 28)), b.weight("w", (32, 16, 3, 3)), pads=[1, 1, 1, 1]), "y"
    )
    by_hand = asim.simulate(asim.compile(b.build(), precision_mode="must_keep_origin_dtype"))
    short = asim.op("Conv", (1, 16, 28, 28), (32, 16, 3, 3), attributes={"pads": "1,1,1,1"})
    assert short.duration_us == by_hand.duration_us


def test_filters_are_constants_and_matrices_are_not():
    assert [t.name for t in operator_graph("Conv", ["1x8x8x8", "8x8x3x3"]).inputs] == ["X"]
    assert len(operator_graph("MatMul", ["8x8", "8x8"]).inputs) == 2
    assert len(operator_graph("MatMul", ["8x8", "8x8:weight"]).inputs) == 1


def test_indices_get_a_type_that_they_may_have():
    graph = operator_graph("Gather", ["100x8", "16"], dtype="float16")
    assert [tensor.dtype for tensor in graph.inputs] == [DType.FLOAT16, DType.INT32]


@pytest.mark.parametrize(
    ("op_type", "shapes", "values", "attributes", "expected"),
    [
        ("Reshape", ["32x64"], {"shape": [64, 32]}, {}, (64, 32)),
        ("ReduceSum", ["32x64"], {"axes": 1}, {}, (32, 1)),
        ("ReduceSum", ["32x64"], {"1": [0]}, {"keepdims": "0"}, (64,)),
        ("Resize", ["1x4x8x8"], {"sizes": [1, 4, 16, 16]}, {}, (1, 4, 16, 16)),
        ("Clip", ["8x8"], {"min": 0, "max": 6}, {}, (8, 8)),
        ("TopK", ["8x100"], {"K": 5}, {}, (8, 5)),
        ("Concat", ["8x8", "8x4"], {}, {"axis": "1"}, (8, 12)),
        ("Cast", ["8x8"], {}, {"to": "int32"}, (8, 8)),
        ("Split", ["8x8"], {}, {"num_outputs": "2"}, (4, 8)),
        ("ascend::SwiGlu", ["8x64"], {}, {}, (8, 32)),
    ],
)
def test_numbers_and_attributes(op_type, shapes, values, attributes, expected):
    graph = operator_graph(op_type, shapes, values=values, attributes=attributes)
    assert graph.outputs[0].shape == expected
    asim.simulate(asim.compile(graph, precision_mode="must_keep_origin_dtype"))


def runs_or_says_why(name: str, *cases: tuple[tuple[int, ...], ...]) -> None:
    for shapes in cases:
        try:
            asim.op(name, *shapes, soc="Ascend910B1")
        except AscendSimError as error:
            said = str(error)
        else:
            continue
        assert said
        assert "\n" not in said


NAMES = sorted(f"{one.domain}::{one.name}" if one.domain else one.name for one in default_opset())


@pytest.mark.parametrize("name", [*NAMES[::40], "ascend::ReluV2", "ascend::Aipp", "ascend::GraphKernel"])
def test_an_operator_runs_or_says_in_one_line_what_it_lacks(name):
    runs_or_says_why(name, ((2, 16, 8, 8),))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_operator_runs_or_says_in_one_line_what_it_lacks(name):
    runs_or_says_why(name, (), ((2, 16, 8, 8),), ((16, 32), (32, 16)), ((2, 8), (2, 8), (2, 8)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("MatMull", "8x8"), "operator 'MatMull' is not supported; did you mean MatMul?"),
        (("MatMul", "8x8"), "operator MatMul needs 2 inputs: A, B; give their shapes in this order"),
        (("MatMul", "8xa", "8x8"), "input '8xa' must be a shape such as"),
        (("MatMul", "8x8:int8:int8", "8x8"), "names more than one type"),
        (("MatMul", "8x8", "8x8:float7"), "element type 'float7' is not supported"),
        (("Reshape", "8x8", "2"), "input 'shape' holds numbers that decide the work; give its values"),
        (("Reshape", "8x8", "--input", "shpe=64"), "input 'shpe' does not exist; did you mean shape?"),
        (("Reshape", "8x8", "--input", "shape=a"), "option --input: shape must be numbers"),
        (("Relu", "8x8", "--attr", "alpha=1"), "attribute 'alpha' does not exist; it has none"),
        (("Conv", "1x8x8x8", "8x8x3x3", "--attr", "pads=x"), "must be whole numbers, separated by commas"),
        (("Conv", "1x8x8x8", "8x8x3x3", "--attr", "group=1,2"), "attribute 'group' must be one value"),
        (("Relu", "8x8", "--soc", "Ascend301"), "did you mean Ascend310"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys: pytest.CaptureFixture[str]):
    assert main(["op", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_values_must_be_numbers():
    with pytest.raises(InputError, match="operator Reshape: input 'shape' must be numbers, not 'ab'"):
        asim.op("Reshape", (8, 8), values={"shape": "ab"})


def test_the_command_says_what_the_operator_takes_alone_and_writes_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = ["MatMul", "128x128", "--soc", "Ascend310P3", "128x128"]
    assert main(["op", *arguments, "--output", str(tmp_path), "--timeline", str(tmp_path / "t.png")]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    result = asim.op("MatMul", (128, 128), (128, 128), soc="Ascend310P3")
    conversions = [view for view in result.profile.tasks if view.nodes[0].op_type == "TransData"]
    converting = sum(result.profile.us(view.duration) for view in conversions)
    alone = sum(result.profile.us(view.duration) for view in result.profile.tasks) - converting
    assert first.startswith(f"MatMul alone {alone:,.2f} us, ")
    assert "TFLOP/s" in first
    assert "Casts 0.00 us (0%)" in first
    assert f"TransData {converting:,.2f} us" in first
    assert any(line.startswith("device time ") for line in rest)
    assert {"op_summary.csv", "t.png", "trace.json"} <= {path.name for path in tmp_path.iterdir()}
