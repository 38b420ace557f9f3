"""What a user can get wrong ends in one line with a remedy and exit code 2: no traceback, nothing
half-written."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.cli.main import main


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the command line, expects exit code 2 and one line on standard error, and returns it."""
    code = main(arguments)
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith("ascendsim: error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def save(path: Path, nodes: list[onnx.NodeProto], **changes: object) -> str:
    """Writes a model with input x float[2,3] and output y, made of these nodes."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=changes.get("initializer"))  # type: ignore[arg-type]
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    return str(path)


@pytest.fixture
def good(tmp_path: Path) -> str:
    return save(tmp_path / "good.onnx", [helper.make_node("Relu", ["x"], ["y"], name="relu")])


def test_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "nothing.onnx" in fails(capsys, "run", str(tmp_path / "nothing.onnx"))


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x08\x07\x12\xff\xff\xff\xff\x0f", bytes(range(256)) * 8]
)
def test_file_that_is_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    assert "bad.onnx" in fails(capsys, "run", str(path))


def test_truncated_model(capsys: pytest.CaptureFixture[str], tmp_path: Path, models_dir: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes((models_dir / "lenet5.onnx").read_bytes()[:3000])
    fails(capsys, "run", str(path))


def test_folder_instead_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fails(capsys, "run", str(tmp_path))


def test_cyclic_graph(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    nodes.append(helper.make_node("Relu", ["b"], ["y"], name="third"))
    line = fails(capsys, "run", save(tmp_path / "cycle.onnx", nodes))
    assert "first" in line
    assert "second" in line


def test_two_gigabytes_claimed_in_a_small_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 29])
    huge.raw_data = b"\0" * 16
    path = save(
        tmp_path / "huge.onnx", [helper.make_node("Add", ["x", "w"], ["y"], name="add")], initializer=[huge]
    )
    assert "'w'" in fails(capsys, "run", path)


def test_unsupported_operators_are_listed_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="one", domain="acme"),
        helper.make_node("Quux", ["a"], ["y"], name="two", domain="acme"),
    ]
    path = tmp_path / "unknown.onnx"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    line = fails(capsys, "run", str(path))
    assert "acme::Frobnicate" in line
    assert "acme::Quux" in line
    assert "one" in line
    assert "two" in line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--soc_version", "Ascend301"), "Ascend310"),
        (("--soc_versoin", "Ascend310"), "--soc_version"),
        (("--batch", "-1"), "--batch"),
        (("--batch", "0"), "--batch"),
        (("--input_shape", "x:-2,3"), "--input_shape"),
        (("--input_shape", "z:2,3"), "'z'"),
        (("--input_shape", "x:2,3,4,5,6;x:1"), "twice"),
        (("--input_shape", "x"), "--input_shape"),
        (("--set", "l2.sise=16MiB"), "l2.size"),
        (("--set", "ai_cores=0"), "ai_cores"),
        (("--set", "dram.read_gb_per_s=0"), "dram.read_gb_per_s"),
        (("--set", "buffers.l0a=16"), "l0a"),
        (("--aicore_num", "99"), "aicore_num"),
        (("--precision_mode", "fp12"), "--precision_mode"),
        (("--input", "x=missing.npy"), "missing.npy"),
        (("--instructions", "rellu"), "relu"),
        (("--top", "many"), "--top"),
        (("--export", "msprof"), "--output"),
        (("--export", "msprov", "--output", "out"), "msprof"),
        (("--export", "opprof", "--output", "out"), "--instructions"),
    ],
)
def test_wrong_options(
    capsys: pytest.CaptureFixture[str], good: str, arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in fails(capsys, "run", good, *arguments)


def test_wrong_shape_of_an_input(capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    assert "[2, 3]" in fails(capsys, "run", good, "--input", f"x={tmp_path / 'x.npy'}")


def test_wrong_type_of_an_input(capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float64))
    assert "float32" in fails(capsys, "run", good, "--input", f"x={tmp_path / 'x.npy'}")


def test_pickled_input_is_refused(capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    fails(capsys, "run", good, "--input", f"x={tmp_path / 'x.npy'}")


def test_chip_that_cannot_be_run(capsys: pytest.CaptureFixture[str], good: str) -> None:
    from ascendsim import soc

    incomplete = [name for name in soc.names() if soc.load(name).missing]
    assert incomplete
    line = fails(capsys, "run", good, "--soc_version", incomplete[0])
    assert incomplete[0] in line


def test_nothing_is_left_behind(capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("a file in the way")
    fails(capsys, "run", good, "--output", str(target))
    assert target.read_text() == "a file in the way"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.onnx", "out"]


def test_an_output_below_a_file_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(("run", good, "--output", str(tmp_path / "file" / "out"))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "choose another folder" in captured.err


def test_an_error_while_writing_leaves_whole_files_only(
    capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.open

    def full(self: Path, *args: Any, **options: Any) -> IO[Any]:
        file = usual(self, *args, **options)
        if not self.name.endswith(".partial"):
            return file
        file.write(b"the first")
        file.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    assert "No space left" in fails(capsys, "run", good, "--output", str(tmp_path / "out"))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_an_interrupted_run_writes_nothing(
    capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ascendsim.api.running.run_machine", stop)
    assert main(("run", good, "--output", str(tmp_path / "out"))) == 130
    assert capsys.readouterr().err == "ascendsim: interrupted\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["model", "chip"])
def test_a_device_that_never_ends_is_not_read(
    capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path, option: str
) -> None:
    endless = tmp_path / ("endless.toml" if option == "chip" else "endless.onnx")
    endless.symlink_to("/dev/zero")
    arguments = (str(endless),) if option == "model" else (good, "--soc_version", str(endless))
    assert "is no regular file" in fails(capsys, "run", *arguments)


@pytest.mark.parametrize("shape", ["(1099511627776,)", "(2, 3", "(-2, 3)", "'x'"])
def test_an_array_file_with_a_damaged_header(
    capsys: pytest.CaptureFixture[str], good: str, tmp_path: Path, shape: str
) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    (tmp_path / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    )
    assert "x.npy" in fails(capsys, "run", good, "--input", f"x={tmp_path / 'x.npy'}")


def test_the_model_is_named_once(capsys: pytest.CaptureFixture[str], good: str) -> None:
    assert "no model" in fails(capsys, "run")
    assert "--model" in fails(capsys, "run", good, "--model", good)
    assert "--framework" in fails(capsys, "run", good, "--framework", "2")


def test_a_model_may_be_named_as_atc_does(capsys: pytest.CaptureFixture[str], good: str) -> None:
    assert (
        main(
            ("compile", f"--model={good}", "--framework=5", "--input_format=NCHW", "--soc_version=Ascend310")
        )
        == 0
    )
    assert "relu" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["save_graphs", "fusion_switch_file", "insert_op_conf"])
def test_a_path_that_is_none_is_told(option: str, models_dir: Path) -> None:
    graph = asim.load(models_dir / "lenet5.onnx")
    with pytest.raises(asim.InputError, match=rf"option {option} must be .*a path, not 5"):
        asim.compile(graph, **{option: 5})  # type: ignore[arg-type]
