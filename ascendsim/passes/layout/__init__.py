"""Formats: which layout every tensor has in global memory, and the TransData nodes between them."""

from ascendsim.passes.layout.assign import AssignFormats, assign_formats

__all__ = ["AssignFormats", "assign_formats"]
