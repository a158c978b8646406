"""JointForest: trees, a linear model and random Fourier features, learned jointly at several rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, Ints
from aucstream.constraints import Ge, Gt, Le, Size
from aucstream.errors import CannotMerge, Description
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.kernels.auc.calibration import sigmoid
from aucstream.kernels.forest.columns import (
    BASE,
    COLUMN,
    COLUMNS,
    DENSE,
    FEATURES,
    FORM,
    LARGEST_TREE,
    LEAST_SHARE,
    MEAN,
    MOST_CENTRED,
    NEGATIVES,
    NONZEROS,
    NORMS,
    PLACES,
    POSITIVES,
    PROVISIONAL,
    SALT,
    SCALARS,
    SCALE,
    SPARSE,
    VARIANCE,
    WARMUP,
    count_values,
    lengthen_histories,
    scaled,
    set_key,
    spread_row,
    wipe_row,
)
from aucstream.kernels.forest.fourier import MANY, draw_all, draw_place, features_for, fourier_row
from aucstream.kernels.forest.leaving import ONE_SIDED, leave_forest
from aucstream.kernels.forest.mixture import BLOCKS, PRIOR_VARIANCE, RATES, SUMS, set_prior, step_mixture
from aucstream.kernels.forest.trees import (
    CANDIDATE,
    CANDIDATES,
    CHECK,
    COUNT,
    DEEPEST,
    HELD,
    LAST,
    LEAF,
    MASS,
    MIN,
    NODE,
    PATH,
    ROWS,
    VISIT,
    code_of,
    column_of,
    descend_all,
    new_candidate,
    restart_tree,
    room_of,
    test_leaf,
    visit_pair,
)
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import POSITIVES as LEARNED_POSITIVES
from aucstream.kernels.ledger import ROWS as LEARNED
from aucstream.kernels.pairs.buffers import LENGTH, ROOM, START, compact, extent
from aucstream.kernels.random import next_word
from aucstream.kernels.rows.arrival import LONGEST_ROW, count_example
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.rows.linear import norm
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner, learner, shares_of
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Table, Vector
from aucstream.native.row_entry import RowArguments, ScaledRow

LARGEST_WEIGHT = 1e140  # its square must stay finite
LONGEST_SUM = 15.0  # a block's log odds, either way
SETTLED = 30.0  # rows of the rarer class after which the base stays
FOURIER_RATE = 4.0  # the Fourier block's rates are this times those of the others
CENTRED_FORM, SPARSE_FORM, EITHER_FORM = 1, 2, 0  # the parameter `form`
FIRST_ROOM = 15  # nodes that a tree has room for at first
ROWS_AHEAD = 16  # rows for which room is made at once, two nodes each

# columns of State.fourier: the features' weights, then the intercepts of the Fourier and of the linear block
FOURIER_INTERCEPT, LINEAR_INTERCEPT = MANY, MANY + 1
# layout of State.work: the sums, the covariance times them, slopes of each block and rate, gains, Fourier features
ALONG, SLOPES, GAINS, WAVES = 16, 32, 48, 64  # behind them a number for each node on a path


@jit
def rate_of(q):
    """Return the q-th learning rate."""
    return 1.0 if q == 0 else 4.0 if q == 1 else 16.0


@jit
def sums_of_row(
    squares, counts, place, linear, centred, fourier, mixture, scalars, links, thresholds, nodes, dense, active, path, frequencies,
    work, rows, idx, x, trees,
):  # fmt: skip
    """Write the sums of a row to `work`; return (score, active columns, squared norm, factor of the linear block).

    The row stays in `dense`: see `wipe_row`. Writes dense, active, path, work.
    """
    n, square = spread_row(squares, counts, place, centred, scalars, dense, active, idx, x)
    d = squares.size
    for a in range(SUMS):
        work[a] = 0.0
    for q in range(RATES):
        work[RATES + q] = fourier[q, LINEAR_INTERCEPT]
    factor = 1.0
    mean = (square + scalars[NORMS]) / (1.0 + rows)
    if scalars[FORM] == SPARSE and square > 0.0:
        factor = math.sqrt(mean / square)
    a, b, c = work[RATES], work[RATES + 1], work[RATES + 2]
    for i in range(n):
        j = active[i]
        u = dense[d + j] * factor
        a += linear[j, 0] * u
        b += linear[j, 1] * u
        c += linear[j, 2] * u
    work[RATES], work[RATES + 1], work[RATES + 2] = a, b, c
    room = room_of(links, trees)
    descend_all(links, thresholds, room, trees, d, dense, path)
    a = b = c = 0.0
    for t in range(trees):
        for k in range(t * PATH, t * PATH + path[trees * PATH + t]):
            at = path[k] * NODE
            a += nodes[at]
            b += nodes[at + 1]
            c += nodes[at + 2]
    work[0], work[1], work[2] = a, b, c
    features = np.int64(scalars[FEATURES])
    if features > 0:
        spread = scalars[PLACES] + scalars[NORMS]  # 0 where no row had a column
        inverse = 1.0 / math.sqrt(spread / (1.0 + rows)) if spread > 0.0 else 0.0
        waves = work[WAVES:]
        fourier_row(frequencies, features, place, dense, active, n, inverse, waves)
        a, b, c = fourier[0, FOURIER_INTERCEPT], fourier[1, FOURIER_INTERCEPT], fourier[2, FOURIER_INTERCEPT]
        for k in range(features):
            a += fourier[0, k] * waves[k]
            b += fourier[1, k] * waves[k]
            c += fourier[2, k] * waves[k]
        work[2 * RATES], work[2 * RATES + 1], work[2 * RATES + 2] = a, b, c
    score = mixture[0, SUMS - 1]
    work[SUMS - 1] = 1.0
    for a in range(SUMS - 1):
        work[a] = min(max(work[a], -LONGEST_SUM), LONGEST_SUM)
        score += mixture[0, a] * work[a]
    return score, n, square, factor


@jit
def step_weights(weights, squares, features, slope, size):
    """Take an AdaGrad step of size `size` on the weights of `features`, all arrays (n,); writes weights, squares."""
    for k in range(features.size):
        e = slope * features[k]
        square = squares[k] + e * e
        squares[k] = square
        weights[k] -= np.divide(size * e, math.sqrt(1.0 + square))  # `/` could raise: then it is one at a time


@jit
def step_one(table, row, column, to, slope, size):
    """Take the step of one weight, whose sum of squares is `to` rows and columns further."""
    square = table[row + to[0], column + to[1]] + slope * slope
    table[row + to[0], column + to[1]] = square
    table[row, column] -= size * slope / math.sqrt(1.0 + square)


@jit
def step_nodes(nodes, path, work, trees, eta):
    """Step the weights of all nodes on the paths; writes nodes, path, work."""
    flat, steps = trees * (PATH + 1), work[WAVES + MANY :]
    a, b, c = work[SLOPES], work[SLOPES + 1], work[SLOPES + 2]
    a2, b2, c2 = a * a, b * b, c * c
    most = trees * PATH
    m = 0
    for t in range(trees):
        for k in range(t * PATH, t * PATH + path[trees * PATH + t]):
            at = path[k] * NODE
            path[flat + m] = at
            square_a, square_b, square_c = nodes[at + 3] + a2, nodes[at + 4] + b2, nodes[at + 5] + c2
            nodes[at + 3], nodes[at + 4], nodes[at + 5] = square_a, square_b, square_c
            steps[m], steps[most + m], steps[2 * most + m] = square_a, square_b, square_c
            m += 1
    for q in range(RATES):  # apart from the nodes, so that it is done for several at once
        size = eta * rate_of(q) / m * work[SLOPES + q]
        own = steps[q * most : q * most + m]
        for i in range(m):
            own[i] = np.divide(size, math.sqrt(1.0 + own[i]))
    for i in range(m):
        at = path[flat + i]
        nodes[at] -= steps[i]
        nodes[at + 1] -= steps[most + i]
        nodes[at + 2] -= steps[2 * most + i]


@jit
def step_blocks(linear, fourier, scalars, nodes, dense, active, path, work, n, square, factor, trees, eta):
    """Step the weights of all blocks, each by its own slopes; writes linear, fourier, nodes."""
    d = active.size
    step_nodes(nodes, path, work, trees, eta)
    length = 1.0 + square * factor * factor
    for q in range(RATES):
        step_one(fourier, q, LINEAR_INTERCEPT, (RATES, 0), work[SLOPES + RATES + q], eta * rate_of(q) / length)
    for i in range(n):
        j = active[i]
        for q in range(RATES):
            slope = work[SLOPES + RATES + q] * dense[d + j] * factor
            step_one(linear, j, q, (0, RATES), slope, eta * rate_of(q) / length)
    features = np.int64(scalars[FEATURES])
    if features > 0:
        for q in range(RATES):
            size = FOURIER_RATE * eta * rate_of(q) / features
            slope = work[SLOPES + 2 * RATES + q]
            step_one(fourier, q, FOURIER_INTERCEPT, (RATES, 0), slope, size)
            step_weights(fourier[q], fourier[RATES + q], work[WAVES : WAVES + features], slope, size)


@jit
def grow_trees(
    history, squares, counts, place, centred, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates, slots, pool_idx, pool_val,
    generator, dense, path, work, idx, x, label, w, own, others, now, trees, most, capacity,
):  # fmt: skip
    """Count a row at its leaves, draw candidates there, and split what is due; writes the trees, generator.

    `own`, `others` : rows of its class and of the other one so far.
    """
    d = history.size
    other = 1 - label
    room = room_of(links, trees)
    gains = work[GAINS:]
    largest = 0.0
    for t in range(trees):
        raw = t < trees // 2
        start = 0 if raw else d
        length = path[trees * PATH + t]
        node = path[t * PATH + length - 1]
        leaf = t * ((room + 1) // 2) + np.int64(links[2 * node + 1])
        at = leaf * LEAF
        for k in range(np.int64(leaves[at + HELD])):
            i = (leaf * CANDIDATES + k) * CANDIDATE
            side = 0 if dense[start + np.int64(candidates[i])] <= candidates[i + 1] else 2
            candidates[i + 2 + side + label] += w
        leaves[at + ROWS] += 1.0
        leaves[at + MASS + label] += w
        leaves[at + COUNT + label] += 1.0
        if leaves[at + HELD] < CANDIDATES and others > 0 and length <= DEEPEST:
            new_candidate(
                history, squares, counts, place, centred, scalars, leaves, candidates, slots, pool_idx, pool_val,
                generator, dense, idx, x, leaf, raw, other, others, capacity,
            )  # fmt: skip
        leaves[at + LAST + label] = own + 1.0
        leaves[at + VISIT] = now
        visit_pair(ages, room, t, node, now)
        if (
            np.int64(leaves[at + ROWS]) % CHECK == 0
            and leaves[at + HELD] > 1.0
            and leaves[at + COUNT] >= MIN
            and leaves[at + COUNT + 1] >= MIN
        ):
            test_leaf(
                used,
                links,
                thresholds,
                nodes,
                ages,
                parents,
                leaves,
                candidates,
                trees,
                most,
                t,
                node,
                leaf,
                now,
                gains,
            )
        largest = max(largest, used[t])
    scalars[LARGEST_TREE] = largest


@jit
def buffer_row(slots, pool_idx, pool_val, dense, slot, idx, x):
    """Put the non-zero values of a row into a slot, with the standardised ones; writes slots, pool_idx, pool_val."""
    d = dense.size // 3
    n = 0
    for k in range(x.size):
        n += x[k] != 0.0
    last = slots.shape[0] - 1
    if slots[slot, ROOM] < n:
        slots[slot, LENGTH] = 0
        slots[slot, ROOM] = 0
        end = slots[last, START]
        if end + n > pool_val.size:
            end = compact(slots, pool_idx, pool_val)
        slots[slot, START] = end
        slots[slot, ROOM] = n
        slots[last, START] = end + n
    slots[slot, LENGTH] = n
    at = slots[slot, START]
    for k in range(x.size):
        if x[k] != 0.0:
            j = k if idx is None else idx[k]
            pool_idx[at] = code_of(j, dense[d + j])
            pool_val[at] = x[k]
            at += 1


@jit
def become_sparse(
    squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates, slots,
    pool_idx, pool_val, trees,
):  # fmt: skip
    """Go on without centring: linear weights follow, the standardised trees start anew, so does the mixture."""
    for k in range(np.int64(scalars[PLACES])):
        j = np.int64(centred[COLUMN, k])
        mean, deviation = centred[MEAN, k], math.sqrt(centred[VARIANCE, k])
        place[j] = -1.0
        ratio = 0.0
        if deviation > 0.0:
            ratio = math.sqrt(squares[j] / counts[j]) / deviation
            for q in range(RATES):
                fourier[q, LINEAR_INTERCEPT] -= linear[j, q] * mean / deviation
        for q in range(RATES):
            linear[j, q] *= ratio
            linear[j, RATES + q] = linear[j, RATES + q] / (ratio * ratio) if ratio > 0.0 else 0.0
    for k in range(slots.shape[0] - 1):
        start, stop = extent(slots, k)
        for i in range(start, stop):
            j = column_of(pool_idx[i])
            pool_idx[i] = code_of(j, scaled(pool_val[i], squares[j], counts[j]))
    for t in range(trees // 2, trees):
        restart_tree(used, links, thresholds, nodes, ages, parents, leaves, candidates, trees, t)
    scalars[FORM] = SPARSE
    scalars[PLACES] = 0.0
    scalars[NORMS] = scalars[NONZEROS]
    set_sparse_prior(mixture)


@jit
def set_sparse_prior(mixture):
    """Set the mixture's prior of sparse rows."""
    set_prior(mixture, 0, 0, 0.5)
    set_prior(mixture, 1, 1, 0.5)
    set_prior(mixture, 2, 0, 0.0)


