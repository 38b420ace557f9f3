"""What becomes of an odd file here, and whether that is right by what onnx's checker and onnxruntime say.

python -m tests.support.odd_verdicts 2000               so many files; prints what is wrong, and counts
python -m tests.support.odd_verdicts 2000 --seed 7      others
python -m tests.support.odd_verdicts 300 --from 100     those from number 100 on
... --show accepted refused                             prints files of these verdicts too
"""

from __future__ import annotations

import argparse
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ascendsim as asim
from tests.support.odd_files import OddFile, odd_file
from tests.support.oracle_process import Answer, Oracle

Array = Any
CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B1", "Ascend310")
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
            or onnxruntime refuses it. "unsure": nobody says what is right. "CRASH": anything but a clear
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
    return Verdict(number, file.name, ACCEPTED if answer.invalid else UNSURE, "", about)


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


RANDOM = (
    "Bernoulli",
    "Dropout",
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Multinomial",
)


def _differs(file: OddFile, found: dict[str, Array], answer: Answer) -> str:
    """What differs from onnxruntime's outputs; empty if nothing does."""
    for name, theirs in answer.outputs.items():
        theirs = np.asarray(theirs)
        ours = found.get(name)
        if ours is None:
            return f"no output {name!r}"
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"{name} is {ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
        if any(node.op_type in RANDOM for node in file.model.graph.node):
            continue
        with np.errstate(all="ignore"):
            one, two = ours.astype(np.float64), theirs.astype(np.float64)
            least = 2e-3 if theirs.dtype == np.float16 else 1e-4
            size = np.max(np.abs(two), where=np.isfinite(two), initial=0)
            same = np.isclose(one, two, rtol=least, atol=least * size * 0.1 + 1e-6, equal_nan=True)
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
