"""`ascendsim ops show`: constraints of an operator are those that a compilation follows."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.cli.ops import _constraints
from ascendsim.core.dtypes import DType
from ascendsim.isa.program import TaskKind
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import JUDGED
from ascendsim.soc.loading import load


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("name", ["Add", "Mul", "Max"])
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint16"])
def test_integers_run_where_the_line_says(chip: str, name: str, kind: str) -> None:
    definition = default_opset().find(name)
    assert definition is not None
    engine, _, integers = _constraints(definition, load(chip))
    assert engine == "AI Core"
    core, _, others = integers.partition("; AI CPU: ")
    assert {*core.split(), *others.split()} == set(JUDGED)
    b = asim.GraphBuilder("g")
    operands = [b.input(port, (4, 64), DType(kind)) for port in "xy"]
    b.output(b.op(name, *operands, name="op"), "z")
    tasks = asim.compile(b.build(), chip).program.tasks
    (task,) = [task for task in tasks if "op" in task.name]
    assert (task.kind is TaskKind.AI_CPU) == (kind in others.split())


def test_operators_of_all_kinds_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for definition in list(default_opset())[::9]:
        name = f"{definition.domain}::{definition.name}" if definition.domain else definition.name
        assert main(["ops", "show", name]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{name}: CANN's ")
        assert "Ascend310P3" in printed
        assert (definition.lower is None) <= ("AI CPU" in printed)


def test_attributes_formats_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "show", "Resize"]) == 0
    printed = capsys.readouterr().out
    for text in ("NC1HWC0", "coordinate_transformation_mode", "default 'half_pixel'", "the scalar unit"):
        assert text in printed
    assert main(["ops", "show", "Proposal"]) == 0  # the domain may be left out
    assert "ascend::Proposal" in capsys.readouterr().out
    assert main(["ops", "show", "Rezise"]) == 2
    assert "did you mean Resize" in capsys.readouterr().err
