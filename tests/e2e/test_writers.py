"""Whoever writes a file leaves alone what stands at its path: devices, pipes, links, modes, owners, names."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.core.files import open_whole, write_whole
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Graph
from ascendsim.passes.precision.lists import write_keep, write_mix
from ascendsim.plot.figures import figure_of, new_axes, save_figure
from ascendsim.sweep.store import DONE, Answer, Store
from tests.support.standing import KINDS, Writer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of Unix")


@cache
def graph() -> Graph:
    builder = asim.GraphBuilder("small")
    weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    builder.output(
        builder.op("Relu", builder.op("MatMul", builder.input("x", (4, 8)), weights, name="product")), "y"
    )
    return builder.build()


@cache
def model() -> asim.CompiledModel:
    return asim.compile(graph(), soc="Ascend310")


@cache
def result() -> Any:
    return asim.simulate(model())


@cache
def quantised() -> Any:
    return asim.quantize(graph(), [{"x": np.ones((4, 8), np.float32)}])


def command(*words: str) -> None:
    """A command, whose refusal is raised as Python has it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(words)
    if code == 2:
        raise InputError(said.getvalue().strip(), "")
    assert code == 0


def half(path: Path, error: Exception | None = None) -> None:
    with open_whole(path) as stream:
        stream.write(b"first, ")
        if error is not None:
            raise error
        stream.write(b"second")


@asc.jit
def nearly_nothing() -> None:
    """A kernel of one instruction."""
    asc.duplicate(asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64), 0.0, 64)


@cache
def kernel_result() -> asim.KernelResult:
    return asim.run_kernel(nearly_nothing, 1, soc="Ascend910B1")


@cache
def page() -> Any:
    return result().report()


@cache
def network() -> str:
    path = Path(tempfile.mkdtemp()) / "small.onnx"
    path.write_bytes(export_onnx(graph()))
    return str(path)


# By name: a writer, and the ending of its file
WRITERS: dict[str, tuple[Writer, str]] = {
    "write_whole": (lambda path: write_whole(path, b"content"), ""),
    "open_whole": (half, ""),
    "Table.to_csv": (lambda path: result().op_summary().to_csv(path), ".csv"),
    "save_trace": (lambda path: result().save_trace(path), ".json"),
    "save_trace.gz": (lambda path: result().save_trace(path), ".gz"),
    "plot": (lambda path: save_figure(figure_of(new_axes(2, 1)), path), ".svg"),
    "report": (lambda path: page().save(path), ".html"),
    "save": (lambda path: asim.save(model(), path), ".om"),
    "quantize": (lambda path: quantised().save(path), ".onnx"),
    "kernel": (lambda path: kernel_result().save_trace(path), ".json"),
    "optimize --save": (lambda path: command("optimize", network(), "--save", str(path)), ".onnx"),
    "keep_dtype": (lambda path: write_keep(path, ["product"]), ".cfg"),
    "modify_mixlist": (lambda path: write_mix(path, ["MatMul"]), ".json"),
}


@cache
def plain(name: str) -> bytes:
    """What a writer writes where nothing stands."""
    write, ending = WRITERS[name]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / f"out{ending}")
        return (Path(folder) / f"out{ending}").read_bytes()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", WRITERS)
def test_what_stands_at_the_path_stays_what_it_is(
    name: str, kind: Callable[[Writer, Path], bytes | None], tmp_path: Path
) -> None:
    write, ending = WRITERS[name]
    got = kind(write, tmp_path / f"out{ending}")
    assert got is None or got == plain(name)
    assert not list(tmp_path.rglob("*.partial"))


def linked(folder: Path, names: list[Path]) -> Path:
    """A folder in which each file of another one is a link to a file elsewhere with an old text."""
    for number, name in enumerate(names):
        (folder / "into" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"kept{number}").write_text("old")
        (folder / "into" / name).symlink_to(folder / f"kept{number}")
    return folder / "into"


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: result().save(folder),
        lambda folder: asim.compare({"a": result(), "b": result()}).save(folder),
        lambda folder: result().export(folder, "kineto"),
        lambda folder: command("run", network(), "--output", str(folder)),
        lambda folder: command("advise", network(), "--trials", "0", "--output", str(folder)),
    ],
    ids=["Result.save", "Comparison.save", "export", "run", "advise"],
)
def test_files_in_a_folder_may_be_links(write: Callable[[Path], object], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first)
    names = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    lasting = [name for name in names if "plog" not in name.parts]  # its name has the time of day
    into = linked(second, lasting)
    write(into)
    assert lasting
    for number, name in enumerate(lasting):
        assert (into / name).is_symlink(), name
        assert (tmp_path / "second" / f"kept{number}").read_bytes() == (
            tmp_path / "first" / name
        ).read_bytes()


