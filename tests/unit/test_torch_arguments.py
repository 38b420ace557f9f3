"""Arguments of PyTorch's functions that the chip has no form for, each refused with the call, its line and
what is wrong; sizes that stay open; and what of a model has a converter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.coverage import operators_of
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain
from tests.support.evaluate import evaluate
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()
functional = torch.nn.functional
aten = torch.ops.aten

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-1, 1, 72).reshape(1, 2, 6, 6)
HEADS = torch.linspace(-1, 1, 48).reshape(1, 2, 3, 8)
MASK = torch.ones(3, 3, dtype=torch.bool)


class Calls(torch.nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (lambda x: aten.elu(x, 1.0, 1.0, 2.0), X, "elu.*needs input_scale 1, not 2.0"),
        (
            lambda x: functional.softplus(x, threshold=19.5),
            X,
            "softplus.*needs a threshold of at least 20, not 19.5",
        ),
        (
            lambda x: functional.avg_pool2d(x, 2, padding=1, divisor_override=3),
            IMAGE,
            "avg_pool2d.*needs no divisor_override beside padding, not 3",
        ),
        (
            lambda x: functional.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3),
            IMAGE,
            "needs no divisor_override beside padding, not 3",
        ),
        (lambda x: torch.slice_scatter(x, x[:, ::2], 1, 0, 3, 2), X, "slice_scatter.*needs step 1, not 2"),
        (lambda x: x.as_strided((2, 3), (12, 4), 1), X, "as_strided.*strides of all of a contiguous tensor"),
        (lambda x: x.as_strided((2, 3), (12, 4)), X, "as_strided.*strides of all of a contiguous tensor"),
        (
            lambda x: x.as_strided((2, 3, 2), (12, 4, 2)),
            X,
            "as_strided.*strides of all of a contiguous tensor",
        ),
        (lambda x: x.as_strided((24,), (0,)), X, "as_strided.*strides of all of a contiguous tensor"),
        (
            lambda x: aten.index(x, [torch.arange(2), None, torch.arange(2)]),
            X,
            "needs indices for neighbouring axes",
        ),
        (
            lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.25),
            HEADS,
            r"needs dropout 0 in an inference graph, not 0.25; call .eval\(\) first",
        ),
    ],
)
def test_what_has_no_form_is_said_with_its_line(function: Any, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        asim.from_torch(Calls(function), given)
    assert "test_torch_arguments.py:" in str(caught.value)


def test_a_boolean_index_gives_a_shape_that_depends_on_values() -> None:
    def put(x: Any, mask: Any, values: Any) -> Any:
        return aten.index_put(x, [mask], values)

    with pytest.raises(InputError, match="gives a shape that depends on values.*use torch.where"):
        asim.from_torch(Calls(put), (X, X > 0, torch.tensor(1.0)))


@pytest.mark.parametrize(
    "mask",
    [
        MASK.tril(),
        MASK.tril()[None, None],
        MASK.tril().expand(1, 2, 3, 3),
        torch.linspace(-1, 1, 9).reshape(3, 3),
        torch.linspace(-1, 1, 18).reshape(1, 2, 3, 3),
        torch.linspace(-1, 1, 9).reshape(1, 1, 3, 3).half(),
    ],
    ids=lambda mask: f"{mask.dtype} {list(mask.shape)}",
)
def test_masks_of_the_kernel_have_its_shape(mask: Any) -> None:
    """It takes bits for one head or all, and numbers for each head and item."""
    heads = torch.cat((HEADS, HEADS * 0.5)) if mask.dim() == 4 and mask.dtype is torch.bool else HEADS
    given = mask.expand(len(heads), *mask.shape[1:]).contiguous() if mask.dim() == 4 else mask
    given = given.float() if given.dtype is torch.half else given

    def attend(x: Any, seen: Any) -> Any:
        return functional.scaled_dot_product_attention(x, x, x + 1, attn_mask=seen)

    graph = asim.from_torch(Calls(attend), (heads, given), attention="flash")
    (node,) = (item for item in graph.nodes if item.op_type == "FlashAttentionScore")
    port = 6 if given.dtype is torch.bool else 3
    wanted = given.shape if given.dim() == 4 else (1, 1, 3, 3) if port == 6 else (1, 2, 3, 3)
    if port == 3:
        wanted = (wanted[0], 2, 3, 3)
    assert node.required(port).static_shape == tuple(wanted)
    arrays = dict(zip((tensor.name for tensor in graph.inputs), (heads.numpy(), given.numpy()), strict=True))
    (found,) = evaluate_plain(graph, default_opset(), arrays).values()
    np.testing.assert_allclose(found, attend(heads, given).numpy(), rtol=1e-5, atol=1e-6)


# ---- open sizes

OPEN = {
    "rows": lambda x, y: x.reshape(x.shape[0] * x.shape[1], 4),
    "merged": lambda x, y: x.reshape(x.shape[1], -1),
    "split": lambda x, y: x.reshape(x.shape[0], x.shape[1], 2, 2),
    "expanded": lambda x, y: y[:, None].expand(y.shape[0], x.shape[1]) + x[:, :, 0],
    "zeros": lambda x, y: torch.zeros(x.shape[0], x.shape[1], 4) + x,
    "ones of the rest": lambda x, y: x[1:] * torch.ones(x.shape[0] - 1, 1, 1),
    "counted": lambda x, y: torch.arange(x.shape[0]) + y,
    "counted from": lambda x, y: torch.arange(1, x.shape[0] + 1) * y,
    "steps": lambda x, y: torch.arange(0, 2 * x.shape[0], 2) + y,
    "picked": lambda x, y: x.select(1, x.shape[1] - 2),
    "cut": lambda x, y: x[:, : x.shape[1] - 1, 1:],
    "joined": lambda x, y: torch.cat((x, x * 2), 1),
    "filled": lambda x, y: torch.full((x.shape[0],), 2.5) + y,
    "filled by a value": lambda x, y: torch.full_like(x, 0.5) * x,
    "quotient": lambda x, y: torch.zeros(x.shape[1] // 2 + 1) + y[0],
    "product": lambda x, y: torch.ones(x.shape[0] * x.shape[1]) * y[0],
    "means": lambda x, y: x.mean(1) - y[:, None],
    "copied": lambda x, y: x.clone().copy_(y[:, None, None]),
}


def test_open_sizes_are_computed_from_shapes() -> None:
    def call(x: Any, y: Any) -> dict[str, Any]:
        return {name: function(x, y) for name, function in OPEN.items()}

    batch, length = torch.export.Dim("batch", min=3, max=64), torch.export.Dim("length", min=3, max=64)
    example = (torch.linspace(-1, 1, 5 * 7 * 4).reshape(5, 7, 4), torch.linspace(0, 1, 5))
    graph = asim.from_torch(
        Calls(call), example, dynamic_shapes={"inputs": ({0: batch, 1: length}, {0: batch})}
    )
    assert [tensor.is_static for tensor in graph.inputs] == [False, False]
    for rows, columns in ((5, 7), (6, 4), (3, 9)):
        x, y = torch.linspace(-2, 1, rows * columns * 4).reshape(rows, columns, 4), torch.linspace(0, 2, rows)
        arrays = dict(zip((tensor.name for tensor in graph.inputs), (x.numpy(), y.numpy()), strict=True))
        names = [tensor.name for tensor in graph.outputs]
        found = dict(zip(names, evaluate(graph, default_opset(), arrays), strict=True))
        for name, tensor in call(x, y).items():
            array = found[name]
            assert (array.shape, array.dtype) == (tuple(tensor.shape), tensor.numpy().dtype), name
            np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


# ---- what has a converter


def test_the_operators_of_a_model_are_those_of_both_directions() -> None:
    class Model(torch.nn.Module):
        """A layer; something that nobody has a converter for; and results that want no gradient."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            return {"loss": y.square().sum(), "places": y.argmax(-1), "odd": torch.special.bessel_j0(x)}

    uses = {
        (use.operator, use.graph): use
        for use in operators_of(Model(), [torch.linspace(-1, 1, 8).reshape(2, 4)])
    }
    assert {graph for _, graph in uses} == {"forward", "backward"}
    odd = uses["aten.special_bessel_j0.default", "forward"]
    assert (odd.calls, odd.known) == (1, False)
    assert "test_torch_arguments.py" in odd.line
    assert all(use.known for use in uses.values() if use is not odd)
    places = [use for use in uses.values() if use.operator == "aten.argmax.default"]
    assert [use.calls for use in places] == [1]
    quiet = operators_of(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU()), [torch.ones(2, 2)])
    assert [(use.operator, use.graph, use.calls, use.known) for use in quiet] == [
        ("aten.relu.default", "inference", 2, True)
    ]


