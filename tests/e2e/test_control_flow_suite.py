"""ONNX's node cases with If, Loop and Scan, compiled and run on the simulated device, values in the model's
own types."""

from __future__ import annotations

import pytest
from onnx.backend.test.case.test_case import TestCase

import ascendsim as asim
from ascendsim.core.errors import UnsupportedOperatorError, UnsupportedTypeError
from ascendsim.core.refusals import ConversionError
from tests.support.gate import every
from tests.support.node_suite import all_cases, case_array, compare, operators_of

CONTROL_FLOW = {"If", "Loop", "Scan"}
# kinds of tensors that the device lacks; the oldest Scan
REFUSED = (
    "sequence",
    "optional",
    "Sequence",
    "TYPE_PROTO",
    "version 8",
)

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def cases() -> list[TestCase]:
    return [case for case in all_cases() if CONTROL_FLOW & set(operators_of(case.model))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", every(2, range(2)))
def test_cases_with_control_flow_run_on_the_device(part: int) -> None:
    ran, refused, failures = 0, [], []
    for case in cases()[part::2]:
        try:
            graph = asim.load(case.model)
        except (UnsupportedOperatorError, UnsupportedTypeError) as error:
            refused.append(str(error))
            continue
        try:
            model = asim.compile(graph, soc="Ascend310P3")
        except ConversionError:  # it has no bfloat16
            model = asim.compile(graph, soc="Ascend910B1")
        for given, wanted in case.data_sets or ():
            inputs = dict(
                zip([value.name for value in case.model.graph.input], map(case_array, given), strict=False)
            )
            result = asim.run(model, inputs, values="float32")
            problem = compare(
                [result.outputs[t.name] for t in graph.outputs],
                [*map(case_array, wanted)],
                case.rtol,
                case.atol,
            )
            failures += [f"{case.name}: {problem}"] if problem else []
        ran += 1
    assert not failures, "\n".join(failures)
    assert ran >= 13
    assert len(refused) <= 6
    assert all(any(word in reason for word in REFUSED) for reason in refused), refused