@jit
def begin_fourier(history, centred, mixture, scalars, generator):
    """Fix the number of Fourier features, and what their draws depend on; writes centred, mixture, scalars, generator."""
    scalars[FEATURES] = features_for(np.int64(scalars[PLACES]))
    scalars[SALT] = np.float64(next_word(generator) >> np.uint64(12))
    for k in range(np.int64(scalars[PLACES])):
        set_key(history, centred, k)
    set_prior(mixture, 2, 0, mixture[0, 2 * RATES])


@jit
def has_place(scalars, links, frequencies, trees, most):
    """Return whether the trees have room for what one row can add, and the frequencies in use are drawn."""
    room = room_of(links, trees)
    if scalars[LARGEST_TREE] + 2.0 > room and room < most:
        return False
    return scalars[FEATURES] == 0.0 or frequencies.size > 0


@jit
def has_room(
    history, squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates,
    slots, pool_idx, pool_val, generator, dense, active, path, frequencies, work, word, ledger,
    trees, most, capacity, form, eta,
):  # fmt: skip
    """`has_place` of the whole state."""
    return has_place(scalars, links, frequencies, trees, most)


@jit
def step(
    history, squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates,
    slots, pool_idx, pool_val, generator, dense, active, path, frequencies, work, word, ledger,
    idx, x, y, weight, trees, most, capacity, form, eta,
):  # fmt: skip
    """One row; writes all state. Returns the score before it; NaN where the row was skipped or arrays lack room for it."""
    if not (all_finite(x) and norm(x) < LONGEST_ROW and weight < LARGEST_WEIGHT):
        return math.nan
    if not has_place(scalars, links, frequencies, trees, most):
        return math.nan
    rows, positives = ledger[LEARNED], ledger[LEARNED_POSITIVES]
    score, n, square, factor = sums_of_row(
        squares, counts, place, linear, centred, fourier, mixture, scalars, links, thresholds, nodes, dense, active, path,
        frequencies, work, rows, idx, x, trees,
    )  # fmt: skip
    label = 1 if y > 0.0 else 0
    w = by_mean(ledger, y, weight)
    base = scalars[BASE]
    share = (scalars[POSITIVES] + 0.5) / (scalars[NEGATIVES] + scalars[POSITIVES] + 1.0)
    for a in range(SUMS - 1):
        work[SLOPES + a] = w * (sigmoid(work[a] + base) - label)
    step_blocks(linear, fourier, scalars, nodes, dense, active, path, work, n, square, factor, trees, eta)
    step_mixture(mixture, work, work[ALONG:], score, base, np.float64(label), w, share)
    scalars[NEGATIVES + label] += w
    if min(positives, rows - positives) < SETTLED:
        scalars[BASE] = math.log((scalars[POSITIVES] + 0.5) / (scalars[NEGATIVES] + 0.5))
    own = np.int64(positives if label == 1 else rows - positives)
    lengthen_histories(history, idx, x, rows + 1.0)
    grow_trees(
        history, squares, counts, place, centred, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates, slots, pool_idx,
        pool_val, generator, dense, path, work, idx, x, label, w, own, np.int64(rows) - own, rows + 1.0, trees, most,
        capacity,
    )  # fmt: skip
    buffer_row(slots, pool_idx, pool_val, dense, label * capacity + own % capacity, idx, x)
    scalars[NORMS] += square
    before = count_values(squares, counts, place, centred, scalars, dense, idx, x, rows + 1.0)
    wipe_row(dense, active, n, idx, x)
    if scalars[FEATURES] > 0.0:
        for k in range(before, np.int64(scalars[PLACES])):
            set_key(history, centred, k)
            draw_place(centred, scalars, np.int64(scalars[FEATURES]), k, word, frequencies)
    elif scalars[FORM] == PROVISIONAL:
        if form == EITHER_FORM and (
            scalars[COLUMNS] > MOST_CENTRED
            or (rows + 1.0 == WARMUP and scalars[NONZEROS] < LEAST_SHARE * WARMUP * scalars[COLUMNS])
        ):
            become_sparse(
                squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves,
                candidates, slots, pool_idx, pool_val, trees,
            )  # fmt: skip
        elif rows + 1.0 == WARMUP:
            scalars[FORM] = DENSE
            begin_fourier(history, centred, mixture, scalars, generator)
    count_example(ledger, score, y, weight)
    return score


