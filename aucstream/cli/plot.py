"""`--plot`: the AUC of each model along the stream, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aucstream.errors import InvalidParams
from aucstream.evaluate import Progress


def check_plot(path: Path | None) -> None:
    """Raise where a plot was asked for and cannot be made, before the work is done."""
    if path is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidParams("--plot", "matplotlib, which `pip install 'aucstream[plot]'` brings") from None
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParams(f"--plot {path}", "a file name ending in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise InvalidParams(f"--plot {path}", "a file in a folder that exists")


def draw(path: Path, labels: Sequence[str], lanes: Sequence[Progress], title: str, window: int | None) -> None:
    """Write AUC against rows and against seconds to `path`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_rows, by_seconds) = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for label, lane in zip(labels, lanes, strict=True):
        rows, seconds, auc = zip(*lane.curve, strict=True) if lane.curve else ((), (), ())
        by_rows.plot(rows, auc, label=label)
        by_seconds.plot(seconds, auc, label=label)
    by_rows.set(xlabel="rows", ylabel="progressive AUC" + (f", last {window:,} rows" if window else ""))
    by_seconds.set(xlabel="seconds of learning")
    by_rows.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
