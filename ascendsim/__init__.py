"""Cycle-approximate, execution-driven simulator of Ascend AI Cores.

    import ascendsim as asim

    graph = asim.load("resnet50.onnx", batch=8, weights="random")
    model = asim.compile(graph, soc="Ascend310P3")
    result = asim.simulate(model)
    result.duration_us

Names are loaded on first use, so that the import itself stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ascendsim.core.version import __version__

if TYPE_CHECKING:
    from ascendsim import asc, llm, torch, triton
    from ascendsim.accuracy import Accuracy, accuracy
    from ascendsim.advise import Advice, advise
    from ascendsim.api.ablation import Ablation, ablate
    from ascendsim.api.building_up import BuildUp, build_up
    from ascendsim.api.comparing import Comparison, compare
    from ascendsim.api.comparing_gears import compare_gears
    from ascendsim.api.compiling import compile
    from ascendsim.api.from_torch import from_torch
    from ascendsim.api.im2col import im2col
    from ascendsim.api.kernels import KernelResult, run_kernel
    from ascendsim.api.loading import load
    from ascendsim.api.logs import save_log
    from ascendsim.api.optimizing import OptimizeResult, optimize
    from ascendsim.api.quantize_result import QuantizeResult
    from ascendsim.api.quantized_ranges import thresholds
    from ascendsim.api.quantizing import quantize
    from ascendsim.api.result import Result
    from ascendsim.api.running import random_inputs, run, simulate
    from ascendsim.api.saving import load_compiled, save
    from ascendsim.api.single_operator import op
    from ascendsim.api.training import training_step
    from ascendsim.compiler.atc_options import ir_options
    from ascendsim.compiler.dynamic import DynamicModel
    from ascendsim.compiler.gears import GearedModel
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.core.errors import (
        AscendSimError,
        CompileError,
        GraphError,
        InputError,
        KernelError,
        PassError,
        SimulationError,
        SocError,
        UnsupportedOperatorError,
    )
    from ascendsim.frontends.aipp import aipp_data
    from ascendsim.graph.builder import GraphBuilder
    from ascendsim.graph.ir import Graph
    from ascendsim.plot.graph_picture import GraphDisplay, plot_graphs
    from ascendsim.sweep import Sensitivity, Sweep, search, sensitivity, sweep
    from ascendsim.training.reverse import gradient
    from ascendsim.training.step import TrainingStep
    from ascendsim.triton.launch import run_triton


_HOMES = {
    "accuracy": "ascendsim.accuracy.comparing",
    "Accuracy": "ascendsim.accuracy.report",
    "advise": "ascendsim.advise.advisor",
    "Advice": "ascendsim.advise.advice",
    "from_torch": "ascendsim.api.from_torch",
    "load": "ascendsim.api.loading",
    "compile": "ascendsim.api.compiling",
    "CompiledModel": "ascendsim.compiler.model",
    "simulate": "ascendsim.api.running",
    "gradient": "ascendsim.training.reverse",
    "training_step": "ascendsim.api.training",
    "TrainingStep": "ascendsim.training.step",
    "ablate": "ascendsim.api.ablation",
    "aipp_data": "ascendsim.frontends.aipp",
    "Ablation": "ascendsim.api.ablation",
    "build_up": "ascendsim.api.building_up",
    "BuildUp": "ascendsim.api.building_up",
    "compare": "ascendsim.api.comparing",
    "Comparison": "ascendsim.api.comparing",
    "compare_gears": "ascendsim.api.comparing_gears",
    "DynamicModel": "ascendsim.compiler.dynamic",
    "GearedModel": "ascendsim.compiler.gears",
    "im2col": "ascendsim.api.im2col",
    "op": "ascendsim.api.single_operator",
    "optimize": "ascendsim.api.optimizing",
    "OptimizeResult": "ascendsim.api.optimizing",
    "quantize": "ascendsim.api.quantizing",
    "QuantizeResult": "ascendsim.api.quantize_result",
    "thresholds": "ascendsim.api.quantized_ranges",
    "plot_graphs": "ascendsim.plot.graph_picture",
    "GraphDisplay": "ascendsim.plot.graph_picture",
    "run": "ascendsim.api.running",
    "run_kernel": "ascendsim.api.kernels",
    "KernelResult": "ascendsim.api.kernels",
    "run_triton": "ascendsim.triton.launch",
    "chips": "ascendsim.soc.listing",
    "save": "ascendsim.api.saving",
    "load_compiled": "ascendsim.api.saving",
    "save_log": "ascendsim.api.logs",
    "random_inputs": "ascendsim.api.running",
    "ir_options": "ascendsim.compiler.atc_options",
    "Result": "ascendsim.api.result",
    "search": "ascendsim.sweep.searching",
    "sensitivity": "ascendsim.sweep.sensing",
    "Sensitivity": "ascendsim.sweep.sensitivities",
    "sweep": "ascendsim.sweep.sweeping",
    "Sweep": "ascendsim.sweep.rows",
    "Graph": "ascendsim.graph.ir",
    "GraphBuilder": "ascendsim.api.building",
    "AscendSimError": "ascendsim.core.errors",
    "CompileError": "ascendsim.core.errors",
    "GraphError": "ascendsim.core.errors",
    "InputError": "ascendsim.core.errors",
    "KernelError": "ascendsim.core.errors",
    "PassError": "ascendsim.core.errors",
    "SimulationError": "ascendsim.core.errors",
    "SocError": "ascendsim.core.errors",
    "UnsupportedOperatorError": "ascendsim.core.errors",
}
_ROOMS = ("asc", "llm", "torch", "triton")  # packages that are reached as asim.<name>

__all__ = [
    "Ablation",
    "Accuracy",
    "Advice",
    "AscendSimError",
    "BuildUp",
    "Comparison",
    "CompileError",
    "CompiledModel",
    "DynamicModel",
    "GearedModel",
    "Graph",
    "GraphBuilder",
    "GraphDisplay",
    "GraphError",
    "InputError",
    "KernelError",
    "KernelResult",
    "OptimizeResult",
    "PassError",
    "QuantizeResult",
    "Result",
    "Sensitivity",
    "SimulationError",
    "SocError",
    "Sweep",
    "TrainingStep",
    "UnsupportedOperatorError",
    "__version__",
    "ablate",
    "accuracy",
    "advise",
    "aipp_data",
    "asc",
    "build_up",
    "chips",
    "compare",
    "compare_gears",
    "compile",
    "from_torch",
    "gradient",
    "im2col",
    "ir_options",
    "llm",
    "load",
    "load_compiled",
    "op",
    "optimize",
    "plot_graphs",
    "quantize",
    "random_inputs",
    "run",
    "run_kernel",
    "run_triton",
    "save",
    "save_log",
    "search",
    "sensitivity",
    "simulate",
    "sweep",
    "thresholds",
    "torch",
    "training_step",
    "triton",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"ascendsim.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ascendsim' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
