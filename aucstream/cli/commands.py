"""The commands, each a thin face of the library."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from aucstream.cli.chosen import Chosen, chosen_map, chosen_models
from aucstream.cli.fsck import fsck
from aucstream.cli.keys import keys
from aucstream.cli.plot import check_plot, draw
from aucstream.constraints import rules_of
from aucstream.errors import BadRow, BadSnapshot, InvalidBlock, InvalidParams
from aucstream.evaluate import Chunk, Race, shuffled
from aucstream.evaluate import Progress as Lane
from aucstream.features.maps.maps import map_class
from aucstream.io import Reader, Rows, read
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.registry import LEARNERS, learner_class
from aucstream.version import __version__

app = typer.Typer(
    name="aucstream",
    help="Streaming AUC maximization: rank algorithms on a file, train, score, serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Data = Annotated[
    str, typer.Argument(help="svmlight, CSV, NDJSON, Parquet or Arrow file; .gz .bz2 .zst; - is standard input")
]
Model = Annotated[list[str], typer.Option("--model", "-m", help="NAME[:param=value,…], several times; or all")]
OneModel = Annotated[str, typer.Option("--model", "-m", help="NAME[:param=value,…]")]
Scale = Annotated[str, typer.Option(help="auto, standard+bounded, scale+bounded, standard, standard+l2, l2 or none")]
Map = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="feature map KIND[:param=value,…]: kmeansnystroem, randomfourier, randomthresholds or randomnetwork; "
        "scores are 0 until its warm-up (1000 rows by default) is over, at the end of DATA at the latest",
    ),
]
Label = Annotated[str | None, typer.Option(help="label column of a table")]
Positive = Annotated[str | None, typer.Option(help="text of a positive label")]
Delimiter = Annotated[str | None, typer.Option(help="of a CSV; sniffed among , ; tab otherwise")]
Format = Annotated[
    str | None, typer.Option("--format", help="svmlight, csv, ndjson, parquet or arrow, whatever the name says")
]
Shuffle = Annotated[
    bool, typer.Option("--shuffle", help="random order by --seed (held in memory); file order otherwise")
]
Passes = Annotated[int, typer.Option(help="passes over DATA")]
Seed = Annotated[int, typer.Option(help="of the shuffle and of the models, 0 or more")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"aucstream {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version")
    ] = False,
) -> None:
    """Streaming AUC maximization."""


@app.command()
def models() -> None:
    """List the algorithms: parameters, defaults, cost, paper."""
    table = Table(title=f"{len(LEARNERS)} algorithms", title_justify="left")
    for column in ("model", "what it does", "parameters and defaults", "step", "paper"):
        table.add_column(column, overflow="fold", no_wrap=column in ("model", "step", "paper"))
    for name, entry in LEARNERS.items():
        cls = learner_class(name)
        fresh = cls()
        params = ", ".join(f"{param}={getattr(fresh, param)!r}" for param in rules_of(cls))
        table.add_row(name, (cls.__doc__ or "").strip().splitlines()[0], params, entry.step, entry.paper)
    _console(160).print(table)


@app.command()
def evaluate(
    data: Data,
    model: Model,
    test: Annotated[str | None, typer.Option(help="held-out file, scored after the last row")] = None,
    scale: Scale = "auto",
    map_: Map = None,
    shuffle: Shuffle = False,
    passes: Passes = 1,
    window: Annotated[int | None, typer.Option(help="rows the plotted AUC looks back on; all otherwise")] = None,
    seed: Seed = 0,
    label: Label = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    format: Format = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
    plot: Annotated[Path | None, typer.Option(help="write the AUC curves to this .png, .svg or .pdf")] = None,
) -> None:
    """Score each row, then learn it; compare algorithms by AUC, with interval and held-out AUC."""
    check_plot(plot)
    _check_numbers(passes=passes, window=window, seed=seed)
    chosen = chosen_models(model)
    mapped = chosen_map(map_)
    race = Race([one.pipeline(scale, seed, mapped) for one in chosen], window=window)
    options = Options(label, positive, delimiter, format)
    with _progress() as progress:
        _run(race, data, passes=passes, seed=seed if shuffle else None, progress=progress, options=options)
        if test is not None:
            with _open(test, options) as reader:
                race.test(_watched(reader, progress, "test"))
    _remark(chosen, race.lanes, data, test, mapped)
    if as_json:
        for one, lane in zip(chosen, race.lanes, strict=True):
            typer.echo(json.dumps(_result(one, lane), allow_nan=False))
    else:
        _print_results(chosen, race.lanes, data, test, scale, map_)
    if plot is not None:
        draw(plot, [one.label for one in chosen], race.lanes, Path(data).name, window)


@app.command()
def train(
    data: Data,
    model: OneModel,
    out: Annotated[Path, typer.Option(help="where the model is written")],
    scale: Scale = "auto",
    map_: Map = None,
    shuffle: Shuffle = False,
    passes: Passes = 1,
    seed: Seed = 0,
    label: Label = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    format: Format = None,
) -> None:
    """Learn a file and save the model."""
    from aucstream import snapshot

    _check_numbers(passes=passes, seed=seed)
    chosen = chosen_models([model])
    if len(chosen) != 1:
        raise InvalidParams("--model", "one algorithm", model)
    _check_out(out)
    race = Race([chosen[0].pipeline(scale, seed, chosen_map(map_))])
    options = Options(label, positive, delimiter, format)
    with _progress() as progress:
        _run(race, data, passes=passes, seed=seed if shuffle else None, progress=progress, options=options)
    lane = race.lanes[0]
    arrays, meta = lane.model.state_dict()
    result = _result(chosen[0], lane)
    meta["training"] = {key: result[key] for key in ("rows", "positives", "progressive_auc", "auc_low", "auc_high")}
    snapshot.write(out, snapshot.pack(arrays, meta))
    typer.echo(f"{out}: {chosen[0].label}, {lane.rows:,} rows, progressive AUC {_shown(result['progressive_auc'])}")


@app.command()
def score(
    file: Annotated[Path, typer.Argument(help="a saved model")],
    data: Data,
    out: Annotated[Path | None, typer.Option(help="NDJSON file; standard output otherwise")] = None,
    label: Annotated[str | None, typer.Option(help="label column of a table, left out of the features")] = None,
    delimiter: Delimiter = None,
    format: Format = None,
) -> None:
    """Score the rows of a file: one line {"score", "probability"} each."""
    model, _ = _saved(file)
    calibrated = getattr(model, "calibration", "logistic") != "none"
    options = Options(label, None, delimiter, format)
    if out is not None:
        _check_out(out)
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(_open(data, options, labelled=False))
        target = stack.enter_context(out.open("w")) if out is not None else sys.stdout
        for chunk in reader:
            scores = model.score_chunk(chunk)
            probabilities = model.probabilities(scores).tolist() if calibrated else [None] * len(scores)
            for number, probability in zip(scores.tolist(), probabilities, strict=True):
                target.write(json.dumps({"score": number, "probability": probability}) + "\n")


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="a saved model")],
    top: Annotated[int, typer.Option(min=0, help="weights shown, largest first")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
) -> None:
    """Look inside a saved model: algorithm, rows, AUC, largest weights."""
    model, meta = _saved(file)
    learner = meta.get("learner", meta)
    training = meta.get("training", {})
    try:
        weights = sorted(model.weights.items(), key=lambda item: -abs(item[1]))[:top]
    except InvalidParams:
        weights = []
    facts: dict[str, Any] = {
        "class": meta["class"],
        "algorithm": learner["class"].lower(),
        "params": learner["params"],
        "scaler": meta.get("resolved"),
        "map": meta["map"]["spec"] if meta.get("map") else None,
        "encoder": meta["map"]["encoder"] if meta.get("map") else learner["encoder"],
        "examples": model.examples,
        "positives": model.positives,
        "progressive_auc": training.get("progressive_auc"),
        "auc_low": training.get("auc_low"),
        "auc_high": training.get("auc_high"),
        "weights": [{"name": name, "weight": weight} for name, weight in weights],
    }
    if as_json:
        typer.echo(json.dumps(facts, allow_nan=False))
        return
    table = Table(show_header=False, title=str(file), title_justify="left")
    for key, value in facts.items():
        if key != "weights":
            table.add_row(key, _shown(value) if value is None or isinstance(value, float) else str(value))
    console = _console(120)
    console.print(table)
    if weights:
        largest = Table("name", "weight", title="largest weights", title_justify="left")
        for name, weight in weights:
            largest.add_row(str(name), f"{weight:+.6g}")
        console.print(largest)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Start the HTTP service; `aucstream serve --help` lists its settings."""
    importlib.import_module("aucstream_service.ops.main").process(context.args)


