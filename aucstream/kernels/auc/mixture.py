"""Two mixtures of the scores of several members, judged by what each said before it learned; see `Auto`.

A row is (member scores (m,), scores of the members as they stood at the last checkpoint (m,)). Each member's score
becomes log odds by a calibration of its own. The local mixture weighs members by progressive log loss, the global one
by pairwise logistic loss against a reservoir of old rows. What is served lies between the log odds of both.
"""

from __future__ import annotations

import math

from aucstream.kernels.auc.alarm import HALF_LIFE, KEEP, THRESHOLD, observe_loss, raised
from aucstream.kernels.auc.calibration import (
    CUT,
    LEAST_CURVATURE,
    base_of,
    calibrated,
    observe,
    scaled,
    shift_line,
    sigmoid,
)
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_ON, CAL_POSITIVE, CAL_RMS2, CAL_SLOPE, POSITIVES, ROWS
from aucstream.kernels.pairs.buffers import RESERVOIR, offer
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.kernels.weights.kalman import kalman_step

# layout of `members` (m, …)
(
    ACTIVE,  # 1: it learns and is heard; 0: it rests; -1: it is none of this stream's
    LOCAL,  # weight in the local mixture
    GLOBAL,  # weight in the global mixture
    NEXT_GLOBAL,  # the weight that comes into force at the next checkpoint
    LARGER,  # fading mean of the larger weight
    SLOPE,  # log odds of the global mixture per unit of the scaled score
    CURVATURE,
    MIDDLE,  # scaled score between the classes of the reservoir
    SCALE,  # what scaled a score at the last checkpoint
    GRADIENT,
    HESSIAN,
    AUC_NEGATIVE,  # fading placement of judged rows of each class among the reservoir's of the other
    AUC_POSITIVE,
    RESTING_SINCE,  # row, 0: it does not rest
    LOSS,  # of the row that is judged
) = range(15)
MEMBER_SIZE = 15

# layout of `scalars`
(
    CHECKPOINT,  # the row after which the next checkpoint is
    SEGMENT,  # rows between the last checkpoint and the next
    JUDGED,  # rows judged since the last checkpoint
    TO_JUDGE,  # rows to judge between two checkpoints
    JUDGED_NEGATIVE,  # rows judged in all, by class
    JUDGED_POSITIVE,
    RESERVOIR_NEGATIVE,  # rows of each class in `reference`
    RESERVOIR_POSITIVE,
    SEEN_NEGATIVE,  # rows offered to the reservoir
    SEEN_POSITIVE,
    LOCAL_AUC_NEGATIVE,  # fading placement of rows by class, of the local mixture and of the mean of both
    LOCAL_AUC_POSITIVE,
    MEAN_AUC_NEGATIVE,
    MEAN_AUC_POSITIVE,
    PLACED_NEGATIVE,  # rows placed, by class
    PLACED_POSITIVE,
    RECENT_NEGATIVE,  # fading counts of rows
    RECENT_POSITIVE,
    EXCESS,  # four entries, see `kernels.auc.alarm`
    VARIANCE,
    LARGEST,
    QUIET,
    ALARMS,
    LAST_ALARM,  # row
    WAKE,  # 1 from an alarm to the next checkpoint
    FORM,  # of the first row, see `block.Form`
    ENTRIES,  # values in all rows
    COLUMNS,  # 1 + the highest column of a row
    STACK_WEIGHT,  # of the stack in the local mixture
    START,  # log odds of the base rate of the first rows, which are no part of what is served
    BUDGET,  # the bound of the cost at the last checkpoint
) = range(31)
SCALARS_SIZE = 31

