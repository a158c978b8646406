"""Sizes that a spec may ask for have limits from the settings."""

from __future__ import annotations

import pytest

from tests.service.running import Running, problem


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"params": {"capacity": 10**12}}, "/params/capacity"),
        ({"encoder": {"kind": "hashing", "bits": 22}}, "/encoder/bits"),
        ({"encoder": {"kind": "vocabulary", "capacity": 10**15}}, "/encoder/capacity"),
        ({"algorithm": "vrspam", "params": {"n_buffer": 10**9}}, "/params/n_buffer"),
        ({"algorithm": "minibatchauc", "params": {"batch": 10**9}}, "/params/batch"),
        ({"algorithm": "opauc", "params": {"rank": 10**4}}, "/params/rank"),
        ({"algorithm": "mba", "params": {"moments": "sketch"}}, "/encoder/capacity"),
        (
            {"algorithm": "opauc", "params": {"rank": 500}, "encoder": {"kind": "hashing", "bits": 18}},
            "/encoder/bits",
        ),
        ({"evaluation": {"window": 10**9}}, "/evaluation/window"),
    ],
)
def test_a_spec_of_boundless_size_is_refused_by_field(service: Running, spec: dict[str, object], pointer: str) -> None:
    answer = service.create("boundless", **{"algorithm": "psam", **spec})
    assert answer.status_code == 422
    kind = "invalid-body" if pointer.startswith("/evaluation") else "invalid-params"
    assert answer.json()["type"] == f"urn:aucstream:problem:{kind}"
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert "(--max-" in answer.json()["detail"]
    assert service.http.get("/v1/models/boundless").status_code == 404


def test_two_seeds_that_differ_are_refused(service: Running) -> None:
    problem_ = problem(service.create("seeds", algorithm="psam", seed=3, params={"seed": 4}), 422, "invalid-params")
    assert problem_["detail"] == "seed: expected the seed of params, 4, or none beside it, got 3 - at /seed"
    for spec in ({"seed": 4}, {"seed": None}, {}):
        name = f"seeds-{len(spec)}-{spec.get('seed')}".lower()
        assert service.create(name, algorithm="psam", params={"seed": 4}, **spec).status_code == 201
        service.http.delete(f"/v1/models/{name}")
