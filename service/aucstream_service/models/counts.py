"""Counters of one model since the start of this process."""

from __future__ import annotations

from dataclasses import dataclass, field

from aucstream_service.errors.problems import problem_type_of


@dataclass(slots=True)
class Counts:
    """Counters of one model; they only grow, and a replay does not move them.

    `refused` counts rows, and requests refused as a whole, by problem type (`label-conflict`,
    `invalid-features`, `queue-full`, `non-finite-step`, …).
    """

    learned: int = 0  # rows that came with their label
    labelled: int = 0  # predictions learned with the label that came later
    duplicates: int = 0
    kept: int = 0  # predictions that wait, or waited, for their label
    not_kept: int = 0  # predictions that were answered and do not wait: there was no room
    dropped: int = 0  # predictions that waited and went for newer ones
    held: int = 0  # labels that came before their prediction
    expired_discard: int = 0
    expired_negative: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, error: BaseException | str, rows: int = 1) -> None:
        """Count what was refused with this error, or of this problem type."""
        kind = error if isinstance(error, str) else problem_type_of(error).name
        self.refused[kind] = self.refused.get(kind, 0) + rows
