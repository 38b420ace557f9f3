"""Groups of elementwise nodes in one pass over the data: the same bits as the nodes one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import InferContext, default_opset
from ascendsim.ops.fused.program import expression
from ascendsim.ops.fused.values import Pass, plan_chain, run_chain
from tests.support.gate import in_one

Array = Any
OPSET = default_opset()
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 65504.0]


def dtype_of(tensor: Tensor) -> Any:
    return tensor.element_type.numpy


class Chain:
    """A graph that is written node by node, with values for its inputs."""

    def __init__(self) -> None:
        self.graph = Graph("chain")
        self.arrays: dict[Tensor, Array] = {}
        self.nodes: list[Node] = []

    def given(self, array: Array) -> Tensor:
        tensor = self.graph.add_input(f"x{len(self.arrays)}", DType.of(array.dtype), array.shape)
        self.arrays[tensor] = array
        return tensor

    def constant(self, value: Any) -> Tensor:
        tensor = self.graph.add_constant(f"c{len(self.arrays)}", np.asarray(value))
        self.arrays[tensor] = np.asarray(value)
        return tensor

    def node(self, op_type: str, *inputs: Tensor | None, domain: str = "", **attributes: Any) -> Tensor:
        node = self.graph.add_node(op_type, list(inputs), 1, domain=domain, **attributes)
        OPSET.get(node).infer(InferContext(node))
        self.nodes.append(node)
        return node.output

    def one_by_one(self) -> dict[Tensor, Array]:
        values = dict(self.arrays)
        for node in self.nodes:
            inputs = [None if tensor is None else values[tensor] for tensor in node.inputs]
            results = OPSET.get(node).compute(node, inputs, [dtype_of(tensor) for tensor in node.outputs])
            values[node.output] = np.asarray(results[0])
        return values

    def check(self, outputs: list[Tensor]) -> None:
        wanted = self.one_by_one()
        found = run_chain(self.nodes, self.arrays, OPSET, dtype_of, outputs)
        assert list(found) == outputs
        for tensor, array in found.items():
            assert (array.dtype, array.shape) == (wanted[tensor].dtype, wanted[tensor].shape)
            np.testing.assert_array_equal(array, wanted[tensor], strict=True)
            if array.dtype.kind == "f":
                numbers = ~np.isnan(array)
                np.testing.assert_array_equal(np.signbit(array)[numbers], np.signbit(wanted[tensor])[numbers])


def some(seed: int, *shape: int, dtype: Any = np.float32) -> Array:
    if dtype is bool:
        return np.random.default_rng(seed).random(shape) < 0.5
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype) * dtype(2)
    flat = x.reshape(-1)
    flat[seed % 5 :: 7][: len(SPECIAL)] = np.array(SPECIAL, dtype)[: flat[seed % 5 :: 7].size]
    return x


UNARY = ["Relu", "Abs", "Neg", "Sqrt", "Reciprocal", "Exp", "Sigmoid", "Tanh", "Erf", "Gelu"]
BINARY = ["Add", "Sub", "Mul", "Div"]
COMPARE = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"]
LOGIC = ["And", "Or", "Xor"]
FLOATS = [np.float16, np.float32]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        *((name, {}) for name in UNARY),
        ("Gelu", {"approximate": "tanh"}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("HardSwish", {}),
        ("ascend::Rsqrt", {}),
    ],
)
def test_one_operand(op_type: str, attributes: Any, dtype: Any) -> None:
    chain = Chain()
    domain, _, name = op_type.rpartition("::")
    y = chain.node(name, chain.given(some(1, 6, 20, dtype=dtype)), domain=domain, **attributes)
    assert expression(chain.nodes[0], OPSET, dtype_of) is not None
    chain.check([y])


@in_one("dtype", FLOATS)
@in_one("op_type", [*BINARY, *COMPARE, "Max", "Min", "Sum"])
@in_one("shape", [(6, 20), (20,), (6, 1), ()])
def test_two_operands(op_type: str, dtype: Any, shape: tuple[int, ...]) -> None:
    """The second is not the first, and may be less than the result."""
    chain = Chain()
    x, y = chain.given(some(1, 6, 20, dtype=dtype)), chain.given(some(3, *shape, dtype=dtype))
    z = chain.node(op_type, x, y)
    assert expression(chain.nodes[0], OPSET, dtype_of) is not None
    if shape == (6, 20):
        chain.node(op_type, y, x)
        chain.check([z, chain.nodes[1].output])
    chain.check([z])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum"])
def test_many_operands_of_which_none_is_the_first(op_type: str, dtype: Any) -> None:
    chain = Chain()
    inputs = [chain.given(some(seed, 6, 20, dtype=dtype)) for seed in range(4)]
    chain.check([chain.node(op_type, *inputs)])


@pytest.mark.parametrize("op_type", LOGIC)
def test_truth_values(op_type: str) -> None:
    chain = Chain()
    x, y = chain.given(some(1, 6, 20, dtype=bool)), chain.given(some(2, 20, dtype=bool))
    z = chain.node(op_type, x, y)
    assert expression(chain.nodes[0], OPSET, dtype_of) is not None
    chain.check([z])


@pytest.mark.parametrize("dtype", FLOATS)
def test_choices_and_powers_and_limits(dtype: Any) -> None:
    chain = Chain()
    x, y = chain.given(some(1, 6, 20, dtype=dtype)), chain.given(some(2, 6, 20, dtype=dtype))
    truth = chain.given(some(3, 6, 1, dtype=bool))
    low, high = chain.constant(dtype(-0.5)), chain.constant(dtype(0.75))
    powers = [chain.node("Pow", x, chain.constant(dtype(p))) for p in (2, 3, 0.5, -1, 1)]
    outputs = [
        chain.node("Where", truth, x, y),
        chain.node("Where", truth, y, x),
        chain.node("Clip", x, low, high),
        chain.node("Clip", x, None, high),
        chain.node("Clip", x, low),
        chain.node("Clip", x),
        *powers,
    ]
    for node in chain.nodes:
        assert expression(node, OPSET, dtype_of) is not None, node.op_type
    chain.check(outputs)
    # no two instructions for a number that only the run knows, and none for other exponents
    later = chain.given(np.asarray(dtype(0.25)))
    others = [
        chain.node("Pow", x, later),
        chain.node("Pow", x, chain.constant(dtype(1.7))),
        *[
            chain.node("Clip", x, *borders)
            for borders in ((later,), (None, later), (low, later), (later, high))
        ],
        chain.node("Pow", x, chain.constant(np.full((1, 1, 1), 2, dtype))),
    ]
    for node in chain.nodes[-len(others) :]:
        assert expression(node, OPSET, dtype_of) is None
    chain.check(others)


def test_types_change_between_nodes() -> None:
    """Values are rounded where a node makes float16, and turned into truth values where it makes those."""
    chain = Chain()
    x = chain.given(some(1, 6, 20))
    half = chain.node("Cast", x, to=DType.FLOAT16)
    square = chain.node("Mul", half, half)
    wide = chain.node("Cast", square, to=DType.FLOAT32)
    truth = chain.node("Cast", half, to=DType.BOOL)
    again = chain.node("Cast", truth, to=DType.BOOL)
    number = chain.node("Cast", again, to=DType.FLOAT16)
    sum_ = chain.node("Add", wide, x)
    whole = chain.node("Cast", x, to=DType.FLOAT32)
    for node in chain.nodes:
        assert expression(node, OPSET, dtype_of) is not None, node
    chain.check([half, square, wide, truth, again, number, sum_, whole])


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_other_types_are_left_to_their_operators(dtype: Any) -> None:
    chain = Chain()
    x = chain.given(np.arange(1, 13, dtype=dtype).reshape(3, 4))
    outputs = [chain.node("Add", x, x), chain.node("Greater", x, x), chain.node("Cast", x, to=DType.FLOAT32)]
    shape = chain.constant(np.array([2, 3, 4], np.int64))
    outputs.append(chain.node("Expand", x, shape))
    outputs.append(chain.node("Where", chain.given(some(3, 3, 4, dtype=bool)), x, x))
    for node in chain.nodes:
        assert expression(node, OPSET, dtype_of) is None, node.op_type
    chain.check(outputs)


def test_names_shapes_and_repeated_values() -> None:
    chain = Chain()
    x = chain.given(some(1, 6, 20, dtype=np.float16))
    y = chain.node("Relu", x)
    flat = chain.node("Reshape", y, chain.constant(np.array([120], np.int64)))
    same = chain.node("Identity", flat)
    z = chain.node("Exp", same)
    back = chain.node("Reshape", z, chain.constant(np.array([2, 3, 20], np.int64)))
    row = chain.given(some(2, 20, dtype=np.float16))
    wide = chain.node("Expand", row, chain.constant(np.array([2, 3, 20], np.int64)))
    total = chain.node("Add", back, wide)
    chain.check([y, flat, same, z, back, wide, total])
    chain.check([total])
    chain.check([same])


def test_nodes_of_one_size_are_one_pass() -> None:
    """Whatever stands between them, as long as no value goes there and back."""
    chain = Chain()
    x, row = chain.given(some(1, 6, 20)), chain.given(some(2, 20))
    a = chain.node("Relu", x)
    b = chain.node("Exp", row)  # of another size, read by none of them
    c = chain.node("Tanh", a)
    d = chain.node("ReduceSum", c, chain.constant(np.array([1], np.int64)))
    e = chain.node("Mul", x, a)
    f = chain.node("Sub", e, d)
    units = plan_chain(chain.nodes, OPSET, dtype_of)
    found = [
        [node.output for node, _ in unit.nodes] if isinstance(unit, Pass) else unit.output for unit in units
    ]
    assert found == [[a, c, e], [b], d, [f]]
    chain.check([b, c, f])


OPERATIONS = [
    *((name, 1) for name in ("Relu", "Neg", "Sigmoid", "Identity", "Abs")),
    *((name, 2) for name in ("Add", "Sub", "Mul", "Max", "Min")),
    ("flatten", 1),
    ("choose", 2),
    ("log", 1),
    ("half", 1),
    ("mean", 1),
]


@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 30), st.integers(0, 30)),
        min_size=1,
        max_size=14,
    ),
    st.integers(1, (1 << 14) - 1),
    st.sampled_from(FLOATS),
)
@settings(max_examples=60)
def test_random_groups(steps: Any, wanted: int, dtype: Any) -> None:
    """Any nodes on any values before them, any of them results: registers are never freed too early."""
    chain = Chain()
    values = [chain.given(some(seed, 4, 6, dtype=dtype)) for seed in range(2)]
    values.append(chain.given(some(2, 1, 6, dtype=dtype)))
    for (name, count), first, second in steps:
        x, y = values[first % len(values)], values[second % len(values)]
        if name == "flatten":
            size = chain.constant(np.array(x.static_shape, np.int64))
            values.append(chain.node("Reshape", chain.node("Flatten", x, axis=0), size))
        elif name == "choose":
            values.append(chain.node("Where", chain.node("Less", x, y), x, y))
        elif name == "log":
            values.append(chain.node("Log", x))  # no instruction
        elif name == "half":
            narrow = chain.node("Cast", x, to=DType.FLOAT16)
            values.append(chain.node("Cast", narrow, to=DType.of(np.dtype(dtype))))
        elif name == "mean":
            values.append(chain.node("ReduceMean", x, chain.constant(np.array([0], np.int64))))
        else:
            values.append(chain.node(name, x, y) if count == 2 else chain.node(name, x))
    made = [node.output for node in chain.nodes]
    outputs = [tensor for place, tensor in enumerate(made) if wanted >> place % 14 & 1] or made[-1:]
    chain.check(outputs)
