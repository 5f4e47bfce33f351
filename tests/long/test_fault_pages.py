"""A fault is planted: a real Alertmanager tells its receiver who made TTFT worse, and nothing else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.faults_blamed import WHO
from tests.faulty_deployment import FaultyDeployment
from tests.incidents import FAULTS, deployment
from tests.long_sample import SAMPLED
from tests.prometheus_server import wait_until
from tierscope.testbed.config import Faults, Incident, IncidentKind

pytestmark = [pytest.mark.long, pytest.mark.system]

QUIET_SECONDS = 60.0
"""Before the fault nobody is paged, and after the page nobody else is."""
PAGE_SECONDS = 1500.0


@pytest.fixture
def running(request, tmp_path, system_binary):
    """The deployment for a kind of fault, watched."""
    config = deployment(request.param, 1, warm_seconds=1.0, after_seconds=1.0)
    with FaultyDeployment(
        replace(config, faults=Faults()),
        tmp_path,
        prometheus=system_binary("prometheus", package="prometheus"),
        manager=system_binary("prometheus-alertmanager", package="prometheus-alertmanager"),
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("running", "kind"),
    [(kind, kind) for kind in ([IncidentKind.L2_SLOW] if SAMPLED else sorted(WHO))],
    indirect=["running"],
)
def test_the_right_page_and_no_other(running, kind, capsys):
    """One alert with cause, tier and reason; the same sentence at the API."""
    time.sleep(QUIET_SECONDS)
    assert running.pages() == []

    planted = running.plant(Incident(kind=kind, at_seconds=0.0, factor=FAULTS[kind]))
    wait_until(running.pages, seconds=PAGE_SECONDS, what="a page")
    minutes = (time.time() - planted) / 60
    time.sleep(QUIET_SECONDS)
    pages, regressions = running.pages(), running.regressions(planted - QUIET_SECONDS)

    labels, text = pages[0]["labels"], pages[0]["annotations"]
    with capsys.disabled():
        guilty = [labels.get(name) for name in ("alertname", "cause", "tier", "reason")]
        print(f"\n{kind}: {minutes:.1f} min, {guilty}\n  {text['summary']}")
    blamed = WHO[kind]
    assert [page["labels"]["alertname"] for page in pages] == ["TierscopeTtftRegression"]
    assert labels["cause"] in blamed.causes
    assert (labels["tier"], labels["reason"]) == (blamed.tier or "none", blamed.reason or "none")
    assert f"since {labels['since']}: " in text["summary"]
    assert "; " in text["summary"]
    assert [one["cause"] for one in regressions] == [labels["cause"]]
