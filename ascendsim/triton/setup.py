"""Puts the vendor's compilers into a folder of their own, by pip, with the sums of the packages checked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from ascendsim.core.errors import InputError
from ascendsim.triton.kit import (
    COMMAND,
    LIBRARIES,
    MANIFEST,
    VERSIONS,
    check_platform,
    default_folder,
    needed,
)
from ascendsim_kernels.hivm_library import printed
from ascendsim_kernels.hivm_text import LibraryError

# Of the wheels for CPython 3.11 on Linux x86_64, as the package index has them.
SUMS = {
    "triton-ascend": "17c8d7161eed1e96a286281963fe04d3113ee85affaa5d82c7dd0c35803962f0",
    "ascendnpu-ir": "d4e5bfab877ee4ba7b312885f4f5bf646072fd47c88d5aa96f6a11f67d3e8522",
}
_NEEDED = {
    "ascendnpuir/bin/bishengir-compile",
    "ascendnpuir/lib/host.bc",
    *(f"ascendnpuir/lib/{name}.bc" for name in LIBRARIES),
}
_PROGRAMS = ("bishengir-compile", "triton-adapter-opt")


def set_up(folder: Path | None = None, say: Callable[[str], None] = lambda text: None) -> Path:
    """Fetches the compilers and makes them ready.

    Args:
        folder: Where they go; the default folder if None.
        say: Told what is done.

    Raises:
        InputError: Another platform, pip fails, or a package is not the one that is known.
    """
    check_platform()
    place = folder or default_folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as temporary:
            wheels = _downloaded(Path(temporary), say)
            say("unpacking")
            for wheel in wheels:
                _unpack(wheel, place)
        (place / "libraries").mkdir(exist_ok=True)
        for name in LIBRARIES:
            say(f"reading {name}")
            printed(place / "ascendnpuir" / "lib" / f"{name}.bc", place / "libraries" / f"{name}.ll")
        sizes = {str(path.relative_to(place)): path.stat().st_size for path in needed(place)}
        manifest = {"versions": VERSIONS, "sizes": sizes}
        (place / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    except (OSError, zipfile.BadZipFile, LibraryError) as error:
        raise InputError(f"folder {str(place)!r}", f"cannot take the compilers: {error}") from error
    return place


def _downloaded(folder: Path, say: Callable[[str], None]) -> list[Path]:
    """The wheels, fetched by pip, which checks their sums."""
    lines = [f"{name}=={number} --hash=sha256:{SUMS[name]}" for name, number in VERSIONS.items()]
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
    say("downloading " + ", ".join(f"{name} {number}" for name, number in VERSIONS.items()))
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
    ]
    done = subprocess.run(
        [*command, "--dest", str(folder), "-r", str(wanted)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
        text = " ".join((said or ["it ended with an error"])[-1].split())
        raise InputError("pip download of the compilers", f"failed: {text}", remedy=f"then run: {COMMAND}")
    return sorted(folder.glob("*.whl"))


def _unpack(wheel: Path, place: Path) -> None:
    """What is needed of a wheel: of the compilers one of four programs, and the libraries of its chips."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            if member.is_dir() or name.is_absolute() or ".." in name.parts:
                continue
            if member.filename.startswith("ascendnpuir/") and member.filename not in _NEEDED:
                continue
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
            if name.name in _PROGRAMS:
                target.chmod(0o755)
