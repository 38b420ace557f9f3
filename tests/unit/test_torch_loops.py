"""Training loops through torch.compile: fifty steps are eager's, in every mode that users switch between."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import ascendsim as asim
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from tests.support.torch_compiled import compiled, fresh  # noqa: E402, F401
from tests.support.torch_networks import network  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
# Rounding grows by about as much a step as the loss falls; plain descent keeps it small.
DRIFT = 2e-5


def loss_of(result, target):
    return F.cross_entropy(result.reshape(-1, result.shape[-1]), target.reshape(-1))


def curve(module, function, batches, steps, rate=0.05):
    """Losses of steps of plain descent over batches in turn; dropout is drawn under one seed."""
    torch.manual_seed(11)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    losses = []
    for number in range(steps):
        x, target = batches[number % len(batches)]
        optimizer.zero_grad()
        loss = loss_of(function(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches_of(name, count=2):
    module, x = network(name)
    found = []
    for number in range(count):
        torch.manual_seed(number)
        one = x[torch.randperm(len(x))] if x.dtype == torch.int64 else torch.randn_like(x)
        with torch.no_grad():
            shape = copy.deepcopy(module).eval()(one).shape[:-1]
        found.append((one, torch.randint(0, 10, shape)))
    return module.train(), found


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("lenet", "bert")]


@pytest.mark.parametrize("name", ["mlp", *LONG])
def test_fifty_steps_follow_eager_mode(name):
    module, batches = batches_of(name)
    other = copy.deepcopy(module)
    wanted = curve(module, module, batches, 50)
    found = curve(other, compiled(other), batches, 50)
    np.testing.assert_allclose(found, wanted, rtol=DRIFT)
    assert min(wanted[-4:]) < 0.98 * wanted[0]  # it learns, so the weights that were compared did change
    assert [run.calls for run in asim.torch.last_runs()] == [50, 50]


def test_the_same_bytes_come_twice():
    """Losses, gradients and weights of two runs, dropout included."""
    module, batches = batches_of("mlp")
    kept = []
    for _ in range(2):
        torch._dynamo.reset()
        other = copy.deepcopy(module)
        losses = curve(other, compiled(other), batches, 5)
        parameters = list(other.parameters())
        kept.append((losses, [p.detach().numpy().tobytes() + p.grad.numpy().tobytes() for p in parameters]))
    assert kept[0] == kept[1]


def test_another_seed_drops_other_elements():
    module, batches = batches_of("mlp")
    function, (x, _) = compiled(module), batches[0]
    results = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        results.append(function(x).detach().numpy().copy())
    np.testing.assert_array_equal(results[0], results[2])
    assert (results[0] != results[1]).any()


def test_a_batch_of_any_size():
    """The last batch of an epoch is smaller; gradients too come from a graph of its own size."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 5))
    other = copy.deepcopy(module)
    function = torch.compile(other, backend=asim.torch.backend, dynamic=True)
    for size in (4, 3, 4):
        x = torch.linspace(-1, 1, size * 6).sin().reshape(size, 6)
        target = torch.arange(size)
        for one, call in ((module, module), (other, function)):
            one.zero_grad()
            loss_of(call(x), target).backward()
        for (name, mine), theirs in zip(other.named_parameters(), module.parameters(), strict=True):
            np.testing.assert_allclose(mine.grad, theirs.grad, rtol=1e-4, atol=1e-6, err_msg=name)
    forward = [run.calls for run in asim.torch.last_runs() if run.kind == "forward"]
    assert forward == [2, 1]


def test_two_models_in_turn():
    """As a generator and its critic: one model's results go into the other, each has an optimizer."""
    torch.manual_seed(0)
    pair = [nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())]
    losses = []
    for wrap in (lambda one: one, compiled):
        maker, critic = copy.deepcopy(pair)
        made, judged = wrap(maker), wrap(critic)
        ours = [torch.optim.SGD(one.parameters(), lr=0.3) for one in (maker, critic)]
        noise, real = torch.linspace(-1, 1, 20).reshape(5, 4), torch.linspace(0, 2, 30).reshape(5, 6)
        for _ in range(4):
            ours[1].zero_grad()
            loss = (judged(made(noise).detach()) - judged(real)).mean()
            loss.backward()
            ours[1].step()
            ours[0].zero_grad()
            other = -judged(made(noise)).mean()
            other.backward()
            ours[0].step()
            losses.append((loss.item(), other.item()))
    np.testing.assert_allclose(losses[4:], losses[:4], rtol=1e-5)


