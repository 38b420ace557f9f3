"""torch.compile with the back end: eager's results, one run of the machine a graph, and clear refusals."""

from __future__ import annotations

import copy
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from ascendsim.frontends.torch import dynamo  # noqa: E402
from tests.support.torch_compiled import compiled, fresh  # noqa: E402, F401
from tests.support.torch_networks import network  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]


def trained(module, function, x, target, steps):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(11)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        result = function(x)
        loss = nn.functional.cross_entropy(result.reshape(-1, result.shape[-1]), target.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


LONG = [pytest.param(name, marks=pytest.mark.slow) for name in ("resnet", "lenet", "bert")]


@pytest.mark.parametrize("name", ["mlp", *LONG])
def test_training_follows_eager_mode_dropout_included(name):
    module, x = network(name)
    with torch.no_grad():
        target = torch.randint(0, 10, copy.deepcopy(module).eval()(x).shape[:-1])
    module.train()
    other = copy.deepcopy(module)
    wanted = trained(module, module, x, target, 4)
    np.testing.assert_allclose(trained(other, compiled(other), x, target, 4), wanted, rtol=2e-5)
    for (buffer, mine), (_, theirs) in zip(other.named_buffers(), module.named_buffers(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6, err_msg=buffer)
    runs = asim.torch.last_runs()
    assert [(run.kind, run.calls) for run in runs] == [("forward", 4), ("backward", 4)]
    assert all(run.duration_us > 0 for run in runs)


def test_inference_runs_under_no_grad_and_on_the_chip_that_is_asked_for():
    module, x = network("gpt")
    module.eval()
    with torch.no_grad():
        result = compiled(module, soc="Ascend310P3", fusion="off")(x)
        np.testing.assert_allclose(result, module(x), atol=1e-5)
    (run,) = asim.torch.last_runs()
    assert (run.kind, run.result.model.soc.name) == ("inference", "Ascend310P3")


def test_device_values_are_those_of_half_precision():
    module, x = network("lenet")
    module.eval()
    with torch.no_grad():
        found, wanted = compiled(module, values="device", precision_mode="force_fp16")(x), module(x)
    assert 0 < (found - wanted).abs().max() < 0.01 * wanted.abs().max()


def test_without_values_shapes_are_right_and_nothing_is_computed():
    module, x = network("lenet")
    module.eval()
    with torch.no_grad():
        result = compiled(module, values="off")(x)
    assert result.shape == (2, 10)
    assert not result.any()
    assert asim.torch.last_runs()[0].duration_us > 0


def test_a_shape_is_compiled_once_and_old_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(dynamo, "MAX_SHAPES", 2)
    module, _ = network("mlp")
    module.eval()
    function = torch.compile(module, backend=asim.torch.backend, dynamic=True)
    with torch.no_grad():
        for size in (3, 5, 3, 7, 5):  # with 7 the two last ones are 3 and 7
            x = torch.ones(size, 12) / size
            np.testing.assert_allclose(function(x), module(x), atol=1e-6)
    assert [run.calls for run in asim.torch.last_runs()] == [2, 1, 1, 1]


def test_breaks_of_the_graph_lie_between_regions():
    def function(x):
        y = torch.tanh(x)
        y = y * 2 if y.sum() > 0 else y - 1
        return y + 1

    x = torch.linspace(0, 1, 6)
    np.testing.assert_allclose(compiled(function)(x), function(x), atol=1e-6)
    assert len(asim.torch.last_runs()) == 2


def test_operators_without_a_converter_are_named_or_run_in_pytorch():
    def function(x):
        return torch.linalg.svdvals(torch.tanh(x)) * 2

    x = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(Exception, match=r"svd.*\(1 x, .*torch_compile.py:\d+, return torch.linalg"):
        compiled(function)(x)
    torch._dynamo.reset()
    np.testing.assert_allclose(compiled(function, fallback="host")(x), function(x), rtol=1e-5)
    assert len(asim.torch.last_runs()) == 2  # in front of it and behind it


def test_an_exception_of_the_user_arrives_as_itself():
    class Refused(Exception):
        pass

    def function(x):
        print(x * 2)
        torch._dynamo.graph_break()
        raise Refused("by the model")

    with pytest.raises(Refused, match="by the model"):
        compiled(function)(torch.ones(2))


def test_options_are_checked():
    module, x = network("mlp")
    for options, message in (
        ({"socc": "Ascend310"}, "option socc does not exist; did you mean soc"),
        (
            {"values": "float23"},
            "option values must be one of its values, not 'float23'; did you mean float32",
        ),
        ({"fallback": "cpu"}, "option fallback"),
    ):
        with pytest.raises(Exception, match=message):
            compiled(module, **options)(x)
        torch._dynamo.reset()
    with pytest.raises(InputError, match="option mode belongs to other back ends"):
        asim.torch.backend(None, [], mode="max-autotune")


def test_reset_forgets_what_ran():
    module, x = network("mlp")
    with torch.no_grad():
        compiled(module.eval())(x)
    assert len(asim.torch.last_runs()) == 1
    torch._dynamo.reset()
    assert asim.torch.last_runs() == ()


def test_the_entry_point_names_the_back_end():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    home, name = tomllib.loads(text)["project"]["entry-points"]["torch_dynamo_backends"]["ascendsim"].split(
        ":"
    )
    assert getattr(import_module(home), name) is asim.torch.backend
