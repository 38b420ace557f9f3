"""What there is to place: regions with kinds, sizes and users, and which of them share their bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.graph.ir import Graph
from ascendsim.lower.memory.in_place import Takeover
from ascendsim.lower.memory.order import TaskOrder
from ascendsim.lower.memory.pieces import Piece

WHOLE = ("input", "output")  # kinds that live for the whole run: their memory is the caller's


class Draft:
    """Regions before they have addresses.

    Args:
        graph: The compiled graph.
        uses: By task: names of all regions that it reads or writes.
        aliases: Name of a tensor -> name of the tensor whose memory it is.
        workspaces: Bytes of scratch regions by name.
        internal: Tensors that get no memory.

    Attributes:
        sizes: Bytes by region.
        kinds: "weight", "input", "output", "activation" or "workspace", by region.
        bytes: By owner of memory: what it must hold, the largest of its names (formats may pad differently).
        users: By owner: tasks that touch it under any name, rising.
        taken: Results in place, by the owner whose address they take.
    """

    def __init__(
        self,
        graph: Graph,
        uses: Sequence[Iterable[str]],
        aliases: Mapping[str, str],
        workspaces: Mapping[str, int],
        internal: Collection[str],
    ) -> None:
        self._aliases, self._roots = aliases, dict[str, str]()
        self.sizes = {
            name: tensor.storage_bytes
            for name, tensor in graph.tensors.items()
            if tensor.is_static and tensor.dtype is not None and name not in internal
        }
        self.kinds: dict[str, str] = {}
        for name, tensor in graph.tensors.items():
            if name in self.sizes:
                self.kinds[name] = "weight" if tensor.is_constant else "activation"
        for tensor in graph.inputs:
            self.kinds[tensor.name] = "input"
        for tensor in graph.outputs:
            self.kinds[tensor.name] = "weight" if tensor.is_constant else "output"
            if tensor.name in aliases and self.kinds[self.root(tensor.name)] == "activation":
                self.kinds[self.root(tensor.name)] = "output"
        for name, bytes in workspaces.items():
            self.sizes[name], self.kinds[name] = bytes, "workspace"
        self.bytes: dict[str, int] = {}
        for name, bytes in self.sizes.items():
            owner = self.root(name)
            self.bytes[owner] = max(bytes, self.bytes.get(owner, 0))
        self.users: dict[str, list[int]] = {}
        for task, names in enumerate(uses):
            for owner in dict.fromkeys(self.root(name) for name in names):
                self.users.setdefault(owner, []).append(task)
        self.taken: dict[str, str] = {}

    def root(self, name: str) -> str:
        """The region whose bytes a region shares, at the end of its chain of aliases."""
        known = self._roots.get(name)
        if known is None:
            known, seen = name, {name}
            while known in self._aliases and self._aliases[known] not in seen:
                known = self._aliases[known]
                seen.add(known)
            self._roots[name] = known
        return known

    @cached_property
    def owners(self) -> list[str]:
        """Regions that own their bytes, weights left out, by first use and name: the order in which tensors
        were made has no say.
        """
        found = [name for name in self.sizes if name not in self._aliases and self.kinds[name] != "weight"]
        return sorted(found, key=lambda name: (self.users.get(name, (0,))[0], name))

    @property
    def weights(self) -> list[str]:
        """Weights that own their bytes."""
        return [name for name in self.sizes if name not in self._aliases and self.kinds[name] == "weight"]

    def take_over(self, takeovers: Iterable[Takeover], order: TaskOrder) -> None:
        """Lets results lie where inputs lay, wherever that is safe; see `in_place`."""
        given: set[str] = set()
        for item in takeovers:
            source, result = self.root(item.source), self.root(item.result)
            if source in given or result in self.taken or self._kept_apart(item, source, result):
                continue
            before = all(
                user == item.task or order.happens_before(user, item.task) for user in self.users[source]
            )
            after = all(
                user == item.task or order.happens_before(item.task, user) for user in self.users[result]
            )
            if before and after:
                given.add(source)
                self.taken[result] = source

    def _kept_apart(self, item: Takeover, source: str, result: str) -> bool:
        """Whether a source or result is the caller's, a weight, cut into slices, or of another size."""
        if result != item.result or source == result:
            return True
        if any(self.kinds.get(name) != "activation" for name in (source, result)):
            return True
        return align(self.bytes[source], REGION_BYTES) != align(self.bytes[result], REGION_BYTES)

    def place_of(self, owner: str) -> str:
        """The owner at whose address an owner lies: itself, or the first of those that took over from each
        other.
        """
        while owner in self.taken:
            owner = self.taken[owner]
        return owner

    def pieces(self) -> list[Piece]:
        """What needs a place of its own; results in place lengthen the life of what they took over."""
        users: dict[str, set[int]] = {}
        for owner in self.owners:
            users.setdefault(self.place_of(owner), set()).update(self.users.get(owner, ()))
        return [
            Piece(owner, self.bytes[owner], tuple(sorted(users[owner])) or (0,), self.kinds[owner] in WHOLE)
            for owner in self.owners
            if owner not in self.taken
        ]

    def own_pieces(self) -> list[Piece]:
        """Every owner by itself, with its own life, whether or not it lies in place of another."""
        return [
            Piece(
                owner, self.bytes[owner], tuple(self.users.get(owner, ())) or (0,), self.kinds[owner] in WHOLE
            )
            for owner in self.owners
        ]
