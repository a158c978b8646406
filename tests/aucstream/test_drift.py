"""`LossAlarm` against a plain transcription, and what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import base

from aucstream.drift import LossAlarm
from aucstream.errors import InvalidLabel, InvalidParams


def plain(y: np.ndarray, p: np.ndarray, half_life: float = 300.0, threshold: float = 4.0):
    """Return (strength, alarm) after each row, row by row as the docstring of the kernel says."""
    keep = 0.5 ** (1.0 / half_life)
    excess = variance = largest = quiet = 0.0
    strengths, alarms = [], []
    for label, probability in zip(y, p, strict=True):
        q = min(max(probability, 1e-6), 1.0 - 1e-6)
        odds = math.log(q / (1.0 - q))
        term = (q - label) * odds
        quiet = max(0.0, quiet - 1.0)
        excess = keep * excess + term
        largest = max(keep * largest, term)
        variance = keep**2 * variance + q * (1.0 - q) * odds**2
        deviation = math.sqrt(variance + largest**2)
        excess = max(excess, -2.0 * deviation)
        strength = excess / deviation if deviation else 0.0
        strengths.append(strength)
        alarms.append(quiet == 0.0 and strength > threshold)
        if alarms[-1]:
            excess = variance = largest = 0.0
            quiet = half_life
    return np.array(strengths), np.array(alarms)


def calibrated(n: int, mean: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and the probabilities that they come from."""
    random = np.random.default_rng(seed)
    p = 1.0 / (1.0 + np.exp(-(mean + 1.5 * random.normal(size=n))))
    return (random.random(n) < p).astype(float), p


def watched(y: np.ndarray, p: np.ndarray, alarm: LossAlarm) -> tuple[np.ndarray, np.ndarray]:
    """Return (strength, alarm) after each row."""
    told = []
    for label, probability in zip(y.astype(bool).tolist(), p.tolist(), strict=True):
        alarm.update(label, probability)
        told.append((alarm.strength, alarm.drift_detected))
    strengths, alarms = zip(*told, strict=True)
    return np.array(strengths), np.array(alarms)


@pytest.mark.parametrize("half_life", [20.0, 300.0])
def test_equals_the_plain_rule(half_life):
    y, p = calibrated(3000, -1.0)
    y[1500:] = 1.0 - y[1500:]
    strengths, alarms = watched(y, p, LossAlarm(half_life=half_life, threshold=3.0))
    expected, expected_alarms = plain(y, p, half_life, 3.0)
    np.testing.assert_allclose(strengths, expected, rtol=1e-9, atol=1e-12)
    assert alarms.tolist() == expected_alarms.tolist()
    assert alarms[1500:].any()


@pytest.mark.parametrize("mean", [0.0, -3.0, -7.0])
def test_calibrated_probabilities_give_almost_no_alarm(mean):
    y, p = calibrated(40_000, mean)
    assert watched(y, p, LossAlarm())[1].sum() <= 1


def test_labels_that_flip_are_seen_within_a_hundred_rows():
    y, p = calibrated(3000, 0.0)
    y[2000:] = 1.0 - y[2000:]
    alarms = np.flatnonzero(watched(y, p, LossAlarm())[1])
    assert 2000 <= alarms[0] < 2100


def test_probabilities_that_were_too_cautious_do_not_hide_a_change():
    random = np.random.default_rng(0)
    y = (random.random(3000) < 0.3).astype(float)
    p = np.where(y > 0.0, 0.8, 0.2)  # all of them right, each said with doubt
    p[2000:] = 1.0 - p[2000:]
    alarms = np.flatnonzero(watched(y, p, LossAlarm())[1])
    assert 2000 <= alarms[0] < 2060  # 2126 where the sum may fall without bound


def test_it_is_a_detector_of_river():
    alarm = LossAlarm(half_life=50.0)
    assert isinstance(alarm, base.DriftDetector)
    assert alarm.clone().half_life == 50.0


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan, "0.5", None])
def test_what_is_no_probability_is_refused_and_changes_nothing(probability):
    alarm = LossAlarm()
    alarm.update(True, 0.3)
    before = alarm.strength, alarm._state.tolist()
    with pytest.raises(InvalidParams, match=r"LossAlarm.update: expected a probability in \[0, 1\]"):
        alarm.update(True, probability)
    with pytest.raises(InvalidLabel):
        alarm.update("yes", 0.5)
    assert (alarm.strength, alarm._state.tolist()) == before


@pytest.mark.parametrize(
    "params", [{"half_life": 0.0}, {"threshold": -1.0}, {"half_life": True}, {"half_life": math.inf}]
)
def test_parameters_are_checked(params):
    with pytest.raises(InvalidParams, match=rf"LossAlarm.{next(iter(params))}"):
        LossAlarm(**params)
