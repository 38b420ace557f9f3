"""ATC's command line and the maps of options of C++ programs, as the introductions to CANN have them."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.compiler.atc_options import PRECISION_V2, WITHOUT_EFFECT
from ascendsim.compiler.options import CompileOptions
from ascendsim.core.errors import InputError
from tests.support.fusing import build, random

LENET = "tests/data/models/lenet5.onnx"


def compiled(*options: str) -> list[str]:
    return ["compile", LENET, "--weights", "random", *options]


def test_a_map_of_the_introduction_switches_passes(tmp_path: Path) -> None:
    """The introduction to fusion: `{ge::ir_option::FUSION_SWITCH_FILE, "fusion_switch.cfg"}`, and
    `parameter_map["fusion_switch_file"]` of TensorFlow's adapter."""
    path = tmp_path / "fusion_switch.cfg"
    path.write_text('{"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}')
    graph = asim.load(LENET)
    tasks = []
    names = ("ge::ir_option::FUSION_SWITCH_FILE", "ge.fusionSwitchFile", "fusion_switch_file")
    for key, value in product(names, (str(path), str(path).encode())):  # tf.compat.as_bytes
        model = asim.compile(graph, **asim.ir_options({key: value}))
        tasks.append(len(model.program.tasks))
    (count,) = set(tasks)
    assert count > len(asim.compile(graph).program.tasks)


def test_all_keys_of_a_map_arrive() -> None:
    given = {
        "SOC_VERSION": "Ascend310P3",
        "ge.exec.precision_mode_v2": "origin",
        "ge.enableSingleStream": "true",
        "EXEC_DISABLE_REUSED_MEMORY": "1",
        "AICORE_NUM": "2",
        "OUT_NODES": "conv:0",
        "op_debug_level": "1",
    }
    wanted = {
        "soc": "Ascend310P3",
        "precision_mode": "must_keep_origin_dtype",
        "enable_single_stream": True,
        "disable_reuse_memory": True,
        "aicore_num": 2,
        "outputs": "conv:0",
    }
    assert asim.ir_options(given) == wanted
    assert asim.ir_options({key: value.encode() for key, value in given.items()}) == wanted
    CompileOptions(**wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ge.fusionSwitchFil": "x"}, "did you mean ge.fusionSwitchFile"),
        ({"AICORE_NUM": "two"}, "must be a whole number"),
        ({"ENABLE_SINGLE_STREAM": "maybe"}, "must be true or false"),
        ({"PRECISION_MODE_V2": "fp17"}, "must be one of fp16"),
        ({"SOC_VERSION": "Ascend310", "ge.socVersion": "Ascend910A"}, "is given twice"),
        ({"SOC_VERSION": 310}, "must be a text, as in the map, not 310; write '310'"),
        ({"SOC_VERSION": None}, "must be a text, as in the map, not None; leave it out"),
        ({"SOC_VERSION": b"\xff"}, r"must be UTF-8 text, not b'.xff'$"),
        ({"AICORE_NUM": b"two"}, "must be a whole number, not 'two'"),
    ],
)
def test_wrong_maps(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.ir_options(options)


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_an_option_without_effect_says_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(compiled(f"--{name}", "1", "--stop_after", "ends")) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"ascendsim: warning: option --{name} has no effect here: ")


@pytest.mark.parametrize(("newer", "older"), PRECISION_V2.items())
def test_both_spellings_of_a_precision_mode_compile_alike(
    newer: str, older: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for option, value in (("--precision_mode_v2", newer), ("--precision_mode", older)):
        assert main(compiled(option, value, "--stop_after", "types-and-formats")) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(compiled("--mode", "0")) == 0
    table = capsys.readouterr().out
    assert main(compiled("--mode", "sink")) == 0
    assert capsys.readouterr().out == table
    assert main(compiled("--mode", "3")) == 0
    assert "all 12 operators can be compiled for Ascend310" in capsys.readouterr().out
    assert main(compiled("--mode", "6")) == 0
    assert "output 22: float32 [1,10] ND" in capsys.readouterr().out
    path = tmp_path / "lenet.json"
    assert main(compiled("--mode", "1", "--json", str(path))) == 0
    (graph,) = json.loads(path.read_text())["graph"]
    types = {item["name"]: item["type"] for item in graph["op"]}
    assert len([name for name, kind in types.items() if kind == "Conv"]) == 2
    sources = {source.rpartition(":")[0] for item in graph["op"] for source in item.get("input", ())}
    assert sources <= types.keys()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (compiled("--mode", "1"), "needs --json FILE"),
        (compiled("--json", "x.json"), "goes with --mode 1 or 5"),
        (compiled("--mode", "3", "--output", "x.asim"), "goes with --mode 0"),
        (compiled("--output", "out/"), "must be a folder and a name, to which .asim is added, not 'out/'"),
        (compiled("--output", ".."), "must be a folder and a name"),
        (["run", LENET, "--mode", "3"], "ascendsim compile has ATC's other modes"),
        (compiled("--mode", "30"), "30 makes ATC write an .exeom, which devices without a host load"),
        (compiled("--mode", "2"), "invalid choice"),
        (
            compiled("--precision_mode", "force_fp32", "--precision_mode_v2", "fp16"),
            "exclude each other",
        ),
    ],
)
def test_wrong_command_lines(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    assert message in capsys.readouterr().err
    assert not Path("x.asim").exists()


@pytest.mark.parametrize("name", ["lenet", "out/deep/lenet", "lenet.om", "lenet.asim", "lenet.v1"])
def test_a_line_of_atc_as_it_is_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ATC adds its ending to the name of --output and makes the folder."""
    line = ["compile", f"--model={Path(LENET).absolute()}", "--framework=5", "--input_format=NCHW"]
    monkeypatch.chdir(tmp_path)
    assert main([*line, "--soc_version=Ascend310P3", "--weights=random", f"--output={name}"]) == 0
    target = Path(name.removesuffix(".om").removesuffix(".asim") + ".asim")
    assert f"wrote {target}" in capsys.readouterr().out
    assert main(["run", str(target), "--values", "off"]) == 0


def test_a_general_product_comes_apart_on_request() -> None:
    """A text on computational graphs: Gemm = MatMul + Bias, a coarse operator made of finer ones."""
    graph = build(lambda b: b.op("Gemm", b.input("x", (32, 64)), random(64, 48), random(48)))
    x = random(32, 64, seed=5)
    models = {
        state: asim.compile(graph, fusion="graph", optimization_switch=f"GemmSplitFusionPass:{state}")
        for state in ("off", "on")
    }
    inputs = [
        (node.op_type, node.input_count)
        for node in models["on"].graph.nodes
        if node.op_type in ("Add", "Gemm", "MatMul")
    ]
    assert inputs == [("Gemm", 2), ("Add", 2)]
    runs = {state: asim.run(model, {"x": x}, values="float32") for state, model in models.items()}
    assert abs(runs["on"].outputs["out0"] - runs["off"].outputs["out0"]).max() < 1e-4
    assert runs["on"].duration_us > runs["off"].duration_us
