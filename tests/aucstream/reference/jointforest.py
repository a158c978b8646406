"""JointForest: trees, a linear model and random Fourier features, learned jointly at several rates.

The specification is this file: a row at a time, trees of objects, columns by name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from .example_weights import ClassWeights
from .randomness import MASK64, Generator, mix

RATES = np.array([1.0, 4.0, 16.0])
WINDOW, CLIP, WARMUP, PLACES, SHARE = 1000, 5.0, 32, 300, 0.25
CANDIDATES, CHECK, SLACK, MIN, DEEPEST = 8, 16, 4.0, 3, 60
GAMMA = 0x9E3779B97F4A7C15


def sigma(z: float) -> float:
    """Return the logistic function."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


def clip(u: float) -> float:
    """Return u within -5..5."""
    return min(max(u, -CLIP), CLIP)


def evidence(a: float, b: float) -> float:
    """Return the log evidence of counts under Beta(1/2, 1/2)."""
    return math.lgamma(a + 0.5) + math.lgamma(b + 0.5) - math.lgamma(a + b + 1.0) - math.log(math.pi)


def first_largest(values: list[float]) -> int:
    """Return where the largest value is, the first of those that differ by less than 1e-9."""
    best = 0
    for k, value in enumerate(values):
        if value > values[best] + 1e-9:
            best = k
    return best


def rounded(u: float) -> float:
    """Return a standardised value as it is buffered: in steps of 2^-28."""
    return math.floor(u * 2.0**28 + 0.5) / 2.0**28


