"""The summary says the same as the document, in words."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from tests import workloads as w
from tierscope.advice.document import parse_recommendation
from tierscope.advice.recommend import recommend
from tierscope.cli.advice_summary import summary
from tierscope.domain.deployment import Objective
from tierscope.domain.events import TierSample
from tierscope.domain.prices import InstanceFigures, Prices
from tierscope.domain.tiers import Tier
from tierscope.domain.wiring import Wiring


def text_of(evidence, deployment) -> str:
    document = recommend(evidence, deployment, now_unix_seconds=w.NOW)
    page = io.StringIO()
    Console(width=200, file=page).print(summary(document))
    return " ".join(page.getvalue().split())


def test_an_abstention_says_what_is_missing_and_for_how_long():
    """Have, need and wait, side by side."""
    deployment = w.deployment(80 * w.CHUNK_BYTES)
    text = text_of(w.served(w.window(w.cycle(10, 100), seconds=600.0), deployment), deployment)

    assert "no advice" in text
    assert "requests in the window │ 100 │ 300 │ 1188.0 s" in text
    assert "info: The window holds too little traffic" in text


def test_no_change_is_said_plainly():
    """One line, and what it rests on."""
    deployment = w.deployment(160 * w.CHUNK_BYTES)
    text = text_of(w.served(w.window(w.cycle(40, 1000)), deployment), deployment)

    assert "ns/chat: no change" in text
    assert "rests on 1,000 requests, 16,000 block accesses" in text


def test_prices_bring_a_front_and_instance_types_and_a_pool_its_date():
    """What else could be had, and what lies ahead."""
    rng = np.random.default_rng(1)
    chains = [w.chain_hashes(i, 4 + 4 * (i % 8)) for i in rng.integers(0, 60, 1500)]
    prices = Prices(pool_gib_per_hour=0.1, instances=(InstanceFigures("ml.example", 4.0),))
    deployment = w.deployment(
        80 * w.CHUNK_BYTES,
        400 * w.CHUNK_BYTES,
        objective=Objective(prices=prices),
        wiring=Wiring(instance_types=("ml.example", "ml.other")),
    )
    served = w.served(w.window(chains), deployment).window
    ttft = (0.05 + 1e-3 * served.computed + 1e-4 * served.l1 + 2e-4 * served.l2) * rng.lognormal(
        0, 0.05, 1500
    )
    window = w.window(chains, hits=(served.l0, served.l1, served.l2), ttft_seconds=ttft)
    samples = [
        TierSample(Tier.L2, "pool", w.START + 60.0 * i, capacity_bytes=1000.0, used_bytes=400.0 + 8 * i)
        for i in range(60)
    ]
    text = text_of(w.evidence(window, samples=samples), deployment)

    assert "L2 (pool) is full on 2023-11-14 23:" in text
    assert "What else could be had" in text
    assert "figures under objective.prices.instances" in text


def test_a_document_reads_back_as_it_was_written():
    """What a store or an API hands over can be shown as if it had just been computed."""
    deployment = w.deployment(80 * w.CHUNK_BYTES)
    document = recommend(
        w.served(w.window(w.cycle(40, 1000)), deployment), deployment, now_unix_seconds=w.NOW
    )

    assert parse_recommendation(document.to_json()) == document
