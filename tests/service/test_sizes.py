"""Sizes that a spec may ask for have limits from the settings."""

from __future__ import annotations

import pytest

from .running import Running


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"params": {"capacity": 10**12}}, "/params/capacity"),
        ({"encoder": {"kind": "hashing", "bits": 22}}, "/encoder/bits"),
        ({"encoder": {"kind": "vocabulary", "capacity": 10**15}}, "/encoder/capacity"),
        ({"evaluation": {"window": 10**9}}, "/evaluation/window"),
    ],
)
def test_a_spec_of_boundless_size_is_refused_by_field(service: Running, spec: dict[str, object], pointer: str) -> None:
    answer = service.create("boundless", **{"algorithm": "psam", **spec})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert service.http.get("/v1/models/boundless").status_code == 404
