"""The testbed speaks as the recorded engines do: the same frames, fields, types, families and labels."""

from __future__ import annotations

import base64
import json
import re
import struct
import urllib.request
from collections import defaultdict

import msgspec
import pytest
import zmq

from tests.captured import lmcache_payloads
from tierscope.testbed import Faults, Mix, Testbed, TestbedConfig
from tierscope.testbed.model.counters import TTFT_EDGES_SECONDS
from tierscope.testbed.testbed import vllm_site
from tierscope_probe.lmcache_records import RECORDS

PATIENCE_MILLISECONDS = 60_000
SMALL = {
    "replicas": 1,
    "duration_seconds": 300.0,
    "speed": 2000.0,
    "l0_bytes": 0.55 * 2**30,
    "l1_bytes": 1.5 * 2**30,
    "mix": Mix(
        agents_per_second=0.03, chats_per_second=0.05, documents_per_second=0.1, unrelated_per_second=0.1
    ),
}
"""Little memory, so that preemptions and refused stores happen too."""

SERIES = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
NEVER_SEEN_IN_A_CAPTURE = {"lmcache_mp_l2_prefetch_failure_chunks_total"}
"""Real, from LMCache's source; no recorded run had the failure."""


def frames_of(endpoint: str) -> list[list[bytes]]:
    """The answers to a replay from 0, frame by frame, the end marker included."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(endpoint)
        dealer.send_multipart((b"", bytes(8)))
        answers: list[list[bytes]] = []
        while dealer.poll(PATIENCE_MILLISECONDS):
            answers.append(dealer.recv_multipart())
            if answers[-1][-2] == b"\xff" * 8:
                return answers
    raise AssertionError(f"{endpoint} sent no end marker")


@pytest.fixture(scope="module", params=[True, False], ids=["split", "no-split"])
def said(request):
    """What a finished testbed has to say on each of its addresses."""

    def text(url: str) -> str:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode()

    with Testbed(TestbedConfig(**SMALL, tier_split=request.param)) as testbed:
        assert testbed.wait(PATIENCE_MILLISECONDS / 1000)
        settings = testbed.settings()
        engine, server, master = settings.engines[0], settings.lmcache[0], settings.curvine[0].master_urls[0]
        yield {
            "split": request.param,
            "events": frames_of(engine.events_replay_endpoint),
            "hook": frames_of(engine.hook_replay_endpoint),
            "cache": frames_of(server.records_replay_endpoint),
            "vllm": text(engine.metrics_url),
            "lmcache": text(server.url + "/metrics"),
            "status": json.loads(text(server.url + "/status")),
            "curvine": text(master + "/metrics"),
            "overview": json.loads(text(master + "/api/overview")),
            "workers": (workers := json.loads(text(master + "/api/workers"))),
            "config": json.loads(text(master + "/api/config")),
            "worker": text(f"http://127.0.0.1:{workers['live_workers'][0]['address']['web_port']}/metrics"),
        }


def recorded_records(captures, folder: str) -> list[dict]:
    data = (captures / "observer" / folder / "records.msgpack").read_bytes()
    records, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        records += msgspec.msgpack.decode(data[at + 4 : at + 4 + length])
        at += 4 + length
    return records


def shape(record: dict) -> tuple:
    """A record's type and the names of its fields, in their order on the wire."""
    return (record["t"], record.get("attempt", 0) > 0, tuple(record))


def value_types(records: list[dict]) -> dict[tuple[str, str], set[type]]:
    """Per record type and field, the types its values have; a list's says what it is a list of."""
    types: dict[tuple[str, str], set] = defaultdict(set)
    for record in records:
        for field, value in record.items():
            inner = type(value[0]) if isinstance(value, list) and value else None
            types[record["t"], field].add((type(value), inner))
    return types


def families(page: str) -> dict[str, str]:
    """Family names and their types."""
    return dict(line.split()[2:4] for line in page.splitlines() if line.startswith("# TYPE"))


def labels_of(page: str) -> dict[str, set[frozenset[str]]]:
    """Series names and the sets of label names they come with."""
    found: dict[str, set[frozenset[str]]] = defaultdict(set)
    for line in page.splitlines():
        if not line.startswith("#"):
            match = SERIES.match(line)
            assert match, line
            found[match["name"]].add(frozenset(name for name, _ in LABEL.findall(match["labels"] or "")))
    return found


def test_hook_records_have_the_recorded_fields(said, captures):
    """Every record has the fields, in the order, of a recorded one of its type."""
    records = [record for *_, payload in said["hook"][:-1] for record in msgspec.msgpack.decode(payload)]
    recorded = recorded_records(captures, "b_offloading" if said["split"] else "c_lmcache_mp")

    shapes = {shape(record) for record in records}

    assert shapes <= {shape(record) for record in recorded}
    assert {kind for kind, *_ in shapes} == {"hello", "admit", "loaded", "first", "finish", "stats"}
    assert any(again for _, again, _ in shapes), "no preemption happened: shrink the testbed"


