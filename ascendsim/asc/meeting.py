"""Cores that wait for one another: each in a thread of its own, one at a time, in the order of their numbers.

A core that waits for a flag of another core pauses there, and the next one goes on. So whatever is evaluated
behind the flag sees what was evaluated before it was set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import NamedTuple, Protocol

from ascendsim.core.errors import KernelError
from ascendsim.isa.cross_checks import IDS
from ascendsim.isa.instructions import Pipe


class Role(NamedTuple):
    """What a core is in a launch.

    Attributes:
        kind: "aic" or "aiv" in a kernel of cube and vector cores together, else "".
        block: Number of the team.
        sub: Number of a vector core in its team.
        ratio: Vector cores of a team.
    """

    kind: str = ""
    block: int = 0
    sub: int = 0
    ratio: int = 1

    def __str__(self) -> str:
        kind = {"aic": "cube ", "aiv": "vector "}.get(self.kind, "")
        return f"{kind}core {self.block * self.ratio + self.sub if self.kind == 'aiv' else self.block}"


ALONE = Role()
MEET = "let all cores of a flag come to it as often"


class MeetingError(KernelError):
    """Cores that wait for others which will not come.

    Args:
        text: Who waits where for what.
        role: The first of them.
        where: File, line and call where it waits.
    """

    def __init__(self, text: str, role: Role, where: str) -> None:
        self.text, self.where = text, where
        self.core = role.block * role.ratio + role.sub
        super().__init__("deadlock:", text, remedy=MEET)


class Listener(Protocol):
    """Hears of the flags between cores, which go by their numbers in the meeting."""

    def released(self, core: int, flag: int, pipe: Pipe, waiters: Sequence[int], where: str) -> None:
        """A core has set a flag in a pipe, for those who may wait for it."""

    def taken(self, core: int, flag: int, setters: Sequence[int]) -> None:
        """A core has waited for a flag of others."""


class _Stopped(BaseException):
    """Ends a thread that waits for something that will not come."""


class Meeting:
    """Runs cores in turns, and counts the flags between them.

    Args:
        roles: All cores.
        listener: Is told of flags that are set and taken.
    """

    def __init__(self, roles: Sequence[Role], listener: Listener | None = None) -> None:
        self.roles, self.listener = list(roles), listener
        self._numbers = {role: number for number, role in enumerate(self.roles)}
        self._set: dict[tuple[Role, int], int] = {}
        self._taken: dict[tuple[Role, int], int] = {}
        self._go = {role: Event() for role in roles}
        self._back = Event()
        self._waiting: dict[Role, tuple[int, int, str]] = {}  # flag, mode, where
        self._done: set[Role] = set()
        self._error: BaseException | None = None
        self._stop = False

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Runs what each core does.

        Raises:
            KernelError: Cores wait for flags that nobody will set.
            BaseException: Whatever one of them raises.
        """
        threads = {
            role: Thread(target=self._work, args=(role, work), daemon=True)
            for role, work in zip(self.roles, works, strict=True)
        }
        while len(self._done) < len(self.roles) and self._error is None:
            ready = [role for role in self.roles if role not in self._done and self._ready(role)]
            if not ready:
                self._error = self._deadlock()
                break
            for role in ready:
                if self._error is None:
                    self._resume(role, threads[role])
        if self._error is not None:
            self._stop = True
            for role in self.roles:
                if threads[role].is_alive():
                    self._resume(role, threads[role])
            raise self._error

    def _resume(self, role: Role, thread: Thread) -> None:
        self._back.clear()
        self._go[role].set()
        if not thread.ident:
            thread.start()
        self._back.wait()

    def _work(self, role: Role, work: Callable[[], None]) -> None:
        try:
            self._go[role].clear()
            work()
        except _Stopped:
            pass
        except BaseException as error:  # handed on to the thread that launched
            self._error = error
        finally:
            self._done.add(role)
            self._back.set()

    def set(self, role: Role, flag: int, mode: int, pipe: Pipe, where: str) -> None:
        """A core sets a flag behind what it has put into a pipe."""
        self._set[role, flag] = self._set.get((role, flag), 0) + 1
        if self.listener is not None:  # who may wait for me is whom I may wait for
            waiters = [self._numbers[other] for other in self.partners(role, mode)]
            self.listener.released(self._numbers[role], flag, pipe, waiters, where)

    def wait(self, role: Role, flag: int, mode: int, where: str) -> None:
        """A core waits until the others have set a flag once more."""
        self._waiting[role] = flag, mode, where
        while not self._ready(role):
            self._back.set()
            self._go[role].wait()
            self._go[role].clear()
            if self._stop:
                raise _Stopped
        del self._waiting[role]
        self._taken[role, flag] = self._taken.get((role, flag), 0) + 1
        if self.listener is not None:
            setters = [self._numbers[other] for other in self.partners(role, mode)]
            self.listener.taken(self._numbers[role], flag, setters)

    def partners(self, role: Role, mode: int) -> list[Role]:
        """Cores that have to set a flag which a core waits for."""
        if mode == 0:
            return [other for other in self.roles if other.kind == role.kind]
        inside = [other for other in self.roles if other.block == role.block]
        wanted = "aiv" if mode == 1 or role.kind == "aic" else "aic"
        return [other for other in inside if other.kind == wanted]

    def _ready(self, role: Role) -> bool:
        if role not in self._waiting:
            return True
        flag, mode, _ = self._waiting[role]
        taken = self._taken.get((role, flag), 0)
        return all(self._set.get((other, flag), 0) > taken for other in self.partners(role, mode))

    def _deadlock(self) -> MeetingError:
        lines, places = [], []
        for role, (flag, mode, where) in self._waiting.items():
            taken = self._taken.get((role, flag), 0)
            late = [other for other in self.partners(role, mode) if self._set.get((other, flag), 0) <= taken]
            state = "has ended" if late and late[0] in self._done else "has not set it"
            all_of_it = flag >= IDS
            name = "sync_all" if all_of_it else f"cross-core flag {flag}"
            lines.append(f"{role} waits at {where} for {name}, {late[0] if late else 'nobody'} {state}")
            places.append((role, f"{where}: asc.{'sync_all' if all_of_it else 'cross_core_wait_flag'}"))
        text = "; ".join(lines[:3]) + (f"; {len(lines) - 3} more wait" if len(lines) > 3 else "")
        return MeetingError(text, *places[0])
