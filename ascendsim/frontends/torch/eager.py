"""What PyTorch runs itself between the regions of the chip, as a listener hears of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ascendsim.frontends.torch.requirement import require_torch

_SYNCHRONISING = ("aten::_local_scalar_dense", "aten::nonzero")  # Python cannot go on without their values


@dataclass(frozen=True, slots=True)
class HostCall:
    """An operator that ran in PyTorch.

    Attributes:
        name: As PyTorch's profiler has it, "aten::add_".
        kind: "eager" for what the program calls between regions; "read" for what hands a value to Python;
            "fallback" for what stands in a captured graph and has no converter.
        shapes: Of its tensors.
        line: The user's line that called it, where somebody asked.
    """

    name: str
    kind: Literal["eager", "read", "fallback"]
    shapes: tuple[tuple[int, ...], ...] = ()
    line: str = ""


Listener = Callable[[HostCall], None]


@dataclass(frozen=True, slots=True)
class _State:
    """Whose operators they are; of the process, since PyTorch's dispatch calls back without any argument of
    ours.
    """

    silent: bool = False
    fallback: bool = False


_state = _State()


@contextmanager
def silence() -> Iterator[None]:
    """While it is open nobody hears of operators: they are the simulator's own."""
    with _as(_State(silent=True)):
        yield


@contextmanager
def fallback() -> Iterator[None]:
    """While it is open, what PyTorch runs is part of a captured graph."""
    with _as(_State(fallback=True)):
        yield


@contextmanager
def _as(state: _State) -> Iterator[None]:
    global _state
    before, _state = _state, state
    try:
        yield
    finally:
        _state = before


def listening(listener: Listener) -> AbstractContextManager[Any]:
    """While it is open, `listener` hears of every operator that PyTorch runs in this thread and in the
    backward passes that it starts. Views are no work and are left out.
    """
    torch = require_torch()
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listening(TorchDispatchMode):  # type: ignore[misc]  # torch may be absent
        """Passes every call on."""

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True  # else Dynamo would compile nothing while it is active

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if _state.silent or func.namespace == "profiler" or _is_view(func):
                return result
            leaves = _pytree.tree_leaves((args, kwargs, result))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if any(isinstance(tensor, FakeTensor) for tensor in tensors):
                return result  # a trial run of a capture
            given = _pytree.tree_leaves((args, kwargs))
            shapes = tuple(tuple(leaf.shape) for leaf in given if isinstance(leaf, torch.Tensor))
            name = func._schema.name
            if _state.fallback:
                listener(HostCall(name, "fallback", shapes))
            else:
                listener(HostCall(name, "read" if name in _SYNCHRONISING else "eager", shapes))
            return result

    return Listening()


def _is_view(func: Any) -> bool:
    """Whether all results lie in the memory of an argument that stays as it is."""
    results = func._schema.returns
    return bool(results) and all(one.alias_info and not one.alias_info.is_write for one in results)
