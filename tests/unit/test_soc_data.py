"""The built-in chips: published facts, worked out or read off independently of the files, and what all files
have in common."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ascendsim import soc
from ascendsim.core.dtypes import DType
from ascendsim.soc.figures import DATA
from ascendsim.soc.schema import schema
from tests.support.gate import in_one

CHIPS = soc.names()
KIB, MIB = 1024, 1 << 20


def test_all_chips_are_there() -> None:
    assert len(CHIPS) == 32
    assert {"Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend910B1", "Ascend910_9391"} <= set(
        CHIPS
    )


@pytest.mark.parametrize(
    ("name", "cores", "mhz", "tflops", "ub", "l1", "l2"),
    [
        ("Ascend310", 2, 680, 11.14, 248 * KIB, MIB, 8 * MIB),
        ("Ascend310P3", 8, 1060, 69.47, 256 * KIB, MIB, 16 * MIB),
        ("Ascend310B1", 1, 1224, 10.03, 248 * KIB, MIB, 4 * MIB),
        ("Ascend310B2", 1, 1224, 10.03, 248 * KIB, MIB, 4 * MIB),
        ("Ascend310B4", 1, 500, 4.10, 248 * KIB, MIB, 4 * MIB),
        ("Ascend310P5", 8, 800, 52.43, 256 * KIB, MIB, 16 * MIB),
        ("Ascend310P7", 8, 550, 36.04, 256 * KIB, MIB, 16 * MIB),
        ("Ascend910_9382", 24, 1800, 353.89, 192 * KIB, 512 * KIB, 192 * MIB),
        ("Ascend910_9392", 24, 1850, 363.72, 192 * KIB, 512 * KIB, 192 * MIB),
        ("Ascend910A", 32, 1000, 262.14, 256 * KIB, MIB, 32 * MIB),
        ("Ascend910B", 30, 900, 221.18, 256 * KIB, MIB, 32 * MIB),
        ("Ascend910B1", 24, 1850, 363.72, 192 * KIB, 512 * KIB, 192 * MIB),
        ("Ascend910B4", 20, 1500, 245.76, 192 * KIB, 512 * KIB, 96 * MIB),
        ("Ascend910_9362", 20, 1500, 245.76, 192 * KIB, 512 * KIB, 168 * MIB),
    ],
)
def test_sizes_and_peaks(name: str, cores: int, mhz: int, tflops: float, ub: int, l1: int, l2: int) -> None:
    spec = soc.load(name)
    assert (spec.ai_cores, spec.frequency_mhz, spec.buffers.ub, spec.buffers.l1, spec.l2.size) == (
        cores,
        mhz,
        ub,
        l1,
        l2,
    )
    assert spec.peak_fp16_tflops == pytest.approx(tflops, abs=0.005)
    assert (spec.buffers.l0a, spec.buffers.l0b) == (64 * KIB, 64 * KIB)


def test_ascend310_equals_its_micro_benchmarks() -> None:
    """Tang & Wang, JPDC 175 (2023): rates of one core in GB/s, times in nanoseconds and microseconds."""
    spec = soc.load("Ascend310")
    ghz = spec.frequency_mhz / 1000
    assert spec.ports.l1_to_l0a is not None
    assert spec.ports.l1_to_l0b is not None
    assert spec.ports.l1_to_l0a * ghz == pytest.approx(347.99, rel=0.002)
    assert spec.ports.l1_to_l0b * ghz == pytest.approx(174.37, rel=0.002)
    assert spec.vector.bytes_per_cycle * ghz == pytest.approx(174.06, rel=0.002)
    flops_per_block = 7936  # the paper's count, (15 + 16) * 16 * 16
    assert flops_per_block / spec.cube.cycles_per_block["float16"] * ghz == pytest.approx(5390, rel=0.002)
    # about 42 GB/s of both directions
    assert spec.dram.half_duplex
    assert spec.dram.read_gb_per_s == spec.dram.write_gb_per_s == pytest.approx(67 * ghz, rel=0.002)
    assert spec.dram.read_gb_per_s * spec.dram.mixed_efficiency == pytest.approx(42, rel=0.002)
    assert (spec.issue.instruction_start_ns, spec.launch.kernel_init_ns, spec.launch.task_launch_us) == (
        40,
        2050,
        2.3,
    )
    assert spec.l2.software_managed


def test_the_bus_of_ascend310_binds_before_the_cores_do() -> None:
    spec = soc.load("Ascend310")
    bus = spec.dram.read_gb_per_s * 1000 / spec.frequency_mhz
    ports = (spec.ports.gm_to_l1, spec.ports.gm_to_ub, spec.ports.ub_to_gm)
    assert bus * spec.dram.mixed_efficiency == pytest.approx(61.7, abs=0.1)
    assert all(port is not None and port > bus * spec.dram.mixed_efficiency for port in ports)
    assert all(port is not None and spec.ai_cores * port > bus for port in ports)


@pytest.mark.parametrize(
    ("name", "read"), [("Ascend910A", 3520), ("Ascend910B1", 4884), ("Ascend310P3", 966.7)]
)
def test_l2_bandwidth_of_the_chip(name: str, read: float) -> None:
    spec = soc.load(name)
    total = spec.l2.read_bytes_per_cycle_per_core * spec.ai_cores * spec.frequency_mhz / 1000
    assert total == pytest.approx(read, rel=0.001)


@pytest.mark.parametrize(
    ("name", "exists", "absent"),
    [
        (
            "Ascend310",
            "vrec.float32 vexp.float16 vadd.int32 vnchwconv.int8",
            "vdiv vsqrt vgather vexp.float32 vln.float32 vadds.int32",
        ),
        ("Ascend910A", "vdiv.float32 vsqrt.float16 vexp.float32", "vgather vnchwconv.float32 vadd.int16"),
        (
            "Ascend310P3",
            "vgather.int32 vnchwconv.float32 vadd.int16 vmrgsort4.float32 vdiv.float16",
            "vbitsort32",
        ),
        ("Ascend310B1", "vadd.int8 vbitsort32.float32 vgather.float16", "vmrgsort4"),
        (
            "Ascend910B1",
            "vadd.int16 vbitsort32.float32 vmrgsort4.float16 vdiv.float32",
            "vadd.int8 vmrgsort4.float32",
        ),
    ],
)
def test_which_vector_instructions_exist(name: str, exists: str, absent: str) -> None:
    table = soc.load(name).vector.intrinsics
    listed = {f"{op}.{dtype}" for op, dtypes in table.items() for dtype in dtypes} | set(table)
    assert set(exists.split()) <= listed
    assert not set(absent.split()) & listed


def test_which_types_the_cube_multiplies() -> None:
    assert set(soc.load("Ascend310").cube.cycles_per_block) == {"float16", "int8", "uint8"}
    assert set(soc.load("Ascend910B1").cube.cycles_per_block) == {
        "float16",
        "bfloat16",
        "float32",
        "int8",
        "uint8",
    }
    cube = soc.load("Ascend910B1").cube
    assert (cube.k0["int8"], cube.k0["float32"], cube.cycles_per_block["float32"]) == (32, 8, 2)


def test_only_the_smallest_first_generation_chip_has_the_odd_size_penalty() -> None:
    assert [name for name in CHIPS if soc.load(name).cube.odd_size_penalty] == ["Ascend310"]


@pytest.mark.parametrize("name", CHIPS)
def test_the_cores_of_a_chip_fit_its_kind(name: str) -> None:
    spec = soc.load(name)
    assert spec.split_cores == (spec.generation in ("c220", "c310"))
    assert spec.vector_units == (2 * spec.ai_cores if spec.split_cores else spec.ai_cores)
    runnable_path = spec.ports.l0c_to_gm if spec.split_cores else spec.ports.l0c_to_ub
    assert runnable_path is not None or spec.missing
    if spec.generation == "c220":
        assert spec.ports.l0c_to_ub is None
        assert spec.ports.l1_to_ub is None


@pytest.mark.parametrize("name", CHIPS)
def test_every_vector_instruction_has_a_cost(name: str) -> None:
    vector = soc.load(name).vector
    for op, dtypes in vector.intrinsics.items():
        for dtype in dtypes:
            assert op in vector.cycles_per_repeat or f"{op}.{dtype}" in vector.cycles_per_repeat, (op, dtype)
            assert DType.of(dtype)


@pytest.mark.parametrize("name", CHIPS)
def test_every_figure_has_a_source_or_is_a_guess_with_a_reason(name: str) -> None:
    spec = soc.load(name)
    assert spec.name == name
    numbers = [
        row
        for row in soc.spec_table(spec)
        if row.value not in ("none", "unknown") and schema_kind(row.key) in ("int", "float")
    ]
    assert len(numbers) > 80
    assert [row.key for row in numbers if not row.source] == []
    assert spec.assumed <= spec.sources.keys()


@pytest.mark.parametrize("name", CHIPS)
def test_all_cores_together_can_load_the_memory_fully(name: str) -> None:
    """Otherwise the memory bandwidth of the file could never be reached, and one of the two figures is
    wrong."""
    spec = soc.load(name)
    if not spec.missing:
        one_core = min(spec.ports.gm_to_l1 or 0, spec.ports.gm_to_ub or 0) * spec.frequency_mhz / 1000
        assert one_core * spec.ai_cores >= 0.95 * spec.dram.read_gb_per_s


def test_families_are_no_chips() -> None:
    families = {path.stem for path in (DATA / "families").glob("*.toml")}
    assert families
    assert not families & set(CHIPS)


@in_one("path", sorted(DATA.rglob("*.toml")))
def test_references_are_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    uses = re.findall(r'source = "([^"]*)"', text)
    uses += [
        source
        for other in DATA.rglob("*.toml")
        if path.parent.name == "families"
        for source in re.findall(r'source = "([^"]*)"', other.read_text())
    ]
    heads = {name for use in uses for part in use.split("; ") for name in part.partition(": ")[0].split(", ")}
    assert set(tomllib.loads(text).get("references", {})) <= heads


def schema_kind(key: str) -> str:
    fields = schema()
    if key in fields:
        return fields[key].kind
    return fields[".".join(key.split(".")[:2])].kind