FIXED_SHARE = 1e-3  # of the weight that is spread over all active members at each row
KEPT = 100  # rows of each class in the reservoir
NEAR = 200  # rows of each class that new rows are placed against
PLACED_MEMORY = 2000.0  # rows of a class, of the members' fading AUC
LEAD_MEMORY = 500.0  # and of that of the two mixtures
PLACED_LEAST = 20.0  # rows of each class
LEAD_FROM, LEAD_TO = 0.001, 0.005  # lead of the local mixture between which its share grows to 1
GLOBAL_FIRST = 50.0  # placed rows of the rarer class until the global mixture's share has fallen from 1 to 1/2
SETTLED = 100.0  # rows of the rarer class after which START stays
STACK_VARIANCE = 0.03  # of the prior of a coefficient of the stack; forgetting never lets their mean rise above it
STACK_FORGETTING = 0.01  # times 4 pi (1 - pi), pi the share of positives
STACK_CUT = 4.0  # log odds above or below the base rate's
BENCH_KEEP = 0.5 ** (1.0 / 1000.0)
RECENT_KEEP = 0.5 ** (1.0 / 1000.0)
FIRST_ALARM = 300.0  # row
TINY = 1e-12
LARGEST_SCALED = 30.0
MOST_SEGMENT_WEIGHT = 4.0


@jit
def log_odds(p):
    """Return the log odds of a probability, cut at 1e-9 from 0 and 1."""
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    return math.log(p / (1.0 - p))


@jit
def above_base(log_odds_of_member, base):
    """Return a feature of the stack: the log odds of a member above the base rate's, cut."""
    return min(STACK_CUT, max(-STACK_CUT, log_odds_of_member - base))


@jit
def local_parts(members, lines, stack, ledger, x):
    """Return (probability of the members by their local weights, log odds of the stack) for member scores."""
    m = members.shape[0]
    base = base_of(ledger)
    p = 0.0
    stacked = base + stack[0, m]
    for j in range(m):
        if members[j, ACTIVE] > 0.0:
            line = calibrated(lines[j], x[j])
            p += members[j, LOCAL] * sigmoid(line)
            stacked += stack[0, j] * above_base(line, base)
    return p, stacked


@jit
def _local(scalars, p, stacked):
    """Return the log odds of the local mixture from its parts."""
    return log_odds((1.0 - scalars[STACK_WEIGHT]) * p + scalars[STACK_WEIGHT] * sigmoid(stacked))


@jit
def _learn_stack(members, lines, stack, work, scalars, ledger, x, p, stacked, y, weight):
    """Weigh the stack against the members' own mixture, then let it learn; writes stack, work, scalars."""
    m = members.shape[0]
    base = base_of(ledger)
    present = 0
    for j in range(m):
        work[j] = above_base(calibrated(lines[j], x[j]), base) if members[j, ACTIVE] > 0.0 else 0.0
        present += 1 if members[j, ACTIVE] >= 0.0 else 0
    work[m] = 1.0
    q = sigmoid(stacked)
    own, other = (q, p) if y > 0.0 else (1.0 - q, 1.0 - p)
    if weight != 1.0:
        own, other = own**weight, other**weight
    own = scalars[STACK_WEIGHT] * (own + TINY)
    other = (1.0 - scalars[STACK_WEIGHT]) * (other + TINY)
    scalars[STACK_WEIGHT] = (1.0 - FIXED_SHARE) * own / (own + other) + 0.5 * FIXED_SHARE
    share = sigmoid(base)
    forgetting = STACK_FORGETTING * 4.0 * share * (1.0 - share)
    target = 1.0 if y > 0.0 else 0.0
    most = STACK_VARIANCE * (present + 1)
    kalman_step(stack[0], stack[1:], work, work[m + 1 :], stacked, target, weight, forgetting, most)


@jit
def _global(members, lines, ledger, x):
    """Return the log odds of the global mixture of member scores."""
    base = base_of(ledger)
    p = 0.0
    for j in range(members.shape[0]):
        if members[j, ACTIVE] > 0.0:
            z = scaled(x[j], lines[j, CAL_RMS2]) if lines[j, CAL_RMS2] > 0.0 else 0.0
            p += members[j, GLOBAL] * sigmoid(members[j, SLOPE] * (z - members[j, MIDDLE]) + base)
    return log_odds(p)