def test_hook_values_have_the_recorded_types(said, captures):
    """Every field's values have a type that the recorded ones have too, down to a list's items."""
    records = [record for *_, payload in said["hook"][:-1] for record in msgspec.msgpack.decode(payload)]
    recorded = value_types(
        [
            record
            for folder in ("a_alone", "b_offloading", "c_lmcache_mp")
            for record in recorded_records(captures, folder)
        ]
    )

    for (kind, field), types in value_types(records).items():
        allowed = recorded[kind, field] | ({(list, None)} if field == "hashes" else set())
        assert types <= allowed, f"{kind}.{field}"


def test_cache_records_are_the_probes(said, captures):
    """Kinds, fields in their order, and types of values are those of the probe in recorded servers."""
    records = [record for *_, payload in said["cache"][:-1] for record in msgspec.msgpack.decode(payload)]
    recorded = [
        record
        for folder in ("lmcache/mp_pull/events.jsonl", "observer/c_lmcache_mp/lmcache_events.jsonl")
        for payload in lmcache_payloads(captures / folder)
        for record in msgspec.msgpack.decode(payload)
    ]
    theirs = value_types(recorded)
    never_recorded = {"l2_failed"}

    assert {record["t"] for record in records} >= {
        *("hello", "lookup", "load", "store", "l1_stored", "l1_evicted", "l2_stored", "stats"),
    }
    assert all(tuple(record) == ("t", *RECORDS[record["t"]]) for record in records)
    for (kind, field), types in value_types(records).items():
        if kind not in never_recorded:
            allowed = theirs[kind, field] | {(list, None), (type(None), None)}
            assert types <= allowed | ({(list, bytes)} if field == "hashes" else set()), f"{kind}.{field}"


def test_events_have_the_recorded_fields_and_types(said, captures):
    """A batch is the same array, and its events the same maps, as vLLM's own."""
    lines = (captures / "vllm" / "run-a-prefix-cache" / "kv_events.jsonl").read_text().splitlines()
    recorded = [
        msgspec.msgpack.decode(base64.b64decode(json.loads(line)["frames_b64"][-1])) for line in lines
    ]
    batches = [msgspec.msgpack.decode(payload) for *_, payload in said["events"][:-1]]

    def shapes(found):
        return {(event["type"], tuple(event)) for _, events, _ in found for event in events if len(event) > 1}

    assert {tuple(map(type, batch)) for batch in batches} == {tuple(map(type, batch)) for batch in recorded}
    assert shapes(batches) == shapes(recorded)
    types = {
        (event["type"], field, type(value))
        for _, events, _ in recorded
        for event in events
        for field, value in event.items()
    }
    for _, events, _ in batches:
        for event in events:
            assert {(event["type"], field, type(value)) for field, value in event.items()} <= types
            if event["type"] == "BlockStored":
                assert len(event["token_ids"]) == event["block_size"] * len(event["block_hashes"])
                assert len(event["extra_keys"]) == len(event["block_hashes"])


def test_replay_answers_have_the_recorded_frames(said, captures):
    """Frames are where vLLM has them, and the end marker is the same."""
    lines = (captures / "vllm" / "run-a-prefix-cache" / "replay_from_0.jsonl").read_text().splitlines()
    recorded = [[base64.b64decode(frame) for frame in json.loads(line)["frames_b64"]] for line in lines]

    for stream in ("events", "hook", "cache"):
        assert said[stream][-1] == recorded[-1]
        assert {(len(frames), frames[0], len(frames[2])) for frames in said[stream]} == {
            (len(frames), frames[0], len(frames[2])) for frames in recorded
        }
        assert [int.from_bytes(frames[2], "big") for frames in said[stream][:-1]] == list(
            range(len(said[stream]) - 1)
        )


def test_live_messages_have_the_recorded_frames(captures):
    """A live message is topic, sequence and payload."""
    first = json.loads(
        (captures / "vllm" / "run-a-prefix-cache" / "kv_events.jsonl").read_text().splitlines()[0]
    )
    config = TestbedConfig(replicas=1, duration_seconds=None, history_seconds=3600.0, speed=60.0)
    with Testbed(config) as testbed, zmq.Context() as context, context.socket(zmq.SUB) as reader:
        reader.linger = 0
        reader.subscribe(b"")
        reader.connect(testbed.settings().engines[0].events_endpoint)
        assert reader.poll(PATIENCE_MILLISECONDS)

        frames = reader.recv_multipart()

        assert len(frames) == len(first["frames_b64"]) == 3
        assert frames[0].startswith(b"kv@")
        assert len(frames[1]) == 8


