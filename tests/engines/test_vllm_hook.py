"""The probe inside a real vLLM: what it records is what the engine counts and what its clients are told."""

from __future__ import annotations

import socket
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import pytest

from tests.engines import hook
from tests.engines.environment import PINS, distributions
from tests.engines.page import Page
from tests.engines.server import BLOCK_TOKENS, EngineServer, transfer_config
from tests.engines.workload import Sent, Workload
from tests.ports import free_ports

ANY_PORT = "tcp://127.0.0.1:0"


@dataclass(frozen=True)
class Run:
    """One workload: what clients know, what the probe recorded, what the engine counted."""

    sent: list[Sent]
    records: list[hook.Record]
    page: Page
    summaries: list[hook.Record]

    def of(self, kind: str) -> list[hook.Record]:
        """Records of one kind, in order."""
        return [record for record in self.records if record["t"] == kind]

    @cached_property
    def counted(self) -> list[hook.Record]:
        """The admissions that belong in token sums: first ones, whose request reached its first token."""
        reached = {record["rid"] for record in self.of("first")}
        return [record for record in self.of("admit") if record["attempt"] == 0 and record["rid"] in reached]

    def sum(self, field: str) -> int:
        """Tokens of one kind over the counted admissions."""
        return sum(int(str(record[field])) for record in self.counted)


@pytest.fixture(scope="module")
def run(vllm, tmp_path_factory) -> Run:
    """The whole workload on an engine without a connector of its own, observed by two forms of the probe."""
    folder = tmp_path_factory.mktemp("alone")
    settings = {
        "endpoint": ANY_PORT,
        "replay_endpoint": ANY_PORT,
        "address_file": str(folder / "{form}-{rank}.json"),
    }
    arguments = transfer_config("ObservingConnector", tierscope=settings)
    environ = {"TIERSCOPE_PROBE_STAT_LOGGER": "1"}
    with (
        EngineServer(vllm, folder, arguments=arguments, environ=environ) as server,
        Workload(server.url) as workload,
    ):
        sent = workload.run()
        records = hook.read_all(hook.addresses(folder / "alone-0.json"))
        summaries = hook.read_all(hook.addresses(folder / "stat_logger-0.json"))
        return Run(sent, records, Page(server.metrics()), summaries)


def test_the_workload_had_what_makes_counting_hard(run):
    """Enough requests, evictions, a preemption, a queue, and clients that left at every stage."""
    finishes = run.of("finish")

    assert len(run.sent) >= 200
    assert run.page.total("vllm:num_preemptions_total") >= 1
    assert run.page.total("vllm:prefix_cache_hits_total") > 0
    assert max(record["lookups"] for record in run.of("admit")) > 10
    assert sum(record["status"] == "FINISHED_ABORTED" and record["admitted"] for record in finishes) >= 1
    assert sum(not record["admitted"] for record in finishes) >= 1


def test_sums_over_records_are_the_engines_own_counters(run):
    """Prompt, local, external and computed tokens: none off."""
    by_source = "vllm:prompt_tokens_by_source_total"

    assert run.sum("prompt") == run.page.total("vllm:prompt_tokens_total")
    assert run.sum("local") == run.page.total(by_source, source="local_cache_hit")
    assert run.sum("local") == run.page.total("vllm:prefix_cache_hits_total")
    assert run.sum("external") == run.page.total(by_source, source="external_kv_transfer") == 0
    computed = run.sum("prompt") - run.sum("local") - run.sum("external")
    assert computed == run.page.total(by_source, source="local_compute")


def test_each_request_has_the_cached_tokens_its_client_was_told(run):
    """Local and external tokens of a record are the API's `cached_tokens`, or those of one child of n."""
    admissions = defaultdict(list)
    for record in run.counted:
        admissions[hook.client_id(record)].append(record)
    answered = [sent for sent in run.sent if sent.cached_tokens is not None]

    for sent in answered:
        records = admissions[sent.request_id]
        assert len(records) == sent.answers
        assert {record["prompt"] for record in records} == {sent.prompt_tokens}
        assert sent.cached_tokens in [record["local"] + record["external"] for record in records]


def test_every_readmission_follows_a_preemption(run):
    """Attempts above 0 are as many as the engine's preemptions, and none is in the sums."""
    again = [record for record in run.of("admit") if record["attempt"] > 0]

    assert len(again) == run.page.total("vllm:num_preemptions_total")
    assert not [record for record in again if "hashes" in record]


