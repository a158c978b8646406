"""The commands; each calls the library and prints."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from aucstream.cli.choices import map_spec, model_choices, vocabulary_choice
from aucstream.cli.data_table import data_facts, data_table
from aucstream.cli.extras import require_extra
from aucstream.cli.figures import RunPlace, figures_object, figures_table, points_table, runs_table
from aucstream.cli.fsck import fsck
from aucstream.cli.ids import check_id, split_ids, with_id
from aucstream.cli.keys import keys
from aucstream.cli.options import (
    DEFAULT_MODEL,
    At,
    Capacity,
    Category,
    Data,
    DataFiles,
    Decimal,
    Delimiter,
    EvictionChoice,
    Folds,
    Format,
    Ignore,
    Label,
    Map,
    MinCount,
    Model,
    Models,
    Number,
    Passes,
    Positive,
    ReadOptions,
    Repeat,
    Scale,
    Seed,
    Shuffle,
    Thousands,
    Time,
    ZeroBased,
    check_numbers,
    check_output,
    columns_choice,
)
from aucstream.cli.passes import (
    in_option_names,
    is_data,
    learn_data,
    open_data,
    option_names,
    progress_bar,
    row_location,
    rows_remarks,
    test_data,
)
from aucstream.cli.plot import check_plot, draw
from aucstream.cli.repeats import plan_of, run_plan
from aucstream.cli.results import (
    auc_text,
    best_first,
    print_remarks,
    remarks,
    result_object,
    results_table,
    stdout_console,
)
from aucstream.constraints import rules_of
from aucstream.errors import BadSnapshot, Description, InvalidParams
from aucstream.evaluate import Comparison
from aucstream.features.encoding.vocabulary import DEFAULT_CAPACITY
from aucstream.io.decisions import Decision, columns_of, decisions_of
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.metrics.operating_points import OperatingPoint
from aucstream.registry import LEARNERS, learner_class
from aucstream.version import __version__

app = typer.Typer(
    name="aucstream",
    help="Streaming AUC maximization: compare algorithms on a file, train, score, serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(flag: bool) -> None:
    if flag:
        typer.echo(f"aucstream {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version")
    ] = False,
) -> None:
    """Streaming AUC maximization."""


@app.command()
def models() -> None:
    """List the algorithms: parameters and defaults, cost of a step, paper."""
    table = Table(title=f"{len(LEARNERS)} algorithms", title_justify="left")
    for column in ("model", "what it does", "parameters and defaults", "step", "paper"):
        table.add_column(column, overflow="fold", no_wrap=column in ("model", "step", "paper"))
    for name, entry in LEARNERS.items():
        cls = learner_class(name)
        learner = cls()
        params = ", ".join(f"{param}={getattr(learner, param)!r}" for param in rules_of(cls))
        table.add_row(name, (cls.__doc__ or "").strip().splitlines()[0], params, entry.step, entry.paper)
    stdout_console(160).print(table)


@app.command()
def evaluate(
    files: Data,
    model: Models = [DEFAULT_MODEL],  # noqa: B006
    test: Annotated[str | None, typer.Option(help="Held-out file, scored after the last row of DATA")] = None,
    scale: Scale = "auto",
    map_: Map = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    min_count: MinCount = 1,
    eviction: EvictionChoice = "none",
    shuffle: Shuffle = False,
    passes: Passes = 1,
    at: At = [],  # noqa: B006
    repeat: Repeat = 1,
    folds: Folds = None,
    window: Annotated[
        int | None, typer.Option(help="Number of latest rows that each point of the plotted AUC covers; default: all")
    ] = None,
    seed: Seed = 0,
    label: Label = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    format: Format = None,
    zero_based: ZeroBased = False,
    ignore: Ignore = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    number: Number = [],  # noqa: B006
    time: Time = [],  # noqa: B006
    decimal: Decimal = None,
    thousands: Thousands = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per model and line")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write the AUC curves to this .png, .svg or .pdf; needs aucstream[plot]")
    ] = None,
) -> None:
    """Score each row, then learn it: compare algorithms by AUC, with its interval and the AUC of a held-out file."""
    data = DataFiles(files)
    check_plot(plot)
    check_numbers(passes=passes, window=window, seed=seed, repeat=repeat)
    points = [OperatingPoint.of_text("--at", text, "=") for text in at]
    plan = plan_of(repeat, folds, passes, seed, shuffle, test=test, has_plot=plot is not None)
    choices = model_choices(model)
    labels = [choice.label for choice in choices]
    spec = map_spec(map_)
    columns = columns_choice(ignore, category, number, time, decimal, thousands)
    vocabulary = vocabulary_choice(capacity, min_count, eviction, columns)

    def comparison_of(seed: int) -> Comparison:
        return Comparison([choice.pipeline(scale, seed, spec, vocabulary) for choice in choices], window=window)

    options = ReadOptions(label, positive, delimiter, format, columns, decimal, thousands, zero_based=zero_based)
    comparison = comparison_of(seed)
    if not plan.is_single:
        all_objects: list[list[dict[str, Any]]] = []
        with progress_bar() as progress:
            for place, comparison in run_plan(plan, comparison_of, data, test, progress, options):
                if not all_objects:
                    print_remarks(remarks(choices, comparison.runs, data=data, test=test, map_spec=spec))
                objects = [figures_object(choices, comparison.runs, k, points, place) for k in range(len(choices))]
                all_objects.append(objects)
                if as_json:
                    for one in objects:
                        typer.echo(json.dumps(one, allow_nan=False))
        if not as_json:
            rows = all_objects[0][0]["rows"]
            stdout_console(120).print(runs_table(all_objects, labels, points, plan.title(data, rows)))
        return
    with progress_bar() as progress:
        order = seed if shuffle else None
        decisions = learn_data(comparison, data, passes=passes, seed=order, progress=progress, options=options)
        if test is not None:
            test_data(comparison, test, progress, replace(options, decisions=decisions))
    runs = comparison.runs
    print_remarks(remarks(choices, runs, data=data, test=test, map_spec=spec))
    objects = [figures_object(choices, runs, k, points, RunPlace()) for k in range(len(choices))]
    if as_json:
        for one in objects:
            typer.echo(json.dumps(one, allow_nan=False))
    else:
        console = stdout_console(120)
        console.print(results_table(choices, runs, data=data, scale=scale, map_text=map_))
        ranked = sorted(zip(labels, objects, strict=True), key=lambda pair: best_first(pair[1]))
        console.print(figures_table(ranked, labels[0]))
        if points:
            console.print(points_table(ranked))
    if plot is not None:
        draw(plot, [choice.label for choice in choices], runs, Path(data).name, window)


@app.command()
def report(
    files: Data,
    model: Models = [DEFAULT_MODEL],  # noqa: B006
    out: Annotated[Path, typer.Option(help="HTML file to write")] = Path("report.html"),
    test: Annotated[str | None, typer.Option(help="Held-out file, scored after the last row of DATA")] = None,
    scale: Scale = "auto",
    map_: Map = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    min_count: MinCount = 1,
    eviction: EvictionChoice = "none",
    shuffle: Shuffle = False,
    at: At = [],  # noqa: B006
    window: Annotated[
        int | None, typer.Option(help="Number of latest rows that each point of the AUC over time covers; default: all")
    ] = None,
    seed: Seed = 0,
    label: Label = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    format: Format = None,
    zero_based: ZeroBased = False,
    ignore: Ignore = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    number: Number = [],  # noqa: B006
    time: Time = [],  # noqa: B006
    decimal: Decimal = None,
    thousands: Thousands = None,
) -> None:
    """Write one HTML file: models by AUC, curves, calibration, cuts, weights, columns; needs aucstream[plot]."""
    from aucstream.cli.report import Report, check_report, page, report_points

    data = DataFiles(files)
    check_report(out)
    check_numbers(window=window, seed=seed)
    points = report_points(at)
    choices = model_choices(model)
    spec = map_spec(map_)
    columns = columns_choice(ignore, category, number, time, decimal, thousands)
    vocabulary = vocabulary_choice(capacity, min_count, eviction, columns)
    comparison = Comparison([choice.pipeline(scale, seed, spec, vocabulary) for choice in choices], window=window)
    options = ReadOptions(label, positive, delimiter, format, columns, decimal, thousands, zero_based=zero_based)
    with progress_bar() as progress:
        order = seed if shuffle else None
        decisions = learn_data(comparison, data, passes=1, seed=order, progress=progress, options=options)
        if test is not None:
            test_data(comparison, test, progress, replace(options, decisions=decisions))
    facts = None
    if "-" not in data.paths:  # standard input is read once
        with open_data(data, options, labelled=False, show_delimiter=False) as reader, option_names():
            facts = data_facts(reader, label)
    runs = comparison.runs
    sentences = remarks(choices, runs, data=data, test=test, map_spec=spec)
    resolved = getattr(runs[0].model, "resolved", None) or {"scaler": scale}
    document = Report(
        title=data,
        labels=[choice.label for choice in choices],
        runs=runs,
        objects=[figures_object(choices, runs, k, points, RunPlace()) for k in range(len(choices))],
        scaling=resolved["scaler"],
        window=window,
        columns=facts,
        remarks=sentences,
        command=shlex.join(["aucstream", *sys.argv[1:]]),
    )
    print_remarks(sentences)
    out.write_text(page(document), encoding="utf-8")
    typer.echo(f"{out}: {len(choices)} models, {runs[0].signs.size:,} rows, {out.stat().st_size:,} bytes")


@app.command()
def train(
    files: Data,
    out: Annotated[Path, typer.Option(help="File that the model is written to")],
    model: Model = [DEFAULT_MODEL],  # noqa: B006
    scale: Scale = "auto",
    map_: Map = None,
    capacity: Capacity = DEFAULT_CAPACITY,
    min_count: MinCount = 1,
    eviction: EvictionChoice = "none",
    shuffle: Shuffle = False,
    passes: Passes = 1,
    seed: Seed = 0,
    label: Label = None,
    positive: Positive = None,
    delimiter: Delimiter = None,
    format: Format = None,
    zero_based: ZeroBased = False,
    ignore: Ignore = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    number: Number = [],  # noqa: B006
    time: Time = [],  # noqa: B006
    decimal: Decimal = None,
    thousands: Thousands = None,
) -> None:
    """Learn a file and save the model."""
    from aucstream import snapshot

    data = DataFiles(files)
    check_numbers(passes=passes, seed=seed)
    choices = model_choices(model)
    if len(choices) != 1:
        raise InvalidParams("--model", "one algorithm", model[0] if len(model) == 1 else model)
    check_output(out)
    spec = map_spec(map_)
    columns = columns_choice(ignore, category, number, time, decimal, thousands)
    vocabulary = vocabulary_choice(capacity, min_count, eviction, columns)
    comparison = Comparison([choices[0].pipeline(scale, seed, spec, vocabulary)])
    options = ReadOptions(label, positive, delimiter, format, columns, decimal, thousands, zero_based=zero_based)
    with progress_bar() as progress:
        order = seed if shuffle else None
        decisions = learn_data(comparison, data, passes=passes, seed=order, progress=progress, options=options)
    run = comparison.runs[0]
    if not run.rows:
        raise InvalidParams(data, "rows to learn", Description("none"))
    print_remarks(remarks(choices, [run], data=data, test=None, map_spec=spec))
    result = result_object(choices[0], run)
    arrays, meta = run.model.state_dict()
    meta["training"] = {key: result[key] for key in ("rows", "positives", "progressive_auc", "auc_low", "auc_high")}
    if label is not None:
        decisions[label] = Decision("ignore")  # where another file is scored
    if decisions:
        meta["training"]["columns"] = columns_of(decisions)
    snapshot.write(out, snapshot.pack(arrays, meta))
    auc = auc_text(result["progressive_auc"])
    typer.echo(f"{out}: {choices[0].label}, {run.rows:,} rows, progressive AUC {auc}")


@app.command()
def score(
    file: Annotated[Path, typer.Argument(help="Saved model")],
    files: Data,
    out: Annotated[Path | None, typer.Option(help="NDJSON file to write; default: standard output")] = None,
    threshold: Annotated[
        float | None, typer.Option(help='Add "positive" to each line: whether the score is at least this one')
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help='Add "id" to each line: the text of this column, which is no feature'),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of a table, left out of the features")] = None,
    delimiter: Delimiter = None,
    format: Format = None,
    zero_based: ZeroBased = False,
    ignore: Ignore = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    number: Number = [],  # noqa: B006
    time: Time = [],  # noqa: B006
    decimal: Decimal = None,
    thousands: Thousands = None,
) -> None:
    """Score the rows of a file: one line {"score", "probability"} for each row, with "id" and "positive" if asked."""
    if threshold is not None and not math.isfinite(threshold):
        raise InvalidParams("--threshold", "a finite score", threshold)
    data = DataFiles(files)
    model, meta = _load_model(file)
    columns = columns_choice(ignore, category, number, time, decimal, thousands)
    decisions = decisions_of(meta.get("training", {}).get("columns", {}))
    calibrated = getattr(model, "calibration", "logistic") != "none"
    options = ReadOptions(label, None, delimiter, format, columns, decimal, thousands, decisions, zero_based)
    if id_column is not None:
        options = with_id(options, id_column, model)
    if out is not None:
        check_output(out)
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(open_data(data, options, labelled=False))
        if id_column is not None:
            check_id(reader, id_column)
        ids: list[Any] = []
        is_known = False
        target = stack.enter_context(out.open("w")) if out is not None else sys.stdout
        for chunk in in_option_names(reader):
            if id_column is not None:
                chunk, ids = split_ids(chunk, id_column)
            with row_location(data, chunk, model):
                scores = model.engine.score_chunk(chunk)
            is_known = is_known or model.engine.knows_any(chunk)
            probabilities = model.engine.probabilities(scores).tolist() if calibrated else [None] * len(scores)
            for at, (value, probability) in enumerate(zip(scores.tolist(), probabilities, strict=True)):
                line: dict[str, Any] = {"id": ids[at]} if id_column is not None else {}
                line |= {"score": value, "probability": probability}
                if threshold is not None:
                    line["positive"] = value >= threshold
                target.write(json.dumps(line) + "\n")
        rows_remarks(reader)
        if not is_known:
            print(
                f"aucstream: {data} has no column of the model: each row has the score of an empty one", file=sys.stderr
            )


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="Saved model, or a data file: what its columns are")],
    top: Annotated[int, typer.Option(min=0, help="Number of weights shown, the largest first")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
    label: Label = None,
    delimiter: Delimiter = None,
    format: Format = None,
    zero_based: ZeroBased = False,
    ignore: Ignore = [],  # noqa: B006
    category: Category = [],  # noqa: B006
    number: Number = [],  # noqa: B006
    time: Time = [],  # noqa: B006
    decimal: Decimal = None,
    thousands: Thousands = None,
) -> None:
    """Show a saved model: algorithm, rows, AUC, largest weights, members of `auto`; or the columns of a data file."""
    columns = columns_choice(ignore, category, number, time, decimal, thousands)
    if format is not None or is_data(str(file)):
        options = ReadOptions(label, None, delimiter, format, columns, decimal, thousands, zero_based=zero_based)
        with open_data(str(file), options, labelled=False, show_delimiter=not as_json) as reader, option_names():
            data_columns = data_facts(reader, label)
        if as_json:
            typer.echo(json.dumps(data_columns, allow_nan=False))
        else:
            stdout_console(160).print(data_table(data_columns))
        return
    model, meta = _load_model(file)
    learner = meta.get("learner", meta)
    training = meta.get("training", {})
    try:
        weights = sorted(model.weights.items(), key=lambda item: -abs(item[1]))[:top]
    except InvalidParams:  # hashed or mapped features have no names
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
        **({"columns": training["columns"]} if "columns" in training else {}),
        "weights": [{"name": name, "weight": weight} for name, weight in weights],
        "members": getattr(getattr(model, "learner", model), "members", []),
        "remarks": getattr(getattr(model, "learner", model), "remarks", []),
    }
    if as_json:
        typer.echo(json.dumps(facts, allow_nan=False))
        return
    table = Table(show_header=False, title=str(file), title_justify="left")
    for key, value in facts.items():
        if key not in ("weights", "members", "remarks", "columns"):
            table.add_row(key, auc_text(value) if value is None or isinstance(value, float) else str(value))
    console = stdout_console(120)
    console.print(table)
    if weights:
        largest = Table("name", "weight", title="largest weights", title_justify="left")
        for name, weight in weights:
            largest.add_row(str(name), f"{weight:+.6g}")
        console.print(largest)
    if facts["members"]:
        members = Table("member", "local weight", "global weight", "AUC", "cost", title="members", title_justify="left")
        for member in facts["members"]:
            numbers = (f"{member[key]:.3f}" for key in ("local_weight", "global_weight", "auc"))
            members.add_row(
                member["name"], *numbers, f"{member['cost']:g}" if member["resting_since"] is None else "rests"
            )
        console.print(members)
    for remark in facts["remarks"]:
        console.print(remark)


def _load_model(file: Path) -> tuple[RankingClassifier, dict[str, Any]]:
    """Return a saved model and its metadata; every error names the file."""
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


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Start the HTTP service; `aucstream serve --help` lists its settings; needs aucstream[service]."""
    require_extra("serve", "service")
    from aucstream_service.ops.main import process

    process(context.args)


app.add_typer(keys)
app.command()(fsck)


@app.command()
def warm(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Algorithm to compile; may be repeated; default: everything"),
    ] = None,
) -> None:
    """Compile the kernels and keep them in the cache."""
    from aucstream.kernels.jit import CACHE_BASE
    from aucstream.warmup import warm as warm_kernels

    names = [choice.name for choice in model_choices(model)] if model else None
    warm_kernels(names, lambda part: typer.echo(f"warm: {part}"))
    typer.echo(f"cache: {CACHE_BASE}" if CACHE_BASE else "cache: none, nothing is kept")
