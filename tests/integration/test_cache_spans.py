"""What a recorded LMCache server did for each request, in the trace of its caller: events to receiver."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import replace

import msgspec
import pytest

from exporters.process import Exporter
from tests.captured import ENGINE_SETTINGS, admissions_of_lookups, lmcache_payloads
from tests.otlp_receiver import OtlpReceiver, attributes_on
from tierscope.domain.settings import ExporterSettings, LmcacheSettings
from tierscope.feed.stream_publisher import StreamPublisher

ANY = "tcp://127.0.0.1:*"
CHUNK_BYTES = 131_072
SECONDS = 60.0
REQUESTS = 37


def caller(number):
    """A request's trace and the span that asks."""
    return f"{number:032x}", f"{number:016x}"


@pytest.fixture(scope="module")
def records(captures):
    """What the probe would have told, by kind."""
    found = defaultdict(list)
    for payload in lmcache_payloads(captures / "lmcache" / "mp_pull" / "events.jsonl"):
        for record in msgspec.msgpack.decode(payload):
            found[record["t"]].append(record)
    return found


@pytest.fixture(scope="module")
def spans(captures, records, tmp_path_factory):
    """Every span of the run, by name."""
    path = captures / "lmcache" / "mp_pull" / "events.jsonl"
    callers = {
        lookup["rid"]: "00-{}-{}-01".format(*caller(number))
        for number, lookup in enumerate(records["lookup"], 1)
    }
    expected = 2 * REQUESTS + len(copies(records)) + len(records["load"])
    with ExitStack() as stack:
        streams = []
        for payloads in (
            lmcache_payloads(path),
            admissions_of_lookups(path, callers),
        ):
            publisher = stack.enter_context(closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 26)))
            for payload in payloads:
                publisher.publish(payload)
            streams.append(publisher)
        server, hook = streams
        receiver = stack.enter_context(closing(OtlpReceiver()))
        engine = replace(
            ENGINE_SETTINGS,
            hook_endpoint=hook.endpoint,
            hook_replay_endpoint=hook.replay_endpoint,
            lmcache="node",
        )
        cache = LmcacheSettings(
            name="node",
            url="http://127.0.0.1:9",
            records_endpoint=server.endpoint,
            records_replay_endpoint=server.replay_endpoint,
        )
        settings = ExporterSettings(
            name="test",
            engines=(engine,),
            lmcache=(cache,),
            otlp_endpoint=receiver.endpoint,
            page_state_file=str(tmp_path_factory.mktemp("spans") / "page.json"),
        )
        stack.enter_context(Exporter(settings))
        receiver.wait(lambda: len(receiver.spans) >= expected, SECONDS)
        found = defaultdict(list)
        for span in receiver.spans:
            found[span.name].append(span)
        return found


def copies(records):
    """Copies between an engine and L1 that moved anything."""
    return [record for record in records["transfer"] if record["keys"]]


def times(span):
    """In microseconds."""
    return span.start_time_unix_nano // 1000, span.end_time_unix_nano // 1000


def told(records):
    """As spans have them."""
    return sorted((round(each["start"] * 1e6), round(each["end"] * 1e6)) for each in records)


@pytest.mark.parametrize(
    ("name", "kind", "direction"),
    [
        ("kv.l1", "lookup", None),
        ("kv.l2.read", "load", None),
        ("kv.l1.read", "transfer", "retrieve"),
        ("kv.l1.store", "transfer", "store"),
    ],
)
def test_each_thing_the_server_did_is_a_span_with_its_times(spans, records, name, kind, direction):
    """Every lookup, load and copy, whenever it was told: none is left out, and none is there twice."""
    done = [record for record in records[kind] if direction in (None, record.get("direction"))]
    done = [record for record in done if kind != "transfer" or record["keys"]]

    assert sorted(map(times, spans[name])) == told(done)


def test_they_are_in_the_trace_of_the_request_they_were_done_for(spans, records):
    """Children of the span of its admission, which is a child of its caller's."""
    number = {lookup["rid"]: number for number, lookup in enumerate(records["lookup"], 1)}
    admissions = {span.span_id: span for span in spans["kv.lookup"]}
    done_for = {
        (round(each["start"] * 1e6), round(each["end"] * 1e6)): each["rid"]
        for kind in ("lookup", "load", "transfer")
        for each in records[kind]
    }

    assert len(admissions) == REQUESTS
    for name in ("kv.l1", "kv.l1.read", "kv.l1.store", "kv.l2.read"):
        for span in spans[name]:
            parent = admissions[span.parent_span_id]
            trace_id, span_id = caller(number[done_for[times(span)]])
            assert span.trace_id.hex() == parent.trace_id.hex() == trace_id
            assert parent.parent_span_id.hex() == span_id


def test_their_chunks_and_bytes_are_the_servers_own(spans):
    """30 chunks read from L1, 14 from L2, 64 stored."""
    for name, what, chunks in (
        ("kv.l1.read", "read", 30),
        ("kv.l2.read", "read", 14),
        ("kv.l1.store", "store", 64),
    ):
        said = list(map(attributes_on, spans[name]))
        assert sum(each[f"tierscope.{what}.blocks"] for each in said) == chunks
        assert sum(each[f"tierscope.{what}.bytes"] for each in said) == chunks * CHUNK_BYTES
        assert {each["tierscope.source"] for each in said} == {"lmcache_records:node"}
