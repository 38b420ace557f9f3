"""Variants on the command line: lists of models, batches, chips, fusion levels and modes, of which every
combination is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from ascendsim.cli.common import add_soc_option
from ascendsim.cli.compared_files import model_files, names_of_files
from ascendsim.cli.model_options import chip_settings
from ascendsim.compiler.options import FUSION_LEVELS, GRAPH_KERNEL, SCHEDULES
from ascendsim.core.errors import InputError, suggest

# of which graph-kernel does not add to the one before
LEVELS = tuple(dict.fromkeys((*FUSION_LEVELS, GRAPH_KERNEL)))


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to load and compile the model.

    Attributes:
        name: What tells it from the others.
        batch: Batch size; None = the model's own.
        options: For `compile`.
        file: The model's file; None = that of the command line, or none at all.
    """

    name: str
    batch: int | None
    options: dict[str, Any]
    file: str | None = None


def add_variant_options(
    parser: argparse.ArgumentParser,
    default: str = "those that add to the one before; all with several models, chips or batches",
) -> None:
    """Adds the lists; they replace single values of options that are there already.

    Args:
        parser: Where to.
        default: What the help says of fusion levels that are not named.
    """
    variants = parser.add_argument_group("variants", "every combination is one", conflict_handler="resolve")
    variants.add_argument(
        "--batch", metavar="N,N", help="batch sizes of every input; baked-in batch sizes are rewritten"
    )
    text = "chips (ascendsim soc list) (default: Ascend310)"
    add_soc_option(variants, default="Ascend310", metavar="CHIP,CHIP", help=text)
    levels = f"fusion levels of {', '.join(LEVELS)} (default: {default})"
    variants.add_argument("--fusion", metavar="LEVEL,LEVEL", help=levels)
    text = "switch files, side by side: each is a variant"
    variants.add_argument("--fusion_switch_file", metavar="FILE,FILE", help=text)
    text = "who launches tasks, some of sink, host, eager (default: sink)"
    variants.add_argument("--mode", default="sink", metavar="MODE,MODE", help=text)


def variants_of(
    args: argparse.Namespace, least: int = 2, levels: Sequence[str] | None = None
) -> tuple[Variant, ...]:
    """Every combination of models, batches, chips, fusion levels, switch files and modes, named by what
    differs.

    Args:
        args: The command line.
        least: Variants that there must be.
        levels: Fusion levels if none are named; None = those that add to the one before, or all for several
            models, chips, batches or modes.

    Raises:
        InputError: If a list is empty or names something twice, a level does not exist, or there are fewer
            than `least` variants.
    """
    from ascendsim.compiler.fusion import fusion_levels

    files = model_files(args)
    titles = names_of_files([str(file) for file in files])
    sizes = batches(args.batch)
    chips = parts(args.soc_version, "--soc_version")
    modes = parts(args.mode, "--mode")
    for mode in modes:
        if mode not in SCHEDULES:
            raise InputError(
                "option --mode",
                f"must list some of {', '.join(SCHEDULES)}",
                repr(mode),
                suggest(mode, SCHEDULES),
            )
    switched = switch_files(args)
    told = names_of_files([str(file) for file in switched])
    several = len(files) * len(sizes) * len(chips) * len(switched) * len(modes) > 1
    if levels is None:
        levels = ("all",) if several else fusion_levels()
    chosen = parts(args.fusion, "--fusion") if args.fusion is not None else tuple(levels)
    for level in chosen:
        if level not in LEVELS:
            raise InputError(
                "option --fusion",
                f"must list some of {', '.join(LEVELS)}",
                repr(level),
                suggest(level, LEVELS),
            )
    found = []
    settings = chip_settings(args)
    for (file, title), batch, chip, level, (switches, switching), mode in product(
        zip(files, titles, strict=True), sizes, chips, chosen, zip(switched, told, strict=True), modes
    ):
        facets = (
            (len(files), title),
            (len(sizes), f"batch {batch}"),
            (len(chips), chip),
            (len(chosen), level),
            (len(switched), switching),
            (len(modes), mode),
        )
        name = ", ".join(text for count, text in facets if count > 1)
        asked = {"soc": chip, "fusion": level, "fusion_switch_file": switches, "schedule": mode}
        options = {**settings, **asked}
        found.append(Variant(name, batch, options, file))
    if len(found) < least:
        raise InputError(
            "compare",
            "needs at least two variants",
            f"{len(found)}",
            "give several to --fusion, --fusion_switch_file, --soc_version, --batch or --mode, or name "
            "several models",
        )
    return tuple(found)


def parts(text: str, option: str) -> tuple[str, ...]:
    """The parts of a list a,b,c.

    Raises:
        InputError: If it is empty or names something twice.
    """
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise InputError(f"option {option}", "must name something", repr(text))
    for part in found:
        if found.count(part) > 1:
            raise InputError(f"option {option}", f"names {part!r} twice")
    return found


def switch_files(args: argparse.Namespace) -> tuple[str | None, ...]:
    """The switch files of a list; (None,) if there is none. A file whose own name has a comma is one file.

    Raises:
        InputError: If one is named twice.
    """
    text: str | None = args.fusion_switch_file
    if text is None or Path(text).exists():
        return (text,)
    return parts(text, "--fusion_switch_file")


def batches(text: str | None) -> tuple[int | None, ...]:
    """Batch sizes of a list; (None,), the model's own, if there is none."""
    if text is None:
        return (None,)
    sizes = parts(text, "--batch")
    for part in sizes:
        if not part.isascii() or not part.isdigit() or len(part) > 18 or int(part) < 1:
            raise InputError("option --batch", "must list whole numbers of at least 1", repr(part))
    return tuple(int(part) for part in sizes)
