"""Graph to graph: a room for each kind of pass. `compiler.pipeline` says in which order they run.

engine, control_flow          CANN's graph engine: folding, common and dead parts, branches
fusion, ub, l1, l2            graph fusion by rules, UB fusion, what stays in L1 and L2
graph_kernel                  MindSpore's fusion: operators expand and cluster to composites
precision, layout, infer      element types, formats, shapes
aipp, gears, levers           images in front, models for several shapes, what a user may change
rewriting                     what all of them stand on: patterns, search, replacing, records
"""
