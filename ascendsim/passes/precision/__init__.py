"""Types on the device: which operators run in float16, and what the model returns."""
