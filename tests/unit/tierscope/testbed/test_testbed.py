"""A running testbed: what it sends, what it says it sent, and what it leaves behind."""

from __future__ import annotations

import json
import threading
import time
import urllib.request

import msgspec
import pytest
import zmq

from tierscope.domain.deployment import RoutingPolicy
from tierscope.domain.requests import NO_TOKENS, TokenSplit
from tierscope.domain.tiers import Tier
from tierscope.testbed import Faults, StreamFaults, Testbed, TestbedConfig

PATIENCE_SECONDS = 60.0
FAST = TestbedConfig(replicas=2, duration_seconds=240.0, speed=2000.0)


def replayed(endpoint: str, start: int = 0) -> list[tuple[int, list[object]]]:
    """Everything a replay socket has from a sequence on, decoded."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(endpoint)
        dealer.send_multipart((b"", start.to_bytes(8, "big")))
        batches = []
        while dealer.poll(PATIENCE_SECONDS * 1000):
            *_, sequence, payload = dealer.recv_multipart()
            if sequence == b"\xff" * 8:
                return batches
            batches.append((int.from_bytes(sequence, "big"), msgspec.msgpack.decode(payload)))
    raise AssertionError(f"{endpoint} sent no end marker")


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return answer.read().decode()


def counter(text: str, name: str) -> int:
    """Sum over the series of one metric."""
    return sum(int(float(line.rpartition(" ")[2])) for line in text.splitlines() if line.startswith(name))


@pytest.fixture(scope="module")
def finished():
    """A short run that has ended and still answers."""
    with Testbed(FAST) as testbed:
        assert testbed.wait(PATIENCE_SECONDS)
        yield testbed


def test_what_it_says_it_sent_is_what_a_replay_adds_up_to(finished):
    """Summing admissions that reached a first token over the streams gives the testbed's own total."""
    total = NO_TOKENS
    for engine in finished.settings().engines:
        admitted = {}
        for _, records in replayed(engine.hook_replay_endpoint):
            for record in records:
                if record["t"] == "admit" and record["attempt"] == 0:
                    admitted[record["rid"]] = record
                elif record["t"] == "first":
                    admit = admitted.pop(record["rid"])
                    split = admit["split"] or {}
                    total += TokenSplit(
                        admit["prompt"],
                        l0=admit["local"],
                        l1=split.get("host", 0),
                        l2=split.get("disk", 0),
                        computed=admit["prompt"] - admit["local"] - admit["external"],
                    )

    assert total == finished.sent()
    assert min(total.as_dict().values()) == total.external == 0
    assert total.l0 > 0 < total.l2


def test_the_engines_pages_count_what_the_records_say(finished):
    """A page's counters are the sums of the same engine's records."""
    pages = [page(engine.metrics_url) for engine in finished.settings().engines]

    sent = finished.sent()
    assert sum(counter(text, "vllm:prompt_tokens_total") for text in pages) == sent.prompt
    by_source = {
        source: sum(
            int(float(line.rpartition(" ")[2]))
            for text in pages
            for line in text.splitlines()
            if line.startswith("vllm:prompt_tokens_by_source_total") and f'source="{source}"' in line
        )
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
    }
    assert by_source == {
        "local_compute": sent.computed,
        "local_cache_hit": sent.l0,
        "external_kv_transfer": sent.l1 + sent.l2,
    }


def test_a_page_never_shows_half_a_step():
    """However often it is read while the engines run, a page's parts add up to its whole."""
    with Testbed(TestbedConfig(replicas=1, duration_seconds=600.0, speed=600.0)) as testbed:
        url = testbed.settings().engines[0].metrics_url
        readings = []
        while not testbed.finished:
            text = page(url)
            whole = counter(text, "vllm:prompt_tokens_total")
            assert whole == counter(text, "vllm:prompt_tokens_by_source_total")
            readings.append(whole)

    assert readings == sorted(readings)
    assert len(set(readings)) > 3


def test_streams_are_numbered_from_zero_without_a_gap(finished):
    """Every stream's batches carry consecutive sequence numbers, the first one 0."""
    for engine in finished.settings().engines:
        for endpoint in (engine.events_replay_endpoint, engine.hook_replay_endpoint):
            sequences = [sequence for sequence, _ in replayed(endpoint)]

            assert sequences == list(range(len(sequences)))
            assert sequences


def test_a_replay_from_the_middle_begins_there_and_one_from_beyond_is_empty(finished):
    """A reader that missed little is sent little; one that missed nothing gets the end marker alone."""
    endpoint = finished.settings().engines[0].hook_replay_endpoint
    everything = replayed(endpoint)

    assert replayed(endpoint, 3) == everything[3:]
    assert replayed(endpoint, len(everything)) == []


def test_no_time_that_is_sent_is_in_the_future(finished):
    """Virtual time ends at the present, so a reader never sees a record from later than its own clock."""
    now = time.time()
    times = [
        record["ts"]
        for engine in finished.settings().engines
        for _, records in replayed(engine.hook_replay_endpoint)
        for record in records
    ]

    assert max(times) <= now
    assert now - min(times) >= FAST.duration_seconds


def test_its_clock_is_that_of_its_records(finished):
    """Virtual time now is never before the last record and never after the wall's time."""
    now = finished.now_unix_seconds()

    assert finished.progress().virtual_unix_seconds <= now <= time.time()


