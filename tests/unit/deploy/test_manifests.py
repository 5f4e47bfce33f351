"""What is installed: two ways that say the same, safe pods, and settings that Tierscope reads."""

from __future__ import annotations

import copy
import doctest
import filecmp
import json

import kubernetes_validate
import pytest
import yaml

from dashboards import kustomization
from tests.manifests import (
    CHART,
    OVERLAYS,
    POD_KINDS,
    ROOT,
    by_helm,
    by_kustomize,
    of_kind,
    run,
    settings_texts,
    tool,
)
from tierscope.cli.settings_file import load_settings

VERSIONS = json.loads((ROOT / "deploy/versions.json").read_text("utf-8"))
overlays = pytest.mark.parametrize("overlay", OVERLAYS)


def key(one: dict) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def comparable(found: list[dict]) -> dict:
    """Objects by name, without what only one of the two ways can know: the namespace itself, and a hash."""
    kept = {}
    for one in copy.deepcopy(found):
        if one["kind"] == "Namespace":
            continue
        if one["kind"] in POD_KINDS:
            one["spec"]["template"]["metadata"].pop("annotations", None)
        for text in ("tierscope.yaml",):
            if text in one.get("data", {}):
                one["data"][text] = yaml.safe_load(one["data"][text])
        kept[key(one)] = one
    return kept


def test_the_chart_has_no_faults():
    """By Helm's own lint, warnings being faults."""
    run(tool("helm"), "lint", "--strict", CHART)


@overlays
def test_helm_and_kustomize_install_the_same(overlay):
    """Object by object, whoever chooses which."""
    helm, kustomize = comparable(by_helm(overlay)), comparable(by_kustomize(overlay))

    assert helm.keys() == kustomize.keys()
    assert helm == kustomize


def test_what_kustomize_takes_from_the_chart_is_fresh(tmp_path):
    """Its files are the chart's rendering of now."""
    run(".ci/render-manifests", tmp_path, env={"TIERSCOPE_HELM_CACHE": tool("helm").removesuffix("/helm")})
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.yaml")]
    stale = [
        str(path)
        for path in written
        if not filecmp.cmp(tmp_path / path, ROOT / "deploy/kustomize" / path, shallow=False)
    ]

    assert len(written) == 13
    assert stale == []


@pytest.mark.parametrize("version", VERSIONS["kubernetes"])
def test_every_object_fits_the_schema_of_each_version(version):
    """Strictly: a field that the version does not know is a fault; kinds it has no schema of are listed."""
    everything = {
        json.dumps(one, sort_keys=True): one for overlay in OVERLAYS for one in by_kustomize(overlay)
    }
    unknown = set()
    for one in everything.values():
        if one["metadata"].get("labels", {}).get("grafana_dashboard"):
            continue  # a board: one long text, no further fields
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            unknown.add(one["kind"])

    kinds = {one["kind"] for one in everything.values()}
    assert unknown == set(VERSIONS["kubernetes_without_schema_of"]) & kinds


