"""The comparison itself: it finds what was chosen otherwise, and that a gradient is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.ops import default_opset
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from ascendsim.frontends.torch.joint import capture_step  # noqa: E402
from tests.support.torch_compare import differences, otherwise  # noqa: E402
from tests.support.torch_device import Decisions, device_differences, rounding_alone  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.linspace(-1, 1, 2 * 3 * 6 * 6).sin().reshape(2, 3, 6, 6)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.conv, self.pool, self.act = nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.ReLU6()
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return self.head(self.act(self.pool(x) * 4).flatten(1)).sum()


def compared(change=None, prepare=None):
    module = Small()
    if prepare is not None:
        prepare(module)
    step = capture_step(module, (X,), opset=default_opset())
    if change is not None:
        change(step)
    return differences(step, module, (X,))


def moved(step, kind, by):
    """Adds a number to the argument of the first node of a kind."""
    node = next(node for node in step.graph.topological() if node.op_type.startswith(kind))
    source = node.required(0)
    graph = step.graph
    extra = graph.add_constant("moved", np.full((), by, np.float32))
    added = graph.add_node("Add", [source, extra], ["argument"])
    added.output.dtype, added.output.shape = source.dtype, source.shape
    node.set_input(0, added.output)


def test_equal_steps_choose_alike():
    found = compared()
    assert (found.decisions, found.missing) == (0, [])
    assert found.worst == found.same_decisions < 1
    assert found.exact < 1e-12


def test_another_choice_is_counted_and_taken_back():
    """An argument of 1e-6 that is moved below zero: gradients in front of it change by what went through."""

    def at_a_border(module):
        with torch.no_grad():
            largest = module.pool(module.conv(X))[:, 0].flatten()
            module.conv.bias[0] -= largest[largest > 0].min() - 1e-6

    found = compared(lambda step: moved(step, "Relu", -2e-6), at_a_border)
    assert 1 <= found.decisions <= 3  # that of the relu, and what follows from it behind
    assert found.worst > 100
    assert found.same_decisions < 10  # the rest moved a little too


def test_maxima_are_compared_by_place():
    """The first window has its largest number elsewhere, in the second both have it in the same place."""
    ours = np.array([[1, 2, 5, 0], [0, 3, 0, 4]], np.float32).reshape(1, 1, 2, 4)
    eager = np.array([[1, 3, 5, 4], [0, 2, 0, 0]], np.float32).reshape(1, 1, 2, 4)
    places = otherwise(ours, "max_pool2d_with_indices", eager, ([2, 2], [2, 2]))
    assert [found.tolist() for found in places] == [[5], [1]]


def test_both_borders_of_a_function_count():
    ours, eager = np.array([-1, 0.1, 5.9, 7]), np.array([-2, -0.1, 6.1, 8])
    assert [found.tolist() for found in otherwise(ours, "hardtanh", eager, ())] == [[1, 2]]
    assert [found.tolist() for found in otherwise(ours, "relu", eager, ())] == [[1]]


def test_a_wrong_gradient_stays_wrong():
    def double(step):
        node = next(node for node in step.graph.nodes if node.op_type == "Conv2DBackpropFilter")
        tensor = step.gradients["conv.weight"]
        extra = step.graph.add_node("Add", [node.output, node.output], ["twice"])
        extra.output.dtype, extra.output.shape = tensor.dtype, tensor.shape
        index = step.graph.outputs.index(tensor)
        step.graph.rename_tensor(tensor, "once")
        step.graph.rename_tensor(extra.output, "conv.weight.grad")
        step.graph.outputs[index] = extra.output

    found = compared(double)
    assert found.where == "conv.weight"
    assert found.same_decisions > 1e4
    assert found.exact > 0.01


def decided(module, known=None):
    with Decisions(known) as mode:
        result = module(X)
        result.backward()
    return result.item(), module.conv.weight.grad.clone(), mode.made


def test_decisions_that_are_kept_change_nothing_and_are_kept_by_other_weights():
    """Forward and backward of a relu and a relu6, and a maximum: five decisions."""
    module = Small()
    plain, gradient, made = decided(module)
    assert len(made) == 5
    module.zero_grad()
    result = module(X)
    result.backward()
    assert plain == result.item()
    assert gradient.equal(module.conv.weight.grad)
    with torch.no_grad():
        module.conv.bias += 0.05  # linear in between: so are results, as long as decisions stay
    one = decided(module, made)[0]
    with torch.no_grad():
        module.conv.bias += 0.05
    two, _, others = decided(module)
    assert decided(module, made)[0] - one == pytest.approx(one - plain, rel=1e-3)
    assert two - one != pytest.approx(one - plain, rel=1e-3)
    assert any((a != b).any() for a, b in zip(made, others, strict=True))


def test_loss_scale_is_halved_until_gradients_fit():
    """A gradient of 100 in front of the head: 102,400 at 1024, 51,200 at 512."""
    module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 1, bias=False), Summed())
    with torch.no_grad():
        module[0].weight.fill_(0.01)
        module[1].weight.fill_(100.0)
    found = device_differences(module, (torch.full((1, 4), 0.01),))
    assert found.scale == 512
    assert found.cosine > 0.999
    assert found.below == (0, 1)  # the head's gradient is small beside the other


class Summed(nn.Module):
    def forward(self, x):
        return x.sum()


def test_rounding_of_weights_turns_gradients_by_what_it_decides_otherwise():
    """A relu's argument of 1e-5 x becomes negative when one of two weights is rounded."""
    module = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 1), Summed())
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[1.0001, -1.0]]))  # float16 has 1.0 or 1.00098
    free, bound = rounding_alone(module, (torch.tensor([[1.0, 1.00005], [0.5, 0.0]]),))
    assert free < 0.9
    assert bound > 0.99999
