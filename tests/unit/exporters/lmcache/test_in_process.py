"""LMCache inside an engine: its workers' series as what L1 and L2 hold and did, against a recorded engine."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest

from exporters.engines import EngineFacts
from exporters.exposition import parse_exposition
from exporters.fetch import Fetcher
from exporters.health import Health, Voice
from exporters.lmcache.in_process import read_workers
from exporters.lmcache.in_process_source import InProcessSource
from tests.page_server import PageServer
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.events import TierActivity, TierSample
from tierscope.domain.identity import SourceId, SourceKind
from tierscope.domain.settings import InProcessLmcacheSettings
from tierscope.domain.tiers import Tier
from tierscope.registry.metrics import COMPLETENESS

MIB = 1024 * 1024


@pytest.fixture
def recorded(captures):
    """The series of a worker after 26 requests; its first reading is the same page before them."""
    return (captures / "lmcache" / "inproc_fs" / "metrics.txt").read_text("utf-8")


def before(page):
    """The page of the same workers before anything was counted."""
    return re.sub(r"(?m)(_total\{[^}]*\}) .*$", r"\1 0", page)


def worker(page, number):
    """The page as another worker of the engine would have it."""
    return page.replace('worker_id="0"', f'worker_id="{number}"')


def series(**values):
    """A page of one worker by our shorthand for names."""
    return "\n".join(f'lmcache:{name}{{worker_id="0"}} {value}' for name, value in values.items()) + "\n"


class Engine:
    """A source whose engine's page is laid out reading by reading."""

    def __init__(self, **settings):
        settings = {"name": "inside", "chunk_tokens": 64, "l1_bytes": 4 * MIB, "pool": "pool", **settings}
        self.page = None
        self.facts = EngineFacts()
        self.source = InProcessSource(InProcessLmcacheSettings(**settings), self.facts, lambda: self.page)
        self.readings = []

    def read(self, text):
        self.page = parse_exposition(text, where="page")
        reading = self.source.read(None, float(len(self.readings)))
        self.readings.append(reading)
        return reading

    def grown(self, *pages):
        """The readings of pages after a first one on which nothing is counted."""
        self.read(before(pages[0]))
        return [self.read(page) for page in pages]

    def total(self, tier, field):
        """What the activities of all readings add up to; None where none says."""
        told = [
            getattr(entry, field)
            for reading in self.readings
            for entry in reading.entries
            if isinstance(entry, TierActivity) and entry.tier is tier
        ]
        known = [value for value in told if value is not None]
        return sum(known) if known else None


def completeness(units):
    """What the page says of a source that came in these units."""
    voice = Voice(warn=lambda *_: None, inform=lambda *_: None)
    source = SourceId(SourceKind.LMCACHE_METRICS, "inside")
    health = Health(source, fresh_seconds=30, since_unix_seconds=0.0, monotonic=lambda: 0.0, voice=voice)
    health.take(units)
    (value,) = (sample.value for sample in health.samples() if sample.metric is COMPLETENESS)
    return value


def kinds(reading):
    return {str(finding.kind) for finding in reading.findings}


def test_retrieved_tokens_are_split_by_what_was_read_from_l2(recorded, captures):
    """2,048 = 1,280 from L1 + 768 from L2, as the run's own truth counts them by backend."""
    truth = json.loads((captures / "lmcache" / "inproc_fs" / "truth.json").read_text("utf-8"))
    chunks = {"LocalCPUBackend": 0, "RemoteBackend": 0}
    for request in truth["requests"]:
        for backend, hit in request["hit_chunks_by_location"].items():
            chunks[backend] += hit
    engine = Engine()

    engine.grown(recorded)

    hits = (
        engine.total(Tier.L1, "lookup_hit_tokens"),
        engine.total(Tier.L2, "lookup_hit_tokens"),
    )
    assert hits == (chunks["LocalCPUBackend"] * 64, chunks["RemoteBackend"] * 64) == (1280, 768)
    assert engine.total(Tier.L1, "lookup_miss_tokens") == 7044 - 1280
    assert engine.total(Tier.L2, "lookup_miss_tokens") == 7044 - 2048
    assert engine.total(Tier.L1, "evicted_blocks") == 54
    assert engine.total(Tier.L2, "stored_blocks") == 74


def test_l1_is_read_with_its_size_from_the_settings(recorded):
    """4 MiB full of 32 chunks of 64 tokens, none of them pinned."""
    (sample,) = (e for e in Engine().read(recorded).entries if isinstance(e, TierSample))

    assert (sample.tier, sample.holder) == (Tier.L1, "inside")
    assert (sample.capacity_bytes, sample.used_bytes) == (4 * MIB, 4 * MIB)
    assert (sample.used_blocks, sample.block_tokens, sample.pinned_blocks) == (32, 64, 0)


