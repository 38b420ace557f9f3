"""Quantisation of float networks after training: which numbers become int8, by which steps, and the graph
that says so.

A histogram of every tensor's magnitudes gives the threshold T beyond which it saturates; weights do not
saturate. Running the network over the data is left to the caller, who hands tensors over as they come.
"""
