"""`tierscope regress`: did TTFT get worse than its prompts explain, since when, and who did it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.cli.asking import Document, get, one_of
from tierscope.cli.options import Json
from tierscope.domain.errors import BadInput
from tierscope.domain.severity import Severity

if TYPE_CHECKING:
    from pydantic import JsonValue

FINDINGS_STATUS = 3
"""Exit status where something at or above --fail-on was found."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def regress(
    since: Annotated[
        str, typer.Option(help="Judge what came after: 90m, 2h, 1d before now, or unix seconds.")
    ] = "1h",
    store: Annotated[
        Path | None, typer.Option(help="File of a store that no collector has open, or a lake's name.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="API to ask instead.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="NS/NAME; may be left out where there is one.")] = None,
    learn: Annotated[str, typer.Option(help="How much history before that says what is usual.")] = "6h",
    fail_on: Annotated[
        Severity | None,
        typer.Option(help="Exit with 3 for a finding of this severity or worse: for CI of a rollout."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge an endpoint's TTFT against its own past: one sentence a regression, or that there is none.

    `warning`: it goes on; `critical`: by half and more; `info`: it is over.
    """
    from tierscope.cli.output import print_json

    if (store is None) == (url is None):
        raise typer.BadParameter("name one of --store and --url")
    now = time.time()
    start = _moment(since, now)
    learn_seconds = _span(learn, "--learn")
    if url is not None:
        document = _from_api(url, endpoint, start, learn_seconds)
    else:
        assert store is not None
        document = _from_store(store, endpoint, start, learn_seconds, now)
    if as_json:
        print_json(document)
    else:
        _print(document)
    severity = document["severity"]
    if fail_on is not None and severity is not None:
        order = list(Severity)
        if order.index(Severity(str(severity))) >= order.index(fail_on):
            raise typer.Exit(FINDINGS_STATUS)


def _from_store(path: Path, endpoint: str | None, start: float, learn_seconds: float, now: float) -> Document:
    from tierscope.analytics.regression.report import regress as judge
    from tierscope.domain.window import TimeSpan, changes_within
    from tierscope.storage.duckdb_reader import DuckDbReader

    reader = DuckDbReader.open(path)
    try:
        name = one_of(["/".join(known) for known in reader.endpoints()], endpoint, where=str(path))
        span = TimeSpan(start - learn_seconds, now)
        evidence, known = reader.evidence(*name, span), reader.deployments(*name, span)
    finally:
        reader.close()
    changes = changes_within(known, span)
    return judge(evidence, "/".join(name), start, changes_unix_seconds=changes).to_json()


def _from_api(url: str, endpoint: str | None, start: float, learn_seconds: float) -> Document:
    if endpoint is None:
        raise BadInput("which endpoint is not said", where=url, fix="name it with --endpoint NS/NAME")
    return get(f"{url.rstrip('/')}/v1/regressions/{endpoint}?since={start}&learn_seconds={learn_seconds}")


def _print(document: Document) -> None:
    from tierscope.cli.output import stdout

    found, earlier, groups = document["regressions"], document["earlier"], document["groups"]
    assert isinstance(found, list)
    assert isinstance(earlier, list)
    assert isinstance(groups, list)
    if document["state"] == "not_judged":
        stdout.print(
            f"{document['endpoint']}: {document['baseline_requests']} requests before that moment are too "
            "few to say "
            "what is usual; give a later --since or a longer --learn"
        )
    elif not found:
        stdout.print(
            f"{document['endpoint']}: no new regression among {document['requests']} requests, held against "
            f"{document['baseline_requests']} before"
        )
    for one in found:
        assert isinstance(one, dict)
        stdout.print(str(one["sentence"]), soft_wrap=True)
    for one in earlier:
        assert isinstance(one, dict)
        stdout.print(f"from before that moment, and going on: {one['sentence']}", soft_wrap=True)
    if document["state"] != "not_judged":
        for note in _notes(str(document["endpoint"]), groups):
            stdout.print(note, soft_wrap=True)


def _notes(endpoint: str, groups: list[JsonValue]) -> Iterator[str]:
    """Groups that are not judged, or not by requests of their own."""
    from tierscope.analytics.regression.groups import Group
    from tierscope.analytics.regression.words import named

    for one in groups:
        assert isinstance(one, dict)
        who = named(endpoint, Group(str(one["model"]), str(one["workload"])), alone=len(groups) == 1)
        own = f"{one['before_requests']} requests of its own before that moment"
        if one["state"] == "not_judged":
            yield f"{who}: not judged, {own} are too few to say what is usual"
        elif one["baseline_workload"] != one["workload"]:
            yield f"{who}: held against {one['baseline_requests']} of {one['baseline_workload']}, with {own}"


def _moment(text: str, now: float) -> float:
    """Unix seconds before now; raises `BadInput` for any other, milliseconds and NaN among them."""
    try:
        at = float(text)
    except ValueError:
        at = now - _span(text, "--since")
    if not (math.isfinite(at) and at < now):
        raise BadInput(
            f"{text!r} is not in the past",
            where="--since",
            fix="write 90m, 2h or 1d, or unix seconds before now; milliseconds are too many",
        )
    return at


def _span(text: str, option: str) -> float:
    number, unit = text[:-1], UNITS.get(text[-1:])
    if unit is None or not number.replace(".", "", 1).isdigit():
        raise BadInput(f"{text!r} is no span of time", where=option, fix="write 90s, 15m, 2h or 1d")
    return float(number) * unit
