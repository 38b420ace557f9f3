"""The simulated device memory: one byte array in which every activation lives at the address that the planner
gave it.

Values are kept row-major (logical order) whatever the format of the tensor: a blocked format only adds
padding, so the logical bytes always fit into the region. Weights are read-only and stay outside the array,
converted once for all runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType, saturates
from ascendsim.core.errors import GraphError, SimulationError
from ascendsim.core.host_memory import require_host_memory
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Region, owner_of
from ascendsim.ops.shared.common import finish, settled

Values = Literal["device", "float32"]
Array = NDArray[Any]

FLOAT16: np.dtype[Any] = np.dtype(np.float16)
_POISON = 0xFF  # every float type reads as NaN, so a read of memory that nobody wrote shows in the outputs


class DeviceMemory:
    """Reads and writes tensors at their planned addresses.

    Under `values="float32"` elements are as wide as in the user's model (float32 where the device has
    float16), so all addresses are stretched by one common factor: tensors that overlap on the device overlap
    here too.

    Args:
        graph: The compiled graph.
        plan: Regions by tensor name.
        values: "device" for device types, "float32" for the model's own types.
        half: The chip's float16, which may saturate (`core.dtypes.saturates`).

    Attributes:
        saturates: Whether results beyond float16 become its last number in this run.
        overflowed: Whether one has since it was cleared: the cores' status register.
    """

    def __init__(self, graph: Graph, plan: MemoryPlan, values: Values, half: np.dtype[Any] = FLOAT16) -> None:
        self._plan, self._device = plan, values == "device"
        self._half = half
        self.saturates, self.overflowed = self._device and saturates(half), False
        self._constants: dict[str, Array] = {}
        self._views: dict[str, Array] = {}  # addresses stay, so one view a tensor does for all runs
        self._lent: list[str] = []  # inputs whose view is the caller's array
        self._roots: dict[str, Tensor | None] = {}
        self._tensors: Mapping[str, Tensor] = graph.tensors
        self._stretch = 1
        if not self._device:
            self._stretch = max(
                (
                    -(-self.dtype(t).itemsize // t.element_type.itemsize)
                    for t in self._tensors.values()
                    if t.dtype
                ),
                default=1,
            )
        size = max((r.offset + r.bytes for r in plan.regions.values() if r.kind != "weight"), default=0)
        weights = sum(r.bytes for r in plan.regions.values() if r.kind == "weight" and r.alias_of is None)
        require_host_memory(
            f"values of graph {graph.name!r}",
            size * self._stretch + weights,
            "run without values (--values off), with a smaller batch, or where more is free",
        )
        self._bytes = np.empty(size * self._stretch, np.uint8)
        self._apart = _apart([r for r in plan.regions.values() if r.kind != "weight"])
        self._spans = _joined(
            (r.offset * self._stretch, (r.offset + r.bytes) * self._stretch)
            for r in plan.regions.values()
            if r.kind not in ("weight", "workspace") and not (r.kind == "input" and r.name in self._apart)
        )
        self.wipe()

    def wipe(self) -> None:
        """Forgets all values but the constants. Workspace holds no values, and inputs that are apart come
        from outside: the host never touches their bytes, so they take none of its memory.
        """
        for first, last in self._spans:
            self._bytes[first:last] = _POISON

    def take(self, tensor: Tensor, array: Array) -> None:
        """Takes in the values of an input; where nothing else ever lies at its address they are read where
        they are, until `give_back`.

        Raises:
            SimulationError: As `write`.
        """
        if not (self.holds(tensor) and tensor.name in self._apart and array.flags.c_contiguous):
            self.write(tensor, array)
            return
        self._check_form(tensor, array, tensor.static_shape, self.dtype(tensor))
        self._views[tensor.name] = array.view()
        self._lent.append(tensor.name)

    def give_back(self) -> None:
        """Lets go of the arrays that `take` left where they are."""
        for name in self._lent:
            self._views.pop(name, None)
        self._lent.clear()

    def dtype(self, tensor: Tensor) -> np.dtype[Any]:
        """The NumPy type that a tensor's values have in this run; float16 says whether it saturates."""
        kind = tensor.element_type if self._device or tensor.origin_dtype is None else tensor.origin_dtype
        return self._half if self._device and kind is DType.FLOAT16 else kind.numpy

    def taken(self, tensor: Tensor, array: Array) -> Array:
        """An array of the user in the type that it has in this run."""
        with np.errstate(all="ignore"):
            return settled(np.asarray(array, self.dtype(tensor)), self.dtype(tensor))

    def read(self, tensor: Tensor) -> Array:
        """The tensor's values as a view of device memory (or the converted constant); do not write to it."""
        source = self._root(tensor)
        if source is not None:
            return self._constant(source).reshape(tensor.static_shape)
        return np.ascontiguousarray(self._view(tensor)) if self._in_slice(tensor) else self._view(tensor)

    def write(self, tensor: Tensor, array: Array) -> None:
        """Stores values at the tensor's address.

        Raises:
            SimulationError: If shape or type are not the tensor's.
        """
        view = self._view(tensor)
        self._check_form(tensor, array, view.shape, view.dtype)
        if not array.size:
            return
        if _is_same(array, view):
            return  # computed in its place
        if not np.may_share_memory(view, self._bytes):
            raise SimulationError(
                f"tensor {tensor.name!r}",
                "is a slice under another shape, which no task can write",
                remedy="please report this",
            )
        view[...] = array

    def _check_form(self, tensor: Tensor, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if array.shape != shape or array.dtype != dtype:
            raise SimulationError(
                f"values of tensor {tensor.name!r}",
                f"must be {dtype}{list(shape)}",
                f"{array.dtype}{list(array.shape)}",
                "its operator's shape rule and its kernel disagree; please report this",
            )

    def place(self, tensor: Tensor) -> Array | None:
        """Where a tensor's values belong, to be written there; None if it has no stretch of memory of its
        own.
        """
        if not self.holds(tensor) or self._root(tensor) is not None or self._in_slice(tensor):
            return None
        return self._view(tensor)

    def write_all(self, results: Mapping[Tensor, Array]) -> None:
        """Stores the results of a task, which may lie where its inputs lay.

        Of several results, those that are views of device memory are copied first: writing one could change
        another.
        """
        if len(results) > 1:
            results = {
                t: array.copy()
                if np.may_share_memory(array, self._bytes) and not _is_same(array, self.place(t))
                else array
                for t, array in results.items()
            }
        for tensor, array in results.items():
            self.write(tensor, array)

    def holds(self, tensor: Tensor) -> bool:
        """Whether the plan gave the tensor an address (outputs that nobody reads may have none)."""
        return tensor.name in self._plan.regions

    def _region(self, tensor: Tensor) -> Region:
        region = self._plan.regions.get(owner_of(self._plan.regions, tensor.name, through_slices=False))
        if region is None:
            raise SimulationError(
                f"tensor {tensor.name!r}",
                "has no address in device memory",
                remedy="the memory plan misses it; please report this",
            )
        return region

    def _root(self, tensor: Tensor) -> Tensor | None:
        """The constant behind a tensor, if it is one or an alias of one."""
        if tensor.is_constant:
            return tensor
        if tensor.name not in self._roots:
            root = None
            if tensor.name in self._plan.regions:
                root = self._tensors.get(owner_of(self._plan.regions, tensor.name))
            self._roots[tensor.name] = root if root is not None and root.is_constant else None
        return self._roots[tensor.name]

    def _in_slice(self, tensor: Tensor) -> bool:
        """Whether the tensor's memory is a slice of another tensor's."""
        region = self._plan.regions.get(owner_of(self._plan.regions, tensor.name, through_slices=False))
        return region is not None and region.cut is not None

    def _view(self, tensor: Tensor) -> Array:
        if tensor.name not in self._views:
            self._views[tensor.name] = self._new_view(tensor)
        return self._views[tensor.name]

    def _new_view(self, tensor: Tensor) -> Array:
        region, dtype = self._region(tensor), self.dtype(tensor)
        if region.cut is not None and region.alias_of is not None:
            whole, piece, (axis, first) = (
                self._tensors[region.alias_of],
                self._tensors[region.name],
                region.cut,
            )
            inside = (slice(None),) * axis + (slice(first, first + piece.static_shape[axis]),)
            return self._view(whole)[inside].reshape(tensor.static_shape)
        start = region.offset * self._stretch
        count = tensor.elements * dtype.itemsize
        if count > region.bytes * self._stretch:
            raise SimulationError(
                f"tensor {tensor.name!r}",
                f"needs {count} bytes of its region's {region.bytes * self._stretch}",
                remedy="the memory plan is wrong; please report this",
            )
        own = FLOAT16 if dtype == FLOAT16 else dtype  # NumPy's, whatever the chip's does beyond its end
        return self._bytes[start : start + count].view(own).reshape(tensor.static_shape)

    def _constant(self, tensor: Tensor) -> Array:
        held = self._constants.get(tensor.name)
        if held is None:
            held = constant_values(tensor, self.dtype(tensor))
            self._constants[tensor.name] = held
        return held


def constant_values(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    """Values of a constant in the type of a run, converted once for all runs.

    Raises:
        GraphError: If it has none.
    """
    if tensor.constant is None or not tensor.constant.available:
        because = tensor.constant.absent_because if tensor.constant is not None else "it is no constant"
        raise GraphError(
            f"weight {tensor.name!r}",
            f"has no values ({because})",
            remedy='load the model with weights="random", or give the weight file',
        )
    held = tensor.constant.in_type(dtype, lambda values: _converted(values, dtype))
    return settled(np.asarray(held, order="C"), dtype)


def _apart(regions: Iterable[Region]) -> frozenset[str]:
    """Regions with whose bytes no other has any in common.

    >>> apart = Region("a", 0, 4, "input"), Region("b", 8, 4, "input")
    >>> sorted(_apart([*apart, Region("c", 10, 8, "activation")]))
    ['a']
    """
    found: set[str] = set()
    last, end = "", 0
    for region in sorted(regions, key=lambda one: one.offset):
        if region.offset >= end:
            found.add(region.name)
        else:
            found.discard(last)
        if region.offset + region.bytes >= end:
            last, end = region.name, region.offset + region.bytes
    return frozenset(found)


def _is_same(one: Array, other: Array | None) -> bool:
    """Whether two arrays are the same stretch of memory, read the same way."""
    if other is None or one.base is None:  # an array of its own is no view of device memory
        return False
    return one is other or (
        (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
        and one.__array_interface__["data"] == other.__array_interface__["data"]
    )


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that cover the same, apart from each other.

    >>> _joined([(4, 6), (0, 3), (2, 5), (8, 9), (9, 12), (10, 11)])
    [(0, 6), (8, 12)]
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _converted(values: Array, dtype: np.dtype[Any]) -> Array:
    """A weight in the device's type; what a narrower float cannot hold becomes its largest number (GE's
    ConstantClip).

    ATC's --is_weight_clip, on by default: an infinite mask of float32 is -65504 in float16.
    """
    if (
        values.dtype.kind == "f"
        and np.issubdtype(dtype, np.floating)
        and dtype.itemsize < values.dtype.itemsize
    ):
        limit = np.finfo(dtype).max
        values = np.clip(values, -values.dtype.type(limit), values.dtype.type(limit))
    return finish(values, dtype)
