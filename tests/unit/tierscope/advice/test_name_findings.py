"""Replicas that name equal prompts differently: planted in a store, found in its advice, and else silent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from api.app import create_app
from tests.asking import Client
from tests.ledgers import BLOCK_TOKENS, ENGINES, START, admission, batch
from tierscope.advice.document import FindingKind
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import Deployment, TierConfig
from tierscope.domain.requests import CacheLookup
from tierscope.domain.tiers import Tier
from tierscope.domain.window import TimeSpan
from tierscope.domain.wiring import CacheScope, Wiring
from tierscope.storage.store import Store

CHUNK_TOKENS = 2 * BLOCK_TOKENS
PROMPTS = 4
SPAN = TimeSpan(START - 1.0, START + 1000.0)
NAME_FINDINGS = (FindingKind.HASH_SEED_MISMATCH, FindingKind.ENGINE_HASH_SEED_MISMATCH)


def asked(engine, prompt, *, seed=0, blocks=0, at=0.0, **fields):
    """A prompt of three blocks; `seed` is that of the replica's cache server, `blocks` of its engine."""
    lookup = CacheLookup(f"cache-{engine}", START, 0, 0, first_chunk_hash=1000 * seed + prompt)
    record = admission(
        (prompt, blocks, 1),
        name=f"{engine}-{prompt}-{at}",
        at=START + at,
        engine=ENGINES[engine],
        chunk_tokens=CHUNK_TOKENS,
    )
    return replace(record, lookup=lookup, **fields)


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as opened:
        yield opened


def advice(store, *records, wiring=None):
    """The advice on what a store was told."""
    store.append([batch(0, *records)])
    evidence = store.reader().evidence("prod", "chat", SPAN)
    tiers = (TierConfig(Tier.L2, 1e12),)
    deployment = Deployment("prod", "chat", "model", 2, tiers=tiers, wiring=wiring)
    return recommend(evidence, deployment, now_unix_seconds=START + 1000.0)


def told(document):
    return {finding.kind: finding for finding in document.findings if finding.kind in NAME_FINDINGS}


def test_cache_servers_with_two_seeds_are_in_the_advice_and_the_api_with_what_was_compared(store):
    """UD-41: which servers, which replicas behind them, how many chunks have one name and how many two."""
    document = advice(store, *(asked(n, p, seed=n, at=n) for p in range(PROMPTS) for n in (0, 1)))

    finding = told(document)[FindingKind.HASH_SEED_MISMATCH]
    assert finding.evidence == (
        "cache-0 (chat-0) and cache-1 (chat-1): of 4 first chunks of the same prompts 0 have one name, "
        "4 have two."
    )
    assert "--hash-algorithm" in finding.fix
    assert FindingKind.ENGINE_HASH_SEED_MISMATCH not in told(document)
    store.save_recommendation(
        "prod",
        "chat",
        status=document.status,
        document=json.dumps(document.to_json()).encode(),
        at_unix_seconds=START,
    )
    answered = Client(create_app(store.reader(), lambda: START)).get("/v1/findings").json()["findings"]
    assert finding.evidence in [one["finding"]["evidence"] for one in answered]


def test_engines_with_two_seeds_are_in_the_advice(store):
    """UD-41: their servers agree, so the prompts were the same."""
    document = advice(store, *(asked(n, p, blocks=n, at=n) for p in range(PROMPTS) for n in (0, 1)))

    finding = told(document)[FindingKind.ENGINE_HASH_SEED_MISMATCH]
    assert finding.evidence == (
        "prod/chat/chat-0/0 and prod/chat/chat-1/0: of 4 first blocks of the same prompts 0 have one name, "
        "4 have two."
    )
    assert FindingKind.HASH_SEED_MISMATCH not in told(document)


def test_one_name_in_common_and_nobody_is_a_stranger(store):
    """Three prompts before a server got the right seed, one after it."""
    before = [asked(n, p, seed=n, at=n) for p in range(3) for n in (0, 1)]

    assert told(advice(store, *before, *(asked(n, 3, at=10.0 + n) for n in (0, 1)))) == {}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"adapter": "x"}, id="LoRA"),
        pytest.param({"salt_hash": 7}, id="salt"),
        pytest.param({"model": "tuned"}, id="model"),
        pytest.param({"chunk_tokens": 3 * BLOCK_TOKENS}, id="chunk size"),
    ],
)
def test_what_is_not_the_same_prompt_is_not_compared(store, fields):
    """The replica that has it beside the tokens names its blocks otherwise by right."""
    records = [asked(n, p, blocks=n, at=n, **(fields if n else {})) for p in range(PROMPTS) for n in (0, 1)]

    assert told(advice(store, *records)) == {}


def test_a_prompt_that_goes_on_an_earlier_one_is_named_by_the_row_that_brought_it(store):
    """The store has chains in delta form: the later row has no first block of its own."""
    first = asked(0, 1)
    longer = replace(asked(0, 1, at=5.0), block_hashes=(*first.block_hashes[:2], 77))
    store.append([batch(0, first, longer)])

    (beginning,) = store.reader().evidence("prod", "chat", SPAN).beginnings
    assert (beginning.block_hash, beginning.chunk_hash) == (first.block_hashes[1], 1)
    assert beginning.of_tokens_alone
    assert beginning.server == "cache-0"


def test_what_the_configuration_knows_to_mend_is_kept(store):
    """Of one kind what happened is told, with the patch that the wiring has for it."""
    wiring = Wiring(hash_seeds=("0", "1"), l1_scope=CacheScope.RANK, l2_url="fs:///pool")
    document = advice(
        store, *(asked(n, p, seed=n, at=n) for p in range(PROMPTS) for n in (0, 1)), wiring=wiring
    )

    (finding,) = [one for one in document.findings if one.kind is FindingKind.HASH_SEED_MISMATCH]
    assert finding.evidence.startswith("cache-0")
    assert finding.apply
