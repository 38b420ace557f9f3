"""frontends/onnx."""