@jit
def score_row(
    history, squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates,
    slots, pool_idx, pool_val, generator, dense, active, path, frequencies, work, word, ledger,
    idx, x, trees, most, capacity, form, eta,
):  # fmt: skip
    """Return the score of a row, NaN where it is not finite or frequencies are not drawn; changes working space alone."""
    if not all_finite(x) or (scalars[FEATURES] > 0.0 and frequencies.size == 0):
        return math.nan
    score, n, _, _ = sums_of_row(
        squares, counts, place, linear, centred, fourier, mixture, scalars, links, thresholds, nodes, dense, active, path,
        frequencies, work, ledger[LEARNED], idx, x, trees,
    )  # fmt: skip
    wipe_row(dense, active, n, idx, x)
    return score


@jit
def explain_row(
    history, squares, counts, place, linear, centred, fourier, mixture, scalars, used, links, thresholds, nodes, ages, parents, leaves, candidates,
    slots, pool_idx, pool_val, generator, dense, active, path, frequencies, work, word, ledger,
    idx, x, out, trees, most, capacity, form, eta,
):  # fmt: skip
    """Add to `out` (d + 2,) what each column adds to the score of a row, then the constant, then the Fourier block."""
    d = history.size
    _, n, _, factor = sums_of_row(
        squares, counts, place, linear, centred, fourier, mixture, scalars, links, thresholds, nodes, dense, active, path,
        frequencies, work, ledger[LEARNED], idx, x, trees,
    )  # fmt: skip
    clipped_sums, sums = work[:SUMS], work[ALONG:]  # the sums again, before they were cut
    for a in range(SUMS - 1):
        sums[a] = 0.0
    for t in range(trees):
        for k in range(t * PATH, t * PATH + path[trees * PATH + t]):
            for q in range(RATES):
                sums[q] += nodes[path[k] * NODE + q]
    for q in range(RATES):
        sums[RATES + q] = fourier[q, LINEAR_INTERCEPT]
        for i in range(n):
            sums[RATES + q] += linear[active[i], q] * dense[d + active[i]] * factor
    for a in range(2 * RATES):
        # weight of a sum, as far as the sum is within its bounds
        cut = clipped_sums[a] / sums[a] if sums[a] != clipped_sums[a] else 1.0
        sums[a] = mixture[0, a] * cut
    out[d] += mixture[0, SUMS - 1]
    for q in range(RATES):
        out[d] += sums[RATES + q] * fourier[q, LINEAR_INTERCEPT]
        out[d + 1] += mixture[0, 2 * RATES + q] * clipped_sums[2 * RATES + q]
        for i in range(n):
            out[active[i]] += sums[RATES + q] * linear[active[i], q] * dense[d + active[i]] * factor
    for t in range(trees):
        column = d
        for k in range(t * PATH, t * PATH + path[trees * PATH + t]):
            for q in range(RATES):
                out[column] += sums[q] * nodes[path[k] * NODE + q]
            column = d if abs(thresholds[path[k]]) == ONE_SIDED else np.int64(links[2 * path[k] + 1])
    wipe_row(dense, active, n, idx, x)


