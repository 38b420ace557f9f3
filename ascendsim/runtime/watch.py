"""Watches a run's numbers: every result is scanned once as it is computed; what does not fit its type is
looked into at once, while its inputs are still there.

Looking into it means computing the operator a second time in float32. That is done only for results with
infinities or NaN that came from finite inputs, and for those that are suspiciously full of zeros beside
numbers below the normal range; so a run without trouble pays for the scan alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from ascendsim.core.dtypes import saturates
from ascendsim.graph.composites import body_of, is_composite
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.ops.shared.common import as_float32, finish, settled
from ascendsim.ops.shared.magnitudes import ROUNDS_OUT, Magnitudes, left_float16, magnitudes
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Kind as OperatorKind
from ascendsim.runtime.numerics import Finding, Kind, Numerics, Range

DTypeOf = Callable[[Tensor], "np.dtype[Any]"]
Arrays = Sequence["Array | None"]

WHOLE16 = 2048  # up to here float16 holds every whole number


@dataclass(slots=True)
class _Open:
    """A finding that may still reach further operators."""

    finding: Finding
    after: dict[str, None] = field(default_factory=dict)
    outputs: dict[str, None] = field(default_factory=dict)


class Watch:
    """One run.

    Args:
        opset: Operators.
    """

    def __init__(self, opset: OpSet) -> None:
        self._opset = opset
        self._prefix = ""
        self._dtype_of: DTypeOf = lambda tensor: tensor.element_type.numpy
        self._ranges: dict[str, Range] = {}
        self._open: dict[tuple[str, Kind], _Open] = {}
        self._causes: dict[str, tuple[_Open, ...]] = {}  # by tensor that is not finite
        # stands for what the user gave, and is never reported
        self._outside = _Open(Finding("", "", "infinite", "", math.inf, math.inf, 0, 0))

    def begin(self, graph: Graph, arrays: Mapping[str, Array], dtype_of: DTypeOf, prefix: str = "") -> None:
        """A graph starts: the whole model, or a piece of it with the results of earlier ones as inputs."""
        self._prefix, self._dtype_of = prefix, dtype_of
        earlier = tuple(self._open.values()) or (self._outside,)
        self._causes = {name: earlier for name, array in arrays.items() if not _finite(array)}
        if not prefix:  # inputs of pieces are results of others
            for name, array in arrays.items():
                self._input(graph.tensors[name], array)
        for tensor in graph.constants:
            if dtype_of(tensor) == np.float16 and any(
                self._reckons(node, port) for node, port in tensor.uses
            ):
                self._weight(tensor)

    def _reckons(self, node: Node, port: int) -> bool:
        """Whether a constant is used as numbers: no filter, no table of embeddings."""
        facts = self._opset.get(node).facts
        return port not in facts.operands and facts.kind is not OperatorKind.MOVEMENT

    def node(
        self,
        node: Node,
        inputs: Arrays,
        results: Sequence[Any],
        inside: Mapping[Node, Magnitudes] | None = None,
    ) -> None:
        """An operator has been computed and its inputs still hold their values.

        Args:
            node: The operator.
            inputs: As it had them.
            results: As it made them: infinities and NaN stand where the chip may saturate.
            inside: What the results of a composite's operators held before they were saturated; None where
                nothing saturates, so that its own results show it.
        """
        if self._moves(node, inputs, results):
            return
        held = [None if result is None else magnitudes(np.asarray(result)) for result in results]
        self._note(node, held, results)
        bad = [
            tensor
            for tensor, seen in zip(node.outputs, held, strict=False)
            if seen is not None and not seen.finite
        ]
        if inside and left_float16(inside, self._dtype_of):
            if _overlap(inputs, results):
                self._from_what_was_seen(body_of(node).topological(), inside, self._dtype_of)
            else:
                self._body(node, inputs)
        elif bad and is_composite(node) and not _overlap(inputs, results):
            self._body(node, inputs)
        elif bad:
            self._not_finite(node, inputs, results, bad)
        elif any(seen is not None and seen.suspicious for seen in held):
            self._flushed(node, inputs, results)
        self._converted(node, inputs, results, held)

    def chain(
        self,
        nodes: Sequence[Node],
        arrays: Mapping[Tensor, Array],
        seen: Mapping[Node, Magnitudes],
        results: Mapping[Tensor, Array],
        dtype_of: DTypeOf,
    ) -> None:
        """Operators have been computed together; `seen` is what their results held.

        Where one of them has left its type, they are computed again one by one, which gives the same bits.
        """
        held = dict(seen)
        for tensor, result in results.items():
            node = tensor.producer
            if node is not None and node not in held and (found := magnitudes(result)) is not None:
                held[node] = found
        if any(not item.finite or item.flushed or item.suspicious for item in held.values()) or left_float16(
            held, dtype_of
        ):
            if _overlap(list(arrays.values()), list(results.values())):
                self._from_what_was_seen(nodes, held, dtype_of)
            else:
                self._one_by_one(nodes, arrays, dtype_of)
            return
        for node, item in held.items():
            self._widen(node, dtype_of(node.output), item.largest)

    def end(self, outputs: Mapping[str, Array], tensors: Mapping[str, Tensor] | None = None) -> None:
        """Outputs of the network are there.

        Args:
            outputs: By name.
            tensors: Of the graph that began; without them every overflow may have led to an output that is
                not finite.
        """
        for name, array in outputs.items():
            if not _finite(array):
                causes = tuple(self._open.values()) if tensors is None else self._causes_of(tensors[name])
                for cause in causes:
                    cause.outputs[name] = None

    def report(self) -> Numerics:
        """What was seen."""
        found = tuple(
            replace(item.finding, after=tuple(item.after), outputs=tuple(item.outputs))
            for item in self._open.values()
        )
        return Numerics(tuple(self._ranges.values()), found)

    def _moves(self, node: Node, inputs: Arrays, results: Sequence[Any]) -> bool:
        """Whether results are elements of inputs, which have been seen."""
        first = inputs[0] if inputs else None
        return (
            self._opset.get(node).facts.kind is OperatorKind.MOVEMENT
            and first is not None
            and all(result is None or np.asarray(result).dtype == first.dtype for result in results)
        )

    def _name(self, node: Node) -> str:
        return self._prefix + node.name

    def _note(self, node: Node, held: Sequence[Magnitudes | None], results: Sequence[Any]) -> None:
        for seen, result in zip(held, results, strict=True):
            if seen is not None:
                self._widen(node, np.asarray(result).dtype, seen.largest)

    def _widen(self, node: Node, dtype: np.dtype[Any], largest: float) -> None:
        """Adds a result to an operator's range; loops come here again and again."""
        name = self._name(node)
        known = self._ranges.get(name)
        if known is not None:
            largest = float(np.maximum(known.largest, largest))  # NaN where one is
        self._ranges[name] = Range(name, node.op_type, dtype.name, largest, limit_of(dtype))

    def _not_finite(self, node: Node, inputs: Arrays, results: Sequence[Any], bad: Sequence[Tensor]) -> None:
        guilty = [
            tensor
            for tensor, array in zip(node.inputs, inputs, strict=False)
            if tensor is not None and array is not None and not _finite(array)
        ]
        if guilty:
            causes = tuple(
                {id(cause): cause for tensor in guilty for cause in self._causes_of(tensor)}.values()
            )
            for cause in causes if "inserted" not in node.origin else ():
                cause.after[self._name(node)] = None
            if causes == (self._outside,):
                self._cut(node, results)
        else:
            causes = (self._overflow(node, inputs, results),)
        self._causes.update((tensor.name, causes) for tensor in bad)

    def _causes_of(self, tensor: Tensor) -> tuple[_Open, ...]:
        """Which overflows made a tensor not finite; operators that only rename memory never run, so the
        question goes on to their inputs.
        """
        if tensor.name not in self._causes:
            inputs = () if tensor.producer is None else tensor.producer.inputs
            found = {
                id(cause): cause
                for source in inputs
                if source is not None
                for cause in self._causes_of(source)
            }
            self._causes[tensor.name] = tuple(found.values())
        return self._causes[tensor.name]

    def _overflow(self, node: Node, inputs: Arrays, results: Sequence[Any]) -> _Open:
        """Finite inputs, a result that is not: by how much, as far as float32 tells."""
        wide = self._in_float32(node, inputs, results)
        largest, count, elements, dtype = 0.0, 0, 0, np.dtype(np.float32)
        for position, result in enumerate(results):
            array = np.asarray(result)
            if result is None or not _is_float(array):
                continue
            lost = ~np.isfinite(array)
            if not lost.any():
                continue
            count, elements, dtype = count + int(lost.sum()), elements + array.size, array.dtype
            if wide is not None:
                exact = np.abs(np.asarray(wide[position])[lost])
                largest = max(largest, float(exact[np.isfinite(exact)].max(initial=0.0)))
        limit = limit_of(dtype)
        kind: Kind = "overflow" if largest > limit else "infinite"
        return self._found(node, kind, dtype, largest or float("inf"), limit, (count, elements))

    def _flushed(self, node: Node, inputs: Arrays, results: Sequence[Any]) -> None:
        wide = self._in_float32(node, inputs, results)
        for position, result in enumerate(results if wide is not None else ()):
            array = np.asarray(result)
            if wide is None or array.dtype != np.float16:
                continue
            exact = np.asarray(wide[position])
            lost = (array == 0) & (exact != 0)
            if lost.any():
                largest = float(np.abs(exact[lost]).max())
                least = float(np.finfo(np.float16).smallest_subnormal)
                self._found(node, "flushed", array.dtype, largest, least, (int(lost.sum()), array.size))

    def _converted(
        self, node: Node, inputs: Arrays, results: Sequence[Any], held: Sequence[Magnitudes | None]
    ) -> None:
        """Conversions between floats and integers."""
        if self._opset.get(node).facts.kind is not OperatorKind.MOVEMENT or len(results) != 1:
            return
        source, result = inputs[0] if inputs else None, np.asarray(results[0])
        if source is None or source.shape != result.shape or source.dtype == result.dtype:
            return
        seen = held[0]
        if seen is not None and source.dtype.kind in "iu" and result.dtype == np.float16:
            if seen.largest >= WHOLE16:  # which 2049 becomes
                lost = as_float32(result).astype(np.float64) != source
                if lost.any():
                    self._found(node, "digits", result.dtype, float(np.abs(source).max()), float(WHOLE16),
                                (int(lost.sum()), result.size))  # fmt: skip
        elif result.dtype.kind in "iu" and (before := magnitudes(source)) is not None:
            limits = np.iinfo(result.dtype)
            if before.largest > min(limits.max, -int(limits.min) or limits.max) or limits.min == 0:
                wide = as_float32(source).astype(np.float64)
                lost = ~((np.trunc(wide) >= limits.min) & (np.trunc(wide) <= limits.max))
                if lost.any():
                    self._found(node, "saturated", result.dtype, before.largest, float(limits.max),
                                (int(lost.sum()), result.size))  # fmt: skip

    def _weight(self, tensor: Tensor) -> None:
        """Constants beyond float16 are cut to its last number as they are loaded (ATC's --is_weight_clip)."""
        constant, limit = tensor.constant, limit_of(np.dtype(np.float16))
        if constant is None or not constant.available:
            return
        values = constant.array()
        seen = magnitudes(values)
        if seen is None or values.dtype == np.float16 or not seen.largest > limit:
            return
        lost = int((np.abs(values) > limit).sum())
        finding = Finding(tensor.name, "Constant", "saturated", "float16", seen.largest, limit, lost,
                          tensor.elements)  # fmt: skip
        self._open.setdefault((self._prefix + tensor.name, "saturated"), _Open(finding))

    def _input(self, tensor: Tensor, array: Array) -> None:
        """Infinities and NaN of the user in float16, where the chip has none."""
        dtype = self._dtype_of(tensor)
        if saturates(dtype) and not _finite(array):
            limit, lost = limit_of(dtype), int((~np.isfinite(array)).sum())
            finding = Finding(tensor.name, "Data", "saturated", dtype.name, math.inf, limit, lost, array.size)
            self._open.setdefault((tensor.name, "saturated"), _Open(finding))

    def _cut(self, node: Node, results: Sequence[Any]) -> None:
        """The same where an operator reads them in a wider type."""
        for tensor, result in zip(node.outputs, results, strict=False):
            dtype = self._dtype_of(tensor)
            if result is not None and saturates(dtype) and not _finite(np.asarray(result)):
                lost = int((~np.isfinite(result)).sum())
                part = lost, np.asarray(result).size
                self._found(node, "saturated", dtype, math.inf, limit_of(dtype), part)

    def _found(
        self,
        node: Node,
        kind: Kind,
        dtype: np.dtype[Any],
        largest: float,
        limit: float,
        part: tuple[int, int],
    ) -> _Open:
        """Notes that `count` of `elements` (the part) came to harm, once for all trips of a loop."""
        count, elements = part
        name = self._name(node)
        known = self._open.get((name, kind))
        if known is not None:  # an iteration of a loop before
            finding = known.finding
            known.finding = replace(
                finding,
                largest=max(finding.largest, largest),
                count=finding.count + count,
                elements=finding.elements + elements,
            )
            return known
        sources = tuple(node.origin.get("source_names", (node.name,)))
        ends = kind in ("overflow", "infinite") and any(map(saturates, map(self._dtype_of, node.outputs)))
        finding = Finding(name, node.op_type, kind, dtype.name, largest, limit, count, elements,
                          sources=sources, saturates=ends and dtype == np.float16)  # fmt: skip
        return self._open.setdefault((name, kind), _Open(finding))

    def _in_float32(self, node: Node, inputs: Arrays, results: Sequence[Any]) -> Sequence[Any] | None:
        """The operator computed again in float32; None for those that are made of others."""
        definition = self._opset.get(node)
        if definition.compute_body is not None:
            return None
        wide = [None if array is None else as_float32(array) for array in inputs]
        single = np.dtype(np.float32)
        wanted = [
            np.asarray(item).dtype if item is None or not _is_float(np.asarray(item)) else single
            for item in results
        ]
        with np.errstate(all="ignore"):
            return definition.compute(node, wide, wanted)

    def _body(self, node: Node, inputs: Arrays) -> None:
        """A composite, operator by operator."""
        body = body_of(node)
        arrays = {
            tensor: array for tensor, array in zip(body.inputs, inputs, strict=True) if array is not None
        }
        for tensor, inner in zip(node.inputs, body.inputs, strict=True):
            if tensor is not None and tensor.name in self._causes:
                self._causes[inner.name] = self._causes[tensor.name]
        for tensor in body.constants:
            if tensor.constant is not None:
                dtype = self._dtype_of(tensor)
                arrays[tensor] = settled(finish(tensor.constant.array(), dtype), dtype)
        self._one_by_one(body.topological(), arrays, self._dtype_of)
        for outer, inner in zip(node.outputs, body.outputs, strict=True):
            self._causes[outer.name] = self._causes_of(inner)

    def _from_what_was_seen(
        self, nodes: Sequence[Node], held: Mapping[Node, Magnitudes], dtype_of: DTypeOf
    ) -> None:
        """Findings of operators whose results lie where their inputs lay; counts are not known then, 1 stands
        for at least one.
        """
        for node in nodes:
            item, dtype = held.get(node), dtype_of(node.output)
            if item is None:
                continue
            self._widen(node, dtype, item.largest)
            limit = limit_of(dtype) if dtype.kind == "f" else math.inf
            causes = tuple(
                {
                    id(cause): cause
                    for tensor in node.inputs
                    # of results that fit their type, none is asked for
                    if tensor is not None and (tensor.producer not in held or tensor.name in self._causes)
                    for cause in self._causes_of(tensor)
                }.values()
            )
            if item.flushed:
                least = float(np.finfo(np.float16).smallest_subnormal)
                self._found(node, "flushed", dtype, 0.0, least, (item.flushed, node.output.elements))
            if item.finite and (dtype != np.float16 or item.largest < ROUNDS_OUT):
                continue
            if saturates(dtype):  # each operator's own: what it read was finite
                kind: Kind = "overflow" if item.finite else "infinite"
                self._found(node, kind, dtype, item.largest, limit, (1, node.output.elements))
                continue
            for cause in causes:
                cause.after[self._name(node)] = None
            if not causes:
                kind = "overflow" if item.finite else "infinite"
                causes = (self._found(node, kind, dtype, item.largest, limit, (1, node.output.elements)),)
            self._causes[node.output.name] = causes

    def _one_by_one(self, nodes: Sequence[Node], arrays: Mapping[Tensor, Array], dtype_of: DTypeOf) -> None:
        values = dict(arrays)
        for node in nodes:
            given = [None if tensor is None else values[tensor] for tensor in node.inputs]
            with np.errstate(all="ignore"):
                results = self._opset.get(node).compute(node, given, [dtype_of(t) for t in node.outputs])
            self.node(node, given, results)
            values.update(
                (tensor, settled(np.asarray(result), dtype_of(tensor)))
                for tensor, result in zip(node.outputs, results, strict=False)
                if result is not None
            )


@cache
def limit_of(dtype: np.dtype[Any]) -> float:
    """The largest number of a floating-point type."""
    import ml_dtypes  # knows bfloat16 as well

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _overlap(inputs: Arrays, results: Sequence[Any]) -> bool:
    """Whether a result may lie where an input lay."""
    return any(
        np.may_share_memory(one, two)
        for one in inputs
        for two in results
        if one is not None and two is not None
    )


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def _finite(array: Array) -> bool:
    seen = magnitudes(array)
    return seen is None or seen.finite
