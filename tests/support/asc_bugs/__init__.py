"""A corpus of seeded bugs of kernels, by what is wrong."""

from tests.support.asc_bugs import cores, cube, flags, memory, pipes, rules  # noqa: F401 - they fill BUGS
from tests.support.asc_bugs.kinds import BUGS, Bug

__all__ = ["BUGS", "Bug"]
