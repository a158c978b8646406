"""Random Fourier features of the standardised row, whose frequencies are drawn for each column on its own.

frequencies (F (1 + MOST_CENTRED),): the phases, then the F frequencies of each place. They follow from the keys of
the places and the salt, so that a snapshot has none of them.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.forest.columns import KEY, PLACES, SALT
from aucstream.kernels.jit import jit
from aucstream.kernels.random import mixed, normal, uniform

FEW, MANY = 32, 128  # features
_TURN = 2.0 * math.pi
_TURN_REST = 2.4492935982947064e-16  # 2 pi less its nearest float
CELLS = 25_600  # features times columns, as far as FEW and MANY allow


@jit
def features_for(columns):
    """Return how many features a stream of so many columns gets."""
    return max(FEW, min(MANY, CELLS // max(1, columns)))


@jit
def draw_phases(scalars, features, word, frequencies):
    """Draw the phases; writes word (1,), frequencies."""
    word[0] = mixed(np.uint64(scalars[SALT]))
    for k in range(features):
        frequencies[k] = 2.0 * math.pi * uniform(word)


@jit
def draw_place(centred, scalars, features, place, word, frequencies):
    """Draw the frequencies of a place; writes word (1,), frequencies."""
    word[0] = mixed(np.uint64(centred[KEY, place]) ^ mixed(np.uint64(scalars[SALT])))
    for k in range((1 + place) * features, (2 + place) * features):
        frequencies[k] = normal(word)


@jit
def draw_all(centred, scalars, features, word, frequencies):
    """Draw phases and the frequencies of all places."""
    draw_phases(scalars, features, word, frequencies)
    for place in range(np.int64(scalars[PLACES])):
        draw_place(centred, scalars, features, place, word, frequencies)


@jit
def cosine(z):
    """Return cos(z) for |z| < 1e5, as exactly as z is known: to 4e-15 + 2^-52 |z|.

    Its Taylor series about a multiple of 2 pi: unlike a call of the C library, a loop over it is done on several numbers
    at once, which is six times as fast.
    """
    turns = math.floor(z * (1.0 / _TURN) + 0.5)
    r = (z - turns * _TURN) - turns * _TURN_REST
    s = r * r
    p = 1.0 / 304888344611713860501504000000.0  # 1 / 28!
    p = p * s - 1.0 / 403291461126605635584000000.0
    p = p * s + 1.0 / 620448401733239439360000.0
    p = p * s - 1.0 / 1124000727777607680000.0
    p = p * s + 1.0 / 2432902008176640000.0
    p = p * s - 1.0 / 6402373705728000.0
    p = p * s + 1.0 / 20922789888000.0
    p = p * s - 1.0 / 87178291200.0
    p = p * s + 1.0 / 479001600.0
    p = p * s - 1.0 / 3628800.0
    p = p * s + 1.0 / 40320.0
    p = p * s - 1.0 / 720.0
    p = p * s + 1.0 / 24.0
    p = p * s - 0.5
    return p * s + 1.0


@jit
def fourier_row(frequencies, features, place, dense, active, n, inverse, out):
    """Write sqrt(2) cos(W'xs inverse + b) of the row's centred columns to `out`."""
    d = active.size
    for k in range(features):
        out[k] = frequencies[k]
    for a in range(n):
        j = active[a]
        if place[j] > 0.0:
            u = dense[d + j] * inverse
            start = np.int64(place[j]) * features
            own = frequencies[start : start + features]
            for k in range(features):
                out[k] += own[k] * u
    for k in range(features):
        out[k] = 1.4142135623730951 * cosine(out[k])
