"""The chart with everything encrypted: what the page on encryption says is what is installed."""

from __future__ import annotations

import re
from functools import cache

import kubernetes_validate
import pytest
import yaml

from tests.manifests import CHART, POD_KINDS, ROOT, objects, of_kind, run, settings_texts, tool
from tierscope.cli.feed_keys import COLLECTOR_KEY, EXPORTER_KEY, EXPORTER_PUBLIC, READERS
from tierscope.cli.settings_file import load_settings

KEYS_FOLDER = "/etc/tierscope/feed-keys"


def values_of_the_page():
    """The values that docs/encryption.md shows."""
    [values] = re.findall(r"```yaml\n(.+?)```", (ROOT / "docs/encryption.md").read_text(), re.DOTALL)
    return values


@cache
def encrypted(folder):
    """What is applied with them, with a pool of its own."""
    path = folder / "values.yaml"
    path.write_text(values_of_the_page())
    pool = ("--set", "pool.enabled=true,pool.claimName=claim")
    return objects(run(tool("helm"), "template", "t", CHART, "-n", "tierscope", "--values", path, *pool))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The objects, rendered once."""
    return encrypted(tmp_path_factory.mktemp("values"))


def pods(found):
    """Pod specs by component."""
    return {
        one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"][
            "spec"
        ]
        for one in of_kind(found, *POD_KINDS)
    }


def test_every_object_is_one_that_kubernetes_knows(found):
    """Strictly."""
    for one in of_kind(found, *POD_KINDS, "ConfigMap", "Service"):
        if "grafana_dashboard" not in one["metadata"].get("labels", {}):
            kubernetes_validate.validate(one, "1.37", strict=True)


def test_every_port_of_ours_is_encrypted_and_wants_to_know_who_asks(found, tmp_path):
    """In the settings as Tierscope reads them."""
    texts = settings_texts(found)
    assert len(texts) == 2
    for text in texts:
        path = tmp_path / "tierscope.yaml"
        path.write_text(text)
        settings = load_settings(path)
        assert settings.exporter.tls.client_ca_file.endswith("/ca.crt")
        assert settings.exporter.feed_keys.clients_file == f"{KEYS_FOLDER}/{READERS}"
        assert settings.exporter.feed_keys.key_file == f"{KEYS_FOLDER}/{EXPORTER_KEY}"
        if "collector" in yaml.safe_load(text):
            assert settings.collector.tls == settings.exporter.tls
            assert settings.collector.feed_keys.key_file == f"{KEYS_FOLDER}/{COLLECTOR_KEY}"
            assert settings.collector.feed_keys.server_key_file == f"{KEYS_FOLDER}/{EXPORTER_PUBLIC}"
            assert settings.api.tls_client_ca_file == "/etc/tierscope/tls/ca.crt"


def test_a_pod_has_no_secret_key_but_its_own(found):
    """And every file that its settings name is mounted."""
    kept = {
        name: {item["key"] for volume in pod["volumes"] if volume["name"] == "feed-keys"
               for item in volume["secret"]["items"]}
        for name, pod in pods(found).items()
    }  # fmt: skip

    exporters = {EXPORTER_KEY, READERS}
    assert kept == {"exporter": exporters, "pool": exporters, "server": {COLLECTOR_KEY, EXPORTER_PUBLIC}}
    for pod in pods(found).values():
        [container] = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert {volume["name"] for volume in pod["volumes"]} <= mounted


def test_no_probe_asks_for_a_page_that_wants_a_certificate(found):
    """A kubelet has none: the pod would never be ready."""
    for pod in pods(found).values():
        [container] = pod["containers"]
        probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
        assert all("tcpSocket" in probe for probe in probes)


@pytest.mark.parametrize(
    ("wanted", "secret"),
    [("server.tlsClients", "server.tlsSecret"), ("tls.metricsClients", "tls.metricsSecret")],
)
def test_clients_certificates_without_one_of_ours_are_refused(wanted, secret):
    """Rendered all the same, the port would be plain, and open to whoever shows nothing."""
    with pytest.raises(AssertionError, match=f"{wanted}: .*name the Secret with it in {secret}"):
        run(tool("helm"), "template", "t", CHART, "--set", f"{wanted}=true")


def test_prometheus_is_told_to_speak_tls(found):
    """As the values say, on every pod."""
    monitors = of_kind(found, "PodMonitor")
    assert len(monitors) == 3
    for monitor in monitors:
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["scheme"] == "https"
        assert endpoint["tlsConfig"]["keySecret"]["key"] == "tls.key"
        assert endpoint["honorLabels"] is True
