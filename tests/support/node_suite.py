"""The node cases of the ONNX backend suite, run as a user runs a model: load, compile, run.

    python -m tests.support.node_suite                    all cases: a line for each operator that has
                                                          failures, and totals
    python -m tests.support.node_suite --op Conv Pad      cases whose model holds one of these operators;
                                                          prints every failure
    python -m tests.support.node_suite --case test_pad    cases whose name holds this text
    ... --soc Ascend910B1                                 on another chip
    ... --traceback                                       with the traceback of each failure
    ... --refused                                         lists what is refused, with counts

A case passes if its model loads, compiles with default options and runs twice: in the model's own types,
where outputs must agree at the case's own tolerance, and in the device's types, where they must agree as far
as float16 carries. It is refused if loading says that an operator or a type is not supported, or compiling
that the chip's Cube does not multiply a type; all else is a failure. Runs on one thread, some 15 ms a case.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf import __version__ as protobuf_version
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

import ascendsim as asim
from ascendsim.core.errors import UnsupportedOperatorError, UnsupportedTypeError
from ascendsim.core.refusals import ConversionError
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate

PASS, REFUSED, FAIL = "pass", "refused", "FAIL"
SOC = "Ascend310P3"
KEPT = Path(__file__).parents[2] / ".pytest_cache" / "d"  # goes with pytest --cache-clear
DEVICE_SHARE = 5e-3  # of the largest wanted value: some float16 roundings
LARGEST_HALF = 65504
# Cases whose inputs float16 cannot tell apart, so that the device's values are others.
BEYOND_HALF: Mapping[str, str] = {
    "test_softmax_large_number": "10000 and 10001 are one number",
    "test_logsoftmax_large_number": "10000 and 10001 are one number",
    "test_tan": "an argument near a pole",
    "test_ai_onnx_ml_tree_ensemble_set_membership": "members of sets are rounded",
}
# Cases about numbers that a chip whose float16 saturates has not: NaN is 0 there, infinity the last number.
ABOUT_INFINITIES = ("test_isnan", "test_isinf")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        reason: The refusal or failure in one line.
        lacks: What is refused, without the names of the case: "operator ImageDecoder", "has element type INT4
            ...".
    """

    case: str
    operators: tuple[str, ...]
    status: str
    reason: str = ""
    trace: str = ""
    lacks: str = ""


@cache
def all_cases() -> tuple[TestCase, ...]:
    """The cases, built in memory by the onnx package: once a version of it, since that takes seconds."""
    versions = "_".join((onnx.__version__, np.__version__, protobuf_version, *map(str, sys.version_info[:2])))
    kept = KEPT / f"onnx_node_cases_{versions}.pickle"
    try:
        return cast("tuple[TestCase, ...]", pickle.loads(kept.read_bytes()))
    except OSError:  # none yet
        cases = _made_cases()
    with suppress(OSError):  # a folder where nothing can be written
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
            pickle.dump(cases, file)
        Path(file.name).replace(kept)  # in one step: other workers never see a part
    return cases


