"""Data frames of pandas and polars, Arrow tables and record batches: rows by name.

A frame becomes a `FrameTable`, or a `SparseTable` where it is a sparse pandas frame. Both are cut and put in order as
arrays are, so that what takes an array takes them too. narwhals reads the kinds of frames; it is imported with the
first one.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.errors import Description, InvalidBlock
from aucstream.features.encoding.entries import INDICATOR, NUMERIC
from aucstream.features.number_rows import NumberRows

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

KINDS = "a data frame (pandas, polars), an Arrow table or a record batch"
_ROOTS = ("pandas", "polars", "pyarrow")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class FrameTable:
    """The rows of a frame as dicts, missing cells left out.

    Parameters
    ----------
    names : list of str or int
    rows : sequence of dict
        `NumberRows` where all cells are finite numbers.
    """

    __slots__ = ("names", "rows")

    def __init__(self, names: list[Any], rows: Sequence[Mapping[Any, Any]]) -> None:
        self.names = names
        self.rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.names)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: slice | Ints) -> FrameTable:
        if isinstance(at, slice):
            return FrameTable(self.names, self.rows[at])
        rows = self.rows.take(at.tolist()) if isinstance(self.rows, NumberRows) else [self.rows[i] for i in at.tolist()]
        return FrameTable(self.names, rows)


class SparseTable:
    """A sparse frame: names and a CSR matrix. A cell that is not stored is absent.

    Parameters
    ----------
    names : list of str or int
    matrix : scipy CSR (n, d)
    kinds : ndarray of uint8 (d,)
        1 numeric, 2 indicator.
    """

    __slots__ = ("kinds", "matrix", "names")

    def __init__(self, names: list[Any], matrix: Any, kinds: np.ndarray) -> None:
        self.names = names
        self.matrix = matrix
        self.kinds = kinds

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.matrix.shape
        return int(n), int(d)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, at: slice | Ints) -> SparseTable:
        return SparseTable(self.names, self.matrix[at], self.kinds)

    @property
    def rows(self) -> list[dict[Any, Any]]:
        """The stored cells of each row, by name."""
        indptr, indices, values = self.matrix.indptr, self.matrix.indices.tolist(), self.matrix.data.tolist()
        names = [(name, kind == INDICATOR) for name, kind in zip(self.names, self.kinds.tolist(), strict=True)]
        rows: list[dict[Any, Any]] = []
        for a, b in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
            row = {}
            for j, value in zip(indices[a:b], values[a:b], strict=True):
                name, is_bool = names[j]
                row[name] = bool(value) if is_bool else value
            rows.append(row)
        return rows


Table = FrameTable | SparseTable


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame, an Arrow table or a record batch; imports nothing."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return False
    for cls in type(X).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in _ROOTS and cls.__name__ in ("DataFrame", "LazyFrame", "Table", "RecordBatch"):
            return True
    return False


def frame_rows(X: Any) -> Sequence[Mapping[Any, Any]]:
    """Return the rows of a frame as dicts, missing cells left out; infinity stays and is refused later.

    Raises
    ------
    InvalidBlock
        X is no frame, or a column cannot be read.
    """
    return table_of(X).rows


def table_of(X: Any) -> Table:
    """Return the rows of a frame.

    Numbers stay numbers, bools and lists of strings as they are; strings and categories are words. Times are seconds
    since 1970, in UTC; durations are seconds. A missing cell is absent, and so is a cell of a sparse pandas column
    that is not stored, where the columns' fill value is 0 or missing.

    Raises
    ------
    InvalidBlock
        X is no frame, or a column cannot be read.
    """
    if isinstance(X, (FrameTable, SparseTable)):
        return X
    if not is_frame(X):
        raise InvalidBlock("features", KINDS, X)
    if hasattr(X, "collect_schema") and not hasattr(X, "rows"):
        raise InvalidBlock("features", f"{KINDS}: collect() a lazy frame first", Description("a LazyFrame"))
    names = _checked_names(X)
    n = int(X.shape[0]) if hasattr(X, "shape") else int(X.num_rows)
    if not names:
        return FrameTable([], [{} for _ in range(n)])
    sparse = _sparse_columns(X)
    if len(sparse) == len(names) or (sparse and _all_numbers(X, sparse)):
        return _sparse_table(X, names, sparse, n)
    return _frame_table(X, names, sparse, n)


def _checked_names(X: Any) -> list[Any]:
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    if len(set(names)) < len(names):
        raise InvalidBlock("features", "columns with unique names", names)
    return [int(name) if isinstance(name, np.integer) else name for name in names]


def series_like(X: Any, values: np.ndarray, name: str | None = None) -> Any:
    """Return values (n,) as a series of the library of a frame, with its index in pandas.

    Parameters
    ----------
    X : data frame, Arrow table or record batch
    values : ndarray (n,)
    name : str, optional

    Returns
    -------
    pandas or polars Series, or Arrow array
    """
    root = _library(X)
    if root == "pandas":
        import pandas as pd

        return pd.Series(values, index=X.index, name=name)
    if root == "polars":
        import polars

        return polars.Series(name or "", values)
    import pyarrow

    return pyarrow.array(values)


def frame_like(X: Any, columns: Mapping[Any, np.ndarray]) -> Any:
    """Return columns (n,) as a frame of the library of another, with its index in pandas.

    Parameters
    ----------
    X : data frame, Arrow table or record batch
    columns : dict of name to ndarray (n,)

    Returns
    -------
    data frame or Arrow table
        Names are strings but in pandas.
    """
    root = _library(X)
    if root == "pandas":
        import pandas as pd

        return pd.DataFrame(dict(columns), index=X.index)
    texts = {str(name): values for name, values in columns.items()}
    if root == "polars":
        import polars

        return polars.DataFrame(texts)
    import pyarrow

    return pyarrow.table(texts)


def _library(X: Any) -> str:
    roots = [cls.__module__.partition(".")[0] for cls in type(X).__mro__]
    return next(root for root in roots if root in _ROOTS)


# -- columns of values --------------------------------------------------------------------------------------


def _frame_table(X: Any, names: list[Any], sparse: dict[int, tuple[Ints, Floats, int]], n: int) -> FrameTable:
    columns = [None if j in sparse else _cells(column, name) for j, (column, name) in enumerate(_series(X, names))]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(names):
        matrix = np.empty((n, len(names)))
        for j, array in enumerate(arrays):
            matrix[:, j] = array
        if np.isfinite(matrix).all():
            return FrameTable(names, NumberRows(names, matrix))
    each = [(name, _values(column)) for name, column in zip(names, columns, strict=True) if column is not None]
    if each and not any(None in values for _, values in each):
        dense = [name for name, _ in each]
        rows = [dict(zip(dense, row, strict=True)) for row in zip(*(values for _, values in each), strict=True)]
    else:
        rows = [{} for _ in range(n)]
        for name, values in each:
            for row, value in zip(rows, values, strict=True):
                if value is not None:
                    row[name] = value
    for j, (places, cells, kind) in sparse.items():
        for i, value in zip(places.tolist(), cells.tolist(), strict=True):
            rows[i][names[j]] = bool(value) if kind == INDICATOR else value
    return FrameTable(names, rows)


def _values(column: Floats | list[Any]) -> list[Any]:
    """Return the values of a column, None where missing."""
    if not isinstance(column, np.ndarray):
        return column
    numbers: list[Any] = column.tolist()
    return [None if number != number else number for number in numbers] if np.isnan(column).any() else numbers


def _series(X: Any, names: list[Any]) -> list[tuple[nw.Series[Any], Any]]:
    import narwhals.stable.v2 as nw

    if type(X).__name__ == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    frame = nw.from_native(X, eager_only=True)
    return list(zip(frame.iter_columns(), names, strict=True))


def _cells(column: nw.Series[Any], name: Any) -> Floats | list[Any]:
    """Return numbers as an array, NaN where missing; else a list of values, None where missing."""
    import narwhals.stable.v2 as nw

    kind = column.dtype
    if kind.is_numeric():
        if isinstance(kind, nw.Decimal) or column.null_count():
            return np.array([np.nan if _is_missing(value) else float(value) for value in column.to_list()])
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if isinstance(kind, nw.Boolean):
        return [None if value is None or value != value else bool(value) for value in column.to_list()]
    if isinstance(kind, (nw.Categorical, nw.Enum)):
        return _words(column.to_list())
    if isinstance(kind, (nw.Datetime, nw.Date, nw.Duration, nw.Time)):
        return [_seconds(value) for value in column.to_list()]
    if isinstance(kind, (nw.String, nw.List, nw.Array)):
        return [None if _is_missing(value) else value for value in column.to_list()]
    if isinstance(kind, (nw.Object, nw.Unknown)):
        return [_object(value) for value in column.to_list()]
    expected = "a column of numbers, bools, strings, categories, times or lists of strings"
    raise InvalidBlock("features", expected, Description(str(kind)), path=f"[{name!r}]")


def _words(values: list[Any]) -> list[Any]:
    texts = {value: None if _is_missing(value) else str(value) for value in set(values)}
    return [texts[value] for value in values]


def _object(value: Any) -> Any:
    if isinstance(value, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)):
        return _seconds(value)
    return None if _is_missing(value) else value


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or NA."""
    if value is None:
        return True
    if isinstance(value, (str, list, tuple, set, frozenset, Mapping, np.ndarray)):
        return False
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False


