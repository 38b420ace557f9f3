"""The operation library on the host, by a small library of our own in the same form."""

from __future__ import annotations

import sys

import llvmlite.binding as llvm
import pytest

from ascendsim_kernels.hivm_text import LibraryError, hosted, read

TEXT = """
define void @_mlir_ciface_twice(ptr %m, half %s, i32 %n) {
entry:
  %c = call i64 @llvm.hivm.GET.CTRL()
  %d = call i64 @llvm.hivm.SBITSET1(i64 %c, i64 56)
  call void @llvm.hivm.SET.CTRL(i64 %d)
  %p = load ptr addrspace(6), ptr %m
  call void @inner(ptr addrspace(6) %p, half %s, i32 %n, ptr null)
  ret void
}
define internal void @inner(ptr addrspace(6) %p, half %s, i32 %n, ptr %none) {
  %empty = icmp eq ptr %none, null
  br i1 %empty, label %go, label %end
go:
  %v = load float, ptr addrspace(6) %p
  %w = fptosi float %v to i64
  call void @llvm.hivm.VADDS.f16(ptr addrspace(6) %p, half %s, i64 %w)
  %x = sext i32 %n to i64
  call void @llvm.hivm.BARRIER(i64 %x)
  br label %end
end:
  ret void
}
define void @_mlir_ciface_unused() {
  call void @elsewhere()
  ret void
}
declare i64 @llvm.hivm.GET.CTRL()
declare i64 @llvm.hivm.SBITSET1(i64, i64)
declare void @llvm.hivm.SET.CTRL(i64)
declare void @llvm.hivm.VADDS.f16(ptr addrspace(6), half, i64)
declare void @llvm.hivm.BARRIER(i64)
declare void @elsewhere()
"""
SCRIPT = """
import ctypes, sys
from pathlib import Path
from ascendsim_kernels.hivm_library import UB, Library, Memories, printed, start_of
folder = Path(sys.argv[1])
printed(folder / "own.bc", folder / "own.ll")
memories = Memories(2, 4096)
for core, value in ((0, 5.0), (1, 7.0)):
    memories.turn(core)
    memories.bytes[UB].view("float32")[2] = value
memories.turn(0)
for again in (0, 1):  # from source, then from the cache
    library = Library(folder / "own.ll", ["twice"], folder / "objects")
    rows = []
    library.hook = lambda name, words: rows.append((name, words)) or 0
    cell = ctypes.c_uint64(start_of(UB) + 8)
    library.call("twice", [ctypes.addressof(cell), 0x3C00, (1 << 32) - 3])
    seen = [(name, [hex(word) for word in words]) for name, words in rows]
    print(library.signatures, seen, library.control.value)
memories.turn(1)
rows.clear()
library.call("twice", [ctypes.addressof(cell), 0, 0])
print(rows[2][1][2])
def fails(name, words):
    raise KeyError(name)
library.hook = fails
try:
    library.call("twice", [ctypes.addressof(cell), 0, 0])
except KeyError as error:
    print("raised", error)
print(len(list((folder / "objects").iterdir())))
"""


def test_entry_points_run_and_intrinsics_are_reported(tmp_path):
    import subprocess

    (tmp_path / "own.bc").write_bytes(llvm.parse_assembly(TEXT).as_bitcode())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    first, again, other, raised, kept = done.stdout.splitlines()
    place = hex((6 << 44) + 8)
    rows = [
        ("SET.CTRL", ["0x100000000000000"]),
        ("S.LOAD", [place, "0x20"]),
        ("VADDS.f16", [place, "0x3c00", "0x5"]),
        ("BARRIER", ["0xfffffffffffffffd"]),
    ]
    assert first == again == f"{ {'twice': ('ptr', 'half', 'i32')} } {rows} {1 << 56}"
    assert (other, raised, kept) == ("7", "raised 'SET.CTRL'", "1")


def test_what_a_library_lacks_is_named():
    with pytest.raises(LibraryError, match="has no riddle"):
        hosted(read(TEXT), ["riddle"])


def test_only_what_is_reached_is_taken():
    whole = read(str(llvm.parse_assembly(TEXT)))
    made = hosted(whole, ["_mlir_ciface_twice"])
    assert "elsewhere" not in made.text
    assert made.missing == ()
    assert hosted(whole, ["_mlir_ciface_unused"]).missing == ("elsewhere",)