class Column:
    """What is known of a column that has had a value other than 0."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.squares = self.count = 0.0  # decayed, of its non-zeros
        self.centred = False
        self.mean = self.variance = 0.0
        self.frequencies = np.zeros(0)
        self.weights, self.squared = np.zeros(3), np.zeros(3)

    def standard(self, value: float) -> float:
        """Return a value as the standardised trees and the linear block see it."""
        if self.centred:
            known = self.variance > 1e-26 * self.mean**2
            return clip((value - self.mean) / math.sqrt(self.variance)) if known else 0.0
        return clip(value / math.sqrt(self.squares / self.count)) if self.squares > 0.0 else 0.0


class Candidate:
    """A split that a leaf may make."""

    def __init__(self, column: int, threshold: float) -> None:
        self.column, self.threshold = column, threshold
        self.counts = np.zeros((2, 2))  # side, class

    def gain(self) -> float:
        """Return how much more evident the two sides are than the leaf."""
        left, right = self.counts
        if not left.sum() or not right.sum():
            return -1e9
        return evidence(*left) + evidence(*right) - evidence(*(left + right))


class Node:
    """A node; without children it is a leaf."""

    def __init__(self, start: float = 0.0) -> None:
        self.weights, self.squared = np.full(3, start), np.zeros(3)
        self.children: list[Node] = []
        self.column, self.threshold = -1, 0.0
        self.visit = 0
        self.empty()

    def empty(self) -> None:
        """Become a leaf without candidates and counts."""
        self.candidates: list[Candidate] = []
        self.drawn = self.rows = 0
        self.last = [-1, -1]
        self.mass, self.seen = np.zeros(2), np.zeros(2)

    def inner(self) -> Iterator[Node]:
        """Yield the inner nodes of its subtree."""
        if self.children:
            yield self
            for child in self.children:
                yield from child.inner()

    def shape(self) -> Any:
        """Return columns and thresholds of its subtree."""
        return [self.column, self.threshold, *(child.shape() for child in self.children)] if self.children else None


class JointForest:
    """See the equations in the learner's docstring."""

    def __init__(
        self,
        trees: int = 30,
        nodes: int = 1001,
        capacity: int = 64,
        form: str = "auto",
        eta: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.most, self.capacity, self.asked, self.eta = nodes, capacity, form, eta
        self.rng = Generator(seed)
        self.weighting = ClassWeights()
        self.trees = [Node() for _ in range(trees)]
        self.columns: dict[int, Column] = {}
        self.histories: dict[int, int] = {}
        self.form = "sparse" if form == "sparse" else "provisional"
        self.rows = 0
        self.class_rows = [0, 0]
        self.class_mass = np.zeros(2)
        self.base = self.norms = 0.0
        self.non_zeros = 0
        self.ring: list[list[dict[int, tuple[float, float]]]] = [[], []]
        self.linear = np.zeros((2, 3))  # the intercept's weights and squares
        self.features = 0
        self.phases = np.zeros(0)
        self.waves = np.zeros((0, 2, 3))  # and the intercept
        self.theta, self.cov = np.zeros(10), 0.001 * np.eye(10)
        self.prior()

    def prior(self) -> None:
        """Set the prior of the mixture, all but the constant's."""
        constant, variance = self.theta[9], self.cov[9, 9]
        self.theta, self.cov = np.zeros(10), 0.001 * np.eye(10)
        self.theta[9], self.cov[9, 9] = constant, variance
        if self.form == "sparse":
            self.theta[0] = self.theta[4] = 0.5
        else:
            self.theta[[0, 3, 6]] = 1.0 / 3.0

    # -- a row ---------------------------------------------------------------------------------------

    def standard_row(self, x: dict[int, float]) -> dict[int, float]:
        """Return the standardised values that are not 0."""
        columns = [c for c in self.columns.values() if c.centred or c.number in x]
        row = {c.number: c.standard(x.get(c.number, 0.0)) for c in columns}
        return {j: u for j, u in row.items() if u != 0.0}

    def path(self, t: int, x: dict[int, float], xs: dict[int, float]) -> list[Node]:
        """Return the nodes of a tree that a row visits."""
        row = x if t < len(self.trees) // 2 else xs
        nodes = [self.trees[t]]
        while nodes[-1].children:
            node = nodes[-1]
            nodes.append(node.children[0 if row.get(node.column, 0.0) <= node.threshold else 1])
        return nodes

    def factor(self, square: float) -> float:
        """Return what the linear block multiplies a standardised row by."""
        if self.form != "sparse" or square == 0.0:
            return 1.0
        return math.sqrt((square + self.norms) / (1.0 + self.rows) / square)

    def phi(self, xs: dict[int, float]) -> np.ndarray:
        """Return the Fourier features of a standardised row, then 1."""
        centred = [c for c in self.columns.values() if c.centred]
        scale = math.sqrt((len(centred) + self.norms) / (1.0 + self.rows))
        z = sum((c.frequencies * (xs.get(c.number, 0.0) / scale) for c in centred), np.zeros(self.features))
        return np.append(math.sqrt(2.0) * np.cos(z + self.phases), 1.0)

    def sums(self, x: dict[int, float], xs: dict[int, float]) -> np.ndarray:
        """Return the sums of all blocks and rates, and 1."""
        f = np.zeros(10)
        for t in range(len(self.trees)):
            for node in self.path(t, x, xs):
                f[:3] += node.weights
        factor = self.factor(sum(u * u for u in xs.values()))
        f[3:6] = self.linear[0]
        for j, u in xs.items():
            f[3:6] += self.columns[j].weights * u * factor
        if self.features:
            f[6:9] = self.phi(xs) @ self.waves[:, 0]
        f = np.clip(f, -15.0, 15.0)
        f[9] = 1.0
        return f

    def score(self, row: np.ndarray) -> float:
        """Return the score of a row."""
        x = {j: float(v) for j, v in enumerate(row) if v != 0.0}
        return float(self.theta @ self.sums(x, self.standard_row(x)))

    def learn(self, row: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Learn a row; return its score before."""
        if weight == 0.0:
            return self.score(row)
        x = {j: float(v) for j, v in enumerate(row) if v != 0.0}
        xs = self.standard_row(x)
        label = int(y > 0)
        f = self.sums(x, xs)
        score = float(self.theta @ f)
        self.weighting.add(y, weight)
        w = self.weighting.by_mean(y, weight)
        paths = [self.path(t, x, xs) for t in range(len(self.trees))]
        share = (self.class_mass[1] + 0.5) / (self.class_mass.sum() + 1.0)
        slopes = np.array([w * (sigma(z + self.base) - label) for z in f[:9]])
        self.step_weights(paths, xs, slopes)
        self.step_theta(f, w, label, sigma(score + self.base), share)
        self.class_mass[label] += w
        if min(self.class_rows) < 30:
            self.base = math.log((self.class_mass[1] + 0.5) / (self.class_mass[0] + 0.5))
        self.rows += 1
        for j, value in x.items():
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            z = bits ^ (self.histories.get(j, 0) << 11 & MASK64) ^ (self.rows * GAMMA & MASK64)
            self.histories[j] = mix(z) >> 12 | 1
        for t, path in enumerate(paths):
            self.grow(t, path, x, xs, label, w)
        buffered = {j: (value, rounded(xs.get(j, 0.0))) for j, value in x.items()}
        ring = self.ring[label]
        if len(ring) < self.capacity:
            ring.append(buffered)
        else:
            ring[self.class_rows[label] % self.capacity] = buffered
        self.class_rows[label] += 1
        self.norms += sum(u * u for u in xs.values())
        self.count(x)
        return score

    # -- weights -------------------------------------------------------------------------------------

    def step_weights(self, paths: list[list[Node]], xs: dict[int, float], slopes: np.ndarray) -> None:
        """Take the AdaGrad steps of all blocks."""

        def step(weights: np.ndarray, squared: np.ndarray, g: np.ndarray, size: float) -> None:
            squared += g * g
            weights -= self.eta * RATES * size * g / np.sqrt(1.0 + squared)

        visited = sum(map(len, paths))
        square = sum(u * u for u in xs.values())
        factor = self.factor(square)
        phi = self.phi(xs) if self.features else np.zeros(0)
        for path in paths:
            for node in path:
                step(node.weights, node.squared, slopes[:3], 1.0 / visited)
        size = 1.0 / (1.0 + square * factor**2)
        step(self.linear[0], self.linear[1], slopes[3:6], size)
        for j, u in xs.items():
            step(self.columns[j].weights, self.columns[j].squared, slopes[3:6] * u * factor, size)
        for k, value in enumerate(phi):
            step(self.waves[k, 0], self.waves[k, 1], slopes[6:] * value, 4.0 / self.features)

    def step_theta(self, f: np.ndarray, w: float, label: int, p: float, share: float) -> None:
        """Take the extended Kalman step of the mixture."""
        keep = 1.0 - 0.01 * 4.0 * share * (1.0 - share)
        if np.trace(self.cov) < 0.01 * 10 * keep:
            self.cov = self.cov / keep
        along = self.cov @ f
        h = w * max(p * (1.0 - p), 1e-4)
        gain = 1.0 / (1.0 + h * float(f @ along))
        self.theta = self.theta + along * w * (label - p) * gain
        self.cov = self.cov - h * gain * np.outer(along, along)

    # -- trees ---------------------------------------------------------------------------------------

    def grow(self, t: int, path: list[Node], x: dict[int, float], xs: dict[int, float], label: int, w: float) -> None:
        """Count a row at its leaf, draw a candidate, split the leaf or drop its worst candidates."""
        leaf, raw, other = path[-1], t < len(self.trees) // 2, 1 - label
        row = x if raw else xs
        for candidate in leaf.candidates:
            candidate.counts[0 if row.get(candidate.column, 0.0) <= candidate.threshold else 1, label] += w
        leaf.rows += 1
        leaf.mass[label] += w
        leaf.seen[label] += 1
        if len(leaf.candidates) < CANDIDATES and self.class_rows[other] and len(path) <= DEEPEST:
            self.draw(leaf, raw, x, row, other)
        leaf.last[label] = self.class_rows[label]
        leaf.visit = self.rows
        if leaf.rows % CHECK == 0 and len(leaf.candidates) > 1 and min(leaf.seen) >= MIN:
            gains = [candidate.gain() for candidate in leaf.candidates]
            best = first_largest(gains)
            if gains[best] > -1e9 and gains[best] > math.log(leaf.drawn) - SLACK:
                self.split(t, leaf, leaf.candidates[best])
            elif len(leaf.candidates) == CANDIDATES:
                for _ in range(CANDIDATES // 4):
                    worst = first_largest([-gain for gain in gains])
                    leaf.candidates[worst], gains[worst] = leaf.candidates[-1], gains[-1]
                    leaf.candidates.pop()
                    gains.pop()

    def draw(self, leaf: Node, raw: bool, x: dict[int, float], row: dict[int, float], other: int) -> None:
        """Draw a candidate from the row and a buffered row of the other class."""
        rows = self.class_rows[other]
        last = leaf.last[other]
        if last < 0 or rows - last > self.capacity:
            last = rows - 1 - self.rng.below(min(rows, self.capacity))
        partner = self.ring[other][last % self.capacity]
        word, part = self.rng.next(), self.rng.uniform()
        differing = [j for j in {*x, *partner} if x.get(j, 0.0) != partner.get(j, (0.0, 0.0))[0]]
        if not differing:
            return
        j = max(differing, key=lambda j: (mix(self.histories[j] ^ word), -j))
        here = row.get(j, 0.0)
        if raw:
            there = partner.get(j, (0.0, 0.0))[0]
        else:
            there = partner[j][1] if j in partner else self.columns[j].standard(0.0) if j in self.columns else 0.0
        low, high = min(here, there), max(here, there)
        threshold = low + part * (high - low)
        leaf.candidates.append(Candidate(j, low if threshold >= high else threshold))
        leaf.drawn += 1

    def split(self, t: int, leaf: Node, candidate: Candidate) -> None:
        """Give a leaf two children; in a full tree the pair of leaves not visited for longest goes."""
        inner = list(self.trees[t].inner())
        if 2 * len(inner) + 3 > self.most:
            pairs = [node for node in inner if not any(child.children for child in node.children)]
            pairs = [node for node in pairs if max(child.visit for child in node.children) < self.rows]
            if not pairs:
                return
            oldest = min(pairs, key=lambda node: max(child.visit for child in node.children))
            oldest.visit = max(child.visit for child in oldest.children)
            oldest.children = []
            oldest.empty()
        counts = candidate.counts
        before = math.log((counts[:, 1].sum() + 1.0) / (counts[:, 0].sum() + 1.0))
        leaf.column, leaf.threshold = candidate.column, candidate.threshold
        for side in range(2):
            start = math.log((counts[side, 1] + 0.5) / (counts[side, 0] + 0.5)) - before
            child = Node(start / len(self.trees))
            child.mass = counts[side].copy()
            child.seen = np.minimum(counts[side], MIN)
            child.visit = self.rows
            leaf.children.append(child)

    # -- columns -------------------------------------------------------------------------------------

    def count(self, x: dict[int, float]) -> None:
        """Take a row into the statistics of the columns; decide the form."""
        fresh = []
        places = sum(c.centred for c in self.columns.values())
        for column in self.columns.values():
            column.squares *= 1.0 - 1.0 / WINDOW
            column.count *= 1.0 - 1.0 / WINDOW
        for j, value in x.items():
            if j not in self.columns:
                column = self.columns[j] = Column(j)
                if self.form != "sparse" and places < PLACES:
                    column.centred = True
                    places += 1
                    fresh.append(column)
            column = self.columns[j]
            column.squares += value * value
            column.count += 1.0
        self.non_zeros += len(x)
        rate = max(1.0 / self.rows, 1.0 / WINDOW)
        for column in self.columns.values():
            if column.centred:
                step = x.get(column.number, 0.0) - column.mean
                column.mean += rate * step
                column.variance = (1.0 - rate) * (column.variance + rate * step * step)
        if self.features:
            self.begin_columns(fresh)
        elif self.form == "provisional":
            scarce = self.rows == WARMUP and self.non_zeros < SHARE * WARMUP * len(self.columns)
            if self.asked == "auto" and (len(self.columns) > PLACES or scarce):
                self.become_sparse()
            elif self.rows == WARMUP:
                self.begin_fourier()

    def begin_fourier(self) -> None:
        """Fix the number of Fourier features and draw them."""
        self.form = "dense"
        columns = [c for c in self.columns.values() if c.centred]
        self.features = max(32, min(128, 25_600 // max(1, len(columns))))
        self.salt = self.rng.next() >> 12
        draws = Generator()
        draws.state = mix(self.salt)
        self.phases = np.array([2.0 * math.pi * draws.uniform() for _ in range(self.features)])
        self.waves = np.zeros((self.features + 1, 2, 3))
        self.keys: set[int] = set()
        self.begin_columns(columns)
        self.cov[6:9] = self.cov[:, 6:9] = 0.0
        self.cov[[6, 7, 8], [6, 7, 8]] = 0.001

    def begin_columns(self, columns: list[Column]) -> None:
        """Draw the frequencies of centred columns."""
        for column in columns:
            key = self.histories[column.number]
            while key in self.keys:
                key += 1
            self.keys.add(key)
            draws = Generator()
            draws.state = mix(key ^ mix(self.salt))
            column.frequencies = np.array([draws.normal() for _ in range(self.features)])

    def become_sparse(self) -> None:
        """Go on without centring."""
        self.form = "sparse"
        for column in self.columns.values():
            if not column.centred:
                continue
            column.centred = False
            deviation = math.sqrt(column.variance)
            if deviation == 0.0:
                column.weights[:] = column.squared[:] = 0.0
                continue
            ratio = math.sqrt(column.squares / column.count) / deviation
            self.linear[0] -= column.weights * column.mean / deviation
            column.weights *= ratio
            column.squared /= ratio**2
        for ring in self.ring:
            for row in ring:
                for j, (value, _) in row.items():
                    row[j] = (value, rounded(self.columns[j].standard(value)))
        for t in range(len(self.trees) // 2, len(self.trees)):
            self.trees[t] = Node()
        self.norms = float(self.non_zeros)
        self.prior()
