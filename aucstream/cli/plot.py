"""`--plot`: a picture of each model's AUC along the stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aucstream.cli.extras import require_extra
from aucstream.errors import InvalidParams
from aucstream.evaluate import Progress as Run


def check_plot(path: Path | None) -> None:
    """Raise where `--plot` cannot be written, before any work is done.

    Parameters
    ----------
    path : Path or None
        Value of the option; None: no plot.

    Raises
    ------
    InvalidParams
        matplotlib is missing, the suffix is unknown, or the folder does not exist.
    """
    if path is None:
        return
    require_extra("--plot", "plot")
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParams(f"--plot {path}", "a file name ending in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise InvalidParams(f"--plot {path}", "a file in a folder that exists")


def draw(path: Path, labels: Sequence[str], runs: Sequence[Run], title: str, window: int | None) -> None:
    """Write a picture: AUC against rows, and against seconds of learning.

    Parameters
    ----------
    path : Path
        File to write; its suffix is the format.
    labels : sequence of str
        Names of the models.
    runs : sequence of Progress
        Their runs, in the same order.
    title : str
        Shown above the curves.
    window : int or None
        Number of rows that the AUC of a point covers; None: all before it.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_rows, by_seconds) = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for label, run in zip(labels, runs, strict=True):
        rows, seconds, auc = zip(*run.curve, strict=True) if run.curve else ((), (), ())
        by_rows.plot(rows, auc, label=label)
        by_seconds.plot(seconds, auc, label=label)
    by_rows.set(xlabel="rows", ylabel="progressive AUC" + (f", last {window:,} rows" if window else ""))
    by_seconds.set(xlabel="seconds of learning")
    by_rows.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
