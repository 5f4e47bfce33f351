"""A pool that several exporters read is one pool; its growth and its forecast are right at known inputs."""

from __future__ import annotations

import pytest

from dashboards.queries import capacity, pool
from tests.promtool_cases import chosen, series
from tierscope.domain.tiers import Tier
from tierscope.registry.advice_metrics import GHOST_HIT_RATIO
from tierscope.registry.metrics import CAPACITY_BYTES, POOL_FILE_BYTES, USED_BYTES
from tierscope.registry.pool_metrics import (
    ALLOCATABLE,
    IO_SECONDS,
    MOVED_BYTES,
    WORKER_AVAILABLE,
    WORKER_CAPACITY,
    WORKERS,
)

pytestmark = pytest.mark.system

NODES = ("node-0:9464", "node-1:9464")


def read_by_all(metric, values: str, **labels: str) -> list[dict[str, str]]:
    """A reading of a pool as two nodes' exporters publish it."""
    return [series(metric, values, holder="pool", **labels, instance=node) for node in NODES]


def test_workers_and_files_are_counted_once(promtool):
    """However many nodes mount the pool; two models of a kind add up."""
    inputs = [
        *read_by_all(WORKERS, "3x20", status="live"),
        *read_by_all(WORKERS, "1x20", status="lost"),
        *read_by_all(POOL_FILE_BYTES, "70x20", kind="chunk", model="m"),
        *read_by_all(POOL_FILE_BYTES, "20x20", kind="chunk", model="n"),
        *read_by_all(POOL_FILE_BYTES, "10x20", kind="temp", model="m"),
    ]

    promtool.check(inputs, chosen(pool.workers_by_status()), {'{status="live"}': 3, '{status="lost"}': 1})
    promtool.check(inputs, chosen(pool.file_bytes("kind")), {'{kind="chunk"}': 90, '{kind="temp"}': 10})
    promtool.check(inputs, chosen(pool.file_bytes("model")), {'{model="m"}': 80, '{model="n"}': 20})


def test_a_workers_room_is_of_all_its_storage(promtool):
    """A worker of two kinds of storage is one worker; the fullest and the emptiest are told."""
    inputs = [
        one
        for worker, storage, left in (("w0", "ssd", 10), ("w0", "mem", 10), ("w1", "ssd", 90))
        for metric, value in ((WORKER_AVAILABLE, left), (WORKER_CAPACITY, 100))
        for one in read_by_all(metric, f"{value}x20", worker=worker, storage=storage)
    ]

    promtool.check(inputs, chosen(pool.emptiest_and_fullest_worker("min")), {'{holder="pool"}': 0.1})
    promtool.check(inputs, chosen(pool.emptiest_and_fullest_worker("max")), {'{holder="pool"}': 0.9})


def test_pools_of_one_name_in_two_clusters_are_two(promtool):
    """Neither their workers nor their room are put together, nor is the fuller one taken for both."""
    inputs = [
        one
        for cluster, left in (("a", 10), ("b", 60))
        for metric, value in ((WORKER_AVAILABLE, left), (WORKER_CAPACITY, 100), (ALLOCATABLE, left))
        for labels in [
            {"cluster": cluster} | ({} if metric is ALLOCATABLE else {"worker": "w0", "storage": "ssd"})
        ]
        for one in read_by_all(metric, f"{value}x20", **labels)
    ]
    a, b = (f'{{cluster="{name}",holder="pool"}}' for name in "ab")

    promtool.check(inputs, chosen(pool.emptiest_and_fullest_worker("min")), {a: 0.1, b: 0.6})
    promtool.check(inputs, chosen(pool.allocatable()), {a: 10, b: 60})


def test_bytes_that_pass_several_sides_are_not_added_up(promtool):
    """What a worker sent is what a client received: two lines."""
    inputs = [
        series(MOVED_BYTES, "0+600x20", holder="pool", seen_by=side, process=side, direction="read")
        for side in ("worker", "fuse")
    ]

    promtool.check(
        inputs,
        chosen(pool.moved_bytes()),
        {'{seen_by="worker",direction="read"}': 10, '{seen_by="fuse",direction="read"}': 10},
    )


def test_a_read_without_requests_has_no_latency(promtool):
    """An idle pool is not a fast pool."""
    idle = [
        series(IO_SECONDS, "4x20", part="_bucket", holder="pool", process="p", direction="read", le=edge)
        for edge in ("0.1", "+Inf")
    ]

    promtool.check(idle, chosen(pool.io_seconds(0.5)), {})


def test_growth_and_tomorrow_follow_the_recorded_use(promtool, repository):
    """3,600 bytes a minute are 60 a second, and a day of that. A pool that empties does not go below none."""
    rules = (str(repository / "dashboards/generated/tierscope-rules.yaml"),)
    grows = read_by_all(USED_BYTES, "0+3600x420", tier=Tier.L2)
    falls = read_by_all(USED_BYTES, "1512000-3600x420", tier=Tier.L2)
    at = {"at": "6h", "rule_files": rules}

    promtool.check(grows, chosen(capacity.pool_growth()), {'{holder="pool"}': 60}, **at)
    promtool.check(falls, chosen(capacity.pool_growth()), {'{holder="pool"}': -60}, **at)
    tomorrow = 3600 * 360 + 60 * 24 * 3600
    promtool.check(grows, chosen(capacity.pool_tomorrow()), {'{holder="pool"}': tomorrow}, **at)
    promtool.check(falls, chosen(capacity.pool_tomorrow()), {'{holder="pool"}': 0}, **at)
    capacities = read_by_all(CAPACITY_BYTES, "9x420", tier=Tier.L2)
    promtool.check(capacities, chosen(capacity.pool_capacity()), {'{holder="pool"}': 9}, **at)


def test_a_curve_is_of_the_endpoint_chosen(promtool):
    """Of several it is the best of each size; a size that no curve covers is absent."""
    inputs = [
        series(GHOST_HIT_RATIO, value, namespace="ns", endpoint=endpoint, tier="l1", scale=scale)
        for endpoint, scale, value in (
            ("chat", "1", "0.5x20"),
            ("chat", "2", "0.6x20"),
            ("rag", "2", "0.7x20"),
        )
    ]
    both = chosen(capacity.ghost_hit_ratio(Tier.L1, "2"))

    promtool.check(inputs, both, {'{scale="2"}': 0.7})
    promtool.check(
        inputs, chosen(capacity.ghost_hit_ratio(Tier.L1, "2"), endpoint="chat"), {'{scale="2"}': 0.6}
    )
    promtool.check(inputs, chosen(capacity.ghost_hit_ratio(Tier.L1, "4")), {})
