"""Weights that leave a ball or a net: what is kept of sums over columns loses their share."""

from __future__ import annotations

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.weights import elasticnet
from aucstream.kernels.weights.l1ball import GAP2, LIVE, MASS, SIGNED, TH


def leave_ball(columns: Ints, z: Floats, ball: Floats, centre: Floats | None = None) -> None:
    """Take the weights of columns (n,) out of what `kernels.weights.l1ball` keeps; writes z, ball."""
    signs = np.sign(z[columns])
    weights = z[columns] - signs * ball[TH]
    ball[MASS] -= np.abs(weights).sum()
    ball[LIVE] -= np.count_nonzero(signs)
    if centre is not None:
        gaps = weights - centre[columns]
        ball[GAP2] -= (gaps * gaps - centre[columns] * centre[columns]).sum()
        ball[SIGNED] -= (np.sign(weights) * centre[columns]).sum()
    z[columns] = 0.0
    if ball[LIVE] <= 0.0:
        ball[[MASS, LIVE]] = 0.0


def leave_centre(columns: Ints, centre: Floats, ball: Floats) -> None:
    """Take a centre's share in columns (n,), whose weights are 0, out of the distance from it; writes ball."""
    ball[GAP2] = max(0.0, ball[GAP2] - (centre[columns] * centre[columns]).sum())


def leave_net(columns: Ints, z: Floats, sums_pos: Floats, sums_neg: Floats, ball: Floats) -> None:
    """Take the weights of columns (n,) out of what `kernels.weights.elasticnet` keeps; writes z, ball."""
    before, signs = z[columns].copy(), np.sign(z[columns])
    leave_ball(columns, z, ball)
    for at, sign_at, sums in (
        (elasticnet.ZSUM_POS, elasticnet.SIGN_POS, sums_pos),
        (elasticnet.ZSUM_NEG, elasticnet.SIGN_NEG, sums_neg),
    ):
        ball[at] -= (before * sums[columns]).sum()
        ball[sign_at] -= (signs * sums[columns]).sum()
    if ball[LIVE] <= 0.0:
        ball[[TH, elasticnet.ZSUM_POS, elasticnet.ZSUM_NEG, elasticnet.SIGN_POS, elasticnet.SIGN_NEG]] = 0.0
