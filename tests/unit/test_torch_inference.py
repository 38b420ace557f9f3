"""`from_torch`: values are those of PyTorch, names those of its modules, weights its own memory."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from tests.support.torch_functions import arguments, corners, examples, functions  # noqa: E402
from tests.support.torch_networks import IN_TURN, network  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]


def values(graph, *inputs):
    names = [tensor.name for tensor in graph.inputs]
    arrays = {name: one.numpy() for name, one in zip(names, inputs, strict=True)}
    return evaluate_plain(graph, default_opset(), arrays)


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@cache
def captured(name):
    """A network as it is for inference, an example of its input, and its graph."""
    module, example = network(name)
    module.eval()
    return module, example, asim.from_torch(module, example)


@pytest.mark.parametrize("name", IN_TURN)
def test_networks_give_what_eager_mode_gives(name):
    module, example, graph = captured(name)
    wanted = module(example).detach().numpy()
    result = values(graph, example)["output"]
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("called", [functions, corners, arguments])
def test_every_function_gives_what_eager_mode_gives(called):
    inputs = examples()
    graph = asim.from_torch(Module(called), inputs)
    wanted = called(*inputs)
    found = values(graph, *inputs)
    assert found.keys() == wanted.keys()
    wrong = {}
    for name, tensor in wanted.items():
        array, other = found[name], tensor.numpy()
        same = array.shape == other.shape and array.dtype == other.dtype
        if not same or not np.allclose(array, other, rtol=1e-5, atol=1e-6, equal_nan=True):
            wrong[name] = (
                array.dtype,
                array.shape,
                other.dtype,
                other.shape,
                array.ravel()[:4],
                other.ravel()[:4],
            )
    assert wrong == {}


def test_nodes_have_the_path_of_their_module_and_weights_its_memory():
    module, _, graph = captured("bert")
    node = graph.node("layer.1.attention.query/MatMul")
    weight = module.layer[1].attention.query.weight.detach().numpy()
    held = node.required(1).constant.array()
    assert np.shares_memory(held, weight)
    np.testing.assert_array_equal(held, weight.T)
    assert graph.node("layer.0.norm1/LayerNormalization").op_type == "LayerNormalization"
    words = module.words.weight.detach().numpy()
    sharing = [t.name for t in graph.constants if np.shares_memory(t.constant.array(), words)]
    assert sorted(sharing) == ["words.weight", "words.weight.T"]  # tied: the scores read the same memory


def test_attention_is_its_formula():
    _, _, graph = captured("llama")
    counts = {row[0]: row[1] for row in graph.operators().rows}
    assert counts["Softmax"] == 1
    assert counts["MatMul"] == 8 + 2  # seven projections and the head, two products of attention


def test_what_changes_no_value_adds_no_node():
    graph = asim.from_torch(Module(lambda x: x.detach().clone().t().t().contiguous() * 2), torch.ones(3, 4))
    assert [node.op_type for node in graph.nodes] == ["Mul"]


def test_a_dictionary_of_inputs_and_of_results():
    module = Module(lambda x, y: {"sum": x + y, "pair": (x - y, x)})
    module.forward = lambda x, y: {"sum": x + y, "pair": (x - y, x)}
    x, y = torch.ones(2), torch.full((2,), 3.0)
    graph = asim.from_torch(module, {"y": y, "x": x})
    arrays = {"x": x.numpy(), "y": y.numpy()}
    found = evaluate_plain(graph, default_opset(), arrays)
    assert {name: array.tolist() for name, array in found.items()} == {
        "sum": [4.0, 4.0],
        "pair.0": [-2.0, -2.0],
        "pair.1": [1.0, 1.0],
    }


def test_open_dimensions_run_with_another_size():
    module, _ = network("gpt")
    module.eval()
    ids = torch.randint(1, 50, (5, 8))
    batch = torch.export.Dim("batch")
    graph = asim.from_torch(module, ids[:2], dynamic_shapes=({0: batch},))
    (dim, length) = graph.inputs[0].shape
    assert isinstance(dim, str)
    assert length == 8
    model = asim.compile(graph, "Ascend310P3", precision_mode="allow_fp32_to_fp16")
    found = asim.run(model, {graph.inputs[0].name: ids.numpy()}, values="float32").outputs["output"]
    np.testing.assert_allclose(found, module(ids).detach().numpy(), atol=1e-5)  # 5, captured with 2


def test_half_precision_keeps_its_types():
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).to(torch.bfloat16)
    graph = asim.from_torch(module, torch.ones(2, 4, dtype=torch.bfloat16))
    assert {tensor.dtype.value for tensor in graph.tensors.values()} == {"bfloat16"}
    weight = next(graph.constants)
    np.testing.assert_array_equal(
        weight.constant.array().astype(np.float32), module[0].weight.detach().float().numpy()
    )


def test_a_compiled_network_runs_on_the_chip():
    module, example, graph = captured("resnet")
    model = asim.compile(graph, "Ascend310P3")
    result = asim.run(model, {model.graph.inputs[0].name: example.numpy()})
    wanted = module(example).detach().numpy()
    assert np.abs(result.outputs["output"] - wanted).max() < 0.02 * np.abs(wanted).max()
    assert result.duration_us > 0
