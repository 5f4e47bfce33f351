"""Whether Tierscope itself sees, keeps and tells everything: what every other number rests on."""

from __future__ import annotations

from dashboards.boards.empty import NO_ADVICE, NO_COLLECTOR, NO_SOURCES
from dashboards.layout import Section, board
from dashboards.panels import (
    BATCHES_PER_SECOND,
    BYTES,
    COMMITS_PER_SECOND,
    COUNT,
    MESSAGES_PER_SECOND,
    RATIO,
    RESTARTS_PER_SECOND,
    ROWS_PER_SECOND,
    SAMPLES_PER_SECOND,
    SECONDS,
    SPANS_PER_SECOND,
    STATE,
    TIMES_PER_SECOND,
    Panel,
    Query,
    Question,
    lines,
    listing,
    states,
)
from dashboards.queries import capacity, pipeline, sources, tokens
from tierscope.registry.advice_metrics import ADVICE_AGE_SECONDS
from tierscope.registry.metrics import (
    COMMIT_WAIT_SECONDS,
    COMPLETENESS,
    DROPPED_SAMPLES,
    ENGINE_TOKENS,
    FEED_BATCHES,
    FINDING,
    KUBE_WATCH_UP,
    METRIC_PUSHES,
    SOURCE_MESSAGES,
    SOURCE_READ_SECONDS,
    SOURCE_RESTARTS,
    SOURCE_UP,
    SPANS_BY_RESULT,
    STORE_BYTES,
    STORE_REFUSALS,
    STORED_ROWS,
    UNKNOWN_INPUT,
)
from tierscope.registry.store_metrics import RETIRED_ROWS, STORE_HISTORY_SECONDS

NAMED, LISTED = 10, 50
"""Sources named on a panel and in a table, whatever their number."""


def pipeline_board() -> str:
    """The board as classic dashboard JSON."""
    return board(
        "tierscope-pipeline",
        "Tierscope / Pipeline health",
        "Do we see everything, keep it, and hand it on? What is down, incomplete or behind here is missing "
        "from every other board; it is not zero there.",
        [
            Section("Sources", [_up(), _down()]),
            Section("Findings", [_findings()], height=7),
            Section("What arrives", [_complete(), _least_complete(), _received()]),
            Section("What does not", [_lost(), _unknown()], height=10),
            Section("How sources are read", [_restarts(), _slow()]),
            Section("Do records and engines agree?", [_agreement()], height=6),
            Section("Feed and commits", [_feed(), _wait(), _refused()]),
            Section("The store", [_rows(), _bytes(), _history(), _retired()]),
            Section("What is told on", [_advice(), _kube()]),
            Section("Our own telemetry", [_spans(), _pushes(), _dropped()]),
        ],
    )


def _up() -> Panel:
    question = Question(
        "Source up", SOURCE_UP, NO_SOURCES, "Down if one source of a kind cannot be read by someone."
    )
    return states(question, Query(sources.kinds_up(), "{{kind}}"))


def _down() -> Panel:
    question = Question("Sources that are down", SOURCE_UP, "Every source is read, or no exporter is scraped")
    return listing(question, Query(sources.sources_down(LISTED), ""), unit=STATE, of="up")


def _findings() -> Panel:
    question = Question("Findings", FINDING, "Nothing is found wrong, or no exporter is scraped")
    return listing(question, Query(pipeline.findings(LISTED), ""), unit=COUNT, of="found")


def _complete() -> Panel:
    question = Question(
        "Completeness", COMPLETENESS, NO_SOURCES, "Of the source of a kind that is least complete."
    )
    return lines(question, [Query(sources.completeness_by_kind(), "{{kind}}")], unit=RATIO, largest=1)


def _least_complete() -> Panel:
    question = Question(
        f"The {NAMED} least complete", COMPLETENESS, "Every stream is complete, or no exporter is scraped"
    )
    return lines(question, [Query(sources.least_complete(NAMED), "{{source}}")], unit=RATIO, largest=1)


def _received() -> Panel:
    question = Question(
        "Received", SOURCE_MESSAGES, NO_SOURCES, "What the losses beside it are to be read against."
    )
    return lines(question, [Query(pipeline.received_by_kind(), "{{kind}}")], unit=MESSAGES_PER_SECOND)


def _lost() -> Panel:
    question = Question("Lost or unreadable", SOURCE_MESSAGES, "Nothing was lost in this time")
    lost = Query(sources.lost_messages(NAMED), "{{source}} {{result}}")
    return lines(question, [lost], unit=MESSAGES_PER_SECOND)


