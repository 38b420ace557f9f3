"""Values of all operators: against onnxruntime in the model's types, and on the device against float32
rounded once."""

from __future__ import annotations

import zlib
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from tests.support.half import ulps
from tests.support.operator_cases import Case, all_operator_cases, build, compute, ports_of_values
from tests.support.own_cases import edge_cases, own_cases

Array = Any
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow and NaN are results here

# ---------------------------------------------------------------------------------------------------------- o

RANDOM = {"RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Multinomial", "Dropout"}
LACKING = {
    # not in onnxruntime
    *(
        "BitCast",
        "SwiGLU",
        "CumProd",
        "SpaceToDepth",
        "TensorScatter",
        "LinearAttention",
    ),
    *(f"ai.onnx.preview.training::{name}" for name in ("Momentum", "Adam", "Adagrad")),
    "com.microsoft::QLinearReduceMean",  # a schema without a kernel
}
OPSETS = {"RMSNormalization": 23, "RotaryEmbedding": 23}
TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-12}


def _onnxruntime(case: Case) -> list[Array] | None:
    """The results of onnxruntime; None if it has not this operator for these types."""
    import onnx
    import onnxruntime

    names = ["" if array is None else f"in{port}" for port, array in enumerate(case.inputs)]
    results = [f"out{number}" for number in range(case.outputs)]
    attributes = {
        name: onnx.helper.np_dtype_to_tensor_dtype(value.numpy) if isinstance(value, DType) else value
        for name, value in case.attributes.items()
    }
    attributes = {
        name: onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    node = onnx.helper.make_node(case.op_type, names, results, domain=case.domain, **attributes)
    arrays = {name: array for name, array in zip(names, case.inputs, strict=True) if name}
    values = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    graph = onnx.helper.make_graph(
        [node], "one", values, [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    )
    domains = [onnx.helper.make_opsetid("", OPSETS.get(case.op_type, 21))]
    domains += (
        [onnx.helper.make_opsetid(case.domain, 1 if case.domain == "com.microsoft" else 3)]
        if case.domain
        else []
    )
    model = onnx.helper.make_model(graph, opset_imports=domains, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(array) for array in session.run(None, arrays)]
    except Exception:
        return None


def _close(found: Array, wanted: Array) -> bool:
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if found.dtype.kind != "f":
        return np.array_equal(found, wanted)
    finite = wanted[np.isfinite(wanted)]
    bound = TOLERANCE[found.dtype] * np.max(np.abs(finite), initial=1e-30)
    near = np.abs(found.astype(np.float64) - wanted.astype(np.float64)) <= bound
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return bool((near | same).all())


def _a_step_apart(found: Array, wanted: Array) -> bool:
    """onnxruntime computes these in another order, which decides what lies between two integers."""
    return found.dtype == wanted.dtype and bool((np.abs(found.astype(int) - wanted.astype(int)) <= 1).all())


def test_own_cases_give_what_onnxruntime_gives() -> None:
    compared: Counter[str] = Counter()
    different: list[str] = []
    for case in own_cases() + edge_cases():
        if case.domain == "ascend" or case.op_type in RANDOM or case.operator in LACKING:
            continue
        wanted = _onnxruntime(case)
        if wanted is None:
            continue
        found = compute(build(case), case.inputs)
        compared[case.operator] += 1
        close = _a_step_apart if case.domain == "com.microsoft" else _close
        if len(found) != len(wanted) or not all(map(close, found, wanted)):
            different.append(case.name)
    assert not different
    assert sum(compared.values()) > 900
    operators = {
        case.operator for case in own_cases() if case.domain != "ascend" and case.op_type not in RANDOM
    }
    assert operators - set(compared) <= LACKING


# ------------------------------------------------------------------------------------------------------------

# Steps between float16 numbers by which the device may differ from float32 rounded once, and why.
STEPWISE = {
    "Softmax": (5, "each of its instructions rounds"),
    "BNTrainingUpdateGrad": (1, "its sums are float64, which the reference rounds to float32 first"),
    **{
        name: (1, "as BNTrainingUpdateGrad")
        for name in (
            "AdaptiveAvgPool2dGrad",
            "AvgPoolV2Grad",
            "BNInferGrad",
            "BNTrainingUpdate",
            "BatchNormGrad",
            "BiasAddGrad",
            "Conv2DBackpropFilter",
            "Conv2DBackpropInput",
            "DepthwiseConv2DBackpropFilter",
            "DepthwiseConv2DBackpropInput",
            "Conv3DBackpropFilter",
            "Conv3DBackpropInput",
            "GroupNormGrad",
            "ResizeBilinearV2Grad",
            "ResizeNearestNeighborV2Grad",
            "RmsNormGrad",
        )
    },
    "LogSoftmax": (15, "each of its instructions rounds; differences of the largest cancel"),
}
FEEDBACK = {"RNN": "the state is rounded at every step", "GRU": "as RNN", "LSTM": "as RNN"}
UNROUNDED = {
    "BitCast": "bits of another width",
    "Cast": "its result says the type",
    "CastLike": "as Cast",
    "FlashAttentionScore": "weights of keys are rounded to the type of the values before they meet",
    "FlashAttentionScoreGrad": "as FlashAttentionScore",
    "FusedInferAttentionScore": "as FlashAttentionScore",
    "IncreFlashAttention": "as FlashAttentionScore",
    "PromptFlashAttention": "as FlashAttentionScore",
    "MatMulNBits": "weights are rounded to the type of the data before they are multiplied",
    "UnsortedSegmentMax": "a segment without rows holds the lowest number of its type",
    "UnsortedSegmentMin": "as UnsortedSegmentMax, the highest",
    "WeightQuantBatchMatmulV2": "as MatMulNBits",
}


def _half(array: Array | None) -> Array | None:
    return array.astype(np.float16) if array is not None and array.dtype == np.float32 else array


def _single(array: Array | None, like: Array | None) -> Array | None:
    return (
        array.astype(np.float32)
        if array is not None and like is not None and array.dtype != like.dtype
        else array
    )


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 65504, -65504, 6e-8, -6e-8, 1e-5, 1.0, -1.0, 2049, 0.3333],
    np.float16,
)


