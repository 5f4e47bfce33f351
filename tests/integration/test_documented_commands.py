"""The documentation's commands as they stand there, in one folder, with stand-ins for what they reach."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.access import TokenFile
from api.app import create_app
from tests import workloads as w
from tests.documented_commands import EXECUTED, ROOT
from tests.fake_replicas import Cluster, FakeReplica, serving
from tests.manifests import objects, run, tool
from tests.reports import known_store
from tests.served import served
from tests.unit.tierscope.cli.test_recommend import admission
from tierscope.cli.main import app
from tierscope.domain.batch import FeedBatch, FeedPosition
from tierscope.storage.store import Store

ENDPOINT = ("team-support", "support-chat")
TOKEN = "t" * 20


@contextmanager
def api(access=None):
    """An API that knows the endpoint of the pages; its address."""
    store = known_store()
    store.recommendations = {ENDPOINT: next(iter(store.recommendations.values()))}
    store.evidences = {ENDPOINT: next(iter(store.evidences.values()))}
    with served(create_app(store, lambda: w.NOW, access=access)) as address:
        yield address


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all of them are typed."""
    return tmp_path_factory.mktemp("typed")


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    """Files are named without their folder."""
    monkeypatch.chdir(folder)


def tierscope(command, **instead):
    """Run a command of ours in this process; what it prints, or writes where it says `> file`."""
    command, _, target = command.partition(" > ")
    words = [instead.get(word, word) for word in shlex.split(command)]
    variables = dict(word.split("=", 1) for word in words[: words.index("tierscope")])
    found = CliRunner().invoke(app, words[words.index("tierscope") + 1 :], env=variables)
    assert found.exit_code == 0, (found.output, found.exception)
    if target:
        Path(target).write_text(found.stdout)
    return found.stdout


def of(*starts):
    """The documented command that begins so, or with one of several beginnings."""
    [command] = [one for one in EXECUTED if one.startswith(starts)]
    return command


def test_keys_are_made_and_become_secrets(folder):
    """With --dry-run=client kubectl makes the object and sends it nowhere."""
    tierscope(of("tierscope feed-keys"))
    run("bash", "-c", f"cd {folder} && {of('head ')}")
    for start, keys in (
        ("kubectl -n tierscope create secret generic tierscope-feed-keys", 4),
        ("kubectl -n tierscope create secret generic tierscope-hash-key", 1),
    ):
        [made] = objects(kubectl(of(start), folder))
        assert len(made["data"]) == keys
    run("bash", "-c", f"cd {folder} && {of('rm ')}")
    assert not (folder / "hash-key").exists()


def test_who_may_read_is_an_object_that_kubectl_makes(folder):
    """An account, and the role of the chart bound to it."""
    for start in ("kubectl -n tierscope create serviceaccount", "kubectl create clusterrolebinding"):
        assert len(objects(kubectl(of(start), folder))) == 1


def kubectl(command, folder):
    """What kubectl would send."""
    words = f"cd {folder} && {tool('kubectl')} {command.removeprefix('kubectl ')} --dry-run=client -o yaml"
    return run("bash", "-c", words)


def test_the_chart_installs_with_the_values_that_are_named():
    """Rendered: `install` sends the same objects to a cluster."""
    words = shlex.split(of("helm -n tierscope install"))
    words[words.index("install")] = "template"
    found = objects(run(tool("helm"), *words[1:]))

    images = {
        container["image"]
        for one in found
        if one["kind"] in ("DaemonSet", "StatefulSet")
        for container in one["spec"]["template"]["spec"]["containers"]
    }
    assert {image.partition(":")[0] for image in images} == {"registry.example/tierscope"}


def test_advice_is_asked_of_an_api(folder):
    """With a token from a file, and as a document for `apply`."""
    (folder / "token").write_text(TOKEN)
    (folder / "callers").write_text(f"advisor read {TOKEN}\n")
    with api(TokenFile(folder / "callers")) as url:
        shown = tierscope(of("TIERSCOPE_TOKEN_FILE"), **{"http://127.0.0.1:8000": url})
    with api() as url:
        tierscope(of("tierscope recommend --url"), **{"http://127.0.0.1:8000": url})

    assert "change this" in shown
    assert json.loads((folder / "advice.json").read_text())["status"] == "recommend"


def test_reports_are_written(folder):
    """From an API, and from a store that nobody has open."""
    with api() as url:
        tierscope(of("tierscope report --url"), **{"http://127.0.0.1:9500": url})
    assert "support-chat" in (folder / "report.html").read_text()
    store = Store.open(folder / "store.duckdb", clock=lambda: w.NOW)
    entries = (*map(admission, range(600)), w.coverage(600))
    store.append(FeedBatch(FeedPosition("node-1", 1, 0), w.START + 600, entries))
    store.close()
    tierscope(of("tierscope report --store"))
    assert "ns/chat" in (folder / "report.html").read_text()


def test_tiers_of_two_replicas_are_measured(folder):
    """Replicas that answer as engines do; fewer prompts than by default."""
    cluster = Cluster()
    with serving(cluster, FakeReplica(cluster), FakeReplica(cluster)) as (a, b):
        command = f"{of('tierscope measure')} --lengths 640,1000 --repeats 1 --settle 0 --chunk-tokens 64"
        tierscope(
            command,
            **{
                "http://pod-a:8000": a,
                "http://pod-b:8000": b,
                "http://node-a:9400/metrics": f"{a}/exporter/metrics",
            },
        )

    assert "<html" in (folder / "plot.html").read_text()


def test_a_trace_is_simulated_and_held_out(folder):
    """The small trace that is checked in, ten times over: two halves of it are too few to compare."""
    lines = (ROOT / "tests/fixtures/traces/conversations.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    later = rows[-1]["timestamp"]
    many = [{**row, "timestamp": row["timestamp"] + n * later} for n in range(10) for row in rows]
    (folder / "trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in many))

    assert json.loads(tierscope(of("tierscope simulate")))["requests"] == len(many)
    assert json.loads(tierscope(of("tierscope holdout trace.jsonl")))["mae"] < 1


def test_a_size_is_planned():
    """Exporters, collectors, disk."""
    assert "collector" in tierscope(of("tierscope plan"))


def test_the_locks_are_audited(folder):
    """Against a database that knows nothing of what is pinned."""
    (folder / "advisory-database/vulns/nothing").mkdir(parents=True)
    python, script, database = shlex.split(of(".venv/bin/python"))

    assert python == ".venv/bin/python"
    assert "0 hits" in run(sys.executable, ROOT / script, folder / database)
