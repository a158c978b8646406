"""Compiled functions on arrays: no classes, no validation, no input or output.

`jit.py` is the only place where a function is compiled, and `digest.py` names it in the cache. `ledger.py` is the
vector that all learners share; `random.py` has the draws. The functions are in `rows`, `pairs`, `weights`, `moments`, `auc` and `text`.

- A row is `(idx, x)`. `idx` is None for a dense row; the compiler prunes `if idx is None`, so one source serves
  both.
- A step returns the output score from before the step, or NaN where it skips the row: then it has written nothing.
  It checks its scalars and the coordinates that it is about to change before it writes.
- Kernels count no references to their arrays, because counting takes up to a quarter of a step. So they make no
  arrays. A function that makes arrays is compiled by `jit_allocating`, and compiling refuses an array that passes
  from one kind to the other.
- numba stamps only the file of the cached function. So each cached function is named by a digest (`digest.py`) of
  its bytecode and of every value that it can reach: constants, and the compiled functions that it calls. An edit
  compiles anew what depends on it and nothing else; comments and docstrings compile nothing. The cache directory is
  set only while a function is decorated, so that other users of numba in the process keep theirs.

May import `block`, `constraints`, `errors`, `snapshot` and `version`.
"""
