"""A store has the readings of everybody's cache servers and pools: only an endpoint's own count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import workloads as w
from tests.ledgers import BLOCK_TOKENS, ENGINES, START, admission, batch
from tierscope.advice.document import ChangeKind, FindingKind, Recommendation, Status
from tierscope.advice.readings import chunk_tokens, read_tiers
from tierscope.advice.recommend import recommend
from tierscope.advice.sizing.pool import eviction_findings
from tierscope.advice.study import study_of
from tierscope.domain.deployment import Deployment
from tierscope.domain.events import TierSample
from tierscope.domain.names import Beginning
from tierscope.domain.requests import CacheLookup
from tierscope.domain.tiers import Tier
from tierscope.domain.window import Evidence, TimeSpan
from tierscope.storage.store import Store

CHUNK = w.CHUNK_BYTES
KIB = 1024.0
SMALL, LARGE = 128 * KIB, 320 * KIB
"""KV bytes a token of a model of 8B and one of 70B."""
ENGINE = w.engines(1)[0]
OTHER_ENGINE = "ns/summaries/pod-9/0"


def server(
    holder: str, per_token: float, *, chunks: int = 1000, size: int = 256, at: float = 0.0
) -> TierSample:
    """A cache server of 100 GB, a part of it full of chunks of a model."""
    used = chunks * size * per_token
    return TierSample(
        Tier.L1, holder, at, capacity_bytes=1e11, used_bytes=used, used_blocks=chunks, block_tokens=size
    )


def asking(*servers: str) -> tuple[Beginning, ...]:
    """Requests of our endpoint that name these servers."""
    return tuple(Beginning(ENGINE, one, "m", 16, 64, 1, 2, of_tokens_alone=True) for one in servers)


def seen(*samples: TierSample, asked: tuple[str, ...] = (), chunk: int | None = 64) -> Evidence:
    window = w.window([w.chain_hashes(1, 16)], chunk_tokens=chunk)
    return Evidence(window, samples, asking(*asked))


def l1(evidence: Evidence, **configured: float):
    deployment = Deployment("ns", "chat", "m", 1, tiers=w.deployment(1e11).tiers, **configured)
    return read_tiers(evidence, deployment)[Tier.L1]


def test_the_name_a_request_gives_its_server_is_that_of_the_servers_readings(tmp_path):
    """A store of two endpoints with a server each: of both, each gets its own bytes a token."""
    others = (replace(ENGINES[0], endpoint="large"), "cache-1", LARGE)
    chunk = 2 * BLOCK_TOKENS
    with Store.open(tmp_path / "store.duckdb", clock=lambda: START) as store:
        told = []
        for engine, name, per_token in ((ENGINES[0], "cache-0", SMALL), others):
            lookup = CacheLookup(name, START, 0, 0, first_chunk_hash=1)
            record = admission((1, 2, 3), name=name, at=START, engine=engine, chunk_tokens=chunk)
            told += [replace(record, lookup=lookup), server(name, per_token, size=chunk, at=START)]
        store.append([batch(0, *told)])
        for engine, per_token in ((ENGINES[0], SMALL), (others[0], LARGE)):
            where = (engine.namespace, engine.endpoint)
            evidence = store.reader().evidence(*where, TimeSpan(START - 1, START + 1))

            found = read_tiers(evidence, Deployment(*where, "m", 1))

            assert len(evidence.samples) == 2
            assert found[Tier.L1].bytes_per_token == per_token


def test_servers_that_the_requests_ask_count_and_no_others():
    """Sizes, use, and bytes a token; several servers of the endpoint's are pooled as ever."""
    ours = [server("cache-0", SMALL), server("cache-1", 1.2 * SMALL)]
    reading = l1(seen(*ours, server("elsewhere", LARGE), asked=("cache-0", "cache-1")))

    assert reading.bytes_per_token == pytest.approx(1.1 * SMALL)
    assert reading.used_bytes == pytest.approx(1.1 * SMALL * 256_000)


def test_a_server_that_is_not_read_is_not_replaced_by_anothers():
    """Requests name one without readings: what the model's configuration says is nearer than another's."""
    evidence = seen(server("elsewhere", LARGE), asked=("cache-0",))

    assert l1(evidence).bytes_per_token is None
    assert l1(evidence, model_bytes_per_token=SMALL).bytes_per_token == SMALL


