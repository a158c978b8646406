"""Plain NumPy transcriptions of the learning algorithms: the executable specification.

Each class has `learn(x, y, weight=1.0) -> float`, which returns the output score of `x` before the
update, `score(x)`, and its whole state as attributes. Nothing here is lazy, sparse or compiled: every
formula is written as in its paper (or in the documented correction of it), so that a compiled kernel can
be compared with it step by step.
"""