class State(NamedTuple):
    """80 bytes a column and 32 of working space; nodes as far as the trees have grown; 2 `capacity` rows."""

    history: Annotated[Floats, Vector()]
    squares: Annotated[Floats, Vector()]  # decayed sums over a column's non-zeros, times the scale, and their number
    counts: Annotated[Floats, Vector()]
    place: Annotated[Floats, Vector()]  # among the centred columns, from 1; -1: none, 0: never seen
    linear: Annotated[Floats, Table(None, 2 * RATES)]  # weights of each rate, sums of squared gradients
    centred: Annotated[Floats, Table(4, MOST_CENTRED)]
    fourier: Annotated[Floats, Table(2 * RATES, MANY + 2)]  # as `linear`, the other way round
    mixture: Annotated[Floats, Table(1 + SUMS, SUMS)]
    scalars: Annotated[Floats, Fixed(SCALARS)]
    used: Annotated[Floats, Fixed("trees")]  # nodes of each tree
    links: Annotated[np.ndarray, Fixed("links", np.int32)]  # of the trees see `kernels.forest.trees`
    thresholds: Annotated[Floats, Fixed("thresholds")]
    nodes: Annotated[Floats, Fixed("nodes")]
    ages: Annotated[Floats, Fixed("ages")]
    parents: Annotated[Floats, Fixed("parents")]
    leaves: Annotated[Floats, Fixed("leaves")]
    candidates: Annotated[Floats, Fixed("candidates")]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]  # codes of columns and standardised values
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]
    dense: Annotated[Floats, Scratch(np.float64, 3)]  # zero between rows
    active: Annotated[Ints, Scratch(np.int64)]
    path: Annotated[Ints, Scratch(np.int64, 0, "paths")]
    frequencies: Annotated[Floats, Scratch(np.float64, 0, "frequencies")]
    work: Annotated[Floats, Scratch(np.float64, 0, "work")]
    word: Annotated[np.ndarray, Scratch(np.uint64, 0, 1)]


