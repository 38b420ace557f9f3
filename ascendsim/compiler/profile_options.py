"""Profile options: how a release of the compiler behaves where releases differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest

Value = bool | int | str


@dataclass(frozen=True, slots=True)
class ProfileOption:
    """One thing in which releases differ.

    Attributes:
        values: What it may be, the default first.
        help: What it does, one line.
        level: The fusion level from which on it counts; "" = at every one.
    """

    values: tuple[Value, ...]
    help: str
    level: str = ""


PROFILE_OPTIONS: Mapping[str, ProfileOption] = {
    "aicpu_pow": ProfileOption(
        (False, True), "Pow runs on the AI CPU, as in the releases that the Ascend 310 tuning guide describes"
    ),
    "open_shape_kernels": ProfileOption(
        ("unsunk", "always", "never"),
        "kernels that reduce or turn work out their tiling on the core: unless it is sunk, always, never",
    ),
    "format_reach": ProfileOption(
        (0, 1, 2, 3, 4),
        "operators between a convolution's task and those that take over its blocked format, 0 = no limit "
        "(old releases: inferred)",
    ),
    "weight_format": ProfileOption(
        ("chip", "FRACTAL_NZ"),
        "constant operands of matrix products: as the chip's kernels take them, or in fractals where these "
        "take both, as npu_format_cast leaves them",
    ),
    "group_conv": ProfileOption(
        ("packed", "split"), "grouped convolutions: packed into one, or split into one each", "graph"
    ),
    "ub_limits": ProfileOption(
        ("chip", "Ascend310", "MindSpore", "documents"),
        "limits of UB fusion: those of the chip's time, or of a source by name",
        "ub",
    ),
    "ub_conv": ProfileOption(
        ("profile", *range(1, 17)), "elementwise operators behind a convolution in one task", "ub"
    ),
    "ub_conv_inputs": ProfileOption(
        ("any", "one"),
        "elementwise operators behind a convolution in one task: as its passes have them, or those of one "
        "input and one output only, as the Ascend 310 tuning guide says",
        "ub",
    ),
    "ub_elementwise": ProfileOption(
        ("profile", *range(1, 33)), "operators of an elementwise chain in one task", "ub"
    ),
    "ub_reduce": ProfileOption(
        ("profile", *range(1, 17)), "elementwise operators around a reduction in one task", "ub"
    ),
    "ub_segment": ProfileOption(
        ("profile", *range(1, 17)), "elementwise operators around a segment operator in one task", "ub"
    ),
    "ub_automatic": ProfileOption(
        ("profile", *range(2, 65)), "operators of a task of the automatic pass", "ub"
    ),
    "l1_fusion": ProfileOption(
        (False, True),
        "consecutive convolutions in one task, what is between them in L1, where it pays",
        "all",
    ),
    "l2_edges": ProfileOption(
        ("every", "listed"),
        "L2 fusion: every tensor between tasks that fits, or only the kinds that the Ascend 310 tuning "
        "guide lists",
        "all",
    ),
    "l2_batch": ProfileOption(
        ("chip", "whole", "split"),
        "L2 fusion: blocks run with the whole batch, or in passes of smaller batches where it pays; chip: "
        "so do plain convolutional networks where the chip's compiler is seen to do it",
        "all",
    ),
    "mul_add_names": ProfileOption(
        ("bert", "any"),
        "products that MulAddFusionPass joins with a sum: those with bert in their name, as in CANN, or all",
        "graph",
    ),
    "matmul_bias_chips": ProfileOption(
        ("all", "listed"),
        "chips that join a bias to a matrix product: all, or those that CANN lists",
        "graph",
    ),
    "transpose_white_list": ProfileOption(
        (True, False),
        "transposes are on the white list of impl/dynamic/transpose.py; off: TransposeD as installed, "
        "element by element where the last axis moves and no special form fits",
    ),
    "tiling": ProfileOption(
        ("verified", "closed_form"),
        "tiles of products and convolutions: the quickest of the best few, which the machine runs, or the "
        "best by a formula",
    ),
}

CANN, DDK = "cann", "ddk"
RELEASES: Mapping[str, Mapping[str, Value]] = {
    CANN: {},
    # what the Ascend 310 tuning guide presumes of the DDK before CANN (docs/advise.md says which sentence)
    DDK: {
        "aicpu_pow": True,
        "format_reach": 1,
        "ub_limits": "Ascend310",
        "ub_conv_inputs": "one",
        "l2_edges": "listed",
        "l2_batch": "split",
    },
}
"""Releases by name: the profile options in which they differ from the one that is simulated by default."""


def check_release(release: str, short_name: str) -> None:
    """Refuses releases that are not known, and those that a chip never had.

    Args:
        release: A name of `RELEASES`.
        short_name: The chip's, as CANN's documents call it.

    Raises:
        InputError: If it is not known, or of another chip.
    """
    if release not in RELEASES:
        raise InputError(
            "option release", "must be one of cann, ddk", repr(release), suggest(release, RELEASES)
        )
    if release == DDK and short_name != "Ascend310":
        remedy = "give its profile options one by one (--option aicpu_pow=on ...)"
        raise InputError("option release", "ddk is a release for Ascend310", short_name, remedy)


def profile_options(given: Mapping[str, Value] | None, release: str = CANN) -> dict[str, Value]:
    """Checked options, those of a release and defaults filled in.

    Args:
        given: Values by name; the words of the command line are taken too: "on" for True, "4" for 4.
        release: A name of `RELEASES`.

    Raises:
        InputError: If an option or its value is not known.
    """
    chosen: dict[str, Value] = {name: option.values[0] for name, option in PROFILE_OPTIONS.items()}
    chosen.update(RELEASES[release])
    for name, value in (given or {}).items():
        if name not in PROFILE_OPTIONS:
            raise InputError(
                f"profile option {name!r}", "does not exist", remedy=suggest(name, PROFILE_OPTIONS)
            )
        allowed = PROFILE_OPTIONS[name].values
        meant = _value(name, value) if isinstance(value, str) else value
        if not any(type(meant) is type(known) and meant == known for known in allowed):
            listed = ", ".join(map(str, allowed))
            raise InputError(f"profile option {name}", f"must be one of {listed}", repr(value))
        chosen[name] = meant
    return chosen


def takes_open_shapes(chosen: Mapping[str, Value], schedule: str) -> bool:
    """Whether kernels are those for open shapes: of a sunk graph CANN compiles them for its own shapes, while
    operators that the host launches take the ones that are installed.
    """
    asked = chosen["open_shape_kernels"]
    return schedule != "sink" if asked == "unsunk" else asked == "always"


def without_effect(
    chosen: Mapping[str, object], level: str, levels: Sequence[str], cause: str
) -> Iterator[str]:
    """Why options that are not at their default change nothing at a fusion level.

    Args:
        chosen: Options that somebody gave.
        level: Of the compilation.
        levels: All levels, least first.
        cause: The option that chose the level, "fusion=graph" or "schedule=eager".
    """
    for name, option in PROFILE_OPTIONS.items():
        if (
            option.level
            and levels.index(level) < levels.index(option.level)
            and chosen.get(name, option.values[0]) != option.values[0]
        ):
            beside = f": it counts from fusion={option.level} on" if cause.startswith("fusion=") else ""
            yield f"profile option {name} has no effect with {cause}{beside}"


def parse_profile_options(texts: Mapping[str, str]) -> dict[str, Value]:
    """Options as a command line has them: on/off or true/false for switches, digits for numbers.

    >>> parse_profile_options({"aicpu_pow": "on"})
    {'aicpu_pow': True}
    """
    return {name: _value(name, text) for name, text in texts.items()}


def _value(name: str, text: str) -> Value:
    known = PROFILE_OPTIONS.get(name)
    if known is None or all(isinstance(value, str) for value in known.values):
        return text
    if isinstance(known.values[0], bool):
        return {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}.get(
            text.lower(), text
        )
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