app.add_typer(keys)
app.command()(fsck)


@app.command()
def warm(
    model: Annotated[list[str] | None, typer.Option("--model", "-m", help="only these; all otherwise")] = None,
) -> None:
    """Compile the kernels and keep them in the cache."""
    from aucstream.kernels.jit import CACHE_BASE
    from aucstream.warmup import warm as run

    run(None if not model else [one.name for one in chosen_models(model)], lambda name: typer.echo(f"warm: {name}"))
    typer.echo(f"cache: {CACHE_BASE}" if CACHE_BASE else "cache: none, nothing is kept")


# -- shared by the commands ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """How files are read."""

    label: str | None
    positive: str | None
    delimiter: str | None
    format: str | None


def _open(path: str, options: Options, *, labelled: bool = True, told: bool = True) -> Reader:
    """Open DATA; say (`told`) what delimiter was sniffed."""
    reader = read(
        path,
        label=options.label,
        positive=options.positive,
        delimiter=options.delimiter,
        format=options.format,
        labelled=labelled,
    )
    if told and reader.delimiter is not None:
        print(f"{reader.name}: delimiter {reader.delimiter!r}", file=sys.stderr)
    return reader


def _saved(file: Path) -> tuple[RankingClassifier, dict[str, Any]]:
    """Return a saved model and its header; every refusal names the file."""
    from aucstream.loading import model_from_state, unpacked

    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidParams(str(file), f"a saved model that can be read ({error.strerror})") from error
    try:
        arrays, meta = unpacked(data)
        return model_from_state(arrays, meta), meta
    except BadSnapshot as error:
        raise type(error)(str(file), error.expected, error.got, path=error.path) from error