def test_every_full_block_of_a_prompt_has_a_hash(run):
    """Chains are whole, deltas resolve, and equal prefixes have equal hashes."""
    chains = hook.chains(run.records)
    admissions = [record for record in run.of("admit") if record["attempt"] == 0]

    assert all(len(chains[record["rid"]]) == record["prompt"] // BLOCK_TOKENS for record in admissions)
    assert sum(isinstance(record["hashes"], dict) for record in admissions) > len(admissions) / 2


def test_a_hit_names_blocks_that_were_seen_before(run):
    """What an admission finds in the cache was in an earlier prompt, or in a conversation's own answers."""
    chains = hook.chains(run.records)
    seen: set[bytes] = set()
    for record in run.of("admit"):
        chain = chains.get(record["rid"], [])
        if record["attempt"] == 0 and "conversation" not in record["rid"]:
            assert seen.issuperset(chain[: record["local"] // BLOCK_TOKENS])
        seen.update(chain)


def test_salts_stay_private_and_apart(run):
    """A salt is known by its digest alone, and equal prompts of two salts share no block."""
    salted = [record for record in run.of("admit") if record.get("salt")]
    chains = hook.chains(run.records)
    by_salt = {record["salt"]: chains[record["rid"]] for record in salted}

    assert len(by_salt) == 2
    assert "tenant" not in repr(run.records)
    first, second = by_salt.values()
    assert not set(first) & set(second)


def test_the_probe_had_no_trouble(run):
    """Nothing dropped, nothing caught; and what it cost, printed for the reader."""
    stats = run.of("stats")[-1]

    assert (stats["errors"], stats["dropped"]) == (0, 0)
    report_cost(stats, requests=len(run.of("finish")))


def test_the_stat_logger_tells_the_same_totals(run):
    """The last resort knows prompt and cached tokens of every request that finished on its own."""
    summaries = [record for record in run.summaries if record["t"] == "summary"]
    ended = {record["rid"] for record in run.of("finish") if record["status"] != "FINISHED_ABORTED"}
    finished = [record for record in run.counted if record["rid"] in ended]

    assert len(summaries) == len(finished)
    assert sum(record["prompt"] for record in summaries) == sum(record["prompt"] for record in finished)
    cached = sum(record["local"] + record["external"] for record in finished)
    assert sum(record["cached"] for record in summaries) == cached


def test_an_engine_serves_although_the_probes_port_is_taken(vllm, tmp_path):
    """The scheduler form, set by environment: no answer waits for the port, no record is lost with it."""
    port = free_ports(2)
    endpoints = hook.Addresses(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}")
    environ = {
        "TIERSCOPE_PROBE_ENDPOINT": endpoints.endpoint,
        "TIERSCOPE_PROBE_REPLAY_ENDPOINT": endpoints.replay_endpoint,
    }
    arguments = ("--scheduler-cls", "tierscope_probe.scheduler.observing_scheduler")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with (
            EngineServer(vllm, tmp_path, arguments=arguments, environ=environ) as server,
            Workload(server.url, scale=0.2) as workload,
        ):
            for phase in (workload.shared_prompt, workload.oddities, workload.long_answers, workload.mixed):
                phase()
            workload.leaving_while_generating()
            taken.close()
            records = hook.read_all(endpoints, quiet_seconds=12)
            run = Run(workload.sent, records, Page(server.metrics()), [])

    assert run.of("hello")[0]["form"] == "scheduler"
    assert run.of("stats")[-1]["errors"] >= 1
    assert run.of("stats")[-1]["dropped"] == 0
    assert run.sum("prompt") == run.page.total("vllm:prompt_tokens_total") > 0
    assert run.sum("local") == run.page.total("vllm:prefix_cache_hits_total") > 0
    readmissions = [record for record in run.of("admit") if record["attempt"] > 0]
    assert len(readmissions) == run.page.total("vllm:num_preemptions_total")
    left = [record["status"] for record in run.of("finish") if "-leaving-" in record["rid"]]
    assert len(left) == 3
    # A busy server hears of a client that hung up when the answer is whole already.
    assert "FINISHED_ABORTED" in left
    report_cost(run.of("stats")[-1], requests=len(run.of("finish")))


def test_the_probe_touches_no_pin(vllm):
    """Beside the probe the environment holds what its pins say."""
    pins = {line for line in PINS.read_text("utf-8").splitlines() if line and not line.startswith("#")}
    names = {pin.split("==")[0].lower() for pin in pins}

    installed = {line for line in distributions(vllm) if line.split("==")[0].lower() in names}

    assert installed == pins


def report_cost(stats: hook.Record, *, requests: int) -> None:
    """Print the time spent on the scheduler's thread."""
    spent, calls = stats["ns"], stats["n"]
    each = {kind: f"{spent[kind] / max(1, calls[kind]) / 1000:.1f} µs × {calls[kind]}" for kind in spent}
    total = sum(spent.values()) / 1000
    print(f"\nin the scheduler's thread: {total / requests:.1f} µs a request over {requests}; {each}")
    print(f"in the sender's thread: {stats['enc_ns'] / 1000 / requests:.1f} µs a request")