def _unknown() -> Panel:
    question = Question("Not understood", UNKNOWN_INPUT, "Everything was understood in this time")
    return lines(question, [Query(pipeline.unknown_input(), "{{kind}} {{what}}")], unit=MESSAGES_PER_SECOND)


def _restarts() -> Panel:
    question = Question("Restarts of sources", SOURCE_RESTARTS, "No source restarted in this time")
    return lines(question, [Query(pipeline.restarts(), "{{kind}}")], unit=RESTARTS_PER_SECOND)


def _slow() -> Panel:
    question = Question("Time to read a source", SOURCE_READ_SECONDS, NO_SOURCES, "Of the slowest of a kind.")
    return lines(question, [Query(pipeline.slowest_read(), "{{kind}}")], unit=SECONDS)


def _agreement() -> Panel:
    question = Question(
        "Tokens in records over tokens in the engines' counters",
        ENGINE_TOKENS,
        "No engine counted a prompt token in this time, or no engine's page is read: see Source up",
        "1 is agreement; rates of both are taken over the same time.",
        "tierscope-engines",
    )
    return lines(question, [Query(tokens.agreement_ratio(), "agreement")], unit=RATIO)


def _feed() -> Panel:
    question = Question("Feed", FEED_BATCHES, NO_SOURCES, "Batches of all exporters.")
    return lines(question, [Query(pipeline.feed_batches(), "published")], unit=BATCHES_PER_SECOND)


def _wait() -> Panel:
    question = Question("Behind the present", COMMIT_WAIT_SECONDS, NO_COLLECTOR)
    return lines(question, [Query(pipeline.commit_wait(), "{{instance}}")], unit=SECONDS)


def _refused() -> Panel:
    question = Question("Commits refused by the store", STORE_REFUSALS, NO_COLLECTOR, "Each is tried again.")
    return lines(question, [Query(pipeline.refusals(), "{{instance}}")], unit=COMMITS_PER_SECOND)


def _rows() -> Panel:
    question = Question("Rows committed", STORED_ROWS, NO_COLLECTOR)
    return lines(question, [Query(pipeline.stored_rows(), "{{table}}")], unit=ROWS_PER_SECOND)


def _bytes() -> Panel:
    question = Question(
        "Size of the store", STORE_BYTES, NO_COLLECTOR, "At its limit the oldest hours are reduced."
    )
    return lines(
        question,
        [
            Query(pipeline.store_bytes(), "{{instance}} on disk"),
            Query(pipeline.store_used_bytes(), "{{instance}} used"),
            Query(pipeline.store_limit_bytes(), "{{instance}} limit"),
        ],
        unit=BYTES,
    )


def _history() -> Panel:
    question = Question("How far back", STORE_HISTORY_SECONDS, NO_COLLECTOR)
    return lines(question, [Query(pipeline.store_history(), "{{stage}}")], unit=SECONDS)


def _retired() -> Panel:
    question = Question("Rows reduced or deleted", RETIRED_ROWS, NO_COLLECTOR)
    return lines(question, [Query(pipeline.retired_rows(), "{{table}}")], unit=ROWS_PER_SECOND)


def _advice() -> Panel:
    question = Question("Age of the advice", ADVICE_AGE_SECONDS, NO_ADVICE, "", "tierscope-capacity")
    return lines(question, [Query(capacity.advice_age(), "{{namespace}}/{{endpoint}}")], unit=SECONDS)


def _kube() -> Panel:
    question = Question("Kubernetes watch", KUBE_WATCH_UP, "No collector watches a Kubernetes API")
    return states(question, Query(pipeline.kube_watch(), "{{resource}}"))


def _spans() -> Panel:
    question = Question("Spans", SPANS_BY_RESULT, "No exporter is told to emit spans")
    return lines(question, [Query(pipeline.spans_by_result(), "{{result}}")], unit=SPANS_PER_SECOND)


def _pushes() -> Panel:
    question = Question("Pushes over OTLP", METRIC_PUSHES, "No process is told to push its metrics")
    return lines(question, [Query(pipeline.pushes_by_result(), "{{result}}")], unit=TIMES_PER_SECOND)


def _dropped() -> Panel:
    question = Question(
        "Samples left out", DROPPED_SAMPLES, NO_SOURCES, "Each is a fault of ours: the log names it."
    )
    return lines(question, [Query(pipeline.dropped_samples(), "{{reason}}")], unit=SAMPLES_PER_SECOND)
