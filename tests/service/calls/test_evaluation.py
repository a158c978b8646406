"""GET evaluation?at=…: figures of the window at cuts, beside scikit-learn's, and off the loop where it is long."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from aucstream_service.models.model import Model
from tests.service.running import Local, Running
from tests.service.stream import rows


def learned(service: Running, model: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    bodies = rows(count)
    scores = [service.post(model, "learn-one", body).json()["score"] for body in bodies]
    return np.array([bool(body["label"]) for body in bodies]), np.array(scores)


def test_figures_equal_scikit_learns(service: Running, model: str) -> None:
    y, scores = learned(service, model, 250)
    asked = ["fpr:0.1", "top:20", "top:0.1", "threshold:0.25"]
    answer = service.http.get(f"/v1/models/{model}/evaluation", params={"at": asked})
    assert answer.status_code == 200
    evaluation = answer.json()["figures"]
    assert evaluation["average_precision"] == pytest.approx(average_precision_score(y, scores), abs=1e-12)
    assert evaluation["average_precision_low"] < evaluation["average_precision"] < evaluation["average_precision_high"]
    assert [point["at"] for point in evaluation["at"]] == asked
    by_rate, by_rows, by_share, by_score = evaluation["at"]
    fpr, tpr, _ = roc_curve(y, scores, drop_intermediate=False)
    assert by_rate["recall"] == pytest.approx(tpr[fpr <= 0.1].max(), abs=1e-12)
    assert by_rate["recall_low"] < by_rate["recall"] < by_rate["recall_high"]
    assert by_rate["partial_auc_standardized"] == pytest.approx(roc_auc_score(y, scores, max_fpr=0.1), abs=1e-12)
    first = y[np.argsort(-scores, kind="stable")]
    assert by_rows["precision"] == pytest.approx(first[:20].mean(), abs=1e-12)
    assert by_share["rows"] == 25
    assert by_share["recall"] == pytest.approx(first[:25].sum() / y.sum(), abs=1e-12)
    assert by_share["partial_auc"] is None
    assert by_score["rows"] == (scores >= 0.25).sum()
    assert by_score["lift"] == pytest.approx(y[scores >= 0.25].mean() / y.mean(), abs=1e-12)


def test_without_rows_everything_is_null(service: Running, model: str) -> None:
    (by_rate, by_rows) = service.http.get(f"/v1/models/{model}/evaluation?at=fpr:0.1&at=top:5").json()["figures"]["at"]
    assert by_rate.pop("at") == "fpr:0.1"
    assert by_rows.pop("at") == "top:5"
    assert set(by_rate.values()) == set(by_rows.values()) == {None}


@pytest.mark.parametrize(
    "at", ["", "fpr", "fpr:0", "fpr:2", "top:0", "top:2.5", "recall:0.5", "threshold:nan", "fpr=0.1"]
)
def test_another_cut_names_the_parameter(service: Running, model: str, at: str) -> None:
    answer = service.http.get(f"/v1/models/{model}/evaluation", params={"at": ["top:5", at]})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"].endswith("invalid-query")
    assert problem["detail"].startswith("at: expected fpr:RATE in (0, 1], top:ROWS")


def test_cuts_have_a_limit_and_other_parameters_come_once(service: Running, model: str) -> None:
    path = f"/v1/models/{model}/evaluation"
    assert service.http.get(path, params={"at": ["top:5"] * 20}).status_code == 200
    many = service.http.get(path, params={"at": ["top:5"] * 21})
    assert (many.status_code, many.json()["type"].rpartition(":")[2]) == (422, "invalid-query")
    assert service.http.get(f"{path}?to=top:5").status_code == 422
    assert service.http.get(f"/v1/models/{model}/weights?top=5&top=6").status_code == 422


def test_a_long_window_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    figures = Model.figures

    def noted(self, points):
        threads.append(threading.current_thread().name)
        return figures(self, points)

    monkeypatch.setattr(Model, "figures", noted)
    local = Local(tmp_path / "data", durability="os")
    try:
        assert local.http.put("/v1/models/m", json={"algorithm": "solam"}).status_code == 201
        for count in (10, 9000):
            body = "\n".join(f'{{"features":{{"a":{i % 7}}},"label":{i % 3 == 0:d}}}' for i in range(count))
            sent = {"content": body, "headers": {"Content-Type": "application/x-ndjson"}}
            assert local.http.post("/v1/models/m/learn-many", **sent).status_code == 200
            assert local.http.get("/v1/models/m/evaluation?at=top:5").status_code == 200
    finally:
        local.stop()
    assert [name.startswith("aucstream-model") for name in threads] == [False, True]