def _check_numbers(**options: int | None) -> None:
    for name, value in options.items():
        least = 0 if name == "seed" else 1
        if value is not None and value < least:
            raise InvalidParams(f"--{name}", f"a whole number >= {least}", value)


def _check_out(out: Path) -> None:
    """Raise where a file cannot be written, before the work is done."""
    if not out.resolve().parent.is_dir() or out.is_dir():
        raise InvalidParams(f"--out {out}", "a file in a folder that exists")


def _console(width: int) -> Console:
    """Standard output; names from data are shown as they are, not as markup."""
    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False, highlight=False)


def _run(
    race: Race,
    data: str,
    *,
    passes: int,
    seed: int | None,
    progress: Progress,
    options: Options,
) -> None:
    """Feed `data` to all models, `passes` times; each pass of a shuffled run has its own order."""
    held: list[Chunk] | None = None
    if data == "-" and passes > 1:
        with _open(data, options) as reader:
            held = list(_watched(reader, progress, "read"))
    for number in range(passes):
        name = "learn" if passes == 1 else f"pass {number + 1}"
        order = None if seed is None else seed + number
        if held is not None:
            _learn(race, data, held, order, progress)
        else:
            with _open(data, options, told=number == 0) as reader:
                _learn(race, data, _watched(reader, progress, name), order, progress)
        race.end_pass()


def _learn(race: Race, data: str, chunks: Iterable[Chunk], seed: int | None, progress: Progress) -> None:
    """Feed one pass over the chunks of `data` to all models; a seed shuffles them."""
    for chunk in chunks if seed is None else shuffled(chunks, seed):
        with _located(data, chunk):
            if not race.warm:
                _compile(race, chunk, progress)
            race.learn(chunk)


def _compile(race: Race, chunk: Chunk, progress: Progress) -> None:
    """Compile the kernels, or load them, before time is measured."""
    task = progress.add_task("compile", total=len(race.lanes), rows=0)
    race.compile(chunk, done=lambda: progress.advance(task))
    progress.remove_task(task)


