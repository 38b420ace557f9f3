"""The chips as a table."""

from __future__ import annotations

from ascendsim.core.table import Row, Table
from ascendsim.core.units import format_size
from ascendsim.soc.loading import load, names


def chips() -> Table:
    """The built-in chips and those of installed packages: what `compile` takes as `soc`, and what one
    compares chips by.

    Columns: name, generation, cores, clock, peak in float16, L2, bandwidth of DDR, and whether all figures
    are known that a run needs.
    """
    rows: list[Row] = []
    for name in names():
        spec = load(name)
        cores = (
            f"{spec.ai_cores} cube + {spec.vector_cores} vector" if spec.split_cores else str(spec.ai_cores)
        )
        l2 = format_size(spec.l2.size) if spec.l2.size else None
        bandwidth = spec.dram.read_gb_per_s or None
        runs = "no" if spec.missing else "yes"
        peak = round(spec.peak_fp16_tflops, 1)
        rows.append((name, spec.generation, cores, spec.frequency_mhz, peak, l2, bandwidth, runs))
    columns = ("chip", "generation", "AI cores", "MHz", "fp16 TFLOPS", "L2", "DRAM GB/s", "can be run")
    return Table("chips", columns, tuple(rows))
