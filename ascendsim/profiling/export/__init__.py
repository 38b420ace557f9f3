"""Runs in the forms that msprof-analyze, MindStudio Insight, TensorBoard, HTA and TraceLens read."""

from ascendsim.profiling.export.capture import EPOCH, Capture
from ascendsim.profiling.export.forms import DEFAULT_FORMS, FORMS, Export, check_forms, export_run
from ascendsim.profiling.export.modules import name_scopes
from ascendsim.profiling.export.msprof_folder import write_prof_folder
from ascendsim.profiling.export.timeline import msprof_timeline

__all__ = [
    "DEFAULT_FORMS",
    "EPOCH",
    "FORMS",
    "Capture",
    "Export",
    "check_forms",
    "export_run",
    "msprof_timeline",
    "name_scopes",
    "write_prof_folder",
]
