"""One endpoint as Kubernetes would have it, for tests that read, change or patch it."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from collectors.kube.assemble import deployments
from collectors.kube.state import cluster_of
from tierscope.domain.deployment import Deployment

FOLDER = Path(__file__).parent / "fixtures" / "kubernetes"


class Objects:
    """The fixture's objects, to be changed before they are read."""

    def __init__(self) -> None:
        text = (FOLDER / "support-chat.yaml").read_text("utf-8")
        # YAML gives objects that share an anchor one Python object; a change must reach one of them only.
        self.all: list[dict] = [copy.deepcopy(one) for one in yaml.safe_load(text)["items"]]

    def named(self, kind: str, name: str) -> dict:
        return next(one for one in self.all if one["kind"] == kind and one["metadata"]["name"] == name)

    @property
    def spec(self) -> dict:
        """What the endpoint asks for."""
        return self.named("InferenceEndpointConfig", "support-chat")["spec"]

    def pods(self) -> list[dict]:
        """The pods of the endpoint."""
        return [self.named("Pod", f"support-chat-{i}") for i in range(2)]

    def engines(self) -> list[dict]:
        """The engine's container wherever it stands: rendered, and in both pods."""
        rendered = self.named("Deployment", "support-chat")["spec"]["template"]["spec"]
        return [spec["containers"][1] for spec in (rendered, *(pod["spec"] for pod in self.pods()))]

    def say(self, *args: str, **variables: str | None) -> Objects:
        """Add engine arguments; set variables of every engine, or take them away (None)."""
        for container in (*self.engines(), self.spec["worker"]):
            container["args"] = [*container["args"], *args]
            field = "env" if "env" in container else "environmentVariables"
            kept = [one for one in container[field] if one["name"] not in variables]
            container[field] = kept + [
                {"name": name, "value": value} for name, value in variables.items() if value is not None
            ]
        return self

    def read(self, **options) -> Deployment:
        [found] = deployments(cluster_of(self.all, "the fixture"), **options)
        return found


def definitions() -> list[dict]:
    """The fixture's definition, and open ones of the two kinds it does not have."""
    text = (FOLDER / "crd-inferenceendpointconfig.yaml").read_text("utf-8")
    endpoint = yaml.safe_load(text)
    found = [endpoint]
    for name, plural, version in (
        ("JumpStartModel", "jumpstartmodels", "v1"),
        ("InferenceGatewayConfig", "inferencegatewayconfigs", "v1alpha1"),
    ):
        open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {
            "name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": open_schema},
        }  # fmt: skip
        group = endpoint["spec"]["group"]
        names = {"kind": name, "plural": plural, "singular": name.lower(), "listKind": f"{name}List"}
        found.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
            }
        )
    return found
