"""Values of real networks are the same on one stream and on several, with and without memory reuse, in every
order and mode."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim

SETTINGS: tuple[dict[str, object], ...] = (
    {"multi_stream_parallel_mode": "MainStream:4"},
    {"multi_stream_parallel_mode": "LoadBalance:3", "topo_sorting_mode": 0},
    {"multi_stream_parallel_mode": "cv", "topo_sorting_mode": 1},
    {"disable_reuse_memory": True, "topo_sorting_mode": 2},
    {"schedule": "host"},
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeezenet1_1", "shufflenet_v1", "bert_tiny_s64", "se_resnet50", "lstm_lm"]
)
@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B1"])
def test_values_do_not_depend_on_scheduling(name: str, soc: str) -> None:
    graph = asim.load(f"tests/data/models/{name}.onnx", weights="random")
    plain = asim.compile(graph, soc, enable_single_stream=True, disable_reuse_memory=True)
    inputs = asim.random_inputs(plain)
    wanted = asim.run(plain, inputs).outputs
    for settings in ({}, *SETTINGS):
        got = asim.run(asim.compile(graph, soc, **settings), inputs).outputs  # type: ignore[arg-type]
        for output, array in wanted.items():
            assert np.array_equal(array, got[output], equal_nan=True), (settings, output)
