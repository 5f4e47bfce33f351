"""The route of outcomes, over a reader in memory."""

from __future__ import annotations

import json

from api.app import create_app
from tests import workloads as w
from tests.asking import Client
from tests.stored import StoredInMemory
from tests.unit.tierscope.advice.test_afterwards import BEFORE, HOUR, L1, advised, since
from tierscope.domain.units import GIB

ENDPOINT = ("ns", "chat")


def test_followed_advice_is_told_with_what_happened():
    """What another release wrote is passed over; what is known is not sent again."""
    after = w.deployment(16 * GIB, 100 * GIB)
    evidence = w.served(w.window(w.cycle(4, 400)), after)
    history = tuple(json.dumps(one.to_json()).encode() for one in (advised(2 * HOUR, L1), advised(HOUR)))
    store = StoredInMemory(
        earlier={ENDPOINT: (b'{"old": 1}', b"[]", *history)},
        configurations={ENDPOINT: (since(0, BEFORE), since(3 * HOUR, after))},
        evidences={ENDPOINT: evidence},
    )
    client = Client(create_app(store, lambda: w.START + 12 * HOUR))
    answer = client.get("/v1/recommendations/ns/chat/outcomes")
    [outcome] = answer.json()["outcomes"]
    again = client.get(
        "/v1/recommendations/ns/chat/outcomes", headers={"If-None-Match": answer.headers["etag"]}
    )

    assert outcome["changes"] == ["tier_size:l1"]
    assert outcome["kept"] is True
    assert outcome["observed"]["requests"] == 400
    assert outcome["predicted"]["hit_ratio"]["total"]["low"] == 0.6
    assert again.status_code == 304
