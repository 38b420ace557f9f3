"""The compiler: a graph and `CompileOptions` become a `CompiledModel`.

`options` says what can be asked for, `settings` checks it, `pipeline` has the stages in their order, and
`compiling` runs them. Graphs with open shapes or control flow become a `DynamicModel` (`dynamic`), those with
a few known shapes a `GearedModel` (`gears`).
"""
