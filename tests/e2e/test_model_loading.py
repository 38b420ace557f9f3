"""Every network structure loads at batch 1, 4 and 16 with static, right shapes, and samples of a batch stay
apart."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import parse_text, to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.gate import every, slow

MODELS = Path(__file__).parents[1] / "data" / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.onnx"))
# Exported with a fixed batch in constants: onnx's own inference cannot tell their shapes at another batch.
BAKED = {
    "bert_base_s128",
    "bert_base_s384",
    "bert_base_s64",
    "bert_large_s128",
    "bert_large_s384",
    "bert_tiny_s64",
    "bert_tiny_s64_traced",
    "deit_small",
    "ghostnet",
    "llama_mini",
    "lstm_lm",
    "resnet50_folded",
    "shufflenet_v1",
    "swin_t",
    "vit_b_16",
    "vit_s_16",
    "yolov5s",
}


def load(name: str, **options) -> Graph:
    return load_onnx(MODELS / f"{name}.onnx", opset=default_opset(), **options)


@lru_cache(maxsize=3)  # tests of one network come one after the other
def loaded(name: str, batch: int) -> Graph:
    """A network at a batch size; nobody changes it."""
    return load(name, batch=batch)


@pytest.fixture(scope="module", params=every(4, NAMES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {name: tensor.static_shape for name, tensor in graph.tensors.items()}


def reference_shapes(name: str, batch: int) -> dict[str, tuple[int, ...]]:
    """Static shapes that onnx infers with the first dimension of every input set."""
    proto = onnx.load(MODELS / f"{name}.onnx", load_external_data=False)
    weights = {tensor.name for tensor in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name not in weights:
            value.type.tensor_type.shape.dim[0].dim_value = batch
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    found = {}
    for value in [*inferred.value_info, *inferred.output]:
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            found[value.name] = tuple(dim.dim_value for dim in dims)
    return found


def test_all_structures_are_there():
    assert len(NAMES) == 41
    assert set(NAMES) >= BAKED


def test_shapes_agree_with_onnx(name):
    for batch in (1,) if name in BAKED else (1, 16):
        ours, theirs = shapes(loaded(name, batch)), reference_shapes(name, batch)
        common = ours.keys() & theirs.keys()
        assert len(common) > 0.5 * len(theirs)
        assert {key: ours[key] for key in common} == {key: theirs[key] for key in common}


def test_a_batch_scales_one_dimension_of_each_tensor(name):
    one, four, sixteen = (loaded(name, batch) for batch in (1, 4, 16))
    for graph in (one, four, sixteen):
        verify(graph, default_opset())
    small, middle, large = shapes(one), shapes(four), shapes(sixteen)
    assert {node.name for node in four.nodes} == {node.name for node in sixteen.nodes}
    assert {node.name for node in one.nodes} <= {node.name for node in four.nodes}
    for tensor in four.outputs:
        assert tensor.static_shape == (4, *small[tensor.name][1:])
    carried = 0
    for node in four.nodes:
        for tensor in node.outputs:
            a, b, c = small.get(tensor.name, ()), middle[tensor.name], large[tensor.name]
            if not a:
                continue  # an inserted node
            changed = [axis for axis in range(len(a)) if a[axis] != b[axis]]
            assert len(changed) <= 1
            carried += len(changed)
            for axis in changed:
                assert (b[axis], c[axis]) == (4 * a[axis], 16 * a[axis])
    assert carried > 0.25 * len(four)  # most nodes of lstm_lm rearrange weights


@pytest.mark.parametrize(
    "name",
    [
        "lenet5",
        "bert_tiny_s64_traced",
        "lstm_lm",
        *slow("bert_tiny_s64", "shufflenet_v1"),
    ],
)
def test_samples_of_a_batch_stay_apart(name):
    independent(name, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit_b_16", "llama_mini", "ghostnet"])
def test_samples_of_a_batch_stay_apart_in_larger_networks(name):
    independent(name, 2)


def independent(name: str, batch: int) -> None:
    """Each sample of a batch must give what it gives alone."""
    alone, together = load(name, weights="random"), load(name, weights="random", batch=batch)
    generator = np.random.default_rng(1)
    inputs = {}
    for tensor in together.inputs:
        integers = tensor.element_type.is_integer
        values = (
            generator.integers(0, 2, tensor.static_shape)
            if integers
            else generator.standard_normal(tensor.static_shape)
        )
        inputs[tensor.name] = values.astype(tensor.element_type.numpy)
    found = evaluate(together, default_opset(), inputs)
    singles = [
        evaluate(alone, default_opset(), {key: array[i : i + 1] for key, array in inputs.items()})
        for i in range(batch)
    ]
    for port, array in enumerate(found):
        wanted = np.concatenate([single[port] for single in singles])
        scale = np.abs(wanted).max()
        assert np.abs(array - wanted).max() < 1e-4 * scale
        # the samples differ, so the comparison says something
        assert np.abs(wanted[0] - wanted[1]).max() > 1e-4 * scale


@pytest.mark.parametrize("batch", [1, 4])
def test_the_traced_mask_folds(golden, batch):
    graph = load("bert_tiny_s64_traced", batch=batch)
    assert not {"Shape", "ConstantOfShape", "Equal"} & {node.op_type for node in graph.nodes}
    text = to_text(graph)
    golden(f"graph/bert_tiny_s64_traced_batch{batch}.txt", text)
    assert to_text(parse_text(text)) == text


def test_other_image_sizes():
    assert load("unet", shapes={"input": (2, 3, 128, 96)}).outputs[0].shape == (2, 2, 128, 96)
    assert load("resnet18", shapes={"input": (1, 3, 256, 192)}).outputs[0].shape == (1, 1000)
