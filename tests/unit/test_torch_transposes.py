"""Transposed factors and results of products cost nothing: the Cube reads operands either way round."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()
nn = torch.nn
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]


class Attention(nn.Module):
    """Its result is a number, so that keys have a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        query, key, value = (
            one(x).view(2, 5, 4, 8).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        y = torch.softmax(query @ key.transpose(-1, -2), -1) @ value
        return (y.transpose(1, 2).reshape(2, 5, 32) ** 2).sum()


class Shared(nn.Module):
    """Somebody wants the product itself too."""

    def forward(self, x, y):
        product = x @ y
        return product.transpose(-1, -2) * 2, product + 1


def _transposes(model) -> list[tuple[int, ...]]:
    return [node.attr("perm") for node in model.graph.nodes if node.op_type.startswith("Transpose")]


def test_attention_moves_heads_only() -> None:
    torch.manual_seed(0)
    module, x = Attention(), torch.randn(2, 5, 32)
    step = asim.training_step(module, (x,))
    model = asim.compile(step.graph, "Ascend910A", fusion="graph")
    # query, key, value and the result, forward and backward; the last axis stays where it is
    assert _transposes(model) == [(0, 2, 1, 3)] * 8
    result = asim.run(model, {**step.initial(), "input_0": x.numpy()}, values="float32")
    module(x).backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(
            result.outputs[f"{name}.grad"], parameter.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name
        )


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_a_product_that_is_wanted_itself_is_computed_once(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(*shape), torch.randn(*shape[:-2], shape[-1], 6)
    graph = asim.from_torch(Shared(), (x, y))
    assert sum(node.op_type == "MatMul" for node in graph.nodes) == 1
    result = asim.run(asim.compile(graph, "Ascend910A"), _feed(graph, x, y), values="float32")
    for mine, theirs in zip(result.outputs.values(), Shared()(x, y), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_a_transposed_view_of_another_size_is_left_alone() -> None:
    class Flat(nn.Module):
        def forward(self, x, y):
            return x.transpose(-1, -2).reshape(2, 6, 10) @ y

    x, y = torch.randn(2, 3, 4, 5), torch.randn(2, 10, 3)
    graph = asim.from_torch(Flat(), (x, y))
    result = asim.run(asim.compile(graph, "Ascend910A"), _feed(graph, x, y), values="float32")
    (mine,) = result.outputs.values()
    np.testing.assert_allclose(mine, Flat()(x, y).numpy(), rtol=1e-5, atol=1e-6)


def _feed(graph, *tensors):
    return {port.name: tensor.numpy() for port, tensor in zip(graph.inputs, tensors, strict=True)}