def test_workers_hold_parts_of_the_same_chunks(recorded):
    """Two workers: twice the bytes, and everything else once."""
    engine = Engine(workers=2)
    both = recorded + worker(recorded, 1)

    engine.grown(both)

    sample = next(e for e in engine.readings[-1].entries if isinstance(e, TierSample))
    assert (sample.capacity_bytes, sample.used_bytes, sample.used_blocks) == (8 * MIB, 8 * MIB, 32)
    assert engine.total(Tier.L1, "lookup_hit_tokens") == 1280
    assert engine.total(Tier.L2, "lookup_hit_tokens") == 768
    assert engine.total(Tier.L1, "evicted_blocks") == 54


def test_a_worker_that_lags_behind_is_not_counted_twice(recorded):
    """Workers bring their counters every ten seconds, each at its own time."""
    engine = Engine(workers=2)
    idle = before(recorded)

    engine.grown(recorded + worker(idle, 1), recorded + worker(recorded, 1))

    assert engine.total(Tier.L2, "lookup_hit_tokens") == 768
    assert engine.total(Tier.L1, "evicted_blocks") == 54


def test_lost_workers_make_the_reading_a_part(recorded):
    """UD-28: a scheduler and three workers of four: three units of four, and the sizes of those three."""
    there = recorded + worker(recorded, 1) + worker(recorded, 2)
    scheduler = before(recorded).replace('role="worker"', 'role="scheduler"')

    reading = Engine(workers=4).read(there + scheduler)

    sample = next(e for e in reading.entries if isinstance(e, TierSample))
    assert (reading.units.received, reading.units.missing) == (3, 1)
    assert (sample.used_bytes, sample.capacity_bytes) == (12 * MIB, 12 * MIB)
    assert completeness(reading.units) == 0.75


def test_a_hit_ratio_of_one_is_named_where_lookups_missed(recorded):
    """UD-07: the gauge says 1 although two thirds were not found; the counters of lookups are used."""
    engine = Engine()

    (reading,) = engine.grown(recorded)

    finding = next(f for f in reading.findings if f.kind == "retrieve_hit_rate_stays_at_one")
    assert "of 7044 tokens looked up only 2048 were found" in finding.error.what
    assert engine.total(Tier.L2, "lookup_miss_tokens") == 4996


def test_lookups_stand_in_for_retrieved_tokens_that_are_never_counted():
    """UD-10: num_hit_tokens is 0 and lookups hit: no hit ratio of 0, and the finding says what was used."""
    engine = Engine()
    page = series(num_lookup_tokens_total=1000, num_lookup_hits_total=640, num_hit_tokens_total=0)

    (reading,) = engine.grown(page)

    hit, missed = (engine.total(Tier.L1, f"lookup_{what}_tokens") for what in ("hit", "miss"))
    assert (hit, missed) == (640, 360)
    (finding,) = [one for one in reading.findings if one.kind == "retrieved_tokens_stay_at_zero"]
    assert "num_lookup_hits is used instead" in finding.error.fix


def test_a_gauge_that_is_zeroed_between_prefills_changes_nothing(recorded):
    """UD-12: hit ratios come from counters; a gauge of the last interval alone is never one of them."""
    calm = re.sub(r"(?m)(hit_rate\{[^}]*\}) .*$", r"\1 0.0", recorded)
    engine = Engine()

    engine.grown(recorded, calm, recorded)

    assert engine.total(Tier.L1, "lookup_hit_tokens") == 1280
    assert engine.total(Tier.L1, "lookup_miss_tokens") == 5764


def test_what_l0_served_counts_for_neither_tier():
    """512 were found and 256 retrieved, for L0 had the rest: they are no hit of L1, and no miss either."""
    engine = Engine()

    engine.grown(series(num_lookup_tokens_total=600, num_lookup_hits_total=512, num_hit_tokens_total=256))

    assert engine.total(Tier.L1, "lookup_hit_tokens") == 256
    assert engine.total(Tier.L1, "lookup_miss_tokens") == 88


def test_a_model_that_is_named_by_its_path_belongs_to_the_engine_that_serves_it(recorded):
    """UD-25: the page is the engine's, so nothing has to match by name, and nothing is dropped."""
    engine = Engine()

    engine.grown(recorded.replace('model_name="test-model"', 'model_name="/models/a"'))

    assert engine.total(Tier.L2, "lookup_hit_tokens") == 768


def test_releases_before_the_lookup_counters_are_read_by_what_they_retrieved():
    """Up to 0.3.1 a retrieve asked for the whole prompt."""
    engine = Engine()

    engine.grown(series(num_requested_tokens_total=1000, num_hit_tokens_total=256))

    hit, missed = (engine.total(Tier.L1, f"lookup_{what}_tokens") for what in ("hit", "miss"))
    assert (hit, missed) == (256, 744)


