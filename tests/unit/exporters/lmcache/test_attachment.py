"""Caches that lost their pool, as after a pod was rendered anew."""

from __future__ import annotations

import re

import pytest

from exporters.exposition import parse_exposition
from exporters.lmcache.attachment import (
    AttachmentSuspect,
    judge_engine,
    judge_server,
    server_bytes,
    uses_managed_tier,
)
from exporters.lmcache.page_source import LmcacheSource
from exporters.pools import ManagedTier, PoolFacts
from tierscope.domain.severity import Severity


@pytest.fixture
def recorded(captures):
    return (captures / "lmcache" / "mp_pull" / "metrics.txt").read_text("utf-8")


def page(text):
    return parse_exposition(text, where="page")


def without_adapters(text):
    text = re.sub(r'(l2_(store|prefetch)_adapters\{[^}]*state="active"\}) 1.0', r"\1 0.0", text)
    return "\n".join(line for line in text.splitlines() if "l2_usage_bytes" not in line)


def test_a_server_with_its_pool_is_not_accused(recorded):
    """The recorded one has one adapter, and holds what it wrote there."""
    assert list(judge_server(page(recorded), "kv", where="server")) == []
    assert server_bytes(page(recorded)) == 8_257_536
    assert not uses_managed_tier(page(recorded))


def test_a_server_without_any_adapter_lost_its_pool(recorded):
    """It goes on with L1 alone, and nothing fails."""
    (finding,) = judge_server(page(without_adapters(recorded)), "kv", where="server")

    assert (finding.kind, finding.severity) == (AttachmentSuspect.NOT_ATTACHED, Severity.CRITICAL)
    assert "the pool kv" in finding.error.what
    assert "webhook" in finding.error.fix
    assert server_bytes(page(without_adapters(recorded))) is None


def test_a_server_with_the_operators_own_tier_lost_its_pool(recorded):
    """What the operator injects stands where the pool's address was patched in."""
    text = recorded.replace('l2_name="fs"', 'l2_name="sagemaker-hyperpod"')

    (finding,) = judge_server(page(text), "kv", where="server")

    assert "sagemaker-hyperpod" in finding.error.what
    assert uses_managed_tier(page(text))


@pytest.mark.parametrize(
    ("stored", "written", "lost"), [(100, 0, True), (100, None, True), (100, 90, False), (3, 0, False)]
)
def test_an_engine_that_stores_and_writes_nothing_on_lost_its_pool(stored, written, lost):
    """Judged once it stored some chunks: writes are behind by a few."""
    assert bool(list(judge_engine(stored, written, "kv", where="engine"))) is lost
    assert list(judge_engine(None, None, "kv", where="engine")) == []


def test_a_servers_reader_tells_pool_and_node(recorded, captures):
    """What it holds in the pool, that it does not use the managed tier, and the finding where it is lost."""
    status = (captures / "lmcache" / "mp_pull" / "status.json").read_bytes()

    class Server:
        text = recorded

        def get(self, url):
            return status if url.endswith("/status") else self.text.encode()

    server, facts, tier = Server(), PoolFacts(), ManagedTier()
    source = LmcacheSource("one", "http://one", "kv", (), pool_facts=facts, managed_tier=tier)

    assert source.read(server, 1.0).findings == []
    assert facts.cache_bytes == {"one": 8_257_536}
    assert tier.used_by_server == {"one": False}

    server.text = without_adapters(recorded)
    assert [finding.kind for finding in source.read(server, 2.0).findings] == [AttachmentSuspect.NOT_ATTACHED]
