"""Counts the nodes that graph optimisers leave of the same files: the graph engine here, onnxruntime,
onnxscript, onnxslim, onnxoptimizer.

    python benchmarks/graph_optimisers.py                       every network in tests/data/models
    python benchmarks/graph_optimisers.py resnet50 vit_b_16     these

Weights that a file only names get seeded values first. Constant nodes do not count. Optimisers that are not
installed show "-". onnxruntime runs at its basic level, which fuses too (Conv + BatchNormalization, MatMul +
Add); the column "with fusion" is the graph engine with graph fusion between its stages, as `compile` runs
them, and is the one to compare with it; StridedWrite does not count there, since it only says that a
convolution writes into its slice of a Concat's result.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.api.optimizing import new_engine
from ascendsim.compiler.fusion import FusionSettings
from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.weights import random_weight, roles
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import nodes_in
from ascendsim.ops import default_opset

MODELS = Path(__file__).resolve().parents[1] / "tests" / "data" / "models"
CHIP = "Ascend310P3"


def filled(path: Path) -> onnx.ModelProto:
    """The model with seeded weights inside."""
    model = onnx.load(str(path), load_external_data=False)
    readers = roles(model.graph)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            dtype = DType.of(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
            weight = random_weight(0, tensor.name, dtype, tuple(tensor.dims), readers.get(tensor.name))
            tensor.CopyFrom(onnx.numpy_helper.from_array(weight, tensor.name))
    return model


def proto_nodes(model: onnx.ModelProto) -> int:
    """Nodes of a model without Constant nodes."""
    return sum(node.op_type != "Constant" for node in model.graph.node)


def graph_nodes(graph: Graph) -> int:
    """Nodes of a graph and its subgraphs without StridedWrite nodes."""
    return sum(node.op_type != "StridedWrite" for node in nodes_in(graph))


def by_graph_engine(model: onnx.ModelProto) -> int:
    """The graph engine alone."""
    return graph_nodes(asim.optimize(asim.load(model, fold=False)).graph)


def by_graph_engine_and_fusion(model: onnx.ModelProto) -> int:
    """The graph engine with graph fusion between its stages, as in `compile`."""
    opset, settings = default_opset(), FusionSettings.of("graph")
    graph = copy_graph(asim.load(model, fold=False))
    engine = new_engine(opset, True, "O3", True, True)
    engine.prepare(graph)
    settings.fuse(graph, chips.load(CHIP), opset, settings.new_report())
    engine.finish(graph)
    return graph_nodes(graph)


def by_onnxruntime(model: onnx.ModelProto) -> int:
    """The optimiser of onnxruntime at its basic level."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return proto_nodes(onnx.load(options.optimized_model_filepath, load_external_data=False))


def by_onnxscript(model: onnx.ModelProto) -> int:
    """The optimiser of onnxscript, on onnx-ir."""
    from onnxscript import optimizer

    return proto_nodes(optimizer.optimize(model))


def by_onnxslim(model: onnx.ModelProto) -> int:
    """The tool onnxslim."""
    import onnxslim

    return proto_nodes(onnxslim.slim(model))


def by_onnxoptimizer(model: onnx.ModelProto) -> int:
    """The tool onnxoptimizer with its default passes."""
    import onnxoptimizer

    return proto_nodes(onnxoptimizer.optimize(model))


OPTIMISERS: dict[str, Callable[[onnx.ModelProto], int]] = {
    "graph engine": by_graph_engine,
    "with fusion": by_graph_engine_and_fusion,
    "onnxruntime": by_onnxruntime,
    "onnxscript": by_onnxscript,
    "onnxslim": by_onnxslim,
    "onnxoptimizer": by_onnxoptimizer,
}


def measure(run: Callable[[onnx.ModelProto], int], model: onnx.ModelProto) -> tuple[str, float]:
    """Number of nodes and seconds; "-" if the optimiser is not installed or fails."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    started = time.perf_counter()
    try:
        return str(run(copy)), time.perf_counter() - started
    except ImportError:
        return "-", 0.0
    except Exception as error:
        print(f"  {run.__name__} fails: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
        return "fails", time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one line a network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of networks, or paths of .onnx files")
    names = parser.parse_args(arguments).models or sorted(path.stem for path in MODELS.glob("*.onnx"))
    row: list[Any] = ["network", "file", *OPTIMISERS]
    print(f"{row[0]:24}{row[1]:>6}" + "".join(f"{name:>22}" for name in OPTIMISERS))
    for name in names:
        path = Path(name) if name.endswith(".onnx") else MODELS / f"{name}.onnx"
        model = filled(path)
        cells = (
            f"{count:>12} {seconds:>7.2f} s"
            for count, seconds in (measure(run, model) for run in OPTIMISERS.values())
        )
        print(f"{path.stem:24}{proto_nodes(model):>6}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