def test_where_no_request_names_a_server_those_that_differ_tell_nothing():
    """What lies between two models is neither's; the model's configuration and the deployment's go on."""
    evidence = seen(server("a", SMALL), server("b", LARGE))

    assert l1(evidence).bytes_per_token is None
    assert l1(evidence).used_bytes is None
    assert l1(evidence, model_bytes_per_token=1000.0).bytes_per_token == 1000.0
    assert l1(evidence, bytes_per_token=2000.0).bytes_per_token == 2000.0


def test_servers_that_nobody_names_count_together_where_they_agree():
    """Chunks that are not whole make a few percent, and a server with a few of them may say anything."""
    evidence = seen(server("a", SMALL), server("b", 0.94 * SMALL), server("new", 3 * SMALL, chunks=3))

    assert l1(evidence).bytes_per_token == pytest.approx(0.97 * SMALL, rel=0.01)


@pytest.mark.parametrize("holder", [str(ENGINE), "ns/pod-0"], ids=["its engine", "LMCache inside its pod"])
def test_an_l1_inside_the_endpoints_own_pods_needs_no_name_in_requests(holder):
    """Where it tells its size, the servers that are read besides are others'."""
    assert l1(seen(server(holder, SMALL), server("b", LARGE))).bytes_per_token == SMALL
    assert l1(seen(server(holder, SMALL), server("b", LARGE), asked=("b",))).bytes_per_token == pytest.approx(
        (SMALL + LARGE) / 2
    )


def test_an_engine_of_another_endpoint_is_never_ours():
    """Its name tells whose it is; before there are requests nothing is left out."""
    evidence = seen(server("a", SMALL), server(OTHER_ENGINE, LARGE))
    without_requests = replace(evidence, window=replace(evidence.window, engines=()))

    assert l1(evidence).bytes_per_token == SMALL
    assert l1(without_requests).bytes_per_token is None


def test_the_chunk_size_is_that_of_the_endpoints_own_server():
    """Records that do not tell it: two sizes of nobody's servers are no size."""
    servers = (server("a", SMALL, size=64), server("b", SMALL, size=256))

    assert chunk_tokens(seen(*servers, chunk=None)) is None
    assert chunk_tokens(seen(*servers, chunk=None, asked=("b",))) == 256
    assert chunk_tokens(seen(servers[0], chunk=None)) == 64
    assert chunk_tokens(seen(*servers)) == 64


@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
def test_how_full_another_endpoints_server_is_says_nothing_of_ours(named):
    """Ours holds three quarters. Another's, of another model, is half full and frees in rounds."""
    deployment = w.deployment(80 * CHUNK)
    at = np.linspace(w.START + 1800, w.START + 3600, 10)
    size = 80 * CHUNK
    ours = [server("ours", w.BYTES_PER_TOKEN, chunks=60, size=64, at=t) for t in at]
    theirs = [
        server("theirs", 2 * w.BYTES_PER_TOKEN, chunks=20 + 15 * (k % 2), size=64, at=t)
        for k, t in enumerate(at)
    ]
    samples = [replace(one, capacity_bytes=size) for one in (*ours, *theirs)]
    evidence = w.served(w.window(w.cycle(40, 1000)), deployment, samples=samples)
    if named:
        evidence = replace(evidence, beginnings=asking("ours"))

    study = study_of(evidence, deployment, read_tiers(evidence, deployment), w.CHUNK_TOKENS)

    assert study.l1_usable_ratio == pytest.approx(0.75 if named else 0.7)
    assert not study.l1_frees_in_rounds


def pool(holder: str, capacity: float, *used: float) -> list[TierSample]:
    """Readings of a pool through the window's second half."""
    at = np.linspace(w.START + 1800, w.START + 3600, len(used))
    return [TierSample(Tier.L2, holder, float(t), capacity, value) for t, value in zip(at, used, strict=True)]


def interleaved(*pools: list[TierSample]) -> list[TierSample]:
    return sorted((one for each in pools for one in each), key=lambda sample: sample.at_unix_seconds)


