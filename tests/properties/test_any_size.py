"""No convolution, pooling, product or resize is refused for its size."""

from __future__ import annotations

import pytest

import ascendsim
from tests.support.any_size import KINDS, layers
from tests.support.lowering import CHIPS

COUNT = {"convolution": 60, "pooling": 40, "product": 40, "resize": 40}


@pytest.mark.parametrize("kind", KINDS)
def test_every_size_has_a_program(kind: str) -> None:
    for number, layer in enumerate(layers(kind, COUNT[kind])):
        chip = CHIPS[number % len(CHIPS)]
        try:
            model = ascendsim.compile(layer.graph, soc=chip, options={"tiling": "closed_form"})
        except ascendsim.AscendSimError as error:
            pytest.fail(f"{layer.text} on {chip}: {error}")
        assert model.program.tasks
