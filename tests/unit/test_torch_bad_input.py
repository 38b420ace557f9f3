"""Modules, tensors and options that a training step or torch.compile cannot take: a clear error, and nothing
has changed.
"""

from __future__ import annotations

import gc
import types
import weakref

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError, NumericsWarning, UnsupportedOperatorError
from ascendsim.frontends.torch import eager
from ascendsim.frontends.torch.tensors import check_tensor
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore::DeprecationWarning"),
    pytest.mark.usefixtures("untimed_tiles"),
]

X, TARGET = torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor([0, 1, 0, 1])
cross_entropy = nn.functional.cross_entropy


class Layer(nn.Module):
    """A layer, and something of one's own behind it."""

    def __init__(self, rest=lambda module, x, y: y):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
        self.rest = rest

    def forward(self, x):
        return self.rest(self, x, self.norm(self.layer(x)))


def state():
    """What of PyTorch a refused call could leave behind."""
    hooks = torch.nn.modules.module
    return (
        len(hooks._global_forward_hooks),
        len(hooks._global_forward_pre_hooks),
        torch.is_grad_enabled(),
        torch.get_rng_state().tolist(),
        torch.utils._python_dispatch._get_current_dispatch_mode_stack(),
        eager._state,
        len(asim.torch.last_runs()),
    )


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def ask(_module, _x, y):
    return y * 2 if y.sum().item() > 0 else y


def rare(_module, _x, y):
    return torch.special.bessel_j0(y) + torch.special.bessel_j1(y) + torch.special.bessel_j0(y + 1)


class ChangesInput(Layer):
    def forward(self, x):
        x.mul_(2)
        return super().forward(x)


def change_weight(module, _x, y):
    module.layer.weight.data.add_(1)
    return y


def resize(module, _x, y):
    module.layer.weight.data.resize_(5, 3)
    return y


STEPS = {
    "no loss": (Layer(), (X,), {}, r"must return one scalar loss, not a result of shape \[4, 2\]"),
    "asks": (
        Layer(ask),
        (X, TARGET),
        {"loss": cross_entropy},
        r"cannot be captured at test_torch_bad_input.py:\d+, return y \* 2 if y.sum.*torch.compile",
    ),
    "input changes": (
        ChangesInput(),
        (X, TARGET),
        {"loss": cross_entropy},
        "input 0 must not change in place in a training step",
    ),
    "weight changes": (
        Layer(change_weight),
        (X, TARGET),
        {"loss": cross_entropy},
        "parameter 'layer.weight' must not change in place in a training step",
    ),
    "resized": (
        Layer(resize),
        (X, TARGET),
        {"loss": cross_entropy},
        r"cannot be captured at test_torch_bad_input.py:\d+, module.layer.weight.data.resize_.*not allowed",
    ),
    "double": (
        Layer().double(),
        (X, TARGET),
        {"loss": cross_entropy},
        "'layer.weight' of the module must .*float64",
    ),
    "complex": (Layer(), (X.to(torch.complex64), TARGET), {"loss": cross_entropy}, "not complex64"),
    "sparse": (
        Layer(),
        (X.to_sparse(), TARGET),
        {"loss": cross_entropy},
        "must be dense, not torch.sparse_coo",
    ),
    "optimizer": (
        Layer(),
        (X, TARGET),
        {"loss": cross_entropy, "optimizer": "adamm"},
        "option optimizer must be one of .* not 'adamm'; did you mean adam",
    ),
    "scale": (
        Layer(),
        (X, TARGET),
        {"loss": cross_entropy, "loss_scale": 0},
        'option loss_scale must be a positive number or "dynamic", not 0',
    ),
    "negative scale": (Layer(), (X, TARGET), {"loss": cross_entropy, "loss_scale": -8}, "not -8"),
    "the user's own": (
        Layer(lambda module, x, y: 1 / 0),
        (X, TARGET),
        {"loss": cross_entropy},
        "ZeroDivisionError: division by zero",
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_training_steps_refuse(case):
    module, inputs, options, message = STEPS[case]
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    given = [tensor.clone() for tensor in inputs]
    before = state()
    with pytest.raises(InputError, match=message):
        asim.training_step(module, inputs, **options)
    assert state() == before
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    assert all(parameter.grad is None for parameter in module.parameters())
    for tensor, copy in zip(inputs, given, strict=True):
        assert torch.equal(tensor.to_dense(), copy.to_dense())


def test_training_steps_list_all_operators_without_a_converter():
    with pytest.raises(UnsupportedOperatorError) as caught:
        asim.training_step(Layer(rare), (X, TARGET), loss=cross_entropy)
    text = str(caught.value)
    assert "aten.special_bessel_j0.default (2 x, test_torch_bad_input.py:" in text
    assert "aten.special_bessel_j1.default (" in text
    assert "return torch.special.bessel_j0(y) + torch.special.bessel_j1(y)" in text


def test_tensors_elsewhere_are_refused():
    device = types.SimpleNamespace(type="cuda", __str__=lambda self: "cuda:0")
    tensor = types.SimpleNamespace(
        layout="torch.strided", is_quantized=False, device=device, dtype="torch.float32"
    )
    with pytest.raises(InputError, match=r"input 'x' must be on the CPU, .*; the simulator is the device"):
        check_tensor(tensor, "input 'x'")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X.double(), "input '.*' must be of a type that the chip has, not float64"),
        (X.to(torch.complex64), "input '.*' must be of a type that the chip has, not complex64"),
    ],
)
def test_compiled_functions_refuse_what_the_chip_lacks(x, message):
    before = state()
    with pytest.raises(InputError, match=message):
        torch.compile(lambda a: a + a, backend=asim.torch.backend)(x)
    assert state() == before


