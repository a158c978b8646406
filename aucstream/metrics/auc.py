"""The area under the ROC curve of a stream: over the last n rows exactly, or over all of it."""

from __future__ import annotations

from aucstream.metrics.area import Area
from aucstream.metrics.contract import RankingMetric


class AUC(Area, RankingMetric):
    """The probability that a positive is scored above a negative, ties one half.

    With `window=n`: exact over the last n rows, in integer arithmetic, so it never drifts.
    Without: over the whole stream in bounded memory; exact until a class has shown 32,768 distinct
    scores, then wrong by at most `error_bound`, which stays below 1e-4, on scores of any scale and
    in any order. Scores are ranked as they are; no thresholds, no assumption of probabilities.

    Parameters
    ----------
    window : int, optional
        Rows to look back on. None: the whole stream.

    Attributes
    ----------
    ready : bool
        Whether both classes are present; until then the AUC is NaN.
    examples, positives : int
        Rows, and positive rows, of the window or the stream.
    error_bound : float
        Certified bound of abs(get() - exact AUC); 0.0 for a window.

    Notes
    -----
    Window: update O(log n), read O(1), interval and curve O(n); 81 bytes a row of the window.
    Whole stream: update O(1) amortised; a read costs O(entries), about 1 ms. A class takes
    40 bytes an entry, 40,960 entries (3.3 MB for both classes) on ordinary streams; where the order
    of scores works against the summary more, about 10,000 a class at each doubling of the stream,
    never more than 270,336 a class (21.6 MB for both). Should a stream reach that (at the growth
    measured, not within 10^11 rows), memory is kept and `error_bound` rises instead.
    Rows are handed to compiled code together, 512 or 8,192 at a time, or when something is read; a
    read changes nothing in what follows. Weights do not enter the AUC: `w` is checked and ignored, which
    `works_with_weights` (False) says to River.

    Coverage of the 95 % interval, normal scores of two classes, 2,000 samples each:

    ====================  ========  =======  ========  =========
    positives, negatives  AUC 0.8   AUC 0.9  AUC 0.99  AUC 0.999
    ====================  ========  =======  ========  =========
    2, 2                  1.000     0.999    1.000     1.000
    5, 5                  0.934     0.998    1.000     1.000
    10, 10                0.895     0.877    1.000     1.000
    5, 100                0.840     0.771    0.887     1.000
    20, 20                0.922     0.881    0.883     1.000
    50, 50                0.938     0.929    0.830     1.000
    20, 2000              0.915     0.875    0.709     0.623
    200, 200              0.949     0.934    0.905     0.803
    ====================  ========  =======  ========  =========

    DeLong's interval is too narrow where a class has few rows or few pairs are ranked wrong.

    References
    ----------
    .. [1] D. Brzezinski, J. Stefanowski, "Prequential AUC: properties of the area under the ROC
       curve for data streams with concept drift", KAIS 2017.
    .. [2] M. Greenwald, S. Khanna, "Space-efficient online computation of quantile summaries",
       SIGMOD 2001.
    .. [3] E. DeLong, D. DeLong, D. Clarke-Pearson, "Comparing the areas under two or more
       correlated ROC curves", Biometrics 1988.

    Examples
    --------
    >>> metric = AUC(window=1000)
    >>> for label, score in [(1, 0.9), (0, 0.1), (0, 0.8), (1, 0.3)]:
    ...     metric.update(label, score)
    >>> metric
    AUC: 75.00%
    >>> metric.examples, metric.positives
    (4, 2)
    """

    def __init__(self, window: int | None = None) -> None:
        Area.__init__(self, window)
        RankingMetric.__init__(self)
