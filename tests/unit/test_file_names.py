"""Names from models as names of files: none leads elsewhere, none is too long, and two stay two."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.advise import _write
from ascendsim.core.files import file_stem, write_whole

NAMES = (
    *("x" * 250, "x" * 251, "x" * 300 + "a", "x" * 300 + "b", "层" * 90, "层" * 91, "/" * 300, "../" * 100),
    *("..", ".", "a/b", "C:\\x", "a\0b", "a\nb", "\ud800" * 100, "é" * 200, "", " ", "con", "🙂" * 100),
)


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_file_can_have_the_name(name: str, tmp_path: Path) -> None:
    stem = file_stem(name)
    assert len(f"000_{stem}_changed.onnx".encode()) < 200
    for written in (f"000_{stem}.txt", f"{stem}_changed.onnx"):
        write_whole(tmp_path / written, b"content")
        assert (tmp_path / written).parent.resolve() == tmp_path.resolve()
    assert len(list(tmp_path.iterdir())) == 2


def test_long_names_stay_different() -> None:
    long = [name for name in NAMES if len(name.encode("utf-8", "surrogatepass")) > 160]
    assert len({file_stem(name) for name in long}) == len(long)
    assert file_stem("x" * 160) == "x" * 160


def test_a_network_with_a_long_name_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = asim.GraphBuilder("n" * 250)
    node = builder.op("Relu", builder.input("i" * 250, (2, 2)), name="r" * 250)
    builder.output(node, "o" * 250)
    graph = builder.build()
    _write(graph, tmp_path)
    asim.optimize(graph, dump=tmp_path / "dump")
    asim.simulate(asim.compile(graph)).save(tmp_path / "result")
    assert len(list(tmp_path.glob("n*_changed.onnx"))) == 1
