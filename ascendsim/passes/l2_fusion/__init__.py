"""L2 fusion on the graph: which operators can run on a part of the batch, and blocks of them cut into smaller batches."""