def _made_cases() -> tuple[TestCase, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(sorted(load_model_tests(kind="node"), key=lambda case: case.name))


def representative_cases() -> tuple[TestCase, ...]:
    """The first case of every set of operators and number of inputs."""
    found: dict[Any, TestCase] = {}
    for case in all_cases():
        found.setdefault((operators_of(case.model), len(case.model.graph.input)), case)
    return tuple(found.values())


def operators_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """Distinct operators of a model and its subgraphs, in order of appearance, Constant left out."""
    names = [
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in _nodes(model.graph)
    ]
    return tuple(dict.fromkeys(name for name in names if name != "Constant"))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _nodes(subgraph)


def run_case(case: TestCase, soc: str = SOC) -> Outcome:
    """Runs one case with all its data sets."""
    operators = operators_of(case.model)
    stage = "load"
    try:
        graph = asim.load(case.model)
        stage = "compile"
        compiled = asim.compile(graph, soc=soc)
        stage = "run"
        problem = _problem(case, graph, compiled)
    except (UnsupportedOperatorError, UnsupportedTypeError) as error:
        if stage == "load":
            return Outcome(case.name, operators, REFUSED, str(error), lacks=_lacks(error))
        return _failed(case, operators, stage, error)
    except ConversionError as error:  # bfloat16, open shapes
        return Outcome(case.name, operators, REFUSED, str(error), lacks=error.subject)
    except Exception as error:
        return _failed(case, operators, stage, error)
    return Outcome(case.name, operators, FAIL if problem else PASS, problem)


def evaluate_case(case: TestCase, load: Callable[[onnx.ModelProto], asim.Graph] = asim.load) -> str:
    """What is wrong with the values of a case by the operators alone, without a chip; empty if nothing is, or
    if loading refuses it."""
    try:
        graph = load(case.model)
    except (UnsupportedOperatorError, UnsupportedTypeError):
        return ""
    for given, wanted in case.data_sets or ():
        names = [value.name for value in case.model.graph.input]
        found = evaluate(
            graph, default_opset(), dict(zip(names, [case_array(item) for item in given], strict=False))
        )
        if not random_case(case.name):
            with np.errstate(all="ignore"):
                problem = compare(found, [case_array(item) for item in wanted], case.rtol, case.atol)
            if problem:
                return f"{case.name}: {problem}"
    return ""


def _failed(case: TestCase, operators: tuple[str, ...], stage: str, error: Exception) -> Outcome:
    return Outcome(
        case.name, operators, FAIL, f"{stage}: {type(error).__name__}: {error}", traceback.format_exc()
    )


def _lacks(error: asim.AscendSimError) -> str:
    if isinstance(error, UnsupportedOperatorError):
        return "operator " + ", ".join(sorted({name for name, _ in error.operators}))
    return error.rule


def _problem(case: TestCase, graph: asim.Graph, compiled: asim.CompiledModel) -> str:
    """What is wrong with the values of a case; empty if nothing is."""
    names = [value.name for value in case.model.graph.input]
    outputs = [value.name for value in case.model.graph.output]
    saturates = compiled.soc.arithmetic.overflow[0] == "saturation"
    for given, wanted in case.data_sets or ():
        inputs = dict(zip(names, given, strict=False))
        device = asim.run(compiled, inputs).outputs
        exact = asim.run(compiled, inputs, values="float32").outputs
        expected = [case_array(item) for item in wanted]
        problem = _inferred(graph, exact)
        if not problem and not random_case(case.name):
            with np.errstate(all="ignore"):  # infinities meet; the project's own code must not warn
                problem = compare([exact[name] for name in outputs], expected, case.rtol, case.atol)
                found = [device[name] for name in outputs]
                problem = problem or _on_device(found, expected, case.name, saturates)
        if problem:
            return problem
    return ""


def _inferred(graph: asim.Graph, found: Mapping[str, Any]) -> str:
    """Where types and shapes that loading inferred are not those of the values."""
    for tensor in graph.outputs:
        array, shape = found[tensor.name], tensor.shape
        if tensor.origin_dtype is not None and tensor.origin_dtype.numpy != array.dtype:
            return f"inferred type {tensor.origin_dtype} of {tensor.name}, computed {array.dtype}"
        if shape is None:
            continue
        fits = len(shape) == array.ndim
        if not fits or any(
            isinstance(dim, int) and dim != size for dim, size in zip(shape, array.shape, strict=True)
        ):
            return f"inferred shape {shape} of {tensor.name}, computed {list(array.shape)}"
    return ""


def _on_device(found: Sequence[Any], wanted: Sequence[Any], name: str, saturates: bool) -> str:
    """What differs in the device's types; only types and shapes count where float16 cannot hold what the case
    is about."""
    beyond = (*BEYOND_HALF, *ABOUT_INFINITIES) if saturates else tuple(BEYOND_HALF)
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return (
                f"device: output {index} is {ours.dtype}{list(ours.shape)}, wanted "
                f"{theirs.dtype}{list(theirs.shape)}"
            )
        if name.startswith(beyond):
            continue
        double = theirs.dtype == np.float64  # of the AI CPU: NaN is 0 where it has been float16 before
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        if saturates:
            theirs = np.where(np.isnan(theirs) & ~(double & np.isnan(ours)), 0, theirs)
        held = np.isfinite(theirs) & (np.abs(theirs) <= LARGEST_HALF)
        most = DEVICE_SHARE * max(np.max(np.abs(theirs), where=held, initial=0), 1e-3)
        same = np.isclose(ours, theirs, rtol=0, atol=most, equal_nan=True) | (np.abs(theirs) > LARGEST_HALF)
        if not same.all():
            return f"device: output {index} differs in {np.sum(~same)} of {same.size} by more than {most:.3g}"
    return ""


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
            same = (
                np.array_equal(ours, theirs) if atol < 1 else np.allclose(ours, theirs, rtol=rtol, atol=atol)
            )
        else:
            same = np.allclose(
                ours.astype(np.float64), theirs.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
            )
        if not same:
            worst = np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0)
            return f"output {index} differs by up to {worst:.3g} (rtol {rtol}, atol {atol})"
    return ""


def case_array(item: Any) -> Any:
    """A case's data as an array; bfloat16 protos become ml_dtypes arrays."""
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)


def random_case(name: str) -> bool:
    """Whether a case draws random numbers: its expected values say nothing (as its source in ONNX notes),
    only type and shape do."""
    return "bernoulli" in name


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Run the node cases of the ONNX backend suite.")
    parser.add_argument(
        "--op", nargs="+", default=[], help="only cases whose model holds one of these operators"
    )
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--soc", default=SOC)
    parser.add_argument("--traceback", action="store_true")
    parser.add_argument("--refused", action="store_true")
    options = parser.parse_args(arguments)
    cases = [case for case in all_cases() if options.case in case.name]
    if options.op:
        cases = [case for case in cases if set(options.op) & set(operators_of(case.model))]
    outcomes = [run_case(case, options.soc) for case in cases]
    failures = [item for item in outcomes if item.status == FAIL]
    for item in failures:
        print(f"{','.join(item.operators[:4])}: {item.case}: {item.reason[:300]}")
        if options.traceback:
            print(item.trace)
    if options.refused:
        for lacks, count in Counter(item.lacks for item in outcomes if item.status == REFUSED).most_common():
            print(f"refused {count}: {lacks}")
    for operator, count in sorted(
        Counter(operator for item in failures for operator in item.operators[:1]).items()
    ):
        print(f"failures of {operator}: {count}")
    totals = Counter(item.status for item in outcomes)
    print(f"{len(outcomes)} cases: {totals[PASS]} pass, {totals[REFUSED]} refused, {totals[FAIL]} fail")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
