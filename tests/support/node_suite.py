"""The node cases of the ONNX backend suite, run on this project's front end and operators.

    python -m tests.support.node_suite                    all cases: a line for each operator that has failures, and totals
    python -m tests.support.node_suite --op Conv Pad      cases whose model holds one of these operators; prints every failure
    python -m tests.support.node_suite --case test_pad    cases whose name holds this text
    ... --traceback                                       with the traceback of each failure
    ... --unsupported                                     lists the operators (and types) that are refused, with counts

A case passes if the model loads, is evaluated in its own types and agrees at the case's own tolerance; it is refused if loading
says that an operator or type is not supported; all else is a failure. The run is single-threaded and takes some seconds.
"""

from __future__ import annotations

import argparse
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from ascendsim.core.errors import UnsupportedOperatorError, UnsupportedTypeError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.opset import OpSet
from tests.support.evaluate import evaluate

PASS, REFUSED, FAIL = "pass", "refused", "FAIL"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case; `reason` is the refusal or failure in one line."""

    case: str
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    trace: str = ""


@cache
def all_cases() -> tuple[TestCase, ...]:
    """The cases, built in memory by the onnx package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(sorted(load_model_tests(kind="node"), key=lambda case: case.name))


def operators_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """Distinct operators of a model and its subgraphs, in order of appearance, Constant left out."""
    names = [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in _nodes(model.graph)]
    return tuple(dict.fromkeys(name for name in names if name != "Constant"))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _nodes(subgraph)


def run_case(case: TestCase, opset: OpSet) -> Outcome:
    """Runs one case with all its data sets."""
    operators = operators_of(case.model)
    try:
        graph = load_onnx(case.model, opset=opset)
    except (UnsupportedOperatorError, UnsupportedTypeError) as error:
        return Outcome(case.name, operators, REFUSED, str(error))
    except Exception as error:
        return Outcome(case.name, operators, FAIL, f"load: {type(error).__name__}: {error}", traceback.format_exc())
    try:
        for given, wanted in case.data_sets or ():
            arrays = [_array(item) for item in given]
            names = [value.name for value in case.model.graph.input]
            found = evaluate(graph, opset, dict(zip(names, arrays, strict=False)))
            problem = "" if random_case(case.name) else compare(found, [_array(item) for item in wanted], case.rtol, case.atol)
            if problem:
                return Outcome(case.name, operators, FAIL, problem)
            declared = [t.shape for t in graph.outputs]
            for tensor, array in zip(graph.outputs, found, strict=True):
                problem = _shape_problem(tensor.shape, array.shape)
                if problem:
                    return Outcome(case.name, operators, FAIL, f"inferred shape {declared} of {tensor.name}: {problem}")
                if tensor.origin_dtype is not None and tensor.origin_dtype.numpy != array.dtype:
                    return Outcome(
                        case.name, operators, FAIL, f"inferred type {tensor.origin_dtype} of {tensor.name}, computed {array.dtype}"
                    )
    except Exception as error:
        return Outcome(case.name, operators, FAIL, f"values: {type(error).__name__}: {error}", traceback.format_exc())
    return Outcome(case.name, operators, PASS)


def compare(found: Sequence[Any], wanted: Sequence[Any], rtol: float, atol: float) -> str:
    """What differs, as text; empty if nothing does."""
    if len(found) != len(wanted):
        return f"{len(found)} outputs, wanted {len(wanted)}"
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours.dtype != theirs.dtype:
            return f"output {index} is {ours.dtype}, wanted {theirs.dtype}"
        if ours.shape != theirs.shape:
            return f"output {index} has shape {ours.shape}, wanted {theirs.shape}"
        if theirs.dtype == bool or np.issubdtype(theirs.dtype, np.integer):
            same = np.array_equal(ours, theirs) if atol < 1 else np.allclose(ours, theirs, rtol=rtol, atol=atol)
        else:
            same = np.allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
        if not same:
            worst = np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0)
            return f"output {index} differs by up to {worst:.3g} (rtol {rtol}, atol {atol})"
    return ""


def _shape_problem(shape: Any, actual: tuple[int, ...]) -> str:
    if shape is None:
        return ""
    if len(shape) != len(actual) or any(isinstance(dim, int) and dim != size for dim, size in zip(shape, actual, strict=True)):
        return f"values have shape {list(actual)}"
    return ""


def _array(item: Any) -> Any:
    """A case's data as an array; bfloat16 protos become ml_dtypes arrays."""
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)


def random_case(name: str) -> bool:
    """Whether a case draws random numbers: its expected values say nothing (as its source in ONNX notes), only type and shape do."""
    return "bernoulli" in name


def run(cases: Iterable[TestCase], opset: OpSet) -> list[Outcome]:
    return [run_case(case, opset) for case in cases]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    from ascendsim.ops import default_opset

    parser = argparse.ArgumentParser(description="Run the node cases of the ONNX backend suite.")
    parser.add_argument("--op", nargs="+", default=[], help="only cases whose model holds one of these operators")
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--traceback", action="store_true")
    parser.add_argument("--unsupported", action="store_true")
    options = parser.parse_args(arguments)
    cases = [case for case in all_cases() if options.case in case.name]
    if options.op:
        cases = [case for case in cases if set(options.op) & set(operators_of(case.model))]
    outcomes = run(cases, default_opset())
    failures = [item for item in outcomes if item.status == FAIL]
    for item in failures:
        print(f"{','.join(item.operators[:4])}: {item.case}: {item.reason[:300]}")
        if options.traceback:
            print(item.trace)
    if options.unsupported:
        for reason, count in Counter(item.reason.split(" (nodes")[0][:120] for item in outcomes if item.status == REFUSED).most_common():
            print(f"refused {count}: {reason}")
    for operator, count in sorted(Counter(operator for item in failures for operator in item.operators[:1]).items()):
        print(f"failures of {operator}: {count}")
    totals = Counter(item.status for item in outcomes)
    print(f"{len(outcomes)} cases: {totals[PASS]} pass, {totals[REFUSED]} refused, {totals[FAIL]} fail")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
