"""Progressive validation (test, then train) at kernel speed, with hold-out AUC and AUC curves."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aucstream.block import Block, joined, signs_of, weights_of
from aucstream.errors import AucstreamError, InvalidBlock, InvalidParams
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.frames import SparseTable, table_of
from aucstream.features.intake import Encoding, array_block, is_table
from aucstream.features.number_rows import NumberRows, together
from aucstream.io.rows import Rows
from aucstream.learners._base.engine import row_count
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.metrics.auc import AUC
from aucstream.metrics.exact import AreaEstimate, area
from aucstream.metrics.ranking import Ranking

Floats = NDArray[np.float64]
Chunk = Block | Rows

CHUNK_ROWS = 8192
FIRST_ROWS = 8  # whose probabilities are those of a model that has learned nothing
COMPILE_ROWS = 64  # past the first change of units on a scaler's schedule


@dataclass(slots=True)
class Progress:
    """One model's way through a stream.

    Attributes
    ----------
    model : learner or Pipeline
    window : int or None
        Rows that each point of the curve looks back on; None: all so far.
    signs, scores : ndarray (n,)
        Labels +1 / -1 and the score of each row before it was learned; NaN where a row was skipped.
    probabilities : ndarray (n,)
        Of the scores, by the calibration before the chunk that the row is in, in the first chunk by the calibration
        after two thirds of the rows before it or the last 8; NaN where a row was skipped, and where the model is not
        calibrated.
    test_signs, test_scores : ndarray (m,)
        Labels and scores of held-out rows.
    curve : list of (rows, seconds, AUC)
        The AUC over the window at a row count; see `window`.
    test : AreaEstimate or None
        AUC on held-out rows after the last one.
    seconds : float
        Spent in learning and scoring; not in reading, nor in compiling kernels.
    rows : int
        Rows learned, of all passes.
    refused : AucstreamError or None
        Why the model did not take the stream; the others went on.
    """

    model: RankingClassifier
    window: int | None = None
    signs: Floats = field(default_factory=lambda: np.empty(0))
    scores: Floats = field(default_factory=lambda: np.empty(0))
    probabilities: Floats = field(default_factory=lambda: np.empty(0))
    test_signs: Floats = field(default_factory=lambda: np.empty(0))
    test_scores: Floats = field(default_factory=lambda: np.empty(0))
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    test: AreaEstimate | None = None
    seconds: float = 0.0
    rows: int = 0
    refused: AucstreamError | None = None

    @property
    def positives(self) -> int:
        """Positive rows of the first pass."""
        return int((self.signs > 0).sum())

    @property
    def skipped(self) -> int:
        """Rows of the first pass whose step was not finite."""
        return int(np.isnan(self.scores).sum())

    @property
    def progressive(self) -> AreaEstimate:
        """The progressive AUC, exact over all rows of the first pass."""
        learned = ~np.isnan(self.scores)
        return area(self.signs[learned], self.scores[learned])

    @property
    def auc(self) -> float:
        """The progressive AUC."""
        return self.progressive.auc

    @property
    def ranking(self) -> Ranking:
        """All rows of the first pass by score: what figures beside the AUC are computed from."""
        learned = ~np.isnan(self.scores)
        return Ranking.of_rows(self.signs[learned], self.scores[learned])


class Comparison:
    """Several models over the same stream, chunk by chunk: the file is read once for all.

    Parameters
    ----------
    models : sequence of learners or Pipelines
        Learn in place.
    window : int, optional
        Rows that each point of the AUC curve looks back on; None: all rows so far.

    Attributes
    ----------
    runs : list of Progress
        In the order of the models.
    warm : bool
        Whether the kernels are compiled; see `compile`.
    """

    def __init__(self, models: Sequence[RankingClassifier], *, window: int | None = None) -> None:
        self.runs = [Progress(model, window) for model in models]
        self.warm = False
        self._signs: list[Floats] = []
        self._scores: list[list[Floats]] = [[] for _ in models]
        self._probabilities: list[list[Floats]] = [[] for _ in models]
        self._metrics = [AUC(window) for _ in models]
        self._first_pass = True

    def compile(self, chunk: Chunk, done: Callable[[], None] = lambda: None) -> None:
        """Let a throw-away copy of each model learn the first rows of a chunk, so that no kernel is compiled later.

        Called by the first `learn` at the latest.

        Parameters
        ----------
        chunk : Block or Rows
        done : function, optional
            Called after each model.
        """
        head = _rows(chunk, 0, min(len(chunk), COMPILE_ROWS))
        for run in self.runs:
            throwaway = copy.deepcopy(run.model)
            with contextlib.suppress(AucstreamError):  # `learn` will tell
                throwaway.engine.learn_chunk(head)
                throwaway.engine.end_warmup()
                throwaway.engine.learn_chunk(head)
                throwaway.engine.score_chunk(head)
            done()
        self.warm = True

    def learn(self, chunk: Chunk) -> None:
        """Score and learn a chunk in every model. A model that refuses what others take is out of the comparison.

        Parameters
        ----------
        chunk : Block or Rows

        Raises
        ------
        AucstreamError
            Every model refuses the chunk: the reason of the first.
        """
        if not len(chunk):
            return
        if not self.warm:
            self.compile(chunk)
        is_first = self._first_pass and not self._signs
        if self._first_pass:
            self._signs.append(np.array(chunk.y))
        parts = list(_growing_parts(chunk)) if is_first else [chunk]
        refused: list[tuple[Progress, AucstreamError]] = []
        encodings: list[list[Encoding]] = [[] for _ in parts]  # models with equal encoders share one
        lists = zip(self.runs, self._scores, self._probabilities, self._metrics, strict=True)
        for run, scores, probabilities, metric in lists:
            if run.refused is not None:
                continue
            try:
                learned_parts = [_learned(run, *part) for part in zip(parts, encodings, strict=True)]
            except AucstreamError as error:
                refused.append((run, error if len(parts) == 1 else _reason(run, chunk, error)))
                continue
            run.rows += len(chunk)
            if self._first_pass:
                chunk_scores = np.concatenate([part_scores for part_scores, _ in learned_parts])
                scores.append(chunk_scores)
                probabilities += [part_probabilities for _, part_probabilities in learned_parts]
                learned = ~np.isnan(chunk_scores)
                metric.update_many(chunk.y[learned], chunk_scores[learned])
                run.curve.append((run.rows, run.seconds, metric.get()))
        if len(refused) == sum(run.refused is None for run in self.runs) and refused:
            raise refused[0][1]
        for run, reason in refused:
            run.refused = reason

    def end_pass(self) -> None:
        """Close the first pass: later ones have seen the rows and count in no progressive AUC.

        A model whose map still waits for rows goes on with those it has.
        """
        if not self._first_pass:
            return
        for run in self.runs:
            if run.rows and run.refused is None:
                start = time.perf_counter()
                run.model.engine.end_warmup()
                run.seconds += time.perf_counter() - start
        self._first_pass = False
        signs = np.concatenate(self._signs) if self._signs else np.empty(0)
        for run, scores, probabilities in zip(self.runs, self._scores, self._probabilities, strict=True):
            run.signs = signs
            whole = scores and run.refused is None
            run.scores = np.concatenate(scores) if whole else np.full(signs.size, math.nan)
            run.probabilities = np.concatenate(probabilities) if whole else np.full(signs.size, math.nan)
        self._signs, self._scores, self._probabilities = [], [[] for _ in self.runs], [[] for _ in self.runs]

    def test(self, chunks: Iterable[Chunk]) -> None:
        """Score held-out chunks in every model.

        Parameters
        ----------
        chunks : iterable of Block or Rows
        """
        signs: list[Floats] = []
        scores: list[list[Floats]] = [[] for _ in self.runs]
        for chunk in chunks:
            signs.append(np.array(chunk.y))
            for run, parts in zip(self.runs, scores, strict=True):
                if run.refused is None:
                    start = time.perf_counter()
                    parts.append(run.model.engine.score_chunk(chunk))
                    run.seconds += time.perf_counter() - start
        for run, parts in zip(self.runs, scores, strict=True):
            if run.refused is not None:
                continue
            run.test_signs = np.concatenate([np.empty(0), *signs])
            run.test_scores = np.concatenate([np.empty(0), *parts])
            run.test = area(run.test_signs, run.test_scores)


def _growing_parts(chunk: Chunk) -> Iterator[Chunk]:
    """Yield a chunk in parts half as long as all before them: the calibration of a young model changes that fast."""
    start = 0
    while start < len(chunk):
        stop = min(len(chunk), start + max(FIRST_ROWS, start // 2))
        yield _rows(chunk, start, stop)
        start = stop


def _learned(run: Progress, chunk: Chunk, encodings: list[Encoding]) -> tuple[Floats, Floats]:
    """Let one model learn a chunk; return the scores before, and their probabilities by the calibration before."""
    engine = run.model.engine
    slope, intercept, largest = engine.log_odds_line
    start = time.perf_counter()
    scores = engine.learn_chunk(chunk, encodings)
    run.seconds += time.perf_counter() - start
    if getattr(run.model, "calibration", "logistic") == "none":
        return scores, np.full(scores.size, math.nan)
    with np.errstate(over="ignore"):
        return scores, 1.0 / (1.0 + np.exp(-(slope * np.clip(scores, -largest, largest) + intercept)))


def _reason(run: Progress, chunk: Chunk, error: AucstreamError) -> AucstreamError:
    """Return why a model refuses a part of a chunk, with the row's number in the chunk."""
    try:
        run.model.engine.learn_chunk(chunk)
    except AucstreamError as of_chunk:
        return of_chunk
    return error