def _with_special(array: Array, seed: int) -> Array:
    """A copy with infinities, NaN, zeros of both signs, the largest and the smallest numbers in half of its
    places."""
    flat = array.reshape(-1).copy()
    places = np.random.default_rng(seed).permutation(flat.size)[: min(len(SPECIAL), -(-flat.size // 2))]
    flat[places] = np.resize(np.roll(SPECIAL, seed), places.size)
    return flat.reshape(array.shape)


@cache
def _float_cases() -> tuple[tuple[Case, Node, frozenset[int]], ...]:
    cases = [case for case in all_operator_cases() if case.op_type not in UNROUNDED]
    floats = [
        case
        for case in cases
        if any(array is not None and array.dtype == np.float32 for array in case.inputs)
    ]
    return tuple((case, build(case), frozenset(ports_of_values(case))) for case in floats)


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "special values"])
def test_float16_is_float32_rounded_once(special: bool) -> None:
    """Device values differ from those of the same inputs in float32 by one rounding alone."""
    wrong = []
    for case, node, steering in _float_cases():
        if special and case.op_type == "Unique":  # counts of NaN
            continue
        narrow = [array if port in steering else _half(array) for port, array in enumerate(case.inputs)]
        if special and narrow[0] is not None and narrow[0].dtype == np.float16:
            narrow[0] = _with_special(narrow[0], zlib.crc32(case.op_type.encode()))
        wide = [_single(array, given) for array, given in zip(narrow, case.inputs, strict=True)]
        before = [None if array is None else array.copy() for array in narrow]
        types = [tensor.element_type.numpy for tensor in node.outputs]
        wanted = [np.dtype(np.float16) if dtype == np.float32 else dtype for dtype in types]
        exact = default_opset().get(node).compute(node, wide, types)
        found = default_opset().get(node).compute(node, narrow, wanted)
        for array, copy in zip(narrow, before, strict=True):
            assert array is None or array.tobytes() == copy.tobytes(), f"{case.name} changes its inputs"
        for ours, reference, dtype in zip(found, exact, wanted, strict=True):
            assert ours.dtype == dtype, case.name
            if not _rounded(case, ours, reference, special):
                wrong.append(case.name)
    assert not wrong


def _rounded(case: Case, found: Array, reference: Array, special: bool) -> bool:
    if found.dtype != np.float16 or reference.dtype == np.float16:
        return np.array_equal(found, reference, equal_nan=found.dtype.kind == "f")
    steps = ulps(found, np.asarray(reference).astype(np.float16)).max(initial=0)
    if case.op_type in FEEDBACK:
        return special or bool(
            np.allclose(found, reference, rtol=0, atol=0.01 * np.abs(reference).max(initial=0))
        )
    return bool(steps <= STEPWISE.get(case.op_type, (0, ""))[0])


def test_bfloat16_is_float32_rounded_once() -> None:
    import ml_dtypes

    for case, node, steering in _float_cases():
        if case.op_type in (*STEPWISE, *FEEDBACK) or case.domain == "ascend":
            continue
        narrow = [
            array.astype(ml_dtypes.bfloat16)
            if port not in steering and array is not None and array.dtype == np.float32
            else array
            for port, array in enumerate(case.inputs)
        ]
        wide = [_single(array, given) for array, given in zip(narrow, case.inputs, strict=True)]
        types = [tensor.element_type.numpy for tensor in node.outputs]
        wanted = [DType.BFLOAT16.numpy if dtype == np.float32 else dtype for dtype in types]
        exact = default_opset().get(node).compute(node, wide, types)
        found = default_opset().get(node).compute(node, narrow, wanted)
        for ours, reference, dtype in zip(found, exact, wanted, strict=True):
            assert ours.dtype == dtype, case.name
            rounded = np.asarray(reference).astype(dtype)
            assert np.array_equal(ours, rounded) or _same_numbers(ours, rounded), case.name


def _same_numbers(found: Array, wanted: Array) -> bool:
    return np.array_equal(found.astype(np.float64), wanted.astype(np.float64), equal_nan=True)
