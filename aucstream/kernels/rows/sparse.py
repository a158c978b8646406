"""Whether the arrays of a sparse matrix fit together: whoever follows wrong ones reads and writes foreign memory."""

from __future__ import annotations

from aucstream.kernels.jit import jit

CANONICAL = 0  # columns strictly ascend in each row
UNSORTED = 1  # some row has columns out of order, or one of them twice
BAD_POINTER = 2
BAD_COLUMN = 3


@jit
def csr_check(indptr, indices, width):
    """Return (result, place) for the pointers (n + 1,) and the columns (m,) of compressed rows of `width` columns.

    `place` is the first offender: of BAD_POINTER in `indptr`, of BAD_COLUMN in `indices`; else 0.
    """
    n = indptr.size - 1
    if indptr[0] != 0:
        return BAD_POINTER, 0
    for i in range(n):
        if indptr[i + 1] < indptr[i] or indptr[i + 1] > indices.size:
            return BAD_POINTER, i + 1
    if indptr[n] != indices.size:
        return BAD_POINTER, n
    # Two loops without branches, then the edges of rows, where columns may fall: half the time of one loop over each row.
    foreign = 0
    falls = 0
    for k in range(indices.size):
        foreign += (indices[k] < 0) | (indices[k] >= width)
    for k in range(1, indices.size):
        falls += indices[k] <= indices[k - 1]
    if foreign > 0:
        k = 0
        while 0 <= indices[k] < width:
            k += 1
        return BAD_COLUMN, k
    for i in range(1, n):
        k = indptr[i]
        if indptr[i - 1] < k < indices.size:
            falls -= indices[k] <= indices[k - 1]
    return (CANONICAL if falls == 0 else UNSORTED), 0