def _rows(chunk: Chunk, start: int, stop: int) -> Chunk:
    if isinstance(chunk, Block):
        return chunk.rows(start, stop)
    part = slice(start, stop)
    return Rows(chunk.features[part], chunk.y[part], chunk.weights[part], chunk.lines[part])


def shuffled(chunks: Iterable[Chunk], seed: int, *, chunk_rows: int = CHUNK_ROWS) -> list[Chunk]:
    """Return all rows in a random order, in chunks; held in memory.

    Parameters
    ----------
    chunks : iterable of Block or Rows
        All of one kind.
    seed : int
        Of numpy's default generator.
    chunk_rows : int, default=8192
        Rows in a chunk.

    Returns
    -------
    list of Block or Rows
    """
    parts = list(chunks)
    rows = sum(map(len, parts))
    return taken(parts, np.random.default_rng(seed).permutation(rows), chunk_rows=chunk_rows)


def folds(chunks: Sequence[Chunk], count: int) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
    """Yield (chunks to learn, chunks to test) for each fold: row i is held out by fold i modulo `count`.

    Parameters
    ----------
    chunks : sequence of Block or Rows
        All of one kind.
    count : int
        Folds, 2 or more.

    Yields
    ------
    (list of Block or Rows, list of Block or Rows)
        In the order of the rows.
    """
    rows = np.arange(sum(map(len, chunks)))
    for fold in range(count):
        held = rows % count == fold
        yield taken(chunks, rows[~held]), taken(chunks, rows[held])


