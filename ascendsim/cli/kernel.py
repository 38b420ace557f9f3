"""`ascendsim kernel run|check|list|setup-triton`: kernels of one's own, from files with cases of them."""

from __future__ import annotations

import argparse

from ascendsim.cli import kernel_check, kernel_list, kernel_run, kernel_setup_triton

NAME = "kernel"
HELP = "run kernels of your own: values, time, what is wrong with them"
ACTIONS = {"run": kernel_run, "check": kernel_check, "list": kernel_list, "setup-triton": kernel_setup_triton}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    for name, action in ACTIONS.items():
        action.configure(actions.add_parser(name, help=action.HELP, description=action.HELP))


def run(args: argparse.Namespace) -> int:
    code: int = ACTIONS[args.action].run(args)
    return code
