"""A collector keeps what exporters publish, serves it, and ends cleanly."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from collectors import adviser as adviser_module
from collectors import collector as collector_module
from collectors.collector import Collector
from collectors.deployments import Deployments
from tests.exporting import Scrape, await_true
from tests.ledgers import START, Ledger, admission
from tests.otlp_receiver import RECEIVERS, attributes_on
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadSettings, StoreUnusable
from tierscope.domain.settings import CollectorSettings, FeedSource, OtlpProtocol
from tierscope.domain.window import TimeSpan
from tierscope.feed.feed_publisher import FeedPublisher
from tierscope.registry import metrics
from tierscope.registry.advice_metrics import ADVICE_AGE_SECONDS, ADVICE_STATUS
from tierscope.storage.duckdb_reader import DuckDbReader
from tierscope.storage.serving import RemoteReader

ALL_TIME = TimeSpan(0.0, 1e11)
CHAT = Deployment("prod", "chat", "model", 2)


class Abstention:
    """The shortest recommendation there is."""

    def to_json(self):
        return {"status": "insufficient_evidence"}


def abstain(evidence, deployment, *, now_unix_seconds, earlier=()):
    return Abstention()


@pytest.fixture
def publish():
    """Return a function that makes a publisher on loopback, closed at the end."""
    publishers = []

    def make(name="node-1", **kwargs):
        publisher = FeedPublisher(
            name,
            kwargs.pop("endpoint", "tcp://127.0.0.1:*"),
            kwargs.pop("replay_endpoint", "tcp://127.0.0.1:*"),
            1 << 24,
            lambda: START,
            **kwargs,
        )
        publishers.append(publisher)
        return publisher

    yield make
    for publisher in publishers:
        publisher.close()


def settings(tmp_path, *publishers, **changes):
    feeds = tuple(
        FeedSource(name=p.name, endpoint=p.endpoint, replay_endpoint=p.replay_endpoint) for p in publishers
    )
    return CollectorSettings(
        store_path=str(tmp_path / "store.duckdb"),
        feeds=changes.pop("feeds", feeds),
        flush_seconds=0.01,
        deployments=(CHAT,),
        **changes,
    )


@contextmanager
def collecting(chosen, recommend=abstain):
    with closing(Collector(chosen, recommend=recommend, clock=lambda: START)) as collector:
        collector.start()
        yield collector


def publish_all(publisher, batches):
    for one in batches:
        publisher.publish(one.entries)


def received(collector):
    coverage = collector.reader().coverage(ALL_TIME)
    return {c.source.owner: c.received for c in coverage if c.source.kind == "feed"}


def told(collector):
    return {sample.metric for sample in collector.samples()}


def test_what_exporters_publish_is_stored_and_served(tmp_path, publish):
    """Two exporters' batches, published before and after the start, are in the store and on the socket."""
    one, two = publish(), publish("node-2")
    batches = Ledger(1).batches(40), Ledger(2, exporter="node-2").batches(40)
    publish_all(one, batches[0][:20])
    with collecting(settings(tmp_path, one, two)) as collector:
        publish_all(one, batches[0][20:])
        publish_all(two, batches[1])
        await_true(lambda: received(collector) == {"node-1": 40, "node-2": 40}, "all is stored")

        remote = RemoteReader(collector.addresses["socket"])
        expected = sum(
            entry.tokens.prompt
            for entry in (e for lot in batches for one in lot for e in one.entries)
            if getattr(entry, "counts", False)
        )
        assert remote.totals("prod", "chat", ALL_TIME).tokens.prompt == expected
        await_true(lambda: remote.latest_recommendation("prod", "chat"), "advice is there")
        remote.close()
        assert collector.alive
    assert not collector.alive


def test_a_restarted_collector_goes_on_where_it_stopped(tmp_path, publish):
    """What was published meanwhile is asked for; nothing is stored twice."""
    publisher = publish()
    batches = Ledger(1).batches(60)
    publish_all(publisher, batches[:20])
    with collecting(settings(tmp_path, publisher)) as collector:
        await_true(lambda: received(collector) == {"node-1": 20}, "the first lot is stored")
        counts = collector.reader().row_counts()
    publish_all(publisher, batches[20:])
    with collecting(settings(tmp_path, publisher)) as collector:
        await_true(lambda: received(collector) == {"node-1": 60}, "the second lot is stored")

        again = collector.reader().row_counts()
        assert again["requests"] > counts["requests"]
        assert again["feed_positions"] == 1


