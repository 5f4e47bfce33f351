"""Every release's own signatures, read from its wheel: the probe fits each, or refuses it by name."""

from __future__ import annotations

import inspect
import json
import re
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from tests.engines.signatures import CALLS, Facts, at_release, order
from tests.fake_engine import Role, vllm_config
from tests.fake_vllm import V1
from tierscope_probe import scheduler
from tierscope_probe.engine import EngineRequest
from tierscope_probe.mixin import ObserverMixin

HISTORY = json.loads(
    (Path(__file__).parents[3] / "fixtures" / "engines" / "vllm-signatures.json").read_text("utf-8")
)
RELEASES = tuple(HISTORY["releases"])
REFUSED = tuple(release for release in RELEASES if order(release) < (0, 11, 2))
TAKEN = tuple(release for release in RELEASES if release not in REFUSED)
WRAPPED = ("OffloadingConnector", "LMCacheMPConnector", "LMCacheConnectorV1")
OPTIONAL_PARAMETERS = re.compile(r"\?|\*\*?\w+(, )?")


@pytest.fixture(params=TAKEN)
def facts(request) -> Facts:
    """What a release that the probe takes looks like."""
    return at_release(HISTORY, request.param)


def made_class(facts: Facts, name: str) -> type:
    """A class with the members, parameters and abstract marks of a release's."""
    members: dict[str, object] = {}
    for fact, text in facts.items():
        owner, _, member = fact.partition(".")
        if owner == name and member and text != "attribute":
            members[member] = made_member(member, text)
    return type(name, (ABC,), members)


def made_member(name: str, text: str) -> object:
    """A method or property that answers None."""
    shape = text.removeprefix("abstract ")
    if shape == "property":
        return property(lambda _: None)
    parameters = re.sub(r"(\w+)\?", r"\1=None", shape.strip("()"))
    scope: dict[str, object] = {}
    exec(f"def {name}(self, {parameters}): return None", scope)
    method = scope[name]
    return abstractmethod(method) if text.startswith("abstract") else method


def parameters(text: str) -> list[str]:
    """Names of a recorded signature's parameters, without what it does not insist on naming."""
    return [name for name in OPTIONAL_PARAMETERS.sub("", text).strip("()").split(", ") if name]


def arguments(form: str) -> int:
    """How many positional arguments a call has; it may have no others."""
    parts = form.split(", ")
    assert set(parts) == {"_"}, f"a call names arguments: {form}"
    return len(parts)


@pytest.fixture
def connectors(facts, fake_vllm, imported, monkeypatch):
    """The connectors' module beside a release's own base classes; no probe starts."""
    names = ("KVConnectorBase_V1", "SupportsHMA", "KVConnectorMetadata")
    fake_vllm(f"{V1}.base", **{name: made_class(facts, name) for name in names if name in facts})
    monkeypatch.setattr("tierscope_probe.mixin.start_probe", lambda *_: None)
    return imported("tierscope_probe.connectors")


def test_the_idle_connector_is_whole(facts, connectors):
    """The factory's call makes one, so no abstract member is left; the scheduler's calls go through."""
    given = [vllm_config(), Role.SCHEDULER, None][: arguments(facts["factory calls connector_cls"])]

    idle = connectors.ObservingConnector(*given)

    for name in CALLS:
        form = facts.get(f"scheduler calls {name}")
        if form is not None and hasattr(idle, name):
            inspect.signature(getattr(idle, name)).bind(*range(arguments(form)))
    assert idle.request_finished_all_groups("request", ()) == (False, None)
    idle.shutdown()


