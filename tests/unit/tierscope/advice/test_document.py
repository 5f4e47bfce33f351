"""The document is the JSON it promises to be, whatever was advised."""

from __future__ import annotations

import json
from dataclasses import fields

import jsonschema
import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.document import Recommendation, utc
from tierscope.advice.recommend import recommend
from tierscope.advice.schema import recommendation_schema, recommendation_schema_file

CHUNK = w.CHUNK_BYTES


def recommended() -> Recommendation:
    """Two changes, with TTFT."""
    deployment = w.deployment(100 * CHUNK, 400 * CHUNK, replicas=2, worker_memory_bytes=2.0**35)
    window = w.window(
        w.drawn(300, 3000, np.random.default_rng(2)), replicas=2, ttft_seconds=np.full(3000, 0.2)
    )
    return recommend(w.served(window, deployment), deployment, now_unix_seconds=w.NOW)


def unchanged() -> Recommendation:
    deployment = w.deployment(160 * CHUNK)
    return recommend(w.served(w.window(w.cycle(40, 1000)), deployment), deployment, now_unix_seconds=w.NOW)


def empty() -> Recommendation:
    return recommend(w.evidence(w.window([])), w.deployment(CHUNK), now_unix_seconds=w.NOW)


@pytest.fixture(scope="module", params=[recommended, unchanged, empty], ids=lambda make: make.__name__)
def document(request):
    return request.param().to_json()


def test_every_document_satisfies_its_schema(document):
    """What the API sends is what the schema says, with nothing besides."""
    jsonschema.validate(document, recommendation_schema(), jsonschema.Draft202012Validator)


def test_a_document_is_plain_json(document):
    """No NaN, no infinity, nothing that JSON has no word for."""
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_document_has_the_agreed_parts_in_their_order(document):
    """Twelve parts, no more; readers find evidence, current state and change where they expect them."""
    assert list(document) == [
        "status",
        "generated_at",
        "window",
        "evidence",
        "current",
        "changes",
        "curves",
        "findings",
        "alternatives",
        "forecasts",
        "instances",
        "routed_hits",
    ]
    for change in document["changes"]:
        assert list(change) == [
            "id", "kind", "target", "from", "to", "unit", "predicted", "why", "risks", "apply", "revert_if",
        ]  # fmt: skip


def test_a_field_too_many_is_against_the_schema():
    """The schema is closed, so that a misspelt field cannot pass."""
    document = empty().to_json() | {"statsu": "recommend"}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, recommendation_schema())


def test_the_checked_in_schema_is_the_rendered_one(repository):
    """Readers of the repository and readers of the API have the same schema."""
    path = repository / "docs/reference/recommendation.schema.json"

    assert path.read_text(encoding="utf-8") == recommendation_schema_file()


def test_times_are_utc_to_the_millisecond():
    """ISO 8601 with an offset, so that no reader has to guess the zone."""
    assert utc(1_700_000_000.1234).isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_every_part_of_the_document_is_documented():
    """Field names of the dataclass and properties of the schema are the same list."""
    assert [field.name for field in fields(Recommendation)] == list(recommendation_schema()["properties"])
