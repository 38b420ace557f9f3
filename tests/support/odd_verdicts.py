"""What becomes of an odd file here, and whether that is right by what onnx's checker and onnxruntime say.

python -m tests.support.odd_verdicts 2000               so many files; prints what is wrong, and counts
python -m tests.support.odd_verdicts 2000 --seed 7      others
python -m tests.support.odd_verdicts 300 --from 100     those from number 100 on
... --show accepted refused                             prints files of these verdicts too
"""

from __future__ import annotations

import argparse
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper

import ascendsim as asim
from tests.support.odd_files import OddFile, odd_file
from tests.support.oracle_process import Answer, Oracle

Array = Any
CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B1")  # Ascend310 has no open shapes
AGREES, DECLINED, REFUSED, ACCEPTED, UNSURE = "agrees", "declined", "refused", "accepted", "unsure"
CRASH, WRONG = "CRASH", "WRONG"
FAULTS = (CRASH, WRONG)
# errors that say that the program is at fault, not the file
INTERNAL = ("please report", "is malformed: ", "fails on its constant inputs", "fails on inputs ")


@dataclass(frozen=True)
class Verdict:
    """What became of a file.

    Attributes:
        kind: "agrees": both run it, and the values are the same. "declined": onnxruntime runs it and it is
            refused here in a line. "refused": refused by both. "accepted": it runs here, and onnx's checker
            or onnxruntime refuses it for a reason that is not in `ACCEPTED_HERE`. "unsure": it runs here and
            not there, for one that is, or nobody says what is right. "CRASH": anything but a clear
            error. "WRONG": other values.
        said: The error here, or what differs.
        theirs: What onnx's checker and onnxruntime say against it.
    """

    number: int
    name: str
    kind: str
    said: str = ""
    theirs: str = ""
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.number} {self.name}: {self.said[:300]} | {self.theirs[:200]}"


def judge(file: OddFile, number: int, oracle: Oracle) -> Verdict:
    """Runs a file here and there."""
    model = file.model.SerializeToString()
    answer = oracle.ask(model, file.inputs)
    about = (answer.runtime or answer.checker).replace("\n", " ")
    try:
        found = _run(model, file.inputs, CHIPS[number % len(CHIPS)])
    except asim.AscendSimError as error:
        said = f"{type(error).__name__}: {error}"
        internal = any(word in said for word in INTERNAL) or isinstance(
            error, (asim.PassError, asim.SimulationError)
        )
        kind = CRASH if internal else DECLINED if answer.ran else REFUSED
        return Verdict(number, file.name, kind, said, about, traceback.format_exc() if internal else "")
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        return Verdict(number, file.name, CRASH, said, about, traceback.format_exc())
    if answer.ran:
        problem = _differs(file, found, answer)
        return Verdict(number, file.name, WRONG if problem else AGREES, problem, about)
    listed = any(re.search(text, about) for text in ACCEPTED_HERE)
    return Verdict(number, file.name, ACCEPTED if answer.invalid and not listed else UNSURE, "", about)


