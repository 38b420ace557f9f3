"""Leave-one-out: what each pass contributes, sorted, with a reason where there is nothing to measure."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import pytest

import ascendsim as asim
from ascendsim.api import ablation
from ascendsim.api.ablation import effected_passes
from ascendsim.core.errors import CompileError, InputError
from ascendsim.models.seed_examples import conv_bn_relu, matmul_bias_relu
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.passes.fusion import Any, FusionRule, Op, replace_root
from ascendsim.passes.fusion.catalogue import find_fact
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.rewriting.report import PatternRecord

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def network():
    """Two convolutions with normalisation, a third with bias, pooled: several passes take effect."""
    opset = default_opset()
    b = asim.GraphBuilder("small", infer=lambda node: opset.get(node).infer(InferContext(node)))
    value = b.input("x", (1, 16, 28, 28))
    for number in range(2):
        value = b.op("Conv", value, b.weight(f"w{number}", (16, 16, 3, 3)), pads=[1, 1, 1, 1])
        parts = [b.weight(f"{name}{number}", (16,)) for name in ("scale", "offset", "mean", "variance")]
        value = b.op("Relu", b.op("BatchNormalization", value, *parts))
    value = b.op("Add", b.op("Conv", value, b.weight("w2", (16, 16, 1, 1))), b.weight("bias", (1, 16, 1, 1)))
    b.output(b.op("GlobalAveragePool", value), "y")
    return b.build()


@cache
def ablated():
    """What its passes contribute to the network, on the chip that is taken if none is named."""
    return asim.ablate(network(), fusion="graph")


def test_each_contribution_is_the_run_without_the_pass_less_the_run_with_it():
    graph = network()
    found = ablated()
    base = asim.simulate(asim.compile(graph, fusion="graph"))
    assert found.base.duration_us == base.duration_us
    assert {(item.family, item.name): item.effected for item in found.contributions} == effected_passes(
        base.model.fusion
    )
    measured = [item for item in found.contributions if item.time_us is not None]
    assert "ConvBatchnormFusionPass" in {item.name for item in measured}
    for item in measured:
        without = asim.simulate(asim.compile(graph, fusion="graph", optimization_switch=f"{item.name}:off"))
        assert item.name not in without.model.fusion.totals("graph")
        assert item.time_us == pytest.approx(without.duration_us - base.duration_us)
        assert item.ddr_bytes == without.summary().ddr_bytes - base.summary().ddr_bytes
        assert item.tasks == len(without.trace.tasks) - len(base.trace.tasks)


def test_rows_are_sorted_and_begin_with_everything_together():
    found = ablated()
    table = found.table()
    assert table.rows[0][0] == "all together"
    assert table.rows[0][3] == pytest.approx(found.unfused.duration_us - found.base.duration_us)
    first, *parts, rest = table.column("Saves(us)")
    times = [time for time in parts if time is not None]
    assert times == sorted(times, reverse=True)
    assert times
    assert all(cell is None for cell in parts[len(times) :])
    assert sum(times) + rest == pytest.approx(first)
    assert "<table>" in found._repr_html_()


def test_what_no_pass_saves_alone_has_a_row_of_its_own():
    """Sigmoid and Mul behind a convolution: what one pass leaves another one takes."""
    b = asim.GraphBuilder()
    value = b.op("Conv", b.input("x", (1, 16, 28, 28)), b.weight("w", (16, 16, 3, 3)), pads=[1, 1, 1, 1])
    b.output(b.op("Mul", value, b.op("Sigmoid", value)), "y")
    table = asim.ablate(b.build(), fusion="ub").table()
    rows = {row["Pass"]: row for row in table.records()}
    together, rest = rows["all together"], rows["no single pass"]
    assert list(rows)[-1] == "no single pass"
    assert rest["Saves(us)"] > together["Saves(us)"] / 2
    assert rest["Saves tasks"] > 0
    assert rest["Note"] == "either of several passes saves it"


def test_passes_that_switch_files_do_not_reach_are_marked():
    for item in ablated().contributions:
        fact = find_fact(item.name)
        assert fact is not None
        closed = fact.switchable in ("no", "risky")
        assert item.note == ("closed to switch files; --optimization_switch reaches it" if closed else "")
        assert item.time_us is not None


class AbsOfAbs(FusionRule):
    """Abs(Abs(x)) -> Abs(x)."""

    name = "AbsOfAbs"
    patterns: ClassVar = {"absOfAbs": Op("Abs", Op("Abs", Any("x"), name="inner"), name="outer")}

    def check(self, match, context):
        return None

    def rewrite(self, graph, match, context):
        replace_root(graph, match.root, match.nodes["inner"].output)


def test_a_pass_without_which_nothing_compiles_says_so(monkeypatch):
    real = ablation.compile

    def picky(graph, soc, **options):
        if "AABiasaddConvFusion" in options.get("optimization_switch", ""):
            raise CompileError("node 'Add'", "needs its convolution")
        return real(graph, soc, **options)

    monkeypatch.setattr(ablation, "compile", picky)
    last = asim.ablate(network(), fusion="graph").contributions[-1]
    assert (last.name, last.time_us) == ("AABiasaddConvFusion", None)
    assert last.note == "without it: node 'Add' needs its convolution"


def test_a_pass_that_ignores_its_switch_says_so(monkeypatch):
    real = ablation.compile
    monkeypatch.setattr(
        ablation,
        "compile",
        lambda graph, soc, fusion, optimization_switch=None, **rest: real(graph, soc, fusion=fusion, **rest),
    )
    assert {item.note for item in asim.ablate(network(), fusion="graph").contributions} == {"has no switch"}


def test_own_passes_are_measured_too():
    opset = default_opset()
    b = asim.GraphBuilder("abs", infer=lambda node: opset.get(node).infer(InferContext(node)))
    b.output(b.op("Abs", b.op("Abs", b.input("x", (64, 64)))), "y")
    (only,) = asim.ablate(b.build(), fusion="graph", passes=[AbsOfAbs()]).contributions
    assert only.name == "AbsOfAbs"
    assert only.time_us is not None
    assert only.time_us > 0


def test_switches_of_the_user_stay():
    switched = "ConvBatchnormFusionPass:off"
    names = {
        item.name
        for item in asim.ablate(network(), fusion="graph", optimization_switch=switched).contributions
    }
    assert "ConvBatchnormFusionPass" not in names
    assert "AABiasaddConvFusion" in names


def test_progress_counts_passes():
    calls = []
    found = asim.ablate(
        matmul_bias_relu(64, 64, 64), fusion="ub", progress=lambda done, total: calls.append((done, total))
    )
    count = len(found.contributions)
    assert calls == [(number, count) for number in range(count + 1)]


def test_buffer_fusion_is_one_line_if_it_changes_anything(monkeypatch):
    graph = matmul_bias_relu(64, 64, 64)
    assert all(item.family != "buffer" for item in asim.ablate(graph, fusion="ub").contributions)
    real = ablation.compile

    def costly(graph, soc, **options):  # as if buffers had kept tensors out of DDR
        return real(
            graph,
            soc,
            **options,
            set={"dram.read_gb_per_s": 1} if options.get("buffer_optimize") == "off_optimize" else None,
        )

    monkeypatch.setattr(ablation, "compile", costly)
    (line,) = [item for item in asim.ablate(graph).contributions if item.family == "buffer"]
    assert (line.name, line.effected) == ("buffer_optimize=l2_optimize", None)
    assert line.time_us is not None
    assert line.time_us > 0


def test_off_has_nothing_to_leave_out():
    with pytest.raises(
        InputError, match="option fusion must be a level with passes to leave out, not 'off'; try all"
    ):
        asim.ablate(conv_bn_relu(16, 8), fusion="off")


def test_effected_passes_add_up_patterns_in_order():
    records = [
        PatternRecord("graph", "B", "p", 2, 1),
        PatternRecord("graph", "A", "p", 1, 0),
        PatternRecord("graph", "B", "q", 3, 3),
    ]
    assert effected_passes(FusionReport(records)) == {("graph", "B"): 4}
