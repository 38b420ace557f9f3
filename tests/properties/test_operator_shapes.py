"""Shape rules: what they say with unknown dimensions holds for every size, and what they accept can be
computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Dim, Shape
from ascendsim.ops import default_opset
from tests.support.gate import in_one
from tests.support.operator_cases import (
    Case,
    all_operator_cases,
    build,
    cases_of,
    computed,
    few_cases_of,
    initials,
    ports_of_values,
)

BY_INITIAL = pytest.mark.parametrize("initial", initials())
# The number of results depends on values.
COUNTS = {"NonMaxSuppression", "NonZero", "Unique"}
# What is known only if all sizes of the axes are, or cannot be said of a lone symbol.
VAGUE = {
    **dict.fromkeys(
        ("Conv", "ConvInteger", "QLinearConv", "DeformConv", "ConvTranspose"),
        "windows: the kernel is known or unknown as a whole",
    ),
    **dict.fromkeys(
        ("ascend::AippConv", "ascend::QuantConv", "ascend::DequantConv", "ascend::QuantConvTranspose"),
        "windows: the kernel is known or unknown as a whole",
    ),
    **dict.fromkeys(
        (
            "AveragePool",
            "MaxPool",
            "LpPool",
            "ascend::MaxPoolWithArgmax",
            "ascend::MaxPoolWithArgmaxV1",
            "com.microsoft::QLinearAveragePool",
        ),
        "a window that gives as many results as it had inputs",
    ),
    "MaxUnpool": "sizes follow only if all of them are known",
    "Resize": "keep_aspect_ratio_policy needs all sizes",
    "LinearAttention": "a head's share of an axis",
    "ascend::CompositeMatMul": "blocks of an axis",
    "GatherND": "the rank follows from the last axis of the indices",
    "Squeeze": "without axes, the rank follows from the sizes",
}


def _shapes(case: Case, port: int, shape: Shape | None) -> list[Shape | None]:
    """Output shapes where an input, of unknown values, has another shape."""
    others = [number for number in range(len(case.inputs)) if number != port]
    return [tensor.shape for tensor in build(case, others, {port: shape}).outputs]


def _data_ports(case: Case) -> list[int]:
    values = ports_of_values(case)
    return [port for port, array in enumerate(case.inputs) if array is not None and port not in values]


def _agrees(shape: Shape | None, actual: Sequence[int]) -> bool:
    if shape is None:
        return True
    return len(shape) == len(actual) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(shape, actual, strict=True)
    )


@pytest.mark.filterwarnings("ignore")
@BY_INITIAL
def test_known_inputs_give_known_shapes(initial: str) -> None:
    for case in cases_of(initial):
        for tensor, array in zip(build(case).outputs, computed(case), strict=True):
            assert _agrees(tensor.shape, array.shape), case.name
            assert tensor.is_static or case.op_type in COUNTS, case.name
            assert tensor.dtype is tensor.origin_dtype is not None, case.name
            assert array.dtype == tensor.element_type.numpy, case.name


@BY_INITIAL
def test_what_decides_a_shape_is_no_data(initial: str) -> None:
    """A port whose values a shape rule asks for keeps its type in every precision mode, and holds no samples
    of a batch; but for operators whose data select what is there."""
    for case in few_cases_of(initial):
        facts = default_opset().get(build(case)).facts
        asked = set(ports_of_values(case)) - {facts.shape_port}
        assert asked <= set(facts.parameters) or case.op_type in ("NonZero", "Compress"), case.name


@BY_INITIAL
def test_unknown_values_and_ranks_leave_a_rule_silent_or_right(initial: str) -> None:
    for case in cases_of(initial):
        actual = [tensor.shape for tensor in build(case).outputs]
        said = [_values_unknown(case, ports_of_values(case))]
        said += [_shapes(case, port, None) for port in _data_ports(case)]
        for shapes in said:
            for shape, known in zip(shapes, actual, strict=True):
                assert known is None or _agrees(
                    shape, [dim if isinstance(dim, int) else -1 for dim in known]
                ), case.name


def _values_unknown(case: Case, ports: Sequence[int]) -> list[Shape | None]:
    known = [port for port in range(len(case.inputs)) if port not in ports]
    return [tensor.shape for tensor in build(case, known).outputs]


def _with_symbols(initial: str) -> Iterator[tuple[Case, int, int]]:
    for case in few_cases_of(initial, 2):
        for port in _data_ports(case):
            for axis in range(case.inputs[port].ndim):
                yield case, port, axis


@BY_INITIAL
def test_a_symbol_stands_for_every_size(initial: str) -> None:
    """Where sizes differ the rule with a symbol gives no number, where they agree that one, and the symbol
    where it is the size."""
    vague: Counter[str] = Counter()
    for case, port, axis in _with_symbols(initial):
        array = case.inputs[port]
        by_size: dict[int, list[Shape | None]] = {}
        for size in (array.shape[axis], array.shape[axis] + 1, 2 * array.shape[axis], 1):
            try:
                by_size[size] = _shapes(case, port, (*array.shape[:axis], size, *array.shape[axis + 1 :]))
            except GraphError:
                continue  # a size that the operator cannot take says nothing
        for symbol in (None, "n"):
            found = _shapes(case, port, (*array.shape[:axis], symbol, *array.shape[axis + 1 :]))
            for number, shape in enumerate(found):
                forms = {size: shapes[number] for size, shapes in by_size.items()}
                vague[case.operator] += not _holds(case, shape, forms, symbol)
    operators = {name for name, count in vague.items() if count}
    assert operators <= set(VAGUE) | COUNTS | {"Slice"}


def _holds(case: Case, shape: Shape | None, by_size: dict[int, Shape | None], symbol: str | None) -> bool:
    """Asserts that nothing false is said; returns whether all that is sure is said."""
    if shape is None:
        return all(form is None for form in by_size.values())
    precise = True
    for place, dim in enumerate(shape):
        sizes: dict[int, Dim] = {}
        for size, form in by_size.items():
            assert form is not None, case.name
            assert len(form) == len(shape), case.name
            sizes[size] = form[place]
        if isinstance(dim, int):
            assert set(sizes.values()) <= {dim, None}, case.name
        elif dim == "n":
            assert all(size == value for size, value in sizes.items()), case.name
        elif len(sizes) > 2:
            constant = len(set(sizes.values())) == 1 and None not in sizes.values()
            same = symbol is not None and all(size == value for size, value in sizes.items())
            precise = precise and not constant and not same
    return precise


@BY_INITIAL
def test_types_of_results_do_not_hang_on_shapes(initial: str) -> None:
    for case in cases_of(initial):
        types = [tensor.origin_dtype for tensor in build(case).outputs]
        ports = _data_ports(case)
        for unknown in (*((port,) for port in ports), ports):
            node = build(case, shapes=dict.fromkeys(unknown))
            found = [(tensor.origin_dtype, tensor.dtype) for tensor in node.outputs]
            assert found == [(kind, kind) for kind in types], f"{case.name} without the shapes of {unknown}"


@BY_INITIAL
def test_what_rules_say_of_unknown_shapes_is_that_of_the_table(
    initial: str, golden: Callable[[str, str], None]
) -> None:
    """Results where the rank of an input is unknown, where an axis is a symbol n, and where values are."""
    lines = []
    for case in sorted(few_cases_of(initial, 2), key=lambda case: case.operator):
        if case.name.startswith("edge"):
            continue
        ports, known = _data_ports(case), [tensor.shape for tensor in build(case).outputs]
        said: dict[str, list[str]] = {}
        for port in ports:
            said.setdefault(_text(_shapes(case, port, None), known), []).append(f"rank of {port}")
        said.setdefault(_text(_values_unknown(case, ports_of_values(case)), known), []).append("values")
        lines += [f"{case.operator} {_inputs(case)} -> {' '.join(map(_shape_text, known))}"]
        lines += [f"    without {', '.join(what)}: {text}" for text, what in said.items() if text != "="]
        for port in ports:
            shape = case.inputs[port].shape
            with_n = [(*shape[:axis], "n", *shape[axis + 1 :]) for axis in range(len(shape))]
            found = [_text(_shapes(case, port, item), known) for item in with_n]
            lines += [f"    n in {port}: {' | '.join(found)}"] if set(found) - {"="} else []
    golden(f"ops_shapes/{initial}.txt", "\n".join(lines) + "\n")


def _inputs(case: Case) -> str:
    return " ".join("-" if array is None else str(list(array.shape)) for array in case.inputs)


def _text(shapes: Sequence[Shape | None], known: Sequence[Shape | None]) -> str:
    """What a rule says; = where that is what it says of what is known."""
    return "=" if list(shapes) == list(known) else " ".join(map(_shape_text, shapes))


def _shape_text(shape: Shape | None) -> str:
    return "?" if shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"


# Operands whose shapes are tied to those of others: one dimension more on the last axis of the input at a
# port does not fit.
TIED = {
    "BatchNormalization": (1, 2, 3, 4),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1,),
    "RMSNormalization": (1,),
    "PRelu": (1,),
    "SwiGLU": (0, 1),
    "ScatterElements": (2,),
    "NegativeLogLikelihoodLoss": (1,),
    "SoftmaxCrossEntropyLoss": (1,),
    "MaxUnpool": (0, 1),
    "ReverseSequence": (1,),
    "OneHot": (2,),
    "ai.onnx.preview.training::Adam": (2, 3, 4, 5, 6, 7, 8, 9),
    "ai.onnx.preview.training::Momentum": (2, 3, 4),
    "ascend::BNInference": (1, 2, 3, 4),
    "ascend::BNInferenceD": (1, 2),
    "ascend::Scale": (1,),
    "ascend::BNTrainingUpdate": (1, 2, 3, 4, 5, 6),
    "ascend::ReluGrad": (0, 1),
    "ascend::FusedMulAddN": (0, 1),
    "ascend::FusedMulApplyMomentum": (2, 3, 4),
    "ascend::LayerNormGrad": (0, 1, 2, 3, 4),
    "ascend::GeluGrad": (0, 1, 2),
    "ascend::NLLLoss": (1, 2),
    "ascend::NLLLossGrad": (1, 2, 3),
    "ascend::SoftmaxCrossEntropyWithLogits": (0, 1),
    "ascend::SparseSoftmaxCrossEntropyWithLogits": (1,),
    "ascend::EmbeddingDenseGrad": (1,),
    "ascend::UnsortedSegmentSum": (1,),
    "ascend::InplaceIndexAdd": (1, 2),
    "ascend::StridedSliceGrad": (4,),
    "ascend::DropOutDoMask": (1,),
}


@in_one("operator", TIED)
def test_operands_that_do_not_fit_each_other_are_refused(operator: str) -> None:
    """Before the run, and so before a kernel reads beyond its arrays; a symbol in that place is taken."""
    case = next(case for case in all_operator_cases() if case.operator == operator)
    for port in TIED[operator]:
        shape = case.inputs[port].shape
        larger = (*shape[:-1], shape[-1] + 1)
        with pytest.raises(GraphError, match=r"needs .*, not "):
            _shapes(case, port, larger)
        assert len(_shapes(case, port, (*shape[:-1], "n"))) == case.outputs