def _seconds(value: Any) -> float | None:
    """Return a time as seconds since 1970 in UTC, a duration or a time of day as seconds; None where missing."""
    if _is_missing(value) or (isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value)):
        return None
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(value, datetime.date):
        return float((value - _EPOCH.date()).days * 86_400)
    return float(value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6)


# -- sparse pandas columns ------------------------------------------------------------------------------------


def _sparse_columns(X: Any) -> dict[int, tuple[Ints, Floats, int]]:
    """Return (rows, values, kind) of the columns of pandas whose cells are stored where they are not the fill value."""
    if not hasattr(X, "dtypes") or not hasattr(X, "iloc"):
        return {}
    columns: dict[int, tuple[Ints, Floats, int]] = {}
    if not any(type(dtype).__name__ == "SparseDtype" for dtype in X.dtypes):
        return {}
    for j, (_, column) in enumerate(X.items()):
        dtype = column.dtype
        if type(dtype).__name__ != "SparseDtype" or dtype.subtype.kind not in "biuf":
            continue
        fill = dtype.fill_value
        if not (fill == 0 or fill != fill):
            continue
        array = column.array
        places, values = array.sp_index.indices.astype(np.int64), np.asarray(array.sp_values, dtype=np.float64)
        present = ~np.isnan(values)
        columns[j] = places[present], values[present], INDICATOR if dtype.subtype.kind == "b" else NUMERIC
    return columns


def _all_numbers(X: Any, sparse: dict[int, Any]) -> bool:
    """Return whether the columns that are not sparse are numbers of numpy's own types."""
    dtypes = [dtype for j, dtype in enumerate(X.dtypes) if j not in sparse]
    return all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes)


def _sparse_table(X: Any, names: list[Any], sparse: dict[int, tuple[Ints, Floats, int]], n: int) -> SparseTable:
    from scipy.sparse import csc_array

    places, values, kinds = [], [], np.full(len(names), NUMERIC, dtype=np.uint8)
    for j in range(len(names)):
        if j in sparse:
            rows, cells, kinds[j] = sparse[j]
        else:
            cells = X.iloc[:, j].to_numpy(dtype=np.float64)
            rows = np.flatnonzero(~np.isnan(cells))
            cells = cells[rows]
        places.append(rows)
        values.append(cells)
    indptr = np.cumsum([0, *(rows.size for rows in places)])
    matrix = csc_array((np.concatenate(values), np.concatenate(places), indptr), shape=(n, len(names))).tocsr()
    return SparseTable(names, matrix, kinds)
