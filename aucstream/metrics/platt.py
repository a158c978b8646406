"""Logistic calibration in a learner's ledger: of a batch (Platt 1999, by Newton's method), of two models in one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aucstream.kernels import ledger as at
from aucstream.kernels.auc.calibration import (
    INTERCEPT_MAX,
    RMS2_MAX,
    RMS2_MIN,
    SLOPE_MAX,
    SLOPE_MIN,
    log_odds_line,
    start_line,
)

Floats = NDArray[np.float64]

STEPS = 50
RIDGE = 1e-6  # of the mean curvature: separable scores have no finite fit


def refit(ledger: Floats, scores: Floats, signs: Floats) -> None:
    """Fit slope > 0 and intercept on all scores (n,) with labels +1 / -1 (n,); writes ledger.

    With one class only nothing is written. Smoothed targets (Platt 1999) keep the fit finite.
    """
    positives = float((signs > 0).sum())
    negatives = float(len(signs) - positives)
    if positives == 0 or negatives == 0:
        return
    rms2 = min(RMS2_MAX, max(RMS2_MIN, float(np.mean(np.square(np.clip(scores, -1e100, 1e100))))))
    s = scores / math.sqrt(rms2)
    target = np.where(signs > 0, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    slope, intercept = 1.0, math.log(positives / negatives)
    h11 = h12 = h22 = 0.0
    for _ in range(STEPS):
        z = slope * s + intercept
        p = np.where(z >= 0, 1.0 / (1.0 + np.exp(-np.abs(z))), np.exp(-np.abs(z)) / (1.0 + np.exp(-np.abs(z))))
        c = p * (1.0 - p) + RIDGE
        g1, g2 = float(np.sum((p - target) * s)), float(np.sum(p - target))
        h11, h12, h22 = float(np.sum(c * s * s)), float(np.sum(c * s)), float(np.sum(c))
        d11, d22 = h11 + RIDGE * h22, h22 * (1.0 + RIDGE)
        determinant = d11 * d22 - h12 * h12
        step1, step2 = (d22 * g1 - h12 * g2) / determinant, (d11 * g2 - h12 * g1) / determinant
        size = max(abs(step1), abs(step2))
        shrink = min(1.0, 2.0 / size) if size > 0 else 1.0
        slope = min(SLOPE_MAX, max(SLOPE_MIN, slope - shrink * step1))
        intercept = min(INTERCEPT_MAX, max(-INTERCEPT_MAX, intercept - shrink * step2))
        if size < 1e-10:
            break
    ledger[at.CAL_ON] = 1.0
    ledger[at.CAL_SLOPE], ledger[at.CAL_INTERCEPT] = slope, intercept
    ledger[at.CAL_H11], ledger[at.CAL_H12], ledger[at.CAL_H22] = h11, h12, h22
    ledger[at.CAL_RMS2] = rms2
    ledger[at.CAL_ROWS] = float(len(scores))
    ledger[at.CAL_POSITIVE], ledger[at.CAL_NEGATIVE] = positives, negatives


def combine(ledger: Floats, other: Floats) -> None:
    """Take the counts of another ledger, and its calibration in proportion to the rows behind it; writes ledger.

    The two lines are averaged per unit of score. That is approximate: a merged model's scores are its own.
    """
    kappa_rows = ledger[at.KAPPA_ROWS] + other[at.KAPPA_ROWS]
    if kappa_rows > 0.0:
        ledger[at.KAPPA2] += other[at.KAPPA_ROWS] / kappa_rows * (other[at.KAPPA2] - ledger[at.KAPPA2])
    for count in (at.ROWS, at.POSITIVES, at.KAPPA_ROWS, at.CAL_POSITIVE, at.CAL_NEGATIVE):
        ledger[count] += other[count]
    line = [at.CAL_ON, at.CAL_SLOPE, at.CAL_INTERCEPT, at.CAL_H11, at.CAL_H12, at.CAL_H22, at.CAL_RMS2, at.CAL_ROWS]
    if other[at.CAL_ON] == 0.0:
        if ledger[at.CAL_ON] == 0.0 and ledger[at.CAL_POSITIVE] > 0.0 and ledger[at.CAL_NEGATIVE] > 0.0:
            if ledger[at.RULES] == at.FIRST_RULES:
                log_odds = math.log(ledger[at.CAL_POSITIVE] / ledger[at.CAL_NEGATIVE])
                ledger[line] = [1.0, 1.0, log_odds, 0.0, 0.0, 1.0, 1.0, 0.0]  # as `calibrate` begins
            else:
                mass = ledger[at.CAL_POSITIVE] + ledger[at.CAL_NEGATIVE]
                start_line(ledger, log_odds_line(ledger)[1], mass / max(1.0, ledger[at.ROWS]))
        return
    if ledger[at.CAL_ON] == 0.0:
        ledger[line] = other[line]
        return
    share = other[at.CAL_ROWS] / (ledger[at.CAL_ROWS] + other[at.CAL_ROWS])
    rms2 = ledger[at.CAL_RMS2] + share * (other[at.CAL_RMS2] - ledger[at.CAL_RMS2])
    slope = intercept = h11 = h12 = h22 = 0.0
    for part, of in ((ledger, 1.0 - share), (other, share)):
        unit = math.sqrt(rms2 / part[at.CAL_RMS2])  # from the part's scores to those over the common mean square
        slope += of * part[at.CAL_SLOPE] * unit
        intercept += of * part[at.CAL_INTERCEPT]
        h11 += part[at.CAL_H11] / unit / unit
        h12 += part[at.CAL_H12] / unit
        h22 += part[at.CAL_H22]
    slope = min(SLOPE_MAX, max(SLOPE_MIN, slope))
    ledger[line] = [1.0, slope, intercept, h11, h12, h22, rms2, ledger[at.CAL_ROWS] + other[at.CAL_ROWS]]
