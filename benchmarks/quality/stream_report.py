"""The page and the picture of the lines that `streams.py` has stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aucstream.registry import LEARNERS
from benchmarks.quality.stream_sets import IN_TIME, NAMES, ORDERS
from benchmarks.quality.stream_systems import OTHERS, PEERS, SLOW

SORTED = ("svmguide3", "w7a", "w8a")  # files with one class after the other
FIRST = ("psam", "ftrl")  # the learners that are quick in the first rows
Line = dict[str, str]
Stream = tuple[str, str]  # set, order
Figures = dict[str, Line]  # system to line

HEAD = """# Auto beside learners and peers on many streams

Made by `benchmarks/quality/streams.py --report` from `benchmarks/quality/streams.csv`; each line of that file has the command
that made it. To measure all again, or one set:

```sh
python benchmarks/quality/streams.py
python benchmarks/quality/streams.py --sets elec2 --systems auto,psam,peers
python benchmarks/quality/streams.py --report
```

AUC is progressive: of what was said of each row before it was learned. "Held out" is the model as it is at the end, on rows
that were never learned. An empty cell: not run, refused since the rows have too many columns, or only one class among those
rows. Order "own" is that of the file or the generator, "shuffled" one random permutation.

The rows of elec2 and bank_full come in time; the last 20 % are held out where there is no official test part. a9a is its first
20,000 rows, a9a03 is a9a with .3 % positives to learn and 24 % held out. w8a has the rows of w7a and of its test part. The files
of svmguide3, w7a and w8a are sorted by class: in their own order it is easy to say the class of the row before. Rows are sparse
in w7a, w8a, farm_ads, made2000 and merchants, dense elsewhere. abrupt, gradual, units, wander and made2000 are generated with
drift, many units or many columns; merchants has one telling column and 300 words that say nothing; burst has 999 equal rare
events in a row; in unit-10 and unit-1000 a column changes its unit after a third of the rows.

**The peers** are 56 settings (45 where rows are sparse):

- River's logistic regression (SGD, intercept rate .01) at rates .003, .01, .03, .1, .3, 1, 3, 10, and with positives weighted by
  min(50, negatives / positives) at rates .01, .1, 1, on rows of unit length (`l2`), standardised by all rows to learn (`standard`;
  sparse rows are scaled and not centred), the same with unit length after it, and standardised by the rows so far (`running`;
  dense rows alone);
- Vowpal Wabbit's logistic regression (`-b 18`) at `-l` .5, its default, .1, 2, 10, on raw rows, `l2` and `standard+l2`.

