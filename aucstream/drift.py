"""Alarms that a stream has changed, from what a model's probabilities said before their labels came."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from river import base

from aucstream.block import sign_of
from aucstream.errors import InvalidParams
from aucstream.kernels.auc import alarm
from aucstream.kernels.jit import RowCall

_OBSERVE = RowCall(alarm.observe_loss, int, float, float, float)


class LossAlarm(base.DriftDetector):
    """An alarm when log loss exceeds its own expectation.

    While probabilities p are right, the log loss of a row has the expectation that p itself gives it. The fading sum of
    what the losses exceed it by is measured in standard deviations. No reference window is kept, and a change of units
    that makes probabilities wrong is seen as soon as a change of the concept.

    Parameters
    ----------
    half_life : float, default=300
        In (0, inf). Rows after which a row's part in the sum has halved.
    threshold : float, default=4.0
        In (0, inf). Standard deviations above which the alarm is given. The sum then starts anew, and for `half_life` rows no
        other alarm is given.

    Attributes
    ----------
    drift_detected : bool
        Whether the last update gave the alarm.
    strength : float
        Standard deviations at the last update.

    Examples
    --------
    >>> from aucstream.drift import LossAlarm
    >>> alarm = LossAlarm()
    >>> for y in [True, False] * 100:
    ...     alarm.update(y, 0.9 if y else 0.1)
    >>> alarm.drift_detected
    False
    >>> row = 0
    >>> while not alarm.drift_detected:
    ...     row += 1
    ...     alarm.update(row % 2 == 1, 0.1 if row % 2 == 1 else 0.9)
    >>> row < 30
    True
    """

    def __init__(self, half_life: float = alarm.HALF_LIFE, threshold: float = alarm.THRESHOLD) -> None:
        super().__init__()
        for name, value in (("half_life", half_life), ("threshold", threshold)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < math.inf:
                raise InvalidParams(f"LossAlarm.{name}", "a finite number > 0", value)
        self.half_life = float(half_life)
        self.threshold = float(threshold)
        self._keep = 0.5 ** (1.0 / self.half_life)
        self._state = np.zeros(alarm.SIZE)
        self.strength = 0.0

    def _reset(self) -> None:
        super()._reset()
        self._state = np.zeros(alarm.SIZE)
        self.strength = 0.0

    def update(self, y: Any, probability: float) -> None:  # type: ignore[override]
        """Take one label and the probability that was said before it.

        Parameters
        ----------
        y : bool
            Label: False, 0, -1 or True, 1.
        probability : float
            Of the positive class, in [0, 1].

        Raises
        ------
        InvalidLabel
            The label cannot be used.
        InvalidParams
            The probability is no number in [0, 1]. Nothing was changed.
        """
        sign = sign_of(y)
        if not isinstance(probability, (int, float)) or not 0.0 <= probability <= 1.0:
            raise InvalidParams("LossAlarm.update", "a probability in [0, 1]", probability)
        _OBSERVE.dense(self._state, 0, self._keep, float(probability), sign)
        self.strength = float(alarm.strength(self._state, 0))
        self._drift_detected = bool(alarm.raised(self._state, 0, self.threshold, self.half_life))
