"""Builds the source distribution and the wheel, and checks both: `make wheel`.

The wheel must be what PyPI takes, hold every file of the packages, install into an empty environment, and
run a model there although nobody may write to its site-packages (compiled kernels go to the user's cache).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SOURCES = {"ascendsim": ROOT / "ascendsim", "ascendsim_kernels": ROOT / "kernels" / "ascendsim_kernels"}
MODEL = ROOT / "tests" / "data" / "models" / "lenet5.onnx"


def main() -> int:
    """Builds and checks; returns the exit code."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT), quiet=True)
    wheel, source = *DIST.glob("*.whl"), *DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
    run(str(Path(sys.executable).with_name("check-wheel-contents")), str(wheel))
    missing = sorted(files_of_packages() - set(zipfile.ZipFile(wheel).namelist()))
    if missing:
        print(f"not in the wheel: {', '.join(missing)}")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        run_installed(wheel, Path(folder))
    for path in (wheel, source):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


def files_of_packages() -> set[str]:
    """Every file below the packages, as the wheel should name it; without what tools leave behind."""
    return {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in SOURCES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbi", ".nbc")
    }


def run_installed(wheel: Path, folder: Path) -> None:
    """Installs the wheel into an empty environment and runs a model in it, with site-packages read-only."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel))
    run(str(python), "-m", "pip", "check")
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (folder / "home").mkdir()
    before = dict(contents(site))
    for path in (site, *site.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    # Root may write wherever it likes unless it gives that right away.
    drop = (
        ["setpriv", "--bounding-set", "-dac_override"]
        if os.geteuid() == 0 and shutil.which("setpriv")
        else []
    )
    command = [*drop, str(python), "-m", "ascendsim", "run", str(MODEL), "--weights", "random"]
    try:
        run(*command, "--output", "out", cwd=folder, home=folder / "home")
    finally:
        for path in (site, *site.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)  # so that the folder can be removed
    if changed := set(contents(site)) ^ set(before.items()):
        raise SystemExit(
            f"the run changed site-packages: {', '.join(sorted(name for name, _ in changed)[:5])}"
        )


def contents(folder: Path) -> Iterator[tuple[str, int]]:
    """Files with the times at which they were written."""
    yield from ((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file())


def run(*command: str, cwd: Path = ROOT, home: Path | None = None, quiet: bool = False) -> None:
    """Runs a command without the checkout on its path; ends the program if it fails."""
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    if home is not None:
        environment |= {"HOME": str(home)}
        environment.pop("XDG_CACHE_HOME", None)
    print("+", " ".join(command), flush=True)
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(
        command, cwd=cwd, env=environment, check=False, text=True, stdout=output, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout or ''}\nfailed: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
