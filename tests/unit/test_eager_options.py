"""Operator by operator: what a user asked for in vain is said, and what he did not ask for is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascendsim.api.compiling import compile
from ascendsim.core.errors import InputError
from ascendsim.models.seed_examples import net_composite_fuse
from tests.support.toy_rules import JoinRelu

# option: a value that asks for fusion or for the graph engine
IN_VAIN: dict[str, Any] = {
    "fusion": "graph-kernel",
    "graph_kernel_flags": "--opt_level=1",
    "passes": [JoinRelu()],
    "optimization_switch": "SoftmaxFusionPass:off",
    "oo_level": "O1",
    "optimize": ["CommonSubexpressionEliminationPass"],
    "save_graphs": True,
    "buffer_optimize": "off_optimize",
}


def eager(**options: Any) -> Any:
    return compile(net_composite_fuse(), "Ascend910A", schedule="eager", **options)


@pytest.mark.parametrize("name", IN_VAIN)
def test_an_option_that_eager_mode_ignores_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {name: IN_VAIN[name]}
    if name == "graph_kernel_flags":
        given["fusion"] = "graph-kernel"
    model, plain = eager(**given), eager()
    told = [
        text for text in model.fusion.warnings if f"option {name} has no effect with schedule=eager" in text
    ]
    assert len(told) == 1
    assert len(model.fusion.warnings) == len(given)
    assert len(model.program.tasks) == len(plain.program.tasks) > 3
    assert list(tmp_path.iterdir()) == []


def test_a_switch_file_and_profile_options_are_named(tmp_path: Path) -> None:
    (tmp_path / "sw.cfg").write_text('{"Switch": {"GraphFusion": {"ALL": "off"}}}')
    options = {"l2_batch": "split", "ub_conv": "2", "group_conv": "split", "aicpu_pow": "on"}
    model = eager(fusion_switch_file=tmp_path / "sw.cfg", options=options)
    assert model.fusion.warnings == [
        "option fusion_switch_file has no effect with schedule=eager",
        "profile option group_conv has no effect with schedule=eager",
        "profile option ub_conv has no effect with schedule=eager",
        "profile option l2_batch has no effect with schedule=eager",
    ]  # where Pow runs counts in any mode


def test_what_is_as_it_would_be_anyway_is_not_named() -> None:
    assert eager().fusion.warnings == []
    wishes: dict[str, Any] = {"fusion": "off", "optimize": False, "save_graphs": False, "oo_level": "O3"}
    assert eager(**wishes, oo_constant_folding=False).fusion.warnings == []


def test_wrong_values_are_refused_in_any_mode() -> None:
    with pytest.raises(InputError, match=r"must name a level or a flow, not 'grph'; did you mean graph\?"):
        eager(fusion="grph")
    with pytest.raises(InputError, match="graph_kernel_flags needs fusion=\"graph-kernel\", not 'all'"):
        eager(graph_kernel_flags="--opt_level=1")
    with pytest.raises(InputError, match="opt_levels"):
        eager(fusion="graph-kernel", graph_kernel_flags="--opt_levels=1")
