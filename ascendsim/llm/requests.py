"""Requests to a server: when they arrive, how long their prompts are, and how many tokens they want."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ascendsim.core.arguments import check_seed, checked
from ascendsim.core.errors import InputError
from ascendsim.core.files import read_text
from ascendsim.graph.ir import Array

_MOST_BYTES = 1 << 31  # of a file
_MOST_REQUESTS = 10_000_000  # that are drawn
_MOST_TOKENS = 1 << 31  # of a prompt or an answer
# Keys under which benchmarks write lengths down; ours first
_PROMPT = ("prompt_tokens", "prompt_len", "input_len", "input_tokens", "input_length")
_OUTPUT = ("output_tokens", "output_len", "expected_output_len", "completion_tokens", "output_length")
_ARRIVAL = ("arrival", "arrival_s", "timestamp", "arrived_at")
LETTERS = 4  # of a token, where a file has text only: English text and tables of 100 000 tokens and more

Length = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        prompt, output: Tokens that come in, and that are wanted.
        arrival: Seconds after the first.
    """

    prompt: int
    output: int
    arrival: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order of their arrival, as arrays.

    Attributes:
        arrival: Seconds.
        prompt, output: Tokens.
        estimated: Whether lengths were estimated from text.
    """

    arrival: Array
    prompt: Array
    output: Array
    estimated: bool = False

    def __len__(self) -> int:
        return len(self.arrival)


@checked()
def poisson(
    rate: float, count: int, prompt: Length | list[int], output: Length | list[int], seed: int = 0
) -> Workload:
    """Requests that arrive independently of each other.

    Args:
        rate: Requests a second on average; infinite = all at once.
        count: Requests.
        prompt, output: Tokens, or lowest and highest number of evenly spread ones.
        seed: Equal seeds give equal requests.

    Raises:
        InputError: If a number is out of range.
    """
    if not rate > 0:
        raise InputError("option rate", "must be above 0", rate)
    if not 1 <= count <= _MOST_REQUESTS:
        raise InputError("option count", f"must be a whole number from 1 to {_MOST_REQUESTS:,}", count)
    check_seed(seed)
    random = np.random.default_rng(seed)
    gaps = random.exponential(1 / rate, count) if np.isfinite(rate) else np.zeros(count)
    arrival = np.cumsum(gaps) - gaps[0]
    prompts = _drawn(random, "prompt", prompt, count)
    return Workload(arrival, prompts, _drawn(random, "output", output, count))


def _drawn(random: np.random.Generator, name: str, span: Length | list[int], count: int) -> Array:
    ends = (span,) if isinstance(span, int | np.integer) else tuple(span)
    if len(ends) not in (1, 2) or not 1 <= ends[0] <= ends[-1] <= _MOST_TOKENS:
        raise InputError(
            f"option {name}",
            f"must be a number of tokens from 1 to {_MOST_TOKENS:,}, or a lowest and a highest one",
            repr(span) if len(ends) < 9 else f"{len(ends)} numbers",
        )
    low, high = ends[0], ends[-1]
    return np.asarray(random.integers(low, high + 1, count))


def workload(source: str | PathLike[str] | Sequence[Request] | Workload) -> Workload:
    """Requests from whatever users have.

    Args:
        source: Requests, or a file: a JSON list or one JSON object a line, each with lengths under one of the
            usual names, or a conversation of ShareGPT, whose lengths are estimated from its letters.

    Raises:
        InputError: If the file cannot be read, or a request lacks a field or has a wrong value.
    """
    if isinstance(source, Workload):
        return source
    if isinstance(source, str | PathLike):
        return _from_entries(_entries(Path(source)), str(source))
    if not source or not all(isinstance(one, Request) for one in source):
        raise InputError(
            "argument requests", "must be a file, or one or more Requests", remedy="asim.llm.poisson"
        )
    for number, one in enumerate(source):
        _length(one.prompt, "prompt", f"request {number}")
        _length(one.output, "output", f"request {number}")
    return _sorted([(one.arrival, one.prompt, one.output) for one in source], False)


def _entries(path: Path) -> Iterable[Any]:
    text = read_text(path, f"file {str(path)!r}", _MOST_BYTES)
    place = 0
    try:
        if text.lstrip()[:1] == "[":
            return list(json.loads(text))
        found = []
        for line in text.split("\n"):
            place += 1
            if line.strip():
                found.append(json.loads(line))
        return found
    except (ValueError, RecursionError) as error:
        where = f"line {place} of file" if place else "file"
        raise InputError(f"{where} {str(path)!r}", f"is no JSON: {error}") from error


def _from_entries(entries: Iterable[Any], name: str) -> Workload:
    rows: list[tuple[float, int, int]] = []
    estimated = False
    for number, entry in enumerate(entries):
        where = f"file {name!r}: request {number}"
        if not isinstance(entry, Mapping):
            raise InputError(where, "must be an object", repr(entry)[:40])
        arrival = _arrival(entry, where)
        if "conversations" in entry:
            found = _of_conversation(entry["conversations"], where)
            estimated = True
            if found is not None:
                rows.append((arrival, *found))
            continue
        sizes = [_field(entry, keys, where) for keys in (_PROMPT, _OUTPUT)]
        rows.append((arrival, sizes[0], sizes[1]))
    if not rows:
        raise InputError(f"file {name!r}", "has no requests")
    return _sorted(rows, estimated)


def _arrival(entry: Mapping[str, Any], where: str) -> float:
    for key in _ARRIVAL:
        if key in entry:
            value = entry[key]
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
                raise InputError(f"{where}: {key}", "must be seconds from 0 on", repr(value))
            return float(value)
    return 0.0


def _field(entry: Mapping[str, Any], keys: Sequence[str], where: str) -> int:
    for key in keys:
        if key in entry:
            return _length(entry[key], key, where)
    raise InputError(f"{where}: {keys[0]}", "is missing", remedy=f"or {', '.join(keys[1:])}")


def _length(value: Any, key: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_TOKENS:
        rule = f"must be a whole number of tokens from 1 to {_MOST_TOKENS:,}"
        raise InputError(f"{where}: {key}", rule, repr(value)[:40])
    return value


def _of_conversation(turns: Any, where: str) -> tuple[int, int] | None:
    """Lengths of the first question and its answer, None without one, as in vLLM's benchmark."""
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise InputError(f"{where}: conversations", "must be a list of objects")
    if len(turns) < 2:
        return None
    for number, turn in enumerate(turns[:2]):
        if not isinstance(turn.get("value"), str):
            raise InputError(f"{where}: conversations[{number}].value", "is missing")
    prompt, output = (max(1, len(turn["value"]) // LETTERS) for turn in turns[:2])
    return prompt, output


def _sorted(rows: Sequence[tuple[float, int, int]], estimated: bool) -> Workload:
    arrival, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(arrival, kind="stable")
    return Workload(arrival[order] - arrival.min(), prompt[order], output[order], estimated)
