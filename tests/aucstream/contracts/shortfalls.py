"""Where a learner is known to fall short of a contract of ranking, and why: the one list of such exceptions.

Each is a strict expected failure: a learner that no longer falls short must leave the list.
"""

from __future__ import annotations

import pytest

_LAST = "its output is the last iterate, whose steps are still long"
_WANDERS = "the last iterate of a constant step wanders"

# contract -> learner or variant, and what else the contract goes over -> what is measured
SHORTFALLS: dict[str, dict[tuple[str, ...], str]] = {
    "near the true scorer": {
        ("cbr", "20"): "CBR answers with its last weights: .012 below the true scorer at 20 features",
        ("minibatchauc", "20"): "MiniBatchAUC takes a step in 100 rows: .014 below the true scorer at 20 features",
        ("oam", "20"): "OAM learns from buffers of 100 rows a class: .014 below the true scorer at 20 features",
        ("onlinelogistic", "2"): f"{_LAST}: .005 below the true scorer at 2 features",
        ("univariateexp", "2"): f"{_LAST}: .005 below the true scorer at 2 features",
        ("ftrl", "2"): f"{_LAST}: .005 below the true scorer at 2 features",
        ("opauc", "2"): f"{_WANDERS}: .006 below, .004 with average=True",
        ("tanhsum", "20"): "it sums squashed features: .02 below the true scorer at 20 features",
        ("opauc", "20"): f"{_WANDERS}: .013 below, .009 with average=True",
    },
    "no ratio of the classes": {
        ("onlinelogistic", "0.5"): f"{_LAST}: .01 while it learns, two standard errors of balanced classes are .0075",
        ("univariateexp", "0.5"): f"{_LAST}: .01 while it learns, two standard errors of balanced classes are .0075",
        ("opauc", "0.5"): f"{_WANDERS}: 2.3 standard errors below, 0.7 with average=True",
    },
    "one class, then separable rows": {
        ("vrspam", "alone"): "the rows move away from the window's means: weights of noise grow to hundreds before it "
        "has caught up",
    },
    "as good as behind the scaler of River": {
        ("minibatchauc",): "MiniBatchAUC takes 12 steps on these 1,250 rows: AUC .93",
    },
    "wandering covariates": {
        ("minibatchauc",): "pairs of one block, rows close in time, see no column wander, only its units: .024 below",
        ("spam",): "SPAM's class means are those of all rows so far, the rows' are elsewhere: AUC .5 however scaled",
        ("vrspam",): "VRSPAM's class means are those of its last snapshot, the rows' are elsewhere: AUC .44 to .55",
    },
}


def expect(request: pytest.FixtureRequest, contract: str, *case: object) -> None:
    """Mark a test as an expected failure where the list has its case."""
    reason = SHORTFALLS[contract].get(tuple(map(str, case)))
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
