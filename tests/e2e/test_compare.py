"""`ascendsim compare`: table, files, ablation, and one line for whatever a user can get wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.compiler.fusion import fusion_levels
from ascendsim.models.seed_examples import matmul_bias_relu

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.fixture
def lenet(models_dir: Path) -> str:
    return str(models_dir / "lenet5.onnx")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("ascendsim: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_levels_of_a_network_with_values(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", str(models_dir / "resnet18.onnx"), "--weights", "random", "--values", "float32"]
    arguments += ["--input_shape", "input:1,3,32,32", "--fusion", "off,all", "--output", str(tmp_path)]
    assert main([*arguments, "--option", "tiling=closed_form"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("resnet18")
    off, fused = rows_of(tmp_path / "compare.csv")
    assert (off["Variant"], fused["Variant"]) == ("off", "all")
    assert int(fused["Tasks"]) < int(off["Tasks"])
    assert float(fused["Time(us)"]) < float(off["Time(us)"])
    assert float(fused["DDR write(MB)"]) < float(off["DDR write(MB)"])
    # normalisation folded into weights changes the order of roundings, no more
    assert float(fused["Of range"]) <= 1e-5
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("unpainted")
def test_switch_files_side_by_side(
    lenet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file is a variant of its name, compiled as it is alone; with levels every combination is one."""
    monkeypatch.chdir(tmp_path)
    shapes = {"closed": ("off", "off"), "graph,only": ("on", "off"), "both": ("on", "on")}
    for name, (graph, ub) in shapes.items():
        text = f'{{"Switch": {{"GraphFusion": {{"ALL": "{graph}"}}, "UBFusion": {{"ALL": "{ub}"}}}}}}'
        Path(f"{name}.cfg").write_text(text)
    words = ["compare", lenet, "--values", "off", "--output", "out", "--fusion_switch_file"]
    assert main([*words, "closed.cfg,both.cfg"]) == 0
    rows = rows_of(tmp_path / "out" / "compare.csv")
    assert [row["Variant"] for row in rows] == ["closed", "both"]
    for row in rows:
        model = asim.compile(asim.load(lenet), fusion_switch_file=f"{row['Variant']}.cfg")
        assert int(row["Tasks"]) == len(model.program.tasks)
    assert int(rows[1]["Tasks"]) < int(rows[0]["Tasks"])
    assert main([*words, "closed.cfg,both.cfg", "--fusion", "graph,all"]) == 0
    names = [row["Variant"] for row in rows_of(tmp_path / "out" / "compare.csv")]
    assert names == ["graph, closed", "graph, both", "all, closed", "all, both"]
    assert main([*words, "graph,only.cfg", "--fusion", "off,all"]) == 0  # one file, with a comma in its name
    assert [row["Variant"] for row in rows_of(tmp_path / "out" / "compare.csv")] == ["off", "all"]
    capsys.readouterr()


