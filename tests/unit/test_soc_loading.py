"""Loading chips: names, paths, overrides, and every rule that a file or an override can break."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim import soc
from ascendsim.core.errors import SocError

OWN_CHIP = """
name = "Mine"
extends = "Ascend310"
ai_cores = { value = 4, source = "data sheet, page 1" }
[l2]
size = { value = 4194304, assumed = true }
"""


def _write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_aliases_lead_to_chips() -> None:
    for alias, name in soc.ALIASES.items():
        assert alias not in soc.names()
        assert soc.load(alias).name == name


def test_a_chip_of_the_users_own(tmp_path: Path) -> None:
    spec = soc.load(_write(tmp_path, OWN_CHIP))
    base = soc.load("Ascend310")
    assert (spec.name, spec.ai_cores, spec.l2.size) == ("Mine", 4, 4194304)
    assert spec.cube == base.cube
    assert spec.sources["ai_cores"] == "data sheet, page 1"
    assert "l2.size" in spec.assumed
    assert "l2.size" not in base.assumed


def test_overrides_change_one_figure_and_say_so() -> None:
    base = soc.load("Ascend310P3")
    spec = soc.load(
        "Ascend310P3",
        {"l2.size": "32MiB", "dram.read_gb_per_s": 100, "vector.cycles_per_repeat.vexp.float16": "2.5"},
    )
    assert spec.l2.size == 32 << 20
    assert spec.dram.read_gb_per_s == 100.0
    assert spec.vector.cycles_per_repeat["vexp.float16"] == 2.5
    assert spec.overrides == {
        "l2.size": "32MiB",
        "dram.read_gb_per_s": "100",
        "vector.cycles_per_repeat.vexp.float16": "2.5",
    }
    assert spec.sources["l2.size"] == "set by the user"
    assert "vector.cycles_per_repeat.vexp.float16" not in spec.assumed
    assert spec.buffers == base.buffers
    assert spec.ports == base.ports


def test_fitted_figures_name_what_they_were_fitted_on(tmp_path: Path) -> None:
    text = (
        'name = "M"\nextends = "Ascend310"\n[issue]\ninstruction_start_ns = { value = 39, source = '
        '"own", fitted_on = ["run 1", "run 2"] }'
    )
    spec = soc.load(_write(tmp_path, text))
    assert spec.fitted_on["issue.instruction_start_ns"] == ("run 1", "run 2")
    row = next(row for row in soc.spec_table(spec) if row.key == "issue.instruction_start_ns")
    assert row.source == "own; fitted on run 1, run 2"


def test_one_clock_stays_one_clock() -> None:
    assert soc.load("Ascend910A", {"frequency_mhz": "900"}).vector_frequency_mhz == 900
    assert soc.load("Ascend310P3", {"frequency_mhz": "900"}).vector_frequency_mhz == 1000


def test_a_switch_can_be_overridden() -> None:
    assert soc.load("Ascend310", {"l2.software_managed": "false"}).l2.software_managed is False


def test_missing_figures_can_be_given() -> None:
    given_figures = {
        "l2.size": "1MiB",
        "l2.read_bytes_per_cycle_per_core": "64",
        "l2.write_bytes_per_cycle_per_core": "64",
        "ai_cpu.cores": "1",
    }
    spec = soc.load("SD3403", given_figures)
    assert spec.missing == ()
    soc.require_runnable(spec)


def test_a_chip_with_gaps_says_which_and_why() -> None:
    spec = soc.load("Ascend035")
    assert spec.peak_fp16_tflops > 0
    with pytest.raises(
        SocError, match=r"chip Ascend035 can be shown but not run, it lacks buffers.l0a \(the ini gives 0"
    ):
        soc.require_runnable(spec)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"l2.sise": 1}, "override: key l2.sise does not exist; did you mean l2.size?"),
        ({"cube.k0": 1}, "override: key cube.k0 is a table; name an entry, for example cube.k0.float16"),
        ({"": 1}, "override: key  does not exist"),
        ({"l2": 1}, "override: key l2 does not exist"),
        ({"l2.size.x": 1}, "override: key l2.size.x does not exist"),
        ({"l2.size": "16Mi"}, "override: key l2.size must be bytes with one of the units"),
        ({"l2.size": "0"}, "override: key l2.size must be a finite number above 0, not 0"),
        ({"l2.size": "-1MiB"}, "override: key l2.size must be a finite number above 0, not -1048576"),
        ({"l2.size": 1.5}, "override: key l2.size must be a whole number, not 1.5"),
        ({"l2.size": True}, "override: key l2.size must be a whole number, not True"),
        ({"ai_cores": "0"}, "override: key ai_cores must be a finite number above 0, not 0"),
        ({"ai_cores": "5000000"}, "override: key ai_cores must not be above 4096, not 5000000"),
        ({"l2.size": 3 << 40}, "override: key l2.size must not be above 1099511627776 B, not 3298534883328"),
        (
            {"frequency_mhz": "680000000"},
            "override: key frequency_mhz must not be above 100000 MHz, not 680000000",
        ),
        (
            {"dram.read_gb_per_s": "4e9"},
            r"override: key dram.read_gb_per_s must not be above 1000000 GB/s, not 4000000000",
        ),
        (
            {"issue.queue_depth.M": "0"},
            "override: key issue.queue_depth.M must be a finite number above 0, not 0",
        ),
        (
            {"issue.queue_depth.M": "1000000"},
            "override: key issue.queue_depth.M must not be above 4096, not 1000000",
        ),
        (
            {"dma.ragged_efficiency": "1.2"},
            "Ascend310.toml: key dma.ragged_efficiency must not be above 1, not 1.2",
        ),
        ({"ports.gm_to_ub": "0"}, "override: key ports.gm_to_ub must be a finite number above 0, not 0"),
        ({"frequency_mhz": "900MHz"}, "override: key frequency_mhz takes a plain number, not '900MHz'"),
        (
            {"dram.read_gb_per_s": "0"},
            "override: key dram.read_gb_per_s must be a finite number above 0, not 0",
        ),
        (
            {"dram.read_gb_per_s": float("nan")},
            "override: key dram.read_gb_per_s must be a finite number above 0, not nan",
        ),
        (
            {"dram.read_gb_per_s": "1e999"},
            "override: key dram.read_gb_per_s must be a finite number above 0, not inf",
        ),
        (
            {"issue.flag_cycles": "-1"},
            "override: key issue.flag_cycles must be a finite number that is not negative, not -1",
        ),
        (
            {"dram.unaligned_efficiency": 1.5},
            "Ascend310.toml: key dram.unaligned_efficiency must not be above 1, not 1.5",
        ),
        (
            {"buffers.l0a": "256"},
            r"Ascend310.toml: key buffers.l0a must hold one float16 block of the Cube \(512 B\), not 256 B",
        ),
        (
            {"buffers.l0c": "512"},
            r"key buffers.l0c must hold one float16 block of the Cube \(1024 B\), not 512 B",
        ),
        (
            {"buffers.ub": "128"},
            r"key buffers.ub must hold one repeat of the vector unit \(256 B\), not 128 B",
        ),
        ({"cube.cycles_per_block.float32": "2"}, "key cube.k0.float32 is missing"),
        (
            {"cube.k0.float17": "2"},
            "key cube.k0 must name element types, not 'float17'; did you mean float16?",
        ),
        ({"name": "x"}, "override: key name cannot be set"),
        ({"split_cores": "maybe"}, "override: key split_cores must be true or false, not 'maybe'"),
        (
            {"split_cores": "true"},
            "Ascend310.toml: key vector_cores must be above 0 on a chip whose cube and vector cores are "
            "apart",
        ),
    ],
)
def test_overrides_that_break_a_rule(overrides: dict[str, str | int | float], message: str) -> None:
    with pytest.raises(SocError, match=message):
        soc.load("Ascend310", overrides)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name =\nx = 1", "is not valid TOML: .*line 1"),
        ('extends = "v99"', "mine.toml: key extends must name a chip or family, not 'v99'"),
        ('extends = "mine"', "mine.toml: key extends must name a chip or family, not 'mine'"),
        ("extends = 3", "mine.toml: key extends must name a chip or family, not 3"),
        ("ai_cores = { value = 4 }", "mine.toml: key ai_cores has no source"),
        ('ai_cores = { source = "x" }', "mine.toml: key ai_cores has no value"),
        (
            'ai_cores = { value = "4", source = "x" }',
            "mine.toml: key ai_cores must be a whole number, not '4'",
        ),
        (
            'ai_cores = { value = 4, sorce = "x" }',
            "mine.toml: key ai_cores: sorce does not exist; did you mean source?",
        ),
        (
            'ai_cores = { value = 4, source = "x", assumed = 1 }',
            "mine.toml: key ai_cores must have text as source",
        ),
        (
            'ai_cores = { value = 4, source = "x", fitted_on = "y" }',
            "mine.toml: key ai_cores must list the measurements that it was fitted on",
        ),
        ("ai_coers = 4", "mine.toml: key ai_coers does not exist; did you mean ai_cores?"),
        ("name = 4", "mine.toml: key name must be text, not 4"),
        ('split_cores = "yes"', "mine.toml: key split_cores must be true or false, not 'yes'"),
        ("cube = 4", "mine.toml: key cube does not exist"),
        (
            'vector.intrinsics.vadd = { value = "float16", source = "x" }',
            "must be a list of element types, not 'float16'",
        ),
        (
            'name = "M"\nextends = "v100"\nvector.intrinsics.vadd = { value = ["half"], source = "x" }',
            "vector.intrinsics.vadd must name element",
        ),
        ('assumed = ["l2.size"]', "mine.toml: key assumed names no inherited key, not 'l2.size'"),
        ('assumed = "l2.size"', "mine.toml: key assumed must be a list of keys"),
        ("references = 3", "mine.toml: key references must be a table of texts"),
        ('generation = "v100"', "mine.toml: key name is missing"),
    ],
)
def test_files_that_break_a_rule(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SocError, match=message):
        soc.load(_write(tmp_path, text))


def test_files_that_extend_each_other(tmp_path: Path) -> None:
    _write(tmp_path, 'extends = "b"', "a.toml")
    path = _write(tmp_path, 'extends = "a"', "b.toml")
    with pytest.raises(SocError, match="builds on more than 8 files"):
        soc.load(path)


def test_files_that_are_no_chip_files(tmp_path: Path) -> None:
    with pytest.raises(SocError, match="cannot be read"):
        soc.load(tmp_path / "absent.toml")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (1 << 21))
    with pytest.raises(SocError, match="must not be above 1048576 bytes"):
        soc.load(large)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    with pytest.raises(SocError, match="must be UTF-8 text"):
        soc.load(binary)


@pytest.mark.parametrize("name", ["Ascend301", "ascend310", "", "../Ascend310", "families/v100", "v100"])
def test_unknown_chips(name: str) -> None:
    with pytest.raises(SocError, match="is unknown; "):
        soc.load(name)


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(SocError, match="chip 'Ascend301' is unknown; did you mean Ascend310?"):
        soc.load("Ascend301")


@given(st.text(max_size=60))
def test_any_text_as_a_file_is_an_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, encoding="utf-8", errors="ignore")
    with pytest.raises(SocError):
        soc.load(path)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_other_override_is_an_error_and_nothing_else(key: str, value: str) -> None:
    with pytest.raises(SocError):
        soc.load("Ascend310", {key: value})


def test_a_bare_number_in_a_file_of_ones_own_counts_as_assumed(tmp_path: Path) -> None:
    head = 'name = "M"\nextends = "Ascend310"\narchitecture = "a"\nshort_name = "s"\n'
    said = r"mine.toml: key (ai_cores|l2.size) counts as assumed: write (ai_cores|size) = { value = \d+"
    with pytest.warns(UserWarning, match=said) as caught:
        spec = soc.load(_write(tmp_path, f"{head}ai_cores = 4\n[l2]\nsize = 4194304\n"))
    assert len(caught) == 2
    assert (spec.ai_cores, spec.l2.size) == (4, 4 << 20)
    assert {"ai_cores", "l2.size"} <= spec.assumed


def test_a_bare_number_of_a_wrong_kind_is_refused(tmp_path: Path) -> None:
    text = 'name = "M"\nextends = "Ascend310"\nai_cores = 4.5\n'
    with (
        pytest.raises(SocError, match="key ai_cores must be a whole number, not 4.5"),
        pytest.warns(UserWarning, match="ai_cores counts as assumed"),
    ):
        soc.load(_write(tmp_path, text))
