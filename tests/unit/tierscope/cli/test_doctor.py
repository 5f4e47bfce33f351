"""The doctor looks at every source the settings name, and says which numbers can be trusted."""

from __future__ import annotations

import json
import socket
from contextlib import closing

import pytest
import yaml
from typer.testing import CliRunner

from tests.kubernetes import FOLDER
from tests.ledgers import START
from tests.page_server import PageServer
from tests.ports import unused_endpoint
from tests.stored import StoredInMemory
from tierscope.cli.doctor_check import Check
from tierscope.cli.doctor_checks import checks
from tierscope.cli.main import app
from tierscope.domain.events import SourceCoverage
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import (
    CollectorSettings,
    CurvineSettings,
    EngineSettings,
    ExporterSettings,
    FeedSource,
    KubernetesSettings,
    Settings,
)
from tierscope.domain.severity import Severity
from tierscope.storage.serving import StoreServer

ENGINE = {"namespace": "ns", "endpoint": "chat", "replica": "pod-0"}


@pytest.fixture
def listening():
    """The address of somebody who listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent():
    """An address nobody listens at."""
    return unused_endpoint()


def found(tmp_path, **parts) -> dict[str, Check]:
    collector = parts.pop("collector", {})
    settings = Settings(collector=CollectorSettings(store_path=str(tmp_path / "store"), **collector), **parts)
    return {check.source: check for check in checks(settings, now_unix_seconds=START)}


def test_every_stream_of_an_engine_is_tried(tmp_path, listening, silent):
    """One that answers is well; one that does not, critical; one not set says what is lost by it."""
    engine = EngineSettings(**ENGINE, hook_endpoint=listening, events_endpoint=silent)
    told = found(tmp_path, exporter=ExporterSettings(engines=(engine,)))
    name = "engine ns/chat/pod-0/0"

    assert told[f"{name}, hook"].severity is None
    assert told[f"{name}, events"].severity is Severity.CRITICAL
    assert told[f"{name}, hook replay"].severity is Severity.WARNING
    assert "hook_replay_endpoint" in told[f"{name}, hook replay"].fix
    assert told[name].severity is Severity.WARNING


def test_pages_are_asked(tmp_path):
    """A page that answers is well; one that refuses, and one of no master of several, is told."""
    with closing(PageServer({"/metrics": b"up 1\n"})) as page:
        engines = tuple(
            EngineSettings(**{**ENGINE, "replica": name}, metrics_url=f"{page.url}/{path}")
            for name, path in (("well", "metrics"), ("wrong", "absent"))
        )
        masters = (f"{page.url}/standby", page.url)
        clusters = (CurvineSettings(name="pool", master_urls=masters),)
        told = found(tmp_path, exporter=ExporterSettings(engines=engines, curvine=clusters))

    assert told["engine ns/chat/well/0"].severity is None
    assert told["engine ns/chat/wrong/0"].severity is Severity.CRITICAL
    assert "404" in told["engine ns/chat/wrong/0"].says
    assert told["curvine pool"].severity is None


def test_feeds_are_tried(tmp_path, listening, silent):
    """Without its feed an exporter's numbers never arrive; without replay a gap stays one."""
    feed = FeedSource(name="node-1", endpoint=listening, replay_endpoint=silent)
    told = found(tmp_path, collector={"feeds": (feed,)})

    assert told["feed node-1"].severity is None
    assert told["feed node-1, replay"].severity is Severity.WARNING


def test_a_collector_that_does_not_answer_is_critical(tmp_path):
    """Then nothing is known of what arrived."""
    assert found(tmp_path)["collector"].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("received", "missing", "stale", "severity"),
    [
        (1000, 0, False, None),
        (1000, 0, True, Severity.WARNING),
        (990, 10, False, Severity.WARNING),
        (500, 500, False, Severity.CRITICAL),
        (0, 0, False, Severity.INFO),
    ],
)
def test_what_arrived_says_what_can_be_trusted(tmp_path, received, missing, stale, severity):
    """By the share of each stream that is in the store."""
    source = SourceId(SourceKind.VLLM_HOOK, "ns/chat/pod-0/0")
    part = SourceCoverage(source, 1, START - 60, START, received, missing, stale=stale)
    server = StoreServer(StoredInMemory(sources=(part,)), tmp_path / "store.sock")
    try:
        told = found(tmp_path)
    finally:
        server.close()

    assert told[str(source)].severity is severity


def test_files_of_kubernetes_objects_are_read(tmp_path):
    """A file that cannot be read is named with what to do."""
    good = KubernetesSettings(manifests=(str(FOLDER / "support-chat.yaml"),))
    bad = KubernetesSettings(manifests=(str(tmp_path / "none.yaml"),))

    assert found(tmp_path, collector={"kubernetes": good})["kubernetes files"].severity is None
    assert found(tmp_path, collector={"kubernetes": bad})["kubernetes"].severity is Severity.CRITICAL


@pytest.mark.parametrize(("fail_on", "status"), [("critical", 3), ("warning", 3), ("info", 3)])
def test_the_command_fails_on_what_is_asked_for(tmp_path, fail_on, status):
    """Exit status 3 and one JSON document; the collector that does not run is the critical one."""
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"collector": {"store_path": str(tmp_path / "store")}}))
    result = CliRunner().invoke(app, ["doctor", "--config", str(path), "--json", "--fail-on", fail_on])
    [check] = json.loads(result.stdout)["checks"]

    assert (result.exit_code, check["status"], check["source"]) == (status, "critical", "collector")


def test_without_json_it_is_a_table(tmp_path):
    """What was found and what to do, in words."""
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"collector": {"store_path": str(tmp_path / "store")}}))
    result = CliRunner().invoke(app, ["doctor", "--config", str(path)])

    assert "no collector listens" in " ".join(result.stdout.split())