@jit
def score_row(
    members, lines, stack, work, reference, recent, scalars, slots, pool_idx, pool_val, generator, ledger, idx, x
):
    """Return what is served for member scores x (m,) or (2 m,); 0 before the first row."""
    if ledger[ROWS] == 0.0:
        return 0.0
    share = share_of_global(scalars)
    p, stacked = local_parts(members, lines, stack, ledger, x)
    local = _local(scalars, p, stacked)
    return (1.0 - share) * local + share * _global(members, lines, ledger, x) - scalars[START]


@jit
def slopes(
    members, lines, stack, work, reference, recent, scalars, slots, pool_idx, pool_val, generator, ledger, x, out
):
    """Return the score of member scores x (m,); writes to out (m,) its slope along each of them."""
    out[:] = 0.0
    if ledger[ROWS] == 0.0:
        return 0.0
    share = share_of_global(scalars)
    own, stacked = local_parts(members, lines, stack, ledger, x)
    local, other = _local(scalars, own, stacked), _global(members, lines, ledger, x)
    p, q, r = sigmoid(local), sigmoid(other), sigmoid(stacked)
    stack_weight = scalars[STACK_WEIGHT]
    base = base_of(ledger)
    for j in range(members.shape[0]):
        if members[j, ACTIVE] > 0.0:
            line = calibrated(lines[j], x[j])
            a = sigmoid(line)
            uncut = 1.0 if abs(line - base) < STACK_CUT else 0.0
            z = scaled(x[j], lines[j, CAL_RMS2]) if lines[j, CAL_RMS2] > 0.0 else 0.0
            b = sigmoid(members[j, SLOPE] * (z - members[j, MIDDLE]) + base)
            along_local = (1.0 - stack_weight) * members[j, LOCAL] * a * (1.0 - a)
            along_local += stack_weight * uncut * stack[0, j] * r * (1.0 - r)
            along_local *= lines[j, CAL_SLOPE] / (p * (1.0 - p))
            along_global = members[j, GLOBAL] * b * (1.0 - b) * members[j, SLOPE] / (q * (1.0 - q))
            scale = 1.0 / math.sqrt(lines[j, CAL_RMS2]) if lines[j, CAL_RMS2] > 0.0 else 1.0
            out[j] = ((1.0 - share) * along_local + share * along_global) * scale
    return (1.0 - share) * local + share * other - scalars[START]


@jit
def share_of_global(scalars):
    """Return the share of the global mixture.

    It is 1 at first and 1/2 from GLOBAL_FIRST rows of the rarer class on: log loss needs more rows than pairs do. It
    falls to 0 as the local mixture's fading AUC leads that of the mean of both.
    """
    placed = min(scalars[PLACED_NEGATIVE], scalars[PLACED_POSITIVE])
    most = max(0.5, 1.0 - 0.5 * placed / GLOBAL_FIRST)
    if placed < PLACED_LEAST:
        return most
    lead = 0.5 * (
        scalars[LOCAL_AUC_NEGATIVE]
        - scalars[MEAN_AUC_NEGATIVE]
        + scalars[LOCAL_AUC_POSITIVE]
        - scalars[MEAN_AUC_POSITIVE]
    )
    return most * min(1.0, max(0.0, (LEAD_TO - lead) / (LEAD_TO - LEAD_FROM)))


@jit
def _placement(recent, column, n, value):
    """Return the share of the first n entries of a column below `value`, ties by half."""
    total = 0.0
    for i in range(n):
        other = recent[i, column]
        total += 1.0 if value > other else (0.5 if value == other else 0.0)
    return total / n


