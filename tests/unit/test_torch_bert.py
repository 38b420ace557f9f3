"""A pre-training step of BERT, captured on the meta device: operators beside MindSpore's, passes that match,
the same bits with graph-kernel fusion, and what is done once a step.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.compiling import compile_until
from ascendsim.compiler.options import CompileOptions
from ascendsim.core.dtypes import DType
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from tests.support.bert_pretraining import SMALL, Layer, on_meta, with_values  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
COUNTS = Path(__file__).parents[1] / "data" / "ms_training" / "operators.csv"
MODE = "allow_mix_precision"
SIZES = replace(SMALL, layers=1)


@cache
def small_step(optimizer="lamb", loss_scale=1024):
    return asim.training_step(*with_values(SIZES), optimizer=optimizer, loss_scale=loss_scale)


def compiled(step, fusion, soc="Ascend910A", **options):
    return compiled_graph(step.graph, fusion, soc, **options)


@cache
def compiled_graph(graph, fusion, soc, **options):
    return asim.compile(graph, soc, fusion=fusion, precision_mode=MODE, **options)


@cache
def last_graph(graph, fusion, soc="Ascend910A"):
    """What a step becomes before anything is lowered, which is most of the work."""
    return compile_until(graph, CompileOptions(soc, fusion=fusion, precision_mode=MODE), "order").graph


def kinds(graph):
    return Counter(node.op_type for node in graph.nodes)


def test_the_meta_device_gives_the_same_graph():
    step = asim.training_step(*on_meta(SIZES), optimizer="lamb", loss_scale=1024)
    assert kinds(step.graph) == kinds(small_step().graph)
    assert step.parameters == small_step().parameters
    assert not step.initial_values["pooler.weight"].available
    # tied: one parameter, one gradient
    assert "decoder.weight" not in step.parameters


class TwoLayers(nn.Module):
    """The network of which MindSpore's composites are: no mask, no bias of the attention's sum."""

    def __init__(self):
        super().__init__()
        sizes = replace(SMALL, width=128, heads=2)
        self.table = nn.Embedding(500, 128)
        self.layer, self.head = nn.ModuleList(Layer(sizes) for _ in range(2)), nn.Linear(128, 500)

    def forward(self, ids, classes):
        x = self.table(ids)
        for layer in self.layer:
            x = layer(x, 0.0)
        return nn.functional.cross_entropy(self.head(x).view(-1, 500), classes.view(-1))


def test_operators_are_those_of_mindspore():
    theirs = {row["operator"]: int(row["count"]) for row in csv.DictReader(COUNTS.open())}
    assert len(theirs) == 23
    ids = torch.zeros(2, 64, dtype=torch.long)
    ours = asim.training_step(TwoLayers().train(), (ids, ids), optimizer="adamw")
    plain = kinds(ours.graph)
    fused = kinds(last_graph(ours.graph, "graph"))
    assert plain["Gemm"] + plain["MatMul"] == theirs["MatMul"] + theirs["BatchMatMul"]
    assert plain["LayerNormalization"] == theirs["LayerNorm"]
    assert plain["LayerNormGrad"] == theirs["LayerNormGrad"]
    assert (plain["Gelu"], plain["GeluGrad"]) == (theirs["GeLU"], theirs["GeLUGrad"])
    assert plain["DropOutGenMask"] == theirs["Dropout"]
    assert plain["DropOutDoMask"] == theirs["Dropout"] + theirs["DropoutGrad"]
    assert plain["Softmax"] == theirs["Softmax"]
    # MindSpore writes the gradient of Softmax out: product, sum, difference
    assert plain["SoftmaxGrad"] == theirs["ReduceSum"] == theirs["Sub"]
    assert plain["Gather"] == theirs["Gather"]
    assert plain["EmbeddingDenseGrad"] == theirs["UnsortedSegmentSum"]
    # loss and its gradient
    assert plain["NLLLoss"] + plain["NLLLossGrad"] == theirs["SparseSoftmaxCrossEntropyWithLogits"]
    assert fused["AdamApplyOneWithDecay"] == theirs["AdamWeightDecay"]
    biases = [name for name in ours.parameters if name.endswith("bias") and "Norm" not in name]
    assert len(biases) == theirs["BiasAddGrad"] == plain["ReduceSum"]


def test_passes_for_training_match_captured_graphs():
    lamb = compiled(small_step(), "graph")
    weights = len(small_step().parameters)
    effected = Counter()
    for record in lamb.fusion.records:
        effected[record.name] += record.effected
    assert sum(n for name, n in effected.items() if name.startswith("LambNextMVWithDecay")) == weights
    assert effected["LayerNormGradFusionPass"] == kinds(small_step().graph)["LayerNormGrad"]
    assert kinds(lamb.graph)["LambNextMVWithDecay"] == weights
    attentions = kinds(small_step().graph)["SoftmaxGrad"]
    assert attentions == kinds(lamb.graph)["SoftmaxGradExt"] == effected["SoftmaxGradExtFusionV2"] > 0
    assert kinds(lamb.graph)["LambUpdateWithLr"] == weights
    adamw = kinds(last_graph(small_step("adamw", None).graph, "graph"))
    assert adamw["AdamApplyOneWithDecay"] == weights


@pytest.mark.slow  # the gate has composites by themselves (test_expanded_values) and of random graphs
@pytest.mark.parametrize("values", ["device", "float32"])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B2"])
def test_graph_kernel_fusion_keeps_the_bits_of_a_step(values, soc):
    _, inputs = with_values(SIZES)
    step = small_step()
    feed = {**step.initial(), "learning_rate": np.float32(1e-3)}
    feed |= {f"input_{place}": tensor.numpy() for place, tensor in enumerate(inputs)}
    graph, kernel, plain = (
        asim.run(compiled(step, level, soc), feed, values=values).outputs
        for level in ("graph", "graph-kernel", "off")
    )
    assert not graph["overflow"]
    assert len(graph) > 4 * len(step.parameters)
    assert [name for name in graph if not np.array_equal(graph[name], kernel[name])] == []
    assert any((graph[f"{name}.updated"] != feed[name]).any() for name in step.parameters)
    for name, array in plain.items():
        np.testing.assert_allclose(graph[name], array, rtol=0, atol=1e-6 * max(1e-30, np.abs(array).max()))


@pytest.mark.parametrize(
    ("optimizer", "loss_scale"), [pytest.param("adamw", None, marks=pytest.mark.slow), ("lamb", 1024)]
)
def test_weights_and_gradients_are_cast_once_a_step(optimizer, loss_scale):
    graph = last_graph(small_step(optimizer, loss_scale).graph, "off")
    casts = Counter(
        (node.required(0).name, node.output.dtype) for node in graph.nodes if node.op_type == "Cast"
    )
    assert casts
    assert max(casts.values()) == 1
    weight = graph.tensors["layer.0.attention.query.weight"]
    (cast,) = [node for node, _ in weight.uses if node.op_type == "Cast"]
    assert cast.output.dtype is DType.FLOAT16
    assert len(cast.output.consumers) == 1  # one TransData, which forward and backward pass share


def test_the_check_for_overflow_is_that_of_the_chip():
    first, later = (
        kinds(last_graph(small_step().graph, "off", soc)) for soc in ("Ascend910A", "Ascend910B2")
    )
    assert (first["NPUClearFloatStatus"], first["NPUGetFloatStatus"], first["AllFinite"]) == (1, 1, 0)
    assert (later["NPUClearFloatStatus"], later["NPUGetFloatStatus"], later["AllFinite"]) == (0, 0, 1)
    tasks = compiled(small_step(), "off").program.tasks
    places = {task.name.rpartition("/")[2]: place for place, task in enumerate(tasks)}
    assert places["NPUClearFloatStatus"] == 1  # before all that may overflow
    assert places["NPUGetFloatStatus"] > places["NLLLossGrad"]


def test_an_overflow_leaves_the_weights():
    _, inputs = with_values(SIZES)
    step = small_step()
    feed = {**step.initial(), "learning_rate": np.float32(1e-3)}
    feed |= {f"input_{place}": tensor.numpy() for place, tensor in enumerate(inputs)}
    feed["pooler.weight"] = np.full_like(feed["pooler.weight"], np.inf)
    found = asim.run(compiled(step, "graph"), feed).outputs
    assert found["overflow"]
    for name in step.parameters:
        np.testing.assert_array_equal(found[f"{name}.updated"], feed[name])
