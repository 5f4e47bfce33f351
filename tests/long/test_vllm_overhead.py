"""What the probe costs a real engine: measured and printed; a time on a shared machine proves nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.engines.environment import vllm_environment
from tests.engines.overhead import SIZES_BLOCKS, markdown, measure
from tests.long_sample import SAMPLED

pytestmark = pytest.mark.long


def test_the_cost_of_the_probe_is_measured(tmp_path):
    """Every size and every pair gives a row; the table is printed, the numbers are left in a file."""
    some = {"batches": 2, "pairs": 3} if SAMPLED else {}

    report = measure(vllm_environment(), tmp_path, **some)

    print(f"\n{markdown(report)}")
    (tmp_path / "overhead.json").write_text(json.dumps(asdict(report), indent=1), "utf-8")
    assert [cost.blocks for cost in report.costs] == list(SIZES_BLOCKS)
    assert all(cost.us_a_request > 0 for cost in report.costs)
    assert report.ratios
    assert all(ratio.low <= ratio.median <= ratio.high for ratio in report.ratios)