The best of them is looked up *afterwards, for each figure by itself*. `standard` looks ahead. Nobody who runs a stream has either.
"""


def write(lines: list[Line], folder: Path) -> None:
    """Write auto_streams.md and auto_streams.svg into a folder."""
    whole = _largest(lines)
    parts = [HEAD]
    for order, title in (("own", "In their own order"), ("shuffled", "Shuffled")):
        parts += [f"## Auto and the best peer: {title.lower()}", "", *_against_peers(whole, order), ""]
    parts += ["![Progressive AUC of Auto less the best of the peers](auto_streams.svg)", ""]
    parts += ["## Vowpal Wabbit and River as they come", "", *_as_they_come(whole), ""]
    parts += ["## River's forests", "", *_forests(lines), ""]
    for order, title in (("own", "own order"), ("shuffled", "shuffled")):
        for field, what in (("auc", "progressive AUC"), ("held_auc", "AUC on held-out rows")):
            parts += [f"## Every learner: {what}, {title}", "", *_learners(whole, order, field, _percent), ""]
    parts += ["## Log loss on held-out rows, own order", "", *_learners(whole, "own", "held_log_loss", _three), ""]
    parts += [
        "## Microseconds a row",
        "",
        "Processor time of one thread, rows scored and learned in blocks where the learner is of aucstream, else in a loop over",
        "dicts or text that were made before. Other programs ran on the machine.",
        "",
        *_learners(whole, "own", "us_row", lambda value: f"{value:.0f}" if value >= 10.0 else f"{value:.1f}"),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "auto_streams.md").write_text("\n".join(parts))
    _draw(whole, folder / "auto_streams.svg")


# -- tables ------------------------------------------------------------------------------------------


def _largest(lines: list[Line]) -> dict[Stream, Figures]:
    """Return the lines of each stream that learned the most rows of it."""
    most: dict[Stream, int] = {}
    for line in lines:
        stream = line["set"], line["order"]
        most[stream] = max(most.get(stream, 0), int(line["rows"]))
    found: dict[Stream, Figures] = {}
    for name in NAMES:
        for order in ORDERS:
            rows = str(most.get((name, order)))
            figures = {x["system"]: x for x in lines if (x["set"], x["order"], x["rows"]) == (name, order, rows)}
            if figures:
                found[name, order] = figures
    return found


def _figure(line: Line | None, field: str) -> float | None:
    return float(line[field]) if line is not None and line[field] else None


def _peers_of(figures: Figures) -> tuple[str, ...]:
    """Return the peers of a stream where all of them were run, else none: the best of a part would say nothing."""
    dense = any(":running" in system for system in figures)
    peers = tuple(system for system in PEERS if dense or ":running" not in system)
    return peers if all(system in figures for system in peers) else ()


def _best(figures: Figures, systems: tuple[str, ...], field: str, *, lowest: bool = False) -> tuple[float, str] | None:
    """Return the best figure of some systems and whose it is."""
    found = [(value, system) for system in systems if (value := _figure(figures.get(system), field)) is not None]
    return (min(found) if lowest else max(found)) if found else None


def _against_peers(whole: dict[Stream, Figures], order: str) -> list[str]:
    head = (
        *("set", "rows", "Auto", "less the peer", "best peer", "first 300", "first 1,000", "second half"),
        *("first 300, less PSAM or FTRL", "held out", "less the peer", "log loss", "less the peer"),
    )
    table = [_row(head), _rule(len(head))]
    for (name, this_order), figures in whole.items():
        auto = figures.get("auto")
        peer = _best(figures, _peers_of(figures), "auc")
        if this_order != order or auto is None or peer is None:
            continue
        cells = [name + (" (in time)" if name in IN_TIME and order == "own" else ""), f"{int(auto['rows']):,}"]
        cells += [_four(_figure(auto, "auc")), _less(figures, "auc"), f"`{peer[1]}`"]
        cells += [_less(figures, field) for field in ("auc_300", "auc_1000", "auc_half")]
        cells += [_less(figures, "auc_300", FIRST)]
        cells += [_four(_figure(auto, "held_auc")), _less(figures, "held_auc")]
        cells += [_three(_figure(auto, "held_log_loss")), _less(figures, "held_log_loss", lowest=True, digits=3)]
        table.append(_row(cells))
    return [*table, "", *_summary(whole, order)]


def _summary(whole: dict[Stream, Figures], order: str) -> list[str]:
    differences = _differences(whole, order)
    if not differences:
        return []
    mixed = [value for name, value in differences.items() if order != "own" or name not in SORTED]
    behind = sorted(
        (name for name, value in differences.items() if value < -0.0005), key=lambda name: differences[name]
    )
    short = ", ".join(f"{name} {differences[name]:+.4f}" for name in behind) or "none"
    without = ", without the files sorted by class" if len(mixed) < len(differences) else ""
    return [
        f"Progressive AUC of Auto less the best peer: mean {sum(mixed) / len(mixed):+.4f} over {len(mixed)} sets{without}. "
        f"More than .0005 below it: {short}.",
        "The columns first 300, first 1,000 and second half are differences to the best peer on those very rows.",
    ]


def _differences(whole: dict[Stream, Figures], order: str, field: str = "auc") -> dict[str, float]:
    """Return Auto's figure less the best peer's, by set."""
    found = {}
    for (name, this_order), figures in whole.items():
        auto, peer = _figure(figures.get("auto"), field), _best(figures, _peers_of(figures), field)
        if this_order == order and auto is not None and peer is not None:
            found[name] = auto - peer[0]
    return found


def _as_they_come(whole: dict[Stream, Figures]) -> list[str]:
    """Return progressive AUC of Auto and of the peers' packages at their defaults."""
    systems = ("auto", *OTHERS, "vw:raw:0.5")
    titles = ("Auto", "River scaled LR", "River Hoeffding adaptive tree", "Vowpal Wabbit -q ::", "Vowpal Wabbit")
    table = [_row(("set", "order", *titles)), _rule(2 + len(titles))]
    for (name, order), figures in whole.items():
        cells = [_four(_figure(figures.get(system), "auc")) for system in systems]
        if any(cells[1:]):
            table.append(_row((name, order, *cells)))
    return [
        "Progressive AUC. Rows are raw; the logistic regression of River stands behind its `StandardScaler`.",
        "",
        *table,
    ]


