"""What a listener hears of PyTorch's own work: operators with the shapes of their tensors, no views, nothing
of the simulator's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ascendsim.frontends.torch.eager import HostCall, fallback, listening, silence
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()


def heard(function: Callable[[Any], Any]) -> list[HostCall]:
    found: list[HostCall] = []
    x = torch.arange(6.0).reshape(2, 3)
    with listening(found.append):
        function(x)
    return found


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x + 1, [("aten::add", "eager", ((2, 3),))]),
        (lambda x: torch.mul(x, x[0]), [("aten::mul", "eager", ((2, 3), (3,)))]),
        (lambda x: x.add_(1), [("aten::add_", "eager", ((2, 3),))]),
        (lambda x: x.add_(torch.ones(3), alpha=2), [
            ("aten::ones", "eager", ()), ("aten::add_", "eager", ((2, 3), (3,))),
        ]),
        (lambda x: torch.add(x, 1, out=torch.empty(2, 3)), [
            ("aten::empty", "eager", ()), ("aten::add", "eager", ((2, 3), (2, 3))),
        ]),
        (lambda x: x.reshape(3, 2), []),
        (lambda x: x.view(6).t(), []),
        (lambda x: x[1:, ::2], []),
        (lambda x: x.split(1), []),
        (lambda x: x[0, 0].item(), [("aten::_local_scalar_dense", "read", ((),))]),
        (lambda x: torch.nonzero(x), [("aten::nonzero", "read", ((2, 3),))]),
        (lambda x: torch.zeros(2), [("aten::zeros", "eager", ())]),
        (lambda x: x.max(1), [("aten::max", "eager", ((2, 3),))]),
    ],
)  # fmt: skip
def test_operators_are_heard_with_their_shapes(function: Any, wanted: Any) -> None:
    assert [(call.name, call.kind, call.shapes) for call in heard(function)] == wanted


def test_what_is_the_simulators_own_is_silent_and_what_has_no_converter_a_fallback() -> None:
    def quiet(x: Any) -> None:
        with silence():
            x + 1
        x * 2

    def unknown(x: Any) -> None:
        with fallback():
            x + 1
            x[0, 0].item()
        x * 2

    assert [call.name for call in heard(quiet)] == ["aten::mul"]
    kinds = [(call.name, call.kind) for call in heard(unknown)]
    assert kinds == [
        ("aten::add", "fallback"),
        ("aten::_local_scalar_dense", "fallback"),
        ("aten::mul", "eager"),
    ]


def test_results_are_handed_on_as_they_are() -> None:
    x = torch.arange(3.0)
    with listening(lambda call: None):
        y = torch.add(x, x, alpha=3)
    assert y.tolist() == [0.0, 4.0, 8.0]
