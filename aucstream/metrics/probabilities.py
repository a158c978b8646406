"""What `predict_proba_one` returns: probabilities that still know the score they came from."""

from __future__ import annotations

from typing import Any


class ScoredProbabilities(dict[bool, float]):
    """`{False: 1 - p, True: p}` with the ranking score beside it.

    A probability near 0 or 1 rounds many scores to one number; metrics that rank use `score`.

    Parameters
    ----------
    p : float
        Probability of the positive class.
    score : float
        The ranking score, higher is more positive.

    Examples
    --------
    >>> probabilities = ScoredProbabilities(0.75, score=2.5)
    >>> probabilities, probabilities.score
    ({False: 0.25, True: 0.75}, 2.5)
    """

    __slots__ = ("score",)

    score: float

    def __init__(self, p: float, score: float) -> None:
        self[False] = 1.0 - p
        self[True] = p
        self.score = score

    def copy(self) -> ScoredProbabilities:
        """Return a copy that carries the score too.

        Returns
        -------
        ScoredProbabilities
        """
        return _rebuild(dict(self), self.score)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> ScoredProbabilities:
        return self.copy()

    def __reduce__(self) -> tuple[Any, tuple[dict[bool, float], float]]:
        return (_rebuild, (dict(self), self.score))


class Blank(ScoredProbabilities):
    """Made without arguments, to be filled in: no Python code runs, which half of the price is."""

    __slots__ = ()
    __init__ = dict.__init__


def _rebuild(items: dict[bool, float], score: float) -> ScoredProbabilities:
    new = ScoredProbabilities.__new__(ScoredProbabilities)
    new.update(items)
    new.score = score
    return new
