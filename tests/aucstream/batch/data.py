"""Rows for the batch references, and the plain objectives over all pairs."""

from __future__ import annotations

import numpy as np

from tests.data import data_path


def rows(n: int = 120, d: int = 5, positive: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y) with a fifth of zeros, the classes overlapping."""
    random = np.random.default_rng(seed)
    y = random.random(n) < positive
    y[:2] = [True, False]
    X = random.normal(size=(n, d))
    X[:, 0] += y
    X[random.random((n, d)) < 0.2] = 0.0
    return X, y


def differences(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x+ - x- of every pair, (n+ n-, d)."""
    return (X[y][:, None, :] - X[~y][None, :, :]).reshape(-1, X.shape[1])


def objective(loss: str, lam: float, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Return lam/2 |w|^2 + the mean loss over all pairs."""
    h = 1.0 - differences(X, y) @ w
    each = {
        "hinge": np.maximum(h, 0.0),
        "squared_hinge": 0.5 * np.maximum(h, 0.0) ** 2,
        "squared": 0.5 * h * h,
    }[loss]
    return 0.5 * lam * float(w @ w) + float(each.mean())


def real(name: str, width: int | None = None, unit: bool = False):
    """Return (X, y) of a svmlight file of the tests' data; rows of length 1 if `unit`."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.preprocessing import normalize

    X, y = load_svmlight_file(str(data_path(f"{name}.svm.gz")), n_features=width)
    return (normalize(X) if unit else X), y > 0
