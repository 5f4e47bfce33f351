"""The JSON Schema of a recommendation, for those who read the document by machine."""

from __future__ import annotations

import json

from pydantic import JsonValue

from tierscope.advice.document import document_adapter


def recommendation_schema() -> dict[str, JsonValue]:
    """JSON Schema (2020-12) of the document; `docs/reference/recommendation.schema.json` is this."""
    schema: dict[str, JsonValue] = document_adapter().json_schema(mode="serialization", by_alias=True)
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    body = definitions.pop("Recommendation")
    assert isinstance(body, dict)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **body, "$defs": definitions}


def recommendation_schema_file() -> str:
    """The schema as the checked-in file has it."""
    return json.dumps(recommendation_schema(), indent=2, ensure_ascii=False) + "\n"