def test_a_field_that_kubernetes_does_not_know_is_a_fault():
    """So that the test above can fail."""
    [workload] = of_kind(copy.deepcopy(by_kustomize("plain")), "DaemonSet")
    workload["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(workload, VERSIONS["kubernetes"][0], strict=True)


@overlays
def test_every_settings_file_is_one_that_tierscope_reads(overlay, tmp_path):
    """Every field of it, and every name in it that has to meet another."""
    texts = settings_texts(by_helm(overlay))
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        settings = load_settings(path)
        assert settings.exporter.hash_key_file == "/etc/tierscope/keys/hash-key"

    assert len(texts) == (2 if overlay == "hyperpod" else 1)


@overlays
def test_every_pod_may_run_where_only_restricted_pods_may(overlay):
    """Kubernetes' restricted standard, and a root that nobody writes to."""
    for workload in of_kind(by_helm(overlay), *POD_KINDS):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= {
            "configMap", "secret", "emptyDir", "persistentVolumeClaim",
        }  # fmt: skip
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


@overlays
def test_every_container_says_what_it_needs_and_how_it_is(overlay):
    """Requests, a memory limit, three probes, an image with a version."""
    for workload in of_kind(by_helm(overlay), *POD_KINDS):
        for container in workload["spec"]["template"]["spec"]["containers"]:
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
            assert container["image"] == f"tierscope:{VERSIONS['tierscope']}"


@overlays
def test_what_tierscope_writes_is_on_a_volume(overlay):
    """Store, socket, kernels, temporary files and scan state each have a place that can be written."""
    for workload in of_kind(by_helm(overlay), *POD_KINDS):
        [container] = workload["spec"]["template"]["spec"]["containers"]
        writable = [one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")]
        environment = {one["name"]: one.get("value", "") for one in container["env"]}
        assert environment["NUMBA_CACHE_DIR"] in writable
        assert environment["HOME"] in writable
        if workload["metadata"]["name"] == "tierscope-server":
            found = map(yaml.safe_load, settings_texts(by_helm(overlay)))
            [collector] = [told["collector"] for told in found if "collector" in told]
            local = collector["socket_path" if overlay == "lake" else "store_path"]
            assert any(local.startswith(f"{place}/") for place in writable)


@overlays
def test_every_pod_is_behind_a_network_policy_in_both_directions(overlay):
    """Nobody is reachable because somebody forgot him."""
    found = by_helm(overlay)
    policies = {
        json.dumps(one["spec"]["podSelector"]["matchLabels"], sort_keys=True): one["spec"]["policyTypes"]
        for one in of_kind(found, "NetworkPolicy")
    }
    for workload in of_kind(found, *POD_KINDS):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert policies[json.dumps(labels, sort_keys=True)] == ["Ingress", "Egress"]


@overlays
def test_whoever_is_named_by_label_or_port_is_there(overlay):
    """Services, policies, monitors and budgets select pods that exist, at ports that they name."""
    found = by_helm(overlay)
    pods = [one["spec"]["template"] for one in of_kind(found, *POD_KINDS)]
    ports = {port["name"] for pod in pods for one in pod["spec"]["containers"] for port in one["ports"]}
    labels = [pod["metadata"]["labels"] for pod in pods]
    selectors = [one["spec"]["selector"] for one in of_kind(found, "Service")]
    selectors += [
        one["spec"]["selector"]["matchLabels"] for one in of_kind(found, "PodMonitor", "PodDisruptionBudget")
    ]
    named = [port["targetPort"] for one in of_kind(found, "Service") for port in one["spec"]["ports"]]
    named += [
        end["port"] for one in of_kind(found, "PodMonitor") for end in one["spec"]["podMetricsEndpoints"]
    ]
    named += [
        port["port"] for one in of_kind(found, "NetworkPolicy") for rule in one["spec"]["ingress"]
        for port in rule["ports"]
    ]  # fmt: skip

    assert all(selector in labels for selector in selectors)
    assert set(named) <= ports


@overlays
def test_rights_are_lists_and_watches_alone(overlay):
    """Nothing of ours may change the cluster or read a Secret."""
    for role in of_kind(by_helm(overlay), "ClusterRole", "Role"):
        for rule in role["rules"]:
            if "nonResourceURLs" in rule:
                assert role["metadata"]["name"] == "tierscope-reader"
                continue
            assert set(rule["verbs"]) <= {"list", "watch"}
            assert "secrets" not in rule["resources"]
            assert "*" not in [*rule["resources"], *rule["apiGroups"]]


def test_a_store_file_has_one_server():
    """Several are refused by name, not left to quarrel about a file."""
    with pytest.raises(AssertionError, match="a file has one owner"):
        run(tool("helm"), "template", "tierscope", CHART, "--set", "server.replicas=2")


@overlays
def test_no_store_has_two_servers(overlay):
    """Nor a lake: with several collectors on one, `coverage` was seen wrong (docs/store.md)."""
    servers = [
        one for one in of_kind(by_helm(overlay), "StatefulSet") if one["metadata"]["name"].endswith("-server")
    ]

    assert [one["spec"]["replicas"] for one in servers] == [1]


def test_named_namespaces_are_the_only_ones_with_rights():
    """Where namespaces are named, what is bound everywhere is what has no namespace."""
    everywhere = {one["metadata"]["name"] for one in of_kind(by_helm("hyperpod"), "ClusterRoleBinding")}
    here = {one["metadata"]["namespace"] for one in of_kind(by_helm("hyperpod"), "RoleBinding")}

    assert everywhere == {"tierscope-collector-cluster", "tierscope-reviews"}
    assert here == {"team-support", "curvine", "tierscope"}


def test_the_boards_are_those_that_are_built():
    """Every board, as Grafana's side-car takes it, small enough for a ConfigMap."""
    boards = [one for one in of_kind(by_kustomize("file-store"), "ConfigMap") if "labels" in one["metadata"]]
    boards = [one for one in boards if one["metadata"]["labels"].get("grafana_dashboard")]
    built = sorted((ROOT / "dashboards/generated/classic").glob("*.json"))

    assert sorted(one["metadata"]["name"] for one in boards) == [path.stem for path in built]
    assert all(path.stat().st_size < 1_000_000 for path in built)
    assert doctest.testmod(kustomization).failed == 0
