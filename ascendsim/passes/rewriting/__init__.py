"""The one kit by which passes rewrite a graph.

pattern.py   what is looked for       replace.py   what takes its place, whole
runner.py    rules, one after another report.py    what was matched, rewritten and refused
passes.py    passes, one after another removal.py  what nobody reads any more
search.py    where a pattern stands    worklist.py which node comes next
"""
