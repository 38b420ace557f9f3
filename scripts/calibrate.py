"""Fits the constants that `validate/calibrate.py` declares and writes
ascendsim/validate/data/calibration.json.

    python scripts/calibrate.py 310P3                 batch 1, 8 and 32 (some minutes)
    python scripts/calibrate.py 310 --batches 1,4,16  other batch sizes

The file holds the values of the fit on all networks and of those that left one out; `ascendsim validate
models --leave_one_out` scores each network with the values that did not see it. The values of the fit on all
belong into the chip's file, with `fitted_on`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ascendsim.core.files import write_whole
from ascendsim.validate import measured_points, score
from ascendsim.validate.calibrate import CONSTANTS, SAME_CHIP, Fit, fit, prepare

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "tests" / "data" / "models"
TARGET = ROOT / "ascendsim" / "validate" / "data" / "calibration.json"
BATCHES = (1, 8, 32)


def run(group: str, batches: tuple[int, ...]) -> Fit:
    """Fits one chip and prints what came out."""
    groups = [group, *(other for other, same in SAME_CHIP.items() if same == group)]
    points = [point for point in measured_points(groups) if point.batch in batches]
    found = fit(prepare(points, MODELS), CONSTANTS[group], report=print)
    for name, predictions in (("seen", found.seen), ("left out", found.unseen)):
        value = score(predictions)
        print(
            f"{group} {name}: MAPE {value.mape:.1%}, median {value.median:.1%}, bias {value.bias:+.1%}, "
            f"Spearman {value.spearman:.3f}"
        )
    return found


def main() -> None:
    """Fits the chips that the command line names."""
    parser = argparse.ArgumentParser(description="Fits assumed constants of chips on published networks.")
    parser.add_argument("chips", nargs="+", choices=sorted(CONSTANTS))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="batch sizes to fit on")
    args = parser.parse_args()
    batches = tuple(int(text) for text in args.batches.split(","))
    for group in args.chips:
        found = run(group, batches)
        known = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
        known[group] = {"batches": list(batches), "values": found.values, "left_out": found.left_out}
        write_whole(TARGET, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())
        print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
