"""Compiled modules, read and interpreted without the library that they call."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import InputError, KernelError
from ascendsim.triton import interpreter
from ascendsim.triton.interpreter import Interpreter, called
from ascendsim.triton.memrefs import Memref
from ascendsim.triton.reading import read_module
from ascendsim.triton.scalars import arithmetic, comparison, conversion, wrapped

DATA = Path("tests/data/triton")


class FakeCore:
    """Writes down what it is asked for; scalars in memory are 1."""

    sub_block = 0

    def __init__(self, block: int) -> None:
        self.block = block
        self.rows: list[tuple[str, tuple[int, ...]]] = []
        self.calls: list[tuple[str, tuple[int, ...]]] = []

    def emit(self, name, words):
        self.rows.append((name, words))
        return 0

    def call(self, name, words):
        self.calls.append((name, tuple(words)))

    def cross(self, name, flag, pipe, words):
        raise AssertionError

    def element(self, address, kind):
        return 1.0

    def put(self, address, kind, value):
        raise AssertionError

    def start(self, space):
        return space << 44


def run(name, block, scalars, grid):
    module = read_module((DATA / f"{name}.mlir").read_text())
    (function,) = module.entries
    core = FakeCore(block)
    numbers = iter([*scalars, *grid, 0, 0, 0])
    given = {}
    for place, argument in enumerate(function.arguments):
        memory = argument.type.startswith("memref")
        given[argument.name] = (
            Memref(place << 20, 0, [1 << 18], [1], "f32")
            if memory
            else 0
            if "ffts" in argument.attributes
            else next(numbers)
        )
    Interpreter(module, function, core, math.prod(grid)).run(given)
    return module, function, core


@pytest.mark.parametrize("name", ["add", "softmax", "matmul"])
def test_a_module_is_read_whole(name):
    module = read_module((DATA / f"{name}.mlir").read_text())
    (function,) = module.entries
    assert function.name == name
    assert function.core == ("AIC" if name == "matmul" else "AIV")
    assert called(function.body) == set(module.declared)
    assert module.libraries["aiv"] == "lib/meta_op.aiv.bc"
    assert f"{name}_infer_task_type_function" in module.functions


def test_the_last_block_takes_what_is_left():
    _, _, whole = run("add", 0, [98432], (97, 1, 1))
    _, _, last = run("add", 96, [98432], (97, 1, 1))
    names = ["load_gm_to_ubuf_1d_float"] * 2 + ["vadd_1d_float", "store_ubuf_to_gm_1d_float"]
    assert [name for name, _ in whole.calls] == names
    # 128 of 1024 numbers: both inputs are padded first
    assert [name for name, _ in last.calls if name.startswith("broadcast")] == [
        "broadcast_scalar_float_to_1d"
    ] * 2
    assert len(last.rows) > len(whole.rows)


def test_a_loop_runs_as_often_as_its_block_has_rows():
    trips = [
        sum(
            name == "vexp_1d_float" for name, _ in run("softmax", block, [781, 100, 781], (48, 1, 1))[2].calls
        )
        for block in (0, 3, 4, 47)
    ]
    assert trips == [3, 3, 2, 2]


def test_flags_are_set_as_often_as_they_are_waited_for():
    for name, scalars, grid in (
        ("softmax", [781, 100, 781], (48, 1, 1)),
        ("matmul", [256, 512, 192], (2, 2, 1)),
    ):
        _, _, core = run(name, 1, scalars, grid)
        for kind in ("SET", "WAIT"):
            assert any(row[0].startswith(kind) for row in core.rows)
        if name == "softmax":
            sets = sorted(words for one, words in core.rows if one == "SET.FLAG.IMM")
            assert sets == sorted(words for one, words in core.rows if one == "WAIT.FLAG.IMM")


def test_carried_values_of_a_loop_move_on():
    _, _, core = run("matmul", 3, [256, 512, 192], (2, 2, 1))
    loads = [name for name, _ in core.calls]
    assert loads.count("nd2nz_half") == 2 * 3
    assert loads[-1].startswith("fixpipe")


def _text(body: str) -> str:
    head = (
        "func.func @k(%arg0: i32) attributes {hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, "
    )
    core = "hivm.func_core_type = #hivm.func_core_type<AIV>"
    return f"module {{\n  {head}{core}}} {{\n{body}\n    return\n  }}\n}}"


def _run(body: str, given: int) -> FakeCore:
    module = read_module(_text(body))
    core = FakeCore(0)
    Interpreter(module, module.entries[0], core).run({"%arg0": given})
    return core


def test_an_operation_that_is_not_known_is_named():
    with pytest.raises(KernelError, match="compiled operation vendor.riddle cannot be run yet"):
        _run("    vendor.riddle %arg0 : i32", 1)


def test_a_loop_that_does_not_end_is_found(monkeypatch):
    monkeypatch.setattr(interpreter, "MOST_STEPS", 1000)
    loop = """    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %arg0 step %c1 : i32 {
      %0 = arith.addi %i, %c1 : i32
    }"""
    assert len(_run(loop, 100).rows) == 200
    with pytest.raises(KernelError, match="runs more than 1,000 steps"):
        _run(loop, 2000)


def test_while_and_if_hand_values_on():
    text = """    %c1 = arith.constant 1 : i32
    %0 = scf.while (%x = %arg0) : (i32) -> i32 {
      %1 = arith.cmpi sgt, %x, %c1 : i32
      scf.condition(%1) %x : i32
    } do {
    ^bb0(%y: i32):
      %2 = arith.divsi %y, %c1 : i32
      %3 = arith.subi %2, %c1 : i32
      scf.yield %3 : i32
    }
    %4 = arith.cmpi eq, %0, %c1 : i32
    scf.if %4 {
      hivm.hir.pipe_barrier[<PIPE_V>]
    } else {
      hivm.hir.pipe_barrier[<PIPE_ALL>]
    }"""
    assert _run(text, 5).rows[-1] == ("BARRIER", (1,))
    assert _run(text, -5).rows[-1] == ("BARRIER", (6,))


def test_a_call_must_fit_the_library():
    module = read_module((DATA / "add.mlir").read_text())
    signatures = {"vadd_1d_float": ("ptr", "ptr", "float")}
    with pytest.raises(
        KernelError, match=r"call of vadd_1d_float must give what the library takes \(ptr, ptr, float\)"
    ):
        Interpreter(module, module.entries[0], FakeCore(0), 1, signatures)


@pytest.mark.parametrize("bad", ["", "module {}", _text("    %0 = arith.constant 1 : i32")[:-20]])
def test_what_is_no_module_is_refused(bad):
    with pytest.raises(InputError, match="compiled module"):
        read_module(bad)


SIGNED = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


@given(st.sampled_from(sorted(SIGNED)), st.data())
def test_integers_wrap_as_the_types_do(kind, data):
    limits = np.iinfo(SIGNED[kind])
    a, b = (data.draw(st.integers(int(limits.min), int(limits.max))) for _ in "ab")
    with np.errstate(over="ignore"):
        x, y = np.array([a], SIGNED[kind]), np.array([b], SIGNED[kind])
        for name, numpy in (
            ("addi", np.add),
            ("subi", np.subtract),
            ("muli", np.multiply),
            ("xori", np.bitwise_xor),
        ):
            assert arithmetic(name, kind)(a, b) == numpy(x, y)[0]
    unsigned = x.view(f"u{x.itemsize}"), y.view(f"u{y.itemsize}")
    assert comparison("cmpi", "ult", kind)(a, b) == (unsigned[0] < unsigned[1])[0]
    assert comparison("cmpi", "slt", kind)(a, b) == (a < b)
    assert conversion("extui", kind, "i64")(a) == wrapped(int(unsigned[0][0]), "i64")
    if b and (a, b) != (int(limits.min), -1):
        assert arithmetic("divsi", kind)(a, b) == math.trunc(a / b) if abs(a) < 1 << 50 else True
        assert arithmetic("divsi", kind)(a, b) * b + arithmetic("remsi", kind)(a, b) == a


def test_comparisons_with_nan():
    ordered, either = comparison("cmpf", "olt", "f32"), comparison("cmpf", "ult", "f32")
    assert (ordered(math.nan, 1.0), either(math.nan, 1.0), ordered(0.0, 1.0)) == (0, 1, 1)
