"""Claims of the Ascend 310 tuning guide, each with its band. docs/advise.md says what is calibrated and what
follows from the machine."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.advise import Advice, advise
from ascendsim.cli.main import main
from ascendsim.compiler.profile_options import RELEASES
from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.passes.levers import IdentityConv, LeverContext, Relation, apply_lever
from tests.e2e.test_l2_fusion import residual_net
from tests.support.fusing import build, random

MODELS = "tests/data/models"


def gains(advice: Advice) -> dict[str, float]:
    return {proposal.lever: proposal.speedup for proposal in advice.proposals}


def time_us(graph: Graph, **settings: object) -> float:
    return asim.simulate(asim.compile(graph, soc="Ascend310", **settings)).duration_us  # type: ignore[arg-type]


def interp(b: GraphBuilder) -> Tensor:
    return b.op(
        "Resize",
        b.input("x", (1, 18, 175, 175)),
        None,
        None,
        np.array([1, 18, 350, 350]),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


def test_interp_falls_from_20_ms_to_1_6_ms() -> None:
    """20 ms is where the scalar path's cycles a point come from; 1.6 ms and the factor of 12.5 are
    results."""
    advice = advise(build(interp), "Ascend310")
    best = advice.proposals[0]
    assert best.lever == "resize-sizes"
    assert best.relation is Relation.RETRAIN
    assert 15_000 < best.before_us < 25_000
    assert 400 < best.after_us < 2_400
    assert best.speedup > 8
    changed = advice.apply("resize-sizes")
    assert (changed.inputs[0].shape, changed.outputs[0].shape) == ((1, 18, 176, 176), (1, 18, 351, 351))


@pytest.mark.parametrize("exponent", [3.0, 0.5, -2.0])
def test_pow_on_the_ai_cpu_becomes_much_faster_as_mul(exponent: float) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 64, 56, 56))
        return b.op("Add", b.op("Pow", x, exponent, name="power"), x)

    graph = build(body)
    advice = advise(graph, "Ascend310", options={"aicpu_pow": True})
    assert gains(advice)["pow-to-mul"] > 5
    (row,) = [row for row in advice.operators.records() if row["Engine"] == "AI CPU"]
    assert row["Type"] == "Pow"
    assert row["Findings"] == "runs on the AI CPU"
    later = gains(advise(graph, "Ascend310")).get("pow-to-mul", 1.0)
    # later releases have Pow on the AI Core: 40 vector instructions at most
    assert later < gains(advice)["pow-to-mul"] / 4


def mirror(b: GraphBuilder, channels: int = 32) -> Tensor:
    x = b.op(
        "Conv",
        b.input("x", (1, channels, 64, 64)),
        b.constant(random(channels, channels, 3, 3) * 0.05, "w"),
        pads=(1,) * 4,
    )
    x = b.op("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect", name="mirror")
    x = b.op("Mul", x, 0.5, name="scale")
    return b.op("Conv", x, b.constant(random(channels, channels, 3, 3, seed=1) * 0.05, "v"))


def test_identity_convolution_takes_two_format_conversions_away() -> None:
    """Where formats reach only the neighbours of convolutions, as the guide's release must have had it."""
    graph, options = build(mirror), {"format_reach": 1}
    model = asim.compile(graph, soc="Ascend310", options=options)
    inputs = asim.random_inputs(model)
    before = asim.run(model, inputs)
    changed = apply_lever(graph, IdentityConv(), LeverContext(model.opset)).graph
    after = asim.run(asim.compile(changed, soc="Ascend310", options=options), inputs)
    assert after.op_statistic().filter(**{"OP Type": "TransData"}).column("Count")[0] == (
        before.op_statistic().filter(**{"OP Type": "TransData"}).column("Count")[0] - 2  # type: ignore[operator]
    )
    assert "Mul" in before.op_statistic().column("OP Type")
    assert "Mul" not in after.op_statistic().column("OP Type")  # it joined the convolution's task
    assert 1.05 < before.duration_us / after.duration_us < 1.6
    for name, array in before.outputs.items():
        np.testing.assert_array_equal(after.outputs[name], array)


