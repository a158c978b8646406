"""Sizes that a spec may ask for have limits from the settings."""

from __future__ import annotations

import pytest

from tests.service.running import Running


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
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert service.http.get("/v1/models/boundless").status_code == 404