@jit
def _place(recent, scalars, y, local, mean):
    """Place a row among the recent rows of the other class, then keep it; writes recent and scalars.

    recent (NEAR, 4): local and mean log odds of negatives, then of positives.
    """
    own = 1 if y > 0.0 else 0
    other = 1 - own
    n = int(min(scalars[PLACED_NEGATIVE + other], float(NEAR)))
    if n > 0:
        rate = max(1.0 / LEAD_MEMORY, 2.0 / (scalars[PLACED_NEGATIVE + own] + 2.0))
        a = _placement(recent, 2 * other, n, local)
        b = _placement(recent, 2 * other + 1, n, mean)
        if own == 0:
            a, b = 1.0 - a, 1.0 - b
        scalars[LOCAL_AUC_NEGATIVE + own] += rate * (a - scalars[LOCAL_AUC_NEGATIVE + own])
        scalars[MEAN_AUC_NEGATIVE + own] += rate * (b - scalars[MEAN_AUC_NEGATIVE + own])
    at = int(scalars[PLACED_NEGATIVE + own]) % NEAR
    recent[at, 2 * own] = local
    recent[at, 2 * own + 1] = mean
    scalars[PLACED_NEGATIVE + own] += 1.0


@jit
def _shared(members, column):
    """Normalise a column of weights over the active members and spread the fixed share; writes members."""
    total = 0.0
    active = 0
    for j in range(members.shape[0]):
        if members[j, ACTIVE] > 0.0:
            total += members[j, column]
            active += 1
    for j in range(members.shape[0]):
        if members[j, ACTIVE] > 0.0:
            members[j, column] = (1.0 - FIXED_SHARE) * members[j, column] / total + FIXED_SHARE / active


@jit
def _judge(members, reference, scalars, x, y, weight):
    """Take the pairwise loss of one row, scored as at the last checkpoint, against the reservoir.

    Writes members, scalars. reference (m, 2 KEPT): scaled scores of the reservoir's negatives, then positives.
    """
    m = members.shape[0]
    own = 1 if y > 0.0 else 0
    other = 1 - own
    n = int(scalars[RESERVOIR_NEGATIVE + other])
    first = KEPT * other
    sign = 1.0 if own == 1 else -1.0
    scalars[JUDGED] += 1.0
    scalars[JUDGED_NEGATIVE + own] += 1.0
    balance = weight * min(1.0, scalars[JUDGED_NEGATIVE + other] / scalars[JUDGED_NEGATIVE + own])
    factor = balance * min(MOST_SEGMENT_WEIGHT, scalars[SEGMENT] / scalars[TO_JUDGE])
    rate = max(1.0 / PLACED_MEMORY, 2.0 / (scalars[JUDGED_NEGATIVE + own] + 2.0))
    least = math.inf
    for j in range(m):
        if members[j, ACTIVE] <= 0.0:
            continue
        z = min(CUT, max(-CUT, x[m + j] * members[j, SCALE]))
        slope = members[j, SLOPE]
        loss = 0.0
        gradient = 0.0
        hessian = 0.0
        placed = 0.0
        for i in range(first, first + n):
            v = sign * (z - reference[j, i])
            q = sigmoid(-min(LARGEST_SCALED, max(-LARGEST_SCALED, slope * v)))
            loss -= math.log(1.0 - q + 1e-13)
            gradient += q * v
            hessian += max(q * (1.0 - q), LEAST_CURVATURE) * v * v
            placed += 1.0 if v > 0.0 else (0.5 if v == 0.0 else 0.0)
        members[j, GRADIENT] += balance / n * gradient
        members[j, HESSIAN] += balance / n * hessian
        members[j, AUC_NEGATIVE + own] += rate * (placed / n - members[j, AUC_NEGATIVE + own])
        members[j, LOSS] = loss / n
        least = min(least, loss / n)
    for j in range(m):
        if members[j, ACTIVE] > 0.0:
            members[j, NEXT_GLOBAL] *= math.exp(-factor * (members[j, LOSS] - least)) + TINY
    _shared(members, NEXT_GLOBAL)