@pytest.mark.usefixtures("unpainted")
def test_all_levels_by_default_and_no_values_without_weights(lenet: str, tmp_path: Path) -> None:
    assert main(["compare", lenet, "--values", "off", "--output", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "compare.csv")
    assert {row["Variant"] for row in rows} <= set(fusion_levels())
    assert [row["Variant"] for row in rows][:2] == ["off", "graph"]
    assert {row["Values"] for row in rows} == {"no values"}
    times = [float(row["Time(us)"]) for row in rows]
    assert times == sorted(times, reverse=True)


@pytest.mark.usefixtures("unpainted")
def test_graph_kernel_is_a_level_too(models_dir: Path, tmp_path: Path) -> None:
    arguments = [
        "--fusion",
        "off,graph-kernel",
        "--weights",
        "random",
        "--values",
        "float32",
        "--output",
        str(tmp_path),
    ]
    assert main(["compare", str(models_dir / "bert_tiny_s64.onnx"), *arguments]) == 0
    off, composites = rows_of(tmp_path / "compare.csv")
    assert int(composites["Tasks"]) < int(off["Tasks"])
    assert float(composites["Of range"]) <= 1e-5


@pytest.mark.usefixtures("unpainted")
def test_chips_and_batches_are_variants_too(lenet: str, tmp_path: Path) -> None:
    arguments = ["--soc_version", "Ascend310,Ascend910A", "--batch", "1,4", "--output", str(tmp_path)]
    assert main(["compare", lenet, *arguments]) == 0
    rows = rows_of(tmp_path / "compare.csv")
    names = ["batch 1, Ascend310", "batch 1, Ascend910A", "batch 4, Ascend310", "batch 4, Ascend910A"]
    assert [row["Variant"] for row in rows] == names
    graph = asim.load(lenet, batch=4)
    expected = asim.simulate(asim.compile(graph, soc="Ascend910A")).duration_us
    assert float(rows[3]["Time(us)"]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.usefixtures("unpainted")
def test_outputs_that_cannot_be_compared_say_why(lenet: str, tmp_path: Path) -> None:
    arguments = ["--batch", "1,2", "--weights", "random", "--values", "device", "--output", str(tmp_path)]
    assert main(["compare", lenet, *arguments]) == 0
    assert "has shapes" in rows_of(tmp_path / "compare.csv")[1]["Values"]


@pytest.mark.usefixtures("unpainted")
def test_ablation_lists_passes_by_what_they_save(
    models_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = [str(models_dir / "mobilenet_v1.onnx"), "--input_shape", "input:1,3,32,32"]
    assert main(["compare", *network, "--ablate", "--fusion", "graph", "--output", str(tmp_path)]) == 0
    assert "what each pass contributes" in capsys.readouterr().out
    rows = rows_of(tmp_path / "ablation.csv")
    assert rows[0]["Pass"] == "all together"
    by_name = {row["Pass"]: row for row in rows}
    assert float(by_name["ConvBatchnormFusionPass"]["Saves(us)"]) > 0
    assert int(by_name["ConvBatchnormFusionPass"]["Saves tasks"]) > 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--fusion", "off"),
            "compare needs at least two variants, not 1; give several to --fusion, --fusion_switch_file, "
            "--soc_version, --batch or --mode",
        ),
        (("--fusion", "off,grahp"), "did you mean graph?"),
        (("--fusion", "off,off"), "option --fusion names 'off' twice"),
        (("--fusion", ","), "option --fusion must name something"),
        (("--batch", "1,two"), "option --batch must list whole numbers of at least 1, not 'two'"),
        (("--batch", "0,1"), "option --batch must list whole numbers of at least 1, not '0'"),
        (("--soc_version", "Ascend310,Ascend301"), "did you mean Ascend310"),
        (("--ablate", "--fusion", "off,all"), "option --ablate takes one fusion level, switch file, chip, "),
        (
            ("--ablate", "--fusion_switch_file", "a.cfg,b.cfg"),
            "option --ablate takes one fusion level, switch ",
        ),
        (("--fusion_switch_file", "a.cfg,a.cfg"), "option --fusion_switch_file names 'a.cfg' twice"),
        (("--fusion_switch_file", "a.cfg,b.cfg"), "fusion switch file 'a.cfg' cannot be opened"),
        (("--ablate", "--fusion", "off"), "must be a level with passes to leave out"),
        (("--ablat",), "--ablate"),
    ],
)
def test_mistakes_are_explained_in_one_line(
    capsys: pytest.CaptureFixture[str], lenet: str, arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in fails(capsys, lenet, *arguments)


def test_output_that_is_a_file(capsys: pytest.CaptureFixture[str], lenet: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "option --output must be a folder" in fails(capsys, lenet, "--output", str(tmp_path / "file"))


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"])
def test_three_tasks_become_one_that_writes_the_output_once(soc: str) -> None:
    graph = matmul_bias_relu()
    models = {level: asim.compile(graph, soc=soc, fusion=level) for level in ("off", "all")}
    comparison = asim.compare(models, inputs=asim.random_inputs(models["off"]))
    table = comparison.phases()

    def core(variant: str) -> list[dict[str, object]]:
        """Rows of the product, the bias and the relu, whatever they became; not those that only change a
        format."""
        return [
            row
            for row in table.records()
            if row["Variant"] == variant and "transdata" not in str(row["Task"])
        ]

    unfused, fused = core("off"), core("all")
    assert [row["Task"] for row in unfused] == ["MatMul", "Bias", "Relu"]
    assert len(fused) == 1  # W of the product, E, R, W of bias and E, R of relu are gone
    assert sum(bool(row["Writes"]) for row in unfused) == 3
    assert sum(len(str(row["Writes"]).split(", ")) for row in fused) == 1
    for phase in ("Emit(us)", "Read(us)", "Write(us)"):
        assert sum(float(str(row[phase])) for row in fused) < sum(float(str(row[phase])) for row in unfused)
    saved = 2 * 2 * 512 * 512 * 2  # the output, written twice less and read twice less, in float16
    accesses = (
        [access for task in model.program.tasks for access in task.accesses] for model in models.values()
    )
    before, after = (
        sum(access.moved_bytes for access in found if access.region[0] not in "xwb") for found in accesses
    )
    # how often cores read the operands is up to the tiling, which may be another one
    assert before - after >= saved
    difference = comparison.figures[1].difference
    assert difference.relative is not None
    assert difference.relative < 2e-3