def taken(chunks: Sequence[Chunk], order: NDArray[np.int64], *, chunk_rows: int = CHUNK_ROWS) -> list[Chunk]:
    """Return rows in an order, in chunks.

    Parameters
    ----------
    chunks : sequence of Block or Rows
        All of one kind.
    order : ndarray of int (m,)
        Numbers of the rows, from 0.
    chunk_rows : int, default=8192
        Rows in a chunk.

    Returns
    -------
    list of Block or Rows
    """
    if not chunks or not order.size:
        return []
    if isinstance(chunks[0], Block):
        whole = joined([chunk for chunk in chunks if isinstance(chunk, Block)]).take(order.astype(np.int64))
        return [whole.rows(a, min(a + chunk_rows, len(whole))) for a in range(0, len(whole), chunk_rows)]
    tables = [chunk for chunk in chunks if isinstance(chunk, Rows)]
    features = together([table.features for table in tables])
    y = np.concatenate([table.y for table in tables])
    weights = np.concatenate([table.weights for table in tables])
    lines = np.concatenate([table.lines for table in tables])
    return [
        Rows(
            features.take(part.tolist()) if isinstance(features, NumberRows) else [features[i] for i in part],
            y[part],
            weights[part],
            lines[part],
        )
        for part in (order[a : a + chunk_rows] for a in range(0, len(order), chunk_rows))
    ]


