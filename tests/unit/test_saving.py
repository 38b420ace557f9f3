"""Saved models: exactly what was compiled comes back, and no damage gets past the reader."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.saving_manifest import program_hash
from ascendsim.core.errors import AscendSimError, InputError

VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"soc": "Ascend310P3", "multi_stream_parallel_mode": "MainStream:3", "disable_reuse_memory": True},
    {"fusion": "graph-kernel", "set": {"l2.size": "2MiB"}},
    {"schedule": "eager", "precision_mode": "force_fp32", "soc": "Ascend910B1"},
    {"schedule": "host", "options": {"l1_fusion": True, "l2_batch": "split"}},
)


@pytest.fixture(scope="module")
def lenet() -> asim.CompiledModel:
    return asim.compile(asim.load("tests/data/models/lenet5.onnx", weights="random"))


@pytest.fixture(scope="module")
def saved(lenet: asim.CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asim.save(lenet, tmp_path_factory.mktemp("saved") / "lenet.asim")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(("lenet5", settings) for settings in VARIANTS),
        ("bert_tiny_s64", VARIANTS[0]),
        *(pytest.param("bert_tiny_s64", settings, marks=pytest.mark.slow) for settings in VARIANTS[1:]),
    ],
)
def test_a_loaded_model_runs_as_the_saved_one_did(
    tmp_path: Path, name: str, settings: dict[str, object]
) -> None:
    model = asim.compile(asim.load(f"tests/data/models/{name}.onnx", weights="random"), **settings)  # type: ignore[arg-type]
    loaded = asim.load_compiled(asim.save(model, tmp_path / "m.asim"))
    assert program_hash(loaded.program) == program_hash(model.program)
    inputs = asim.random_inputs(model)
    first, second = asim.run(model, inputs), asim.run(loaded, inputs)
    assert first.trace == second.trace
    assert all(
        np.array_equal(array, second.outputs[key], equal_nan=True) for key, array in first.outputs.items()
    )
    assert list(first.op_summary()) == list(second.op_summary())
    assert first.summary() == second.summary()


def test_models_without_values_of_weights_can_be_timed(tmp_path: Path) -> None:
    model = asim.compile(asim.load("tests/data/models/lenet5.onnx"))
    loaded = asim.load_compiled(asim.save(model, tmp_path / "m.asim"))
    assert asim.simulate(loaded).trace == asim.simulate(model).trace
    with pytest.raises(AscendSimError, match="has no values"):
        asim.run(loaded, asim.random_inputs(loaded))


def test_equal_models_give_equal_files(saved: Path, lenet: asim.CompiledModel, tmp_path: Path) -> None:
    assert asim.save(lenet, tmp_path / "again.asim").read_bytes() == saved.read_bytes()


def test_what_is_saved_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    assert asim.save(asim.load_compiled(saved), tmp_path / "again.asim").read_bytes() == saved.read_bytes()


def outcome(path: Path) -> str:
    """ "" if the file loads, the message if it is refused; anything else is an error of the test."""
    try:
        asim.load_compiled(path)
    except AscendSimError as error:
        return str(error)
    return ""


def test_no_flipped_byte_gets_past_the_reader(saved: Path, tmp_path: Path) -> None:
    content, broken = saved.read_bytes(), tmp_path / "broken.asim"
    draw = random.Random(5)
    ends = [*range(64), *range(len(content) - 400, len(content))]  # headers, where most depends on every byte
    for place in [*draw.sample(ends, 24), *draw.sample(range(len(content)), 12)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        broken.write_bytes(damaged)
        message = outcome(broken)
        if message:
            assert "broken.asim" in message
        else:  # a byte that says nothing: a date, say
            assert program_hash(asim.load_compiled(broken).program) == program_hash(
                asim.load_compiled(saved).program
            )


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved: Path, tmp_path: Path, share: float) -> None:
    content, short = saved.read_bytes(), tmp_path / "short.asim"
    short.write_bytes(content[: int(len(content) * share)])
    assert "is no saved model, or damaged" in outcome(short)


def rewritten(source: Path, target: Path, **changes: object) -> Path:
    """The file with other values in its manifest and correct checksums, as another program might write it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                facts = {key: value for key, value in changes.items() if not isinstance(value, bytes)}
                content = json.dumps({**json.loads(content), **facts}).encode()
            if name in changes:
                content = changes[name]  # type: ignore[assignment]
            new.writestr(name, content)
    return target


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 3}, "has version 3 of the format, this release reads up to 2; use a newer release"),
        ({"format": "something"}, "is no saved model of ascendsim"),
        ({"mode": "lazy"}, "manifest.mode must be one of sink, host, eager"),
        ({"program": "0" * 64}, "was saved by release 0.1.0, whose programs differ"),
        ({"soc": {}}, "manifest.soc must have exactly"),
        ({"weights": []}, "must describe the"),
        ({"l2_placed": [1]}, r"manifest.l2_placed\[0\] must be of type str"),
        ({"origins": {"nothing": {"scope": 1}}}, "is not in the graph"),
        ({"graph.txt": b"graph nothing"}, "cannot be rebuilt"),
        ({"graph.txt": b"\xff\xfe"}, "holds no model"),
        ({"weights.bin": b""}, "does not lie within the file"),
    ],
)
def test_content_that_makes_no_sense_is_refused(
    saved: Path, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    with pytest.raises(InputError, match=expected) as refused:
        asim.load_compiled(rewritten(saved, tmp_path / "other.asim", **changes))
    assert "other.asim" in str(refused.value)


def test_random_changes_of_the_manifest_never_raise_foreign_errors(saved: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    draw = random.Random(3)
    odd = [None, True, -1, 0, 1 << 70, 0.5, "", "x", [], {}, [[]]]
    for _ in range(30):
        data, key = manifest, draw.choice(list(manifest))
        changed = json.loads(json.dumps(manifest))
        data = changed
        while isinstance(data[key], dict) and data[key] and draw.random() < 0.8:
            data = data[key]
            key = draw.choice(list(data))
        data[key] = draw.choice(odd)
        outcome(rewritten(saved, tmp_path / "odd.asim", **changed))


def test_compressed_entries_are_refused(saved: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.asim"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert "has an entry manifest.json that no saved model has" in outcome(packed)


def test_what_cannot_be_read_or_written_is_said(
    lenet: asim.CompiledModel, saved: Path, tmp_path: Path
) -> None:
    assert "cannot be read (No such file" in outcome(tmp_path / "missing.asim")
    with pytest.raises(InputError, match="cannot be written"):
        asim.save(lenet, tmp_path / "missing" / "m.asim")
    with pytest.raises(InputError, match="argument model must be a CompiledModel, not Graph"):
        asim.save(lenet.graph, tmp_path / "m.asim")  # type: ignore[arg-type]
    older = tmp_path / "older.asim"
    shutil.copy(saved, older)
    assert outcome(older) == ""
