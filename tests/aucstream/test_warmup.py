"""Every kernel is compiled before anyone waits for it."""

from __future__ import annotations

import pytest

from aucstream.learners._base.capabilities import Capability
from aucstream.registry import LEARNERS, learner_class
from aucstream.warmup import warm

SCALERS = {Capability.STEPS_BEFORE, Capability.RUNNING_SCALER}


@pytest.mark.parametrize("name", [name for name in LEARNERS if not learner_class(name)._capabilities >= SCALERS])
def test_learners_that_take_no_scaler_are_warmed(name):
    said = []
    warm([name], said.append)
    assert said[0] == name
