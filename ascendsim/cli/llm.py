"""`ascendsim llm CONFIG`: what a token of a language model costs, by batch and context, or served."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import add_set_option, add_soc_option, parse_settings
from ascendsim.cli.model_options import check_folder, positive, print_warnings
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder

if TYPE_CHECKING:
    from ascendsim.llm.language_model import LanguageModel
    from ascendsim.llm.requests import Workload
    from ascendsim.soc import SocSpec

NAME = "llm"
HELP = "say what a token of a language model costs, from its config file alone"
_OF_STEPS = ("batch", "context", "prefill")
_OF_SERVERS = ("policy", "max_batch", "max_tokens", "chunk", "concurrency")
_UNITS = {"k": 1024, "m": 1024**2}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="config.json of Hugging Face, its folder, or a model that is shipped")
    add_soc_option(parser, default="Ascend910B3", help="chip (default: Ascend910B3)")
    add_set_option(parser)
    text = "bf16, fp16, w8a8 (int8 products) or w4a16 (int4 weights) (default: bf16, or else fp16)"
    parser.add_argument("--dtype", metavar="FORMAT", help=text)
    text = "cards that share each layer; of packages with two dies, dies (default: 1)"
    parser.add_argument("--cards", type=positive, default=1, metavar="N", help=text)
    parser.add_argument(
        "--expert_parallel", action="store_true", help="cards share whole experts of a mixture"
    )
    parser.add_argument("--batch", metavar="LIST", help="sequences, 1,8,32 (default: 1)")
    parser.add_argument("--context", metavar="LIST", help="tokens of each, 1k,8k,32k (default: 1k)")
    parser.add_argument("--prefill", metavar="LIST", help="also times prompts of these lengths")
    text = "graph = the device has the whole step, eager = kernel by kernel (default: graph)"
    parser.add_argument("--mode", choices=("graph", "eager"), default="graph", help=text)
    text = "serve the requests of a file (JSON, one object a line, ShareGPT), or RATE:COUNT:PROMPT:OUTPUT"
    parser.add_argument("--serve", metavar="REQUESTS", help=text)
    serving = "with --serve: "
    policies = ("continuous", "static")
    parser.add_argument("--policy", choices=policies, help=f"{serving}of batching (default: continuous)")
    text = f"{serving}running sequences (default: 256)"
    parser.add_argument("--max_batch", type=positive, metavar="N", help=text)
    text = f"{serving}tokens of a step (default: 8192)"
    parser.add_argument("--max_tokens", type=positive, metavar="N", help=text)
    text = f"{serving}tokens of a prompt in a step, at most"
    parser.add_argument("--chunk", type=positive, metavar="N", help=text)
    text = f"{serving}requests that clients have under way, at most"
    parser.add_argument("--concurrency", type=positive, metavar="N", help=text)
    parser.add_argument("--output", metavar="DIR", help="folder for tables (.csv) and pictures (.png)")


def run(args: argparse.Namespace) -> int:
    from ascendsim.llm.language_model import model
    from ascendsim.llm.types import usual_format
    from ascendsim.soc import load, name_warning

    check_folder(args.output)
    _check_purpose(args)
    soc = load(args.soc_version, parse_settings(args.set))
    print_warnings(filter(None, [name_warning(soc)]))
    args.dtype = args.dtype or usual_format(soc)
    made = model(args.model, args.dtype, args.cards, expert_parallel=args.expert_parallel)
    return _serve(args, made, soc) if args.serve is not None else _sweep(args, made, soc)


def _check_purpose(args: argparse.Namespace) -> None:
    """Refuses options of servers where steps are timed, and of single steps where requests are served."""
    serves = args.serve is not None
    for name in _OF_STEPS if serves else _OF_SERVERS:
        if getattr(args, name) is not None:
            rule = "is for single steps, not for a server" if serves else "is for a server"
            raise InputError(f"option --{name}", rule, remedy="leave it out" if serves else "add --serve")


def _sweep(args: argparse.Namespace, model: LanguageModel, soc: SocSpec) -> int:
    from ascendsim.cli.run import print_formatted
    from ascendsim.core.progress import shown_progress
    from ascendsim.llm.interval import likely_line
    from ascendsim.llm.sweeping import sweep

    batches, contexts = numbers("--batch", args.batch or "1"), numbers("--context", args.context or "1k")
    prompts = numbers("--prefill", args.prefill) if args.prefill else []
    for length in prompts:  # before anything takes time
        model.check_tokens(batches[0], length, length)
    with shown_progress("simulating") as show:
        found = sweep(model, soc, batches, contexts, args.mode, progress=show)
    print(f"{model.name}, {args.dtype}, {args.cards} x {found.soc}, {args.mode}")
    if found.note:
        print(found.note)
    print_formatted(found.table())
    print(likely_line(found.soc))
    for length in prompts:
        result = model.prefill(soc, batches[0], length, args.mode)
        print(f"prefill of {batches[0]} x {length} tokens: {result.duration_us / 1000:,.2f} ms")
    memory = found.memory
    print(
        f"weights {memory.weights / 2**30:.1f} GiB of {memory.capacity / 2**30:.1f}; largest batch: ", end=""
    )
    print(", ".join(f"{memory.largest_batch(context)} at {context}" for context in contexts))
    if args.output is not None:
        folder = make_folder(args.output)
        found.table().to_csv(folder / "llm_steps.csv")
        print(f"wrote {folder / 'llm_steps.csv'}")
        pictures = {
            "tpot.png": found.plot(),
            "kernels.png": found.plot_kernels(),
            "memory.png": found.plot_memory(batches[-1]),
        }
        for name, picture in pictures.items():
            print(f"wrote {picture.save(folder / name)}")
    return 0


def _serve(args: argparse.Namespace, model: LanguageModel, soc: SocSpec) -> int:
    from ascendsim.cli.run import print_formatted
    from ascendsim.core.progress import shown_progress
    from ascendsim.llm.interval import likely_line
    from ascendsim.llm.server import serve

    requests = _requests(args.serve)
    given = {name: value for name in _OF_SERVERS if (value := getattr(args, name)) is not None}
    with shown_progress("serving", "requests") as show:
        found = serve(model, requests, soc, mode=args.mode, progress=show, **given)
    print(f"{model.name}, {args.dtype}, {args.cards} x {found.soc}, {args.policy or 'continuous'} batching")
    if found.note:
        print(found.note)
    if found.estimated:
        print("lengths are estimated from letters")
    print_formatted(found.summary())
    print_formatted(found.table())
    print(likely_line(found.soc))
    if args.output is not None:
        folder = make_folder(args.output)
        for table in (found.summary(), found.table()):
            table.to_csv(folder / f"{table.name}.csv")
            print(f"wrote {folder / f'{table.name}.csv'}")
        print(f"wrote {found.plot().save(folder / 'serving.png')}")
    return 0


def _requests(text: str) -> str | Workload:
    """A file, or Poisson arrivals: RATE:COUNT:PROMPT:OUTPUT."""
    parts = text.split(":")
    if len(parts) == 1 or Path(text).exists():
        return text
    from ascendsim.llm.requests import poisson

    try:
        rate, count = float(parts[0]), int(parts[1])
        prompt, output = (numbers("--serve", part) for part in parts[2:])
    except ValueError:
        rule = "must be a file, or RATE:COUNT:PROMPT:OUTPUT"
        raise InputError("option --serve", rule, repr(text), "for example 4:1000:512:128") from None
    return poisson(rate, count, prompt, output)


def numbers(option: str, text: str) -> list[int]:
    """Reads a list of sizes.

    Raises:
        InputError: If something is no positive whole number.

    >>> numbers("--context", "128,1k,32k")
    [128, 1024, 32768]
    """
    found = []
    for part in text.split(","):
        word = part.strip().lower()
        unit = _UNITS.get(word[-1:], 1)
        digits = word[:-1] if unit > 1 else word
        if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 1 << 32):
            raise InputError(f"option {option}", "must be whole numbers, 1,8 or 1k,32k", repr(part))
        if int(digits) * unit in found:
            raise InputError(f"option {option}", f"names {part.strip()!r} twice")
        found.append(int(digits) * unit)
    return found
