"""Names that users give to find tasks: nodes, fused operators, what was fused into them, scopes, patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.fixture(scope="module")
def model(models_dir: Path) -> asim.CompiledModel:
    return asim.compile(asim.load(models_dir / "resnet18.onnx"), soc="Ascend310")


FUSED = "/conv1/Conv+/relu/Relu"


@pytest.mark.parametrize(
    "name", ["/conv1/Conv", FUSED, "/bn1/BatchNormalization", "conv1", "/conv1/", "/conv1/*"]
)
def test_every_way_to_name_an_operator(model: asim.CompiledModel, name: str) -> None:
    assert [task.name for task in model.tasks_of(name)] == [FUSED]
    assert FUSED in model.listing(name)


def test_a_scope_is_everything_below_it(model: asim.CompiledModel) -> None:
    names = [task.name for task in model.tasks_of("layer1/layer1.0")]
    assert len(names) == 2
    assert all(name.startswith("/layer1/layer1.0/") for name in names)
    assert [task.name for task in model.tasks_of("/layer1/layer1.0/*")] == names


def test_a_node_without_a_task_has_none(model: asim.CompiledModel) -> None:
    assert model.tasks_of("/Flatten") == ()
    assert "runs no task" in model.listing("/Flatten")


@pytest.mark.parametrize("name", ["", "/", "conv", "/conv1/Con", "layer"])
def test_other_names_are_errors(model: asim.CompiledModel, name: str) -> None:
    with pytest.raises(GraphError, match="is not in the graph"):
        model.tasks_of(name)


def test_instructions_are_recorded_by_any_of_these_names(model: asim.CompiledModel) -> None:
    (wanted,) = (task.id for task in model.tasks_of(FUSED))
    for names in ("conv1", [FUSED], {"/bn1/BatchNormalization"}):
        assert {record.task for record in asim.simulate(model, instructions=names).trace.instructions} == {
            wanted
        }
    with pytest.raises(GraphError, match="did you mean /conv1/Conv"):
        asim.simulate(model, instructions={"/conv1/Comv"})


def test_arguments_of_the_wrong_kind_are_refused(model: asim.CompiledModel, models_dir: Path) -> None:
    with pytest.raises(InputError, match=r"input 'input' is missing; .*; pass \{'input': array\}"):
        asim.run(model, None)
    with pytest.raises(
        InputError, match=r"argument inputs must be a dictionary by name, .*; pass \{\"input\": array\}"
    ):
        asim.run(model, [1.0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="option shapes must be a dictionary by name"):
        asim.load(models_dir / "lenet5.onnx", shapes="input:1,1,28,28")  # type: ignore[arg-type]
