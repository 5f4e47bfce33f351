"""Each incident changes the deployment from its second on, and nothing before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.incidents import deployment, observations
from tierscope.testbed.config import Faults, IncidentKind

AT_SECONDS, AFTER_SECONDS = 150.0, 150.0


@pytest.mark.parametrize("kind", IncidentKind)
def test_a_run_is_its_quiet_twins_until_the_incident(kind):
    """And another one from there on."""
    config = deployment(kind, 1, warm_seconds=AT_SECONDS, after_seconds=AFTER_SECONDS)
    (seen, _), (quiet, _) = observations(config), observations(replace(config, faults=Faults()))

    early, late = (
        [run.take(chosen).ttft_seconds for run, chosen in ((seen, seen.at_unix_seconds < AT_SECONDS),
                                                           (quiet, quiet.at_unix_seconds < AT_SECONDS))],
        [seen.ttft_seconds, quiet.ttft_seconds],
    )  # fmt: skip

    assert len(early[0]) > 100
    assert np.array_equal(*early)
    assert not np.array_equal(*late)
