"""Files of kernels on the command line, FILE.py or FILE.py::CASE: programs of the user, which are run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ascendsim import asc
from ascendsim.asc.aliases import imported_as_asc
from ascendsim.asc.case import cases, unmarked
from ascendsim.cli.own import module_of
from ascendsim.core.errors import AscendSimError, InputError, suggest

RECIPE = "write `def case() -> asc.Case:`, as docs/kernels.md has it"
Found = dict[str, Callable[[], asc.Case]]


@contextmanager
def cases_of(text: str) -> Iterator[Found]:
    """Functions that give the cases which are asked for, by name; `import asc` means ours within the block.

    Args:
        text: FILE.py, or FILE.py::CASE for one of its cases.

    Raises:
        InputError: There is no such file or case, or the file cannot be run.
    """
    path, colons, wanted = text.partition("::")
    with imported_as_asc():
        names = vars(module_of(f"kernel file {path!r}", Path(path)))
        found = cases(names)
        lacking = [name for name in unmarked(names) if not colons or name == wanted]
        if lacking and (not found or (colons and wanted not in found)):
            what = f"case {wanted!r} of {path!r}" if colons else f"kernel file {path!r}"
            verb = "lacks" if len(lacking) == 1 else "lack"
            remedy = f"write `def {lacking[0]}() -> asc.Case:`"
            raise InputError(what, f"is no case: {', '.join(lacking)} {verb} `-> asc.Case`", remedy=remedy)
        if not found:
            raise InputError(f"kernel file {path!r}", "has no case", remedy=RECIPE)
        if colons and wanted not in found:
            raise InputError(f"case {wanted!r} of {path!r}", "does not exist", remedy=suggest(wanted, found))
        yield {wanted: found[wanted]} if colons else found


def made(name: str, give: Callable[[], asc.Case]) -> asc.Case:
    """The case that a function gives.

    Raises:
        InputError: It fails, or gives something else.
    """
    try:
        case = give()
    except AscendSimError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        raise InputError(f"case {name!r}", f"fails at {place}: {type(error).__name__}: {error}") from error
    if not isinstance(case, asc.Case):
        raise InputError(f"case {name!r}", "must return an asc.Case", type(case).__name__)
    return case
