"""The observing connectors: they change nothing, and see everything."""

from __future__ import annotations

import inspect
import logging

import pytest

from tests.fake_engine import FakePrefillStats, Role, request, vllm_config
from tests.fake_vllm import V1, KVConnectorBase, OffloadingConnector
from tierscope_probe.observer import Observer
from tierscope_probe.sender import Sender

CONNECTORS = "tierscope_probe.connectors"


@pytest.fixture
def connectors(vllm_release, imported):
    """The module vLLM is told to find connectors in."""
    return imported(CONNECTORS)


def test_the_idle_connector_answers_as_none_would(connectors, sent):
    """It offers nothing, keeps nothing, and lets the engine reset its cache."""
    idle = connectors.ObservingConnector(vllm_config(), Role.SCHEDULER, None)
    asked = request()

    assert idle.get_num_new_matched_tokens(asked, 0) == (0, False)
    assert idle.update_state_after_alloc(asked, "blocks", 0) is None
    assert idle.request_finished_all_groups(asked, ([1], [2])) == (False, None)
    assert idle.reset_cache() is True
    assert idle.requires_kv_delivery is False
    assert [record["t"] for record in sent()] == ["admit", "finish"]


def test_orders_of_the_idle_connector_are_what_vllm_sends_to_workers(connectors):
    """They are an instance of vLLM's own type, findable by name as pickling needs."""
    idle = connectors.ObservingConnector(vllm_config(), Role.WORKER, None)

    orders = idle.build_connector_meta("plan")

    assert isinstance(orders, connectors.base.KVConnectorMetadata)
    assert getattr(connectors, type(orders).__name__) is type(orders)


def test_a_wrapped_connectors_answers_are_untouched(connectors, sent):
    """What the real connector says is what the scheduler gets; the record has its load and its tier."""
    wrapped = connectors.ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)
    asked = request(prefill_stats=FakePrefillStats(101, 0, 64))

    assert wrapped.get_num_new_matched_tokens(asked, 0) == (64, True)
    assert wrapped.update_state_after_alloc(asked, "blocks", 64) == "planned"
    assert wrapped.build_connector_meta("plan") == "orders"
    assert wrapped.request_finished(asked, [1]) == (True, {"kept": [1]})

    admit, finish = sent()
    assert (admit["external"], admit["split"], finish["t"]) == (64, {"host": 64}, "finish")


def test_a_lookup_waits_from_the_question_on(connectors, sent, monkeypatch):
    """While the real connector makes up its answer, its cache server has begun to look."""
    wrapped = connectors.ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)
    now = [100.0]

    def slow(*_: object) -> tuple[int, bool]:
        now[0] += 0.25
        return 0, False

    monkeypatch.setattr(OffloadingConnector, "get_num_new_matched_tokens", slow)
    monkeypatch.setattr(wrapped._probe.observer, "clock", lambda: now[0])
    asked = request()
    wrapped.get_num_new_matched_tokens(asked, 0)
    wrapped.update_state_after_alloc(asked, "blocks", 0)

    (admit,) = sent()
    assert (admit["ts"], admit["lookup_wait_s"]) == (100.25, 0.25)


def test_an_end_that_passes_two_calls_is_one_record(connectors, sent):
    """Some connectors end all groups by calling the simpler one."""
    wrapped = connectors.ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)

    assert wrapped.request_finished_all_groups(request(), ([1],)) == (True, {"kept": ([1],)})

    assert [record["t"] for record in sent()] == ["finish"]


def test_connectors_in_workers_do_not_observe(connectors, monkeypatch):
    """The scheduler's connector alone opens sockets; there is one in each engine."""
    monkeypatch.setattr(Sender, "start", lambda _: pytest.fail("a worker's connector started a sender"))

    worker = connectors.ObservingOffloadingConnector(vllm_config(), Role.WORKER, None)

    assert worker.get_num_new_matched_tokens(request(), 0) == (64, True)


def test_switched_off_it_is_the_real_connector(connectors, sent, monkeypatch):
    """TIERSCOPE_PROBE=0 leaves a connector that only passes calls on."""
    monkeypatch.setenv("TIERSCOPE_PROBE", "0")
    off = connectors.ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)

    assert off.get_num_new_matched_tokens(request(), 0) == (64, True)
    assert off.request_finished(request(), [1]) == (True, {"kept": [1]})
    off.shutdown()
    assert not sent()


def test_an_engine_outlives_a_probe_that_cannot_start(connectors, sent, caplog):
    """A configuration nobody foresaw costs the observation, not the engine."""
    config = vllm_config()
    del config.parallel_config

    with caplog.at_level(logging.ERROR):
        wrapped = connectors.ObservingOffloadingConnector(config, Role.SCHEDULER, None)

    assert "goes on without it" in caplog.text
    assert wrapped.get_num_new_matched_tokens(request(), 0) == (64, True)