@contextlib.contextmanager
def _located(data: str, chunk: Chunk) -> Iterator[None]:
    """Give a row that only the model can refuse its file and line."""
    try:
        yield
    except InvalidBlock as error:
        found = re.match(r"\[(\d+)\](?:\['?(.*?)'?\])?$", error.path)
        if found is None or not isinstance(chunk, Rows):
            raise
        line = int(chunk.lines[int(found[1])])
        raise BadRow(data, line, found[2] or "", error.expected, error.got) from None


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def _watched(reader: Reader, progress: Progress, name: str) -> Iterator[Chunk]:
    """Yield a reader's chunks, moving a progress bar by the bytes read."""
    task = progress.add_task(name, total=reader.bytes_total, rows=0)
    rows = 0
    for chunk in reader:
        yield chunk
        rows += len(chunk)
        progress.update(task, completed=reader.bytes_read, rows=rows)
    progress.update(task, completed=reader.bytes_read, total=reader.bytes_read, rows=rows)


def _result(one: Chosen, lane: Lane) -> dict[str, Any]:
    estimate = lane.progressive
    low, high = estimate.interval()
    seconds = lane.seconds
    return {
        "model": one.name,
        "params": {**_defaults(one.name), **one.given},
        "rows": int(lane.signs.size),
        "positives": lane.positives,
        "progressive_auc": _known(estimate.auc),
        "auc_low": _known(low),
        "auc_high": _known(high),
        "test_auc": None if lane.test is None else _known(lane.test.auc),
        "seconds": round(seconds, 6),
        "rows_per_second": round(lane.rows / seconds, 1) if seconds > 0 else None,
    }


def _defaults(name: str) -> dict[str, Any]:
    fresh = learner_class(name)()
    return {param: getattr(fresh, param) for param in rules_of(type(fresh))}


def _note(lane: Lane) -> str:
    if lane.refused is not None:
        return " (refused)"
    return f" ({lane.skipped} rows skipped)" if lane.skipped else ""


def _remark(
    chosen: list[Chosen], lanes: list[Lane], data: str, test: str | None, mapped: dict[str, Any] | None
) -> None:
    """Say on standard error what a number alone would hide."""

    def say(text: str) -> None:
        print(f"aucstream: {text}", file=sys.stderr)

    for one, lane in zip(chosen, lanes, strict=True):
        if lane.refused is not None:
            say(f"{one.label} is out of the race: {lane.refused}")
    there = [lane for lane in lanes if lane.refused is None]
    rows, positives = int(there[0].signs.size), there[0].positives
    if rows == 0 or positives in (0, rows):
        kind = "no rows" if rows == 0 else "rows of one class only"
        say(f"{data} has {kind}: no AUC")
    elif test is not None and there[0].test is not None and math.isnan(there[0].test.auc):
        say(f"{test} has no rows of both classes: no test AUC, ranked by the progressive one")
    if mapped is not None and rows:
        warmup = mapped.get("warmup", map_class(mapped["kind"], "--map").warmup)
        say(f"the first {min(warmup, rows)} rows, the map's warm-up, are scored 0 and count in the progressive AUC")


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.4f}"


def _print_results(
    chosen: list[Chosen], lanes: list[Lane], data: str, test: str | None, scale: str, map_: str | None
) -> None:
    results = sorted(
        zip(chosen, lanes, (_result(one, lane) for one, lane in zip(chosen, lanes, strict=True)), strict=True),
        key=lambda item: [-(item[2][key] or 0.0) for key in ("test_auc", "progressive_auc")],
    )
    first = results[0][2]
    resolved = getattr(lanes[0].model, "resolved", None) or {"scaler": scale}
    table = Table(
        title=f"{data}: {first['rows']:,} rows, {first['positives']:,} positive; scaling {resolved['scaler']}"
        + ("" if map_ is None else f"; map {map_}"),
        title_justify="left",
    )
    table.add_column("model", overflow="fold")
    for column in ("progressive AUC", "95 % interval", "test AUC", "seconds", "rows/s"):
        table.add_column(column, justify="right")
    for one, lane, result in results:
        low, high = result["auc_low"], result["auc_high"]
        table.add_row(
            one.label + _note(lane),
            _shown(result["progressive_auc"]),
            "-" if low is None else f"{low:.4f} to {high:.4f}",
            _shown(result["test_auc"]),
            f"{result['seconds']:.2f}",
            "-" if result["rows_per_second"] is None else f"{result['rows_per_second']:,.0f}",
        )
    _console(120).print(table)