def test_observed_calls_have_the_releases_parameters(facts):
    """The base's and every wrapped connector's parameters are those that the mixin hands on."""
    observed = {
        name: [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
        for name, method in vars(ObserverMixin).items()
        if inspect.isfunction(method) and name != "__init__"
    }

    for owner in ("KVConnectorBase_V1", "SupportsHMA", *WRAPPED):
        for name, ours in observed.items():
            theirs = facts.get(f"{owner}.{name}")
            assert theirs is None or parameters(theirs.removeprefix("abstract ")) == ours, (owner, name)
    told = ("get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta")
    assert all(f"KVConnectorBase_V1.{name}" in facts for name in (*told, "request_finished", "shutdown"))


def test_wrapped_connectors_are_where_they_are_looked_for(facts):
    """Their constructors take what the mixin gives; LMCache's own package has the one that vLLM gave up."""
    assert {"OffloadingConnector", "LMCacheConnectorV1"} <= facts.keys()
    for name in WRAPPED:
        constructor = facts.get(f"{name}.__init__")
        assert constructor is None or parameters(constructor) == ["vllm_config", "role", "kv_cache_config"]


def test_requests_have_what_is_read_of_them(facts):
    """All that `EngineRequest` declares is there; the engine's own split comes whole or not at all."""
    declared = {*EngineRequest.__annotations__, *(n for n in vars(EngineRequest) if n[0] != "_")}
    stats = {f"PrefillStats.num_{what}_tokens" for what in ("prompt", "local_cached", "external_cached")}

    assert {f"Request.{name}" for name in declared} <= facts.keys()
    assert "RequestStatus.FINISHED_ABORTED" in facts
    assert ("Request.prefill_stats" in facts) == (stats <= facts.keys()) == ("PrefillStats" in facts)


@pytest.mark.parametrize("release", RELEASES)
def test_schedulers_have_what_is_observed_of_them(release):
    """Overridden methods and what is read of a plan are there in every release, the oldest included."""
    facts = at_release(HISTORY, release)
    overridden = {n for n, v in vars(scheduler.SchedulerMixin).items() if inspect.isfunction(v)} - {
        "__init__"
    }

    assert {f"Scheduler.{name}" for name in overridden} <= facts.keys()
    assert {f"Scheduler.{name}" for name in ("vllm_config", "kv_cache_config", "requests")} <= facts.keys()
    assert parameters(facts["Scheduler._free_request"])[0] == "request"
    assert "AsyncScheduler" in facts
    assert {f"SchedulerOutput.scheduled_{what}_reqs" for what in ("new", "cached")} <= facts.keys()
    assert {f"NewRequestData.{name}" for name in ("req_id", "num_computed_tokens")} <= facts.keys()
    assert {f"CachedRequestData.{name}" for name in ("req_ids", "num_computed_tokens")} <= facts.keys()
    resumed = {f"CachedRequestData.{name}" for name in ("resumed_req_ids", "resumed_from_preemption")}
    assert resumed & facts.keys()


def test_the_stat_logger_is_whole(facts, fake_vllm, imported, monkeypatch):
    """It takes what the release gives; whether the statistics have what it needs, it checks itself."""
    monkeypatch.setattr("tierscope_probe.probe.start_probe", lambda *_, **__: None)
    fake_vllm("vllm.v1.metrics.loggers", StatLoggerBase=made_class(facts, "StatLoggerBase"))
    module = imported("tierscope_probe.stat_logger")

    logger = module.FinishedRequestLogger(vllm_config(), 0)

    given = parameters(facts["StatLoggerBase.record"].removeprefix("abstract "))
    inspect.signature(logger.record).bind(**dict.fromkeys(given))
    needed = {f"FinishedRequestStats.{name}" for name in module.NEEDED}
    assert (needed <= facts.keys()) == ("PrefillStats" in facts)  # so "0.20 or newer", as it says


@pytest.mark.parametrize("release", REFUSED)
def test_older_releases_are_refused_by_name(release, fake_vllm, imported):
    """Where a connector would cost the engine its hybrid cache, importing ours says so."""
    facts = at_release(HISTORY, release)
    fake_vllm(f"{V1}.base", KVConnectorBase_V1=made_class(facts, "KVConnectorBase_V1"))

    with pytest.raises(ImportError, match=r"0\.11\.2 or newer"):
        imported("tierscope_probe.connectors")


def test_the_readme_names_every_release(repository):
    """Whoever runs one of them finds what is known about it."""
    text = (repository / "exporters" / "probe" / "README.md").read_text("utf-8")
    table = text.partition("## Releases")[2]

    assert [release for release in RELEASES if release not in table] == []
