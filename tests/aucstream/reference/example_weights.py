"""What an example's weight multiplies a step by (ours).

om eta is a step only while it stays stable, and eta is chosen for weights about 1. So of heavy weights only the
ratios count. With n, W the rows and weights of the row's own class, the row included, n', W' those of the other, and
the excess e::

    by share:  e = W W' / ((W + W') min(n, n'))     (W/n while n' = 0)
    by mean:   e = max(W/n, W'/n')

    e <= 2:    om' = min(om, max(2, 2 max(1, W/n) / max(1, e)))
    e > 2:     om' = min(om, 2 max(1, W/n)) / e

The first is for slopes with the factor q = W'/(W + W') (of a positive; p of a negative): q om then has at most
the mean that it has with weights of 1 in the worse case, 1. Ratios between classes stay, since p, q and class
means have them too. Weights up to 2 are as they are.
"""

from __future__ import annotations


class ClassWeights:
    """Rows and weights by class."""

    def __init__(self) -> None:
        self.rows = {True: 0, False: 0}
        self.mass = {True: 0.0, False: 0.0}

    def add(self, y: float, weight: float) -> None:
        """Take one row."""
        self.rows[y > 0] += 1
        self.mass[y > 0] += weight

    def by_share(self, y: float, weight: float) -> float:
        """Return what a row's weight multiplies a step by whose slope has a share as a factor."""
        own, other = y > 0, y <= 0
        mean = self.mass[own] / self.rows[own]
        excess = mean
        if self.rows[other] > 0:
            total = self.mass[own] + self.mass[other]
            excess = self.mass[own] * self.mass[other] / total / min(self.rows.values())
        return self._counted(weight, mean, excess)

    def by_mean(self, y: float, weight: float) -> float:
        """Return what a row's weight multiplies a step by whose slope has none."""
        means = {label: self.mass[label] / n for label, n in self.rows.items() if n > 0}
        return self._counted(weight, means[y > 0], max(means.values()))

    def _counted(self, weight: float, mean: float, excess: float) -> float:
        most = 2.0 * max(1.0, mean)
        if excess <= 2.0:
            return min(weight, max(2.0, most / max(1.0, excess)))
        return min(weight, most) / excess
