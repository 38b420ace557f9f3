"""Launches of Triton kernels: what is refused, and with the vendor's compilers values, time, errors."""

from __future__ import annotations

import importlib
import json
import subprocess
import warnings

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import AscendSimError, CompileError, InputError, KernelError
from ascendsim.triton import kit, setup
from ascendsim.triton.arguments import Arguments
from ascendsim.triton.compiling import STAND_IN, _keep, _kept
from ascendsim.triton.launch import _recorded, blocks_of, launched
from ascendsim.triton.source import bound, source_of


def _compilers_lack() -> str:
    try:
        kit.compilers()
    except AscendSimError as error:
        return str(error)
    return ""


LACKING = _compilers_lack()
needs_compilers = pytest.mark.skipif(bool(LACKING), reason=LACKING)


@pytest.fixture
def kernels():
    from ascendsim.triton import provide

    provide()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the vendor's own sources
        importlib.import_module("triton.backends.ascend.compiler")
    return importlib.import_module("tests.support.triton_kernels")


def scale(x, n, FACTOR=2):
    return helper(x) * n * FACTOR * LEVEL


class Jitted:
    """As `@triton.jit` leaves a function."""

    def __init__(self, fn):
        self.fn = fn


@Jitted
def helper(x):
    return np.abs(x) + LEVEL


LEVEL = 3


@pytest.mark.parametrize("grid", [0, (), (0,), (1, 2, 3, 4), (1.5,), "8", (True,)])
def test_a_grid_is_one_to_three_positive_integers(grid):
    with pytest.raises(InputError, match="grid of kernel 'k' must be one to three positive integers"):
        blocks_of("k", grid, {})


def test_grids_in_all_their_forms():
    assert blocks_of("k", 7, {}) == [7, 1, 1]
    assert blocks_of("k", lambda given: (given["n"] // 4, 2), {"n": 16}) == [4, 2, 1]
    with pytest.raises(InputError, match="at most 65,535 programs, not 65,536"):
        blocks_of("k", (256, 256), {})
    with pytest.raises(InputError, match="needs a grid"):
        launched(scale, None)


def test_arguments_are_memory_and_numbers():
    whole = np.zeros((4, 6), np.float16)
    made = Arguments("k", {"x": whole, "same": whole, "n": np.int32(5), "m": True})
    assert made.of(["same", "x", "n", "m"]) == ([0, 0], [5, 1])
    assert made.seen()["x"] == {"kind": "array", "dtype": "float16"}
    part = Arguments("k", {"part": whole[1:3, ::2]})
    assert part.arrays[0].size == 1 + 6 + 4  # from its first element to its last
    result = part.arrays[0].copy()
    result[:] = np.array([1.0], np.float16).view(np.uint16)[0]
    part.fill([result])
    assert whole[1, 0] == 1
    assert whole[0].sum() == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros(3, np.complex64), "must have one of the types float16"),
        (np.zeros(3)[::-1], "in rising order"),
        ([1, 2], "must be an array, a tensor on the CPU, a number or a type of Triton, not list"),
    ],
)
def test_what_a_kernel_cannot_take_is_refused(value, said):
    with pytest.raises(InputError, match=said):
        Arguments("k", {"x": value})


def test_memory_that_overlaps_and_memory_that_is_read_only():
    whole = np.zeros(8, np.float32)
    with pytest.raises(InputError, match="'b' of kernel 'k' shares a part of its memory"):
        Arguments("k", {"a": whole, "b": whole[2:]})
    whole.flags.writeable = False
    made = Arguments("k", {"a": whole})
    made.fill([made.arrays[0].copy()])
    with pytest.raises(AscendSimError, match="writes a, which is read only"):
        made.fill([made.arrays[0] + 1])


def test_the_source_of_a_kernel_holds_what_it_names():
    text = source_of(scale)
    assert "LEVEL = 3" in text
    assert "import numpy as np" in text
    assert text.index("@triton.jit\ndef helper") < text.index("@triton.jit\ndef scale")
    assert "Jitted" not in text
    compile(text, "made", "exec")
    assert bound(scale, (1,), {"n": 2, "multibuffer": False}) == (
        {"x": 1, "n": 2, "FACTOR": 2},
        {"multibuffer": False},
    )
    with pytest.raises(
        InputError, match="kernel 'scale' cannot be called so: missing a required argument: 'n'"
    ):
        bound(scale, (1,), {})


def test_other_chips_and_missing_compilers_are_said_in_a_line(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="families Ascend910B and Ascend910_93, not Ascend310P3"):
        asim.run_triton(scale, 1, 2, grid=1, soc="Ascend310P3")
    monkeypatch.setattr(kit, "check_platform", lambda: None)
    with pytest.raises(InputError, match="need the vendor's compilers; run: ascendsim kernel setup-triton"):
        asim.run_triton(scale, 1, 2, grid=1, compilers_folder=tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"versions": {"triton-ascend": "3.1"}}))
    with pytest.raises(InputError, match="must be triton-ascend 3.2.0, ascendnpu-ir 1.2.0"):
        kit.compilers(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"versions": kit.VERSIONS, "sizes": {}}))
    with pytest.raises(InputError, match="lack bishengir-compile, or it is damaged"):
        kit.compilers(tmp_path)