def test_a_model_that_fails_is_said() -> None:
    def fails(x: Any) -> Any:
        return x @ x

    with pytest.raises(InputError, match="the model cannot be run.*TorchRuntimeError"):
        operators_of(Calls(fails), [torch.ones(2, 3)])


# ---- inputs and results that are no tensors


def test_numbers_and_nothing_may_be_given_and_returned() -> None:
    def call(x: Any, count: int, mode: str, nothing: Any, flag: bool) -> Any:
        y = x * count if flag and mode == "times" else x
        return {"y": y, "nothing": nothing, "twice": (y, x)}

    graph = asim.from_torch(Calls(call), (X, 3, "times", None, True))
    assert len(graph.inputs) == 1
    found = evaluate(graph, default_opset(), {graph.inputs[0].name: X.numpy()})
    assert [tensor.name for tensor in graph.outputs] == ["y", "twice.0", "twice.1"]
    for one, other in zip(found, (X * 3, X * 3, X), strict=True):
        np.testing.assert_array_equal(one, other.numpy())


def test_buffers_that_change_are_results_of_their_own() -> None:
    class Counter(torch.nn.Module):
        """Counts its calls, and holds a table and a number that never change."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("table", torch.arange(4.0))
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.again = self.weight

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            return x * self.weight + self.again * self.table

    graph = asim.from_torch(Counter(), X)
    names = [tensor.name for tensor in graph.outputs]
    assert sorted(names) == ["calls.updated", "output"]
    found = dict(zip(names, evaluate(graph, default_opset(), {graph.inputs[0].name: X.numpy()}), strict=True))
    np.testing.assert_array_equal(found["output"], X.numpy() + np.arange(4, dtype=np.float32))
    assert found["calls.updated"] == 1
    held = {tensor.name for tensor in graph.constants}
    assert {"weight", "table"} <= held
    assert "again" not in held
