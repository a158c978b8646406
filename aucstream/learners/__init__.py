"""The algorithms, one file each, named as published.

A file has the docstring with the equations, the layout of the state, the kernels, the declared state and the
class. Algorithms do not import each other; what two share is in `_families`, what all share in `_base`. May import
`_families`, `_base`, `features`, `native`, `kernels` and below.
"""
