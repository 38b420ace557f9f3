"""Axes become points: every combination once, in one form however asked, and nothing that cannot be."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.sweep.space import space_of


def points(limit: int = 10_000, rows: Any = None, **axes: Any) -> list[dict[str, Any]]:
    return list(space_of(["m.onnx"], axes, rows, limit).points)


def test_lists_are_multiplied_and_the_last_runs_quickest() -> None:
    found = points(soc=["Ascend310", "Ascend910A"], batch=[1, 8], set={"dram.read_gb_per_s": [40, 60]})
    assert [(p["soc"], p["batch"], p["set"]["dram.read_gb_per_s"]) for p in found] == [
        (soc, batch, rate) for soc in ("Ascend310", "Ascend910A") for batch in (1, 8) for rate in (40.0, 60.0)
    ]


def test_points_are_plain_json() -> None:
    found = points(
        batch=np.array([2, 4]),
        set={"ai_cores": np.int64(1)},
        shapes={"x": (1, np.int64(3))},
        options={"tiling": "closed_form"},
    )
    assert json.loads(json.dumps(found)) == found
    assert found[0]["shapes"] == {"x": [1, 3]}


def test_a_question_has_one_form() -> None:
    plain = points(soc="Ascend310", batch=8, set={"l2.size": 16 << 20, "dram.read_gb_per_s": 40})
    said = points(
        set={"dram.read_gb_per_s": "40", "l2.size": "16MiB"},
        fusion="all",
        schedule="sink",
        batch=8,
        soc="Ascend310",
        options={"tiling": "verified"},
        precision_mode="force_fp16",
    )
    assert json.dumps(plain, sort_keys=True) == json.dumps(said, sort_keys=True)


def test_a_default_of_a_release_counts_where_the_release_has_another() -> None:
    (point,) = points(release="ddk", options={"aicpu_pow": False})
    assert point["options"] == {"aicpu_pow": False}


def test_rows_are_completed_by_what_is_the_same_for_all() -> None:
    found = points(
        soc="Ascend910A", rows=[{"batch": 1}, {"batch": 2, "soc": "Ascend310", "set": {"ai_cores": 1}}]
    )
    assert found == [
        {"model": "m.onnx", "soc": "Ascend910A", "batch": 1},
        {"model": "m.onnx", "soc": "Ascend310", "batch": 2, "set": {"ai_cores": 1}},
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"batch": []}, "axis batch is empty"),
        ({"batch": [1, 2, 1]}, "axis batch names 1 twice"),
        ({"set": {"l2.size": ["16MiB", 16 << 20]}}, "axis set.l2.size names 16777216 twice"),
        ({"batch": [0]}, "axis batch must be positive whole numbers"),
        ({"batch": [True]}, "axis batch must be positive whole numbers"),
        ({"bach": [1]}, "axis bach does not exist; did you mean batch"),
        ({"presicion_mode": ["force_fp16"]}, "did you mean precision_mode"),
        ({"fusion": ["al"]}, "axis fusion must be one of .*did you mean all"),
        ({"keep_dtype": ["a.cfg"]}, "axis keep_dtype cannot be swept"),
        (
            {"set": {"dram.read_gb_per": [1]}},
            "key dram.read_gb_per does not exist; did you mean dram.read_gb_per_s",
        ),
        ({"set": {"dram.read_gb_per_s": ["fast"]}}, "dram.read_gb_per_s"),
        ({"set": {"dram.read_gb_per_s": [float("nan")]}}, "dram.read_gb_per_s must be"),
        ({"set": {"name": ["a"]}}, "key name cannot be set"),
        ({"set": 3}, "option set must be a dictionary"),
        ({"options": {"tilling": "x"}}, "profile option 'tilling' does not exist; did you mean tiling"),
        ({"soc": [3]}, "axis soc must name chips"),
        ({"shapes": 3}, "axis shapes must be shapes by input name"),
        ({"aicore_num": ["many", 1.5]}, "axis aicore_num cannot have this value"),
        ({"optimize": [3]}, "axis optimize"),
        (
            {"batch": list(range(1, 5000)), "soc": ["Ascend310", "Ascend910A", "x"]},
            "14,997 points.*limit=14997",
        ),
        ({"rows": []}, "points= must name at least one point"),
        ({"rows": [{"batch": 1}, {"batch": 1}]}, "point 1 is there twice"),
        ({"rows": [3]}, "point 0 must be a dictionary"),
        ({"rows": [{"batch": 1}], "soc": ["Ascend310", "Ascend910A"]}, "axis soc is a list beside points="),
    ],
)
def test_what_cannot_be_is_named(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(AscendSimError, match=message):
        points(**asked)


def test_the_number_of_points_is_known_before_any_is_made() -> None:
    with pytest.raises(AscendSimError, match=r"10,000,000 points, more than 10,000"):
        points(
            **{
                "set": {key: list(range(1, 101)) for key in ("ai_cores", "l2.read_latency_cycles")},
                "batch": list(range(1, 1001)),
            }
        )


@pytest.mark.parametrize(
    ("batch", "count"),
    [(range(1, 10**7 + 1), "10,000,000"), (count(1), "10,001")],  # the second has no end
)
def test_one_axis_of_millions_is_refused_before_a_look_at_its_values(batch: Any, count: str) -> None:
    with pytest.raises(AscendSimError, match=f"has {count} points, more than 10,000"):
        points(batch=batch)
