"""The table of docs/training_results.md about what mechanisms are worth for published steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ascendsim import soc as chips
from ascendsim.validate.points import Point
from ascendsim.validate.score import Prediction, score
from ascendsim.validate.training import GROUPS, training_points, training_predictions

# figures of kernels that stand for each of them, as other chips have them
MECHANISMS: Mapping[str, Mapping[str, Any]] = {
    "even cuts of products (kernels.even_products)": {"even_products": ""},
    "two images a core in sums of channels (kernels.images_added)": {"images_added": 1},
    "gradients as the vendor tuned them (kernels.tuned_gradients)": {"tuned_gradients": False},
    "poolings and transposes in blocks of maps (kernels.map_blocks)": {"map_blocks": False},
    "factors spread block by block (kernels.spreads_channels)": {"spreads_channels": False},
    "rows one by one (kernels.rows_in_turn, sums_in_turn)": {"rows_in_turn": False, "sums_in_turn": False},
}
HEAD = """## What mechanisms are worth for these steps

Errors without one of them, the others as they are. Even cuts and two images a core come from profiles of the
chip with 30 cores; that Ascend910A has them too was decided beside steps of BERT, ViT and DenseNet. The
others come from profiles and sources of kernels; BERT's step had a say in which kernels go row by row.

| without | steps as graphs: MAPE % | median % | bias % | eager steps: MAPE % | median % | bias % |
|---|---|---|---|---|---|---|
"""
Task = tuple[str, Point]


def tasks() -> Iterator[Task]:
    """Every mechanism with every step."""
    for name in MECHANISMS:
        for point in training_points(tuple(GROUPS)):
            yield name, point


def predicted(task: Task, folder: Path) -> tuple[str, Prediction]:
    """A step without a mechanism; simulates."""
    name, point = task
    chip = chips.load(point.soc)
    changed = replace(chip, kernels=replace(chip.kernels, **MECHANISMS[name]))
    ((own, _),) = training_predictions([point], folder, changed)
    return name, own


def table(whole: Iterable[Prediction], found: Iterable[tuple[str, Prediction]]) -> str:
    """The section.

    Args:
        whole: Predictions with all mechanisms.
        found: Those without one, with its name.
    """
    by_name: dict[str, list[Prediction]] = {"nothing": list(whole), **{name: [] for name in MECHANISMS}}
    for name, own in found:
        by_name[name].append(own)
    return HEAD + "\n".join(_row(name, predictions) for name, predictions in by_name.items())


def _row(name: str, predictions: Sequence[Prediction]) -> str:
    cells = [name]
    for group in GROUPS:
        value = score([own for own in predictions if own.point.group == group])
        cells += [f"{100 * share:.1f}" for share in (value.mape, value.median, value.bias)]
    return f"| {' | '.join(cells)} |"