def test_compiled_modules_that_ask_for_values_run_with_a_break():
    module = Layer(ask).eval()
    with torch.no_grad(), asim.torch.profile() as profiler:
        found = torch.compile(module, backend=asim.torch.backend)(X)
    np.testing.assert_allclose(found, module(X).detach(), rtol=1e-5)
    lines = profiler.graph_breaks()["Line"]  # of `forward`, and of the function that it calls
    assert [line.partition(", ")[2] for line in lines] == ["return y * 2 if y.sum().item() > 0 else y"] * 2


def test_a_module_without_values_is_timed_and_not_computed():
    with torch.device("meta"):
        module = nn.Linear(3, 2)
    x = torch.ones(4, 3, device="meta")
    found = torch.compile(module, backend=asim.torch.backend, options={"values": "off"})(x)
    assert (found.device.type, found.shape) == ("meta", (4, 2))
    assert asim.torch.last_runs()[0].duration_us > 0
    torch._dynamo.reset()
    for values in ("device", "float32"):
        with pytest.raises(
            InputError, match=r"has no values, it is on the meta device; put the module on the CPU"
        ):
            torch.compile(module, backend=asim.torch.backend, options={"values": values})(x)
        torch._dynamo.reset()


@pytest.mark.parametrize(("chip", "end"), [("Ascend910B1", torch.inf), ("Ascend310", 65504.0)])
def test_an_overflow_of_the_chips_types_is_reported(chip, end):
    options = {"values": "device", "precision_mode": "force_fp16", "soc": chip}
    model = torch.compile(lambda a: a * 4, backend=asim.torch.backend, options=options)
    with pytest.warns(
        NumericsWarning, match=r"inference graph: Mul Mul overflows float16 \(240,000 > 65,504\)"
    ):
        found = model(torch.full((2, 3), 60000.0))
    assert (found == end).all()
    (run,) = asim.torch.last_runs()
    assert run.result.numerics.overflows[0].op_type == "Mul"
    model(torch.full((2, 3), 60000.0))  # said once a graph
    model(torch.ones(2, 3))  # the tests turn warnings into errors: none is left
    assert asim.torch.last_runs()[0].result.numerics.overflows == ()


def test_reset_frees_everything():
    gc.collect()
    gc.freeze()  # what other tests hold need not be looked at again
    model = torch.compile(Layer().eval(), backend=asim.torch.backend)
    with torch.no_grad():
        model(X)
    result = weakref.ref(asim.torch.last_runs()[0].result)
    assert result() is not None
    torch._dynamo.reset()
    del model
    gc.collect()
    assert result() is None
