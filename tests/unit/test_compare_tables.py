"""Comparison tables: figures add up to those of the runs, differences of outputs, reasons where there is
none."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.models.seed_examples import conv_bn_relu, matmul_bias_relu
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.profiling.comparison import (
    COMPARED,
    NO_VALUES,
    REFERENCE,
    compare_figures,
    comparison_html,
    comparison_table,
    largest_difference,
    phase_table,
)
from tests.support.synthetic_run import synthetic_run


def test_figures_are_sums_over_tasks():
    runs = {"long": synthetic_run(60), "short": synthetic_run(20)}
    long, short = compare_figures(runs)
    for figures, run in ((long, runs["long"]), (short, runs["short"])):
        assert figures.duration_us == run.trace.duration_us
        assert figures.tasks == len(run.tasks)
        assert figures.block_launches == sum(record.blocks for record in run.trace.tasks)
        assert figures.ddr_read_bytes + figures.ddr_write_bytes == sum(
            view.moved("ddr") for view in run.tasks
        )
        assert figures.difference == NO_VALUES
    assert long.speed_up == 1.0
    assert short.speed_up == pytest.approx(long.duration_us / short.duration_us)


def test_speed_up_counts_samples():
    comparison = asim.compare({f"batch {batch}": asim.compile(relu_of_batch(batch)) for batch in (1, 4)})
    one, four = comparison.figures
    assert four.speed_up == pytest.approx(4 * one.duration_us / four.duration_us)
    assert four.samples_per_s == pytest.approx(4e6 / four.duration_us)


def relu_of_batch(batch):
    opset = default_opset()
    b = asim.GraphBuilder("relu", infer=lambda node: opset.get(node).infer(InferContext(node)))
    b.output(b.op("Relu", b.input("x", (batch, 16, 14, 14))), "y")
    return b.build()


def test_table_is_exact_in_csv_and_shows_small_differences():
    graph = matmul_bias_relu(64, 64, 64)
    models = {level: asim.compile(graph, fusion=level) for level in ("off", "all")}
    comparison = asim.compare(models, inputs=asim.random_inputs(models["off"]))
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    assert [row["Variant"] for row in rows] == ["off", "all"]
    assert [row["Values"] for row in rows] == [REFERENCE, COMPARED]
    difference = comparison.figures[1].difference
    assert difference.absolute is not None
    assert float(rows[1]["Largest difference"]) == pytest.approx(difference.absolute, rel=1e-2)
    assert difference.relative is not None
    assert difference.relative < 5e-3  # a few float16 roundings
    frame = comparison.to_dataframe()
    assert list(frame["Tasks"]) == [figures.tasks for figures in comparison.figures]


def test_phases_name_what_a_task_reads_and_writes():
    model = asim.compile(matmul_bias_relu(64, 64, 64), soc="Ascend910B1", fusion="off")
    table = phase_table({"unfused": asim.simulate(model).profile})
    rows = {row["Task"]: row for row in table.records()}
    assert set(rows) == {"MatMul", "Bias", "Relu"}
    assert rows["MatMul"]["Reads"] == "x, w"
    assert rows["Relu"]["Writes"] == "y"
    assert rows["Bias"]["Writes"] == rows["Relu"]["Reads"]
    assert all(
        row["Emit(us)"] > 0 and row["Read(us)"] > 0 and row["Compute(us)"] > 0 and row["Write(us)"] > 0
        for row in rows.values()
    )


@pytest.mark.parametrize(
    ("reference", "other", "absolute", "relative"),
    [
        ([0.0, 4.0], [0.0, 4.5], 0.5, 0.125),
        ([2.0, 2.0], [2.0, 3.0], 1.0, 0.5),  # no range: of the largest magnitude
        ([0.0, 0.0], [0.0, 1.0], 1.0, np.inf),
        ([0.0, 0.0], [0.0, 0.0], 0.0, 0.0),
        ([1.0, np.inf, np.nan], [1.0, np.inf, np.nan], 0.0, 0.0),
        ([0.0, 1.0], [0.0, np.nan], np.inf, np.inf),
        ([0.0, np.inf], [0.0, -np.inf], np.inf, np.inf),
        ([], [], 0.0, 0.0),
    ],
)
def test_largest_difference(reference, other, absolute, relative):
    found = largest_difference({"y": np.array(reference, np.float32)}, {"y": np.array(other, np.float32)})
    assert (found.absolute, found.relative, found.note) == (absolute, relative, COMPARED)


def test_largest_difference_takes_the_worst_output_and_any_type():
    reference = {"label": np.array([1, 2], np.int64), "kept": np.array([True, False])}
    found = largest_difference(
        reference, {"label": np.array([1, 2], np.int64), "kept": np.array([True, True])}
    )
    assert (found.absolute, found.relative) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ({"z": np.zeros(2)}, "other outputs: 'y' is in one variant only"),
        ({"y": np.zeros((2, 1))}, "output 'y' has shapes 2 and 2x1"),
    ],
)
def test_outputs_that_cannot_be_compared_say_why(other, note):
    found = largest_difference({"y": np.zeros(2)}, other)
    assert (found.absolute, found.relative, found.note) == (None, None, note)


def test_variants_without_values_say_so():
    model = asim.compile(conv_bn_relu(16, 8))
    valued = asim.run(model, asim.random_inputs(model))
    comparison = asim.compare({"with": valued, "without": model})
    assert [figures.difference.note for figures in comparison.figures] == [REFERENCE, "no values"]
    assert comparison.table().column("Largest difference") == (0.0, None)
    assert "N/A" in comparison.to_csv()
    assert "<table>" in comparison._repr_html_()


def test_names_are_escaped_in_html():
    runs = {"<b>": synthetic_run(3), "c": synthetic_run(3)}
    assert "<b>" not in comparison_html(comparison_table(compare_figures(runs)))


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({}, r"compare takes at least two variants, not 0"),
        ({"a": None}, r"compare takes at least two variants, not 1"),
        ([], r"argument variants must be a dictionary by name, not list; write asim.compare"),
        ({"a": None, "b": 3}, r"variant 'a' must be a result or a compiled model, not NoneType"),
    ],
)
def test_wrong_variants_are_explained(variants, message):
    with pytest.raises(InputError, match=message):
        asim.compare(variants)
