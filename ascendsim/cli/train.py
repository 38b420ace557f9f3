"""`ascendsim train MODEL`: make a training step of a model, run it on a chip, and say where its time goes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.cli.compare import print_comparison
from ascendsim.cli.model_options import (
    add_chip_options,
    add_model_options,
    check_folder,
    chip_settings,
    load_graph,
    positive,
    print_warnings,
    progress,
    warnings_of,
)
from ascendsim.cli.own import own_operators
from ascendsim.cli.run import print_formatted, print_result
from ascendsim.cli.variants import LEVELS, parts
from ascendsim.core.errors import InputError, suggest
from ascendsim.soc.collectives import BUCKET_BYTES

if TYPE_CHECKING:
    from ascendsim.training.step import TrainingStep

# what MindSpore does without graph-kernel fusion: UB fusion within the limits of its own passes
MINDSPORE = "mindspore"
NAME = "train"
HELP = "run a training step of a model: forward, backward and update of the weights"


def configure(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    loss = "cross_entropy, mse, or the name of an output that is the loss (default: cross_entropy)"
    parser.add_argument("--loss", default="cross_entropy", metavar="NAME", help=loss)
    text = "output that cross_entropy and mse are made of; needed where there are several"
    parser.add_argument("--loss_output", metavar="NAME", help=text)
    text = "momentum, adam, adamw or lamb; gradients only without it"
    parser.add_argument("--optimizer", metavar="NAME", help=text)
    parser.add_argument("--loss_scale", metavar="NUMBER", help="factor of the loss, or dynamic")
    text = "largest norm of all gradients together"
    parser.add_argument("--grad_clip", type=float, metavar="NUMBER", help=text)
    text = "batches whose gradients make one update (default: 1)"
    parser.add_argument("--accumulate", type=positive, default=1, metavar="N", help=text)
    text = 'weights to train, by name or pattern ("*.weight"); may be repeated (default: all)'
    parser.add_argument("--parameters", action="append", metavar="NAME", help=text)
    text = "weights, state and gradients in one buffer each, as NpuFusedSGD and its kind keep them"
    parser.add_argument("--combined", action="store_true", help=text)
    text = "devices that train together, each on a batch of its own (default: 1)"
    parser.add_argument("--devices", type=positive, default=1, metavar="N", help=text)
    text = 'server that they are in, for example "Atlas 800 9000", or a TOML file'
    parser.add_argument("--server", metavar="NAME", help=text)
    text = "bytes of gradients that are reduced together, at most (default: 26214400)"
    parser.add_argument("--bucket_bytes", type=positive, default=BUCKET_BYTES, metavar="N", help=text)
    add_chip_options(parser)
    levels = parser.add_argument_group("fusion levels", conflict_handler="resolve")
    text = (
        f"one of {', '.join(LEVELS)}, or {MINDSPORE} (UB fusion as MindSpore has it without graph-kernel "
        "fusion); several, with commas, are compared in one table (default: all)"
    )
    levels.add_argument("--fusion", default="all", metavar="LEVEL,LEVEL", help=text)
    parser.set_defaults(precision_mode="allow_mix_precision")  # weights and updates in float32
    parser.add_argument("--output", metavar="DIR", help="folder for tables (.csv), timeline.png, trace.json")
    text = "operators in the printed table (default: 10)"
    parser.add_argument("--top", type=positive, default=10, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import simulate
    from ascendsim.api.training import training_step
    from ascendsim.soc.loading import load as load_soc
    from ascendsim.soc.servers import server_for

    started = time.perf_counter()
    check_folder(args.output)
    levels = _levels(args.fusion)
    if args.server is not None and args.devices == 1:
        raise InputError("option server", "is for several devices", remedy="say how many: --devices 8")
    if args.devices > 1:  # before the model is loaded and compiled
        server_for(args.devices, args.server, load_soc(args.soc_version).short_name)
    step = training_step(
        load_graph(args),
        loss=args.loss,
        optimizer=args.optimizer,
        loss_scale=_scale(args.loss_scale),
        grad_clip=args.grad_clip,
        accumulate=args.accumulate,
        output=args.loss_output,
        parameters=args.parameters,
        operators=own_operators(args),
        combined=args.combined,
    )
    if len(levels) > 1:
        _compare(args, step, levels)
        print(f"took {time.perf_counter() - started:.1f} s")
        return 0
    model = compile(step.graph, **_settings(args, levels[0]))
    print_warnings(warnings_of(model))
    with progress("running") as show:
        result = simulate(
            model,
            progress=show,
            devices=args.devices,
            server=args.server,
            bucket_bytes=args.bucket_bytes,
        )
    _print_step(step)
    print_result(result, args.top)
    print_formatted(result.training_shares())
    if args.devices > 1:
        print_formatted(result.communication())
    if args.output is not None:
        for path in result.save(Path(args.output)):
            print(f"wrote {path}")
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


def _compare(args: argparse.Namespace, step: TrainingStep, levels: tuple[str, ...]) -> None:
    """One table of the step under several fusion levels."""
    from ascendsim.api.comparing import compare
    from ascendsim.api.compiling import compile
    from ascendsim.api.running import simulate

    results = {}
    shown: set[str] = set()
    for level in levels:
        model = compile(step.graph, **_settings(args, level))
        print_warnings(text for text in warnings_of(model) if text not in shown)
        shown.update(warnings_of(model))
        with progress(level) as show:
            results[level] = simulate(
                model,
                progress=show,
                devices=args.devices,
                server=args.server,
                bucket_bytes=args.bucket_bytes,
            )
    _print_step(step)
    comparison = compare(results)
    print_comparison(comparison)
    last = results[levels[-1]].duration_us
    for level in levels[:-1]:
        took = results[level].duration_us
        print(f"{levels[-1]} against {level}: {(last / took - 1) * 100:+.1f} % of the time")
    if args.output is not None:
        for path in comparison.save(Path(args.output)):
            print(f"wrote {path}")


def _print_step(step: TrainingStep) -> None:
    weights = sum(step.graph.tensors[name].elements for name in step.parameters)
    count = len(step.places or step.parameters)
    print(f"training step: {count} weights of {weights:,} numbers, {len(step.graph)} nodes")


def _levels(text: str) -> tuple[str, ...]:
    """The fusion levels of a list, before anything is loaded.

    Raises:
        InputError: If one does not exist or comes twice.
    """
    known = (*LEVELS, MINDSPORE)
    found = parts(text, "--fusion")
    for level in found:
        if level not in known:
            rule = f"must list some of {', '.join(known)}"
            raise InputError("option --fusion", rule, repr(level), suggest(level, known))
    return found


def _settings(args: argparse.Namespace, level: str) -> Mapping[str, Any]:
    """Arguments of `compile` for a fusion level."""
    settings = {**chip_settings(args), "fusion": level}
    if level == MINDSPORE:
        options = {**(settings.get("options") or {}), "ub_limits": "MindSpore"}
        settings.update(fusion="ub", options=options)
    return settings


def _scale(text: str | None) -> float | str | None:
    if text is None or text == "dynamic":
        return text
    try:
        return float(text)
    except ValueError:
        rule = "must be a positive number or dynamic"
        raise InputError(
            "option --loss_scale", rule, repr(text), "give a power of two, for example 1024"
        ) from None