def advise_on_pools(l2_bytes: float, *pools: list[TierSample]) -> Recommendation:
    """An L2 of which 164 chunks are of use."""
    deployment = w.deployment(8 * CHUNK, l2_bytes, replicas=2, limits=(8 * CHUNK, None))
    window = w.window(w.cycle(41, 1000), replicas=2)
    evidence = w.served(window, deployment, samples=interleaved(*pools))
    return recommend(evidence, deployment, now_unix_seconds=w.NOW)


@pytest.mark.parametrize(("have", "held", "wanted"), [(1000, 500, 550), (100, 90, 164)])
def test_a_larger_pool_of_another_endpoint_does_not_make_ours_grow(have, held, wanted):
    """Of several pools the one of the configured size is ours: what the other holds is nothing to it."""
    ours = pool("ours", 0.95 * have * CHUNK, 0.5 * held * CHUNK, held * CHUNK)
    theirs = pool("theirs", 9000 * CHUNK, 8000 * CHUNK, 8000 * CHUNK)

    [change] = advise_on_pools(have * CHUNK, ours, theirs).changes

    assert (change.kind, change.target) == (ChangeKind.TIER_SIZE, "l2")
    assert change.to == pytest.approx(wanted * CHUNK, rel=1 / 32)


@pytest.mark.parametrize(
    ("sizes", "held"), [((1000, 1000), (500, 990)), ((9000, 9000), (8000, 8000))], ids=["ours", "neither's"]
)
def test_pools_of_which_none_is_known_to_be_ours_do_not_shrink_it(sizes, held):
    """Two have its size, or none: it may be the fuller one, and would refuse what is new."""
    pools = (
        pool(name, size * CHUNK, used * CHUNK) for name, size, used in zip("ab", sizes, held, strict=True)
    )

    assert advise_on_pools(1000 * CHUNK, *pools).status is Status.NO_CHANGE


@pytest.mark.parametrize("size", [100, 9000], ids=["ours", "neither's"])
def test_pools_of_which_none_is_known_to_be_ours_do_not_make_it_grow(size):
    """An L2 that is too small grows to what its own hits ask for."""
    [change] = advise_on_pools(
        100 * CHUNK,
        *(pool(name, size * CHUNK, used * size * CHUNK) for name, used in (("a", 0.5), ("b", 0.9))),
    ).changes

    assert change.to == pytest.approx(164 * CHUNK, rel=1 / 32)


def test_a_pool_that_makes_no_room_is_found_beside_another(starving):
    """Their readings come by turns; the one that is full is named."""
    samples = interleaved(pool("stuck", 100.0, *[99.0] * 10), pool("calm", 100.0, *[40.0] * 10))

    [finding] = eviction_findings(samples, *starving)

    assert finding.kind is FindingKind.L2_NEVER_EVICTS
    assert finding.evidence.startswith("10 readings in a row show 99 B of 100 B used in stuck, never less")


def test_only_a_pool_of_our_own_keeps_our_l2_from_being_sized():
    """Another's that is full and stays so is not ours to repair, whatever our hits are."""
    deployment = w.deployment(8 * CHUNK, 200 * CHUNK, replicas=2, limits=(8 * CHUNK, None))
    window = w.window(w.cycle(41, 1000), replicas=2)
    calm = pool("calm", 200 * CHUNK, *[100 * CHUNK] * 10)
    full = pool("full", 200 * CHUNK, *[200 * CHUNK] * 10)
    far = pool("far", 900 * CHUNK, *[900 * CHUNK] * 10)

    def stuck(*pools: list[TierSample]) -> bool:
        evidence = w.evidence(window, samples=interleaved(*pools))
        document = recommend(evidence, deployment, now_unix_seconds=w.NOW)
        return FindingKind.L2_NEVER_EVICTS in [finding.kind for finding in document.findings]

    assert stuck(full, far)
    assert not stuck(calm, far)


def test_what_a_tier_holds_now_is_of_our_pool():
    """Beside a pool of another size, the reading is not their mean."""
    deployment = w.deployment(8 * CHUNK, 1000 * CHUNK)
    samples = [*pool("ours", 1000 * CHUNK, 500 * CHUNK), *pool("theirs", 9000 * CHUNK, 8000 * CHUNK)]

    assert read_tiers(seen(*samples), deployment)[Tier.L2].used_bytes == 500 * CHUNK
