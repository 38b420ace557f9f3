"""Every field of an AIPP block: what it may be at its limits, where it ends up, and what holds without it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from ascendsim.core.errors import InputError
from ascendsim.frontends.aipp import parse_aipp_text, read_aipp_file
from ascendsim.passes.aipp.settings import AippSettings
from tests.support.gate import in_one

HEAD = {"aipp_mode": "static", "input_format": "RGB888_U8"}

# CANN's ATC guide, parameters of aipp_op: whole numbers by name, with their smallest and largest value.
WHOLE = {
    "related_input_rank": (0, 255),
    **dict.fromkeys(("src_image_size_w", "src_image_size_h", "crop_size_w", "crop_size_h"), (0, 4096)),
    **dict.fromkeys(("load_start_pos_w", "load_start_pos_h"), (0, 4096)),
    **dict.fromkeys([f"{side}_padding_size" for side in ("top", "left", "bottom", "right")], (0, 32)),
    **dict.fromkeys([f"matrix_r{row}c{column}" for row in "012" for column in "012"], (-32677, 32676)),
    **dict.fromkeys(
        [f"{kind}_bias_{channel}" for kind in ("input", "output") for channel in "012"], (0, 255)
    ),
    **dict.fromkeys([f"mean_chn_{channel}" for channel in "0123"], (0, 255)),
}
REAL = {
    "padding_value": (-65504, 65504),
    **dict.fromkeys([f"min_chn_{channel}" for channel in "0123"], (0, 255)),
    **dict.fromkeys([f"var_reci_chn_{channel}" for channel in "0123"], (-65504, 65504)),
}


def settings(given: dict[str, object] | None = None, **more: object) -> AippSettings:
    """What a block with these fields says."""
    items = {**HEAD, **(given or {}), **more}
    text = "".join(f"  {name}: {value}\n" for name, value in items.items())
    (found,) = parse_aipp_text(f"aipp_op {{\n{text}}}\n")
    return found


def beside(name: str, value: object) -> dict[str, object]:
    """A field with the one that must come with it."""
    for one, other in (("size_w", "size_h"), ("size_h", "size_w")):
        if name.endswith(one):
            return {name: value, name.replace(one, other): value}
    return {name: value}


@in_one("name, limits", [*WHOLE.items(), *REAL.items()])
def test_a_number_may_be_what_its_limits_allow_and_no_more(name: str, limits: tuple[int, int]) -> None:
    for value in limits:
        settings(beside(name, value))
    for value in (limits[0] - 1, limits[1] + 1):
        with pytest.raises(InputError, match=rf"{name} must be a .*number in \[.*not {value}"):
            settings(beside(name, value))


def test_numbers_are_as_long_as_they_may_be() -> None:
    assert settings(mean_chn_0="000000012").mean[0] == 12
    with pytest.raises(InputError, match="mean_chn_0"):
        settings(mean_chn_0="0000000012")
    assert settings(min_chn_0="1." + "0" * 38).minimum[0] == 1.0
    with pytest.raises(InputError, match="min_chn_0"):
        settings(min_chn_0="1." + "0" * 39)


def test_a_block_with_what_it_needs_has_the_defaults() -> None:
    for kind in ("RGB888_U8", "YUV420SP_U8", "YUV400_U8"):
        found, plain = settings(input_format=kind), AippSettings(kind)
        for item in fields(AippSettings):
            assert getattr(found, item.name) == getattr(plain, item.name), item.name


def test_every_field_ends_up_where_it_belongs() -> None:
    """Values that are all different, so that none can stand for another one."""
    channels, sides = range(3), ("top", "left", "bottom", "right")
    matrix = {f"matrix_r{row}c{column}": 100 * row + column - 5 for row in channels for column in channels}
    found = settings(
        {
            **matrix,
            **{f"input_bias_{c}": 10 + c for c in channels},
            **{f"output_bias_{c}": 20 + c for c in channels},
            **{f"mean_chn_{c}": 30 + c for c in channels},
            **{f"min_chn_{c}": 0.5 + c for c in channels},
            **{f"var_reci_chn_{c}": 4.25 + c for c in channels},
            **{f"{side}_padding_size": 1 + number for number, side in enumerate(sides)},
        },
        related_input_rank=3,
        src_image_size_h=64,
        src_image_size_w=48,
        crop="true",
        load_start_pos_h=5,
        load_start_pos_w=6,
        crop_size_h=32,
        crop_size_w=40,
        padding="true",
        padding_value=-7.5,
        csc_switch="true",
        rbuv_swap_switch="true",
    )
    assert found == AippSettings(
        input_format="RGB888_U8",
        input_rank=3,
        source=(64, 48),
        crop=(5, 6, 32, 40),
        swap=1,
        matrix=(-5, -4, -3, 95, 96, 97, 195, 196, 197),
        input_bias=(10, 11, 12),
        output_bias=(20, 21, 22),
        mean=(30, 31, 32),
        minimum=(0.5, 1.5, 2.5),
        scale=(4.25, 5.25, 6.25),
        border=(1, 2, 3, 4),
        border_value=-7.5,
    )


@pytest.mark.parametrize(("text", "value"), [("true", 1), ("True", 1), ("1", 1), ("false", 0), ("0", 0)])
def test_switches(text: str, value: int) -> None:
    assert settings(rbuv_swap_switch=text).swap == value


@pytest.mark.parametrize("name", ["crop_size", "src_image_size"])
@pytest.mark.parametrize("given", ["w", "h"])
def test_sizes_come_in_pairs(name: str, given: str) -> None:
    crop = {"crop": "true"} if name == "crop_size" else {}
    with pytest.raises(InputError, match="must both be given"):
        settings({f"{name}_{given}": 8, **crop})
    with pytest.raises(InputError, match="must both be given"):
        settings({f"{name}_h": 8, f"{name}_w": 0, **crop})


def test_grey_images_have_no_colours_to_convert() -> None:
    matrix = dict.fromkeys([f"matrix_r{row}c{column}" for row in "012" for column in "012"], 1)
    assert settings(matrix, csc_switch="true").matrix == (1,) * 9
    with pytest.raises(InputError, match="csc_switch needs three channels"):
        settings(matrix, csc_switch="true", input_format="YUV400_U8")
    assert settings(matrix, csc_switch="false", input_format="YUV400_U8").matrix == ()
    for name in matrix:
        with pytest.raises(InputError, match=f"{name} is missing"):
            settings({other: 1 for other in matrix if other != name}, csc_switch="true")


def test_blocks_follow_each_other_and_messages_name_their_lines() -> None:
    block = "aipp_op {\n  aipp_mode: static # as it is\n  input_format: RGB888_U8;\n}\n"
    assert len(parse_aipp_text(block * 16)) == 16
    for refused, line in (("  what: 1\n", 11), ("  mean_chn_0 1\n", 11), ("  mean_chn_0: }\n", 11)):
        text = block * 2 + block.replace("  input", f"{refused}  input", 1)
        with pytest.raises(InputError, match=f"line {line}: "):
            parse_aipp_text(text)
    with pytest.raises(InputError, match="line 5 must be a block"):
        parse_aipp_text(block + "other {}")
    with pytest.raises(
        InputError, match="aipp_op of line 5: aipp_mode must be static or dynamic, not missing"
    ):
        parse_aipp_text(block + "aipp_op { input_format: RGB888_U8 }")
    with pytest.raises(InputError, match="line 6 cannot be read at '@ x'"):
        parse_aipp_text(block + "aipp_op {\n  @ x")


def test_a_file_may_be_64_kib_long(tmp_path: Path) -> None:
    block = "aipp_op { aipp_mode: static input_format: RGB888_U8 }"
    path = tmp_path / "aipp.cfg"
    path.write_text(block.ljust(65536))
    assert read_aipp_file(path) == (AippSettings("RGB888_U8"),)
    path.write_text(block.ljust(65537))
    with pytest.raises(InputError, match="64 KiB"):
        read_aipp_file(path)
