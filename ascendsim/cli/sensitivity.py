"""`ascendsim sensitivity MODEL`: how much the time of a model depends on each figure of the chip."""

from __future__ import annotations

import argparse

from ascendsim.cli.common import add_set_option, parse_settings
from ascendsim.cli.model_options import check_folder, positive
from ascendsim.cli.report_option import add_report_option, check_report_option
from ascendsim.cli.sweep_options import add_single_options, add_worker_options, print_columns, single_axes
from ascendsim.cli.variants import parts
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder

NAME = "sensitivity"
HELP = "say how much a time depends on each figure of the chip, and how far assumed ones could move it"
_SHOWN = ("Figure", "Assumed", "Unit", "Low", "High", "Change at low(%)", "Change at high(%)", "Elasticity")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="path of a model")
    add_single_options(parser)
    add_set_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--assumed", action="store_true", help="move only figures without a source")
    text = "move these figures, by key or its first part: dram,frequency_mhz"
    which.add_argument("--keys", metavar="KEY,KEY", help=text)
    text = "one or two values of your own of a figure, for example ai_cores=1,3; may be repeated"
    parser.add_argument("--values", action="append", metavar="KEY=V,V", help=text)
    parser.add_argument("--low", type=float, default=0.8, metavar="F", help="factor downwards (default: 0.8)")
    parser.add_argument(
        "--high", type=float, default=1.25, metavar="F", help="factor upwards (default: 1.25)"
    )
    parser.add_argument("--top", type=positive, default=15, metavar="N", help="figures shown (default: 15)")
    add_worker_options(parser)
    parser.add_argument(
        "--output", metavar="DIR", help="folder for sensitivity.csv, skipped.csv and tornado.png"
    )
    add_report_option(parser)


def run(args: argparse.Namespace) -> int:
    from ascendsim.sweep import sensitivity

    check_folder(args.output)
    check_report_option(args.report)
    found = sensitivity(
        args.model,
        keys="assumed" if args.assumed else None if args.keys is None else list(parts(args.keys, "--keys")),
        values=_values(args.values),
        low=args.low,
        high=args.high,
        set=parse_settings(args.set),
        store=args.store,
        workers=args.workers,
        retry=args.retry,
        progress=True,
        **{name: given for name, given in single_axes(args).items() if given is not None},
    )
    table = found.table()
    print(f"{args.model} on {args.soc_version}: {found.duration_us:,.1f} us")
    moving = [row for row in table.records() if row["Change at low(%)"] or row["Change at high(%)"]]
    print_columns(_SHOWN, moving[: args.top])
    for row in table.records():
        if row["Notes"]:
            print(f"{row['Figure']}: {row['Notes']}")
    print(f"{len(moving)} of {len(table)} figures change the time; {len(found.left_out)} were not moved")
    if any(row["Assumed"] == "yes" for row in table.records()):
        print(f"assumed: {found.band()}")
    if args.output is not None:
        folder = make_folder(args.output)
        for each in (table, found.skipped()):
            each.to_csv(folder / f"{each.name}.csv")
            print(f"wrote {folder / each.name}.csv")
        print(f"wrote {found.plot(args.top).save(folder / 'tornado.png')}")
    if args.report is not None:
        page = found.report(args.report)
        print(f"wrote {page.path} ({len(page.html) / 1e6:.2f} MB)")
    return 0


def _values(settings: list[str] | None) -> dict[str, list[float]]:
    """The values of --values.

    Raises:
        InputError: If one is no number.
    """
    found = {}
    for key, text in parse_settings(settings, "--values", "key=value,value").items():
        try:
            numbers = [float(part) for part in parts(text, f"--values {key}")]
        except ValueError:
            raise InputError(f"option --values {key}", "must have numbers", repr(text)) from None
        found[key] = [int(number) if number.is_integer() else number for number in numbers]
    return found
