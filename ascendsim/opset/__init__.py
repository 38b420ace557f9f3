"""What an operator is: its definition (`OpDef`, `OpSet`) and the language in which it describes its work
(`work`).
"""

from ascendsim.opset.definition import InferContext, Layout, OpDef, OpSet

__all__ = ["InferContext", "Layout", "OpDef", "OpSet"]
