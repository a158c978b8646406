"""`aucstream report`: one page that stands alone, whose numbers are scikit-learn's, in a real browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score

from aucstream.cli.report_plots import MOST_POINTS, thinned
from aucstream.evaluate import Comparison
from aucstream.io import read
from aucstream.pipeline import Pipeline
from tests.service.browser import Browser, missing

from .running import refused, run

BAD_NAME = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Collects the tables, by their heads, and what would be loaded."""

    VOID = frozenset({"meta", "link", "br", "img", "path", "use"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self._cell: list[str] | None = None
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("td", "th"):
            assert self._cell is not None
            self.tables[-1][-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def table(self, head: str) -> list[dict[str, str]]:
        """Return the rows of the table whose first head is this."""
        (found,) = [table for table in self.tables if table[0][0] == head]
        return [dict(zip(found[0], row, strict=True)) for row in found[1:]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    n = 3000
    amount = rng.normal(size=n).round(4)
    shop = rng.choice(["north", BAD_NAME, "b & c"], n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(3 * amount - 3))), "bad", "good")
    path = tmp_path_factory.mktemp("report") / "rows.csv"
    lines = [f"{i},{a},{s},{label}" for i, (a, s, label) in enumerate(zip(amount, shop, y, strict=True))]
    path.write_text("\n".join([f"row,amount,{BAD_NAME},y", *lines]))
    return path


@pytest.fixture(scope="module")
def report(file: Path) -> Path:
    out = file.with_name("report.html")
    options = ["--label", "y", "--positive", "bad", "--ignore", "row", "-m", "psam", "-m", "ftrl", "-m", "auto"]
    ended = run("report", file, *options, "--at", "top=50", "--out", out)
    assert ended.status == 0, ended.err
    assert f"{out}: 3 models, 3,000 rows" in ended.out
    return out


def test_its_numbers_are_those_of_scikit_learn(file: Path, report: Path) -> None:
    page = Page(report.read_text())
    comparison = Comparison([Pipeline.from_spec({"algorithm": "psam", "columns": {"ignore": ["row"]}})])
    from aucstream import Columns

    for chunk in read(file, label="y", positive="bad", columns=Columns(ignore=["row"])):
        comparison.learn(chunk)
    comparison.end_pass()
    psam = comparison.runs[0]
    y = psam.signs > 0
    rows = {row["model"]: row for row in page.table("model")}
    assert set(rows) == {"psam", "ftrl", "auto"}
    assert float(rows["psam"]["AUC"]) == pytest.approx(roc_auc_score(y, psam.scores), abs=6e-5)
    assert float(rows["psam"]["average precision"]) == pytest.approx(average_precision_score(y, psam.scores), abs=6e-5)
    assert rows["psam"]["AUC less that of psam"] == "–"
    aucs = [float(row["AUC"]) for row in page.table("model")]
    assert aucs == sorted(aucs, reverse=True)
    (cut,) = page.table("at")
    assert (cut["at"], cut["rows"]) == ("top=50", "50")


def test_each_threshold_gives_what_it_says(file: Path) -> None:
    out = file.with_name("psam.html")
    options = ["--label", "y", "--positive", "bad", "--ignore", "row", "-m", "psam"]
    assert run("report", file, *options, "--out", out).status == 0
    page = Page(out.read_text())
    comparison = Comparison([Pipeline.from_spec({"algorithm": "psam", "columns": {"ignore": ["row"]}})])
    for chunk in read(file, label="y", positive="bad"):
        comparison.learn(chunk)
    comparison.end_pass()
    psam = comparison.runs[0]
    y = psam.signs > 0
    for row in page.table("rows called positive, of 1,000"):
        called = psam.scores >= float(row["score from"]) - 5e-6
        assert float(row["recall"]) == pytest.approx(recall_score(y, called), abs=2e-3)
        assert float(row["precision"]) == pytest.approx(precision_score(y, called), abs=2e-2)
        assert float(row["false-positive rate"]) == pytest.approx(called[~y].mean(), abs=2e-3)
    names = [row["name"] for row in page.table("name")]
    assert {"amount", f"{BAD_NAME}=b & c"} <= set(names)


def test_it_stands_alone_and_what_comes_from_data_is_text(report: Path) -> None:
    text = report.read_text()
    page = Page(text)
    assert all(link.startswith("#") for link in page.loads)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert "script" not in page.tags
    assert report.stat().st_size < 1_000_000
    columns = {row["column"]: row for row in page.table("column")}
    assert columns["amount"]["kind"] == "number"
    assert columns["row"]["kind"] == "ignore"
    assert columns[BAD_NAME]["kind"] == "category"
    ids = re.findall(r'id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.loads} <= set(ids)


@pytest.mark.skipif(missing() != "", reason=missing())
def test_a_browser_shows_it_without_a_complaint(report: Path, tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    try:
        browser.open(report.as_uri())
        assert browser.run("return document.querySelectorAll('figure svg').length") == 5
        for width in (1100, 390):
            browser.resize(width, 900)
            overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert browser.run(overflow) <= 0
            sizes = browser.run(
                "return [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width)"
            )
            assert min(sizes) > 250
        assert browser.log() == []
    finally:
        browser.close()


def test_curves_are_thinned_and_keep_their_ends() -> None:
    x = np.sort(np.random.default_rng(0).random(100_000))
    thin_x, thin_y = thinned(x, x * x)
    assert thin_x.size <= MOST_POINTS + 2
    assert (thin_x[0], thin_x[-1]) == (x[0], x[-1])
    np.testing.assert_array_equal(thin_y, thin_x * thin_x)
    assert thinned(x[:3], x[:3])[0].size == 3


def test_what_it_cannot_write_is_refused_before_any_work(file: Path) -> None:
    assert ".html" in refused("report", file, "--label", "y", "--out", "report.pdf")
    assert "a folder that exists" in refused("report", file, "--label", "y", "--out", "/none/report.html")
    assert "--at" in refused("report", file, "--label", "y", "--at", "fpr=2")


def test_rows_of_one_class_make_a_report_that_says_so(tmp_path: Path) -> None:
    path, out = tmp_path / "one.csv", tmp_path / "one.html"
    path.write_text("a,y\n1,0\n2,0\n")
    assert run("report", path, "--label", "y", "-m", "psam", "--out", out).status == 0
    assert "rows of one class only: no AUC" in out.read_text()
    Page(out.read_text())
