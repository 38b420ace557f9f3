"""One factor and one shift a channel: what BatchNorm is after its statistics are folded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.half import emulate
from tests.support.single_node import run


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (4, 3)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("op_type", ["Scale", "BNInferenceD"])
def test_a_shift_that_is_left_out_is_zero(op_type: str, dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(dtype)
    factor, shift = random.standard_normal((2, 3)).astype(dtype)
    along = (1, 3) + (1,) * (len(shape) - 2)
    for inputs, added in (([x, factor, shift], shift), ([x, factor], np.zeros(3, dtype))):
        found = run(op_type, inputs, domain="ascend")[0]
        exact = x.astype(np.float64) * factor.astype(np.float64).reshape(along)
        exact += added.astype(np.float64).reshape(along)
        if dtype is np.float16:
            np.testing.assert_array_equal(found, emulate(lambda v: v, exact))
        else:
            np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-7)