def test_identity_convolution_does_not_pay_where_formats_go_on() -> None:
    assert "identity-conv" not in gains(advise(build(mirror), "Ascend310"))


def stack(channels: int) -> Graph:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, channels, 28, 28))
        for number in range(4):
            weight, bias = (
                b.weight(f"w{number}", (channels, channels, 3, 3)),
                b.weight(f"b{number}", (channels,)),
            )
            x = b.op("Relu", b.op("Conv", x, weight, bias, pads=(1, 1, 1, 1)))
        return x

    return build(body)


@pytest.mark.parametrize("step", [24, pytest.param(8, marks=pytest.mark.slow)])
def test_channels_of_16_do_20_percent_more_work_in_the_same_time(step: int) -> None:
    """A channel count costs what the next multiple of 16 costs, so a useful multiply-add costs more: 20 %
    more in the middle."""
    ratios, times = [], []
    for channels in range(36, 129, step):
        aligned = -(-channels // 16) * 16
        own, full = time_us(stack(channels)), time_us(stack(aligned))
        times.append(own / full)
        ratios.append(own / channels**2 / (full / aligned**2))
    assert all(0.85 < ratio < 1.15 for ratio in times)
    assert 1.1 < median(ratios) < 1.35


@pytest.mark.slow
def test_aligning_the_channels_of_ghostnet_brings_20_percent() -> None:
    """Its Concats of 8, 12, 20 ... channels fall out of the blocked format; zeros in the weights bring them
    back."""
    graph = asim.load(f"{MODELS}/ghostnet.onnx")
    advice = advise(graph, "Ascend310")
    assert 1.1 < gains(advice)["align-channels"] < 1.45
    assert time_us(advice.apply("align-channels")) == pytest.approx(advice.proposals[0].after_us)


@pytest.mark.usefixtures("untimed_tiles")
def test_int64_mask_of_bert_leaves_the_ai_cpu() -> None:
    advice = advise(asim.load(f"{MODELS}/bert_tiny_s64.onnx"), "Ascend310")
    assert gains(advice)["narrow-types"] > 1.2
    assert "AI CPU" in advice.operators.column("Engine")
    after = asim.simulate(asim.compile(advice.apply("narrow-types"), soc="Ascend310"))
    assert all(view.on_ai_core for view in after.profile.tasks)


def test_output_type_saves_the_cast_and_half_the_conversion() -> None:
    def body(b: GraphBuilder) -> Tensor:
        return b.op("Conv", b.input("x", (1, 16, 64, 64)), b.weight("w", (64, 16, 1, 1)))

    assert time_us(build(body), output_type="FP16") < 0.9 * time_us(build(body))


# ------------------------------------------------------------------------------ finding the slow operators


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.usefixtures("untimed_tiles", "unpainted")
@pytest.mark.parametrize("command", [["run", "--values", "off"], ["advise"]])
def test_the_three_steps_by_hand_find_what_ran_on_the_ai_cpu(command: list[str], tmp_path: Path) -> None:
    """Seed: find the operator in Op Names of Op Statistic, note its Task IDs, look for the id in the column
    Task of the AI Core Metrics; if it is there, the operator ran on the AI Core.
    """
    model, out = f"{MODELS}/bert_tiny_s64.onnx", tmp_path / "out"
    assert main([*command, model, "--output", str(out)]) == 0
    statistic, metrics = (rows(out / f"{name}.csv") for name in ("op_statistic_tasks", "ai_core_metrics"))
    places = {}
    for row in statistic:
        names, ids = row["Op Names"].split(";"), row["Task IDs"].split(";")
        assert len(names) == len(ids) == int(row["Count"])
        places.update(dict(zip(names, ids, strict=True)))
    on_core = {row["Task"]: row["Op Name"] for row in metrics}
    missing = {name for name, number in places.items() if number not in on_core}
    assert all(on_core[number] == name for name, number in places.items() if name not in missing)
    ran = asim.simulate(asim.compile(asim.load(model)))
    assert missing == {view.name for view in ran.profile.tasks if view.on_ai_cpu} != set()


def test_msprofs_own_table_keeps_its_columns() -> None:
    result = asim.simulate(asim.compile(build(interp)))
    assert "Op Names" not in result.op_statistic().columns
    assert result.op_statistic(task_ids=True).columns[-2:] == ("Op Names", "Task IDs")


# ----------------------------------------------------------------------- the release that the guide describes


def advised(capsys: pytest.CaptureFixture[str], graph: Graph, path: Path) -> str:
    """What `ascendsim advise` prints of a graph with one switch for the release."""
    path.write_bytes(export_onnx(graph))
    capsys.readouterr()
    assert main(["advise", str(path), "--release", "ddk"]) == 0
    return capsys.readouterr().out.partition("proposals:")[2]


def test_one_switch_gives_all_of_the_guides_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pow as Mul, a convolution that changes nothing behind MirrorPad, and sizes of Interp: by the API and by
    one option of the command line."""

    def power(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 64, 56, 56))
        return b.op("Add", b.op("Pow", x, 3.0, name="power"), x)

    claims = {"pow-to-mul": (power, 10.0), "identity-conv": (mirror, 1.1), "resize-sizes": (interp, 10.0)}
    for lever, (body, least) in claims.items():
        graph = build(body)
        assert gains(advise(graph, "Ascend310", release="ddk"))[lever] > least
        assert lever in advised(capsys, graph, tmp_path / "net.onnx")
    for lever in ("pow-to-mul", "identity-conv"):  # of later releases they are no advice
        assert lever not in gains(advise(build(claims[lever][0]), "Ascend310"))


@pytest.mark.usefixtures("untimed_tiles")
def test_a_block_of_a_network_at_batch_8_runs_in_four_passes_of_two() -> None:
    graph, small = residual_net(batch=8, size=96), {"l2.size": "2MiB"}
    model = asim.compile(graph, "Ascend310", set=small, release="ddk")
    assert (2, 4) in {(block.batch, block.passes) for block in model.buffers.blocks}
    assert asim.compile(graph, "Ascend310", set=small).buffers.blocks == ()


@pytest.mark.slow
def test_resnet50_at_batch_8_runs_a_block_in_four_passes_of_two() -> None:
    model = asim.compile(asim.load(f"{MODELS}/resnet50.onnx", batch=8), "Ascend310", release="ddk")
    assert any(
        (block.batch, block.passes) == (2, 4) and len(block.nodes) > 12 for block in model.buffers.blocks
    )


def test_the_release_is_what_its_options_are_one_by_one() -> None:
    graph = build(mirror)
    options = {**RELEASES["ddk"]}
    by_name, by_option = (
        asim.simulate(asim.compile(graph, "Ascend310", **settings)).duration_us  # type: ignore[arg-type]
        for settings in ({"release": "ddk"}, {"options": options})
    )
    assert by_name == by_option != time_us(graph)
    stronger = time_us(graph, release="ddk", options={"format_reach": 0})
    assert stronger == time_us(graph, options={**options, "format_reach": 0})


def test_releases_that_never_were_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    graph = build(mirror)
    with pytest.raises(InputError, match="option release must be one of cann, ddk, not 'c3x'"):
        asim.compile(graph, "Ascend310", release="c3x")
    with pytest.raises(InputError, match="option release ddk is a release for Ascend310, not Ascend910B"):
        asim.compile(graph, "Ascend910B1", release="ddk")
    assert main(["compile", f"{MODELS}/lenet5.onnx", "--release", "ddk", "--soc_version", "Ascend310P3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    model = asim.compile(graph, "Ascend310", fusion="graph", release="ddk")
    assert model.fusion.warnings == []  # the release asks for what this level leaves out, the user does not
