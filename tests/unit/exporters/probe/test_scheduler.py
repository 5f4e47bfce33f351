"""The observing scheduler: a factory that follows the engine's setting."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.fake_engine import Status, request, vllm_config
from tests.fake_vllm import AsyncScheduler, Scheduler
from tierscope_probe.scheduler import observing_scheduler


@pytest.mark.parametrize(("asynchronous", "base"), [(False, Scheduler), (True, AsyncScheduler)])
def test_the_base_follows_the_setting(vllm_release, sent, asynchronous, base):
    """An engine that plans ahead keeps doing so."""
    config = vllm_config()
    config.scheduler_config.async_scheduling = asynchronous

    made = observing_scheduler(vllm_config=config, kv_cache_config=None)

    assert type(made).__mro__[2] is base


def test_answers_are_untouched_and_a_request_is_recorded_from_admission_to_end(vllm_release, sent):
    """Plan, outputs and ends pass through; admissions, first tokens and ends are told."""
    scheduler = observing_scheduler(vllm_config(), None)
    asked = request()
    scheduler.requests[asked.request_id] = asked
    scheduler.plan.scheduled_new_reqs.append(SimpleNamespace(req_id=asked.request_id, num_computed_tokens=0))

    assert scheduler.schedule() is scheduler.plan
    asked.prefill_stats, asked.num_output_tokens = None, 1
    assert scheduler.update_from_output(scheduler.plan, "step 1") == "outputs of step 1"
    asked.status = Status.FINISHED_ABORTED
    assert scheduler._free_request(asked, delay_free_blocks=True) == ("freed", True)
    scheduler.shutdown()

    assert [record["t"] for record in sent()] == ["admit", "first", "finish"]
    assert scheduler.finished == [asked]


def test_before_prefill_statistics_a_connector_hides_what_is_local(vllm_release, sent, caplog, monkeypatch):
    """Rather no records than wrong ones: the plain scheduler is used, and the log says why."""
    monkeypatch.delattr("vllm.v1.metrics.stats.PrefillStats")

    made = observing_scheduler(vllm_config(), None)

    assert type(made) is Scheduler
    assert "wrap the connector" in caplog.text


def test_without_a_connector_old_releases_are_observed(vllm_release, sent, monkeypatch):
    """What is not computed is local then."""
    monkeypatch.delattr("vllm.v1.metrics.stats.PrefillStats")
    config = vllm_config()
    config.kv_transfer_config = None

    assert type(observing_scheduler(config, None)) is not Scheduler


def test_a_scheduler_whose_ends_would_be_missed_is_refused(vllm_release, sent, caplog):
    """A release that ends requests elsewhere is not observed by halves."""
    bare = type("Scheduler", (), {"__init__": lambda *_: None})
    vllm_release("vllm.v1.core.sched.scheduler", Scheduler=bare)

    made = observing_scheduler(vllm_config(), None)

    assert type(made) is bare
    assert "_free_request" in caplog.text
