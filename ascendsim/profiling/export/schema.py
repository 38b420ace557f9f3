"""Tables of the databases that msprof and the profiler of torch_npu write: names, columns, types, fixed
words.

Columns in their order: Ascend/msprof, analysis/csrc/application/database/msprof_db.cpp (schema 1.2.0), and
for what the framework adds Ascend/pytorch, torch_npu/profiler/analysis/prof_common_func/_constant.py.
Times are whole nanoseconds since 1970; texts are numbers of rows of STRING_IDS.
"""

from __future__ import annotations

Columns = tuple[tuple[str, str], ...]
"""Name and type of each column; the type may say that it is the primary key."""

KEY = "INTEGER PRIMARY KEY"


def _integers(names: str, **others: str) -> Columns:
    return tuple((name, others.get(name, "INTEGER")) for name in names.split())


_ENUM: Columns = (("id", KEY), ("name", "TEXT"))

MSPROF: dict[str, Columns] = {
    "STRING_IDS": (("id", KEY), ("value", "TEXT")),
    "SESSION_TIME_INFO": _integers("startTimeNs endTimeNs"),
    "NPU_INFO": _integers("id name", name="TEXT"),
    "RANK_DEVICE_MAP": _integers("rankId deviceId"),
    "HOST_INFO": (("hostUid", "TEXT"), ("hostName", "TEXT")),
    "META_DATA": (("name", "TEXT"), ("value", "TEXT")),
    "TASK": _integers(
        "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId "
        "modelId"
    ),
    "COMPUTE_TASK_INFO": _integers(
        "name globalTaskId blockNum mixBlockNum taskType opType inputFormats inputDataTypes inputShapes "
        "outputFormats outputDataTypes outputShapes attrInfo opState hf32Eligible gridDim blockDim",
        globalTaskId=KEY,
    ),
    "TASK_PMU_INFO": _integers("globalTaskId name value", value="NUMERIC"),
    "CANN_API": _integers("startNs endNs type globalTid connectionId name", connectionId=KEY),
    "ENUM_API_TYPE": _ENUM,
    "AICORE_FREQ": _integers("deviceId timestampNs freq dieId", timestampNs="NUMERIC", dieId="NUMERIC"),
    "OVERLAP_ANALYSIS": _integers(
        "id deviceId startNs endNs type", id=KEY, startNs="NUMERIC", endNs="NUMERIC"
    ),
    "ENUM_OVERLAP_ANALYSIS_TYPE": _ENUM,
    "MSTX_EVENTS": _integers(
        "startNs endNs eventType rangeId category message globalTid endGlobalTid domainId connectionId"
    ),
    "ENUM_MSTX_EVENT_TYPE": _ENUM,
    "COMMUNICATION_OP": _integers(
        "opName startNs endNs connectionId groupName opId relay retry dataType algType count opType deviceId "
        "rankSize",
        opId=KEY,
        count="NUMERIC",
    ),
}
"""Of msprof's own database, PROF_*/msprof_<time>.db."""

TORCH: dict[str, Columns] = {
    **MSPROF,
    "STEP_TIME": _integers("id startNs endNs"),
    "PYTORCH_API": _integers(
        "startNs endNs globalTid connectionId name sequenceNumber fwdThreadId inputDtypes inputShapes "
        "callchainId type"
    ),
    "CONNECTION_IDS": _integers("id connectionId"),
    "MEMORY_RECORD": _integers(
        "component timestamp totalAllocated totalReserved totalActive streamPtr deviceId"
    ),
    "OP_MEMORY": _integers(
        "name size allocationTime releaseTime activeReleaseTime duration activeDuration "
        "allocationTotalAllocated allocationTotalReserved allocationTotalActive releaseTotalAllocated "
        "releaseTotalReserved releaseTotalActive streamPtr deviceId"
    ),
}
"""Of ascend_pytorch_profiler_<rank>.db."""

ANALYSIS: dict[str, Columns] = {
    "StepTraceTime": (
        ("deviceId", "INTEGER"),
        ("step", "TEXT"),
        ("computing", "NUMERIC"),
        ("communication_not_overlapped", "NUMERIC"),
        ("overlapped", "NUMERIC"),
        ("communication", "NUMERIC"),
        ("free", "NUMERIC"),
        ("stage", "NUMERIC"),
        ("bubble", "NUMERIC"),
        ("communication_not_overlapped_and_exclude_receive", "NUMERIC"),
        ("preparing", "NUMERIC"),
    )
}
"""Of analysis.db; times are microseconds there."""

API_TYPES = {
    20000: "acl",
    15000: "model",
    10000: "node",
    5500: "communication",
    5000: "runtime",
    50001: "op",
    50002: "queue",
    50003: "trace",
    50004: "mstx",
}
OVERLAP_TYPES = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
MSTX_TYPES = ("marker", "push/pop", "start/end", "marker_ex")
VERSION = {
    "SCHEMA_VERSION": "1.2.0",
    "SCHEMA_VERSION_MAJOR": "1",
    "SCHEMA_VERSION_MINOR": "2",
    "SCHEMA_VERSION_MICRO": "0",
}

NODE_API, OPERATOR_API = 10000, 50001  # of API_TYPES
NO_CONTEXT = 4294967295  # what msprof writes where a task has none
