"""Whole steps of modules against torch.optim: groups, their rates, and a state that is taken over."""

from __future__ import annotations

import copy
import types

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.optimizers import groups_of as read_groups
from ascendsim.frontends.torch.optimizers import is_optimizer
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
STEPS, BEFORE = 20, 5
DATA = torch.linspace(-2, 2, (STEPS + BEFORE) * 4 * 6).sin().reshape(-1, 4, 6)
TARGETS = torch.linspace(0, 9, (STEPS + BEFORE) * 4 * 3).cos().reshape(-1, 4, 3)
MAKERS = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.8, weight_decay=0.01, nesterov=True),
    "plain": lambda groups: torch.optim.SGD(groups, lr=0.05),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1),
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=0.02, weight_decay=0.2),
}


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def groups_of(module):
    """Weights and biases apart, with other numbers."""
    vectors = [one for one in module.parameters() if one.dim() == 1]
    matrices = [one for one in module.parameters() if one.dim() > 1]
    return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0, "lr": 0.1}]


def taken(module, optimizer, first, count):
    for number in range(first, first + count):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(DATA[number]), TARGETS[number]).backward()
        optimizer.step()


@pytest.mark.parametrize("name", MAKERS)
def test_groups_and_state_are_taken_over(name):
    """Five steps in PyTorch, then twenty of the graph, are twenty-five in PyTorch."""
    module = network()
    optimizer = MAKERS[name](groups_of(module))
    taken(module, optimizer, 0, BEFORE)
    step = asim.training_step(module, (DATA[0], TARGETS[0]), loss=nn.functional.mse_loss, optimizer=optimizer)
    carried = {key: np.array(value) for key, value in step.initial().items()}
    assert carried["learning_rate.1"] == np.float32(0.1)
    for number in range(BEFORE, BEFORE + STEPS):
        feed = {**carried, "input_0": DATA[number].numpy(), "input_1": TARGETS[number].numpy()}
        found = evaluate_plain(step.graph, default_opset(), feed)
        carried |= step.carried({key: np.array(value) for key, value in found.items()})
    taken(module, optimizer, BEFORE, STEPS)
    for key, parameter in module.named_parameters():
        np.testing.assert_allclose(
            carried[key], parameter.detach().numpy(), rtol=0, atol=2e-5
        )  # a step is 0.1


def test_one_group_has_plain_names_and_what_is_in_none_stays():
    module = network()
    optimizer = torch.optim.Adam(module[2].parameters(), lr=0.25)
    step = asim.training_step(module, (DATA[0], TARGETS[0]), loss=nn.functional.mse_loss, optimizer=optimizer)
    names = {tensor.name for tensor in step.graph.outputs}
    assert {"2.weight.updated", "beta1_power.updated", "0.weight.grad"} <= names
    assert "0.weight.updated" not in names
    assert step.initial()["learning_rate"] == 0.25


def test_frozen_parameters_are_left_out():
    module = network()
    module[0].requires_grad_(False)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    step = asim.training_step(module, (DATA[0], TARGETS[0]), loss=nn.functional.mse_loss, optimizer=optimizer)
    assert step.parameters == ("2.weight", "2.bias")
    assert {tensor.name for tensor in step.graph.outputs} >= {"2.weight.updated", "2.weight.velocity.updated"}


def test_what_is_not_modelled_is_refused():
    module = network()
    inputs, loss = (DATA[0], TARGETS[0]), nn.functional.mse_loss
    for optimizer, message in (
        (torch.optim.Rprop(module.parameters()), "SGD, Adam, AdamW, not Rprop"),
        (torch.optim.Adam(module.parameters(), amsgrad=True), "option amsgrad of torch.optim.Adam"),
        (torch.optim.SGD(module.parameters(), momentum=0.9, dampening=0.1), "option dampening"),
        (torch.optim.SGD(copy.deepcopy(module).parameters()), "must be of the module's parameters"),
    ):
        with pytest.raises(InputError, match=message):
            asim.training_step(module, inputs, loss=loss, optimizer=optimizer)
    optimizer = torch.optim.AdamW(module.parameters())
    taken(module, optimizer, 0, 1)
    optimizer.state[module[0].bias]["step"] += 1
    with pytest.raises(InputError, match=r"as many steps with each parameter, not \[1, 2\]"):
        asim.training_step(module, inputs, loss=loss, optimizer=optimizer)
    b = asim.GraphBuilder()
    x = b.input("x", (2, 4))
    b.output(b.op("MatMul", x, b.weight("w", (4, 4))), "y")
    with pytest.raises(InputError, match=r"must not be of torch\.optim for a graph"):
        asim.training_step(b.build(), loss="mse", optimizer=optimizer)


def test_the_captured_step_does_not_change_the_optimizer():
    module = network()
    optimizer = MAKERS["AdamW"](module.parameters())
    taken(module, optimizer, 0, 2)
    moment = optimizer.state[module[0].weight]["exp_avg"]
    before = moment.clone()
    step = asim.training_step(module, (DATA[0], TARGETS[0]), loss=nn.functional.mse_loss, optimizer=optimizer)
    step.initial()["0.weight.m"][...] = 7
    np.testing.assert_array_equal(moment, before)


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        (types.SimpleNamespace(param_groups=[], state={}), True),
        (types.SimpleNamespace(param_groups=[]), False),
        (types.SimpleNamespace(state={}), False),
        ("adam", False),
        (None, False),
        (torch.optim.SGD([torch.zeros(1)], lr=1), True),
    ],
)
def test_an_optimizer_is_told_by_its_groups_and_its_state(option, wanted):
    assert is_optimizer(option) is wanted


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (
            lambda ps: torch.optim.SGD(ps, lr=1, momentum=0.5, dampening=0.5),
            "option dampening of torch.optim.SGD is not",
        ),
        (
            lambda ps: torch.optim.SGD(ps, lr=1, maximize=True),
            "option maximize of torch.optim.SGD is not modelled",
        ),
        (lambda ps: torch.optim.Adam(ps, amsgrad=True), "option amsgrad of torch.optim.Adam is not modelled"),
        (lambda ps: torch.optim.RMSprop(ps), "option optimizer must be one of torch.optim's .*, not RMSprop"),
        (
            lambda ps: torch.optim.SGD([*ps, torch.zeros(2, 3)], lr=1),
            r"a parameter of shape \[2, 3\] is not among",
        ),
    ],
)
def test_formulas_that_are_not_modelled(maker, message):
    module = network()
    with pytest.raises(InputError, match=message):
        read_groups(maker(list(module.parameters())), module)


def test_parameters_must_have_taken_as_many_steps():
    module = network()
    optimizer = torch.optim.Adam(module.parameters())
    module(DATA[0]).sum().backward()
    optimizer.step()
    (group,) = read_groups(optimizer, module)
    assert (group.kind, group.steps, sorted(group.state["0.weight"])) == ("adam", 1, ["m", "v"])
    optimizer.state[module[0].weight]["step"] += 1
    with pytest.raises(InputError, match=r"must have taken as many steps with each parameter, not \[1, 2\]"):
        read_groups(optimizer, module)
    for parameter in module[2].parameters():
        parameter.requires_grad_(False)
    module[0].bias.requires_grad_(False)
    (group,) = read_groups(optimizer, module)
    assert (group.steps, list(group.state)) == (2, ["0.weight"])
