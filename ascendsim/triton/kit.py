"""The vendor's compilers in a folder of their own: what is in it, where it is, whether it is whole."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

from ascendsim.compiler.tiling_store import cache_folder
from ascendsim.core.errors import InputError

VERSIONS = {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}
VARIABLE = "ASCENDSIM_TRITON"
COMMAND = "ascendsim kernel setup-triton"
MANIFEST = "manifest.json"
COMPILER = Path("ascendnpuir/bin/bishengir-compile")
ADAPTER = Path("triton/backends/ascend/triton-adapter-opt")
LIBRARIES = ("meta_op.aiv", "meta_op.aic", "meta_op.mix.aiv", "meta_op.mix.aic")


def check_platform() -> None:
    """Refuses what the vendor's packages do not run on.

    Raises:
        InputError: Another operating system, processor or Python.
    """
    here = f"{platform.system()} {platform.machine()}"
    if here != "Linux x86_64":
        raise InputError("the compilers of Triton kernels", "run on Linux x86_64", here)
    if sys.version_info[:2] != (3, 11):
        mine = f"{sys.version_info.major}.{sys.version_info.minor}"
        rule = f"need Python 3.11 (triton-ascend {VERSIONS['triton-ascend']})"
        raise InputError("the compilers of Triton kernels", rule, mine)


def default_folder() -> Path:
    """Where the compilers are looked for: ASCENDSIM_TRITON, else a folder of the cache.

    Raises:
        InputError: There is no cache.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    cache = cache_folder()
    if cache is None:
        raise InputError("the compilers of Triton kernels", "need a folder", remedy=f"set {VARIABLE}")
    return cache / ("triton-" + "-".join(VERSIONS.values()))


def needed(folder: Path) -> list[Path]:
    """Files that must be there."""
    texts = [folder / "libraries" / f"{name}{end}" for name in LIBRARIES for end in (".ll", ".json")]
    bitcode = [folder / "ascendnpuir" / "lib" / f"{name}.bc" for name in LIBRARIES]
    return [folder / COMPILER, folder / ADAPTER, folder / "triton" / "__init__.py", *bitcode, *texts]


def compilers(folder: Path | None = None) -> Path:
    """The folder of the compilers.

    Args:
        folder: Where it is; the default folder if None.

    Raises:
        InputError: It is not there, not whole, of other versions, or another platform.
    """
    check_platform()
    place = folder or default_folder()
    try:
        found = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError("Triton kernels", "need the vendor's compilers", remedy=f"run: {COMMAND}") from None
    if found.get("versions") != VERSIONS:
        what = ", ".join(f"{name} {number}" for name, number in VERSIONS.items())
        raise InputError(f"compilers in {str(place)!r}", f"must be {what}", remedy=f"run: {COMMAND}")
    sizes = found.get("sizes", {})
    for path in needed(place):
        size = path.stat().st_size if path.is_file() else -1
        if sizes.get(str(path.relative_to(place))) != size:
            remedy = f"run: {COMMAND}"
            raise InputError(
                f"compilers in {str(place)!r}", f"lack {path.name}, or it is damaged", remedy=remedy
            )
    return place
