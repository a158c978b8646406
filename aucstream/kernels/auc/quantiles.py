"""Greenwald-Khanna summaries: the distribution of a stream of scores within a given error.

One summary holds distinct scores in increasing order, in arrays that the caller made larger
than needed; `size` entries are in use.

    values : float64 (room,)
    counts : int64 (room, 4)    GAP, AT, SPREAD, BAND

With below(i) = sum over j < i of GAP_j + AT_j, plus GAP_i: the number of rows below values[i] is
in [below(i), below(i) + SPREAD_i], and exactly AT_i rows counted here equal values[i]. Hence the
number of rows up to any x between values[i-1] and values[i] lies in an interval of width
GAP_i + SPREAD_i; the invariant kept by `compress` is GAP_i + SPREAD_i <= tolerance.
The papers' g is GAP + AT and their Delta is SPREAD; equal scores share an entry, so a summary of
few distinct scores is exact.

M. Greenwald, S. Khanna, "Space-efficient online computation of quantile summaries", SIGMOD 2001.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit

GAP, AT, SPREAD, BAND = range(4)


@jit
def absorb(values, counts, size, fresh):
    """Insert the sorted scores `fresh` (n,), as if one by one; returns the new size.

    values, counts : room for size + n entries; written.
    """
    added = 0
    i = 0
    for j in range(fresh.size):
        if j > 0 and fresh[j] == fresh[j - 1]:
            continue
        while i < size and values[i] < fresh[j]:
            i += 1
        if i == size or values[i] != fresh[j]:
            added += 1
    i = size - 1
    out = size + added - 1
    j = fresh.size - 1
    uncertain = 0  # width of the gap that the next fresh score falls into
    while j >= 0:
        x = fresh[j]
        while i >= 0 and values[i] > x:
            values[out] = values[i]
            counts[out, GAP] = counts[i, GAP]
            counts[out, AT] = counts[i, AT]
            counts[out, SPREAD] = counts[i, SPREAD]
            uncertain = counts[i, GAP] + counts[i, SPREAD]
            i -= 1
            out -= 1
        rows = 0
        while j >= 0 and fresh[j] == x:
            rows += 1
            j -= 1
        if i >= 0 and values[i] == x:
            counts[i, AT] += rows
        else:
            values[out] = x
            counts[out, GAP] = 0
            counts[out, AT] = rows
            counts[out, SPREAD] = uncertain
            out -= 1
    return size + added


@jit
def _band(spread, tolerance):
    """Return the band of a spread (the paper, section 2.1): high for entries that came early."""
    if spread == 0:
        return 64
    if spread >= tolerance:
        return 0
    half = 1
    band = 1
    while True:
        full = 2 * half
        if tolerance - full - tolerance % full < spread:
            return band
        half = full
        band += 1


@jit
def compress(values, counts, size, tolerance):
    """Merge entries, right to left, as far as `tolerance` allows; returns the new size.

    values, counts : written. The first and last entries stay.
    """
    if size < 3:
        return size
    for i in range(size):
        counts[i, BAND] = _band(counts[i, SPREAD], tolerance)
    out = size - 1
    right = size - 1  # the entry that is next to the right; it will be written at `out`
    gap = counts[right, GAP]
    i = size - 2
    while i > 0:
        merged = False
        band = counts[i, BAND]
        if band <= counts[right, BAND]:
            room = tolerance - counts[right, SPREAD] - gap
            mass = counts[i, GAP] + counts[i, AT]
            j = i - 1
            while j > 0 and counts[j, BAND] < band and mass <= room:
                mass += counts[j, GAP] + counts[j, AT]
                j -= 1
            if mass <= room:
                gap += mass
                i = j
                merged = True
        if not merged:
            _put(values, counts, out, right, gap)
            out -= 1
            right = i
            gap = counts[i, GAP]
            i -= 1
    _put(values, counts, out, right, gap)
    shift = out - 1
    if shift > 0:
        for k in range(out, size):
            _put(values, counts, k - shift, k, counts[k, GAP])
    return size - shift


@jit
def _put(values, counts, to, source, gap):
    """Write entry `source` with another gap to `to`."""
    values[to] = values[source]
    counts[to, AT] = counts[source, AT]
    counts[to, SPREAD] = counts[source, SPREAD]
    counts[to, BAND] = counts[source, BAND]
    counts[to, GAP] = gap


@jit
def widest(counts, size):
    """Return the largest GAP + SPREAD: twice the largest error of a rank, in rows."""
    width = 0
    for i in range(size):
        width = max(width, counts[i, GAP] + counts[i, SPREAD])
    return width


@jit
def side_by_side(values_p, counts_p, size_p, values_n, counts_n, size_n, scores, places, pos, neg):
    """Write both distributions on common points, in doubled rows; returns the number of points.

    Every value has three places: 0 just below it, 1 at it, 2 just above it. The mass of a gap is
    estimated half at either end, so that the distribution inside is the middle of what is possible.
    scores, places, pos, neg : float64, uint8, float64, float64 (3 (size_p + size_n),); written.
    """
    i = 0
    j = 0
    out = 0
    while i < size_p or j < size_n:
        in_p = i < size_p and (j == size_n or values_p[i] <= values_n[j])
        in_n = j < size_n and (i == size_p or values_n[j] <= values_p[i])
        value = values_p[i] if in_p else values_n[j]
        for place in range(3):
            p = _mass(counts_p, size_p, i, place) if in_p else 0
            n = _mass(counts_n, size_n, j, place) if in_n else 0
            if place == 1 or p > 0 or n > 0:
                scores[out] = value
                places[out] = place
                pos[out] = p
                neg[out] = n
                out += 1
        i += 1 if in_p else 0
        j += 1 if in_n else 0
    return out


@jit
def _mass(counts, size, i, place):
    """Return twice the estimated number of rows at one of the three places of entry i."""
    if place == 0:
        return counts[i, GAP]
    if place == 1:
        return 2 * counts[i, AT]
    if i + 1 == size:
        return 0
    return counts[i + 1, GAP] + counts[i + 1, SPREAD] - counts[i, SPREAD]
