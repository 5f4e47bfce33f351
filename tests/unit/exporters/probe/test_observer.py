"""From the scheduler's calls to records."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace

import pytest

from tests.fake_engine import FakePrefillStats, OldRequest, Status, request
from tierscope_probe import observer as observer_module
from tierscope_probe.errors import ErrorCount
from tierscope_probe.observer import Observer


class Desk:
    """An observer at a clock that tests set, and the records it made."""

    def __init__(self, **options: object) -> None:
        self.now = 100.0
        self.drafts: list[tuple] = []
        self.errors = ErrorCount()
        self.observer = Observer(
            self.drafts.append,
            errors=self.errors,
            clock=lambda: self.now,
            **{"unit_tokens": 32, **options},
        )

    @property
    def records(self) -> list[dict]:
        return [build(*values) for build, values in self.drafts]

    def kinds(self) -> list[str]:
        return [record["t"] for record in self.records]

    def admit(self, asked, *, local=0, external=0, loads_async=False, split=None) -> None:
        """One lookup that is answered, then the allocation."""
        self.observer.looked_up(asked, local, (external, loads_async), self.now)
        self.observer.allocated(asked, external, split)


class Source(Enum):
    """A tier, as vLLM names it."""

    HOST = "host"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_allocation_is_the_admission(desk):
    """A lookup alone says nothing; with the allocation comes one record of what the engine counts."""
    asked = request(prefill_stats=FakePrefillStats(101, 64, 0))
    desk.observer.looked_up(asked, 64, (0, False), desk.now)
    assert not desk.records

    desk.now = 100.5
    desk.observer.allocated(asked, 0)

    (record,) = desk.records
    assert (record["t"], record["attempt"], record["ts"], record["arrival"]) == ("admit", 0, 100.5, 100.0)
    assert (record["prompt"], record["local"], record["external"]) == (101, 64, 0)
    assert record["ps"] == (101, 64, 0)
    assert record["hashes"] == asked.block_hashes
    assert record["lookup_wait_s"] == 0.5


def test_only_the_last_lookup_counts(desk):
    """While a request cannot be scheduled it is looked up again and again, and the answer changes."""
    asked = request(prefill_stats=None)
    for local, answer in ((96, 32), (32, None), (64, 16)):
        desk.observer.looked_up(asked, local, (answer, False), desk.now)

    desk.observer.allocated(asked, 16)

    (record,) = desk.records
    assert (record["local"], record["offered"], record["external"]) == (64, 16, 16)
    assert (record["lookups"], record["undecided"]) == (3, 1)


def test_the_second_allocation_of_an_asynchronous_load_is_its_end(desk):
    """It has no lookup before it, and is no admission."""
    asked = request(prefill_stats=FakePrefillStats(101, 0, 64))
    desk.admit(asked, external=64, loads_async=True)
    desk.now += 0.25

    desk.observer.allocated(asked, 0)
    desk.observer.allocated(asked, 0)

    assert desk.kinds() == ["admit", "loaded"]
    assert desk.records[1]["wait_s"] == 0.25


def test_a_preempted_request_is_admitted_again_outside_the_sums(desk):
    """Attempt 1 has neither hashes nor the engine's count; its first token is not told twice."""
    asked = request()
    desk.admit(asked)
    asked.prefill_stats = None
    desk.observer.stepped()
    asked.num_preemptions = 1

    desk.admit(asked, local=32)
    desk.observer.stepped()

    assert desk.kinds() == ["admit", "first", "admit"]
    again = desk.records[2]
    assert (again["attempt"], again["local"]) == (1, 32)
    assert not {"ps", "hashes"} & again.keys()


def test_a_first_token_is_told_once_by_the_step_after_it(desk):
    """The engine counts a prompt when it takes the prefill statistics away."""
    asked = request()
    desk.admit(asked)
    desk.observer.stepped()
    assert desk.kinds() == ["admit"]

    desk.now, asked.prefill_stats, asked.num_output_tokens = 101.0, None, 1
    desk.observer.stepped()
    desk.observer.stepped()

    assert desk.kinds() == ["admit", "first"]
    assert desk.records[1]["ttft_s"] == 1.0


def test_a_request_of_one_token_still_has_its_first(desk):
    """It ends before any further step; the end tells."""
    asked = request()
    desk.admit(asked)
    asked.prefill_stats, asked.num_output_tokens, asked.status = None, 1, Status.FINISHED_LENGTH_CAPPED

    desk.observer.finished(asked)

    assert desk.kinds() == ["admit", "first", "finish"]
    assert desk.records[2]["status"] == "FINISHED_LENGTH_CAPPED"


def test_a_request_aborted_in_its_prefill_has_no_first(desk):
    """The engine never counted its prompt."""
    asked = request()
    desk.admit(asked)
    asked.status = Status.FINISHED_ABORTED

    desk.observer.finished(asked)

    assert desk.kinds() == ["admit", "finish"]
    assert desk.records[1]["admitted"] is True


@pytest.mark.parametrize("looked_up", [True, False])
def test_a_request_aborted_while_waiting_was_never_admitted(desk, looked_up):
    """It may have been looked up or not; it has an end and nothing else."""
    asked = request(status=Status.FINISHED_ABORTED)
    if looked_up:
        desk.observer.looked_up(asked, 32, (0, False), desk.now)

    desk.observer.finished(asked)

    assert desk.kinds() == ["finish"]
    assert desk.records[0]["admitted"] is False


