"""What vLLM and LMCache say themselves, for where nothing of ours runs yet, or to hold against ours."""

from __future__ import annotations

from dashboards.layout import Section, board
from dashboards.panels import (
    BLOCKS_PER_SECOND,
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    EVENTS_PER_SECOND,
    PREEMPTIONS_PER_SECOND,
    RATIO,
    SECONDS,
    TOKENS,
    TOKENS_PER_SECOND,
    Panel,
    Query,
    Question,
    lines,
)
from dashboards.promql import CLUSTER
from dashboards.queries import engines
from dashboards.variables import Variable, datasource_variable, label_variables
from tierscope.registry import engine_metrics as rows
from tierscope.registry.engine_metrics import EngineMetric

UID = "tierscope-engines"
NO_ENGINE = "No vLLM engine is scraped by this Prometheus, or none had a request in this time"
NO_CONNECTOR = "No engine asks a KV connector, or none had a request in this time"
NO_SERVER = "No LMCache multiprocess server is scraped by this Prometheus, or nothing was looked up"
NO_INSIDE = "No engine with LMCache inside is scraped by this Prometheus, or nothing was looked up"
MODEL = "{{model_name}}"


def engines_board() -> str:
    """The board as classic dashboard JSON."""
    return board(
        UID,
        "Tierscope / Engines' own metrics",
        "What do vLLM (0.8 to 0.33) and LMCache say themselves, without anything of ours? Read under every "
        "name that their releases used. They do not tell tiers apart as the other boards do, and some of "
        "these counters are known to lie: where an exporter runs, its findings say which.",
        [
            Section("vLLM: what its caches served", [_l0(), _connector(), _tokens()]),
            Section("vLLM: where prompt tokens came from", [_by_source(), _cached_by_source(), _lengths()]),
            Section("vLLM: waiting", [_ttft(), _queue(), _prefill()]),
            Section("vLLM: load and L0", [_requests(), _usage(), _preemptions()]),
            Section("LMCache server: lookups", [_server_hits(), _server_lookups()]),
            Section(
                "LMCache server: chunks", [_server_l1(), _server_l2(), _server_usage(), _server_dropped()]
            ),
            Section(
                "LMCache inside engines", [_inside_hits(), _inside_holds(), _inside_leaves(), _inside_moves()]
            ),
        ],
        _variables(),
    )


def _variables() -> list[Variable]:
    labels = {CLUSTER: "Cluster", "namespace": "Namespace", "model_name": "Model", "instance": "Engine"}
    names = "|".join(rows.PROMPT.spellings)
    return [datasource_variable(), *label_variables(f'{{__name__=~"{names}"}}', labels)]


def _l0() -> Panel:
    question = Question(
        "Hit ratio of L0, by vLLM", rows.HITS, NO_ENGINE, "Of the tokens looked up at admission."
    )
    return lines(question, [Query(engines.l0_hit_ratio(), MODEL)], unit=RATIO, largest=1)


def _connector() -> Panel:
    question = Question(
        "Connector hit ratio, by vLLM",
        rows.EXTERNAL_HITS,
        NO_CONNECTOR,
        "Of what L0 left over: L1 and L2 together. What was offered counts even where its load failed.",
    )
    return lines(question, [Query(engines.connector_hit_ratio(), MODEL)], unit=RATIO, largest=1)


def _tokens() -> Panel:
    question = Question("Prompt tokens", rows.PROMPT, NO_ENGINE)
    return lines(question, [Query(engines.by_model(rows.PROMPT), MODEL)], unit=TOKENS_PER_SECOND)


def _by_source() -> Panel:
    question = Question("By source, since 0.16", rows.BY_SOURCE, f"No engine of 0.16 or later. {NO_ENGINE}")
    return lines(
        question,
        [Query(engines.by_source(rows.BY_SOURCE), "{{source}}")],
        unit=TOKENS_PER_SECOND,
        stacked=True,
    )


def _cached_by_source() -> Panel:
    question = Question(
        "Cached, by source, since 0.32",
        rows.CACHED_BY_SOURCE,
        f"No engine of 0.32 or later. {NO_ENGINE}",
        "Device is L0, host L1, disk L2; `external_unspecified` is what a connector did not tell.",
    )
    cached = Query(engines.by_source(rows.CACHED_BY_SOURCE), "{{source}}")
    return lines(question, [cached], unit=TOKENS_PER_SECOND, stacked=True)


def _lengths() -> Panel:
    question = Question(
        "Tokens of a prompt, and those computed",
        rows.PROMPT_LENGTH,
        NO_ENGINE,
        "Means over finished requests; what was computed is told since 0.14.",
    )
    both = [
        Query(engines.mean_of(rows.PROMPT_LENGTH), f"{MODEL} prompt"),
        Query(engines.mean_of(rows.COMPUTED_LENGTH), f"{MODEL} computed"),
    ]
    return lines(question, both, unit=TOKENS)


def _quantiles(title: str, metric: EngineMetric, note: str = "") -> Panel:
    question = Question(title, metric, NO_ENGINE, note)
    shares = [
        Query(engines.quantile_of(metric, share), f"{MODEL} p{share * 100:.0f}") for share in (0.5, 0.9)
    ]
    return lines(question, shares, unit=SECONDS)


def _ttft() -> Panel:
    return _quantiles("TTFT, by vLLM", rows.TTFT)


def _queue() -> Panel:
    return _quantiles(
        "Queue", rows.QUEUE, "Of finished requests. Its first bucket ends at 0.3 s: less is a guess."
    )


