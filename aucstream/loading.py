"""Read a saved model back, whatever its class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from aucstream import batch, snapshot
from aucstream.errors import AucstreamError, BadSnapshot, Description
from aucstream.registry import learner_class

if TYPE_CHECKING:
    from os import PathLike

    from aucstream.batch.base import BatchRanker
    from aucstream.learners._base.estimator import RankingClassifier


def from_bytes(data: bytes) -> RankingClassifier | BatchRanker:
    """Return the model that `to_bytes` wrote, or the model in a snapshot downloaded from the service.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    learner, Pipeline or batch model
        It goes on to the same bits.

    Raises
    ------
    NewerSnapshot
        Made by a newer version.
    BadSnapshot
        Damaged, cut, or not a model.
    """
    arrays, meta = unpacked(data)
    if meta.get("class") in batch.__all__:
        return _batch_from_state(arrays, meta)
    return model_from_state(arrays, meta)


def unpacked(data: bytes) -> tuple[snapshot.Arrays, dict[str, Any]]:
    """Return (arrays, meta) of a model's file, or of the model in a snapshot that the service gave."""
    arrays, meta = snapshot.unpack(data)
    inner = meta.get("pipeline")
    if "class" in meta or not isinstance(inner, dict):
        return arrays, meta
    prefix = "pipeline."
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}, inner


def model_from_state(arrays: snapshot.Arrays, meta: dict[str, Any]) -> RankingClassifier:
    """Return the learner or pipeline that `state_dict` described."""
    name = meta.get("class")
    if not isinstance(name, str):
        raise BadSnapshot("snapshot", "the class of a model", name)
    try:
        if name == "Pipeline":
            from aucstream.pipeline import Pipeline

            return Pipeline.from_state_dict(arrays, meta)
        return learner_class(name.lower()).from_state_dict(arrays, meta)
    except AucstreamError:
        raise
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadSnapshot(
            "snapshot", f"the state of a {name}", Description(f"{type(error).__name__}: {error}")
        ) from error


def _batch_from_state(arrays: snapshot.Arrays, meta: dict[str, Any]) -> BatchRanker:
    try:
        model: BatchRanker = getattr(batch, meta["class"]).from_state_dict(arrays, meta)
    except AucstreamError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        name = meta["class"]
        raise BadSnapshot(
            "snapshot", f"the state of a {name}", Description(f"{type(error).__name__}: {error}")
        ) from error
    return model


def load(path: str | PathLike[str]) -> RankingClassifier | BatchRanker:
    """Return the model that `save` wrote to a file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    learner, Pipeline or batch model
        It goes on to the same bits.

    Raises
    ------
    OSError
        The file cannot be read.
    NewerSnapshot
        Made by a newer version.
    BadSnapshot
        Damaged, cut, or not a model.
    """
    return from_bytes(Path(path).read_bytes())
