"""Time of all-reduces, servers and their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ascendsim.core.errors import InputError, SocError
from ascendsim.soc.collectives import all_reduce_us
from ascendsim.soc.servers import SERVERS, ServerSpec, load_server, server_names

TEXT = (SERVERS / "Atlas_800_9000.toml").read_text(encoding="utf-8")
# 1 GB/s moves 1000 bytes in a microsecond; the memory adds 2000 in one
SMALL = ServerSpec("small", "Ascend910", 8, 4, 4, 1.0, 0.5, 0.25, 3.0, 7.0, 2.0)


def test_a_ring_by_hand() -> None:
    # 14 steps of 3 us; 7 + 7 pieces of 1000 bytes over the slowest link (2 us each); 7 pieces added (0.5 us)
    assert all_reduce_us(SMALL, 8, 8000) == pytest.approx(42 + 28 + 3.5)


def test_a_mesh_by_hand() -> None:
    # 2 steps of 3 us; a piece of 2000 bytes on every link twice (2 us each); 3 pieces added (1 us each)
    assert all_reduce_us(SMALL, 4, 8000) == pytest.approx(6 + 4 + 3)


def test_halving_doubling_by_hand() -> None:
    # per device 1000 bytes; 2 + 2 steps of 7 us; 500 + 250 bytes there and back (4 us a 1000), 750 added
    between = 28 + 2 * 0.75 * 4 + 0.375
    assert all_reduce_us(SMALL, 32, 8000) == pytest.approx(all_reduce_us(SMALL, 8, 8000) + between)


def test_three_servers_make_a_ring() -> None:
    # per device 1000 bytes; 4 steps of 7 us, a third of the bytes each, two thirds added
    between = 28 + 4 / 3 * 4 + 2 / 3 * 0.5
    assert all_reduce_us(SMALL, 24, 8000) == pytest.approx(all_reduce_us(SMALL, 8, 8000) + between)


def test_one_device_has_nothing_to_say() -> None:
    assert all_reduce_us(SMALL, 1, 8000) == 0


@pytest.mark.parametrize("key", ["hccs_gb_per_s", "pcie_gb_per_s", "network_gb_per_s", "reduce_gb_per_s"])
def test_a_faster_link_never_takes_longer(key: str) -> None:
    faster = replace(SMALL, **{key: 2 * getattr(SMALL, key)})
    times = [(all_reduce_us(faster, n, 1 << 20), all_reduce_us(SMALL, n, 1 << 20)) for n in (2, 8, 16)]
    assert all(new <= old for new, old in times)
    assert any(new < old for new, old in times) or key == "hccs_gb_per_s"


@pytest.mark.parametrize("devices", [3, 5, 6, 7, 12, 40])
def test_devices_that_no_server_has(devices: int) -> None:
    with pytest.raises(InputError, match="1, 2, 4, 8 or a multiple of 8 up to 32"):
        SMALL.groups_of(devices)


@pytest.mark.parametrize("name", server_names())
def test_every_figure_of_a_server_has_a_source(name: str) -> None:
    spec = load_server(name)
    numbers = {key for key in ServerSpec.__slots__ if isinstance(getattr(spec, key), (int, float))}
    assert numbers <= spec.sources.keys()
    assert spec.name == name
    assert spec.assumed < numbers


def _load(tmp_path: Path, old: str, new: str) -> ServerSpec:
    assert old in TEXT
    path = tmp_path / "own.toml"
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    return load_server(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    own = _load(tmp_path, "value = 30.0", "value = 60")
    assert own == replace(load_server("Atlas 800 9000"), hccs_gb_per_s=60.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "hccs_gb_per_s = { value = 30.0",
            "hccs_gb_per_s = { value = -30.0",
            "must be a finite number above 0",
        ),
        ("hccs_gb_per_s", "hcs_gb_per_s", "key hcs_gb_per_s does not exist.*hccs_gb_per_s"),
        ("devices = { value = 8", "devices = { value = 8.5", "whole number"),
        ("mesh_devices = { value = 4", "mesh_devices = { value = 3", "must divide devices"),
        ('short_name = "Ascend910"\n', "", "short_name is missing"),
        (
            'network_gb_per_s = { value = 12.5, source = "hermes: RoCE 100 Gbit/s, a port a device" }',
            "",
            "missing",
        ),
        (', source = "guide: at most 512 servers"', "", "has no source"),
    ],
)
def test_a_wrong_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(SocError, match=said):
        _load(tmp_path, old, new)


def test_an_unknown_server() -> None:
    with pytest.raises(SocError, match="Atlas 800 9000"):
        load_server("Atlas 800 9010")
