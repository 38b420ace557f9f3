"""The `ascendsim` command: finds the sub-command, runs it, turns errors into one line and an exit code.

Exit codes: 0 done, 1 the command found something wrong with what it checked, 2 wrong input or usage, 130
interrupted (SIGINT, Ctrl-C), 143 terminated (SIGTERM).
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn, Protocol, cast

from ascendsim import __version__
from ascendsim.core.collection import no_collection_at_exit
from ascendsim.core.errors import AscendSimError, InputError, OptionWarning, suggest
from ascendsim.core.interrupts import Terminated, code_of, raise_termination
from ascendsim_kernels.interrupts import SIGNALS, interrupts

# One module of ascendsim.cli each, imported when it is asked for; listed in the order of the help.
COMMANDS: tuple[str, ...] = (
    "run",
    "op",
    "train",
    "compile",
    "optimize",
    "quantize",
    "advise",
    "compare",
    "sweep",
    "sensitivity",
    "search",
    "report",
    "accuracy",
    "passes",
    "fusion",
    "validate",
    "calibrate",
    "soc",
    "ops",
    "plugins",
    "kernel",
    "torch",
    "llm",
)

_USAGE_ERROR = 2


# what writing to standard output ends with; writers of files name theirs
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class Command(Protocol):
    """What a sub-command module defines."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Does the work; returns the exit code."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its errors instead of printing usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy=f"see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    if argv is not None:
        return _ended(argv, lambda: None)
    no_collection_at_exit()
    interrupts.leave = _leave
    raise_termination()
    return _ended(sys.argv[1:], _deaf)


def _deaf() -> None:
    """Nothing is left to be interrupted, but the words about it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int) -> NoReturn:
    """Ends the process in the middle of a compilation."""
    with suppress(Exception):
        sys.stdout.flush()
    shown = "\x1b[?25h" if os.isatty(2) else ""  # a bar of progress hides the cursor
    said = "terminated" if number == signal.SIGTERM else "interrupted"
    with suppress(OSError):
        os.write(2, f"{shown}ascendsim: {said}\n".encode())
    os._exit(128 + number)


def _ended(arguments: Sequence[str], at_end: Callable[[], None]) -> int:
    """Runs a command; `at_end` is called when nothing but the exit code is left."""
    warnings.simplefilter("ignore", OptionWarning)  # commands print them their own way
    for name in ("stdout", "stderr"):  # closed by the shell (>&-): nobody reads, nothing is wrong
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        code = _dispatch(list(arguments))
        sys.stdout.flush()
        at_end()
    except AscendSimError as error:
        return _fail(str(error))
    except BrokenPipeError:  # the reader of the output (head, less) has seen enough
        _end_output()
        return 0
    except OSError as error:
        blamed = error.filename or ("standard output" if error.errno in _FULL else "a file")
        try:
            sys.stdout.flush()
        except OSError:  # it is full: what it could not take is still waiting
            blamed = "standard output"
            _end_output()
        return _fail(f"{blamed}: {error.strerror or error}")
    except KeyboardInterrupt as error:
        at_end()
        said = "terminated" if isinstance(error, Terminated) else "interrupted"
        print(f"ascendsim: {said}", file=sys.stderr)
        return code_of(error)
    except SystemExit as stop:  # argparse leaves this way after --help
        return stop.code if isinstance(stop.code, int) else 0
    return code


def _end_output() -> None:
    """Lets what is still to be printed go nowhere: else Python fails over it when it leaves, with a code of
    its own.
    """
    with suppress(OSError):  # no file stands behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(_help_text())
        return _USAGE_ERROR
    first = arguments[0]
    if first in ("-h", "--help"):
        sys.stdout.write(_help_text())
        return 0
    if first == "--version":
        print(f"ascendsim {__version__}")
        return 0
    if first.startswith("-"):
        raise InputError(f"option {first}", "does not exist", remedy=suggest(first, ("--help", "--version")))
    if first not in COMMANDS:
        raise InputError(f"command {first!r}", "does not exist", remedy=suggest(first, COMMANDS))
    command = _command(first)
    parser = Parser(prog=f"ascendsim {command.NAME}", description=command.HELP, allow_abbrev=False)
    command.configure(parser)
    if any(action.nargs in ("*", "+") and not action.option_strings for action in parser._actions):
        # names that belong together may stand on both sides of an option
        args, unknown = parser.parse_known_intermixed_args(arguments[1:])
    else:
        args, unknown = parser.parse_known_args(arguments[1:])
    if unknown:
        raise _unknown_argument(unknown[0], parser)
    return command.run(args)


def _command(name: str) -> Command:
    return cast(Command, import_module(f"ascendsim.cli.{name}"))


def _help_text() -> str:
    options = (
        ("--help", "show this text; `ascendsim COMMAND --help` shows the command's options"),
        ("--version", "show the version"),
    )
    lines = [
        "usage: ascendsim COMMAND ...",
        "",
        "Simulates neural networks on Ascend AI processors: where the time goes, and what comes out.",
        "",
    ]
    lines += ["commands:", *(f"  {name:<12}{_command(name).HELP}" for name in COMMANDS), ""]
    lines += ["options:", *(f"  {name:<12}{text}" for name, text in options)]
    return "\n".join(lines) + "\n"


def _unknown_argument(argument: str, parser: argparse.ArgumentParser) -> InputError:
    if not argument.startswith("-"):
        return InputError(f"argument {argument!r}", "is not expected", remedy=f"see `{parser.prog} --help`")
    option = argument.partition("=")[0]
    return InputError(f"option {option}", "does not exist", remedy=suggest(option, _options(parser)))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """All long options of a parser and of its sub-parsers."""
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)


def _fail(message: str) -> int:
    line = " ".join(message.split())  # one line, whatever a file name or a message contains
    print(f"ascendsim: error: {line}", file=sys.stderr)
    return _USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
