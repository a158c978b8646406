"""The hidden layer of a trained single-layer network as a feature map, by scikit-learn."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache

import numpy as np
from scipy import sparse

from benchmarks.quality.table_sets import Split, split, unit_rows

NETWORK_SETS = ("a9a", "w8a", "german", "diabetes", "splice", "svmguide3")
UNITS, STEPS, BATCH = 100, 2000, 200


@lru_cache(maxsize=2)
def network_split(name: str, order: int) -> Split:
    """Return (X, y, test X, test y) of one order, each row the network's hidden layer at unit length.

    `MLPClassifier` of 100 tanh units is trained on the part to learn: 2000 steps of Adam on batches of 200 rows.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    X, y, test_X, test_y = split(name, order)
    X, test_X = (part.toarray().astype(np.float32) for part in (X, test_X))
    batch = min(BATCH, len(y))
    epochs = math.ceil(STEPS * batch / len(y))
    network = MLPClassifier(
        UNITS, activation="tanh", batch_size=batch, max_iter=epochs, n_iter_no_change=epochs, random_state=order
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is the rule
        network.fit(X, y > 0)
    hidden = (np.tanh(part @ network.coefs_[0] + network.intercepts_[0], dtype=float) for part in (X, test_X))
    rows, test_rows = (unit_rows(sparse.csr_array(part)) for part in hidden)
    return rows, y, test_rows, test_y