def test_the_pool_and_the_caches_answer_in_their_formats(finished):
    """The pages beside the engines' are there, and tell the sizes that were configured."""
    settings = finished.settings()

    overview = json.loads(page(settings.curvine[0].master_urls[0] + "/api/overview"))
    workers = json.loads(page(settings.curvine[0].master_urls[0] + "/api/workers"))
    status = json.loads(page(settings.lmcache[0].url + "/status"))

    assert overview["master_state"] == "Active"
    assert overview["capacity"] == FAST.l2_bytes
    assert sum(worker["fs_used"] for worker in workers["live_workers"]) == overview["fs_used"] > 0
    assert status["storage_manager"]["l1_manager"]["memory_total_bytes"] == FAST.l1_bytes


def test_the_deployment_is_told_as_configured(finished):
    """Advice starts from what the deployment says of itself."""
    deployment = finished.deployment()

    assert deployment.replicas == 2
    assert deployment.routing is RoutingPolicy.ROUNDROBIN
    assert deployment.tier(Tier.L1).capacity_bytes == FAST.l1_bytes
    assert deployment.bytes_per_token == FAST.bytes_per_token


def test_nothing_is_left_after_a_stop():
    """A stopped testbed has no thread, and its addresses refuse connections."""
    before = set(threading.enumerate())
    testbed = Testbed(FAST)
    testbed.start()
    url = testbed.settings().engines[0].metrics_url
    page(url)

    testbed.stop()
    testbed.stop()

    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match="refused"):
        page(url)


def test_a_hung_page_does_not_hold_up_the_others():
    """A page that never answers costs its reader time and nobody else; healed, it answers."""
    with Testbed(FAST) as testbed:
        testbed.inject(Faults(hung_pages=frozenset({"vllm-0"})))
        hung, healthy = (engine.metrics_url for engine in testbed.settings().engines)

        with pytest.raises(TimeoutError):
            urllib.request.urlopen(hung, timeout=0.2)
        assert "vllm:prompt_tokens_total" in page(healthy)

        testbed.inject(Faults())
        assert "vllm:prompt_tokens_total" in page(hung)


def test_lost_batches_leave_gaps_and_are_not_in_what_was_sent():
    """What is lost for good can be replayed by no one, and the total counts only what went out."""
    faults = Faults(hook=StreamFaults(lose_every=4))
    with Testbed(TestbedConfig(replicas=1, duration_seconds=120.0, speed=2000.0, faults=faults)) as testbed:
        assert testbed.wait(PATIENCE_SECONDS)
        batches = replayed(testbed.settings().engines[0].hook_replay_endpoint)
        firsts = sum(record["t"] == "first" for _, records in batches for record in records)
        prompt = counter(page(testbed.settings().engines[0].metrics_url), "vllm:prompt_tokens_total")

        assert all(sequence % 4 != 3 for sequence, _ in batches)
        assert firsts > 0
        assert 0 < testbed.sent().prompt < prompt


def test_a_restarted_engine_counts_from_zero():
    """After a restart the sequence begins at 0 with a hello, and the page's counters begin again."""
    with Testbed(
        TestbedConfig(replicas=1, duration_seconds=None, history_seconds=240.0, speed=2000.0)
    ) as testbed:
        engine = testbed.settings().engines[0]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while testbed.progress().virtual_unix_seconds < time.time() - 5 and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        before = replayed(engine.hook_replay_endpoint)

        testbed.restart(0)

        while len(after := replayed(engine.hook_replay_endpoint)) >= len(before):
            assert time.monotonic() < deadline
        if after:
            assert after[0][0] == 0
            assert after[0][1][0]["t"] == "hello"
        assert testbed.sent().prompt > counter(page(engine.metrics_url), "vllm:prompt_tokens_total")


def test_a_run_without_end_catches_up_and_goes_on_live():
    """Virtual time reaches the present, stays with it, and never passes it."""
    config = TestbedConfig(replicas=1, duration_seconds=None, history_seconds=120.0, speed=2000.0)
    with Testbed(config) as testbed:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while testbed.progress().virtual_unix_seconds < time.time() - 2 * config.step_seconds:
            assert time.monotonic() < deadline
        reached = testbed.progress()
        while testbed.progress().virtual_unix_seconds == reached.virtual_unix_seconds:
            assert time.monotonic() < deadline

        assert testbed.progress().virtual_unix_seconds <= time.time()
        assert testbed.progress().share is None
        assert not testbed.finished


def test_a_model_that_fails_says_so_to_whoever_asks(monkeypatch):
    """An error in the model's thread is not silence: waiting ends, and the next question raises it."""

    def broken(self, seconds):
        raise ArithmeticError("as planned")

    monkeypatch.setattr("tierscope.testbed.model.fleet.Fleet.run_until", broken)
    with Testbed(FAST) as testbed:
        assert testbed.wait(PATIENCE_SECONDS)

        with pytest.raises(RuntimeError, match="model failed") as caught:
            testbed.sent()

    assert isinstance(caught.value.__cause__, ArithmeticError)


def test_a_run_that_cannot_keep_up_ends_all_the_same():
    """Clients still waiting half a virtual minute after the last arrival hang up; the sums stay exact."""
    config = TestbedConfig(replicas=1, duration_seconds=120.0, speed=2000.0, slots=1, l0_bytes=0.75 * 2**30)
    with Testbed(config) as testbed:
        assert testbed.wait(PATIENCE_SECONDS)
        text = page(testbed.settings().engines[0].metrics_url)

        assert counter(text, "vllm:prompt_tokens_total") == testbed.sent().prompt
        assert counter(text, "vllm:num_requests_waiting") == 0