def test_a_restarted_exporter_is_read_from_its_start(tmp_path, publish):
    """A new incarnation at the same address is followed, and the restart is in the coverage."""
    publisher = publish()
    publisher.publish([admission("ab", name="1")])
    with collecting(settings(tmp_path, publisher)) as collector:
        await_true(lambda: received(collector) == {"node-1": 1}, "the first life is stored")
        publisher.close()
        publish(endpoint=publisher.endpoint, replay_endpoint=publisher.replay_endpoint).publish(
            [admission("abc", name="2")]
        )
        await_true(lambda: received(collector) == {"node-1": 2}, "the second life is stored")

        (feed,) = (c for c in collector.reader().coverage(ALL_TIME) if c.source.kind == "feed")
        assert (feed.missing, feed.restarts) == (0, 1)


def test_the_page_tells_of_feeds_store_and_advice(tmp_path, publish):
    """/metrics of the collector has its own series, and they are valid."""
    publisher = publish()
    publish_all(publisher, Ledger(1).batches(30))
    with collecting(settings(tmp_path, publisher)) as collector:
        await_true(lambda: received(collector) == {"node-1": 30}, "all is stored")
        await_true(lambda: told(collector) >= {metrics.STORED_ROWS, ADVICE_STATUS}, "it is told")

        page = Scrape(collector.addresses["metrics_url"])

    assert page.sums(metrics.SOURCE_UP, "source") == {"feed:node-1": 1}
    assert page.sums(metrics.SOURCE_MESSAGES, "result") == {"received": 30, "missing": 0, "undecodable": 0}
    assert page.sums(metrics.COMPLETENESS, "source") == {"feed:node-1": 1}
    assert page.sums(metrics.STORED_ROWS, "table")["requests"] > 0
    assert page.sums(metrics.STORE_BYTES)[()] > 0
    assert page.sums(ADVICE_STATUS, "endpoint", status="insufficient_evidence") == {"chat": 1}
    assert page.sums(ADVICE_AGE_SECONDS, "endpoint") == {"chat": 0}
    assert not any(page.sums(metrics.DROPPED_SAMPLES, "reason").values())


@pytest.mark.parametrize("protocol", RECEIVERS)
def test_its_last_push_has_what_was_stored_last(tmp_path, publish, protocol):
    """Its own metrics over OTLP, for who does not scrape; nothing is stored after the last push."""
    publisher = publish()
    publisher.publish([admission("ab")])
    with closing(RECEIVERS[protocol]()) as receiver:
        chosen = settings(
            tmp_path,
            publisher,
            otlp_metrics_endpoint=receiver.metrics_endpoint,
            otlp_protocol=OtlpProtocol(protocol),
            otlp_interval_seconds=3600,
        )
        with collecting(chosen) as collector:
            await_true(lambda: received(collector) == {"node-1": 1}, "all is stored")

        (push,) = receiver.pushes

    pushed = {metric.name: metric for metric in push.resource_metrics[0].scope_metrics[0].metrics}
    stored = {
        attributes_on(point)["table"]: point.as_double
        for point in pushed[metrics.STORED_ROWS.name].sum.data_points
    }
    assert stored["requests"] == 1
    assert pushed[metrics.STORE_BYTES.name].gauge.data_points[0].as_double > 0
    assert attributes_on(push.resource_metrics[0].resource)["service.name"] == "tierscope-collector"


def test_advice_rests_on_what_fits_and_duckdb_keeps_to_its_limit(tmp_path, publish):
    """Both bounds are those of the settings."""
    spans = []

    def recommend(evidence, deployment, *, now_unix_seconds, earlier=()):
        spans.append((evidence.window.requests, evidence.window.span.start_unix_seconds))
        return Abstention()

    publisher = publish()
    chosen = settings(
        tmp_path, publisher, advise_seconds=0.05, advise_window_bytes=500, store_memory_bytes=300 * 1024**2
    )
    with collecting(chosen, recommend) as collector:
        publisher.publish([admission("abcd", name=f"{n}", at=START - 10 + n) for n in range(9)])
        await_true(lambda: (3, START - 4) in spans, "advice rests on the three newest of nine requests")
        with collector.reader()._database.reading() as cursor:
            (limit,) = cursor.execute("SELECT current_setting('memory_limit')").fetchone()

    assert limit == "300.0 MiB"
    assert max(requests for requests, _ in spans) == 3


