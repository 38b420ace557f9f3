"""How much memory this machine has left, and refusing in a line what would not fit into it."""

from __future__ import annotations

import os
from pathlib import Path

from ascendsim.core.errors import InputError
from ascendsim.core.units import GIB

_MEMINFO = Path("/proc/meminfo")
# Limit and use of the container that the process runs in (control groups, version 2 and 1).
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def free_bytes() -> int | None:
    """Bytes that can be allocated without swapping: what the system calls available, or what the container
    has left if that is less. None where the system does not say.
    """
    found = [number for number in (_available(), _left_in_container()) if number is not None]
    return min(found, default=None)


def require_host_memory(subject: str, needed: int, remedy: str) -> None:
    """Refuses what does not fit, before anything of it is allocated.

    Args:
        subject: What needs the memory ("values of graph 'net'").
        needed: Bytes.
        remedy: What the user can do instead.

    Raises:
        InputError: If more is needed than is free.
    """
    free = free_bytes()
    if free is not None and needed > free:
        raise InputError(subject, f"need {needed / GIB:,.1f} GiB, {free / GIB:,.1f} are free", remedy=remedy)


def _available() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_container() -> int | None:
    for limit, used in _GROUPS:
        try:
            return max(0, int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return None
