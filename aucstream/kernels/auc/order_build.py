"""The counted search tree of `order`, made of many rows at once."""

from __future__ import annotations

from aucstream.kernels.auc.order import KEY, LEFT, NONE, OWN_NEG, OWN_POS, PRIORITY, RIGHT, ROWS, SUB_NEG, SUB_POS
from aucstream.kernels.jit import jit


@jit
def build(links, sums, keys, labels, stack):
    """Make the tree that holds just these rows; returns their pairs, in half units.

    links, sums : the tree, with a node for each row at least; written whole, priorities are kept.
    keys, labels : int64, uint8 (n,): the rows, keys ascending, label 1 positive.
    stack : int64 (n,) scratch.
    """
    count = 0
    for i in range(keys.size):
        if count == 0 or links[count, KEY] != keys[i]:
            count += 1
            links[count, KEY] = keys[i]
            links[count, LEFT] = NONE
            links[count, RIGHT] = NONE
            links[count, ROWS] = 0
            sums[count, OWN_POS] = 0
            sums[count, OWN_NEG] = 0
        links[count, ROWS] += 1
        sums[count, OWN_POS if labels[i] == 1 else OWN_NEG] += 1

    # Nodes come in the order of their keys: each goes to the right end, under the last with a higher priority.
    pairs = 0
    negatives = 0
    depth = 0
    for node in range(1, count + 1):
        pairs += sums[node, OWN_POS] * (2 * negatives + sums[node, OWN_NEG])
        negatives += sums[node, OWN_NEG]
        below = NONE
        while depth > 0 and links[stack[depth - 1], PRIORITY] < links[node, PRIORITY]:
            depth -= 1
            below = stack[depth]
            _add_up(links, sums, below)
        links[node, LEFT] = below
        if depth > 0:
            links[stack[depth - 1], RIGHT] = node
        stack[depth] = node
        depth += 1
    links[0, LEFT] = stack[0] if count > 0 else NONE
    while depth > 0:
        depth -= 1
        _add_up(links, sums, stack[depth])

    nodes = len(links)
    links[0, RIGHT] = count + 1 if count + 1 < nodes else NONE
    for node in range(count + 1, nodes):  # free
        links[node, LEFT] = NONE
        links[node, RIGHT] = node + 1 if node + 1 < nodes else NONE
        for column in range(4):
            sums[node, column] = 0
    return pairs


@jit
def _add_up(links, sums, node):
    """Write the subtree sums of a node whose children have theirs."""
    left = links[node, LEFT]
    right = links[node, RIGHT]
    sums[node, SUB_POS] = sums[node, OWN_POS] + sums[left, SUB_POS] + sums[right, SUB_POS]
    sums[node, SUB_NEG] = sums[node, OWN_NEG] + sums[left, SUB_NEG] + sums[right, SUB_NEG]