def test_an_absent_exporter_does_not_hold_up_the_others(tmp_path, publish):
    """Its feed is down; the others are stored."""
    publisher = publish()
    gone = publish("gone")
    chosen = settings(tmp_path, gone, publisher)
    gone.close()
    publisher.publish([admission("ab")])
    with collecting(chosen) as collector:
        await_true(lambda: received(collector) == {"node-1": 1}, "the other one is stored")

        up = {s.labels[0]: s.value for s in collector.samples() if s.metric is metrics.SOURCE_UP}
        assert up["feed:gone"] == 0


def test_addresses_that_are_none_are_all_named(tmp_path):
    """Settings are checked at the start, and what was opened is closed again."""
    feeds = tuple(FeedSource(name=name, endpoint=f"{name}://x", replay_endpoint="y") for name in ("a", "b"))
    collector = Collector(settings(tmp_path, feeds=feeds), recommend=abstain)

    with pytest.raises(BadSettings) as refused:
        collector.start()

    assert len(refused.value.problems) == 2
    DuckDbReader.open(tmp_path / "store.duckdb").close()


def test_a_store_in_use_stops_the_start(tmp_path):
    """A second collector on the same file is refused with the reason."""
    with collecting(settings(tmp_path)):
        second = Collector(settings(tmp_path), recommend=abstain)

        with pytest.raises(StoreUnusable, match="already open"):
            second.start()


def test_a_closed_collector_leaves_one_clean_file(tmp_path, publish):
    """No socket, no log of the database, and everything received is committed."""
    publisher = publish()
    with collecting(settings(tmp_path, publisher)) as collector:
        publisher.publish([admission("ab")])
        await_true(
            lambda: any(s.labels == ("feed:node-1", "received") and s.value for s in collector.samples()),
            "the batch is received",
        )
    collector.close()

    assert [path.name for path in tmp_path.iterdir()] == ["store.duckdb"]
    with closing(DuckDbReader.open(tmp_path / "store.duckdb")) as reader:
        assert reader.window("prod", "chat", ALL_TIME).requests == 1


def test_an_end_does_not_wait_for_advice_that_takes_minutes(tmp_path, publish, monkeypatch):
    """What was received is committed, the file is another's to open; what comes of the advice is lost."""
    monkeypatch.setattr(adviser_module, "PATIENCE_SECONDS", 0.1)
    asked, answers = threading.Event(), threading.Event()

    def think(*arguments, **named):
        asked.set()
        answers.wait()
        return Abstention()

    publisher = publish()
    with collecting(settings(tmp_path, publisher), think) as collector:
        assert asked.wait(10)
        publish_all(publisher, Ledger(1).batches(3))
        await_true(lambda: received(collector).get("node-1") == 3, "three batches are received")
        collector.close()

        assert collector.left_behind
        with closing(DuckDbReader.open(tmp_path / "store.duckdb")) as reader:
            assert reader.recommendation_history("prod", "chat", ALL_TIME) == ()
        answers.set()
        await_true(lambda: not collector.left_behind, "the advice was given up")


def test_a_deployment_is_recorded_at_the_start(tmp_path):
    """The configuration in force is in the store before the first batch."""
    with collecting(settings(tmp_path)) as collector:
        assert collector.reader().endpoints() == (("prod", "chat"),)


def test_a_collector_of_a_lake_keeps_its_lease_while_it_comes_up(postgres, tmp_path, monkeypatch):
    """However long that takes: others take one without a lease for dead, and end what it has open."""
    lake = postgres.lake(tmp_path, lease_seconds=3.0)
    database = lake.name.partition("dbname=")[2].split()[0]

    def ends() -> str:
        return postgres.ask(database, "SELECT max(until) FROM tierscope_collectors")

    def slow(*arguments):
        first = ends()
        await_true(lambda: ends() != first, "its lease is renewed")
        return Deployments(*arguments)

    monkeypatch.setattr(collector_module, "Deployments", slow)
    chosen = replace(
        settings(tmp_path, lake=lake.settings, socket_path=str(tmp_path / "socket")), store_path=lake.name
    )
    with closing(Collector(chosen, recommend=abstain)) as collector:
        collector.start()

        assert collector.alive
    assert ends().strip() == "", "it is given back"
