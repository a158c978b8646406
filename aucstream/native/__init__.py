"""Reads Python's dicts in compiled code, by address.

A step on ten features takes less time than numba takes to accept its arrays, and less than Python takes to compare
ten names. So `learn_one`, `score_one` and `predict_proba_one` pass two integers to compiled code: the address of
the dict and that of a table of arguments (`memory.py`). The call holds the GIL and reads the dict through Python's
own C functions (`dicts.py`): exact `dict`, names that are exact `str` or `int`, values that are `float`, `int`,
`bool` or None. Such a row runs no Python code, so nothing can change during the call.

Everything else returns NaN with nothing changed, and takes the ordinary way in Python, which knows all cases and
their errors: a new name, a subclass, a number that is not finite, a row for which a buffer has no room, a row
before which a scaler's applied values change. A model whose arrays were replaced has another generation, so that
no address outlives its array. Where objects do not lie in memory as expected (another interpreter, no GIL,
compiling switched off) every row takes the ordinary way.

May import `kernels` and below.
"""
