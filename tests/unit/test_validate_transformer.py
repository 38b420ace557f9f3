"""The step of MindSpore's vision transformer has the operators that its profile shows."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.validate.training import PROFILED_SOC, StepProfile, measured_profiles, profile_of
from tests.support.torch_present import torch_or_skip

torch_or_skip()

from tests.support.vit_training import OPTIONS, SMALL, vit_step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
# CANN's names of what MindSpore's profile calls otherwise
SAME = {
    "BatchMatMul": "BatchMatMulV2",
    "DropoutDoMask": "DropOutDoMask",
    "GeLU": "Gelu",
    "GeLUGrad": "GeluGrad",
    "LayerNorm": "LayerNorm",
    "LayerNormXBackpropV2": "LayerNormXBackpropV2",
    "LayerNormBetaGammaBackpropV2": "LayerNormBetaGammaBackpropV2",
    "Softmax": "SoftmaxV2",
}


@pytest.fixture(scope="module")
def small() -> StepProfile:
    model = asim.compile(vit_step(SMALL).graph, PROFILED_SOC, **OPTIONS)
    return profile_of(asim.simulate(model), SMALL.batch)


@pytest.mark.parametrize("theirs", SAME)
def test_operators_of_a_layer_are_as_many_as_in_the_profile(small: StepProfile, theirs: str) -> None:
    measured = measured_profiles("vit")[0].kinds[theirs][0]
    around = measured % 12  # of the network's ends
    assert small.kinds[SAME[theirs]][0] == measured // 12 * SMALL.layers + around


def test_heads_are_moved_and_nothing_else(small: StepProfile) -> None:
    patches = 1  # the other task of the profile, ConfusionTransposeD
    found = sum(count for name, (count, _) in small.kinds.items() if name.endswith("TransposeD"))
    assert found == measured_profiles("vit")[0].kinds["Transpose"][0] // 12 * SMALL.layers + patches


def test_what_the_ai_cpu_draws_is_not_in_a_profile(small: StepProfile) -> None:
    assert not {"DropOutGenMask", "StatelessBernoulli"} & set(small.kinds)


def test_what_an_update_makes_is_assigned(small: StepProfile) -> None:
    """A weight and two moments each; the profile has the two powers too, which are single numbers."""
    shown = measured_profiles("vit")[0].kinds["Assign"][0] - 2
    weights = len(vit_step(SMALL).parameters)
    assert small.kinds["Assign"][0] == 3 * weights
    in_layers = weights - 8  # classes, positions, patches, last norm and head
    assert shown == 3 * (in_layers // SMALL.layers * 12 + 8)
