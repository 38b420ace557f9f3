"""Attention as one kernel: products and vector work on blocks of queries x keys, whose scores go from cube to
vector cores and back and are never tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ascendsim.core.dtypes import DType
from ascendsim.opset.refs import Ref
from ascendsim.opset.steps import Step

Extent = Literal["rows", "columns"] | int


@dataclass(frozen=True, slots=True)
class Band:
    """Keys that a query may see: from its own number + `low` to its own number + `high`."""

    low: float = -math.inf
    high: float = math.inf

    def columns(self, first: int, rows: int, keys: int) -> tuple[int, int]:
        """The first key that any of some rows sees, and the end of those.

        >>> Band(high=0).columns(4, 2, 16), Band(-1, 1).columns(4, 2, 16), Band().columns(4, 2, 16)
        ((0, 6), (3, 7), (0, 16))
        """
        start = int(max(0, min(keys, first + self.low)))
        return start, int(max(start, min(keys, first + rows + self.high)))

    def covers(self, first: int, rows: int, columns: range) -> bool:
        """Whether each of some rows sees all of some columns.

        >>> Band(high=0).covers(4, 2, range(5)), Band(high=0).covers(4, 2, range(6))
        (True, False)
        """
        return columns.stop - 1 - first <= self.high and columns.start - (first + rows - 1) >= self.low


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of a tensor that are operand or result of products.

    Attributes:
        stride: Elements from one row to the next.
    """

    ref: Ref
    stride: int


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """A product for each block: [m x k] @ [k x n], sizes in elements or those of the block.

    Attributes:
        transpose_a, transpose_b: Whether an operand is stored the other way round.
        added: Whether results are added to what is in memory, in float32.
        more: Further elements of k, that lie in tensors of their own: how many, and both operands.
    """

    m: Extent
    k: Extent
    n: Extent
    a: Matrix
    b: Matrix
    out: Matrix
    transpose_a: bool = False
    transpose_b: bool = False
    added: bool = False
    more: tuple[tuple[int, Matrix, Matrix], ...] = ()


@dataclass(frozen=True, slots=True)
class Join:
    """What vector cores do to the weighted sums of a block: add them to those before, which shrink as maxima
    rise; the last ones leave as results.

    Attributes:
        width: Elements of a row.
        partial, running: Sums of one block, and of all so far, in scratch memory.
        out: The result.
        steps, last: On each sum, and further ones on the last.
        rows: What else is stored a row at the end.
    """

    width: int
    partial: Matrix
    running: Ref
    out: Matrix
    steps: tuple[Step, ...]
    last: tuple[Step, ...]
    rows: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Vector work on whole tensors before or behind the blocks, by all vector cores.

    Attributes:
        elements: Of the largest tensor.
        steps: On each element.
    """

    elements: int
    steps: tuple[Step, ...]
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class EqualHeads:
    """Heads whose scores are alike.

    Attributes:
        count: How many there are.
        queries, keys: Scores of one.
        band: Scores that count; blocks without any are left out.
        group: Rows that a query has: heads that share their keys, side by side.
    """

    count: int
    queries: int
    keys: int
    band: Band = Band()
    group: int = 1


@dataclass(frozen=True, slots=True)
class AttentionWork:
    """Blocks of `rows` x `columns` scores of each head.

    Attributes:
        heads: Of queries, in all of the batch.
        rows: Of a block, shared by the vector cores of an AI Core.
        dtype: Of the Cube's operands.
        before: Products whose results are scores (float32, in scratch memory).
        after: Products of what the vector cores make of them.
        scores, weights: What vector cores read and store, one of each a score.
        given: What else they read, a value a score.
        row_values: What they read besides, a value a row (a block of 32 bytes).
        steps: On each score; "row" = on one value a row.
        masks, mask_steps: What is read and done in blocks that the mask reaches into.
        masked: Whether it reaches into all; else only into those that the band cuts.
        trimmed: Whether the last block of a row block ends where the band does; else it is as wide as all.
        started: Whether cores are busy before they begin (`KernelSpec.attention_start_ns`).
        tiles_in_l1: Tiles along k that come into L1 at a time; the right operand has one buffer more.
        join: What becomes of the products `after`; None = they are added up in memory.
        prologue, epilogue: Before the first and behind the last block of all.
    """

    heads: tuple[EqualHeads, ...]
    rows: int
    columns: int
    dtype: DType
    before: tuple[BlockProduct, ...]
    after: tuple[BlockProduct, ...]
    scores: tuple[Matrix, ...]
    weights: tuple[Matrix, ...]
    given: tuple[Ref, ...]
    row_values: tuple[Ref, ...]
    steps: tuple[Step, ...]
    masks: tuple[Ref, ...] = ()
    mask_steps: tuple[Step, ...] = ()
    masked: bool = False
    trimmed: bool = True
    started: bool = False
    tiles_in_l1: int = 1
    join: Join | None = None
    prologue: tuple[Sweep, ...] = ()
    epilogue: tuple[Sweep, ...] = ()
