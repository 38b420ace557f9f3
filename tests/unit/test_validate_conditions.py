"""Conditions of published rows: what a row says becomes settings and rewrites of the compilation."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from ascendsim.api.running import simulate
from ascendsim.validate import measured_points
from ascendsim.validate.conditions import REWRITES, Conditions
from ascendsim.validate.models import compile_point

PLAIN = {"soc": "310P3", "cann": "", "options": "none", "scripts": "none"}


def test_options_of_a_row() -> None:
    text = '--enable_small_channel=1 --op_select_implmode=high_performance --optypelist_for_implmode="Gelu"'
    found = Conditions.of({**PLAIN, "options": text, "scripts": "onnxsim opt_vit.py"})
    assert found.arguments == {"op_select_implmode": "high_performance", "optypelist_for_implmode": "Gelu"}
    assert found.levers == ("pad-tokens",)
    assert found.known


def test_versions_of_a_row() -> None:
    assert Conditions.of({**PLAIN, "cann": "5.0.4"}).arguments == {"cann": "5.0.4"}
    assert Conditions.of({**PLAIN, "soc": "310P"}).arguments == {"cann": "5.1"}
    assert Conditions.of({**PLAIN, "soc": "310P", "cann": "6.3.RC1"}).arguments == {"cann": "6.3.RC1"}
    assert Conditions.of(PLAIN) == Conditions(known=True)
    assert not Conditions.of({**PLAIN, "options": "unknown"}).known


def test_points_of_one_table_have_one_set_of_conditions() -> None:
    """Else a curve over batches would not be one."""
    kinds = defaultdict(set)
    for point in measured_points():
        kinds[point.group, point.model].add((point.conditions.settings, point.conditions.levers))
    assert [key for key, found in kinds.items() if len(found) > 1] == []
    used = {lever for found in kinds.values() for _, levers in found for lever in levers}
    assert used == set(REWRITES.values())


@pytest.mark.usefixtures("untimed_tiles")
def test_a_point_is_compiled_under_its_conditions(models_dir: Path) -> None:
    (point,) = (p for p in measured_points(["310P3"]) if p.model == "vit_b_16" and p.batch == 1)
    model = compile_point(point, models_dir)
    assert model.options.optypelist_for_implmode == "Gelu"
    softmax = next(node for node in model.graph.nodes if node.op_type == "Softmax")
    assert softmax.output.static_shape == (1, 12, 208, 208)


@pytest.mark.slow
def test_what_a_rewrite_of_softmax_gains_on_310(models_dir: Path) -> None:
    """Published for Swin-T at batch 16 on one of four chips of a card: 170.7 / 4 images a second before
    fix_softmax.py, 237.6 / 4 after it (two versions of one README).
    """
    (point,) = (p for p in measured_points(["310"]) if p.model == "swin_t" and p.batch == 16)
    plain = replace(point, conditions=Conditions())
    before, after = (simulate(compile_point(p, models_dir)).duration_us for p in (plain, point))
    assert before / after == pytest.approx(237.6 / 170.7, rel=0.1)
    assert 16e6 / before == pytest.approx(170.7 / 4, rel=0.15)
