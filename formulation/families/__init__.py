"""The constraint families: a cascade in a given order as one model that no solver has seen yet.

`model` is the language, `layout` the parts of the cascade, every other file one family of constraints;
`build` puts them together, `decode` reads a mapping out of a solution. CP-SAT and MILP translate it.
"""