def test_before_prefill_statistics_the_arguments_are_the_truth(desk):
    """Up to 0.19 tokens come from the calls, and the first output token shows itself."""
    asked = OldRequest("cmpl-old", 90)
    desk.admit(asked, local=32, external=16)
    desk.observer.stepped()
    asked.num_output_tokens = 1
    desk.observer.stepped()

    assert desk.kinds() == ["admit", "first"]
    assert (desk.records[0]["local"], desk.records[0]["external"]) == (32, 16)
    assert "ps" not in desk.records[0]


def test_the_split_is_asked_for_the_tokens_that_are_loaded(desk):
    """Tiers are named by the engine's enumeration; without a load nobody is asked."""
    asked_for = []

    def split(_, tokens):
        asked_for.append(tokens)
        return {Source.HOST: 32, "disk": 32}

    desk.admit(request("a", prefill_stats=FakePrefillStats(101, 0, 64)), external=64, split=split)
    desk.admit(request("b"), split=split)

    assert [record["split"] for record in desk.records] == [{"host": 32, "disk": 32}, None]
    assert asked_for == [64]


def test_what_is_private_leaves_as_digests(desk):
    """Equal salts have equal digests; neither salt nor session nor foreign headers are in a record."""
    headers = {"traceparent": "00-1-2-01", "authorization": "secret-header"}
    for number in range(2):
        desk.admit(
            request(
                f"r{number}", cache_salt="secret-salt", session_id="secret-session", trace_headers=headers
            )
        )

    first, second = desk.records
    assert first["salt"] == second["salt"] != first["session"]
    assert first["trace"] == {"traceparent": "00-1-2-01"}
    assert "secret" not in repr(desk.records)


def test_hashes_of_another_size_are_understood_and_told():
    """A hybrid model hashes smaller blocks than it allocates."""
    told: list[int] = []
    desk = Desk(unit_tokens=64, other_units=lambda: (128, 32), unit_changed=told.append)

    desk.admit(request(blocks=6))

    assert len(desk.records[0]["hashes"]) == 6
    assert told == [32]


def test_hashes_of_an_unknown_size_are_left_out_and_counted(desk):
    """Better no chain than a wrong one."""
    asked = request(blocks=6)
    del asked.block_hashes[0]

    desk.admit(asked)

    assert desk.records[0]["hashes"] is None
    assert desk.errors.count == 1


def test_no_call_raises(desk):
    """A request of an unknown kind is an error counted; the scheduler never notices."""
    stranger = SimpleNamespace()

    desk.observer.looked_up(stranger, 0, (0, False), desk.now)
    desk.observer.allocated(stranger, 0)
    desk.observer.scheduled(SimpleNamespace(scheduled_new_reqs=[stranger]), {})
    desk.observer.finished(stranger)

    assert desk.errors.count == 4
    assert not desk.records


def test_requests_that_never_finish_do_not_pile_up(desk, monkeypatch):
    """The oldest is forgotten and counted when there are too many."""
    monkeypatch.setattr(observer_module, "MOST_REQUESTS", 2)
    for number in range(3):
        desk.observer.looked_up(request(f"r{number}"), 0, (0, False), desk.now)

    assert desk.errors.count == 1
    desk.observer.allocated(request("r2"), 0)
    assert desk.records[0]["lookups"] == 1


def test_a_plan_admits_what_is_new_or_resumed(desk):
    """The scheduler form: running requests are no admissions, resumed ones have attempt 1."""
    new, resumed, running = request("new"), request("resumed"), request("running")
    requests = {asked.request_id: asked for asked in (new, resumed, running)}
    plan = SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id="new", num_computed_tokens=0)],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=["running", "resumed"], resumed_req_ids={"resumed"}, num_computed_tokens=[90, 32]
        ),
    )
    resumed.num_preemptions = 1

    desk.observer.scheduled(plan, requests)

    assert [(record["rid"], record["attempt"]) for record in desk.records] == [("new", 0), ("resumed", 1)]
    assert "lookups" not in desk.records[0]


def test_old_plans_flag_what_is_resumed(desk):
    """Up to 0.11 a list of flags stands where the set of ids is today."""
    resumed = request("resumed", num_preemptions=1)
    cached = SimpleNamespace(
        req_ids=["running", "resumed"], resumed_from_preemption=[False, True], num_computed_tokens=[90, 32]
    )

    desk.observer.scheduled(
        SimpleNamespace(scheduled_new_reqs=[], scheduled_cached_reqs=cached), {"resumed": resumed}
    )

    assert [record["rid"] for record in desk.records] == ["resumed"]


def test_time_in_the_scheduler_is_added_up_by_call():
    """Each call's time and number are told, so that the cost can be judged."""
    ticks = iter(range(0, 1000, 5))
    desk = Desk(stopwatch=lambda: next(ticks))

    desk.admit(request())
    desk.observer.stepped()

    assert desk.observer.calls == {"lookup": 1, "alloc": 1, "meta": 1, "finish": 0}
    assert desk.observer.spent_ns == {"lookup": 5, "alloc": 5, "meta": 5, "finish": 0}
