"""One value in a newly seen optional feature, sent to a service; and models created before it was harmless."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from aucstream import SPAM, Pipeline
from aucstream.constraints import rules_of
from aucstream_service.journal.commands import ModelRecord
from aucstream_service.models.model import Model
from aucstream_service.models.spec import StoredSpec, read_stored, stored_spec
from tests.aucstream.contracts.test_outliers import JUDGED, named, outlier_stream
from tests.service.running import Local


def bodies(seed: int, value: float, at: int) -> list[dict[str, object]]:
    """Return the rows as bodies of learn-many."""
    X, y = outlier_stream(seed, value, at)
    return [{"features": x, "label": int(label)} for x, label in zip(named(X), y.tolist(), strict=True)]


@pytest.mark.parametrize("name", ["opauc", "spam", "fsauc", "mba"])
def test_one_outlier_of_a_new_feature_does_not_harm_a_served_model(name: str, data_dir: Path) -> None:
    service = Local(data_dir)
    for seed, value, at in [(0, 1e5, 30), (1, 1e6, 30), (3, 1e3, 200)]:
        aucs = []
        for outlier in (1.0, value):
            model = f"m{seed}-{outlier:g}".replace("+", "")
            service.create(model, algorithm=name)
            sent = bodies(seed, outlier, at)
            answer = service.post(model, "learn-many", sent[:-JUDGED]).json()
            assert answer["accepted"] == len(sent) - JUDGED, answer
            scored = service.post(model, "predict-many", [{"features": x["features"]} for x in sent[-JUDGED:]]).json()
            labels = [x["label"] for x in sent[-JUDGED:]]
            aucs.append(roc_auc_score(labels, [each["score"] for each in scored["predictions"]]))
        assert aucs[1] > aucs[0] - 0.02, (seed, value, at, aucs)
    service.stop()


def test_a_created_model_keeps_the_rules_of_its_time(data_dir: Path) -> None:
    service = Local(data_dir)
    service.create("m", algorithm="spam")
    etag = service.http.get("/v1/models/m").headers["ETag"]
    assert "rules" not in service.describe("m")["spec"]
    service.stop()
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:
        text = db.execute("SELECT spec FROM models").fetchone()[0]
    stored = read_stored(text)
    spec = stored.spec
    assert stored.rules == 4
    assert stored.defaults == {name: rule.default for name, rule in rules_of(SPAM).items() if name != "seed"}
    assert stored_spec(spec.canonical()) == text
    old = json.dumps({key: value for key, value in json.loads(text).items() if key not in ("rules", "defaults")})
    assert read_stored(old) == StoredSpec(spec, 1, {})
    sent = bodies(3, 1e6, 30)
    rows, labels = [x["features"] for x in sent], np.array([1.0 if x["label"] else -1.0 for x in sent])
    scores = []
    for stored, by in ((text, 2), (old, 1)):
        model = Model(ModelRecord(1, "m", stored, 0.0, 0, 3))
        assert model.etag == etag
        scores.append(np.asarray(model.pipeline.engine.learn_rows(rows, labels)).tobytes())
        library = Pipeline.from_spec(spec.pipeline(3), by)
        assert np.asarray(library.engine.learn_rows(rows, labels)).tobytes() == scores[-1]
    assert scores[0] != scores[1]
