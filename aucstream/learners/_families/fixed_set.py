"""What learners share that `fit` a fixed set by an algorithm of its own, not by passes of the stream's."""

from __future__ import annotations

from typing import Any

import numpy as np

from aucstream.block import Block, Floats, Ints, signs_of
from aucstream.constraints import check_epochs
from aucstream.errors import NonFiniteStep
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block
from aucstream.learners._base.learner import Learner


def start_anew(model: Learner, X: Any, y: Any, epochs: Any) -> Block:
    """Return all rows of (X, y), each of weight 1, with room for them in a model that starts anew.

    Nothing changes where they, or `epochs`, cannot be used.
    """
    check_epochs(epochs)
    n = len(array_block(Vocabulary(), X, learn=True))
    signs = signs_of(y, n)
    model._reset()
    block = array_block(model._encoder, X, signs, np.ones(n), learn=True)
    model._ensure(block.width)
    return block


def columns_of(block: Block) -> Ints:
    """Return the column of each value."""
    if block.indices is None:
        return np.tile(np.arange(block.width, dtype=np.int64), len(block))
    return block.indices


def final_scores(model: Learner, block: Block, steps: bool = True) -> Floats:
    """Return the scores of all rows; reset the model and raise NonFiniteStep where they, or its steps, are not finite.

    Without a row to name, its steps were on rows drawn from all.
    """
    scores = model._score(block)
    if not (steps and np.isfinite(scores).all()):
        model._reset()
        rows = np.flatnonzero(~np.isfinite(scores)).tolist()
        raise NonFiniteStep(f"{type(model).__name__}.fit", rows or range(len(block)), scores)
    return scores
