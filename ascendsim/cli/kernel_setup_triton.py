"""`ascendsim kernel setup-triton`: fetches the vendor's compilers of Triton kernels."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "put the vendor's compilers of Triton kernels into a folder of their own (by pip, 215 MB)"


def configure(parser: argparse.ArgumentParser) -> None:
    text = "where they go (default: a folder of the cache; ASCENDSIM_TRITON names another)"
    parser.add_argument("--folder", metavar="DIR", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.triton.kit import VARIABLE, default_folder
    from ascendsim.triton.setup import set_up

    folder = Path(args.folder).absolute() if args.folder else default_folder()
    set_up(folder, print)
    print(f"ready in {folder}")
    if folder != default_folder():
        print(f"set {VARIABLE}={folder} so that they are found")
    return 0
