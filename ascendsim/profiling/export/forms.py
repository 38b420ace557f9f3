"""The forms in which a run can be exported, and what an export wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import make_folder
from ascendsim.profiling.export.ascend_pt import write_ascend_pt
from ascendsim.profiling.export.capture import Capture
from ascendsim.profiling.export.kineto import write_kineto
from ascendsim.profiling.export.modules import has_modules
from ascendsim.profiling.export.msprof_folder import write_prof_folder
from ascendsim.profiling.export.opprof import write_opprof
from ascendsim.profiling.view import ProfiledRun

FORMS: Mapping[str, Callable[[Capture, Path], tuple[Path, ...]]] = {
    "msprof": write_prof_folder,
    "ascend_pt": write_ascend_pt,
    "kineto": write_kineto,
    "opprof": write_opprof,
}
"""Name of a form -> what writes it; the first path is what tools are pointed at."""

DEFAULT_FORMS = ("msprof", "ascend_pt")


@dataclass(frozen=True, slots=True)
class Export:
    """What an export wrote.

    Attributes:
        paths: What tools are pointed at, a folder or a file for each form.
        files: All files.
        bytes: Their size.
        lacking: What these forms could hold and the run has no data for.
    """

    paths: tuple[Path, ...]
    files: tuple[Path, ...]
    bytes: int
    lacking: tuple[str, ...]

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.paths))
        lacking = f"; no data for: {'; '.join(self.lacking)}" if self.lacking else ""
        return f"Export({shown}: {len(self.files)} files, {self.bytes / 1e6:.1f} MB{lacking})"


def check_forms(forms: Sequence[str]) -> None:
    """Checks names of forms.

    Raises:
        InputError: If one is unknown (suggests the nearest).
    """
    for form in forms:
        if form not in FORMS:
            raise InputError(f"form {form!r}", "is not known", remedy=suggest(form, FORMS))


def export_run(
    run: ProfiledRun,
    folder: str | PathLike[str],
    forms: Sequence[str] = DEFAULT_FORMS,
    *,
    scopes: Mapping[str, tuple[str, ...]] | None = None,
) -> Export:
    """Writes a run in forms that other tools read.

    Args:
        run: The run.
        folder: Where; made if it is not there. Files of the same name are replaced.
        forms: Names out of `FORMS`.
        scopes: Modules around operators of the user's model, outermost first.

    Raises:
        InputError: If a form is unknown, the run cannot be put into it, or something cannot be written.
    """
    check_forms(forms)
    capture = Capture(run, scopes or {})
    _ = capture.end  # refused before anything is written
    if "opprof" in forms and not run.trace.instructions:
        write_opprof(capture, Path(folder))  # says why it cannot
    target = make_folder(folder)
    written = [FORMS[form](capture, target) for form in dict.fromkeys(forms)]
    files = tuple([path for paths in written for path in paths if path.is_file()])
    size = sum(path.stat().st_size for path in files)
    return Export(tuple([paths[0] for paths in written]), files, size, _lacking(capture, forms))


def _lacking(capture: Capture, forms: Sequence[str]) -> tuple[str, ...]:
    """What the forms could hold and the run has nothing of."""
    run, found = capture.run, []
    if not run.tasks:
        found.append("tasks: the program is empty")
    if not capture.host_launches and set(forms) - {"opprof"}:
        found.append("calls of the host: the device launches by itself, a call has the time of its task")
    if not has_modules(capture) and {"msprof", "ascend_pt"} & set(forms):
        found.append("modules: names of operators have none")
    if {"msprof", "ascend_pt"} & set(forms):
        found.append("misses of the instruction cache: not modelled")
    if not run.program.memory.regions and "ascend_pt" in forms:
        found.append("memory: the program has no plan")
    return tuple(found)