def test_chunks_that_are_read_several_at_a_time_are_told_by_their_bytes():
    """Two calls brought six chunks of 1,000 bytes."""
    engine = Engine()

    engine.grown(
        series(
            num_lookup_tokens_total=640,
            num_lookup_hits_total=640,
            num_hit_tokens_total=640,
            num_remote_read_requests_total=2,
            num_remote_read_bytes_total=6000,
            num_remote_write_requests_total=3,
            num_remote_write_bytes_total=3000,
        )
    )

    assert engine.total(Tier.L2, "lookup_hit_tokens") == 6 * 64
    assert engine.total(Tier.L1, "lookup_hit_tokens") == 4 * 64


def test_without_the_size_of_a_chunk_the_tiers_are_not_told_apart(recorded):
    """What was evicted and written still is."""
    engine = Engine(chunk_tokens=None)

    (reading,) = engine.grown(recorded)

    assert engine.total(Tier.L1, "lookup_hit_tokens") is None
    assert engine.total(Tier.L1, "evicted_blocks") == 54
    assert "chunk_size_is_not_known" in kinds(reading)


def test_a_disk_of_the_workers_own_is_shown_and_its_hits_are_not_invented(recorded):
    """It has no counter of reads, so neither tier's hits can be told."""
    page = re.sub(r"(local_storage_usage\{[^}]*\}) .*", r"\1 5242880", recorded)
    engine = Engine()

    (reading,) = engine.grown(page)

    disk = next(e for e in reading.entries if isinstance(e, TierSample) and e.tier is Tier.L2)
    assert (disk.holder, disk.used_bytes) == ("inside", 5242880)
    assert engine.total(Tier.L1, "lookup_hit_tokens") is None
    assert "local_disk_tells_only_its_bytes" in kinds(reading)


def test_numbers_known_to_lie_are_named(recorded):
    """Each of the traps that the recorded run shows, and none that it does not."""
    (reading,) = Engine().grown(recorded)

    assert kinds(reading) == {
        "retrieve_hit_rate_stays_at_one",
        "stored_tokens_count_what_was_asked",
        "lmcache_prompt_tokens_are_not_all_traffic",
        "remote_usage_stays_at_zero",
        "remote_time_to_get_stays_empty",
        "lifespans_begin_at_the_first_sight",
    }


def test_resident_chunks_that_stay_at_zero_are_absent(recorded):
    """With several processes behind one page the gauge is never set; L1 holds 4 MiB all the same."""
    page = re.sub(r"(local_cpu_hot_cache_count\{[^}]*\}) .*", r"\1 0.0", recorded)

    reading = Engine().read(page)

    sample = next(e for e in reading.entries if isinstance(e, TierSample))
    assert (sample.used_blocks, sample.used_bytes) == (None, 4 * MIB)
    assert "resident_chunks_stay_at_zero" in kinds(reading)


def test_a_restarted_worker_begins_anew(recorded):
    """What it counted before is kept, what it counts since is added."""
    engine = Engine()

    engine.grown(recorded, before(recorded), recorded)

    assert engine.readings[2].restarted
    assert engine.total(Tier.L2, "lookup_hit_tokens") == 2 * 768


def test_pages_of_its_own_tell_the_sizes_too(recorded):
    """One worker's page is gone: it costs that worker alone."""
    conf = b'{"chunk_size": 64, "local_cpu": true, "max_local_cpu_size": 0.00390625}'
    settings = {"chunk_tokens": None, "l1_bytes": None, "workers": 2}
    with (
        PageServer({"/metrics": recorded.encode(), "/conf": conf}) as server,
        closing(Fetcher(2.0)) as fetcher,
    ):
        engine = Engine(urls=(server.url, f"{server.url}/gone"), **settings)
        reading = engine.source.read(fetcher, 0.0)

    sample = next(e for e in reading.entries if isinstance(e, TierSample))
    assert (sample.capacity_bytes, sample.block_tokens) == (4 * MIB, 64)
    assert (reading.units.received, reading.units.missing) == (1, 1)
    assert engine.facts.chunk_tokens == 64
    assert [oddity.what for oddity in reading.oddities] == ["page of a worker that cannot be read"]


def test_an_engine_without_its_series_is_unreadable():
    """It says how its workers' series get there."""
    with pytest.raises(SourceUnreadable, match="no page has an lmcache: series") as caught:
        Engine().read("vllm:prompt_tokens_total 1\n")

    assert "PROMETHEUS_MULTIPROC_DIR" in caught.value.fix


@pytest.mark.parametrize("spelling", ["num_hit_tokens", "num_hit_tokens_total", "num_hit_tokens_total_total"])
def test_counters_are_found_under_each_spelling(spelling):
    """UD-17: whatever a client or a relay adds to a counter's name."""
    (found,) = read_workers([parse_exposition(series(**{spelling: 7}), where="page")])

    assert found.counters == {"retrieved": 7}
