"""Options of commands that read images."""

from __future__ import annotations

import argparse


def add_scaling_options(parser: argparse.ArgumentParser) -> None:
    """Adds --mean and --std; None where they are not given."""
    text = "of images: taken off each channel, 0 to 255 (default: ImageNet's, 123.675,116.28,103.53)"
    parser.add_argument("--mean", type=numbers, metavar="R,G,B", help=text)
    text = "of images: what each channel is divided by then (default: ImageNet's, 58.395,57.12,57.375)"
    parser.add_argument("--std", type=numbers, metavar="R,G,B", help=text)


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between.

    >>> numbers("1,2.5")
    (1.0, 2.5)
    """
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers with commas between, not {text!r}") from None
