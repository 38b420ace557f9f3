"""How regions of a memory plan lie to each other, worked out once: who owns the bytes, what is a slice, who
shares addresses.
"""

from __future__ import annotations

from functools import cached_property

from ascendsim.isa.program import MemoryPlan, owner_of


class Regions:
    """Look-ups in a memory plan; names that the plan lacks stand for themselves."""

    def __init__(self, memory: MemoryPlan) -> None:
        self._regions = memory.regions
        self._roots: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        self._slices: dict[str, tuple[str, ...]] = {}
        self._addresses: dict[str, tuple[int, int]] = {}
        self._undivided: dict[str, bool] = {}

    def size(self, name: str) -> int | None:
        """Bytes of a region, None if the plan does not have it."""
        region = self._regions.get(name)
        return region.bytes if region is not None else None

    def root(self, name: str) -> str:
        """The region that owns the bytes (a reshaped tensor is an alias)."""
        known = self._roots.get(name)
        if known is None:
            known = self._roots[name] = owner_of(self._regions, name)
        return known

    def key(self, name: str) -> str:
        """The name under which lines of a region are kept: its slice's, or that of the region that owns the
        bytes.
        """
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = owner_of(self._regions, name, through_slices=False)
        return known

    def slices(self, key: str) -> tuple[str, ...]:
        """Keys of the regions whose lines are a slice of this one's, itself left out."""
        known = self._slices.get(key)
        if known is None:
            kin = self._kin.get(self.root(key), ())
            known = self._slices[key] = tuple(name for name in kin if self._inside(name, key))
        return known

    def undivided(self, key: str) -> bool:
        """Whether a region is neither a slice nor has any."""
        known = self._undivided.get(key)
        if known is None:
            known = self._undivided[key] = self.root(key) == key and not self.slices(key)
        return known

    def _inside(self, name: str, key: str) -> bool:
        """Whether a region is a slice of another one of the same owner."""
        root = self.root(key)
        if name in (key, root):
            return False  # an owner is no slice of its slices, even if one of them covers all of it
        if key == root:
            return True
        piece, whole = self._regions[name], self._regions[key]
        return whole.offset <= piece.offset and piece.offset + piece.bytes <= whole.offset + whole.bytes

    def addresses(self, name: str) -> tuple[int, int]:
        """Start and end of a region; nothing if the plan does not have it."""
        known = self._addresses.get(name)
        if known is None:
            region = self._regions.get(name)
            known = self._addresses[name] = (
                (0, 0) if region is None else (region.offset, region.offset + region.bytes)
            )
        return known

    def bytes(self, name: str) -> int:
        """Length of a region; 0 if the plan does not have it."""
        start, end = self.addresses(name)
        return end - start

    @cached_property
    def reused(self) -> frozenset[str]:
        """Keys of regions whose addresses may belong to another owner too; all others need not be looked at
        when that one writes.
        """
        reused: list[str] = []
        run: list[str] = []  # regions that hang together by overlaps, by rising address
        end = 0
        for name in sorted(self._all_keys, key=lambda name: self._regions[name].offset):
            region = self._regions[name]
            if region.offset >= end:
                run = []
            run.append(name)
            end = max(end, region.offset + region.bytes)
            if len(run) > 1:
                reused += run[-2:]  # those before are there
        return frozenset(reused)

    @cached_property
    def _kin(self) -> dict[str, list[str]]:
        """Keys by the region that owns their bytes."""
        kin: dict[str, list[str]] = {}
        for name in self._all_keys:
            kin.setdefault(self.root(name), []).append(name)
        return kin

    @cached_property
    def _all_keys(self) -> list[str]:
        return [name for name in self._regions if self.key(name) == name]
