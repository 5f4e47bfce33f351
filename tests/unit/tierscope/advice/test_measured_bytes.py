"""What a token really takes goes before what its model's formula says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tierscope.advice.readings import read_tiers
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import TierSample
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence


def test_bytes_a_token_are_measured_where_a_tier_tells_what_it_holds():
    """UD-44: 4.93 GB for 36,808 tokens are 134 KB each, whatever a formula says; 30 GB hold four contexts."""
    held = TierSample(
        Tier.L1, "host", 0.0, capacity_bytes=30e9, used_bytes=4.93e9, used_blocks=4601, block_tokens=8
    )
    evidence = Evidence(w.window([np.zeros(0, np.uint64)]), (held,))
    deployment = Deployment("ns", "chat", "m", 1, model_bytes_per_token=18_900.0)

    reading = read_tiers(evidence, deployment)[Tier.L1]

    assert reading.bytes_per_token == pytest.approx(134e3, rel=0.01)
    assert 50_000 * reading.bytes_per_token == pytest.approx(6.7e9, rel=0.01)
    assert reading.capacity_tokens // 50_000 == 4


def test_blocks_that_requests_pin_are_no_reason_to_grow():
    """UD-29: a usage of 1.0 is of blocks in use; what a tier holds and could hold is read without it."""
    deployment = Deployment("ns", "chat", "m", 1, model_bytes_per_token=18_900.0)
    window = w.window([np.zeros(0, np.uint64)])
    sample = TierSample(Tier.L0, "e", 0.0, capacity_blocks=1000, used_blocks=400, block_tokens=16)

    calm, busy = (
        read_tiers(Evidence(window, (replace(sample, pinned_blocks=pinned),)), deployment)
        for pinned in (0, 1000)
    )

    assert calm == busy
