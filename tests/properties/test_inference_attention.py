"""Attention of inference over random shapes, lengths, bands, pages and types: values are the formula's in any
block size, and the work adds up to the scores that count."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from ascendsim.ops import default_opset
from ascendsim.ops.linear import inference_attention
from ascendsim.opset.work import AttentionWork, LowerContext
from tests.support.gate import in_one
from tests.support.single_node import make_node, run

TOLERANCE = {"float64": 1e-11, "float32": 3e-6, "float16": 3e-3}


class _Case:
    """A batch of sequences, each with its own lengths, stored in some way."""

    def __init__(self, seed: int) -> None:
        self.random, self.draw = Random(seed), np.random.default_rng(seed)
        r = self.random
        self.batch, self.shared, group = r.randint(1, 3), r.choice((1, 2, 3)), r.choice((1, 2, 4, 5))
        self.heads = self.shared * group
        self.size, self.width = r.choice((16, 24, 32)), r.choice((16, 40))
        self.most = r.choice((1, 1, 3, 18, 40)), r.choice((1, 17, 33, 70))
        self.queries = [r.randint(0 if self.most[0] > 1 else 1, self.most[0]) for _ in range(self.batch)]
        self.keys = [r.randint(1, self.most[1]) for _ in range(self.batch)]
        self.mode = r.choice((0, 2, 3, 4)) if self.most[0] > 1 else 0
        self.before, self.behind = r.randint(0, 20), r.randint(-3, 9)
        self.kind = r.choice((*TOLERANCE, "float32"))
        self.scale = r.choice((0.2, 1.0))
        made = ((self.heads, self.size, self.most[0]), (self.shared, self.size, self.most[1]))
        made = (*made, (self.shared, self.width, self.most[1]))
        self.q, self.k, self.v = (
            self.draw.standard_normal((self.batch, count, length, size)).astype(self.kind)
            for count, size, length in made
        )
        self.form = r.choice(("BNSD", "BSND", "BSH", "TND", "pages", "packed pages"))
        self.bound = r.choice((0.0, 0.0, 1.5))
        self.slopes = r.choice((None, np.float32(2.0) ** -np.arange(1, self.heads + 1)))

    def seen(self, at: int) -> Any:
        """Which keys the queries of a sequence see."""
        rows, columns = self.queries[at], self.keys[at]
        distance = np.arange(columns) - np.arange(rows)[:, None]
        corner = columns - rows
        low, high = {
            0: (-999, 999),
            2: (-999, 0),
            3: (-999, corner),
            4: (corner - self.before, corner + self.behind),
        }[self.mode]
        return (distance >= low) & (distance <= high)

    def wanted(self, at: int) -> Any:
        """Results of a sequence: head, query, element."""
        group = self.heads // self.shared
        q = self.q[at, :, : self.queries[at]].astype(np.float64)
        k, v = (x[at, :, : self.keys[at]].astype(np.float64).repeat(group, 0) for x in (self.k, self.v))
        scores = q @ k.swapaxes(1, 2) * self.scale
        if self.bound:
            scores = self.bound * np.tanh(scores / self.bound)
        if self.slopes is not None:  # the last query stands at the last key
            own = np.arange(self.queries[at]) + self.keys[at] - self.queries[at]
            scores = scores - self.slopes[:, None, None] * np.abs(np.arange(self.keys[at]) - own[:, None])
        scores = np.where(self.seen(at), scores, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-1e300)
        powers = np.exp(scores - top)
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total > 0, total, 1) @ v

    def node(self) -> tuple[list[Any], dict[str, Any]]:
        """Inputs and attributes."""
        ports: list[Any] = [None] * 15
        packed = self.form in ("TND", "packed pages")
        numbers: dict[str, Any] = {"num_heads": self.heads, "num_key_value_heads": self.shared}
        numbers |= {"scale": self.scale, "sparse_mode": self.mode}
        numbers |= {"softcap": self.bound} if self.bound else {}
        numbers |= {"pse_type": 2} if self.slopes is not None else {}
        ports[3] = self.slopes
        numbers |= {"pre_tokens": self.before, "next_tokens": self.behind} if self.mode == 4 else {}
        numbers["input_layout"] = "TND" if packed else "BNSD" if self.form == "pages" else self.form
        ports[0] = self._stored(self.q, self.queries) if packed else self._laid(self.q)
        ports[5] = np.cumsum(self.queries) if packed else np.array(self.queries)
        ports[6] = np.cumsum(self.keys) if self.form == "TND" else np.array(self.keys)
        if "pages" in self.form:
            self._paged(ports, numbers)
        else:
            give = (lambda x: self._stored(x, self.keys)) if packed else self._laid
            ports[1], ports[2] = give(self.k), give(self.v)
        return ports, numbers

    def _laid(self, x: Any) -> Any:
        if self.form in ("BNSD", "pages"):
            return x
        x = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
        return x.reshape(*x.shape[:2], -1) if self.form == "BSH" else x

    def _stored(self, x: Any, lengths: list[int]) -> Any:
        parts = [x[at, :, :length].swapaxes(0, 1) for at, length in enumerate(lengths)]
        return np.concatenate(parts)

    def _paged(self, ports: list[Any], numbers: dict[str, Any]) -> None:
        page = numbers["block_size"] = self.random.choice((8, 16))
        room = -(-self.most[1] // page)
        table = np.full((self.batch, room), -1, np.int32)
        places = iter(self.draw.permutation(self.batch * room))
        inner = self.random.random() < 0.5
        shapes = [(self.batch * room, self.shared, page, x.shape[-1]) for x in (self.k, self.v)]
        pools = [np.full(shape, np.nan, self.kind) for shape in shapes]
        for at, length in enumerate(self.keys):
            for number in range(-(-length // page)):
                table[at, number] = place = next(places)
                for pool, x in zip(pools, (self.k, self.v), strict=True):
                    part = x[at, :, number * page : min(length, number * page + page)]
                    pool[place, :, : part.shape[1]] = part
        if not inner:
            pools = [pool.swapaxes(1, 2).reshape(len(pool), page, -1) for pool in pools]
        ports[1], ports[2], ports[14] = *pools, table

    def result(self, found: Any, at: int) -> Any:
        """Results of a sequence out of those of the node."""
        if self.form in ("TND", "packed pages"):
            first = sum(self.queries[:at])
            return found[first : first + self.queries[at]].swapaxes(0, 1)
        if self.form == "BSH":
            found = found.reshape(*found.shape[:2], self.heads, -1)
        own = found[at] if self.form in ("BNSD", "pages") else found[at].swapaxes(0, 1)
        assert not own[:, self.queries[at] :].any()
        return own[:, : self.queries[at]]


@pytest.mark.parametrize("seed", range(40))
def test_values_are_the_formulas_in_any_block_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _Case(seed)
    if not sum(case.queries):
        return
    monkeypatch.setattr(inference_attention, "ROWS", case.random.choice((1, 7, 128)))
    monkeypatch.setattr(inference_attention, "COLUMNS", case.random.choice((3, 16, 1024)))
    ports, numbers = case.node()
    (found,) = run("FusedInferAttentionScore", ports, 1, "ascend", **numbers)
    for at in range(case.batch):
        wanted, own = case.wanted(at), case.result(found, at).astype(np.float64)
        assert own.shape == wanted.shape
        largest = np.abs(case.v.astype(np.float64)).max()
        assert np.abs(own - wanted).max(initial=0) <= TOLERANCE[case.kind] * largest


@in_one("seed", range(40))
def test_the_work_has_all_scores_that_count_once(seed: int) -> None:
    """Rows times keys of all kinds of heads are scores of the batch; a step of decoding leaves out keys that
    no query sees."""
    case = _Case(seed)
    case.kind = "float16"
    if not sum(case.queries):
        return
    ports, numbers = case.node()
    ports = [None if x is None else x.astype(np.float16) if x.dtype.kind == "f" else x for x in ports]
    node = make_node("FusedInferAttentionScore", ports, 1, "ascend", **numbers)
    work = default_opset().get(node).work(node, LowerContext(cores=24, split_cores=True))
    assert isinstance(work, AttentionWork)
    scores = sum(one.count * one.queries * one.group * one.keys for one in work.heads)
    if max(case.queries) > 16:
        wanted = sum(q * k for q, k in zip(case.queries, case.keys, strict=True))
    else:
        spans = [np.flatnonzero(case.seen(at).any(0)) for at in range(case.batch)]
        ends = [span[-1] - span[0] + 1 if len(span) else 0 for span in spans]
        wanted = sum(q * k for q, k in zip(case.queries, ends, strict=True))
    assert scores == wanted * case.heads
