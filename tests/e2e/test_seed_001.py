"""Statements of CANN's introduction to graph fusion and UB fusion (the log that it prints, where it lies, and
the rules that it lists), each by way of the public interface."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.logs import add_log_option
from ascendsim.cli.main import main
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.catalogue import fact
from ascendsim.passes.fusion.plog import LEVELS, PlogLine, plog_lines, read_plog
from ascendsim.passes.fusion.result_file import read_result
from tests.support.fusing import build, random
from tests.support.gate import every
from tests.unit.test_fusion_every_pass import CHIPS, SETTINGS, WANTED, example, executed

Body = Callable[[GraphBuilder], list[Tensor]]
INTRODUCTION = Path(__file__).parents[1] / "data" / "fusion" / "plog_introduction.log"
PRINTED = read_plog(INTRODUCTION.read_text(encoding="utf-8"))


def int8(*shape: int, most: int = 20, seed: int = 0, kind: type = np.int8) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-most, most, shape).astype(kind)


def int8_branch(b: GraphBuilder, part: Tensor, seed: int, kernel: int) -> Tensor:
    """AscendQuant, an int8 convolution with weights of two subtractions, AscendDequant, Relu."""
    x = b.op("AscendQuant", part, domain="ascend", scale=20.0, offset=3.0)
    weight = b.op(
        "Sub",
        b.op("AscendWeightQuant", int8(32, 32, kernel, kernel, seed=seed), int8(1, most=3), domain="ascend"),
        int8(32, 1, 1, 1, most=3),
    )
    sums = b.op(
        "QuantConv", x, weight, int8(32, kind=np.int32), domain="ascend", offset_x=3, pads=(kernel // 2,) * 4
    )
    scale = (random(32, seed=seed, positive=True) / 4000).astype(np.float32)
    return b.op("Relu", b.op("AscendDequant", sums, scale, domain="ascend"))


def int8_block(b: GraphBuilder) -> list[Tensor]:
    """Two int8 convolutions between a Split and a Concat."""
    parts = b.ops("Split", b.op("Abs", b.input("x", (1, 64, 8, 8))), [32, 32], outputs=2, axis=1)
    branches = [
        int8_branch(b, part, seed, kernel)
        for seed, (part, kernel) in enumerate(zip(parts, (3, 5), strict=True))
    ]
    return [b.op("Exp", b.op("Concat", *branches, axis=1))]


def wide_concat(b: GraphBuilder) -> list[Tensor]:
    y = b.op("Abs", b.input("y", (2, 4)))
    return [b.op("Exp", b.op("Concat", *(b.op("Add", y, float(item)) for item in range(70)), axis=1))]


def nested_splits(b: GraphBuilder) -> list[Tensor]:
    first, second = b.ops("Split", b.op("Abs", b.input("z", (2, 70))), [30, 40], outputs=2, axis=1)
    inner = b.ops("Split", first, [10, 20], outputs=2, axis=1)
    return [b.op("Exp", part) for part in (*inner, second)]


def wide_split(b: GraphBuilder) -> list[Tensor]:
    parts = b.ops("Split", b.op("Abs", b.input("w", (2, 70))), [1] * 70, outputs=70, axis=1)
    return [b.op("Exp", part) for part in parts]


# Parts of a network for which the lines of the text stand, and the rules that show there alone
PARTS: dict[Body, set[str]] = {
    int8_block: {
        "TfTagNoConstFoldingFusionPass",
        "TfMergeWeightQuantFusionPass",
        "Conv2DQuantProcessFusionPass",
        "V200NotRequantFusionPass",
        "DeleteNoConstFolding",
        "SplitConvConcatFusionPass",
        "FixPipeAbilityProcessPass",
    },
    wide_concat: {"ZConcatExt2FusionPass"},
    nested_splits: {"ZSplitVDFusionPassV2"},
    wide_split: {"ZSplitVDFusionPass"},
}


def effects(model: CompiledModel, names: set[str]) -> list[PlogLine]:
    """What a user sees who types the text's second command, of some rules."""
    lines = read_plog("\n".join(plog_lines(model.fusion)))
    return [line for line in lines if line.effected and line.name in names]