def test_switching_between_training_and_evaluation():
    """Statistics move in training only; evaluation takes them and drops nothing."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    other = copy.deepcopy(module)
    function = compiled(other)
    x, target = torch.linspace(-2, 2, 30).sin().reshape(5, 6), torch.tensor([0, 1, 2, 0, 1])
    results = []
    for one, call in ((module, module), (other, function)):
        found = []
        for _ in range(2):
            one.train()
            found += curve(one, call, [(x, target)], 2)
            one.eval()
            with torch.no_grad():
                found.append(call(x))
                assert not found[-1].requires_grad
        results.append((found, dict(one.named_buffers())))
    for mine, theirs in zip(results[1][0], results[0][0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)
    for name, theirs in results[0][1].items():
        np.testing.assert_allclose(results[1][1][name], theirs, rtol=1e-5, err_msg=name)
    assert results[1][1]["1.num_batches_tracked"] == 4
    kinds = [(run.kind, run.calls) for run in asim.torch.last_runs()]
    assert sorted(kinds) == [("backward", 4), ("forward", 4), ("inference", 2)]


def test_a_break_of_the_graph_has_gradients_on_both_sides():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x = torch.tanh(self.first(x))
            torch._dynamo.graph_break()
            return self.second(x)

    torch.manual_seed(0)
    module = Broken()
    other = copy.deepcopy(module)
    batches = [(torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor([0, 1, 1]))]
    wanted = curve(module, module, batches, 5)
    np.testing.assert_allclose(curve(other, compiled(other), batches, 5), wanted, rtol=DRIFT)
    kinds = [run.kind for run in asim.torch.last_runs()]
    assert sorted(kinds) == ["backward", "backward", "forward", "forward"]


@pytest.mark.parametrize(
    ("half", "soc"),
    [
        (torch.bfloat16, "Ascend910B2"),
        pytest.param(torch.float16, "Ascend910A", marks=pytest.mark.slow),
    ],
)
def test_autocast_keeps_the_casts_of_the_user(half, soc):
    """Products run in the half type, losses and sums in float32; gradients of weights are float32."""
    module, batches = batches_of("lenet", 1)
    other = copy.deepcopy(module)
    (x, target) = batches[0]
    function = compiled(other, soc=soc, precision_mode="must_keep_origin_dtype")
    grads = []
    for one, call in ((module, module), (other, function)):
        with torch.autocast("cpu", dtype=half):
            result = call(x)
        assert result.dtype == half
        loss = loss_of(result.float(), target)
        loss.backward()
        grads.append([p.grad for p in one.parameters()])
    for mine, theirs in zip(grads[1], grads[0], strict=True):
        assert mine.dtype == torch.float32
        a, b = mine.flatten().double(), theirs.flatten().double()
        # eager rounds elsewhere: its products of halves, ours what leaves the Cube
        assert torch.dot(a, b) > 0.999 * a.norm() * b.norm()
    forward = asim.torch.last_runs()[0].result.model.graph
    types = {str(node.output.dtype.value) for node in forward.nodes if node.op_type in ("Conv", "Gemm")}
    assert types == {str(half).removeprefix("torch.")}


def test_functional_gradients():
    """torch.func.grad inside of a compiled function is captured as one graph."""

    def energy(x):
        return (torch.tanh(x) * x).sum()

    def function(x):
        return torch.func.grad(energy)(x) * 2

    x = torch.linspace(-2, 2, 9)
    np.testing.assert_allclose(compiled(function)(x), function(x), rtol=1e-5, atol=1e-6)
    (run,) = asim.torch.last_runs()
    assert run.kind == "inference"


def test_gradients_of_inputs_and_of_what_is_used_twice():
    x = torch.linspace(-1, 1, 6).requires_grad_()
    y = torch.linspace(0.5, 2, 6).requires_grad_()

    def function(a, b):
        return torch.sin(a) * b, (a * b).sum()

    grads = []
    for call in (function, compiled(function)):
        first, second = call(x, y)
        grads.append(torch.autograd.grad(first.sum() + second * 3, (x, y)))
    for mine, theirs in zip(grads[1], grads[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_device_values_train_too():
    """Loss within 0.3 %, gradients that matter in the same direction, by the chip's float16."""
    module, batches = batches_of("lenet", 1)
    other, (x, target) = copy.deepcopy(module), batches[0]
    losses = []
    for call in (module, compiled(other, values="device")):
        loss = loss_of(call(x), target)
        loss.backward()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=3e-3)
    assert losses[1] != losses[0]
    largest = max(p.grad.norm() for p in module.parameters())
    for mine, theirs in zip(other.parameters(), module.parameters(), strict=True):
        if theirs.grad.norm() > 1e-3 * largest:
            assert F.cosine_similarity(mine.grad.flatten(), theirs.grad.flatten(), dim=0) > 0.999
