"""What a learner must do whatever its algorithm, as checks that the test of each learner calls."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.streams import gaussian_stream
from scipy import sparse

from aucstream import from_bytes
from aucstream.errors import NonFiniteStep
from aucstream.kernels.ledger import KAPPA2
from aucstream.learners._base.learner import Learner
from aucstream.learners._base.state import Scratch, UnitChange
from aucstream.registry import LEARNERS

Make = Callable[[], Any]
FORMS = ("dense", "csr", "dicts", "widening")


def stream(n: int = 1200, d: int = 7, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (X, y, weights): sparse rows in raw units; equal, empty and outlier rows, a huge first one, heavy weights in the end."""
    g = gaussian_stream(n, d=d, p=0.3, seed=seed, largest=None)
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, 0.0, 3.0 * g.X)
    X[::37] *= 9.0
    X[5] = X[11] = X[3]
    X[[20, 33]] = 0.0
    X[0] *= 1e5
    X[:200, 2] = 0.0  # columns that appear late: 2, then 6
    X[:450, [4, 6]] = 0.0
    weights = 2.0 * rng.random(n)
    weights[2 * n // 3 :] *= 40.0  # too heavy for a step
    return X, g.y, weights


def named(row: np.ndarray) -> dict[str, float]:
    """Return a row as a dict without its zeros."""
    return {f"f{j}": float(v) for j, v in enumerate(row) if v != 0.0}


def learned(model: Learner, X: np.ndarray, y: np.ndarray, weights: np.ndarray, form: str) -> np.ndarray:
    """Learn the rows in one of `FORMS`; return the score before each."""
    if form == "dense":
        return model.engine.learn_array(X, y, weights)
    if form == "csr":
        return model.engine.learn_array(sparse.csr_array(X), y, weights)
    if form == "widening":
        parts = ((0, 200, X.shape[1] - 2), (200, 450, X.shape[1] - 1), (450, y.size, X.shape[1]))
        X = X[:, [j for j in range(X.shape[1]) if j not in (2, 6)] + [2, 6]]
        return np.concatenate([model.engine.learn_array(X[a:b, :w], y[a:b], weights[a:b]) for a, b, w in parts])
    scores = []
    for row, label, weight in zip(X, y, weights, strict=True):
        scores.append(model.score_one(named(row)))
        model.learn_one(named(row), label > 0, w=weight)
    return np.array(scores)


def output_weights(model: Learner, d: int, form: str) -> np.ndarray:
    """Return the output weights in the order of the columns of `stream`."""
    weights = model.weights
    if form == "dicts":
        return np.array([weights.get(f"f{j}", 0.0) for j in range(d)])
    if form == "widening":
        order = [j for j in range(d) if j not in (2, 6)] + [2, 6]
        return np.array([weights[order.index(j)] for j in range(d)])
    return model.coefficients()


def close(ours: Any, theirs: Any, what: str = "") -> None:
    """Assert equality to 1e-9 relative, and 1e-11 of the largest entry."""
    theirs = np.asarray(theirs, dtype=float)
    largest = float(np.abs(theirs).max(initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * largest, err_msg=what)


@cache
def reference_run(plain: type, params: tuple[tuple[str, Any], ...], n: int) -> tuple[Any, np.ndarray]:
    """Return the reference after the stream, and its score before each row."""
    learner = plain(**dict(params))
    return learner, np.array([learner.learn(x, label, weight) for x, label, weight in zip(*stream(n), strict=True)])


def unwritten(*classes: type) -> list[str]:
    """Return the lines that a template left to be written, in the files of classes and in the registry."""
    files = [Path(inspect.getfile(cls)) for cls in classes]
    lines = [
        f"{path.parent.name}/{path.name}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if "WRITE:" in line
    ]
    names = {cls.__name__ for cls in classes}
    return lines + [
        f"{entry.class_name} in registry.py"
        for entry in LEARNERS.values()
        if entry.class_name in names and "WRITE:" in entry.paper
    ]


def check_agreement(kind: type, plain: type, params: dict[str, Any], form: str, n: int = 1200) -> tuple[Any, Any]:
    """Assert that scores before each step and output weights are the reference's; return both learners."""
    left = unwritten(kind, plain)
    if left:
        pytest.fail(f"write the update of {kind.__name__}: {', '.join(left)}", pytrace=False)
    X, y, weights = stream(n)
    reference, theirs = reference_run(plain, tuple(params.items()), n)
    model = kind(**params)
    close(learned(model, X, y, weights, form), theirs, "scores")
    final = reference.output if hasattr(reference, "output") else reference.wbar
    close(output_weights(model, X.shape[1], form), final, "weights")
    assert model.examples == y.size
    assert model.positives == int((y > 0).sum())
    return model, reference


def same_state(one: Learner, other: Learner, *, but: tuple[str, ...] = ()) -> None:
    """Assert that two models hold the same bits."""
    a, b = one.state_dict(), other.state_dict()
    assert a[1] == b[1]
    assert a[0].keys() == b[0].keys()
    for name, array in a[0].items():
        if name not in but:
            np.testing.assert_array_equal(array, b[0][name], err_msg=name)


def check_splits(make: Make, tolerance: float = 0.0) -> None:
    """Assert that blocks in any split, single rows and dicts give the same bits.

    Names get other columns than an array's: a learner that solves equations, whose rounding depends on the order
    of columns, is within `tolerance` there.
    """
    X, y, weights = stream(300)
    for form in (np.asarray, sparse.csr_array):
        rows = form(X)
        whole = make()
        scores = whole.engine.learn_array(rows, y, weights)
        for edges in ([0, 1, 2, 117, 300], list(range(301))):
            parts = make()
            pieces = [parts.engine.learn_array(rows[a:b], y[a:b], weights[a:b]) for a, b in itertools.pairwise(edges)]
            np.testing.assert_array_equal(np.concatenate(pieces), scores)
            same_state(parts, whole)
        single = make()
        single.engine.learn_array(rows[:1], y[:1], weights[:1])  # sums over all columns round by their order
        for i, row in enumerate(X[1:], start=1):
            entries = enumerate(row.tolist())
            x = {j: v for j, v in entries if v != 0.0 or form is np.asarray}
            assert abs(single.score_one(x) - scores[i]) <= tolerance * np.abs(scores[: i + 1]).max()
            single.learn_one(x, y[i] > 0, w=weights[i])
        weights_there = whole.coefficients()
        weights_here = np.array([single.weights.get(j, 0.0) for j in range(X.shape[1])])
        assert np.abs(weights_here - weights_there).max() <= tolerance * np.abs(weights_there).max()


def check_snapshot(make: Make, at: tuple[int, ...] = (0, 1, 90, 257)) -> None:
    """Assert that a saved and loaded model goes on to the last bit, columns appearing after that too."""
    X, y, weights = stream(400, d=9)
    rows = [named(row) for row in X]
    straight, broken = make(), make()
    for i, (x, label, weight) in enumerate(zip(rows, y, weights, strict=True)):
        if i in at:
            broken = from_bytes(broken.to_bytes())
        straight.learn_one(x, label > 0, w=weight)
        broken.learn_one(x, label > 0, w=weight)
        assert straight.score_one(rows[i - 1]) == broken.score_one(rows[i - 1])
    same_state(*(from_bytes(model.to_bytes()) for model in (straight, broken)))  # working space aside


def check_skips(make: Make) -> None:
    """Assert that a row whose step would not stay finite leaves no trace."""
    X, y, weights = stream(120)
    rows = [named(row) for row in X]
    huge = {"f0": 1e200, "new": -1e305}
    clean, tried = make(), make()
    for i, (x, label, weight) in enumerate(zip(rows, y, weights, strict=True)):
        clean.learn_one(x, label > 0, w=weight)
        tried.learn_one(x, label > 0, w=weight)
        if i in (30, 80):
            for label in (True, False):
                with pytest.raises(NonFiniteStep):
                    tried.learn_one(huge, label)
            with pytest.raises(NonFiniteStep):
                tried.learn_one(rows[i - 1], y[i - 1] > 0, w=1e308)
            same_state(clean, tried)
    same_state(clean, tried)
    X[60, 1] = 1e300
    bad = make()
    scores = bad.engine.learn_array(X, y)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [60]
    kept = np.arange(120) != 60
    good = make()
    np.testing.assert_array_equal(good.engine.learn_array(X[kept], y[kept]), scores[kept])
    same_state(good, bad)
    for part, array in zip(bad._program.parts.items(), bad._arrays, strict=True):
        assert np.isfinite(array).all(), part
    assert bad.examples == 119


def change(ratio: np.ndarray, shift: np.ndarray) -> UnitChange:
    """Return the change of units z = ratio z_new + shift."""
    return UnitChange(ratio, shift, lambda indptr, idx, val: (indptr, idx, (val - shift[idx]) / ratio[idx]))


def check_units(make: Make) -> None:
    """Assert that a change of units moves all scores of raw rows by one constant, and all stays finite.

    With an intercept no score moves, nor does the calibration.
    """
    X, y, weights = stream(500)
    d = X.shape[1]
    model = make()
    rng = np.random.default_rng(0)
    for a, b in ((0, 300), (300, 400), (400, 500)):
        ratio, shift = np.exp(rng.normal(size=d)), rng.normal(size=d)
        model.engine.learn_array(X[a:b], y[a:b], weights[a:b])
        before = model.decision_function(X)
        line = model.engine.calibration_line
        model._change_units(change(ratio, shift))
        X = (X - shift) / ratio
        moved = model.decision_function(X) - before
        assert np.ptp(moved) <= 1e-12 * np.abs(before).max()
        if model._program.intercept:
            assert np.abs(moved).max() <= 1e-12 * np.abs(before).max()
            assert model.engine.calibration_line == line
    assert np.ptp(before) > 0.0
    for part, array in zip(model._program.parts.items(), model._arrays, strict=True):
        assert isinstance(part[1], Scratch) or np.isfinite(array).all(), part


def check_rescaled(make: Make, factor: float = 0.25) -> None:
    """Assert that a change of all units by a power of two changes no later score by a bit (kappa=None)."""
    X, y, weights = stream(600)
    d = X.shape[1]
    plain, moved = make(), make()
    for model in (plain, moved):
        model.engine.learn_array(X[:350], y[:350], weights[:350])
    plain._settle()
    plain._settle()
    moved._change_units(change(np.full(d, factor), np.zeros(d)))
    moved._ledger[KAPPA2] /= factor * factor  # the running scale is not a unit of a column
    np.testing.assert_array_equal(
        plain.engine.learn_array(X[350:], y[350:], weights[350:]),
        moved.engine.learn_array(X[350:] / factor, y[350:], weights[350:]),
    )
    np.testing.assert_array_equal(plain.coefficients() * factor, moved.coefficients())
