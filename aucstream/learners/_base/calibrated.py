"""What every model reads from its ledger, and its file."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np

from aucstream import snapshot
from aucstream.block import Floats
from aucstream.exclusive import Exclusive, lock_free
from aucstream.kernels.auc.calibration import probabilities
from aucstream.kernels.ledger import NEW_RULES, POSITIVES, ROWS, RULES, SIZE

if TYPE_CHECKING:
    from os import PathLike


def new_ledger(rules: float = NEW_RULES) -> Floats:
    """Return the ledger of a model that goes by these rules, see `kernels.ledger`."""
    ledger = np.zeros(SIZE)
    ledger[RULES] = rules
    return ledger


def whole_ledger(ledger: Floats) -> Floats:
    """Return a ledger of any version in the present size: what a version did not have yet is 0."""
    return ledger if ledger.size == SIZE else np.append(ledger, np.zeros(SIZE - ledger.size))


class CalibratedModel(Exclusive, abc.ABC):
    """Model with a ledger that counts rows and calibrates scores."""

    _ledger: Floats

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the calibrated probability (n,) of each score (n,)."""
        out = np.empty(len(scores))
        probabilities(self._ledger, np.ascontiguousarray(scores, dtype=np.float64), out)
        return out

    @property
    def examples(self) -> int:
        """Rows learned."""
        return int(self._ledger[ROWS])

    @property
    def positives(self) -> int:
        """Positive rows learned."""
        return int(self._ledger[POSITIVES])

    # -- snapshots -------------------------------------------------------------------------------

    @abc.abstractmethod
    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta) from which the model can be made again.

        Returns
        -------
        arrays : dict of ndarray
            By name.
        meta : dict
            All else, as JSON can say it: class, parameters, encoder.
        """

    @lock_free
    def to_bytes(self) -> bytes:
        """Return the whole model as the bytes of one versioned safetensors file.

        Returns
        -------
        bytes
            For `aucstream.from_bytes`. A model made from them goes on to the same bits.
        """
        return snapshot.pack(*self.state_dict())

    @lock_free
    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `aucstream.load` reads.

        Parameters
        ----------
        path : str or path
            An existing file is replaced as a whole.

        Raises
        ------
        OSError
            The file cannot be written; an existing one is as it was.
        """
        snapshot.write(path, self.to_bytes())
