"""The default step cap of SOLAM and RegSOLAM is 0.1 for new models; those that exist keep 0.25."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from aucstream import SOLAM, RegSOLAM
from aucstream_service.journal import checksums
from aucstream_service.models.spec import ModelSpec, read_stored, stored_spec
from tests.service.running import Direct
from tests.service.stream import rows


def test_new_models_have_another_default_and_stored_ones_keep_theirs(data_dir: Path) -> None:
    assert (SOLAM().cap, RegSOLAM().cap) == (0.1, 0.1)
    bodies = rows(300)
    service = Direct(data_dir)
    for name, spec in (("old", {}), ("new", {}), ("named", {"params": {"cap": 0.25}})):
        service.create(name, **spec)
        service.post(name, "learn-many", bodies)
    etag = service.http.get("/v1/models/old").headers["etag"]
    probe = {"a": 1.0, "b": -1.0, "word": "w1"}
    scores = {name: service.score(name, probe) for name in ("old", "new", "named")}
    assert scores["old"] == scores["new"] != scores["named"]
    service.stop()
    shutil.rmtree(data_dir / "snapshots")
    with contextlib.closing(sqlite3.connect(data_dir / "journal.sqlite3")) as db, db:  # as an earlier version wrote it
        columns = checksums.COVERED["models"]
        row = dict(
            zip(
                columns,
                db.execute(f"SELECT {', '.join(columns)} FROM models WHERE name = 'old'").fetchone(),
                strict=True,
            )
        )
        document = json.loads(row["spec"])
        del document["defaults"]
        row["spec"] = json.dumps(document)
        checksum = checksums.of_row(tuple(row.values()))
        db.execute("UPDATE models SET spec = ?, checksum = ? WHERE name = 'old'", (row["spec"], checksum))
    service = Direct(data_dir)
    assert service.http.get("/v1/models/old").headers["etag"] == etag
    assert service.create("old").status_code == 200
    assert service.score("old", probe) == scores["named"]
    assert service.score("new", probe) == scores["new"]
    assert service.host.models["old"].pipeline.learner.cap == 0.25  # type: ignore[attr-defined]
    service.stop()


@pytest.mark.parametrize(
    ("portfolio", "old"),
    [
        ("auto/solam l2/psam", "auto/solam(cap=0.25) l2/psam"),
        ("l2/regsolam(lam=0.001)", "l2/regsolam(lam=0.001;cap=0.25)"),
        ("l2/solam(cap=0.3) auto/psam(lam=0.1)", "l2/solam(cap=0.3) auto/psam(lam=0.1)"),
        ("2026", "2026"),
    ],
)
def test_members_of_a_portfolio_keep_theirs(portfolio: str, old: str) -> None:
    spec = ModelSpec.model_validate({"algorithm": "auto", "params": {"portfolio": portfolio}})
    text = stored_spec(spec.canonical())
    assert read_stored(text).pipeline(0).params["portfolio"] == portfolio
    assert read_stored(text).spec == spec
    document = json.loads(text)
    document.pop("members")
    assert read_stored(json.dumps(document)).pipeline(0).params["portfolio"] == old
    assert read_stored(json.dumps(document)).spec == spec
