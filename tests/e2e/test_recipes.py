"""The recipes of CONTRIBUTING.md: an operator, a rule and a chip, each one file outside the package, with all
that the package promises them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.opset import OpDef
from ascendsim.profiling import kind_of
from tests.support.recipes import FILES, model_file

pytestmark = pytest.mark.usefixtures("untimed_tiles")

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files of the recipes, from which they can be imported."""
    place = tmp_path_factory.mktemp("recipes")
    for name, text in FILES.items():
        (place / name).write_text(text)
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture(scope="module")
def isru(folder: Path) -> OpDef:
    operator: OpDef = import_module("isru").ISRU
    return operator


def test_the_recipes_are_whole_files() -> None:
    assert set(FILES) >= {"isru.py", "join_isru.py", "my_chip.toml"}


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("test_")])
def test_the_tests_of_the_recipes_pass(name: str, folder: Path) -> None:
    module: ModuleType = import_module(name.removesuffix(".py"))
    (test,) = [value for key, value in vars(module).items() if key.startswith("test_")]
    test()


@pytest.mark.parametrize("chip", CHIPS)
def test_an_operator_of_ones_own_is_as_any_other(chip: str, isru: OpDef, tmp_path: Path) -> None:
    graph = asim.load(model_file(), operators=[isru])
    model = asim.compile(graph, chip, operators=[isru])
    assert {"first", "relu", "second"} <= set(model.fusion.scopes[0].nodes)  # one task with its neighbours
    made = {node.name: node.output for node in model.graph.nodes}
    assert made["first"].dtype is DType.FLOAT16  # converted
    assert made["first"].format is Format.NC1HWC0  # laid out

    x = np.random.default_rng(1).normal(size=(1, 16, 56, 56)).astype(np.float32)
    result = asim.run(model, {"x": x})
    plain = asim.run(
        asim.compile(graph, chip, fusion="off", precision_mode="force_fp32", operators=[isru]), {"x": x}
    )
    np.testing.assert_allclose(result.outputs["y"], plain.outputs["y"], rtol=4e-3, atol=4e-3)

    apart = asim.simulate(asim.compile(graph, chip, fusion="off", operators=[isru]))
    views = [view for view in apart.profile.tasks if view.op_type == "Isru"]
    assert [(view.name, kind_of(view)) for view in views] == [
        ("first", "Elementwise"),
        ("second", "Elementwise"),
    ]
    assert "Isru" in apart.op_statistic().to_csv()

    asim.save(model, tmp_path / "net.asim")
    again = asim.run(asim.load_compiled(tmp_path / "net.asim", operators=[isru]), {"x": x})
    assert again.duration_us == result.duration_us
    np.testing.assert_array_equal(again.outputs["y"], result.outputs["y"])
    with pytest.raises(asim.InputError, match="Isru"):
        asim.load_compiled(tmp_path / "net.asim")

    asim.plot_graphs({"net": model.graph}).save(tmp_path / "net.png")
    assert (tmp_path / "net.png").stat().st_size > 1000


def test_an_operator_of_ones_own_runs_on_parts_of_a_batch(isru: OpDef) -> None:
    graph = asim.load(model_file(8), operators=[isru])
    # slow DRAM, and an L2 that holds some samples: cutting pays
    slow = {"l2.size": "1MiB", "dram.read_gb_per_s": 10, "dram.write_gb_per_s": 10}
    options: dict[str, Any] = {"operators": [isru], "set": slow, "options": {"l2_batch": "split"}}
    model = asim.compile(graph, "Ascend310", **options)
    split = {name for block in model.buffers.blocks for name in block.nodes}
    assert {"first", "second"} <= split
    whole = asim.compile(graph, "Ascend310", **options | {"options": {}})
    x = np.random.default_rng(2).normal(size=(8, 16, 56, 56)).astype(np.float32)
    parts, at_once = (asim.run(each, {"x": x}).outputs["y"] for each in (model, whole))
    np.testing.assert_array_equal(parts, at_once)


@pytest.mark.parametrize("verb", [asim.compile, asim.optimize], ids=["compile", "optimize"])
def test_an_operator_that_is_not_given_is_named(verb: Any, isru: OpDef) -> None:
    with pytest.raises(asim.UnsupportedOperatorError, match="my.ops::Isru"):
        asim.load(model_file())
    graph = asim.load(model_file(), operators=[isru])
    with pytest.raises(asim.UnsupportedOperatorError, match="my.ops::Isru"):
        verb(graph)


def test_no_operator_takes_the_name_of_another(isru: OpDef) -> None:
    with pytest.raises(asim.InputError, match="option operators must have a domain and name"):
        asim.load(model_file(), operators=[isru, isru])
