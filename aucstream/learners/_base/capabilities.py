"""What a learner can do: declared in its class, read by pipelines and by the contracts that tests hold it to."""

from __future__ import annotations

import enum


class Capability(enum.Enum):
    """One thing that a learner can do, or does."""

    LINEAR_WEIGHTS = "its score is a sum over features: `weights`, `coefficients`"
    CONTRIBUTIONS = "`explain_one` says what each name adds to a score"
    ONE_CALL = "a dict of plain numbers is scored, and learned, by one compiled call"
    FIXED_BUFFERS = "it keeps rows, and no parameter says how many"
    EXACT_MERGE = "`merge` gives what one pass over both streams would give, in its default form at least"
    APPROXIMATE_MERGE = "`merge(approximate=True)` goes on from the average of both models"
    REPEATED_FIT = "each further epoch of `fit` learns more"
    PIPELINE = "it may be the last step of a `Pipeline`"
    STEPS_BEFORE = "scalers and a feature map may stand in front of it in a `Pipeline`"
    FORMLESS = "a row means the same as a dense array, as a sparse one and as a dict"
    RUNNING_SCALER = "it follows changes of units, so that scalers in front of it may go on moving"
    BARE_ROWS = "it learns rows of any scale by itself, with no scaler in front"
    ONE_CLASS = "it learns while all rows are of one class"
    EVERY_FINITE_ROW = "no finite row makes a step that is not finite: none is skipped"


# A learner of pairs with linear weights.
DEFAULT = frozenset(
    {
        Capability.LINEAR_WEIGHTS,
        Capability.CONTRIBUTIONS,
        Capability.ONE_CALL,
        Capability.APPROXIMATE_MERGE,
        Capability.REPEATED_FIT,
        Capability.PIPELINE,
        Capability.STEPS_BEFORE,
        Capability.FORMLESS,
        Capability.RUNNING_SCALER,
        Capability.BARE_ROWS,
    }
)