@jit
def learn_row(
    members,
    lines,
    stack,
    work,
    reference,
    recent,
    scalars,
    slots,
    pool_idx,
    pool_val,
    generator,
    ledger,
    idx,
    x,
    y,
    weight,
):
    """Serve a row, then judge the members by it; writes all. Returns what was served.

    x (2 m,): the members' scores before they learned the row, and, while rows are judged, their scores as of the last
    checkpoint.
    """
    m = members.shape[0]
    weight = by_mean(ledger, y, weight)
    p, stacked = local_parts(members, lines, stack, ledger, x)
    local = _local(scalars, p, stacked)
    other = _global(members, lines, ledger, x)
    share = share_of_global(scalars)
    start = scalars[START]
    score = (1.0 - share) * local + share * other - start if ledger[ROWS] > 0.0 else 0.0
    if scalars[JUDGED] < scalars[TO_JUDGE]:
        _judge(members, reference, scalars, x, y, weight)
    _place(recent, scalars, y, local - start, 0.5 * (local + other) - start)
    observe_loss(scalars, EXCESS, KEEP, sigmoid(calibrated(ledger, score)), y)
    _learn_stack(members, lines, stack, work, scalars, ledger, x, p, stacked, y, weight)
    for j in range(m):
        if members[j, ACTIVE] > 0.0:
            likelihood = sigmoid(calibrated(lines[j], x[j]))
            likelihood = likelihood if y > 0.0 else 1.0 - likelihood
            members[j, LOCAL] *= (likelihood if weight == 1.0 else likelihood**weight) + TINY
    _shared(members, LOCAL)
    for j in range(m):
        if members[j, ACTIVE] > 0.0:
            larger = max(members[j, LOCAL], members[j, GLOBAL])
            members[j, LARGER] += (1.0 - BENCH_KEEP) * (larger - members[j, LARGER])
            observe(lines[j], x[j], y, weight, 0.0)
    observe(ledger, score, y, weight, 1.0)
    if ledger[CAL_POSITIVE] > 0.0 and ledger[CAL_NEGATIVE] > 0.0:
        ledger[CAL_ON] = 1.0
    if min(ledger[CAL_POSITIVE], ledger[CAL_NEGATIVE]) < SETTLED:
        start = base_of(ledger)
        shift_line(ledger, start - scalars[START])
        scalars[START] = start
    ledger[ROWS] += 1.0
    own = 1 if y > 0.0 else 0
    ledger[POSITIVES] += own
    if ledger[ROWS] >= FIRST_ALARM and raised(scalars, EXCESS, THRESHOLD, HALF_LIFE):
        scalars[ALARMS] += 1.0
        scalars[LAST_ALARM] = ledger[ROWS]
        scalars[WAKE] = 1.0
    scalars[RECENT_NEGATIVE] *= RECENT_KEEP
    scalars[RECENT_POSITIVE] *= RECENT_KEEP
    scalars[RECENT_NEGATIVE + own] += 1.0
    return score


@jit
def offer_row(slots, pool_idx, pool_val, generator, scalars, idx, x, y):
    """Offer a row to the reservoir of its class, and count its entries; writes all but the row."""
    own = 1 if y > 0.0 else 0
    scalars[SEEN_NEGATIVE + own] += 1.0
    scalars[ENTRIES] += x.size
    if idx is None:
        scalars[COLUMNS] = max(scalars[COLUMNS], float(x.size))
    else:
        for k in range(x.size):
            scalars[COLUMNS] = max(scalars[COLUMNS], float(idx[k] + 1))
    seen = int(scalars[SEEN_NEGATIVE + own])
    offer(generator, idx, x, 1.0, KEPT * own, seen, KEPT, RESERVOIR, slots, pool_idx, pool_val)


@jit
def offer_rows(indptr, idx, val, y, slots, pool_idx, pool_val, generator, scalars):
    """Offer rows to the reservoir of their class; writes slots, pool_idx, pool_val, generator, scalars."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            offer_row(slots, pool_idx, pool_val, generator, scalars, None, val[a:b], y[i])
        else:
            offer_row(slots, pool_idx, pool_val, generator, scalars, idx[a:b], val[a:b], y[i])
