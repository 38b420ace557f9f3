"""scaled_dot_product_attention as FlashAttentionScore: values and gradients are PyTorch's, in all three ways
into the house."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import AscendSimError, InputError
from tests.support.gate import slow
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
functional = torch.nn.functional


class Attention(torch.nn.Module):
    """Projections around attention of two heads; `mask`: what it is called with."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.inner, self.outer, self.options = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16), options

    def forward(self, x: Any) -> Any:
        q, k, v = self.inner(x).reshape(2, 24, 3, 2, 8).permute(2, 0, 3, 1, 4)
        made = functional.scaled_dot_product_attention(q, k, v, **self.options)
        return self.outer(made.transpose(1, 2).reshape(2, 24, 16))


OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.7},
    "shift": {"attn_mask": torch.linspace(-2, 2, 24 * 24).reshape(24, 24)},
    "mask": {"attn_mask": torch.ones(24, 24, dtype=torch.bool).tril(3)},
    "scaled mask": {"attn_mask": torch.ones(24, 24, dtype=torch.bool).tril(3), "scale": 0.7},
}
IN_TURN = ["causal", "shift", "scaled mask", *slow("plain", "scale", "mask")]


def _module(name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return Attention(**OPTIONS[name]), torch.randn(2, 24, 16)


def _kinds(graph: Any) -> set[str]:
    return {node.op_type for node in graph.nodes}


@pytest.mark.parametrize("name", IN_TURN)
def test_inference(name: str) -> None:
    module, x = _module(name)
    graph = asim.from_torch(module.eval(), x, attention="flash")
    assert "FlashAttentionScore" in _kinds(graph)
    assert "Softmax" not in _kinds(graph)
    model = asim.compile(graph, "Ascend910B1")
    found = asim.run(model, {graph.inputs[0].name: x.numpy()}, values="float32").outputs["output"]
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_it_is_the_formula_unless_somebody_asks() -> None:
    module, x = _module("plain")
    assert "Softmax" in _kinds(asim.from_torch(module.eval(), x))


def test_shared_heads_are_not_repeated() -> None:
    class Grouped(torch.nn.Module):
        """Four heads of queries, one of keys."""

        def forward(self, q: Any, k: Any) -> Any:
            return functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    q, k = torch.randn(1, 4, 6, 8), torch.randn(1, 1, 9, 8)
    graph = asim.from_torch(Grouped(), (q, k), attention="flash")
    assert _kinds(graph) == {"FlashAttentionScore"}
    model = asim.compile(graph, "Ascend910B1")
    given = dict(zip((tensor.name for tensor in graph.inputs), (q.numpy(), k.numpy()), strict=True))
    found = asim.run(model, given, values="float32").outputs["output"]
    np.testing.assert_allclose(found, Grouped()(q, k).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", IN_TURN)
def test_a_training_step(name: str) -> None:
    module, x = _module(name)
    target = torch.randn(2, 24, 16)
    step = asim.training_step(module, (x, target), loss=functional.mse_loss, attention="flash")
    assert {"FlashAttentionScore", "FlashAttentionScoreGrad"} <= _kinds(step.graph)
    assert not {"Softmax", "SoftmaxGrad", "Log"} & _kinds(step.graph)
    functional.mse_loss(module(x), target).backward()
    model = asim.compile(step.graph, "Ascend910B1")
    given = {**step.initial(), "input_0": x.numpy(), "input_1": target.numpy()}
    outputs = asim.run(model, given, values="float32").outputs
    for own, parameter in module.named_parameters():
        wanted = parameter.grad.numpy()
        assert np.abs(outputs[f"{own}.grad"] - wanted).max() <= 1e-5 * np.abs(wanted).max() + 1e-7, own


def test_a_compiled_region() -> None:
    """Forward and backward are graphs of their own, with a logarithm between them."""
    module, x = _module("causal")
    expected = module(x)
    expected.square().sum().backward()
    wanted = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    module.zero_grad()
    options = {"soc": "Ascend910B1", "attention": "flash"}
    compiled = torch.compile(module, backend="ascendsim", options=options)
    result = compiled(x)
    result.square().sum().backward()
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
    for name, parameter in module.named_parameters():
        scale = float(wanted[name].abs().max())
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=0, atol=1e-5 * scale + 1e-7)
    torch._dynamo.reset()


def test_other_chips_and_other_words_are_refused() -> None:
    module, x = _module("plain")
    graph = asim.from_torch(module.eval(), x, attention="flash")
    with pytest.raises(AscendSimError, match="cube and vector cores are apart.*Ascend910A"):
        asim.compile(graph, "Ascend910A")
    for call in (asim.from_torch, asim.training_step):
        with pytest.raises(InputError, match="must be formula or flash"):
            call(module, (x,), attention="flush")
    with pytest.raises(InputError, match="is for modules"):
        asim.training_step(graph, loss="mse", attention="flash")
