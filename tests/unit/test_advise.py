"""The advisor: what it lists, sorts, declines and applies; the command; the ONNX file that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.advise import Advice, Proposal, advise
from ascendsim.advise.rules import findings
from ascendsim.cli.main import main
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError, UnsupportedOperatorError
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.passes.levers import Relation, Site
from ascendsim.profiling.summary import top_operators
from tests.support.fusing import build, new_builder, random


def model(b: GraphBuilder) -> Tensor:
    x = b.input("x", (1, 16, 28, 28))
    parts = [b.op("Conv", x, random(8, 16, 1, 1, seed=n), name=f"part{n}") for n in range(4)]
    joined = b.op("Concat", *parts, axis=1)
    y = b.op("Conv", joined, random(24, 32, 3, 3), pads=(1, 1, 1, 1), name="mix")
    return b.op("Pow", y, 3.0, name="power")


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(build(model), "Ascend310", options={"aicpu_pow": True})


def test_proposals_are_sorted_by_their_gain(advice: Advice) -> None:
    found = [proposal.gain_us for proposal in advice.proposals]
    assert found == sorted(found, reverse=True)
    assert all(gain > 0 for gain in found)
    assert advice.proposals[0].lever == "pow-to-mul"
    assert all(proposal.before_us == advice.duration_us for proposal in advice.proposals)


def test_the_table_says_lever_reason_gain_and_values(advice: Advice) -> None:
    row = advice.table().records()[0]
    assert row["Operator"] == "power"
    assert row["Reason"] == "runs on the AI CPU; x^3 is 2 products"
    assert row["Values"] == "exact"
    assert row["Speed-up"] == pytest.approx(advice.proposals[0].speedup)


def test_apply_takes_one_or_all_exact_proposals(advice: Advice) -> None:
    before = to_text(advice.graph)
    one = advice.apply("pow-to-mul")
    assert not any(node.op_type == "Pow" for node in one.nodes)
    settings: dict[str, Any] = {**advice.settings(), "options": {"aicpu_pow": True}}
    together = asim.simulate(asim.compile(advice.apply(), soc="Ascend310", **settings)).duration_us
    assert together <= min(proposal.after_us for proposal in advice.proposals)
    assert to_text(advice.graph) == before


def test_values_stay_under_exact_levers(advice: Advice) -> None:
    old, new = (asim.compile(graph, soc="Ascend310") for graph in (advice.graph, advice.apply()))
    inputs = asim.random_inputs(old)
    a, b = (asim.run(item, inputs, values="float32").outputs["out0"] for item in (old, new))
    np.testing.assert_allclose(b, a, atol=1e-5 * float(np.ptp(a)))


def test_names_that_are_not_proposed_are_refused(advice: Advice) -> None:
    with pytest.raises(
        InputError, match="^lever 'pow-to-mull' is not proposed for this model; did you mean pow-to-mul"
    ):
        advice.apply("pow-to-mull")
    with pytest.raises(
        InputError,
        match="^lever 'resize-sizes' is not proposed for this model; it finds no place or does not pay",
    ):
        advice.settings("resize-sizes")


def test_a_setting_of_the_user_is_not_proposed_again() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", (64, 1024))))
    assert [p.lever for p in advise(graph, "Ascend310").proposals] == ["float16-outputs"]
    assert advise(graph, "Ascend310", output_type="FP32").proposals == ()


def test_transposes_off_the_white_list_are_named_with_what_the_list_saves() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Relu", b.input("x", (1, 16, 2, 2, 15, 15)))
        return b.op("Transpose", x, perm=(0, 1, 4, 2, 5, 3), name="shuffle")

    graph, installed = build(body), {"transpose_white_list": False, "format_reach": 1}
    found = advise(graph, "Ascend310", options=installed)
    first = found.proposals[0]
    assert (first.lever, first.nodes) == ("transpose-white-list", ("shuffle",))
    assert "add [1, 16, 2, 2, 15, 15] to white_list_shape in impl/dynamic/transpose.py" in first.reason
    settings = found.settings("transpose-white-list")
    assert settings == {"options": {"transpose_white_list": True, "format_reach": 1}}
    changed = asim.compile(found.apply("transpose-white-list"), "Ascend310", **settings)
    assert asim.simulate(changed).duration_us == first.after_us < first.before_us / 10
    listed = advise(graph, "Ascend310")
    assert "transpose-white-list" not in {proposal.lever for proposal in listed.proposals}
    said = [
        next(str(row["Findings"]) for row in where.operators.records() if row["Type"] == "TransposeD")
        for where in (found, listed)
    ]
    assert said[0].startswith("goes element by element: not on the white list of impl/dynamic/transpose.py")
    assert said[1].startswith("so quick only on the white list of impl/dynamic/transpose.py")


def test_command_says_how_to_compile_with_a_profile_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shuffle.onnx"
    path.write_bytes(
        export_onnx(
            build(lambda b: b.op("Transpose", b.input("x", (1, 16, 2, 2, 15, 15)), perm=(0, 1, 4, 2, 5, 3)))
        )
    )
    arguments = ["advise", str(path), "--option", "transpose_white_list=off", "--output", str(tmp_path)]
    assert main([*arguments, "--apply", "transpose-white-list"]) == 0
    printed = capsys.readouterr().out
    assert "compile it with --option transpose_white_list=on" in printed


def test_sites_that_do_not_pay_are_declined_one_by_one() -> None:
    graph = build(
        lambda b: b.op(
            "Conv", b.op("Conv", b.input("x", (1, 16, 28, 28)), random(20, 16, 3, 3)), random(12, 20, 3, 3)
        )
    )
    advice = advise(graph, "Ascend310")
    assert "align-channels" not in [p.lever for p in advice.proposals]
    assert any(lever == "align-channels" and "does not pay" in reason for lever, _, reason in advice.declined)
    assert len(advice.declined_table()) == len(advice.declined)


def test_the_relation_of_a_proposal_is_the_furthest_of_its_sites() -> None:
    sites = tuple(
        Site((name,), "why", relation)
        for name, relation in (("a", Relation.APPROXIMATE), ("b", Relation.EXACT))
    )
    proposal = Proposal("lever", "", sites, 10.0, 5.0)
    assert (proposal.relation, proposal.speedup, proposal.nodes) == (Relation.APPROXIMATE, 2.0, ("a", "b"))
    assert proposal.reason == "why (and 1 more)"


def test_html_is_escaped() -> None:
    builder = new_builder()
    builder.output(builder.op("Relu", builder.input("x", (64, 1024)), name="<b>"), "y")
    text = advise(builder.build(), "Ascend310")._repr_html_()
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


def test_package_and_function_share_a_name() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", (2, 4))))
    assert isinstance(asim.advise(graph, soc="Ascend310"), Advice)


def test_bad_settings_are_refused() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", (2, 4))))
    for settings, message in (
        ({"trials": -1}, "option trials must not be negative, not -1"),
        (
            {"options": {"aicpu_pov": True}},
            "profile option 'aicpu_pov' does not exist; did you mean aicpu_pow",
        ),
        ({"options": {"aicpu_pow": 1}}, "profile option aicpu_pow must be one of False, True, not 1"),
        ({"output_type": "FP8"}, "option output_type must name FP16 or FP32, not 'FP8'"),
        (
            {"output_type": "Relu:1:FP16"},
            "option output_type: output Relu:1 is no output of the network; did you mean Relu:0",
        ),
        ({"output_type": "Relu:x:FP16"}, "option output_type must be FP16, FP32 or node:index:type"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            advise(graph, "Ascend310", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["FP16", "Relu:0:FP16"])
def test_output_type_keeps_the_numbers_that_the_device_has(text: str) -> None:
    graph = build(
        lambda b: (b.op("Relu", b.input("x", (8, 32))), b.op("Cast", b.input("z", (2,)), to=DType.INT32))
    )
    old, new = asim.compile(graph), asim.compile(graph, output_type=text)
    inputs = asim.random_inputs(old)
    before, after = asim.run(old, inputs).outputs, asim.run(new, inputs).outputs
    assert [array.dtype.name for array in after.values()] == ["float16", "int32"]
    np.testing.assert_array_equal(after["out0"].astype(np.float32), before["out0"])


def test_command_prints_proposals_and_writes_the_changed_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export_onnx(build(model)))
    arguments = [
        "advise",
        str(path),
        "--option",
        "aicpu_pow=on",
        "--apply",
        "pow-to-mul",
        "--output",
        str(tmp_path / "out"),
        "--all",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "pow-to-mul" in printed
    assert "runs on the AI CPU; x^3 is 2 products" in printed
    names = {item.name for item in (tmp_path / "out").iterdir()}
    assert names == {
        "advice.csv",
        "alternatives.csv",
        "slow_operators.csv",
        "transdata.csv",
        "op_statistic_tasks.csv",
        "ai_core_metrics.csv",
        "declined.csv",
        "model_changed.txt",
        "model_changed.onnx",
    }
    changed = asim.load(tmp_path / "out" / "model_changed.onnx")
    assert not any(node.op_type == "Pow" for node in changed.nodes)


def test_command_wants_a_folder_for_the_changed_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(export_onnx(build(model)))
    assert main(["advise", str(path), "--apply", "exact"]) == 2
    assert "option --apply needs a folder to write the model to; add --output DIR" in capsys.readouterr().err


def written_equals(graph: Graph) -> None:
    """Compares a written model in onnxruntime with the graph it came from, and reads it back."""
    import onnxruntime

    data = export_onnx(graph)
    inputs = {t.name: np.asarray(random(*t.static_shape)).astype(t.element_type.numpy) for t in graph.inputs}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, inputs)
    loaded = asim.load(data)
    ours = asim.run(asim.compile(loaded), inputs, values="float32").outputs
    for name, array in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(ours[name], array, atol=1e-4)
    assert [node.op_type for node in loaded.topological()] == [node.op_type for node in graph.topological()]


def test_written_models_run_in_onnxruntime() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (1, 4, 8, 8))
        y = b.op("Clip", b.op("Conv", x, random(6, 4, 3, 3), strides=[2, 2]), None, 3.0)
        values, places = b.ops("TopK", b.op("Flatten", y), [3], outputs=2)
        left, right = b.ops(
            "Split", b.op("ReduceMean", y, [2, 3], keepdims=0), outputs=2, axis=1, num_outputs=2
        )
        return [values, b.op("Cast", places, to=DType.FLOAT32), b.op("Add", left, right)]

    written_equals(build(body))


def test_later_operators_raise_the_operator_set() -> None:
    import onnx

    graph = build(lambda b: b.op("RMSNormalization", b.input("x", (2, 8)), random(8)))
    assert onnx.load_from_string(export_onnx(graph)).opset_import[0].version == 23
    assert onnx.load_from_string(export_onnx(build(model))).opset_import[0].version == 18


def test_writing_is_deterministic() -> None:
    assert export_onnx(build(model)) == export_onnx(build(model))


def test_what_onnx_does_not_have_is_refused() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", (2, 4))))
    node = graph.node("Relu")
    node.domain = "ascend"
    with pytest.raises(UnsupportedOperatorError, match="ascend::Relu"):
        export_onnx(graph)
    with pytest.raises(GraphError, match="has no values"):
        export_onnx(build(lambda b: b.op("Add", b.input("x", (2,)), b.weight("w", (2,)))))


def test_the_page_shows_what_works() -> None:
    text = Path("docs/advise.md").read_text(encoding="utf-8")
    (block,) = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    names: dict[str, Any] = {}
    exec(block, names)  # our own page
    assert names["result"].duration_us < names["advice"].duration_us


def test_scalars_stay_scalars_in_written_models() -> None:
    """A Gather with a scalar index takes an axis away; with a vector of one it does not."""

    def body(b: GraphBuilder) -> list[Tensor]:
        first = b.op("Gather", b.input("x", (1, 4, 8)), 0, axis=1)
        return [b.op("Gemm", first, random(8, 3))]

    written_equals(build(body))


def test_the_last_round_counts_the_cores_that_a_block_can_run_on() -> None:
    b = asim.GraphBuilder("g")
    b.output(b.op("Relu", b.input("x", (1, 1 << 20))), "y")
    result = asim.simulate(asim.compile(b.graph, soc="Ascend910B1", set={"vector_cores": 7}))
    run = result.profile
    for view in run.tasks:
        expected = view.record.blocks % 7
        said = [text for text in findings(run, view) if "last round" in text]
        text = f"{expected} of 7 VECTOR cores busy in the last round of blocks"
        assert said == ([text] if expected else [])


def test_advice_and_runs_say_the_same_of_what_bounds_an_operator(models_dir: Path) -> None:
    graph = asim.load(models_dir / "lenet5.onnx")
    advice = asim.advise(graph, soc="Ascend310P3", trials=0)
    run = asim.simulate(asim.compile(graph, "Ascend310P3")).profile
    said = {}
    for row in top_operators(run, len(run.tasks)).records():
        said.setdefault(row["Type"], set()).add((row["Bound by"], row["Busiest pipe"]))
    assert len(advice.operators) > 1
    for row in advice.operators.records():
        for found in str(row["Findings"]).split("; "):
            if found.startswith("bound by "):
                bound, _, busiest = found.removeprefix("bound by ").partition(" (")[0].partition(", ")
                pipe = busiest.removesuffix(" busiest")
                assert any(b == bound and str(p).startswith(pipe) for b, p in said[row["Type"]])
        assert "bound by " in str(row["Findings"])
