"""`ascendsim train MODEL`: make a training step of a model, run it on a chip, and say where its time goes."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

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
from ascendsim.core.errors import InputError
from ascendsim.soc.collectives import BUCKET_BYTES

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
    model = compile(step.graph, **chip_settings(args))
    print_warnings(warnings_of(model))
    with progress("running") as show:
        result = simulate(
            model,
            progress=show,
            devices=args.devices,
            server=args.server,
            bucket_bytes=args.bucket_bytes,
        )
    weights = sum(step.graph.tensors[name].elements for name in step.parameters)
    count = len(step.places or step.parameters)
    print(f"training step: {count} weights of {weights:,} numbers, {len(step.graph)} nodes")
    print_result(result, args.top)
    print_formatted(result.training_shares())
    if args.devices > 1:
        print_formatted(result.communication())
    if args.output is not None:
        for path in result.save(Path(args.output)):
            print(f"wrote {path}")
    print(f"took {time.perf_counter() - started:.1f} s")
    return 0


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
