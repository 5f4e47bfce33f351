"""The stat logger: loaded wherever it is installed, and silent until asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.fake_engine import Status, vllm_config
from tierscope_probe.sender import Sender


@pytest.fixture
def logger_class(vllm_release, imported):
    """The class that vLLM finds through its entry point."""
    return imported("tierscope_probe.stat_logger").FinishedRequestLogger


def finished(**fields: object) -> SimpleNamespace:
    """Statistics of a finished request, as 0.20 and later have them."""
    return SimpleNamespace(
        **{
            "request_id": "cmpl-a-0",
            "num_prompt_tokens": 100,
            "num_cached_tokens": 64,
            "finish_reason": Status.FINISHED_LENGTH_CAPPED,
            "e2e_latency": 0.5,
            **fields,
        }
    )


def iteration(*requests: object) -> SimpleNamespace:
    """Statistics of one step."""
    return SimpleNamespace(finished_requests=list(requests))


def test_it_is_silent_until_asked(logger_class, sent):
    """Installing the distribution changes nothing by itself."""
    logger = logger_class(vllm_config(), 0)

    logger.record(None, iteration(finished()))

    assert not sent()


def test_every_finished_request_is_told(logger_class, sent, monkeypatch):
    """Prompt, cached tokens and times; None statistics, which vLLM sends too, are no error."""
    monkeypatch.setenv("TIERSCOPE_PROBE_STAT_LOGGER", "1")
    logger = logger_class(vllm_config(), 0)

    logger.record(None, None)
    logger.record("scheduler", iteration(finished(), finished(request_id="cmpl-b-0")), None, 0)

    first, second = sent()
    assert (first["t"], first["rid"], first["prompt"], first["cached"]) == ("summary", "cmpl-a-0", 100, 64)
    assert (first["status"], first["e2e_s"], first["queued_s"]) == ("FINISHED_LENGTH_CAPPED", 0.5, None)
    assert second["rid"] == "cmpl-b-0"


def test_each_engine_has_an_address_of_its_own(logger_class, monkeypatch):
    """The API server has a logger for each rank, whatever rank its own configuration states."""
    monkeypatch.setenv("TIERSCOPE_PROBE_STAT_LOGGER", "1")
    monkeypatch.setattr(Sender, "start", lambda _: None)

    logger = logger_class(vllm_config(rank=0), 3)

    assert logger._probe.sender._rank == 3


def test_a_release_that_says_too_little_is_refused_once(logger_class, sent, monkeypatch, caplog):
    """Before 0.20 a finished request has no id."""
    monkeypatch.setenv("TIERSCOPE_PROBE_STAT_LOGGER", "1")
    logger = logger_class(vllm_config(), 0)
    old = finished()
    del old.request_id

    for _ in range(3):
        logger.record(None, iteration(old, old))

    assert not sent()
    assert caplog.text.count("0.20 or newer is needed") == 1


def test_it_never_raises_into_the_server(logger_class, sent, monkeypatch):
    """Statistics of an unknown shape are counted."""
    monkeypatch.setenv("TIERSCOPE_PROBE_STAT_LOGGER", "1")
    logger = logger_class(vllm_config(), 0)

    logger.record(None, SimpleNamespace(finished_requests=5))

    assert logger._probe.errors.count == 1