def _run(model: bytes, inputs: dict[str, Array], chip: str) -> dict[str, Array]:
    """Outputs in the model's own types; the device's values are computed too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = asim.load(model)
        compiled = asim.compile(graph, soc=chip)
        given = {tensor.name: inputs[tensor.name] for tensor in graph.inputs}
        found = asim.run(compiled, given, values="float32").outputs
        asim.run(compiled, given)
    assert found is not None
    return dict(found)


# by what onnx or onnxruntime say: files that they refuse and that run here, with reasons
ACCEPTED_HERE: Mapping[str, str] = {
    "NOT_IMPLEMENTED": "onnxruntime has no kernel for a type",
    "is not a registered function/op": "onnxruntime has no training and preview operators",
    "can't be converted to MLDataType|No corresponding Numpy type": "bfloat16 has no form in its Python",
    "ends the process|does not end": "onnxruntime itself fails",
    r'-> \("",': "outputs that ONNX wants are left out: nobody reads them, as exporters write TopK",
    "Op registered .* deprecated|Op re": "operators that ONNX withdrew (Upsample, Scatter) stay",
    "does not match expected type": "the type that a file declares for an output does not count",
    "Integer division by zero": "integers divided by zero are whatever the chip makes of them",
    r"Mod node|fmod_ must": "newer ONNX has Mod of floats without fmod",
    "reduction_ops.cc|empty set with bool|axes are s|Dilation|not positive for axis|num_indices = 0"
    "|target shape product of 0|Invalid Target shape|Output channels M|Invalid empty": "empty tensors",
    "ConvInteger|conv_integer.cc|lstm_base.h|rnn.h|_gru.h|lrn.cc|RoiAlign|ReorderOutput": (
        "forms that ONNX has and onnxruntime does not"
    ),
}
# by operator: values that need not be onnxruntime's, with reasons
OTHER_VALUES: Mapping[str, str] = {
    **dict.fromkeys(
        ("Bernoulli", "Dropout", "RandomNormal", "RandomUniform", "Multinomial"), "random numbers are others"
    ),
    **dict.fromkeys(("RandomNormalLike", "RandomUniformLike"), "random numbers are others"),
    "MaxUnpool": "onnxruntime takes indices of another shape with output_shape",
    **dict.fromkeys(
        ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
        "onnxruntime saturates sums of uint8 x int8 on processors without VNNI",
    ),
}


def _differs(file: OddFile, found: dict[str, Array], answer: Answer) -> str:
    """What differs from onnxruntime's outputs; empty if nothing does."""
    names = {node.op_type for node in file.model.graph.node}
    held = list(file.inputs.values()) + [numpy_helper.to_array(item) for item in file.model.graph.initializer]
    # of infinities and NaN, everybody makes something else; of nothing, onnxruntime's reductions keep axes
    odd = any(item.dtype.kind == "f" and not np.isfinite(item).all() for item in held) or (
        any(not item.size for item in held) and any(name.startswith(("Reduce", "Arg")) for name in names)
    )
    for name, theirs in answer.outputs.items():
        theirs = np.asarray(theirs)
        ours = found.get(name)
        if ours is None:
            return f"no output {name!r}"
        if ours.dtype != theirs.dtype:
            return f"{name} is {ours.dtype}, not {theirs.dtype}"
        if odd or names & OTHER_VALUES.keys():
            continue
        if ours.shape != theirs.shape:
            return f"{name} has shape {list(ours.shape)}, not {list(theirs.shape)}"
        with np.errstate(all="ignore"):
            one, two = ours.astype(np.float64), theirs.astype(np.float64)
            least = 2e-3 if theirs.dtype == np.float16 else 1e-4
            size = np.max(np.abs(two), where=np.isfinite(two), initial=0)
            same = np.isclose(one, two, rtol=least, atol=least * size * 0.1 + 1e-6, equal_nan=True)
        if theirs.dtype.kind in "iu":  # what an integer cannot hold becomes anything
            limits = np.iinfo(theirs.dtype)
            same |= (theirs == limits.min) | (theirs == limits.max)
        if not same.all():
            return f"{name} differs in {np.sum(~same)} of {same.size}: {one[~same][:3]}, not {two[~same][:3]}"
    return ""


def verdicts(numbers: Iterable[int], seed: int = 0) -> Iterator[Verdict]:
    """Of the files of these numbers."""
    with Oracle() as oracle:
        for number in numbers:
            yield judge(odd_file(number, seed), number, oracle)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Run odd files here and in onnxruntime.")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--show", nargs="*", default=[])
    parser.add_argument("--traceback", action="store_true")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for item in verdicts(range(options.first, options.first + options.count), options.seed):
        counts[item.kind] += 1
        if item.kind in (*FAULTS, *options.show):
            print(item, flush=True)
            if options.traceback and item.trace:
                print(item.trace)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return 1 if any(counts[kind] for kind in FAULTS) else 0


if __name__ == "__main__":
    raise SystemExit(main())