def _forests(lines: list[Line]) -> list[str]:
    """Return Auto and the forests on the same rows."""
    streams: dict[tuple[str, str, str], Figures] = {}
    for line in lines:
        streams.setdefault((line["set"], line["order"], line["rows"]), {})[line["system"]] = line
    head = ("set", "order", "rows", "Auto", "ARF, 10 trees", "AMF, 10 trees", "Auto, us", "ARF, us", "AMF, us")
    table = [_row(head), _rule(len(head))]
    systems = ("auto", *SLOW)
    for (name, order, rows), figures in streams.items():
        if not any(system in figures for system in SLOW):
            continue
        areas = [_four(_figure(figures.get(system), "auc")) for system in systems]
        times = ["" if (us := _figure(figures.get(s), "us_row")) is None else f"{us:,.0f}" for s in systems]
        table.append(_row((name, order, f"{int(rows):,}", *areas, *times)))
    return [
        "Progressive AUC and microseconds a row on the first rows of each set, Auto on the same rows: at milliseconds a row the",
        "forests are not run on all. Auto's first rows are its dearest ones.",
        "",
        *table,
    ]


def _learners(whole: dict[Stream, Figures], order: str, field: str, text: Callable[[float], str]) -> list[str]:
    """Return a table of systems by sets."""
    systems = [*LEARNERS, *OTHERS, "vw:raw:0.5"]
    streams = [stream for stream in whole if stream[1] == order and any(s in whole[stream] for s in systems)]
    table = [_row(["", *(name for name, _ in streams)]), _rule(1 + len(streams))]
    for system in systems:
        values = [_figure(whole[stream].get(system), field) for stream in streams]
        if any(value is not None for value in values):
            table.append(_row([f"`{system}`", *("" if value is None else text(value) for value in values)]))
    return table


def _less(
    figures: Figures, field: str, others: tuple[str, ...] | None = None, *, lowest: bool = False, digits: int = 4
) -> str:
    own, peer = _figure(figures.get("auto"), field), _best(figures, others or _peers_of(figures), field, lowest=lowest)
    return "" if own is None or peer is None else f"{own - peer[0]:+.{digits}f}"


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}"


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _four(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return "|---" * columns + "|"


# -- picture -----------------------------------------------------------------------------------------


def _draw(whole: dict[Stream, Figures], path: Path) -> None:
    """Draw the differences of `_differences` for each set and order."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "streams"  # the same picture from the same lines
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    names = [name for name in NAMES if any(name in _differences(whole, order) for order in ORDERS)]
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 1.2 + 0.24 * len(names)), sharey=True, layout="constrained")
    for panel, field, title in zip(panels, ("auc", "held_auc"), ("progressive", "held out"), strict=True):
        for order, marker in zip(ORDERS, "os", strict=True):
            values = _differences(whole, order, field)
            at = [names.index(name) for name in values]
            panel.plot(list(values.values()), at, marker, fillstyle="full" if order == "own" else "none", label=order)
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set(
            xlabel=f"AUC of Auto less the best of the peers, {title}", yticks=range(len(names)), yticklabels=names
        )
        panel.grid(alpha=0.3)
    panels[0].invert_yaxis()
    panels[0].legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
