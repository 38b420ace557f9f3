"""ONNX models -> Graph.

In the graph, attributes that name an element type (`to` of Cast, `dtype` of RandomNormal ...) hold a `DType`;
all others are as in the newest ONNX operator set. Constant nodes and initialisers are constant tensors.
"""

from ascendsim.frontends.onnx.loading import load_onnx
from ascendsim.frontends.onnx.tensors import tensor_values

__all__ = ["load_onnx", "tensor_values"]
