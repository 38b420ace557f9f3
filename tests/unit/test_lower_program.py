"""Graph to program: engines, tasks, metadata, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, UnsupportedOperatorError
from ascendsim.core.formats import Format
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Graph
from ascendsim.isa.checks import check_program
from ascendsim.isa.program import Program, TaskKind
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.lower.templates.stage import Stage
from ascendsim.machine import run
from ascendsim.ops import default_opset
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import apply_precision
from ascendsim.soc import SocSpec, load
from tests.support.gate import in_turn
from tests.support.lowering import CHIPS, moved

OPSET = default_opset()


def two_layers(shape: tuple[object, ...] = (4, 64)) -> Graph:
    """Reshape(Relu(x @ w)) @ v in float16."""
    graph = Graph("two")
    x = graph.add_input("x", DType.FLOAT16, shape)  # type: ignore[arg-type]
    w = graph.add_constant("w", np.zeros((64, 32), np.float16))
    v = graph.add_constant("v", np.zeros((16, 8), np.float16))
    first = graph.add_node("MatMul", [x, w], ["a"], name="first")
    relu = graph.add_node("Relu", [first.output], ["r"], name="relu")
    wanted = graph.add_constant("shape", np.array([8, 16]))
    reshape = graph.add_node("Reshape", [relu.output, wanted], ["f"], name="reshape")
    second = graph.add_node("MatMul", [reshape.output, v], ["y"], name="second")
    shapes = {"a": (shape[0], 32), "r": (shape[0], 32), "f": (8, 16), "y": (8, 8)}
    for name, dims in shapes.items():
        tensor = graph.tensors[name]
        tensor.shape, tensor.dtype, tensor.origin_dtype = dims, DType.FLOAT16, DType.FLOAT16  # type: ignore[assignment]
    graph.outputs.append(second.output)
    return graph


def program_for(graph: Graph, soc: SocSpec, options: LowerOptions | None = None) -> Program:
    AssignFormats(OPSET, soc).run(graph)
    return lower_graph(graph, soc, OPSET, options=options)


@pytest.mark.parametrize("chip", CHIPS)
def test_nodes_become_tasks_in_order_and_reshapes_none(chip: str) -> None:
    soc = load(chip)
    graph = two_layers()
    program = program_for(graph, soc)
    check_program(program, soc)
    assert [task.id for task in program.tasks] == list(range(len(program.tasks)))
    names = [task.name for task in program.tasks]
    assert names.index("first") < names.index("relu") < names.index("second")
    assert "reshape" not in names
    assert program.info.engines["reshape"] == "none"
    assert program.info.tasks_of["second"] == (names.index("second"),)
    assert program.memory.regions["f"].alias_of is not None
    assert run(program, soc).end > 0


def test_accesses_equal_the_bytes_of_the_moves() -> None:
    soc = load("Ascend310P3")
    for task in program_for(two_layers(), soc).tasks:
        walked = moved([Stage(task.groups)])
        assert {(access.region, access.write): access.moved_bytes for access in task.accesses} == dict(walked)
        assert all(access.unique_bytes <= access.moved_bytes for access in task.accesses)


def test_ai_cpu_types_of_the_chip_go_there() -> None:
    soc = load("Ascend310")
    program = program_for(two_layers(), soc, LowerOptions(aicpu_types=frozenset({"Relu"})))
    (task,) = [task for task in program.tasks if task.name == "relu"]
    assert task.kind is TaskKind.AI_CPU
    assert not task.groups
    assert task.cpu_us == pytest.approx(4 * 32 / soc.ai_cpu.elements_per_us)
    assert {(access.region, access.write) for access in task.accesses} == {
        (t, w) for t, w in zip(_ends(program), (False, True), strict=True)
    }


def _ends(program: Program) -> tuple[str, str]:
    relu = next(task for task in program.tasks if task.name == "relu")
    return relu.accesses[0].region, "r"


def test_dynamic_shapes_name_tensor_and_remedy() -> None:
    graph = two_layers(("batch", 64))
    with pytest.raises(
        CompileError,
        match=(
            r"tensor 'x' must have a static shape, not \['batch', 64\]; give fixed shapes: --input_shape "
            r"NAME:DIMS or --batch N, in Python shapes= or batch= \(inputs: x\)"
        ),
    ):
        lower_graph(graph, load("Ascend310"), OPSET)


def test_only_inputs_with_open_shapes_are_named() -> None:
    graph = two_layers(("batch", 64))
    graph.add_input("fixed", DType.FLOAT16, (1,))
    with pytest.raises(CompileError, match=r"\(inputs: x\)"):
        lower_graph(graph, load("Ascend310"), OPSET)
    graph.tensors["x"].shape = None
    with pytest.raises(CompileError, match="tensor 'x' must have a static shape, not unknown rank"):
        lower_graph(graph, load("Ascend310"), OPSET)


def test_a_tensor_without_type_is_named() -> None:
    graph = two_layers()
    graph.tensors["r"].dtype = None
    with pytest.raises(CompileError, match="tensor 'r' must have an element type; run shape inference first"):
        lower_graph(graph, load("Ascend310"), OPSET)


def test_unknown_operators_are_listed_all_at_once() -> None:
    graph = two_layers()
    graph.node("relu").op_type = "Frobnicate"
    graph.node("first").op_type = "Grind"
    with pytest.raises(UnsupportedOperatorError, match=r"Frobnicate.*Grind"):
        lower_graph(graph, load("Ascend310"), OPSET)


def test_errors_of_templates_name_the_node() -> None:
    graph = two_layers()
    for tensor in graph.tensors.values():
        if tensor.dtype is DType.FLOAT16:
            tensor.dtype = tensor.origin_dtype = DType.FLOAT32
    with pytest.raises(CompileError, match=r"node 'first' \(MatMul\) cannot be lowered: .*float32"):
        lower_graph(graph, load("Ascend310"), OPSET)


@pytest.mark.parametrize(
    ("model", "chip"),
    in_turn(("lenet5", "bert_tiny_s64", "lstm_lm", "squeezenet1_1"), CHIPS),
)
def test_networks_lower_check_and_run_above_their_bounds(chip: str, model: str, models_dir: Path) -> None:
    soc = load(chip)
    graph = load_onnx(models_dir / f"{model}.onnx", opset=OPSET)
    apply_precision(graph, default_opset())
    program = program_for(graph, soc)
    check_program(program, soc)
    trace = run(program, soc)
    macs = sum(record.macs for record in trace.tasks)
    weights = sum(
        access.unique_bytes
        for task in program.tasks
        for access in task.accesses
        if program.memory.regions[access.region].kind == "weight"
    )
    assert trace.duration_us >= 2 * macs / soc.peak_fp16_tflops / 1e6
    if soc.l2.software_managed:
        assert trace.duration_us >= weights / soc.dram.read_gb_per_s / 1e3


def test_lowering_is_deterministic(models_dir: Path) -> None:
    soc = load("Ascend910A")
    programs = []
    for _ in range(2):
        graph = load_onnx(models_dir / "squeezenet1_1.onnx", opset=OPSET)
        apply_precision(graph, default_opset())
        programs.append(program_for(graph, soc))
    assert programs[0].tasks == programs[1].tasks
    assert programs[0].memory == programs[1].memory
    assert all(
        tensor.format is not Format.FRACTAL_NZ or len(tensor.static_shape) >= 2
        for tensor in graph.tensors.values()
    )