def progressive(
    model: RankingClassifier,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    test: tuple[Any, Any] | Iterable[Any] | None = None,
    window: int | None = None,
    shuffle: int | None = None,
) -> Progress:
    """Score each row, then learn it, in order.

    A pipeline with a feature map scores 0 until its warm-up is full; at the end of the data a map that still
    waits for rows is fitted on those it has.

    Parameters
    ----------
    model : learner or Pipeline
        Learns in place.
    X : ndarray (n, d), scipy sparse (n, d), data frame (n, d), or iterable
        An iterable gives (x, y) pairs of dict and label (as River's data sets do), or chunks of
        `aucstream.io.read`.
    y : array (n,), optional
        Labels, where X is an array or a data frame.
    sample_weight : array (n,), optional
        Weights, where X is an array or a data frame.
    test : (X, y) or iterable, optional
        Held-out rows, scored after the last one.
    window : int, optional
        Rows that each point of the AUC curve looks back on; None: all rows so far.
    shuffle : int, optional
        Seed of a random order; all rows are then held in memory.

    Returns
    -------
    Progress

    Raises
    ------
    InvalidParams
        `model` is not one of aucstream.
    InvalidBlock, InvalidLabel
        A row or a label cannot be used.

    Examples
    --------
    >>> from river import datasets
    >>> from aucstream import AutoScale, PSAM, Pipeline, evaluate
    >>> result = evaluate.progressive(Pipeline(AutoScale(), PSAM()), datasets.Phishing())
    >>> result.auc > 0.9
    True
    """
    if not isinstance(model, RankingClassifier):
        raise InvalidParams("progressive.model", "a learner or a Pipeline of aucstream", type(model).__name__)
    comparison = Comparison([model], window=window)
    chunks: Iterable[Chunk] = _chunks(X, y, sample_weight)
    if shuffle is not None:
        chunks = shuffled(chunks, shuffle)
    for chunk in chunks:
        comparison.learn(chunk)
    comparison.end_pass()
    if test is not None:
        comparison.test(_chunks(*test) if isinstance(test, tuple) else _chunks(test))
    return comparison.runs[0]


def _chunks(X: Any, y: Any = None, sample_weight: Any = None) -> Iterator[Chunk]:
    if y is not None:
        n = row_count(X)
        weights = weights_of(sample_weight, n)
        if is_table(X):
            table, signs, lines = table_of(X), signs_of(y, n), np.arange(n)
            features: Any = table if isinstance(table, SparseTable) else table.rows
            for a in range(0, n, CHUNK_ROWS):
                part = slice(a, min(a + CHUNK_ROWS, n))
                yield Rows(features[part], signs[part], weights[part], lines[part])
            return
        block = array_block(Vocabulary(), X, signs_of(y, n), weights, learn=True)
        keep = np.flatnonzero(weights > 0)
        if keep.size < n:
            block = block.take(keep.astype(np.int64))
        for a in range(0, len(block), CHUNK_ROWS):
            yield block.rows(a, min(a + CHUNK_ROWS, len(block)))
        return
    rows = iter(X)
    for first in rows:
        if isinstance(first, (Block, Rows)):
            yield first
            yield from rows
            return
        pairs = [first, *itertools.islice(rows, CHUNK_ROWS - 1)]
        for number, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InvalidBlock(
                    "progressive", "pairs (x, y), or chunks of aucstream.io.read", pair, path=f"[{number}]"
                )
        yield Rows(
            [x for x, _ in pairs],
            signs_of([label for _, label in pairs], len(pairs)),
            np.ones(len(pairs)),
            np.arange(len(pairs)),
        )
