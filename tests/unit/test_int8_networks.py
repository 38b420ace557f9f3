"""Known networks, quantised by onnxruntime: every operator's bytes against onnxruntime's own on the same
inputs, times and tasks against float16. Those that take longer than seconds are marked slow.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from tests.support.gate import every, in_turn, slow
from tests.support.int8_networks import FORMS, MODELS, Form, quantised_network, steps_apart

pytest.importorskip("onnxruntime")
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")
LONG = ("mobilenet_v1", "resnet18", "resnet50", "efficientnet_b1", "yolov5s", "bert_base_s128")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("int8")


@cache
def in_float16(name: str, chip: str) -> Any:
    return asim.simulate(asim.compile(asim.load(MODELS / f"{name}.onnx"), chip))


@cache
def in_int8(name: str, form: Form, folder: Path) -> onnx.ModelProto:
    return quantised_network(name, form, folder)


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.parametrize(("form", "joined"), in_turn(FORMS, [False, True]))
@pytest.mark.parametrize("name", [*slow(*LONG), "bert_tiny_s64"])
def test_every_operator_is_within_a_step(name: str, form: Form, joined: bool, folder: Path) -> None:
    """Of operators that became one (`joined`) the one is compared with the last of them."""
    network = in_int8(name, form, folder)
    apart = steps_apart(network, "Ascend310", joined)
    assert len(apart) > 20
    for tensor, steps in apart.items():
        assert np.mean(steps <= 1) >= 0.999, tensor
    equal = np.concatenate([steps.reshape(-1) == 0 for steps in apart.values()])
    assert np.mean(equal) > (0.95 if joined else 0.998)


@pytest.mark.parametrize("chip", every(3, CHIPS))
@pytest.mark.parametrize("form", ["QDQ", pytest.param("QOperator", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", slow(*LONG))  # in the gate a small one: test_quantised_networks
def test_int8_is_quicker_than_float16(name: str, form: Form, chip: str, folder: Path) -> None:
    plain, result = (
        in_float16(name, chip),
        asim.simulate(asim.compile(asim.load(in_int8(name, form, folder)), chip)),
    )
    assert result.duration_us < plain.duration_us
    assert len(result.model.program.tasks) <= len(plain.model.program.tasks)
