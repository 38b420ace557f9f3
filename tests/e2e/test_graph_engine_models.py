"""The graph engine on real network structures: values stay, a second run changes nothing, compiled models run
the optimised graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.node_suite import all_cases, evaluate_case

pytestmark = pytest.mark.usefixtures("untimed_tiles")

QUICK = ("lenet5", "bert_tiny_s64_traced", "lstm_lm", "squeezenet1_1")
MODELS = sorted(path.stem for path in (Path(__file__).parents[1] / "data" / "models").glob("*.onnx"))


def random_arrays(graph: Graph) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    arrays = {}
    for tensor in graph.inputs:
        kind = tensor.element_type
        values = (
            generator.standard_normal(tensor.static_shape)
            if kind.is_float
            else generator.integers(0, 2, tensor.static_shape)
        )
        arrays[tensor.name] = np.asarray(values).astype(kind.numpy)
    return arrays


def check_values(path: Path) -> None:
    """Equal under == in the model's own types, from the file as it is (nothing folded on loading)."""
    graph = asim.load(path, weights="random", fold=False)
    result = asim.optimize(graph)
    assert result.after.nodes <= result.before.nodes
    assert result.after.constant_bytes <= result.before.constant_bytes + (1 << 20)
    arrays = random_arrays(graph)
    for old, new in zip(
        evaluate(graph, default_opset(), arrays), evaluate(result.graph, default_opset(), arrays), strict=True
    ):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        assert np.array_equal(old, new, equal_nan=True)
    assert [tensor.name for tensor in result.graph.outputs] == [tensor.name for tensor in graph.outputs]
    assert to_text(asim.optimize(result.graph).graph) == to_text(result.graph)


@pytest.mark.parametrize("name", QUICK)
def test_values_stay(models_dir: Path, name: str) -> None:
    check_values(models_dir / f"{name}.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in QUICK])
def test_values_stay_long(models_dir: Path, name: str) -> None:
    check_values(models_dir / f"{name}.onnx")


def test_a_compiled_model_computes_the_same_with_and_without(models_dir: Path) -> None:
    graph = asim.load(models_dir / "bert_tiny_s64_traced.onnx", weights="random")
    models = [asim.compile(graph, fusion="off", optimize=optimize) for optimize in (False, True)]
    assert len(models[1].graph) < len(models[0].graph)
    assert models[1].optimized.totals()["CastRemovePass"]["removed Cast"] == 1
    assert not models[0].optimized.changed
    inputs = asim.random_inputs(models[0])
    expected, got = (asim.run(model, inputs, values="float32").outputs for model in models)
    for name, array in expected.items():
        assert np.array_equal(array, got[name], equal_nan=True)


def test_a_compiled_model_gives_the_named_outputs(models_dir: Path) -> None:
    graph = asim.load(models_dir / "squeezenet1_1.onnx")
    wanted = next(node for node in graph.nodes if node.op_type == "Concat")
    options = {"tiling": "closed_form"}  # quick: no tile is timed
    model = asim.compile(graph, outputs=[f"{wanted.name}:0"], options=options)
    assert [tensor.name for tensor in model.graph.outputs] == [wanted.output.name]
    assert len(model.program.tasks) < len(asim.compile(graph, options=options).program.tasks) / 3
    pruned = asim.load(models_dir / "squeezenet1_1.onnx", outputs=f"{wanted.name}:0")
    alone = asim.compile(pruned, options=options)
    assert asim.simulate(alone).duration_us == asim.simulate(model).duration_us


def test_the_command_writes_a_model_that_onnxruntime_runs(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = models_dir / "bert_tiny_s64_traced.onnx", tmp_path / "smaller.onnx"
    dump = tmp_path / "dump"
    assert (
        main(["optimize", str(source), "--weights", "random", "--save", str(target), "--dump", str(dump)])
        == 0
    )
    text = capsys.readouterr().out
    assert "ConstantFoldingPass" in text
    assert "100 nodes -> " in text
    # .svg too where Graphviz is
    assert {".dot", ".txt"} <= {path.suffix for path in dump.iterdir() if path.name.startswith("00_input")}
    graph = asim.load(source, weights="random")
    arrays = random_arrays(graph)
    session = onnxruntime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    for expected, got in zip(
        evaluate(graph, default_opset(), arrays), session.run(None, arrays), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_the_command_prunes_to_out_nodes(models_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = asim.load(models_dir / "lenet5.onnx")
    node = graph.nodes[2]
    assert main(["optimize", str(models_dir / "lenet5.onnx"), "--out_nodes", f"{node.name}:0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 nodes -> 3")
    assert main(["optimize", str(models_dir / "lenet5.onnx"), "--out_nodes", "nothing:0"]) == 2
    assert "is no node:index and no tensor of the model" in capsys.readouterr().err


def test_compile_says_what_the_graph_engine_removed(
    models_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(models_dir / "bert_tiny_s64_traced.onnx")
    assert main(["compile", source]) == 0
    assert "the graph engine removed 3 nodes" in capsys.readouterr().out
    assert main(["compile", source, "--optimize", "off"]) == 0
    assert "graph engine" not in capsys.readouterr().out
    assert main(["compile", source, "--oo_constant_folding", "no"]) == 2
    assert "invalid choice: 'no' (choose from 'true', 'false')" in capsys.readouterr().err


def test_passes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", "list", "--all", "--oo_level", "O1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if "CommonSubexpressionEliminationPass" in line)
    assert " off " in row
    assert "--oo_level=O1" in row
    assert any("SoftmaxFusionPass" in line for line in lines)
    assert any("MultiBatchClonePass" in line for line in lines)
    assert main(["passes", "show", "CommonSubexpressionEliminationPass"]) == 0
    assert "GE: number 49, stage 6 OptimizeStage1_1" in capsys.readouterr().out
    assert main(["passes", "show", "SoftmaxFusionPas"]) == 2
    assert "did you mean SoftmaxFusionPass?" in capsys.readouterr().err


@pytest.mark.slow
def test_the_node_suite_passes_with_optimisation() -> None:
    """Nothing is folded on loading, so that the engine meets every case as its author wrote it."""

    def optimised(model: onnx.ModelProto) -> Graph:
        return asim.optimize(asim.load(model, fold=False)).graph

    problems = [evaluate_case(case, optimised) for case in all_cases()]
    assert not any(problems), "\n".join(filter(None, problems))
