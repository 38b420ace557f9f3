"""L1 fusion on the graph: which convolutions follow each other so that one task may run both."""

from ascendsim.passes.l1.pairs import Pair, find_pairs, join_pair

__all__ = ["Pair", "find_pairs", "join_pair"]