def test_outputs_of_an_earlier_run_go_and_nothing_else_does(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command("run", network(), "--output", str(folder))
    assert (folder / "outputs.npz").is_file()
    command("run", network(), "--output", str(folder), "--values", "off")
    assert not (folder / "outputs.npz").exists()
    (folder / "outputs.npz").symlink_to("/dev/null")
    command("run", network(), "--output", str(folder), "--values", "off")
    assert (folder / "outputs.npz").is_symlink()


def test_outputs_may_have_any_name(tmp_path: Path) -> None:
    """Also those of arguments of numpy's writer, and two that differ in what is no letter of a file name."""
    names = ("file", "args", "allow_pickle", "a/b", "a_b", "a_b_2", "中", "n" * 300, "../up")
    builder = asim.GraphBuilder("names")
    x = builder.input("x", (2, 3))
    for number, name in enumerate(names):
        builder.output(builder.op("Add", x, np.full((1,), number, np.float32)), name)
    (tmp_path / "names.onnx").write_bytes(export_onnx(builder.build()))
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    command(
        "run", str(tmp_path / "names.onnx"), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path)
    )
    with np.load(tmp_path / "outputs.npz", allow_pickle=False) as found:
        assert sorted(float(found[name].max()) for name in found) == [float(n) for n in range(len(names))]
        assert float(found["file"].max()) == 0.0
        assert not any("/" in name for name in found)


def test_a_store_lies_at_the_end_of_links_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("real.db")
    with Store(tmp_path / "link.db") as store:
        store.put({}, Answer("k", DONE, {"a": 1}))
        with pytest.raises(InputError, match="is being written by process"):
            Store(tmp_path / "real.db")
    assert (tmp_path / "link.db").is_symlink()
    (tmp_path / "real.db").chmod(0o444)
    with pytest.raises(InputError, match="store .*it is read-only"):
        Store(tmp_path / "link.db")
    with pytest.raises(InputError, match="no regular file"):
        Store("/dev/null")
    assert not Path("/dev/null.lock").exists()


def test_a_file_where_the_lock_would_be_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s.db.lock").write_text("notes of mine")
    with pytest.raises(InputError, match="for its lock, and a file of something else"):
        Store(tmp_path / "s.db")
    assert (tmp_path / "s.db.lock").read_text() == "notes of mine"


def test_a_file_that_cannot_be_replaced_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is mounted by itself, as containers do, is busy."""
    path = tmp_path / "mounted"
    path.write_bytes(b"a longer text from before")

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Path, "replace", busy)
    before = path.stat().st_ino
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "twin").hardlink_to(tmp_path / "old")
    for name in ("old", "twin", "new"):
        with pytest.raises(InputError, match="no more"):
            half(tmp_path / name, InputError("there is", "no more"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "twin"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_two_threads_write_one_file(tmp_path: Path) -> None:
    texts = [bytes([65 + number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_whole(tmp_path / "one", text), texts))
    assert (tmp_path / "one").read_bytes() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("shape", ["file", "pipe", "link to a file", "circle"])
def test_what_is_in_the_way_of_a_folder_is_named(shape: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    if shape == "pipe":
        os.mkfifo(place)
    elif shape == "circle":
        place.symlink_to("out")
    else:
        (tmp_path / ("out" if shape == "file" else "kept")).write_bytes(b"old")
        if shape != "file":
            place.symlink_to("kept")
    before = place.lstat()
    with pytest.raises(InputError, match=r"output folder .*(Not a directory|symbolic links)"):
        result().save(place)
    assert os.path.samestat(place.lstat(), before)


def test_a_folder_at_the_end_of_a_link_is_made(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("there/below")
    result().save(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "there" / "below" / "trace.json").is_file()
