"""What reports are made of: an endpoint of which everything is known, and one of which nothing is."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from api.report_page import material_of
from tests import workloads as w
from tests.stored import StoredInMemory
from tierscope.advice.foretold import Foretold
from tierscope.advice.recommend import recommend
from tierscope.domain.deployment import DeploymentSince
from tierscope.domain.window import TimeSpan
from tierscope.report.material import Material

WHO = ("ns", "chat")
SPAN = TimeSpan(w.START, w.START + 3600.0)


def known_store(seed: int = 5, *, requests: int = 1200) -> StoredInMemory:
    """An endpoint with three tiers, TTFT, advice and complete records."""
    rng = np.random.default_rng(seed)
    deployment = w.deployment(8 * 4 * w.CHUNK_BYTES, 20 * 4 * w.CHUNK_BYTES)
    evidence = w.served(w.window(w.drawn(40, requests, rng)), deployment)
    of = evidence.window
    seconds = (0.02 + of.computed * 1e-4 + of.l1 * 1e-5 + of.l2 * 3e-5) * rng.lognormal(0, 0.05, requests)
    window = replace(of, ttft_seconds=seconds, queue_seconds=np.zeros(requests))
    evidence = replace(evidence, window=window)
    advice = recommend(evidence, deployment, now_unix_seconds=w.NOW).to_json()
    return StoredInMemory(
        recommendations={WHO: json.dumps(advice).encode()},
        configurations={WHO: (DeploymentSince(1.0, deployment),)},
        evidences={WHO: evidence},
        sources=evidence.coverage,
        engines={WHO: window.totals()},
    )


def known() -> Material:
    """Everything there is to know."""
    return material_of(known_store(), WHO, SPAN, w.NOW, Foretold())


def unknown() -> Material:
    """An endpoint that was heard of, and nothing more."""
    store = StoredInMemory(evidences={WHO: w.evidence(w.window([]), covered=())})
    return material_of(store, WHO, SPAN, w.NOW, Foretold())
