"""Reference pages of the command line: one for each sub-command, from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ascendsim.cli.main import COMMANDS, Parser, _command

FOLDER = "docs/reference/cli"


class _Wide(argparse.HelpFormatter):
    """Breaks lines at 100 letters, whatever the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def pages() -> dict[str, str]:
    """Text of each page by its path."""
    made = {f"{FOLDER}/{name}.md": _page(name) for name in COMMANDS}
    rows = [f"| [{name}]({name}.md) | {_command(name).HELP} |" for name in COMMANDS]
    table = "| command | |\n|---|---|\n" + "\n".join(rows)
    listed = "\n".join(COMMANDS)
    made[f"{FOLDER}/index.md"] = (
        f"# Command line\n\n    ascendsim COMMAND ...\n\n{table}\n\n"
        "Exit codes: 0 done; 1 the command found something wrong with what it checked; "
        f"2 wrong input or usage; 130 interrupted.\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    return made


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a sub-command, as `ascendsim` makes it."""
    command = _command(name)
    parser = Parser(prog=f"ascendsim {command.NAME}", description=command.HELP, allow_abbrev=False)
    command.configure(parser)
    return parser


def _page(name: str) -> str:
    parser = parser_of(name)
    return f"# ascendsim {name}\n\n" + "\n".join(_sections(parser, 2))


def _sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """Usage and options of a parser, then of its actions."""
    if parser.description:
        yield f"{_sentence(parser.description)}\n"
    parser.formatter_class = _Wide
    yield f"```text\n{parser.format_usage().strip()}\n```\n"
    inner: dict[str, argparse.ArgumentParser] = {}
    for group in parser._action_groups:
        rows = []
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                inner.update(action.choices)
            elif action.help != argparse.SUPPRESS:
                rows.append(f"| {_written(action)} | {_cell(_help(parser, action))} |")
        if rows:
            title = (group.title or "options").capitalize()
            yield f"| {title} | |\n|---|---|\n" + "\n".join(rows) + "\n"
    for name, each in inner.items():
        yield f"{'#' * level} {name}\n"
        yield from _sections(each, level + 1)


def _written(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    value = " ".join(value) if isinstance(value, tuple) else value
    value = "" if action.nargs == 0 else f" {value}"
    names = [f"{option}{value}" for option in action.option_strings] or [value.strip()]
    return ", ".join(f"`{_cell(name)}`" for name in names)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()
    return formatter._expand_help(action) if action.help else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
