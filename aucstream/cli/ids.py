"""`score --id COL`: the text of a column beside the score of each row; the column is no feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aucstream.block import Block
from aucstream.cli.options import ReadOptions
from aucstream.errors import Description, InvalidParams
from aucstream.evaluate import Chunk
from aucstream.features.columns import Columns
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.io import Reader
from aucstream.io.rows import Rows
from aucstream.learners._base.estimator import RankingClassifier

OPTION = "--id"


def with_id(options: ReadOptions, name: str, model: RankingClassifier) -> ReadOptions:
    """Return how files are read where a column is the id of rows: its cells are words, as the file writes them.

    Parameters
    ----------
    options : ReadOptions
    name : str
        Value of `--id`.
    model : learner or Pipeline
        That scores the rows.

    Raises
    ------
    InvalidParams
        The model has learned the column, or it is the label.
    """
    if name == options.label:
        raise InvalidParams(OPTION, "another column than the label", name)
    encoder = model._encoder
    learned = isinstance(encoder, Vocabulary) and any(
        known == name or (isinstance(known, str) and known.startswith(f"{name}=")) for known in encoder.names
    )
    if learned:
        raise InvalidParams(OPTION, "a column that the model has not learned; train it with --ignore", name)
    said = options.columns
    columns = Columns(
        ignore=[each for each in said.ignore if each != name],
        category=[*(each for each in said.category if each != name), name],
        number=[each for each in said.number if each != name],
        time=said.time,
    )
    decisions = {column: decision for column, decision in options.decisions.items() if column != name}
    return replace(options, columns=columns, decisions=decisions)


def check_id(reader: Reader, name: str) -> None:
    """Raise where a table has no such column, or the format has no names.

    Parameters
    ----------
    reader : Reader
    name : str

    Raises
    ------
    InvalidParams
    """
    if reader.format == "svmlight":
        raise InvalidParams(OPTION, "a format whose columns have names", Description("svmlight"))
    if reader.columns is not None and name not in reader.columns:
        raise InvalidParams(OPTION, f"a column of {reader.name}: {', '.join(map(repr, reader.columns))}", name)


def split_ids(chunk: Chunk, name: str) -> tuple[Chunk, list[Any]]:
    """Return a chunk without a column, and the column's values; None where it is missing.

    Parameters
    ----------
    chunk : Block or Rows
    name : str

    Returns
    -------
    chunk : Rows
    ids : list of str or None
    """
    assert not isinstance(chunk, Block)
    ids = [x.get(name) if isinstance(x, Mapping) else None for x in chunk.features]
    features = [
        {key: value for key, value in x.items() if key != name} if isinstance(x, Mapping) else x for x in chunk.features
    ]
    return Rows(features, chunk.y, chunk.weights, chunk.lines), ids
