"""Only `ascendsim/core/files.py` writes files: there alone is looked at what stands at a path already."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.sources import ROOT, parsed

# Calls that make, change or remove what has a path: by name alone, and by name in a module
_ANYWHERE = frozenset(
    (
        *("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "unlink", "rmdir", "rmtree"),
        *("mkdir", "makedirs", "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile"),
        *("SpooledTemporaryFile", "TemporaryDirectory", "copyfile", "copytree", "chmod", "chown", "utime"),
        *("savez", "savez_compressed", "savetxt", "tofile", "mkfifo", "mknod", "savefig", "to_parquet"),
        "ZipFile",
    )
)
_OS = (
    "open",
    "fdopen",
    "replace",
    "rename",
    "renames",
    "remove",
    "removedirs",
    "truncate",
    "link",
    "symlink",
)
_IN_MODULES = {
    "os": ("open", "fdopen", "replace", "rename", "remove", "removedirs", "truncate", "link", "symlink"),
    "shutil": ("move", "copy", "copy2"),
    "np": ("save",),
    "onnx": ("save", "save_model"),
    "sqlite3": ("connect",),
}
_NAMES = _ANYWHERE.union(("open", "replace"), *_IN_MODULES.values())
_CALL = re.compile(rf"\b(?:{'|'.join(sorted(_NAMES))})\(")
_MODE = re.compile(r"[rwaxbt+]{1,3}")

# Who calls them all the same
ALLOWED = {
    "core/files.py: open, mkdir, unlink, SpooledTemporaryFile": "the one that writes",
    "core/places.py: open, fdopen, replace, chown, utime, unlink": "its way to put a text where it goes",
    "api/saving_zip.py: ZipFile, open": "into a stream that is open",
    "accuracy/dumps.py: ZipFile, open": "into a stream that is open",
    "sweep/rows.py: to_parquet": "into memory",
    "plot/figures.py: savefig": "into memory",
    "profiling/export/database.py: connect": "in memory",
    "sweep/store.py: connect, open, truncate": "a database, and its lock, whose places are looked at before",
    "compiler/tiling_store.py: open, mkdir, rmtree": "a cache: its lines are added one by one",
    "ascendsim_kernels/jit.py: mkdir, TemporaryFile": "asks whether numba can write its cache",
    "advise/alternatives.py: TemporaryDirectory": "a folder of its own for a file that a compilation reads",
    "triton/compiling.py: write_text, chmod, mkdir, TemporaryDirectory, write_bytes, rmtree": "a cache",
    "triton/front.py: write_bytes, write_text": "a folder between two processes",
    "triton/launch.py: mkdir, write_text, TemporaryDirectory, save": "a folder between two processes",
    "triton/recording.py: write_text, savez, save": "a folder between two processes",
    "triton/setup.py: write_text, mkdir, ZipFile, TemporaryDirectory, open, chmod": "a command's folder",
    "ascendsim_kernels/hivm_library.py: mkdir, write_bytes, replace": "a cache: machine code with its sum",
    "ascendsim_kernels/hivm_text.py: replace, write_text, open": "into the folder of the vendor's compilers",
    "cli/main.py: open": "/dev/null, where standard output is closed",
}


def _calls(tree: ast.Module) -> Iterator[str]:
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        method = isinstance(call.func, ast.Attribute)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        texts = [
            word.value
            for word in (*call.args, *(word.value for word in call.keywords))
            if isinstance(word, ast.Constant) and isinstance(word.value, str)
        ]
        mode = any(_MODE.fullmatch(text) and set(text) & set("wax+") for text in texts)
        path = name == "replace" and method and len(call.args) == 1 and not call.keywords  # a text has two
        inside = isinstance(of, ast.Name) and name in _IN_MODULES.get(of.id, ())
        if name in _ANYWHERE or inside or path or (name == "open" and mode):
            yield name


def test_files_are_written_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for top in (ROOT / "ascendsim", ROOT / "kernels"):
        for path in sorted(top.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for name in _calls(parsed(path)) if _CALL.search(text) else ():
                found.setdefault(str(path.relative_to(top)), set()).add(name)
    allowed = {key.split(": ")[0]: set(key.split(": ")[1].split(", ")) for key in ALLOWED}
    assert found == allowed