def test_another_platform_is_said(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(InputError, match="run on Linux x86_64, not"):
        kit.check_platform()


def test_a_pip_that_fails_is_said_in_a_line(monkeypatch, tmp_path):
    def failing(command, **named):
        assert command[1:4] == ["-m", "pip", "download"]
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: No matching distribution\n")

    monkeypatch.setattr(setup, "check_platform", lambda: None)
    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(InputError, match="pip download of the compilers failed: ERROR: No matching"):
        setup.set_up(tmp_path)
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    ("code", "text", "said"),
    [(-11, "", "SIGSEGV"), (1, "Traceback\nValueError: no\n", "ValueError: no")],
)
def test_a_library_that_crashes_is_one_line(monkeypatch, tmp_path, code, text, said):
    def crashing(command, **named):
        return subprocess.CompletedProcess(command, code, "", text)

    monkeypatch.setattr(subprocess, "run", crashing)
    with pytest.raises(KernelError, match=f"kernel 'k' stopped the vendor's library: {said}$"):
        _recorded("k", {}, [np.zeros(2)], tmp_path / "record")


def test_modules_in_the_cache_are_checked(tmp_path):
    scratch, kept = tmp_path / "scratch", tmp_path / "cache" / "key"
    scratch.mkdir()
    (scratch / "module.mlir").write_text("module {}")
    assert _kept(kept) is None
    _keep(scratch, kept, {"parameters": ["x", "n"]})
    found = _kept(kept)
    assert found is not None
    assert (found.parameters, found.kept, found.module.read_text()) == (("x", "n"), True, "module {}")
    (kept / "module.mlir").write_text("module { }")  # what a disk has damaged is made anew
    assert _kept(kept) is None


def test_the_stand_in_keeps_the_module_that_it_is_handed(tmp_path):
    script, module = tmp_path / "hivmc", tmp_path / "in.mlir"
    script.write_text(STAND_IN)
    script.chmod(0o755)
    module.write_text("module {}")
    subprocess.run([script, module, "--some=flag", "-o", tmp_path / "out"], check=True)
    assert (tmp_path / "out.o").read_text() == "module {}"
    said = subprocess.run([script, "--version"], check=True, capture_output=True, text=True)
    assert said.stdout.startswith("hivmc 1.2.0")


@needs_compilers
@pytest.mark.slow
def test_values_and_time_of_vector_kernels(kernels):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(9000).astype(np.float32) for _ in "xy")
    z = np.zeros_like(x)
    result = asim.run_triton(kernels.add[(9,)], x, y, z, 9000, BLOCK=1024)
    np.testing.assert_array_equal(z, x + y)
    assert sum(group.count for group in result.program.tasks[0].groups) == 9
    assert result.duration_us > 0
    again = asim.run_triton(kernels.add[(9,)], x, y, z, 9000, BLOCK=1024, values=False)
    assert again.trace == result.trace

    rows = rng.standard_normal((50, 333)).astype(np.float32)
    out = np.zeros_like(rows)
    asim.run_triton(kernels.softmax[(48,)], out, rows, 333, 50, 333, BLOCK=512)
    whole = np.exp(rows - rows.max(1, keepdims=True))
    np.testing.assert_allclose(out, whole / whole.sum(1, keepdims=True), rtol=1e-5)


@needs_compilers
@pytest.mark.slow
def test_values_of_cube_and_mixed_kernels(kernels):
    rng = np.random.default_rng(1)
    a, b = (
        rng.standard_normal((256, 128)).astype(np.float16),
        rng.standard_normal((128, 256)).astype(np.float16),
    )
    c = np.zeros((256, 256), np.float16)
    asim.run_triton(kernels.matmul[(2, 2)], a, b, c, 256, 256, 128, BM=128, BN=128, BK=64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-3)
    q, k, v = (rng.standard_normal((128, 64)).astype(np.float16) for _ in "qkv")
    out = np.zeros_like(q)
    result = asim.run_triton(kernels.attention[(2,)], q, k, v, out, 0.125, 128, D=64, BM=64, BN=64)
    scores = np.exp(q.astype(np.float32) @ k.astype(np.float32).T * 0.125)
    wanted = scores / scores.sum(1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(out, wanted, atol=2e-3)
    assert {group.block.core.value for group in result.program.tasks[0].groups} == {"CUBE", "VECTOR"}


@needs_compilers
@pytest.mark.slow
def test_a_script_runs_as_it_is(kernels):
    x = np.arange(300, dtype=np.float32)
    y = np.zeros_like(x)
    with asim.triton.simulated(soc="Ascend910B3") as launches:
        kernels.scaled_rows[(3,)](x, y, 100, BLOCK=128)
    np.testing.assert_array_equal(y, 3 * x)
    (result,) = launches
    assert result.soc.name == "Ascend910B3"


@needs_compilers
@pytest.mark.slow
def test_what_the_compilers_refuse_is_one_line(kernels):
    x = np.zeros(1 << 17, np.float32)
    with pytest.raises(
        CompileError, match=r"'broken' does not compile \(stage triton\): .*nobody_knows_this"
    ) as one:
        asim.run_triton(kernels.broken[(1,)], x, BLOCK=64)
    with pytest.raises(CompileError, match=r"'too_much' does not compile .*ub overflow") as two:
        asim.run_triton(kernels.too_much[(1,)], x, x.copy(), BLOCK=1 << 17)
    assert "\n" not in str(one.value) + str(two.value)
