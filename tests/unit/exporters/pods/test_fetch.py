"""Asking the Kubernetes API for a node's pods."""

from __future__ import annotations

import pytest

from exporters.pods.fetch import PodLister, node_of
from tests.node_pods import PodApi, engine, pod
from tierscope.domain.discovery import PodDiscovery
from tierscope.domain.errors import BadSettings, SourceUnreadable


@pytest.fixture
def api():
    with PodApi() as api:
        api.pods = [pod("one", engine())]
        yield api


def lister(api, tmp_path, **fields):
    discovery = PodDiscovery(
        **{"node": "node-a", "api_url": api.url, "service_account_folder": str(tmp_path)} | fields
    )
    return PodLister(discovery, 5.0, environ={})


def test_the_node_is_asked_for_and_the_token_read_anew(api, tmp_path):
    """Only this node's pods travel; a token that was renewed is used at once."""
    (tmp_path / "token").write_text("old")
    asking = lister(api, tmp_path)
    with pytest.raises(SourceUnreadable, match="403") as refused:
        asking.list_pods()
    (tmp_path / "token").write_text(api.token + "\n")

    assert [one.metadata.name for one in asking.list_pods()] == ["one"]
    assert api.asked[-1] == "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a&resourceVersion=0"
    assert "rbac-exporter.yaml" in refused.value.fix
    asking.close()


def test_a_token_that_cannot_be_read_is_a_listing_that_failed(api, tmp_path):
    """It is told, and tried again: whoever lists goes on."""
    (tmp_path / "token").mkdir()
    asking = lister(api, tmp_path)

    with pytest.raises(SourceUnreadable, match="token cannot be read"):
        asking.list_pods()
    asking.close()


def test_named_namespaces_are_asked_one_by_one(api, tmp_path):
    """So that a Role in each of them is enough."""
    (tmp_path / "token").write_text(api.token)
    asking = lister(api, tmp_path, namespaces=("a", "b"))
    asking.list_pods()
    asking.close()

    assert [path.split("?")[0] for path in api.asked] == [
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/b/pods",
    ]


def test_nobody_says_where():
    """Neither the node nor the API are guessed."""
    with pytest.raises(BadSettings, match="which node this is"):
        PodLister(PodDiscovery(), 5.0, environ={})
    with pytest.raises(BadSettings, match="API cannot be found"):
        PodLister(PodDiscovery(), 5.0, environ={"NODE_NAME": "n"})
    assert node_of(PodDiscovery(), {"NODE_NAME": "n"}) == "n"


def test_a_certificate_that_is_none_is_said_at_the_start(tmp_path):
    """And not at the first look."""
    (tmp_path / "ca.crt").write_text("no certificate")

    with pytest.raises(BadSettings, match=r"ca\.crt cannot be used"):
        PodLister(PodDiscovery(node="n", api_url="https://x", service_account_folder=str(tmp_path)), 5.0)
