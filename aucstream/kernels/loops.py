"""Loops over the rows of a block, made from the compiled functions of one row.

A block's `idx` is None for dense rows: the compiler then drops the branch for columns, so that a loop serves both forms.
The arguments of the rows come first in a loop; those of the learner follow, in the order of its functions of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from aucstream.kernels.jit import jit


@cache
def learn_loop(learn_row: Callable[..., float], size: int) -> Callable[..., None]:
    """Return the compiled loop that learns the rows of a block in order.

    Parameters
    ----------
    learn_row : function
        Compiled: (*state, idx, x, y, weight, *params) -> score.
    size : int
        Number of arrays in `state`.

    Returns
    -------
    function
        (indptr, idx, val, y, weights, out, *state, *params); out (n,) gets what `learn_row` returned for each row.
    """

    def learn_block(indptr, idx, val, y, weights, out, *arguments):
        state, params = arguments[:size], arguments[size:]
        for i in range(y.size):
            a, b = indptr[i], indptr[i + 1]
            if idx is None:
                out[i] = learn_row(*state, None, val[a:b], y[i], weights[i], *params)
            else:
                out[i] = learn_row(*state, idx[a:b], val[a:b], y[i], weights[i], *params)

    return jit(learn_block)


@cache
def score_loop(score_row: Callable[..., float], size: int) -> Callable[..., None]:
    """Return the compiled loop that scores the rows of a block.

    Parameters
    ----------
    score_row : function
        Compiled: (*state, idx, x, *params) -> score.
    size : int
        Number of arrays in `state`.

    Returns
    -------
    function
        (indptr, idx, val, out, *state, *params); out (n,) gets the scores.
    """

    def score_block(indptr, idx, val, out, *arguments):
        state, params = arguments[:size], arguments[size:]
        for i in range(out.size):
            a, b = indptr[i], indptr[i + 1]
            if idx is None:
                out[i] = score_row(*state, None, val[a:b], *params)
            else:
                out[i] = score_row(*state, idx[a:b], val[a:b], *params)

    return jit(score_block)


@cache
def map_loop(map_row: Callable[..., None]) -> Callable[..., None]:
    """Return the compiled loop that maps the rows of a block to dense rows.

    Parameters
    ----------
    map_row : function
        Compiled: (idx, x, *params, out); out (features,) gets the mapped row.

    Returns
    -------
    function
        (indptr, idx, val, out, *params); out (n, features) gets the mapped rows.
    """

    def map_block(indptr, idx, val, out, *params):
        for i in range(out.shape[0]):
            a, b = indptr[i], indptr[i + 1]
            if idx is None:
                map_row(None, val[a:b], *params, out[i])
            else:
                map_row(idx[a:b], val[a:b], *params, out[i])

    return jit(map_block)
