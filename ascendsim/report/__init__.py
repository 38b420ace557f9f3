"""One HTML file that shows a run or a comparison, without a network. The only package that imports jinja2."""

from ascendsim.report.page import Report, check_report, make_report
from ascendsim.report.subject import Subject

__all__ = ["Report", "Subject", "check_report", "make_report"]
