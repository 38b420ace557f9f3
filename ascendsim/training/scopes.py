"""Prefixes of the names of nodes that training adds to a graph; reports tell the phases of a step by them."""

GRADIENTS = "Gradients"  # MindSpore's
LOSS = "Loss"
LOSS_SCALE = "LossScale"
CLIP = "ClipGradients"
OPTIMIZER = "Optimizer"