def test_the_eleven_lines_of_the_introduction_are_what_a_compilation_logs() -> None:
    """Rules, patterns, effects and order; rules that the text does not name may stand between them. Rules
    that look at every Split or Concat match more often here, since this network has several."""
    model = asim.compile(build(lambda b: [y for part in PARTS for y in part(b)]), "Ascend910B1")
    names = {line.name for line in PRINTED}
    seen = [(line.name, line.pattern, line.effected) for line in effects(model, names)]
    assert seen == [(line.name, line.pattern, line.effected) for line in PRINTED]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_each_line_stands_letter_by_letter_where_nothing_else_matches(part: Body) -> None:
    model = asim.compile(build(part), "Ascend910B1")
    assert effects(model, PARTS[part]) == [line for line in PRINTED if line.name in PARTS[part]]


def test_an_int8_block_computes_the_same_with_the_rules_of_the_log() -> None:
    graph = build(int8_block)
    models = [asim.compile(graph, "Ascend910B1", fusion=level) for level in ("off", "all")]
    inputs = asim.random_inputs(models[0])
    plain, fused = (asim.run(model, inputs).outputs["out0"] for model in models)
    np.testing.assert_allclose(fused, plain, rtol=2e-3, atol=2e-3)
    assert len(models[1].program.tasks) < len(models[0].program.tasks)


# -------------------------------------------------------------------------------------------- where logs lie


@pytest.fixture
def network(tmp_path: Path) -> str:
    """A network with a rule that takes effect in graph fusion, and one of UB fusion, as a file."""
    path = tmp_path / "net.onnx"
    path.write_bytes(export_onnx(build(folded_network)))
    return str(path)


def folded_network(b: GraphBuilder) -> Tensor:
    conv = b.op("Conv", b.input("x", (1, 16, 8, 8)), random(16, 16, 3, 3), pads=(1,) * 4)
    scale, shift, mean = (random(16, seed=seed) for seed in range(3))
    return b.op(
        "Relu", b.op("BatchNormalization", conv, scale, shift, mean, random(16, seed=3, positive=True))
    )


def plogs(folder: Path) -> list[str]:
    """What `cat *` shows in a folder of logs."""
    return "".join(path.read_text() for path in sorted((folder / "debug" / "plog").iterdir())).splitlines()


@pytest.mark.parametrize("command", ["compile", "run"])
def test_logs_lie_below_the_home_folder_or_where_the_variable_says(
    command: str, network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "The default is $HOME/ascend/log/debug/plog/; ASCEND_PROCESS_LOG_PATH can say otherwise"."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.delenv("ASCEND_PROCESS_LOG_PATH", raising=False)
    values = [] if command == "compile" else ["--values", "off"]
    assert main([command, network, *values, "--log", "info"]) == 0
    lines = plogs(tmp_path / "home" / "ascend" / "log")
    shown = [line for line in lines if "GraphId" in line and "effected_times=0" not in line]
    assert any("ConvBatchnormFusionPass" in line for line in shown)
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "elsewhere"))
    assert main([command, network, *values, "--log=info"]) == 0
    assert len(plogs(tmp_path / "elsewhere")) == len(lines)
    assert len(plogs(tmp_path / "home" / "ascend" / "log")) == len(lines)


def test_the_command_line_knows_the_levels() -> None:
    parser = argparse.ArgumentParser()
    add_log_option(parser)
    assert [parser.parse_args(["--log", level]).log for level in LEVELS] == list(LEVELS)


def test_no_log_is_written_that_nobody_asked_for(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "logs"))
    assert main(["compile", network]) == main(["compile", network, "--log", "null"]) == 0
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        ("debug", {"WARNING", "INFO", "DEBUG"}),
        ("info", {"WARNING", "INFO"}),
        ("warning", {"WARNING"}),
        ("error", set()),
    ],
)
def test_atcs_levels_of_the_log(level: str, kinds: set[str], tmp_path: Path) -> None:
    model = asim.compile(build(folded_network), optimization_switch="SoftmaxFusionPas:off")
    path = asim.save_log(model, level, tmp_path)
    assert path is not None
    assert path.parent == tmp_path / "debug" / "plog"
    assert {line.partition("]")[0].strip("[") for line in path.read_text().splitlines()} == kinds
    assert asim.save_log(model, "null", tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_a_compilation_that_fails_logs_its_error(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "logs"))
    assert main(["compile", network, "--log", "error", "--option", "ub_conv=99"]) == 2
    said = capsys.readouterr().err.strip().removeprefix("ascendsim: error: ")
    (line,) = plogs(tmp_path / "logs")
    assert line.startswith("[ERROR] GE(")
    assert line.endswith(said)