_PROGRAM = Program(State, step, score_row, has_room=has_room)
_TREES = ("links", "thresholds", "nodes", "ages", "parents", "leaves", "candidates")


def _sizes_of(room: int) -> dict[str, int]:
    """Return how many numbers a tree with so much room has in each of its arrays."""
    leaves = (room + 1) // 2
    return {
        "links": 2 * room,
        "thresholds": room,
        "nodes": NODE * room,
        "ages": leaves,
        "parents": leaves,
        "leaves": LEAF * leaves,
        "candidates": CANDIDATES * CANDIDATE * leaves,
    }


def _resized(fields: dict[str, Any], trees: int, room: int) -> dict[str, Any]:
    """Return the fields with so much room for each tree."""
    resized = dict(fields)
    for name, size in _sizes_of(room).items():
        table = fields[name].reshape(trees, -1)
        kept = min(size, table.shape[1])
        resized[name] = np.zeros((trees, size), dtype=table.dtype)
        resized[name][:, :kept] = table[:, :kept]
        resized[name] = resized[name].reshape(-1)
    return resized


def _in_use(used: Floats, room: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return for each array of the trees which of its numbers (trees, size) are in use."""
    sizes = [_sizes_of(int(nodes)) for nodes in used]
    return {name: np.arange(size) < np.array([[own[name]] for own in sizes]) for name, size in _sizes_of(room).items()}


def _packed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the trees at their used length, one after the other."""
    trees = fields["used"].size
    mask = _in_use(fields["used"], fields["links"].size // (2 * trees))
    return {**fields, **{name: fields[name].reshape(trees, -1)[mask[name]] for name in _TREES}}


def _unpacked(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the same room for every tree, from `_packed` ones."""
    used = fields["used"]
    room = int(used.max())
    unpacked = dict(fields)
    for name, mask in _in_use(used, room).items():
        table = np.zeros(mask.shape, dtype=fields[name].dtype)
        table[mask] = fields[name]
        unpacked[name] = table.reshape(-1)
    return unpacked


@learner
class JointForest(Learner):
    """Trees, a linear model and random Fourier features in one: for streams where a line is not enough.

    A sum of small models in log odds. Each learns at three rates by its own AdaGrad, and a Bayesian logistic regression
    that forgets weighs them. Trees grow by a test of evidence and give up what the stream no longer visits, so that it
    follows drift. It needs no scaler: half of the trees split the raw row, all else standardises by a running window.

    Parameters
    ----------
    trees : int, default=30
        In [2, 100]. The first half of them split the raw row. 60: AUC .003 higher at twice the time.
    nodes : int, default=1001
        In [3, 4001]. Most nodes of a tree; 501: AUC at most .005 lower.
    capacity : int, default=64
        >= 1. Rows kept of each class, from which splits are drawn.
    form : {"auto", "dense", "sparse"}, default="auto"
        What a row is. "dense": columns are centred, and there are Fourier features; of more than 300 columns those
        beyond the first 300 are treated as sparse ones. "sparse": values are divided by the root mean square of their
        column's non-zeros, which leaves absent ones at 0; O(nnz). "auto": as "dense" for the first 32 rows; then "sparse"
        where less than a quarter of their values is not zero, or as soon as there are more than 300 columns by then.
    eta : float, default=1.0
        In (0, inf). Multiplies all learning rates.
    seed : int or None, default=0
        Of the draws of splits and frequencies; None draws one at construction.

    Notes
    -----
    The score is theta'(f, 1) with f = (trees, linear, Fourier) x (rate 1, 4, 16)::

        trees    f[q] = sum over the trees and the nodes on the row's path of V[node, q]
        linear   f[q] = b[q] + sum_j LV[j, q] xs_j,          xs = running standardised row, cut at +-5
        Fourier  f[q] = c[q] + sum_k RV[k, q] phi_k,         phi = sqrt(2) cos(W'xs / sqrt(m) + b)

    m is the number of centred columns over the rows so far and the mean |xs|^2; sparse rows are brought to the root mean
    |xs|^2 in the linear block, and have no Fourier block. For each block and rate, with g = w (sigma(f + base) - y)::

        e = g feature,  G += e^2,  V -= c eta q / N  e / sqrt(1 + G)

    N is the number of nodes on all paths, 1 + |xs|^2, or the number of Fourier features F (there c = 4, else 1);
    F = min(max(25600 / d, 32), 128) with the d columns of the first 32 rows. base = log((n1 + 1/2) / (n0 + 1/2)), kept
    once the rarer class has 30 rows. theta takes an extended Kalman step of logistic regression, whose covariance is
    divided by 1 - .01 4 pi (1 - pi), pi the share of positives, while its mean variance is below .01.

    Each leaf counts both classes on both sides of up to 8 candidates: a column where a row and a buffered one of the other
    class differ, a threshold between their values. Every 16 rows of a leaf with three of each class it is split on the
    best, where the log evidence of the two sides under Beta(1/2, 1/2) exceeds that of the leaf by log(candidates drawn)
    - 4; else the worst quarter of 8 goes. The weights of the children start at what the counts say. In a full tree the pair
    of leaves that was not visited for longest becomes one leaf again.

    An example's weight multiplies g, the step of theta and the counts, in proportion to the mean weight where weights are
    heavy. A row of weight 0 changes nothing. Columns are chosen by a hash of their past values: their order, and the
    form in which rows come, changes no split.

    Time O(trees depth + nnz) a row, and O(d) for at most 300 centred columns, O(F d) with Fourier features. Memory: 112
    bytes a column; at most 310 bytes a node, 9.3 MB at the defaults, as far as the trees have grown; the buffered rows, 16
    bytes a non-zero value; 300 KB of Fourier frequencies. A snapshot has the nodes in use.

    There is no `merge`: two forests have no common structure. Average the probabilities of both, or use `MBA`.
    A change of units is not followed: it stands in a `Pipeline` without running scaler, where `AutoScale` is none.

    References
    ----------
    .. [1] Duchi, Hazan, Singer, "Adaptive Subgradient Methods", JMLR 2011 (the steps).
    .. [2] Rahimi, Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007 (the Fourier block).
    .. [3] Domingos, Hulten, "Mining High-Speed Data Streams", KDD 2000 (trees grown from counts at their leaves).

    Examples
    --------
    >>> from aucstream import JointForest
    >>> model = JointForest()
    >>> for a, b in [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)] * 100:
    ...     model.learn_one({"a": a, "b": b}, a == b)
    >>> model.score_one({"a": 1.0, "b": 1.0}) > model.score_one({"a": -1.0, "b": 1.0})
    True
    """

    trees: Annotated[int, Ge(2), Le(100), Size("trees")] = 30
    nodes: Annotated[int, Ge(3), Le(4001), Size("nodes")] = 1001
    capacity: Annotated[int, Ge(1), Size("buffered rows")] = 64
    form: Literal["auto", "dense", "sparse"] = "auto"
    eta: Annotated[float, Gt(0)] = 1.0
    seed: int | None = 0

    _capabilities = frozenset(
        {
            Capability.CONTRIBUTIONS,
            Capability.ONE_CALL,
            Capability.REPEATED_FIT,
            Capability.PIPELINE,
            Capability.STEPS_BEFORE,
            Capability.FORMLESS,
            Capability.BARE_ROWS,
            Capability.ONE_CLASS,
        }
    )
    _steps_and_penalties = frozenset({"eta"})
    _random = True
    _first_room = FIRST_ROOM
    _column_shift = 32  # below it a standardised value

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        form = {"auto": EITHER_FORM, "dense": CENTRED_FORM, "sparse": SPARSE_FORM}[self.form]
        return (self.trees, self.nodes, self.capacity, form, self.eta)

    def _slots(self) -> int:
        return 2 * self.capacity

    def _sizes(self) -> dict[str, int]:
        sizes = {name: self.trees * size for name, size in _sizes_of(self._first_room).items()}
        return {
            **sizes,
            "trees": self.trees,
            "paths": self.trees * (2 * PATH + 1),
            "work": WAVES + MANY + RATES * self.trees * PATH,
            "frequencies": 0,
        }

    def _init_state(self) -> None:
        scalars, mixture = self._field("scalars"), self._field("mixture")
        self._field("used")[:] = 1.0
        scalars[LARGEST_TREE] = scalars[SCALE] = 1.0
        mixture[SUMS, SUMS - 1] = PRIOR_VARIANCE
        if self.form == "sparse":
            scalars[FORM] = SPARSE
            set_sparse_prior(mixture)
        else:
            for block in range(BLOCKS):
                set_prior(mixture, block, 0, 1.0 / BLOCKS)

    # -- room for nodes and frequencies ------------------------------------------------------------

    @property
    def _room(self) -> int:
        """How many nodes a tree has room for."""
        return int(self._field("links").size) // (2 * self.trees)

    def _make_room(self, rows: int) -> int:
        """Make room for what so many rows can add, or for some of them; return for how many there is."""
        largest = int(self._field("scalars")[LARGEST_TREE])
        room = self._room
        if room < self.nodes and largest + 2 * min(rows, ROWS_AHEAD) > room:
            self._set_room(min(self.nodes, max(2 * room + 1, largest + 2 * ROWS_AHEAD)))
            room = self._room
        if self._field("scalars")[FEATURES] > 0.0 and not self._field("frequencies").size:
            self._draw_frequencies()
        until_form = WARMUP - self.examples if self.examples < WARMUP else rows  # then frequencies are drawn
        return min(rows, until_form, rows if room >= self.nodes else (room - largest) // 2)

    @property
    def _fields(self) -> dict[str, Any]:
        return dict(zip(self._program.parts, self._arrays, strict=True))

    def _set_room(self, room: int) -> None:
        self._arrays = tuple(_resized(self._fields, self.trees, room).values())

    def _draw_frequencies(self) -> None:
        fields = self._fields
        features = int(fields["scalars"][FEATURES])
        fields["frequencies"] = np.zeros(features * (1 + MOST_CENTRED))
        draw_all(fields["centred"], fields["scalars"], features, fields["word"], fields["frequencies"])
        self._arrays = tuple(fields.values())

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        self._make_room(1)
        return super()._learn_row(idx, val, sign, weight)

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        self._make_room(0)
        return super()._score_row(idx, val)

    def _row_arguments(self, scaled: ScaledRow | None = None) -> RowArguments | None:
        self._make_room(1)
        return super()._row_arguments(scaled)

    def _run(self, block: Block, out: Floats) -> None:
        start = 0
        while start < len(block):
            stop = start + max(1, self._make_room(len(block) - start))
            super()._run(block.rows(start, stop), out[start:stop])
            start = stop

    def _score(self, block: Block) -> Floats:
        self._make_room(0)
        return super()._score(block)

    # -- explanation ---------------------------------------------------------------------------------

    def _parts_of_score(self, idx: Ints | None, val: Floats) -> Floats:
        """Return (d + 2,) what each column adds to the score of a row, then the constant and the Fourier block."""
        self._ensure(self._encoder.width)
        self._make_room(0)
        out = np.zeros(self._capacity + 2)
        explain_row(*self._arrays, self._ledger, idx, val, out, *self._kernel_params)
        return out

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return name to contribution; they add up to the score.

        A node's weight on the row's path is the contribution of the column that its parent is split by, the linear
        block's that of its columns. Absent columns contribute, too: where they have no name, as "(absent)". What
        depends on no column is "(intercept)", the Fourier block as a whole "(fourier)".

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Returns
        -------
        dict
            Name to contribution.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        names, columns, values = self._encoder.parts(x)
        return self._explained(names, columns, shares_of(columns, values), *self._encoder.look_up(x))

    def _explained(
        self, names: Sequence[Any], columns: Ints, shares: Floats, idx: Ints | None, val: Floats
    ) -> dict[Any, float]:
        parts = self._parts_of_score(idx, val)
        found: dict[Any, float] = {}
        for name, part in zip(names, (parts[columns] * shares).tolist(), strict=True):
            found[name] = found.get(name, 0.0) + part
        parts[columns] = 0.0
        for name, part in self._named_parts(parts).items():
            found[name] = found.get(name, 0.0) + part
        return found

    def _named_parts(self, parts: Floats) -> dict[Any, float]:
        """Return name to part of the score for all that is not 0; columns without a name share "(absent)"."""
        width = self._encoder.width
        found: dict[Any, float] = {"(intercept)": float(parts[-2]), "(fourier)": float(parts[-1])}
        columns = np.flatnonzero(parts[:width])
        if isinstance(self._encoder, Vocabulary):
            every = self._encoder.names
            names = [every[column] for column in columns.tolist()]
        else:
            names = ["(absent)"] * columns.size
        for name, part in zip(names, parts[columns].tolist(), strict=True):
            found[name] = found.get(name, 0.0) + part
        return found

    def importances(self) -> dict[Any, float]:
        """Return how much each column moves scores: the mean absolute contribution over the buffered rows.

        Both classes count the same. A column that no buffered row depends on is left out.

        Returns
        -------
        dict
            Name to importance, in units of the score, largest first. "(fourier)" is the block of the Fourier features,
            which no column has alone; hashed columns are together "(absent)".
        """
        totals = np.zeros(self._capacity + 2)
        slots, pool_idx, pool_val = (self._field(name) for name in ("slots", "pool_idx", "pool_val"))
        for first in (0, self.capacity):
            rows = [slots[k, :2].tolist() for k in range(first, first + self.capacity)]
            seen = min(self.capacity, self.examples - self.positives if first == 0 else self.positives)
            for start, length in rows[:seen]:
                idx = pool_idx[start : start + length] >> 32
                totals += np.abs(self._parts_of_score(idx, pool_val[start : start + length].copy())) / (2 * seen)
        totals[-2] = 0.0
        found = self._named_parts(totals)
        del found["(intercept)"]
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    # -- columns that leave ------------------------------------------------------------------------------

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        names = (
            "squares", "counts", "place", "linear", "centred", "fourier", "scalars", "used", "links", "thresholds", "leaves",
            "candidates", "frequencies",
        )  # fmt: skip
        leave_forest(columns, *(fields[name] for name in names), LINEAR_INTERCEPT, self.trees)

    # -- merge and snapshots ---------------------------------------------------------------------------

    def _check_merge(self, other: Self, approximate: bool) -> None:
        raise CannotMerge(
            "JointForest.merge",
            "a learner that merges, such as MBA, or the mean of the probabilities of both models",
            Description("JointForest, whose trees have no common structure"),
        )

    def __getstate__(self) -> dict[str, Any]:
        # Spare room and frequencies are made again when they are needed.
        fields = _packed(self._fields)
        fields["frequencies"] = np.zeros(0)
        return {**super().__getstate__(), "_arrays": tuple(fields.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._arrays = tuple(_unpacked(self._fields).values())

    def _own_state(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        arrays, meta = super()._own_state()
        packed = _packed(self._fields)
        return {**arrays, **{f"state.{name}": packed[name] for name in _TREES}}, meta

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the learner that `state_dict` described."""
        fields = {name: arrays.get(f"state.{name}") for name in ("used", *_TREES)}
        if all(field is not None for field in fields.values()):
            arrays = {**arrays, **{f"state.{name}": field for name, field in _unpacked(fields).items()}}
        return super().from_state_dict(arrays, meta)

    def _program_of(self, arrays: snapshot.Arrays) -> Program:
        if "state.used" in arrays:
            self._first_room = int(arrays["state.used"].max())
        return self._program

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"trees": 6, "nodes": 15, "capacity": 5, "form": "sparse"}
        yield {"trees": 8, "nodes": 31, "form": "dense"}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta": 1e6}
