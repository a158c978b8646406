"""Several runs over one file: in several orders, and with folds that are held out in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.progress import Progress

from aucstream.cli.figures import RunPlace
from aucstream.cli.options import ReadOptions
from aucstream.cli.passes import learn_chunks, read_whole, test_data
from aucstream.errors import Description, InvalidParams
from aucstream.evaluate import Chunk, Comparison, folds, shuffled


@dataclass(frozen=True, slots=True)
class Plan:
    """Which runs are made.

    Attributes
    ----------
    repeat : int
        Orders, 1 or more.
    folds : int or None
        Folds, 2 or more; None: none is held out.
    passes : int
        1 or more.
    seed : int
        Of the first order and of its models; order r (from 0) has `seed + r * passes`.
    is_shuffled : bool
        Whether orders are drawn; else the one order is that of the file.
    """

    repeat: int
    folds: int | None
    passes: int
    seed: int
    is_shuffled: bool

    @property
    def is_single(self) -> bool:
        """Whether there is one run without folds."""
        return self.repeat == 1 and self.folds is None

    def title(self, data: str, rows: int) -> str:
        """Return what the runs are, in words."""
        orders = (
            f"{self.repeat} random orders" if self.repeat > 1 else "random order" if self.is_shuffled else "file order"
        )
        held = f", {self.folds} folds" if self.folds else ""
        return f"{data}: {rows:,} rows; {orders}{held}"


def plan_of(
    repeat: int, folds: int | None, passes: int, seed: int, shuffle: bool, *, test: str | None, has_plot: bool
) -> Plan:
    """Return the plan of the options, or raise InvalidParams where they do not fit each other."""
    if folds is not None and folds < 2:
        raise InvalidParams("--folds", "a whole number >= 2", folds)
    if folds is not None and test is not None:
        raise InvalidParams("--folds", "no --test: a fold is what is held out", Description(f"--test {test}"))
    plan = Plan(repeat, folds, passes, seed, shuffle or repeat > 1)
    if has_plot and not plan.is_single:
        raise InvalidParams("--plot", "one run, without --repeat and --folds")
    return plan


def run_plan(
    plan: Plan,
    comparison_of: Callable[[int], Comparison],
    data: str,
    test: str | None,
    progress: Progress,
    options: ReadOptions,
) -> Iterator[tuple[RunPlace, Comparison]]:
    """Make the runs of a plan; the file is read once, and its rows are held in memory.

    Parameters
    ----------
    plan : Plan
    comparison_of : function
        Returns new models for a seed.
    data, test : str
        File names.
    progress : Progress
    options : ReadOptions

    Yields
    ------
    (RunPlace, Comparison)
        After the last row of the run.

    Raises
    ------
    InvalidParams, InvalidBlock, OSError
        A file cannot be read, or a row cannot be used.
    """
    whole, decisions = read_whole(data, progress, options)
    as_data = replace(options, decisions=decisions)
    for number in range(plan.repeat):
        seed = plan.seed + number * plan.passes
        order: Sequence[Chunk] = shuffled(whole, seed) if plan.is_shuffled else whole
        parts = enumerate(folds(order, plan.folds)) if plan.folds else [(None, (order, None))]
        for fold, (learned, held) in parts:
            comparison = comparison_of(seed)
            for turn in range(plan.passes):
                again = turn > 0 and plan.is_shuffled
                rows = shuffled(learned if plan.folds else whole, seed + turn) if again else learned
                learn_chunks(comparison, data, rows, progress)
                comparison.end_pass()
            if held is not None:
                comparison.test(held)
            elif test is not None:
                test_data(comparison, test, progress, as_data)
            yield RunPlace(number + 1, None if fold is None else fold + 1), comparison
