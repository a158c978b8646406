"""What the numbers of a model alone do not say: a sentence for each thing that an operator should know of."""

from __future__ import annotations

from aucstream_service.models.model import Model

FULL_SHARE = 0.9  # of a limit, from which on it is said
LARGE_SCORES = 1e6  # mean magnitude of the newest scores
ENOUGH_ROWS = 1_000
REFUSED_SHARE = 0.1  # of the rows since the start


def remarks_of(model: Model) -> list[str]:
    """Return a sentence for each thing that limits what a model learns or that its scores hide."""
    remarks = []
    reading = model.reading
    usage = reading.usage
    stays = model.spec.columns.eviction == "none"
    if usage is not None and usage.names_dropped and usage.names >= usage.capacity and stays:
        remarks.append(
            f"vocabulary: {usage.names_dropped} names were left out of learned rows, it is full at {usage.capacity} names "
            "(PATCH encoder.capacity, or columns.eviction)"
        )
    elif usage is not None and usage.names >= FULL_SHARE * usage.capacity and stays:
        remarks.append(f"vocabulary: {usage.names} of {usage.capacity} names are there, later ones will be left out")
    capacity = model.spec.pending.capacity
    if model.pending >= FULL_SHARE * capacity:
        remarks.append(f"pending: {model.pending} of {capacity} examples wait for their label (PATCH pending.capacity)")
    examples, positives = reading.examples, reading.positives
    if examples >= ENOUGH_ROWS and positives in (0, examples):
        kind = "negative" if positives == 0 else "positive"
        remarks.append(f"labels: all of {examples} rows were {kind}, nothing can be ranked")
    remarks.extend(reading.remarks)
    if model.score_magnitude > LARGE_SCORES:
        remarks.append(f"scores: their magnitude is {model.score_magnitude:.3g} of late; look at units and outliers")
    counts = model.counts
    refused, learned = sum(counts.refused.values()), counts.learned + counts.labelled
    if refused >= ENOUGH_ROWS * REFUSED_SHARE and refused > REFUSED_SHARE * (refused + learned):
        reason, most = max(counts.refused.items(), key=lambda item: item[1])
        remarks.append(f"refusals: {refused} since the start, most of them {reason} ({most})")
    if model.snapshot_failures:
        remarks.append(f"snapshots: {model.snapshot_failures} could not be written since the start; see the log")
    return remarks
