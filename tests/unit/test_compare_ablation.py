"""What each pass contributes: on top of those before it, alone, left out; why it has no figures."""

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
    measured = [item for item in found.contributions if item.without_us is not None]
    assert "ConvBatchnormFusionPass" in {item.name for item in measured}
    for item in measured:
        without = asim.simulate(asim.compile(graph, fusion="graph", optimization_switch=f"{item.name}:off"))
        assert item.name not in without.model.fusion.totals("graph")
        assert item.without_us == pytest.approx(without.duration_us - base.duration_us)


def test_rows_are_sorted_and_begin_with_everything_together():
    found = ablated()
    table = found.table()
    assert table.rows[0][0] == "all together"
    assert table.rows[0][3] == pytest.approx(found.unfused.duration_us - found.base.duration_us)
    _, *parts = table.column("Saves(us)")
    times = [time for time in parts if time is not None]
    assert times == sorted(times, reverse=True)
    assert times
    assert all(cell is None for cell in parts[len(times) :])
    assert "<table>" in found._repr_html_()


def activated():
    """Four convolutions, each multiplied by its own sigmoid: several passes could take each of them."""
    b = asim.GraphBuilder("activated")
    value = b.input("x", (1, 16, 28, 28))
    for number in range(4):
        value = b.op("Conv", value, b.weight(f"w{number}", (16, 16, 3, 3)), pads=[1, 1, 1, 1])
        value = b.op("Mul", value, b.op("Sigmoid", value))
    b.output(b.op("GlobalAveragePool", value), "y")
    return b.build()


def attended():
    """Softmax of a scaled product, a product and a normalisation by hand."""
    b = asim.GraphBuilder("attended")
    x = b.input("x", (4, 64, 64))
    scores = b.op(
        "Softmax", b.op("Div", b.op("MatMul", x, b.op("Transpose", x, perm=[0, 2, 1])), 8.0), axis=-1
    )
    value = b.op(
        "Add", b.op("MatMul", b.op("MatMul", scores, x), b.weight("w", (64, 64))), b.weight("b", (64,))
    )
    mean = b.op("ReduceMean", value, [-1])
    b.output(b.op("Relu", b.op("Div", b.op("Sub", value, mean), 3.0)), "y")
    return b.build()


@pytest.mark.parametrize("make", [network, activated, attended], ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    ("soc", "fusion"),
    [("Ascend310", "all"), ("Ascend310P3", "ub"), ("Ascend910A", "graph"), ("Ascend910B1", "graph-kernel")],
)
def test_what_the_rows_save_adds_up_to_what_all_save_together(make, soc, fusion):
    found = asim.ablate(make(), soc, fusion=fusion)
    whole = found.unfused.duration_us - found.base.duration_us
    assert abs(whole) > 1
    assert sum(item.time_us or 0.0 for item in found.contributions) == pytest.approx(whole)
    assert sum(item.tasks or 0 for item in found.contributions) == found.table().records()[0]["Saves tasks"]
    ddr = found.unfused.summary().ddr_bytes - found.base.summary().ddr_bytes
    assert sum(item.ddr_bytes or 0 for item in found.contributions) == ddr


def test_the_pass_that_took_effect_has_the_saving_though_others_would_take_over():
    (first, *_) = asim.ablate(activated(), "Ascend310P3", fusion="ub").contributions
    assert (first.name, first.effected) == ("TbeConvSigmoidMulQuantFusionPass", 4)
    assert first.time_us == pytest.approx(first.alone_us)
    assert first.time_us > 1
    assert first.tasks == 8
    assert first.without_us == pytest.approx(0.0, abs=1e-6)


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
    assert (last.name, last.time_us, last.without_us) == ("AABiasaddConvFusion", None, None)
    assert last.note == "without it: node 'Add' needs its convolution"


def test_a_pass_that_ignores_its_switch_says_so(monkeypatch):
    real = ablation.compile
    monkeypatch.setattr(
        ablation,
        "compile",
        lambda graph, soc, fusion, optimization_switch=None, **rest: real(graph, soc, fusion=fusion, **rest),
    )
    found = asim.ablate(network(), fusion="graph")
    *passes, always = sorted(found.contributions, key=lambda item: item.name == "always on")
    assert {item.note for item in passes} == {"has no switch"}
    assert always.time_us == pytest.approx(found.unfused.duration_us - found.base.duration_us)


def test_own_passes_are_measured_too():
    opset = default_opset()
    b = asim.GraphBuilder("abs", infer=lambda node: opset.get(node).infer(InferContext(node)))
    b.output(b.op("Abs", b.op("Abs", b.input("x", (64, 64)))), "y")
    (only,) = asim.ablate(b.build(), fusion="graph", passes=[AbsOfAbs()]).contributions
    assert only.name == "AbsOfAbs"
    assert only.time_us is not None
    assert only.time_us > 0


def test_what_cannot_be_compiled_without_a_later_pass_goes_to_that_one(monkeypatch):
    real = ablation.compile
    last = list(effected_passes(real(network(), fusion="graph").fusion))[-1][1]

    def picky(graph, soc, **options):
        off = options.get("optimization_switch", "").split(";")
        if f"{last}:off" in off and len(off) > 1:
            raise CompileError("node 'Add'", "needs its convolution")
        return real(graph, soc, **options)

    monkeypatch.setattr(ablation, "compile", picky)
    found = asim.ablate(network(), fusion="graph")
    (whole,) = [item for item in found.contributions if item.time_us is not None]
    assert (whole.name, whole.time_us) == (last, found.unfused.duration_us - found.base.duration_us)
    notes = {item.note for item in found.contributions if item is not whole}
    assert notes == {"without those after it: node 'Add' needs its convolution"}


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
