"""Makes the table of PyTorch networks whose training steps are compared with eager mode.

    python scripts/make_torch_table.py [NAMES] [--device] [--output FILE]

With --device another table: steps in mixed precision as the chip computes them.
torchvision's networks and those of transformers need their packages (no weights); what is absent is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ascendsim.frontends.torch.joint import capture_step
from ascendsim.ops import default_opset
from tests.support.torch_compare import differences
from tests.support.torch_device import device_differences
from tests.support.torch_zoo import NAMES, from_transformers, step_of

HEADER = """\
| network | input | nodes | kinds | capture, s | loss, values and gradients, s | worst gradient | parameter \
| eager against float64 | choices otherwise | worst with eager's choices | both in float64 |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def row(name: str) -> str | None:
    """One network's line; None if its package is absent."""
    made = step_of(name)
    if made is None:
        return None
    module, inputs = made
    start = time.perf_counter()
    step = capture_step(module, inputs, opset=default_opset())
    captured = time.perf_counter() - start
    start = time.perf_counter()
    found = differences(step, module, inputs)
    compared = time.perf_counter() - start
    if found.missing or step.unused:
        print(f"{name}: without a gradient {step.unused}, in one only {found.missing}", file=sys.stderr)
    cells = [
        name + (" (transformers)" if from_transformers(name) else ""),
        " x ".join(str(size) for size in inputs[0].shape),
        str(len(step.graph.nodes)),
        str(len(Counter(node.op_type for node in step.graph.nodes))),
        f"{captured:.1f}",
        f"{compared:.1f}",
        f"{found.worst:.2f}",
        found.where.removeprefix("network."),
        f"{found.eager:.2f}",
        "not compared" if found.decisions is None else str(found.decisions),
        f"{found.same_decisions:.2f}",
        f"{found.exact:.0e}",
    ]
    return f"| {' | '.join(cells)} |"


DEVICE_HEADER = """\
| network | loss differs by, % | lowest cosine | parameter | gradients below 0.999 | loss scale \
| torch.autocast | float64, rounded weights | the same, decisions kept |
|---|---|---|---|---|---|---|---|---|"""


def device_row(name: str) -> str | None:
    """One network's line of the table of device values; the last three are lowest cosines too."""
    made = step_of(name)
    if made is None:
        return None
    found = device_differences(*made)
    cells = [
        name,
        f"{100 * found.loss:.3f}",
        f"{found.cosine:.5f}",
        found.where.removeprefix("network."),
        f"{found.below[0]} of {found.below[1]}",
        f"{found.scale:g}",
        f"{found.autocast:.5f}",
        f"{found.rounded:.5f}",
        f"{found.decided:.5f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints or writes the table; says on stderr how far it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [DEVICE_HEADER if args.device else HEADER]
    for name in args.names:
        line = device_row(name) if args.device else row(name)
        print(line or f"{name}: its package is absent", file=sys.stderr, flush=True)
        lines += [line] if line else []
    text = "\n".join(lines) + "\n"
    if args.output is None:
        print(text, end="")
    else:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
