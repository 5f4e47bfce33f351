"""Which deployments a collector advises on: those of its settings, and those it finds."""

from __future__ import annotations

import pytest

from collectors.complaints import Complaints
from collectors.deployments import Deployments
from tests.kubernetes import FOLDER, Objects
from tierscope.domain.deployment import Deployment, Objective
from tierscope.domain.errors import BadInput, BadSettings
from tierscope.domain.settings import CollectorSettings, KubernetesSettings

FILE = str(FOLDER / "support-chat.yaml")


def found(*configured: Deployment, **kubernetes) -> tuple[tuple[Deployment, ...], list[Deployment]]:
    """The deployments there are, and those that were recorded."""
    recorded: list[Deployment] = []
    settings = CollectorSettings(
        deployments=configured, kubernetes=KubernetesSettings(**kubernetes) if kubernetes else None
    )
    deployments = Deployments(settings, recorded.append, Complaints(lambda: 0.0))
    return tuple(deployments()), recorded


def test_files_of_objects_are_deployments():
    """Read once, recorded once, with the objective of the settings."""
    there, recorded = found(manifests=(FILE,), objective=Objective(target=0.8))

    assert there == tuple(recorded) == (Objects().read(objective=Objective(target=0.8)),)


def test_what_the_settings_say_goes_before_what_is_found():
    """An endpoint that is listed is as it is written, and recorded as that alone."""
    own = Deployment("team-support", "support-chat", "mine", 1)
    other = Deployment("prod", "chat", "model", 2)
    there, recorded = found(own, other, manifests=(FILE,))

    assert there == tuple(recorded) == (own, other)


def test_without_kubernetes_there_are_those_of_the_settings():
    """Nothing is watched."""
    own = Deployment("prod", "chat", "model", 2)

    assert found(own) == ((own,), [own])


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """With its path."""
    with pytest.raises(BadInput, match="cannot be read") as refused:
        found(manifests=(str(tmp_path / "none.yaml"),))

    assert refused.value.where == str(tmp_path / "none.yaml")


def test_an_api_that_is_nowhere_is_a_problem_of_the_settings(tmp_path):
    """The fields to set are named."""
    with pytest.raises(BadSettings, match="cannot be found") as refused:
        found(kubeconfig=str(tmp_path / "none"))

    assert "collector.kubernetes.kubeconfig" in refused.value.fix
