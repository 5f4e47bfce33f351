"""The shipped example in a real Alertmanager: who hears of what, together with what, and of what not."""

from __future__ import annotations

import subprocess

import pytest

from dashboards.rules.render import alerts
from tests.alertmanager_server import EXAMPLE, AlertmanagerServer, quick_example
from tests.prometheus_server import wait_until
from tests.webhook import Webhook

pytestmark = pytest.mark.system

DELIVERY_SECONDS = 120.0
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


BURNS = ("TierscopeTtftBudgetBurnsFast", "TierscopeTtftBudgetBurns", "TierscopeTtftBudgetBurnsSlowly")


def test_a_budget_that_burns_is_told_once_by_the_fastest_window(alertmanager, webhook):
    """What burns fast also burns slowly; of another model of the endpoint it silences nothing."""
    chat = {"namespace": "ns", "endpoint": "chat", "model": "m"}
    rag = {**chat, "endpoint": "rag"}
    alertmanager.post(
        *(alert(name, **chat) for name in BURNS),
        *(alert(name, **rag) for name in BURNS[1:]),
        alert("TierscopeTtftBudgetBurns", **chat | {"model": "n"}),
    )

    wait_until(
        lambda: webhook.names("pager") and len(told(webhook, "chat")) == 2,
        seconds=DELIVERY_SECONDS,
        what="both receivers' messages",
    )

    assert alertmanager.inhibited() == sorted((*BURNS[1:], BURNS[2]))
    assert told(webhook, "pager") == [(BURNS[0], "chat", "m")]
    assert sorted(told(webhook, "chat")) == [(BURNS[1], "chat", "n"), (BURNS[1], "rag", "m")]


def test_a_regression_silences_the_budgets_of_its_model_and_comes_in_one_message(alertmanager, webhook):
    """One fault that two models feel pages once; a budget that nobody explains is not silenced."""
    chat = {"namespace": "ns", "endpoint": "chat"}
    guilty = {"cause": "tier_speed", "tier": "l2", "reason": "slow", "since": "2026-01-01T10:05Z"}
    alertmanager.post(
        *(alert("TierscopeTtftRegression", **chat, **guilty, model=m, workload=m) for m in ("m", "n")),
        *(alert(name, **chat, model=m) for name in BURNS for m in ("m", "n")),
        alert(BURNS[0], **chat | {"endpoint": "rag"}, model="m"),
    )

    wait_until(
        lambda: len(told(webhook, "pager")) == 3, seconds=DELIVERY_SECONDS, what="both endpoints' pages"
    )

    assert alertmanager.inhibited() == sorted((*BURNS, *BURNS))
    by_endpoint = {message["groupLabels"]["endpoint"]: message["alerts"] for _, message in webhook.delivered}
    assert [one["labels"]["alertname"] for one in by_endpoint["rag"]] == [BURNS[0]]
    assert {one["labels"]["alertname"] for one in by_endpoint["chat"]} == {"TierscopeTtftRegression"}
    assert len(by_endpoint["chat"]) == 2


def told(webhook, receiver: str) -> list[tuple[str, str, str]]:
    """Name, endpoint and model of what came to a receiver."""
    return [
        tuple(one["labels"][label] for label in ("alertname", "endpoint", "model"))
        for path, message in list(webhook.delivered)
        if path == receiver
        for one in message["alerts"]
    ]
