"""Composites of a MindSpore training step: they load, run fused and unfused with the same bits, and agree
with a second interpreter.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError
from tests.support.akg import interpret, random_inputs
from tests.support.gate import every

DATA = Path(__file__).parents[1] / "data" / "ms_training"
FILES = sorted(DATA.glob("*.info"))


def test_all_are_there() -> None:
    assert len(FILES) == 19


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize("path", every(2, FILES), ids=lambda path: path.stem)
def test_a_composite_runs(path: Path) -> None:
    data = json.loads(path.read_text())
    inputs, graph = random_inputs(data, {}), asim.load(path)
    fused, plain = (
        asim.run(
            asim.compile(graph, "Ascend910A", fusion=level, precision_mode="must_keep_origin_dtype"), inputs
        )
        for level in ("graph-kernel", "off")
    )
    assert len(fused.model.program.tasks) == 1
    expected, _ = interpret(data, inputs)
    for name, array in expected.items():
        assert np.array_equal(fused.outputs[name], plain.outputs[name])
        np.testing.assert_allclose(fused.outputs[name].reshape(array.shape), array, rtol=2e-5)


def test_axes_that_are_no_constant_are_refused() -> None:
    data = json.loads((DATA / "Fused_BiasAddGrad_737916425836818415.info").read_text())
    axes = data["op_desc"][0]["input_desc"][1][0]
    del axes["value"]
    data["input_desc"].append([{key: value for key, value in axes.items() if key != "name"}])
    with pytest.raises(GraphError, match="needs a constant axis"):
        asim.load(json.dumps(data).encode())
