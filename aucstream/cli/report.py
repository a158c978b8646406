"""`aucstream report`: one HTML file of what models are worth on a file; nothing in it is loaded from elsewhere."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from aucstream.cli import report_plots
from aucstream.cli.data_table import data_table_rows
from aucstream.cli.extras import require_extra
from aucstream.cli.options import check_output
from aucstream.errors import InvalidParams
from aucstream.evaluate import Progress as Run
from aucstream.metrics.operating_points import OperatingPoint
from aucstream.version import __version__

MOST_WEIGHTS = 25
DEFAULT_POINTS = ("fpr=0.01", "fpr=0.05", "top=100", "top=0.01")
SHARES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of rows called positive, in the table of thresholds

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --faint: #6b7580; --line: #d9dee3; --paper: #ffffff; --bar: #f2f5f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --faint: #97a3ae; --line: #39434d; --paper: #14191e; --bar: #1e252c; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
p, figcaption { margin: .3rem 0; color: var(--faint); }
code { overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--bar); font-weight: 600; }
td { white-space: nowrap; }
td.text, th.text { text-align: left; white-space: normal; min-width: 5.5rem; }
figure { margin: 0; }
svg { width: 100%; height: auto; display: block; }
svg text { font-family: system-ui, sans-serif; }
.plots { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); }
ul { margin: .3rem 0; padding-left: 1.2rem; }
@media print { .plots { grid-template-columns: 1fr 1fr; } h2, figure { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Report:
    """What a report says.

    Attributes
    ----------
    title : str
        Name of the data.
    labels : list of str
        Names of the models.
    runs : list of Progress
    objects : list of dict
        What `figures_object` returns of them.
    scaling : str
        Of the first model.
    window : int or None
        Rows that a point of the AUC over time covers.
    columns : dict or None
        What `data_facts` returns; None: not known.
    remarks : list of str
    command : str
        That made the report.
    moment : datetime
    """

    title: str
    labels: list[str]
    runs: list[Run]
    objects: list[dict[str, Any]]
    scaling: str
    window: int | None
    columns: dict[str, Any] | None
    remarks: list[str] = field(default_factory=list)
    command: str = ""
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))


def check_report(out: Path) -> None:
    """Raise where a report cannot be written, before any work is done.

    Parameters
    ----------
    out : Path
        Value of `--out`.

    Raises
    ------
    InvalidParams
        matplotlib is missing, the suffix is another, or the folder does not exist.
    """
    require_extra("report", "plot")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidParams(f"--out {out}", "a file name ending in .html")
    check_output(out)


def report_points(texts: Sequence[str]) -> list[OperatingPoint]:
    """Return the cuts that `--at` names, or some usual ones."""
    return [OperatingPoint.of_text("--at", text, "=") for text in texts or DEFAULT_POINTS]


def page(report: Report) -> str:
    """Return the HTML of a report. What comes from the data stands in it as text.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str
    """
    order = sorted(range(len(report.runs)), key=lambda i: -(report.objects[i]["progressive_auc"] or 0.0))
    ranked = [(report.labels[i], report.runs[i], report.objects[i]) for i in order]
    curves = [(label, run) for label, run, _ in ranked if run.refused is None]
    first = ranked[0][2]
    share = first["positives"] / first["rows"] if first["rows"] else math.nan
    parts = [
        f"<h1>{_text(report.title)}</h1>",
        f"<p>{first['rows']:,} rows, {first['positives']:,} positive ({share:.2%}); scaling {_text(report.scaling)}. "
        f"{report.moment:%Y-%m-%d %H:%M} UTC, aucstream {_text(__version__)}</p>",
        f"<p><code>{_text(report.command)}</code></p>" if report.command else "",
        _remarks(report.remarks),
        "<h2>Models</h2>",
        "<p>Each row was scored before it was learned. Intervals are of 95 %.</p>",
        _models(ranked, report.labels[0]),
        "<h2>Curves</h2>",
        _plots(curves, report.window),
        f"<h2>Cuts of {_text(ranked[0][0])}</h2>" if curves else "",
        _cuts(first["at"]),
        _thresholds(ranked[0][1]) if curves else "",
        _weights(ranked[0][0], ranked[0][1]) if curves else "",
        _columns(report.columns),
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(report.title)}: AUC</title><style>{STYLE}</style></head><body>"
    )
    return head + "\n".join(part for part in parts if part) + "</body></html>\n"


def _text(value: object) -> str:
    return html.escape(str(value))


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> str:
    """Return a table whose first columns are texts, the others numbers."""

    def cells(tag: str, values: Sequence[object]) -> str:
        kinds = [' class="text"' if at < texts else "" for at in range(len(values))]
        return "".join(f"<{tag}{kind}>{_text(value)}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _remarks(remarks: Sequence[str]) -> str:
    if not remarks:
        return ""
    return "<h2>Remarks</h2><ul>" + "".join(f"<li>{_text(remark)}</li>" for remark in remarks) + "</ul>"


def _models(ranked: Sequence[tuple[str, Run, dict[str, Any]]], first: str) -> str:
    heads = ["model", "AUC", "interval", "average precision", "log loss", "Brier", "calibration error"]
    tested = any(one["test_auc"] is not None for _, _, one in ranked)
    heads += ["test AUC"] if tested else []
    heads += [f"AUC less that of {first}"] if len(ranked) > 1 else []
    rows = []
    for label, run, one in ranked:
        row = [label + (" (refused)" if run.refused is not None else ""), _number(one["progressive_auc"])]
        row += [_interval(one["auc_low"], one["auc_high"]), _number(one["average_precision"])]
        row += [_number(one[name]) for name in ("log_loss", "brier", "expected_calibration_error")]
        row += [_number(one["test_auc"])] if tested else []
        if len(ranked) > 1:
            part = one["difference"] and one["difference"]["progressive"]
            there = part and part["difference"] is not None
            row.append(f"{part['difference']:+.4f} ({_interval(part['low'], part['high'])})" if there else "–")
        rows.append([*row, f"{one['seconds']:.2f}"])
    return _table([*heads, "seconds"], rows)


def _plots(curves: Sequence[tuple[str, Run]], window: int | None) -> str:
    if not curves:
        return "<p>No model took the rows.</p>"
    best = curves[0][0]
    plots = [
        (report_plots.roc(curves), "ROC: the higher, the more positives are above so many of the negatives."),
        (report_plots.precision_recall(curves), "Precision and recall: of the rows called positive, how many are."),
        (report_plots.calibration(curves), "Calibration: on the line a probability is the share that it says."),
        (report_plots.auc_over_time(curves, window), "AUC along the stream."),
        (report_plots.histograms(curves[0][1]), f"Scores of both classes by {best}, each of height 1 in sum."),
    ]
    figures = [f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>" for svg, caption in plots if svg]
    return f'<div class="plots">{"".join(figures)}</div>'


def _cuts(points: Sequence[Mapping[str, Any]]) -> str:
    heads = ["at", "score from", "rows", "precision", "interval", "recall", "interval", "lift", "cost"]
    rows = [
        [
            point["at"],
            _number(point["threshold"], 5),
            "–" if point["rows"] is None else f"{point['rows']:,.0f}",
            _number(point["precision"]),
            _interval(point["precision_low"], point["precision_high"]),
            _number(point["recall"]),
            _interval(point["recall_low"], point["recall_high"]),
            _number(point["lift"], 2),
            _number(point["cost"]),
        ]
        for point in points
    ]
    return _table(heads, rows) if rows else ""


def _thresholds(run: Run) -> str:
    """Return a table of thresholds, by how many of a thousand rows they call positive."""
    ranking = run.ranking
    if not ranking.ready:
        return ""
    above = ranking.true + ranking.false
    rows = []
    for share in SHARES:
        at = min(int(np.searchsorted(above, share * ranking.rows)), above.size - 1)
        true, false = float(ranking.true[at]), float(ranking.false[at])
        rows.append(
            [
                f"{1000 * (true + false) / ranking.rows:.1f}",
                f"{ranking.scores[at]:.5f}",
                f"{true / (true + false):.4f}",
                f"{true / ranking.positives:.4f}",
                f"{false / ranking.negatives:.4f}",
            ]
        )
    rows = [row for at, row in enumerate(rows) if at == 0 or row != rows[at - 1]]
    heads = ["rows called positive, of 1,000", "score from", "precision", "recall", "false-positive rate"]
    return "<h2>Thresholds</h2>" + _table(heads, rows, texts=0)


def _weights(label: str, run: Run) -> str:
    learner = getattr(run.model, "learner", run.model)
    members = getattr(learner, "members", [])
    if members:
        rows = [
            [
                member["name"],
                f"{member['local_weight']:.3f}",
                f"{member['global_weight']:.3f}",
                _number(member["auc"] if member["auc"] == member["auc"] else None),
                f"{member['cost']:g}" if member["resting_since"] is None else "rests",
            ]
            for member in sorted(members, key=lambda member: -member["local_weight"])
        ]
        heads = ["member", "weight, local", "weight, global", "AUC, fading", "cost, in PSAM's"]
        return f"<h2>Members of {_text(label)}</h2>" + _table(heads, rows)
    try:
        weights = sorted(run.model.weights.items(), key=lambda item: -abs(item[1]))[:MOST_WEIGHTS]
    except InvalidParams:  # hashed or mapped features have no names, and some learners no weights
        return ""
    rows = [[str(name), f"{weight:+.5g}"] for name, weight in weights]
    return f"<h2>Largest weights of {_text(label)}</h2>" + _table(["name", "weight, of the scaled value"], rows)


def _columns(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return ""
    heads = ["column", "kind", "values", "distinct", "missing", "remark"]
    rows, note = data_table_rows(facts)
    return "<h2>Columns</h2>" + _table(heads, rows, texts=3) + (f"<p>{_text(note)}</p>" if note else "")