def test_logs_that_cannot_be_written_are_refused_before_the_work(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "file"))
    target = tmp_path / "net.asim"
    assert main(["compile", network, "--log", "info", "--output", str(target)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "the log folder" in error
    assert not target.exists()
    assert main(["compile", network, "--log", "loud"]) == 2
    with pytest.raises(InputError, match="option log must be one of debug, info"):
        asim.save_log(asim.compile(build(folded_network)), "loud", tmp_path)


def test_the_log_of_a_model_with_gears_is_that_of_the_gear_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "logs"))
    shape = ["--input_shape", "input:-1,1,28,28", "--dynamic_batch_size", "1,2"]
    command = ["run", "tests/data/models/lenet5.onnx", *shape, "--values", "off"]
    assert main([*command, "--log", "info"]) == 0
    assert read_plog("\n".join(plogs(tmp_path / "logs")))


def test_compile_writes_log_and_result_beside_the_model(network: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    assert main(["compile", network, "--output", str(folder / "net.asim")]) == 0
    (counts,) = read_result(folder / "fusion_result.json")
    assert counts.graph_fusion["ConvBatchnormFusionPass"] == (1, 1)
    (log,) = (folder / "plog").iterdir()
    assert "ConvBatchnormFusionPass" in {line.name for line in read_plog(log.read_text())}
    assert main(["run", str(folder / "net.asim"), "--log", "info"]) == 2  # a saved model has no log


# ------------------------------------------------------------------------------ rules that are on by default

SLOWER = re.findall(
    r"\w+",
    " ".join(
        row.split("|")[1]
        for row in (Path(__file__).parents[2] / "docs" / "fusion.md")
        .read_text(encoding="utf-8")
        .partition("## Rules that cost time")[2]
        .partition("\n## ")[0]
        .splitlines()
        if row.startswith("| ")
    ),
)
TOLERATED = 1.03  # of the time without the rule; examples are small, a launch more or less counts


def times(name: str, soc: str) -> tuple[float, float]:
    """Time of a rule's example with it and without it."""
    graph = example(name)
    with_it, without = (
        asim.compile(graph, soc, optimization_switch=f"{name}:{how}", **SETTINGS.get(name, {}))
        for how in ("on", "off")
    )
    return executed(with_it).duration_us, executed(without).duration_us


ON = [name for name in WANTED if fact(name).default and "options" not in SETTINGS.get(name, {})]


@pytest.mark.parametrize("name", every(6, ON))
def test_no_rule_makes_slower_what_it_is_for_unless_the_page_says_why(name: str) -> None:
    """The text calls fusion "a key means to raise the performance of whole networks"; its rules are on by
    default, SoftmaxFusionPass for [1, 8732, 21] among them."""
    with_it, without = times(name, CHIPS.get(name, "Ascend310"))
    assert name in SLOWER or with_it <= TOLERATED * without


def test_the_page_names_real_rules_and_the_one_of_the_text() -> None:
    assert "SoftmaxFusionPass" in SLOWER
    assert set(SLOWER) - {"rule"} <= set(WANTED)


def test_the_rule_of_the_text_saves_time_where_kernels_go_row_by_row() -> None:
    """The text's shape on the chip whose Softmax is simulated as published profiles of its family show it."""
    b = GraphBuilder()
    b.output(b.op("Softmax", b.input("x", (1, 8732, 21)), axis=-1), "y")
    graph = b.build()
    with_it, without = (
        asim.simulate(
            asim.compile(graph, "Ascend910A", fusion="graph", optimization_switch=f"SoftmaxFusionPass:{how}")
        )
        for how in ("on", "off")
    )
    assert with_it.duration_us < without.duration_us / 2


def test_a_narrow_transpose_takes_about_what_published_ones_do() -> None:
    """[2, 9, 256, 256] of two bytes to channels last: 14.9 us on 910B2, the kernel alone."""
    b = GraphBuilder()
    b.output(b.op("Transpose", b.input("x", (2, 9, 256, 256), DType.FLOAT16), perm=(0, 2, 3, 1)), "y")
    model = asim.compile(b.build(), "Ascend910B2", precision_mode="must_keep_origin_dtype")
    assert 14.9 / 3 < asim.simulate(model).duration_us < 14.9 * 3
