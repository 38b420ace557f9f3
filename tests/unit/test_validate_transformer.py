"""The step of MindSpore's vision transformer has the operators that its profile shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ascendsim as asim
from ascendsim.training.step import TrainingStep
from ascendsim.validate.training import PROFILED_SOC, StepProfile, measured_profiles, profile_of
from tests.support.torch_present import torch_or_skip

torch_or_skip()

from tests.support.bert_pretraining import SMALL as SMALL_BERT  # noqa: E402
from tests.support.bert_zoo import bert_step  # noqa: E402
from tests.support.vit_training import OPTIONS, SMALL, vit_step  # noqa: E402

SIZES, BERT = replace(SMALL, layers=1), replace(SMALL_BERT, layers=1)
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
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
def step() -> TrainingStep:
    return vit_step(SIZES)


@pytest.fixture(scope="module")
def small(step: TrainingStep) -> StepProfile:
    tiles = {**OPTIONS["options"], "tiling": "closed_form"}
    model = asim.compile(step.graph, PROFILED_SOC, **{**OPTIONS, "options": tiles})
    return profile_of(asim.simulate(model), SIZES.batch)


@pytest.mark.parametrize("theirs", SAME)
def test_operators_of_a_layer_are_as_many_as_in_the_profile(small: StepProfile, theirs: str) -> None:
    measured = measured_profiles("vit")[0].kinds[theirs][0]
    around = measured % 12  # of the network's ends
    assert small.kinds[SAME[theirs]][0] == measured // 12 * SIZES.layers + around


def test_heads_are_moved_and_nothing_else(small: StepProfile) -> None:
    patches = 1  # the other task of the profile, ConfusionTransposeD
    found = sum(count for name, (count, _) in small.kinds.items() if name.endswith("TransposeD"))
    assert found == measured_profiles("vit")[0].kinds["Transpose"][0] // 12 * SIZES.layers + patches


def test_what_the_ai_cpu_draws_is_not_in_a_profile(small: StepProfile) -> None:
    assert not {"DropOutGenMask", "StatelessBernoulli"} & set(small.kinds)


def test_what_an_update_makes_is_assigned(small: StepProfile, step: TrainingStep) -> None:
    """A weight and two moments each; the profile has the two powers too, which are single numbers."""
    shown = measured_profiles("vit")[0].kinds["Assign"][0] - 2
    weights = len(step.parameters)
    assert small.kinds["Assign"][0] == 3 * weights
    in_layers = weights - 8  # classes, positions, patches, last norm and head
    assert shown == 3 * (in_layers // SIZES.layers * 12 + 8)


def test_gradients_of_weights_leave_the_cube_as_float32_and_unscaled(small: StepProfile) -> None:
    """One product a weight, as many as the profile has FusionOp_MatMul_Mul."""
    theirs = measured_profiles("vit")[0].kinds["FusionOp_MatMul_Mul"][0]
    assert small.kinds["FusionOp_MatMulV2_Mul"][0] == theirs // 12 * SIZES.layers + theirs % 12


def test_the_step_of_bert_keeps_scores_of_attention_by_head_and_bounds_every_gradient() -> None:
    step = bert_step(BERT)
    products = [node.output.static_shape for node in step.graph.nodes if node.op_type == "MatMul"]
    by_head = [shape for shape in products if shape[:2] == (BERT.batch, BERT.heads)]
    assert len(by_head) == 2 + 4  # forward and backward
    assert not [shape for shape in products if len(shape) == 3]
    model = asim.compile(step.graph, PROFILED_SOC, **OPTIONS)
    kinds = [node.op_type for node in model.graph.nodes]
    assert kinds.count("ClipByNormNoDivSum") == len(step.parameters)
    assert kinds.count("LambNextMVWithDecay") == len(step.parameters)
    weights = [name for name in step.parameters if len(step.graph.tensors[name].static_shape) > 1]
    tables = 3  # words, positions, kinds; the first is a product's too, but its gradient is a sum of two
    made = profile_of(asim.simulate(model), BERT.batch).kinds
    assert made["FusionOp_MatMulV2_Mul"][0] == len(weights) - tables
