"""From dicts of features to columns and values.

`entries.py` decides once what a value may be; `vocabulary.py` gives each new name the next column, up to a
capacity; `hashing.py` has fixed memory. "The same features" means the same entries. May import `native`, `kernels`
and below.
"""
