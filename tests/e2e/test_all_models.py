"""Every network structure is compiled for four chips and timed; the time respects the chip's bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.result import Result

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
# A small one on every chip; of networks of other kinds each on one
QUICK = [
    *(("lenet5", chip) for chip in CHIPS),
    ("bert_tiny_s64", "Ascend910A"),
    ("lstm_lm", "Ascend910B1"),
    ("squeezenet1_1", "Ascend310P3"),
]
MODELS = sorted(path.stem for path in (Path(__file__).parents[1] / "data" / "models").glob("*.onnx"))


def check_bounds(result: Result) -> None:
    """No execution beats the Cube's peak or the memory's bandwidth."""
    soc, records = result.model.soc, result.trace.tasks
    macs = sum(record.macs for record in records)
    compute_us = 2 * macs / soc.peak_fp16_tflops / 1e6
    read = sum(record.read_bytes.get("ddr", 0) for record in records)
    write = sum(record.write_bytes.get("ddr", 0) for record in records)
    if soc.dram.half_duplex:
        memory_us = (read + write) / soc.dram.read_gb_per_s / 1e3
    else:
        memory_us = max(read / soc.dram.read_gb_per_s, write / soc.dram.write_gb_per_s) / 1e3
    assert macs > 0
    assert result.duration_us >= compute_us
    assert result.duration_us >= memory_us


@pytest.mark.parametrize(("name", "soc"), QUICK)
def test_network_is_timed(models_dir: Path, name: str, soc: str) -> None:
    check_bounds(asim.simulate(asim.compile(asim.load(models_dir / f"{name}.onnx"), soc=soc)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "soc"), [(name, chip) for name in MODELS for chip in CHIPS if (name, chip) not in QUICK]
)
def test_network_is_timed_long(models_dir: Path, name: str, soc: str) -> None:
    check_bounds(asim.simulate(asim.compile(asim.load(models_dir / f"{name}.onnx"), soc=soc)))


@pytest.mark.usefixtures("untimed_tiles")
def test_tables_and_traces_are_the_same_bytes_twice(models_dir: Path, tmp_path: Path) -> None:
    files, graph = [], asim.load(models_dir / "squeezenet1_1.onnx", shapes={"input": (1, 3, 64, 64)})
    for number in range(2):
        result = asim.simulate(asim.compile(graph, soc="Ascend310P3"))
        result.op_summary().to_csv(tmp_path / f"{number}.csv")
        result.save_trace(tmp_path / f"{number}.json")
        files.append([(tmp_path / f"{number}.{end}").read_bytes() for end in ("csv", "json")])
    assert files[0] == files[1]
