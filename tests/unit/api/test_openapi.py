"""The API against requests made up from its own OpenAPI document."""

from __future__ import annotations

import json

import numpy as np
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.app import create_app
from tests import workloads as w
from tests.kubernetes import Objects
from tests.stored import StoredInMemory
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.requests import TokenSplit


def store() -> StoredInMemory:
    """One endpoint of which everything is known, under the names that made-up requests find, too."""
    deployment = w.deployment(32 * w.CHUNK_BYTES)
    evidence = w.served(w.window(w.drawn(20, 400, np.random.default_rng(1))), deployment)
    body = json.dumps(recommend(evidence, deployment, now_unix_seconds=w.NOW).to_json()).encode()
    names = (("ns", "chat"), ("0", "0"))
    return StoredInMemory(
        recommendations=dict.fromkeys(names, body),
        earlier=dict.fromkeys(names, (body, body)),
        records=dict.fromkeys(names, TokenSplit(10, l0=4, computed=6)),
        configurations=dict.fromkeys(
            names, (DeploymentSince(1.0, Objects().read()), DeploymentSince(2.0, deployment))
        ),
        evidences=dict.fromkeys(names, evidence),
    )


schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(store(), lambda: w.NOW))


@schema.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_gets_an_answer_that_is_not_in_the_document(case):
    """Status, media type and shape of every answer are those the document has; nothing fails."""
    response = case.call()
    # That a span ends after it starts is nothing a schema can say.
    unsaid = response.status_code == 400 and "the span ends" in response.text

    case.validate_response(response, excluded_checks=[positive_data_acceptance] if unsaid else [])