def test_the_constructor_shows_the_argument_vllm_looks_for(connectors):
    """From 0.22 on vLLM refuses connectors whose constructor has no kv_cache_config."""
    assert "kv_cache_config" in inspect.signature(connectors.ObservingConnector).parameters


def test_a_base_of_two_arguments_gets_two(vllm_release, imported, sent, monkeypatch):
    """Up to 0.20 connectors may not know the third argument."""

    class TwoArguments(OffloadingConnector):
        def __init__(self, vllm_config, role) -> None:
            super().__init__(vllm_config, role, None)

    vllm_release(f"{V1}.offloading_connector", OffloadingConnector=TwoArguments)
    wrapped = imported(CONNECTORS).ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER)

    assert wrapped.request_finished(request(), [1]) == (True, {"kept": [1]})


def test_errors_of_the_real_connector_are_its_own(vllm_release, imported, sent):
    """The engine sees what it would have seen without us, and nothing is recorded of it."""

    class Failing(OffloadingConnector):
        def request_finished_all_groups(self, request, block_ids):
            raise RuntimeError("lost the blocks")

    vllm_release(f"{V1}.offloading_connector", OffloadingConnector=Failing)
    wrapped = imported(CONNECTORS).ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)

    with pytest.raises(RuntimeError, match="lost the blocks"):
        wrapped.request_finished_all_groups(request(), ([1],))
    assert wrapped.request_finished(request(), [1]) == (True, {"kept": [1]})
    assert len(sent()) == 1


def test_shutting_down_closes_the_probe_first(connectors, monkeypatch):
    """What waits is sent while the real connector is still there; then that one is shut down."""
    monkeypatch.setattr(Sender, "start", lambda _: None)
    wrapped = connectors.ObservingOffloadingConnector(vllm_config(), Role.SCHEDULER, None)
    closed = []
    monkeypatch.setattr(Sender, "close", lambda _: closed.append(getattr(wrapped, "is_shut_down", False)))

    wrapped.shutdown()

    assert closed == [False]
    assert wrapped.is_shut_down


def test_a_wrapped_connector_needs_its_own_package_alone(connectors):
    """LMCache's connector is refused by naming what cannot be imported; the others work without it."""
    with pytest.raises(ImportError, match=r"LMCacheMPConnector cannot be observed.*lmcache"):
        _ = connectors.ObservingLMCacheMPConnector

    assert connectors.ObservingOffloadingConnector is connectors.ObservingOffloadingConnector


def test_the_lmcache_connector_of_lmcache_comes_first(connectors, vllm_release):
    """LMCache ships a newer one than vLLM; vLLM itself prefers it."""
    theirs = type("LMCacheMPConnector", (OffloadingConnector,), {})
    vllm_release("lmcache.integration.vllm.lmcache_mp_connector", LMCacheMPConnector=theirs)
    vllm_release(f"{V1}.lmcache_mp_connector", LMCacheMPConnector=OffloadingConnector)

    assert issubclass(connectors.ObservingLMCacheMPConnector, theirs)
    assert connectors.ObservingLMCacheMPConnector.form == "lmcache_mp"


def test_an_unknown_name_is_answered_with_the_known_ones(connectors):
    """A misspelt connector is found when the engine starts."""
    with pytest.raises(AttributeError, match="ObservingConnector, ObservingOffloadingConnector"):
        _ = connectors.ObservingConector


@pytest.mark.parametrize("contents", [{}, {"KVConnectorBase_V1": KVConnectorBase}])
def test_releases_without_what_it_needs_are_refused_by_name(fake_vllm, imported, contents):
    """The engine says at its start what is wrong and what to do."""
    if contents:
        fake_vllm(f"{V1}.base", **contents)
    else:
        fake_vllm("vllm")

    with pytest.raises(ImportError, match=r"needs vLLM 0\.11\.2 or newer"):
        imported(CONNECTORS)


def test_what_the_observer_costs_is_told(connectors, monkeypatch):
    """Statistics carry the calls' times, the errors and the drops since the start."""
    monkeypatch.setattr(Sender, "start", lambda _: None)
    extra = {"tierscope": {"ring_bytes": "many"}}
    idle = connectors.ObservingConnector(vllm_config(extra=extra), Role.SCHEDULER, None)
    idle.build_connector_meta("plan")

    stats = idle._probe.stats()

    assert (stats["n"]["meta"], stats["errors"], stats["dropped"]) == (1, 1, 0)
    assert isinstance(idle._probe.observer, Observer)