def test_the_engines_page_has_only_recorded_families_and_labels(said, captures):
    """Families, their types, and the labels of each series are the recorded page's."""
    recorded = (captures / "vllm" / "run-a-prefix-cache" / "metrics_after.txt").read_text()
    ours, theirs = labels_of(said["vllm"]), labels_of(recorded)
    info = "vllm:cache_config_info"

    assert families(said["vllm"]).items() <= families(recorded).items()
    for name in set(ours) - {info}:
        assert ours[name] <= theirs[name], name
    assert set().union(*ours[info]) <= set().union(*theirs[info])


def test_the_engines_page_has_every_value_of_a_split_and_every_edge(said, captures):
    """The sources, the finish reasons and the edges of the first-token histogram are the recorded ones."""
    recorded = (captures / "vllm" / "run-a-prefix-cache" / "metrics_after.txt").read_text()

    def values(page, label, name):
        return {
            dict(LABEL.findall(line))[label]
            for line in page.splitlines()
            if line.startswith(name) and f"{label}=" in line
        }

    for name, label in (
        ("vllm:prompt_tokens_by_source_total", "source"),
        ("vllm:prompt_tokens_cached_by_source_total", "source"),
        ("vllm:request_success_total", "finished_reason"),
        ("vllm:time_to_first_token_seconds_bucket", "le"),
    ):
        assert values(said["vllm"], label, name) == values(recorded, label, name)
    assert len(values(said["vllm"], "le", "vllm:time_to_first_token_seconds_bucket")) == 1 + len(
        TTFT_EDGES_SECONDS
    )


def test_the_cache_servers_pages_have_only_recorded_names(said, captures):
    """Families and labels are those of the recorded servers; the status has their keys and types."""
    folders = [captures / "lmcache" / "mp_pull", captures / "lmcache" / "mp_vllm_cpu"]
    pages = [(folders[0] / "metrics.txt").read_text(), (folders[1] / "lmcache_metrics.txt").read_text()]
    known = {name: kind for page in pages for name, kind in families(page).items()}
    theirs: dict[str, set[frozenset[str]]] = defaultdict(set)
    for page in pages:
        for name, labels in labels_of(page).items():
            theirs[name] |= labels

    for name, kind in families(said["lmcache"]).items():
        assert name in NEVER_SEEN_IN_A_CAPTURE or known[name] == kind, name
    for name, labels in labels_of(said["lmcache"]).items():
        if name == "target_info":
            assert set().union(*labels) <= set().union(*theirs[name])
        elif name not in NEVER_SEEN_IN_A_CAPTURE:
            assert labels <= theirs[name], name
    assert_same_keys(said["status"], json.loads((folders[0] / "status.json").read_text()))


def test_the_pools_pages_have_only_known_names(said, captures):
    """Families, labels and JSON fields of master and worker are those of their source code."""
    for page, name in (("curvine", "master-v0.3.2"), ("worker", "worker-0")):
        derived = (captures / "curvine" / f"{name}.derived.prom").read_text()
        assert families(said[page]).items() <= families(derived).items()
        theirs = labels_of(derived)
        for series, labels in labels_of(said[page]).items():
            assert labels <= theirs[series], series
    overview = json.loads((captures / "curvine" / "api-overview.derived.json").read_text())
    workers = json.loads((captures / "curvine" / "api-workers-v0.3.2.derived.json").read_text())
    assert set(said["overview"]) == set(overview)
    assert_same_keys(said["overview"], overview)
    assert_same_keys(
        said["config"], json.loads((captures / "curvine" / "api-config.derived.json").read_text())
    )
    assert set(said["workers"]["live_workers"][0]) == set(workers["live_workers"][0])
    assert_same_keys(said["workers"], workers)


def assert_same_keys(ours: object, theirs: object, where: str = "$") -> None:
    """Every key of ours is one of theirs with a value of the same type, all the way down."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            other = theirs[key] if key in theirs else next(iter(theirs.values()))
            assert key in theirs or key.startswith("storage-"), f"{where}.{key}"
            assert_same_keys(value, other, f"{where}.{key}")
    elif isinstance(ours, list):
        for item in ours:
            assert_same_keys(item, theirs[0], f"{where}[]")
    else:
        assert type(ours) is type(theirs), f"{where}: {ours!r} is not like {theirs!r}"


def test_garbage_lines_are_what_no_parser_understands():
    """The garbage fault adds lines that are no sample and no comment; the rest of the page stays."""
    config = TestbedConfig(replicas=1, duration_seconds=60.0, speed=2000.0, faults=Faults(garbage_lines=3))
    with Testbed(config) as testbed:
        with urllib.request.urlopen(testbed.settings().engines[0].metrics_url, timeout=60) as answer:
            lines = answer.read().decode().splitlines()

        garbage = [line for line in lines if not line.startswith("#") and not SERIES.match(line)]
        assert len(garbage) == 3
        assert any(line.startswith("vllm:prompt_tokens_total") for line in lines)
    assert vllm_site(0) == "vllm-0"
