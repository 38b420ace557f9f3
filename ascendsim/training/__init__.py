"""Training: gradients of graphs, losses, optimisers and whole training steps."""
