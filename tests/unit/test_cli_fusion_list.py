"""`fusion list` for every flow and order, composites on the command line, and why a rule cannot be closed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.compiling import compile
from ascendsim.cli.main import main
from ascendsim.compiler.fusion import pass_states
from ascendsim.compiler.options import FUSION_LEVELS, GRAPH_KERNEL, CompileOptions
from ascendsim.compiler.settings import Settings
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import is_composite
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.catalogue import all_facts, fact
from ascendsim.passes.fusion.closing import closes_by
from tests.support.fusing import build

SOC = "Ascend910A"
FLOWS = (*FUSION_LEVELS, GRAPH_KERNEL)


def sums_and_others() -> Graph:
    """Two sums that join, an Exp and a product that do not, and a Pow that no composite is next to."""

    def body(b: GraphBuilder) -> list:  # type: ignore[type-arg]
        x = b.input("x", (64, 64))
        joined = b.op("Mul", b.op("Add", x, x, name="add"), x, name="mul")
        apart = b.op("Pow", b.op("Exp", b.op("Tanh", joined, name="tanh"), name="exp"), 3.0, name="pow")
        return [b.op("Sigmoid", apart, name="last")]

    return build(body)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    path.write_bytes(export_onnx(sums_and_others()))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["fusion", "list", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("flow", FLOWS)
def test_every_flow_has_its_table(flow: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a model, with one, and with a switch; counts are those of the compilation."""
    settings = Settings.of(CompileOptions(soc=SOC, fusion=flow)).fusion
    names = {state.name for state in pass_states(settings)}
    chip = ("--soc_version", SOC, "--fusion", flow)
    out = printed(capsys, *chip)
    assert f"{len(names)} passes, " in out
    assert ("ub MindSpore" in out) == (flow == GRAPH_KERNEL)
    compiled = compile(asim.load(model), SOC, fusion=flow)
    with_model = printed(capsys, model, *chip)
    for family in ("graph", "ub"):
        for name, (matched, effected) in compiled.fusion.totals(family).items():
            assert re.search(rf"^{name} .* {matched} +{effected}$", with_model, re.MULTILINE), name
    switched = printed(capsys, model, *chip, "--optimization_switch", "SoftmaxFusionPass:off")
    why = "--fusion off" if flow == "off" else "--optimization_switch"
    assert flow == "off" or re.search(rf"^SoftmaxFusionPass .* off +{why}", switched, re.MULTILINE)
    listed = printed(capsys, *chip, "--optimization_switch", "SoftmaxFusionPass:off")
    assert re.search(rf"^SoftmaxFusionPass .* off +{why}", listed, re.MULTILINE)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("priority", [None, "PoolingFusionPass"])
def test_the_order_printed_is_the_order_of_execution(
    flow: str, priority: str | None, tmp_path: Path, models_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--soc_version", SOC, "--fusion", flow, "--sort", "order"]
    if priority is not None:
        path = tmp_path / "first.cfg"
        path.write_text(f'{{"Priority": {{"GraphFusion": {{"Top": {{"{priority}": "0"}}}}}}}}')
        words += ["--fusion_switch_file", str(path)]
    rows = [line.split() for line in printed(capsys, *words).splitlines() if re.match(r" *\d+  ", line)]
    places = {row[1]: int(row[0]) for row in rows}
    assert list(places.values()) == list(range(1, len(places) + 1))
    switch_file = None if priority is None else path
    for net in ("lenet5", "bert_tiny_s64"):
        report = compile(
            asim.load(models_dir / f"{net}.onnx"), SOC, fusion=flow, fusion_switch_file=switch_file
        ).fusion
        for family in ("graph", "ub"):
            ran = [record.name for record in report.records if record.family == family]
            ran = [name for name in dict.fromkeys(ran) if name in places]
            assert [places[name] for name in ran] == sorted(places[name] for name in ran)
            assert ran or flow == "off" or (flow, family) == ("graph", "ub")
    if priority is not None:
        before = [row[1] for row in rows].index(priority)
        assert before < [row[1] for row in rows].index("ConvBatchnormFusionPass")


def test_composites_are_printed_with_times_and_the_rest_with_reasons(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = compile(asim.load(model), SOC, fusion=GRAPH_KERNEL).graph_kernel
    assert report is not None
    (record,) = report.composites
    words = [model, "--soc_version", SOC, "--fusion", GRAPH_KERNEL]
    out = printed(capsys, *words)
    assert main(["compile", *words]) == 0
    for text in (out, capsys.readouterr().out):
        times = rf"{record.parts_us:.3f} +{record.composite_us:.3f}"
        row = rf"^{record.name} +1 +{len(record.members)} +{times} +yes$"
        assert re.search(row, text, re.MULTILINE)
    told = {item.node: item.reason for item in report.outside}
    assert told["exp"] == "Exp is on no list of operators that join composites"
    assert told["pow"] == "no composite is next to it, and Pow begins none"
    assert re.search(r"^Exp +1 +exp +Exp is on no list", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("flags", "node", "reason"),
    [
        ("--opt_level=0", "mul", "graph_kernel_flags has switched both stages off"),
        ("--disable_cluster_ops=Mul", "mul", "graph_kernel_flags keeps Mul outside"),
        (
            "--enable_cluster_ops=Exp,Tanh --disable_pass=composite --cluster_limit=2",
            "pow",
            "composite stage off",
        ),
        ("--enable_cluster_ops=Exp,Tanh --cluster_limit=2", "pow", "has cluster_limit=2 operators"),
    ],
)
def test_flags_are_named_as_reasons(flags: str, node: str, reason: str) -> None:
    report = compile(sums_and_others(), SOC, fusion=GRAPH_KERNEL, graph_kernel_flags=flags).graph_kernel
    assert report is not None
    told = {item.node: item.reason for item in report.outside}
    assert reason in told[node], told


def test_every_operator_is_inside_or_has_one_reason(models_dir: Path) -> None:
    for net in ("lenet5", "bert_tiny_s64"):
        compiled = compile(asim.load(models_dir / f"{net}.onnx"), SOC, fusion=GRAPH_KERNEL)
        report = compiled.graph_kernel
        assert report is not None
        names = [item.node for item in report.outside]
        assert len(names) == len(set(names))
        assert all(item.reason for item in report.outside)
        assert {node.name for node in compiled.graph.nodes if not is_composite(node)} == set(names)


def test_a_rule_that_no_file_closes_says_what_closes_it_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    for item in all_facts():
        text = closes_by(item)
        if item.switchable in ("no", "risky"):
            assert text.startswith(f"--optimization_switch {item.name}:off only, since it is on CANN's list")
            assert "hicann/ge, fusion_pass_util.h" in text
            assert "inferred: " in text
        else:
            assert "list of passes" not in text
    for name, words in (
        ("TfMergeSubFusionPass", "quantised networks"),
        ("ZConcatExt2FusionPass", "63 addresses"),
    ):
        assert words in closes_by(fact(name))
        assert main(["passes", "show", name]) == 0
        assert f"closed by: {closes_by(fact(name))}" in capsys.readouterr().out
    assert main(["passes", "show", "SoftmaxFusionPass"]) == 0
    assert "closed by: switch file or --optimization_switch" in capsys.readouterr().out
    assert main(["passes", "list", "--fusion", GRAPH_KERNEL]) == 0
    assert "MindSpore" in capsys.readouterr().out
