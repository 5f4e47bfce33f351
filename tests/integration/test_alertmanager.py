"""The shipped example in a real Alertmanager: who hears of what, together with what, and of what not."""

from __future__ import annotations

import subprocess

import pytest

from dashboards.rules.render import alerts
from tests.alertmanager_server import EXAMPLE, AlertmanagerServer, quick_example
from tests.prometheus_server import wait_until
from tests.webhook import Webhook

pytestmark = pytest.mark.system

DELIVERY_SECONDS = 30.0
SEVERITIES = {alert.name: alert.severity.value for alert in alerts()}


@pytest.fixture
def webhook():
    with Webhook() as webhook:
        yield webhook


@pytest.fixture
def alertmanager(webhook, system_binary, tmp_path):
    binary = system_binary("prometheus-alertmanager", package="prometheus-alertmanager")
    server = AlertmanagerServer(binary, quick_example(webhook.url), tmp_path)
    yield server
    server.close()


def alert(name: str, **labels: str) -> dict[str, str]:
    """An alert as our rules would label it."""
    return {"alertname": name, "severity": SEVERITIES[name], **labels}


def test_the_example_is_valid(system_binary):
    """The tool of Alertmanager takes it as it is shipped."""
    amtool = system_binary("amtool", package="prometheus-alertmanager")
    done = subprocess.run(
        [amtool, "check-config", str(EXAMPLE)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_full_pool_pages_once_and_what_follows_from_it_does_not(alertmanager, webhook):
    """Two pools: the full one silences its consequences, the filling one is told to the chat."""
    endpoint = {"namespace": "ns", "endpoint": "chat", "model": "m"}
    full = {"tier": "l2", "holder": "pool"}
    alertmanager.post(
        alert("TierscopePoolFull", **full),
        alert("TierscopePoolFilling", **full),
        alert("TierscopeStoresRefused", **full, instance="a"),
        alert("TierscopeTierHitsLost", **endpoint, tier="l2"),
        alert("TierscopePoolFilling", tier="l2", holder="other"),
        alert("TierscopeTtftBudgetBurnsSlowly", **endpoint),
    )

    wait_until(
        lambda: webhook.names("pager") and webhook.names("chat"),
        seconds=DELIVERY_SECONDS,
        what="two messages",
    )

    assert alertmanager.inhibited() == [
        "TierscopePoolFilling", "TierscopeStoresRefused", "TierscopeTierHitsLost",
    ]  # fmt: skip
    assert webhook.names("pager") == ["TierscopePoolFull"]
    told = [message for path, message in webhook.delivered if path == "chat"]
    assert [one["labels"]["holder"] for message in told for one in message["alerts"]] == ["other"]


def test_everything_about_one_endpoint_comes_in_one_message(alertmanager, webhook):
    """Two tiers of one endpoint together, another endpoint on its own."""
    for_chat = {"namespace": "ns", "endpoint": "chat", "model": "m"}
    alertmanager.post(
        alert("TierscopeTierHitsLost", **for_chat, tier="l0"),
        alert("TierscopeTierHitsLost", **for_chat, tier="l1"),
        alert("TierscopeTierHitsLost", **for_chat | {"endpoint": "rag"}, tier="l1"),
    )

    wait_until(lambda: len(webhook.delivered) == 2, seconds=DELIVERY_SECONDS, what="two messages")

    assert sorted(len(message["alerts"]) for _, message in webhook.delivered) == [1, 2]
