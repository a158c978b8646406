"""Random draws from a generator that is one uint64 in an array: state is data, a replay draws the same.

SplitMix64 (Steele, Lea, Flood 2014) and Lemire's bounded integers (2019).
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31, _S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_TWO32 = np.uint64(1 << 32)
_MASK = (1 << 64) - 1
_UNIT = 2.0**-53


@jit
def next_word(state):
    """Return 64 random bits; writes state (1,) uint64."""
    state[0] += _GAMMA
    z = state[0]
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@jit
def below(state, k):
    """Return an integer uniform on 0..k-1, 0 < k < 2^31; one draw, rarely more; writes state (1,)."""
    bound = np.uint64(k)
    threshold = (_TWO32 - bound) % bound
    product = (next_word(state) >> _S32) * bound
    while (product & _LOW) < threshold:
        product = (next_word(state) >> _S32) * bound
    return np.int64(product >> _S32)


@jit
def normal(state):
    """Return a draw of N(0, 1): Box-Muller, the cosine alone, two words a draw; writes state (1,)."""
    radius = math.sqrt(-2.0 * math.log(np.float64((next_word(state) >> _S11) + _ONE) * _UNIT))
    return radius * math.cos(2.0 * math.pi * (np.float64(next_word(state) >> _S11) * _UNIT))


@jit
def mixed(z):
    """Return the output function of SplitMix64, a bijection of 64-bit words."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@jit
def uniform(state):
    """Return a draw of U[0, 1) with 53 bits; writes state (1,)."""
    return np.float64(next_word(state) >> _S11) * _UNIT


def seeded(seed: int) -> np.ndarray:
    """Return the generator's state (1,) uint64 for an integer seed: the seed, mixed once."""
    z = seed & _MASK
    z = ((z ^ (z >> 30)) * int(_MIX1)) & _MASK
    z = ((z ^ (z >> 27)) * int(_MIX2)) & _MASK
    return np.array([z ^ (z >> 31)], dtype=np.uint64)
