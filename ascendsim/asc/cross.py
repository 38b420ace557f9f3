"""Cube cores, vector cores and flags between cores."""

from __future__ import annotations

from types import FrameType
from typing import Any

from ascendsim.asc.cube import started, unit_row, whole_number
from ascendsim.asc.recorder import STATE, Recorder, fail, recorder_for, site_of
from ascendsim.asc.types import PIPES, PipeID
from ascendsim.isa.cross_checks import IDS
from ascendsim.isa.forms import FlagUse
from ascendsim.isa.instructions import Pipe

# Names by which a kernel shows that its cores have to run in turns, and that it has a part for each kind.
TOGETHER = frozenset({"cross_core_set_flag", "cross_core_wait_flag", "sync_all"})
MIXED = frozenset({"ascend_is_aic", "ascend_is_aiv"})
_SYNC_CUBE, _SYNC_VECTOR, _SYNC_TEAM = range(IDS, IDS + 3)  # ids that kernels cannot take


def ascend_is_aic() -> bool:
    """Whether this is a cube core; coupled cores are both."""
    return _is("ascend_is_aic", "aic")


def ascend_is_aiv() -> bool:
    """Whether this is a vector core; coupled cores are both."""
    return _is("ascend_is_aiv", "aiv")


def _is(name: str, kind: str) -> bool:
    recorder, frame = started(name, 3)
    if not recorder.soc.split_cores:
        return True
    if not recorder.role.kind:
        raise fail(
            frame,
            name,
            "is called where the launch cannot see it",
            remedy="write @asc.jit(mixed=True) above the kernel",
        )
    return recorder.role.kind == kind


def get_sub_block_idx() -> int:
    """Number of this vector core in its team: 0 or 1; 0 on other cores."""
    return recorder_for("get_sub_block_idx").role.sub


def get_sub_block_num() -> int:
    """Vector cores of a team on a vector core, else 1."""
    return recorder_for("get_sub_block_num").role.ratio


def get_task_ratio() -> int:
    """Vector cores to a team on a vector core, else 1."""
    role = recorder_for("get_task_ratio").role
    return role.ratio if role.kind == "aiv" else 1


def cross_core_set_flag(flag_id: int, mode_id: int, pipe: PipeID) -> None:
    """Counts a flag up once all before this in a pipe is complete.

    Args:
        flag_id: Its number, 0 to 10.
        mode_id: 0: for all cores of this kind; 1: for the vector cores of this team; 2: between the cube core
            and the vector cores of this team.
        pipe: The pipe.
    """
    recorder, frame = _meeting("cross_core_set_flag")
    number, mode = _checked(frame, "cross_core_set_flag", recorder, flag_id, mode_id)
    held = PIPES.get(pipe) if isinstance(pipe, PipeID) else None
    if held is None or held is Pipe.S:
        names = ", ".join([known.name for known in PIPES if known is not PipeID.PIPE_S])
        raise fail(frame, "cross_core_set_flag", "takes a pipe", repr(pipe), f"use one of {names}")
    _set(recorder, frame, "cross_core_set_flag", (number, mode, held))


def cross_core_wait_flag(flag_id: int, mode_id: int, pipe: PipeID = PipeID.PIPE_S) -> None:
    """Holds this core until the others have counted a flag up, and counts it down.

    Args:
        flag_id: Its number, 0 to 10.
        mode_id: As it is set with.
        pipe: Not looked at: the scalar unit waits, and nothing behind is issued.
    """
    recorder, frame = _meeting("cross_core_wait_flag")
    number, mode = _checked(frame, "cross_core_wait_flag", recorder, flag_id, mode_id)
    _wait(recorder, frame, "cross_core_wait_flag", (number, mode))


def sync_all(
    gm_workspace: Any = None, ub_workspace: Any = None, used_cores: int = 0, is_aiv_only: bool = True
) -> None:
    """Lets no core go on before all have come here: all vector cores, or with is_aiv_only=False all cores.

    Args:
        gm_workspace: Not needed here: the chip's own flags do it.
        ub_workspace: Not needed here.
        used_cores: Not looked at: all cores take part.
        is_aiv_only: Whether cube cores go on.
    """
    recorder, frame = _meeting("sync_all")
    kind, name = recorder.role.kind, "sync_all"
    if kind == "aic" and is_aiv_only:
        return
    key = (name, "all", id(frame.f_code), frame.f_lasti)
    form = recorder.known.get(key)
    if form is None:
        form = recorder.forms.add(key, frame, name, Pipe.S, None, barrier=True)
    recorder.instruction(form)
    pipe = Pipe.MTE2  # all kinds of cores have it; nothing is under way in any pipe here
    number = _SYNC_CUBE if kind == "aic" else _SYNC_VECTOR
    _set(recorder, frame, name, (number, 0, pipe))
    _wait(recorder, frame, name, (number, 0))
    if kind and not is_aiv_only:
        _set(recorder, frame, name, (_SYNC_TEAM, 2, pipe))
        _wait(recorder, frame, name, (_SYNC_TEAM, 2))


def _meeting(name: str) -> tuple[Recorder, FrameType]:
    recorder, frame = started(name, 3)
    if recorder.meeting is None:
        raise fail(
            frame,
            name,
            "is called where the launch cannot see it",
            remedy="write @asc.jit(together=True) above the kernel",
        )
    return recorder, frame


def _checked(frame: FrameType, name: str, recorder: Recorder, flag: Any, mode: Any) -> tuple[int, int]:
    if not recorder.soc.split_cores:
        rule = f"does not exist on {recorder.soc.name}"
        raise fail(frame, name, rule, remedy="its cores have cube and vector unit; sync_all is there")
    number = whole_number(frame, name, "a flag_id", flag, 0, IDS - 1)
    way = whole_number(frame, name, "a mode_id", mode, 0, 2)
    if (way == 2 and not recorder.role.kind) or (way == 1 and recorder.role.kind != "aiv"):
        who = "cube and vector cores together" if way == 2 else "the vector cores of a team"
        raise fail(
            frame, name, f"in mode {way} is for {who}", remedy="ask ascend_is_aic() and ascend_is_aiv()"
        )
    return number, way


def _set(recorder: Recorder, frame: FrameType, name: str, use: tuple[int, int, Pipe]) -> None:
    number, mode, pipe = use
    flag = FlagUse(f"cross{number}", pipe, Pipe.S, number, 0, False, mode=mode)
    unit_row(recorder, frame, name, flag)
    recorder.flush()  # all before it has its values then
    assert recorder.meeting is not None
    recorder.meeting.set(recorder.role, number, mode, pipe, str(site_of(frame, name)))


def _wait(recorder: Recorder, frame: FrameType, name: str, use: tuple[int, int]) -> None:
    number, mode = use
    recorder.flush()
    where = f"{site_of(frame, name).file}:{frame.f_lineno}"
    assert recorder.meeting is not None
    recorder.meeting.wait(recorder.role, number, mode, where)
    STATE.recorder = recorder  # others have recorded in between
    recorder.forms.known = recorder.known
    unit_row(recorder, frame, name, FlagUse(f"cross{number}", Pipe.MTE2, Pipe.S, number, 0, True, mode=mode))
