"""A page of what `tests.support.scaling more --save FOLDER` found: how many steps to more of a resource make
each network slower on each chip, and why.

python -m tests.support.scaling_page FOLDER [--earlier FOLDER] [--output docs/scaling_results.md]
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascendsim.soc import load
from tests.support.scaling import (
    CHIPS,
    NETWORKS,
    RESOURCES,
    Times,
    duration_us,
    ladder,
    more_of,
    network,
)
from tests.support.scaling_known import KNOWN_MORE, MORE, Step, reason_of

HEAD = """# More of a resource: what was run

Every network of `tests/data/models` on four chips with more and more of one resource: cores (on split cores
also cube and vector cores alone) from a quarter to four times, bandwidth and queues from half to four times,
L2 from an eighth to four times, its rate and every buffer from half to twice. A step is compared with the
best that less of the resource has shown, and may be {limit} slower. This page is made by

    python -m tests.support.scaling more --save out/scaling
    python -m tests.support.scaling_page out/scaling --output docs/scaling_results.md

Each cell: steps that are slower by more than {limit}, of all steps, and the largest; with the resources that
were run, or were not, if it was not all of them; - = not run.
"""
EARLIER = """† = run with an earlier state of the simulator, whose times were others; what follows is without
them.
"""

OTHER_CHIPS = """## A larger chip is not more of everything

Tasks of small networks are short, and what starts them is dearer on 910B: a block
{own.block_dispatch_ns:.0f} ns (profiles: 1.4 us with one block, 7.7 with 48), a kernel
{own.kernel_init_ns:.0f} ns (profiles), the gap to the next task {own.task_gap_us:g} us (assumed); on 310P3
they are {other.block_dispatch_ns:.0f} ns (as 910A), {other.kernel_init_ns:.0f} ns and {gap:.0f} ns (from
throughput of networks). So mobilenet_v3_small at batch 1 takes {small:.0f} us on 310P3 and {large:.0f} us
on 910B1, which has more of every resource; with the gap of 310P3 it would be {with_gap:.0f} us there, with
its blocks too {with_blocks:.0f}, with all three {with_all:.0f}.
"""


def other_chips() -> str:
    """What launches cost a small network on a large chip, by the chips as they are."""
    own, other = load("Ascend910B1").launch, load("Ascend310P3").launch
    changes = {
        f"launch.{name}": getattr(other, name)
        for name in ("task_gap_us", "block_dispatch_ns", "kernel_init_ns")
    }
    graph = network("mobilenet_v3_small")
    times = [
        duration_us(graph, load("Ascend910B1", dict(list(changes.items())[:count]))) for count in range(4)
    ]
    return OTHER_CHIPS.format(
        own=own,
        other=other,
        gap=1e3 * other.task_gap_us,
        small=duration_us(graph, load("Ascend310P3")),
        large=times[0],
        with_gap=times[1],
        with_blocks=times[2],
        with_all=times[3],
    )


@dataclass(frozen=True, slots=True)
class Runs:
    """What was run of a network on a chip.

    Attributes:
        steps: To more of each resource that was run with all its factors.
        resources: These, as a cell shows them; "" if none is missing.
        today: Whether it was run with the code as it is.
    """

    steps: tuple[Step, ...]
    resources: str = ""
    today: bool = True


def runs_of(name: str, chip: str, times: Times, today: bool = True) -> Runs | None:
    """What was run of a network on a chip; None if no resource was run with all its factors."""
    ladders = {resource: ladder(chip, resource) for resource in RESOURCES}
    there = [resource for resource, changes in ladders.items() if changes]
    run = [
        resource for resource in there if all(times.has(name, chip, changes) for changes in ladders[resource])
    ]
    if not run:
        return None
    steps = tuple(step for resource in run for step in more_of(name, chip, resource, times=times))
    missing = [resource for resource in there if resource not in run]
    text = f"not {', '.join(missing)}" if len(missing) < len(run) else ", ".join(run)
    return Runs(steps, f" ({text})" if missing else "", today)


def page(
    times: Times,
    networks: Sequence[str] = NETWORKS,
    chips: Sequence[str] = CHIPS,
    earlier: Times | None = None,
) -> str:
    """The page, from times that are known.

    Args:
        times: With the code as it is.
        networks, chips: Rows and columns.
        earlier: With an earlier state of it, for what has not been run since.
    """
    found: dict[tuple[str, str], Runs | None] = {}
    for name, chip in itertools.product(networks, chips):
        now = found[name, chip] = runs_of(name, chip, times)
        if earlier is not None and (now is None or now.resources):
            before = runs_of(name, chip, earlier, today=False)
            if before is not None and (now is None or not before.resources):
                found[name, chip] = before
    lines = [
        HEAD.format(limit=f"{MORE - 1:.0%}"),
        *([EARLIER] if any(run is not None and not run.today for run in found.values()) else ()),
        *_row("network", *chips),
        *_row(*["---"] * (1 + len(chips))),
    ]
    for name in networks:
        lines += _row(name, *(_cell(found[name, chip]) for chip in chips))
    todays = [run for run in found.values() if run is not None and run.today]
    every = [step for run in todays for step in run.steps]
    slower = [step for step in every if step.ratio > MORE]
    lines += [
        "",
        f"Together {len(todays)} networks on chips, {len(every)} steps, {len(slower)} of them slower.",
        "",
    ]
    lines += ["## What is slower, and why", ""]
    reasons: dict[str, list[Step]] = {}
    for step in slower:
        known = reason_of(step, KNOWN_MORE)
        text = "no reason is known" if known is None or step.ratio > known.at_most else known.reason
        reasons.setdefault(text, []).append(step)
    for number, (reason, steps) in enumerate(reasons.items(), 1):
        lines += [f"{number}. {reason}.", *_by_resource(steps), ""]
    return "\n".join([*lines, other_chips()]).rstrip() + "\n"


def _by_resource(steps: Iterable[Step]) -> list[str]:
    """A table of slower steps with one reason: a row a chip and resource."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        groups.setdefault((step.subject.partition(" on ")[2], step.name), []).append(step)
    lines = ["", *_row("chip", "resource", "steps", "largest", "networks"), *_row(*["---"] * 5)]
    for (chip, resource), some in sorted(groups.items()):
        names = dict.fromkeys(step.subject.partition(" on ")[0] for step in some)
        lines += _row(chip, resource, str(len(some)), _largest(some), ", ".join(names))
    return lines


def _cell(runs: Runs | None) -> str:
    if runs is None:
        return "-"
    slower = [step for step in runs.steps if step.ratio > MORE]
    largest = f", {_largest(slower)}" if slower else ""
    return f"{len(slower)} of {len(runs.steps)}{largest}{runs.resources}{'' if runs.today else ' †'}"


def _largest(steps: Iterable[Step]) -> str:
    return f"{max(step.ratio for step in steps) - 1:+.1%}"


def _row(*cells: str) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def main() -> None:
    """Prints or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the times are")
    parser.add_argument(
        "--earlier", type=Path, help="where times of an earlier state are, for what is not there"
    )
    parser.add_argument("--output", type=Path, help="the page; default: print it")
    given = parser.parse_args()
    text = page(Times(given.folder), earlier=given.earlier and Times(given.earlier))
    if given.output is None:
        print(text, end="")
    else:
        given.output.write_text(text)


if __name__ == "__main__":
    main()