def _prefill() -> Panel:
    return _quantiles(
        "Prefill", rows.PREFILL, "Of finished requests. Its first bucket ends at 0.3 s: less is a guess."
    )


def _requests() -> Panel:
    question = Question("Requests now", rows.WAITING, NO_ENGINE)
    both = [
        Query(engines.now_by_model(rows.RUNNING), f"{MODEL} running"),
        Query(engines.now_by_model(rows.WAITING), f"{MODEL} waiting"),
    ]
    return lines(question, both, unit=COUNT)


def _usage() -> Panel:
    question = Question(
        "In use by running requests",
        rows.USAGE,
        NO_ENGINE,
        "What is cached beyond them counts as free: this is no fill.",
    )
    both = [Query(engines.usage("avg"), f"{MODEL} mean"), Query(engines.usage("max"), f"{MODEL} fullest")]
    return lines(question, both, unit=RATIO, largest=1)


def _preemptions() -> Panel:
    question = Question("Preemptions", rows.PREEMPTIONS, NO_ENGINE)
    return lines(question, [Query(engines.by_model(rows.PREEMPTIONS), MODEL)], unit=PREEMPTIONS_PER_SECOND)


def _server_hits() -> Panel:
    question = Question(
        "Hit ratio, by LMCache",
        rows.SERVER_HIT_L1,
        NO_SERVER,
        "What a tier could serve, also where L0 had it already. L2 is of what L1 did not have.",
    )
    both = [
        Query(engines.server_hit_ratio(rows.SERVER_HIT_L1), "l1"),
        Query(engines.server_hit_ratio(rows.SERVER_HIT_L2, rows.SERVER_HIT_L1), "l2"),
    ]
    return lines(question, both, unit=RATIO, largest=1)


def _server_lookups() -> Panel:
    question = Question("Tokens looked up", rows.SERVER_REQUESTED, NO_SERVER, "Whole chunks alone.")
    parts = [
        Query(engines.total(rows.SERVER_REQUESTED), "asked"),
        Query(engines.total(rows.SERVER_HIT_L1), "l1"),
        Query(engines.total(rows.SERVER_HIT_L2), "l2"),
    ]
    return lines(question, parts, unit=TOKENS_PER_SECOND)


def _server_l1() -> Panel:
    question = Question(
        "Chunks of L1",
        rows.SERVER_L1_EVICTED,
        NO_SERVER,
        "Written holds what came up from L2; evicted mixes want of room, clears and drops after one read.",
    )
    parts = [
        Query(engines.total(rows.SERVER_L1_WRITTEN), "written"),
        Query(engines.total(rows.SERVER_L1_EVICTED), "evicted"),
        Query(engines.total(rows.SERVER_L1_FAILED), "no room"),
    ]
    return lines(question, parts, unit=BLOCKS_PER_SECOND)


def _server_l2() -> Panel:
    question = Question(
        "Chunks of L2", rows.SERVER_L2_STORED, NO_SERVER, "Stored counts what was there already."
    )
    parts = [
        Query(engines.total(rows.SERVER_L2_STORED), "stored"),
        Query(engines.total(rows.SERVER_L2_LOADED), "loaded"),
    ]
    return lines(question, parts, unit=BLOCKS_PER_SECOND)


def _server_usage() -> Panel:
    question = Question("Fill of L1, by LMCache", rows.SERVER_L1_USAGE, NO_SERVER)
    both = [
        Query(engines.over_all("avg", rows.SERVER_L1_USAGE), "mean"),
        Query(engines.over_all("max", rows.SERVER_L1_USAGE), "fullest"),
    ]
    return lines(question, both, unit=RATIO, largest=1)


def _server_dropped() -> Panel:
    question = Question(
        "Events the server dropped",
        rows.SERVER_DROPPED,
        NO_SERVER,
        "Above 0 its counters of tiers are too small.",
    )
    return lines(question, [Query(engines.total(rows.SERVER_DROPPED), "dropped")], unit=EVENTS_PER_SECOND)


def _inside_hits() -> Panel:
    question = Question("Hit ratio, by LMCache inside", rows.INSIDE_FOUND, NO_INSIDE, "L1 and L2 together.")
    return lines(question, [Query(engines.inside_hit_ratio(), "found")], unit=RATIO, largest=1)


def _inside_holds() -> Panel:
    question = Question("Bytes of L1, by LMCache inside", rows.INSIDE_L1_BYTES, NO_INSIDE)
    return lines(question, [Query(engines.over_all("sum", rows.INSIDE_L1_BYTES), "in use")], unit=BYTES)


def _inside_leaves() -> Panel:
    question = Question(
        "Chunks that leave L1",
        rows.INSIDE_L1_EVICTED,
        NO_INSIDE,
        "Of the worker of an engine that counts most.",
    )
    both = [
        Query(engines.of_one_worker(rows.INSIDE_L1_EVICTED), "evicted"),
        Query(engines.of_one_worker(rows.INSIDE_L1_REFUSED), "no room"),
    ]
    return lines(question, both, unit=BLOCKS_PER_SECOND)


def _inside_moves() -> Panel:
    question = Question("Bytes to and from L2, by LMCache inside", rows.INSIDE_L2_READ_BYTES, NO_INSIDE)
    both = [
        Query(engines.total(rows.INSIDE_L2_READ_BYTES), "read"),
        Query(engines.total(rows.INSIDE_L2_WRITTEN_BYTES), "written"),
    ]
    return lines(question, both, unit=BYTES_PER_SECOND)
